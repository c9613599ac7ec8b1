//! Answers Fetch: batches as stored, from their files.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brokerless_core::ReadAt;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, ProducerId};
use kafka_protocol::protocol::{HeaderVersion, StrBytes};
use uuid::Uuid;

use crate::answers::call::{Answered, Call, Step, Threads};
use crate::answers::session::{Fetching, Key, Wanted};
use crate::answers::shared::Login;
use crate::base::directory::{Partition, Refusal, Topics};
use crate::base::memory::Share;
use crate::base::options::Address;
use crate::base::read_log::{Client, Read};
use crate::base::sync::lock;
use crate::log::partitions::Partitions;
use crate::log::records::Range;
use crate::log::segment::Segment;
use crate::protocol::wire::{Part, Reply, encode, put_text, put_varint};

/// The first version with compact lengths and tagged fields.
const FLEXIBLE: i16 = 12;
/// The first version that names topics by their ids.
const WITH_IDS: i16 = 13;
/// The first version whose response names the leader's endpoint (KIP-951).
const WITH_ENDPOINTS: i16 = 16;

/// The maximum number of files in a response, which stay open until it is sent. Above this number, small ranges are
/// read into memory.
const MOST_FILES: usize = 256;
/// The maximum number of bytes read into memory for one range, and for a whole response.
const SMALL: u64 = 64 << 10;
const MOST_COPIED: u64 = 8 << 20;
/// The shortest pause before a waiting fetch checks again for records.
const LOOK: Duration = Duration::from_millis(100);
/// The pause before a waiting fetch checks again, as a multiple of the duration of its last check.
const REST: u32 = 20;
/// The memory of a requested partition while a fetch waits, and the memory of the answer for it.
const OF_WANTED: usize = 128;
const OF_ANSWER: usize = 1024;
const OF_ABORTED: usize = 64;
/// The maximum number of characters of a client's name in the log of reads. A name may have 32 KB.
const MOST_CLIENT_ID: usize = 256;

/// Answers a fetch as soon as there are enough records, or the client's maximum wait is over.
pub(super) fn fetch(call: Arc<Call>) -> Answered<Step> {
    let body: FetchRequest = call.request.body()?;
    let fetching = match call.shared.sessions.fetching(&body, call.version()) {
        Ok(fetching) => fetching,
        Err(error) => return respond_error(&call, error).map(Step::reply),
    };
    let limits = &call.shared.limits;
    let max_bytes = u64::try_from(body.max_bytes)
        .unwrap_or(0)
        .min(limits.response_bytes);
    let wait = Duration::from_millis(u64::try_from(body.max_wait_ms).unwrap_or(0));
    // A waiting fetch keeps no decoded request. A session may have more partitions than the request names.
    let least = u64::try_from(body.min_bytes).unwrap_or(0).min(max_bytes);
    let is_committed = body.isolation_level == 1;
    drop(body);
    call.share.give_back_decoded(call.request.elements);
    call.charge(fetching.wanted.len() * OF_WANTED)?;
    let fetch = Fetch {
        fetching,
        bounds: Bounds {
            max_bytes,
            is_committed,
        },
        least,
        deadline: Instant::now() + wait.min(limits.idle),
        call,
    };
    Ok(fetch.look())
}

/// A fetch that may have to wait.
struct Fetch {
    call: Arc<Call>,
    fetching: Fetching,
    bounds: Bounds,
    least: u64,
    deadline: Instant,
}

impl Fetch {
    fn look(self) -> Step {
        let begun = Instant::now();
        let call = Arc::clone(&self.call);
        call.block(Threads::Fetches, move |call| {
            let share = call.shared.memory.share();
            if !share.grow(self.fetching.wanted.len() * OF_ANSWER) {
                return Err(Refusal::no_memory().into());
            }
            let found = read(call.partitions(), &self.fetching, self.bounds, share);
            let looked = begun.elapsed();
            let left = self.deadline.saturating_duration_since(Instant::now());
            let is_done = found.bytes >= self.least
                || found.has_error
                || self.fetching.wanted.is_empty()
                || left.is_zero()
                || call.shared.memory.is_short();
            if is_done {
                return self.finish(found);
            }
            // Checking thousands of partitions takes time. The pause keeps the server mostly idle.
            let rest = LOOK.max(looked * REST);
            Ok(match left <= rest {
                // At the end of its wait the client fetches again, which checks again.
                true => Step::Sleep(left, Box::new(move || self.finish(found))),
                false => Step::Sleep(rest, Box::new(move || Ok(self.look()))),
            })
        })
    }

    /// Logs the read, then responds. If the entry cannot be written to the log of reads, no records are sent.
    fn finish(self, found: Found) -> Answered<Step> {
        let call = Arc::clone(&self.call);
        if call.shared.read_log.is_none() || found.reads.is_empty() {
            return respond(&call, &self.fetching, found).map(Step::reply);
        }
        Ok(call.block(Threads::Others, move |call| {
            if let Some(log) = &call.shared.read_log {
                let client = Client {
                    address: call.peer.client.to_string(),
                    client_id: call
                        .request
                        .client_id
                        .chars()
                        .take(MOST_CLIENT_ID)
                        .collect(),
                    user: match &*lock(&call.peer.login) {
                        Login::Done(user) => user.clone(),
                        _ => None,
                    },
                };
                log.note(&client, &found.reads).map_err(Refusal::from)?;
            }
            respond(call, &self.fetching, found).map(Step::reply)
        }))
    }
}

/// The limits that a client sets for a fetch.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    max_bytes: u64,
    is_committed: bool,
}

/// The result of a fetch.
#[derive(Debug)]
struct Found {
    answers: Vec<Answer>,
    bytes: u64,
    has_error: bool,
    /// The reads, for the log of reads.
    reads: Vec<Read>,
    /// The memory of the answers.
    share: Share,
}

#[derive(Debug)]
struct Answer {
    place: usize,
    data: PartitionData,
    records: Vec<Part>,
    /// The current leader epoch, for a client that has an old one (KIP-951).
    leader_epoch: Option<i32>,
}

/// Reads the records that are available. This blocks.
fn read(partitions: &Partitions, fetching: &Fetching, bounds: Bounds, share: Share) -> Found {
    let mut found = Found {
        answers: Vec::with_capacity(fetching.wanted.len()),
        bytes: 0,
        has_error: false,
        reads: Vec::new(),
        share,
    };
    let topics = match partitions.directory().topics() {
        Ok(topics) => topics,
        Err(refusal) => {
            found.has_error = true;
            for (place, (key, _)) in fetching.wanted.iter().enumerate() {
                found.answers.push(refused(place, key, &refusal));
            }
            return found;
        }
    };
    // As from a broker, answers for unknown partitions come last.
    let mut not_there = Vec::new();
    let mut leaders = HashMap::new();
    let (mut files, mut copied) = (0, 0);
    for (place, (key, wanted)) in fetching.wanted.iter().enumerate() {
        let left = bounds.max_bytes.saturating_sub(found.bytes);
        let is_copied = files >= MOST_FILES;
        let left = match is_copied {
            false => left,
            true if copied < MOST_COPIED => left.min(SMALL),
            // The client gets the records of the other partitions with the next response.
            true => 0,
        };
        let topic = match resolved(&topics, key) {
            Ok(topic) => topic,
            Err(refusal) => {
                let mut answer = refused(place, key, &refusal);
                answer.data.aborted_transactions = Some(Vec::new());
                not_there.push(answer);
                continue;
            }
        };
        let answer = partitions.get(topic, key.partition).and_then(|partition| {
            // At least one batch, even a large one, or the client would never get past it (KIP-74).
            let must = found.bytes == 0;
            let limits = (left, must);
            let answer = of_partition(
                partitions,
                &partition,
                wanted,
                limits,
                bounds.is_committed,
                &found.share,
            );
            answer.inspect_err(|_| {
                leaders.insert(place, partition.leader_epoch());
            })
        });
        match answer {
            Ok((data, mut records)) => {
                if is_copied {
                    for part in &mut records {
                        copied += part.length();
                        hold(partitions, part);
                    }
                }
                if !records.is_empty() {
                    let bytes = records.iter().map(Part::length).sum();
                    found.bytes += bytes;
                    files += 1;
                    found.reads.push(Read {
                        topic: topic.to_owned(),
                        partition: key.partition,
                        offset: wanted.fetch_offset,
                        bytes,
                    });
                }
                found.has_error |= data.diverging_epoch != EpochEndOffset::default();
                let data = data.with_partition_index(key.partition);
                found.answers.push(Answer {
                    place,
                    data,
                    records,
                    leader_epoch: None,
                });
            }
            Err(refusal) => {
                found.has_error = true;
                let mut answer = refused(place, key, &refusal);
                if refusal.error == ResponseError::FencedLeaderEpoch {
                    answer.leader_epoch = leaders.remove(&place);
                }
                found.answers.push(answer);
                partitions.tell(topic, key.partition, &refusal);
            }
        }
    }
    // There is nothing else to wait for.
    found.has_error |= not_there.len() == fetching.wanted.len();
    found.answers.append(&mut not_there);
    found
}

/// Reads a range into memory so that its file does not stay open. Keeps the file if there is no memory, or if the read
/// fails.
fn hold(partitions: &Partitions, part: &mut Part) {
    let Part::File(range) = part else { return };
    let Ok(length) = usize::try_from(range.length) else {
        return;
    };
    let share = partitions.memory.share();
    if !share.grow(length) {
        return;
    }
    let mut bytes = vec![0; length];
    if range.file.read_at(range.position, &mut bytes).ok() == Some(length) {
        *part = Part::Held(bytes.into(), share);
    }
}

fn resolved<'a>(topics: &'a Topics, key: &'a Key) -> Result<&'a str, Refusal> {
    if key.topic_id.is_nil() {
        topics.check(&key.topic, key.partition)?;
        return Ok(&key.topic);
    }
    let topic = topics
        .by_id(key.topic_id)
        .ok_or_else(|| Refusal::new(ResponseError::UnknownTopicId, "no topic with this id"))?;
    topics.check(&topic.name, key.partition)?;
    Ok(&topic.name)
}

fn refused(place: usize, key: &Key, refusal: &Refusal) -> Answer {
    let data = PartitionData::default()
        .with_partition_index(key.partition)
        .with_error_code(refusal.error.code())
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_aborted_transactions(None);
    Answer {
        place,
        data,
        records: Vec::new(),
        leader_epoch: None,
    }
}

type OfPartition = (PartitionData, Vec<Part>);

fn of_partition(
    partitions: &Partitions,
    partition: &Arc<Partition>,
    wanted: &Wanted,
    (left, must): (u64, bool),
    is_committed: bool,
    share: &Share,
) -> Result<OfPartition, Refusal> {
    partition.check_epoch(wanted.current_leader_epoch)?;
    // If only committed records may be seen, a read_uncommitted client is sent no aborted ones.
    let drops_aborted = partitions.view.only_committed && !is_committed;
    let end = partition.visible_end(is_committed || drops_aborted);
    let high_watermark = if drops_aborted {
        end
    } else {
        partition.high_watermark
    };
    let data = PartitionData::default()
        .with_high_watermark(high_watermark)
        .with_last_stable_offset(partition.last_stable_offset)
        .with_log_start_offset(partition.log_start_offset)
        .with_aborted_transactions(is_committed.then(Vec::new));
    if wanted.last_fetched_epoch >= 0 {
        let (epoch, end) = partition.end_of_epoch(wanted.last_fetched_epoch);
        if epoch < 0 {
            return Err(Refusal::new(
                ResponseError::OffsetOutOfRange,
                "the client's leader epoch is later than any in the log",
            ));
        }
        if epoch < wanted.last_fetched_epoch || end < wanted.fetch_offset {
            let diverging = EpochEndOffset::default()
                .with_epoch(epoch)
                .with_end_offset(end);
            return Ok((data.with_diverging_epoch(diverging), Vec::new()));
        }
    }
    let offset = wanted.fetch_offset;
    if offset < partition.log_start_offset || offset > partition.high_watermark {
        return Err(Refusal::new(
            ResponseError::OffsetOutOfRange,
            "the offset is not in the log",
        ));
    }
    let limit = left.min(u64::try_from(wanted.max_bytes).unwrap_or(0));
    if offset >= end || (limit == 0 && !must) {
        return Ok((data, Vec::new()));
    }
    let mut from = offset;
    let (parts, upper) = loop {
        let found = records(partitions, partition, from, end, (limit, must))?;
        let Some((segment, range)) = found else {
            return Ok((data, Vec::new()));
        };
        let sent = partitions.view.records(
            &partitions.memory,
            partition,
            &segment,
            range,
            drops_aborted,
        )?;
        let Some(sent) = sent else {
            return Ok((data, Vec::new()));
        };
        let next_base = partition.next_base(segment.base_offset);
        match next_base.filter(|base| *base < end && sent.parts.is_empty()) {
            Some(base) => from = base,
            None => {
                let upper = segment.offset_at(sent.end)?;
                let upper = upper.or(next_base).unwrap_or(partition.high_watermark);
                break (sent.parts, upper);
            }
        }
    };
    let data = match is_committed {
        false => data,
        true => {
            let count = partition.aborted_in(offset, upper).count();
            if !share.grow(count * OF_ABORTED) {
                return Err(Refusal::no_memory());
            }
            let aborted = partition.aborted_in(offset, upper).map(|one| {
                AbortedTransaction::default()
                    .with_producer_id(ProducerId(one.producer_id))
                    .with_first_offset(one.first_offset)
            });
            data.with_aborted_transactions(Some(aborted.collect()))
        }
    };
    Ok((data, parts))
}

/// Returns a segment, and the position in it of the batch with an offset and of the batches after it.
fn records(
    partitions: &Partitions,
    partition: &Arc<Partition>,
    offset: i64,
    end: i64,
    (limit, must): (u64, bool),
) -> Result<Option<(Arc<Segment>, Range)>, Refusal> {
    let mut from = offset;
    loop {
        let Some(segment) = partitions.segment(partition, from)? else {
            return Ok(None);
        };
        let next_base = partition.next_base(segment.base_offset);
        let Some(first) = segment.place(offset)? else {
            // A cleaner may have left nothing after the offset in this segment.
            match next_base.filter(|base| *base < end) {
                Some(base) => from = base,
                None => return Ok(None),
            }
            continue;
        };
        // Batches that extend beyond the end are not sent.
        let stop = match next_base.is_none_or(|base| base > end) {
            true => segment
                .place(end)?
                .map_or(segment.end, |behind| behind.position),
            false => segment.end,
        };
        let available = stop.saturating_sub(first.position);
        let wanted = match limit < first.size {
            false => limit,
            // No part of the first batch is sent, because a client could not use it.
            true if must => first.size,
            true => 0,
        };
        let length = available.min(wanted);
        if length == 0 {
            return Ok(None);
        }
        let range = Range {
            position: first.position,
            length,
            first: first.size,
            stop,
        };
        return Ok(Some((segment, range)));
    }
}

/// Writes a response, and records its contents in the session.
fn respond(call: &Call, fetching: &Fetching, found: Found) -> Answered {
    let (version, server) = (call.version(), &call.peer.server);
    let mut reply = new_reply(call)?;
    let mut shown: Vec<Answer> = found
        .answers
        .into_iter()
        .filter(|answer| {
            let told = (answer.data.high_watermark, answer.data.log_start_offset);
            let is_known = fetching
                .wanted
                .get(answer.place)
                .is_some_and(|(_, wanted)| wanted.knows(told));
            !fetching.is_incremental
                || !answer.records.is_empty()
                || answer.data.error_code != 0
                || answer.data.diverging_epoch != EpochEndOffset::default()
                || !is_known
        })
        .collect();
    let mut has_leader = false;
    for answer in shown.iter_mut().filter(|_| version >= WITH_ENDPOINTS) {
        if let Some(epoch) = answer.leader_epoch {
            answer.data.current_leader = LeaderIdAndEpoch::default()
                .with_leader_id(BrokerId(server.node_id))
                .with_leader_epoch(epoch);
            has_leader = true;
        }
    }
    let key_of = |answer: &Answer| fetching.wanted.get(answer.place).map(|(key, _)| key);
    let told: Vec<_> = shown
        .iter()
        .filter_map(|one| {
            Some((
                key_of(one)?,
                (one.data.high_watermark, one.data.log_start_offset),
            ))
        })
        .collect();
    let with_records: Vec<_> = shown
        .iter()
        .filter(|one| !one.records.is_empty())
        .filter_map(key_of)
        .collect();
    fetching.tell(&told, &with_records);

    head(reply.buffer(), fetching.session_id(), 0, version);
    let mut by_topic: Vec<(&Key, Vec<Answer>)> = Vec::new();
    for answer in shown {
        let Some((key, _)) = fetching.wanted.get(answer.place) else {
            continue;
        };
        match by_topic.last_mut() {
            Some((last, answers)) if last.topic == key.topic && last.topic_id == key.topic_id => {
                answers.push(answer)
            }
            _ => by_topic.push((key, vec![answer])),
        }
    }
    put_count(reply.buffer(), by_topic.len(), version);
    for (key, answers) in by_topic {
        put_topic(reply.buffer(), &key.topic, key.topic_id, version);
        put_count(reply.buffer(), answers.len(), version);
        for answer in answers {
            put_partition(&mut reply, answer, version)?;
        }
        put_no_tags(reply.buffer(), version);
    }
    match has_leader {
        false => put_no_tags(reply.buffer(), version),
        true => put_endpoint(reply.buffer(), server, version)?,
    }
    Ok(reply)
}

/// Writes the only tagged field of a response: the endpoints of the leaders.
fn put_endpoint(buffer: &mut BytesMut, server: &Address, version: i16) -> Answered<()> {
    let endpoint = NodeEndpoint::default()
        .with_node_id(BrokerId(server.node_id))
        .with_host(StrBytes::from_string(server.host.clone()))
        .with_port(server.port.into());
    let mut field = BytesMut::new();
    put_varint(&mut field, 2);
    encode(&endpoint, version, &mut field)?;
    for number in [1, 0, field.len()] {
        put_varint(buffer, number);
    }
    buffer.put_slice(&field);
    Ok(())
}

/// Writes a response with a session error.
fn respond_error(call: &Call, error: ResponseError) -> Answered {
    let (version, mut reply) = (call.version(), new_reply(call)?);
    head(reply.buffer(), 0, error.code(), version);
    put_count(reply.buffer(), 0, version);
    put_no_tags(reply.buffer(), version);
    Ok(reply)
}

fn new_reply(call: &Call) -> Answered {
    let header_version = FetchResponse::header_version(call.version());
    Reply::new(header_version, call.request.correlation_id)
}

fn head(buffer: &mut BytesMut, session_id: i32, error: i16, version: i16) {
    buffer.put_i32(0);
    if version >= 7 {
        buffer.put_i16(error);
        buffer.put_i32(session_id);
    }
}

fn put_topic(buffer: &mut BytesMut, name: &str, id: Uuid, version: i16) {
    match version {
        WITH_IDS.. => buffer.put_slice(id.as_bytes()),
        FLEXIBLE => put_text(buffer, name),
        _ => {
            // Names of topics have at most 249 characters.
            buffer.put_i16(i16::try_from(name.len()).unwrap_or(0));
            buffer.put_slice(name.as_bytes());
        }
    }
}

/// Writes a partition with empty records. The records stay in their file, and are sent from there at this place.
fn put_partition(reply: &mut Reply, answer: Answer, version: i16) -> Answered<()> {
    let buffer = reply.buffer();
    encode(
        &answer.data.with_records(Some(Bytes::new())),
        version,
        buffer,
    )?;
    if answer.records.is_empty() {
        return Ok(());
    }
    // The fields end with empty records: a length, and with compact lengths the number of tagged fields, which is 0.
    let empty = if version >= FLEXIBLE { 2 } else { 4 };
    let length = buffer.len().saturating_sub(empty);
    buffer.truncate(length);
    let size: u64 = answer.records.iter().map(Part::length).sum();
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    put_count(buffer, size, version);
    reply.records(answer.records);
    put_no_tags(reply.buffer(), version);
    Ok(())
}

/// Writes a number of elements, or of bytes.
fn put_count(buffer: &mut BytesMut, count: usize, version: i16) {
    match version >= FLEXIBLE {
        true => put_varint(buffer, count.saturating_add(1)),
        false => buffer.put_i32(i32::try_from(count).unwrap_or(i32::MAX)),
    }
}

fn put_no_tags(buffer: &mut BytesMut, version: i16) {
    if version >= FLEXIBLE {
        buffer.put_u8(0);
    }
}
