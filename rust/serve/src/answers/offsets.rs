//! Offsets: by a timestamp, at both ends, and at the end of a leader epoch.

use std::collections::HashMap;

use kafka_protocol::ResponseError;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, TopicName,
};

use crate::answers::call::Call;
use crate::base::directory::{Partition, Refusal, Topics};
use crate::log::partitions::Partitions;

// The special timestamps, each with the first version that has it (`ListOffsetsRequest`).
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const SINCE: &[(i64, i16)] = &[
    (LATEST, 1),
    (EARLIEST, 1),
    (-3, 7),
    (-4, 8),
    (-5, 9),
    (-6, 11),
];

struct Found {
    offset: i64,
    timestamp: i64,
    epoch: i32,
}

const NONE: Found = Found {
    offset: -1,
    timestamp: -1,
    epoch: -1,
};

/// The answer to a request for offsets.
pub(super) fn list_offsets(
    call: &Call,
    request: &ListOffsetsRequest,
) -> Result<ListOffsetsResponse, Refusal> {
    let (partitions, version) = (call.partitions(), call.version());
    let topics = partitions.directory().topics()?;
    let is_committed = request.isolation_level == 1 || partitions.view.only_committed;
    // Grouped by topic, because a name may have 32 KB.
    let mut times_asked: HashMap<&str, HashMap<i32, usize>> = HashMap::new();
    for topic in &request.topics {
        let of_topic = times_asked.entry(topic.name.as_str()).or_default();
        for one in &topic.partitions {
            *of_topic.entry(one.partition_index).or_default() += 1;
        }
    }
    // Topics and partitions are answered once, even if requested several times.
    let mut answers: IndexMap<&TopicName, IndexMap<i32, ListOffsetsPartitionResponse>> =
        IndexMap::new();
    for topic in &request.topics {
        let of_topic = answers.entry(&topic.name).or_default();
        let times_asked = times_asked.get(topic.name.as_str());
        for one in &topic.partitions {
            let place = (topic.name.as_str(), one.partition_index);
            let answer = match times_asked.and_then(|times| times.get(&place.1)) {
                Some(1) => offset(partitions, &topics, place, one, version, is_committed),
                _ => Err(Refusal::new(
                    ResponseError::InvalidRequest,
                    "the request names a partition twice",
                )),
            };
            let (error, found) = match answer {
                Ok(found) => (0, found),
                Err(refusal) => {
                    partitions.tell(place.0, place.1, &refusal);
                    (refusal.error.code(), NONE)
                }
            };
            let response = ListOffsetsPartitionResponse::default()
                .with_partition_index(one.partition_index)
                .with_error_code(error)
                .with_offset(found.offset)
                .with_timestamp(found.timestamp);
            of_topic.insert(
                one.partition_index,
                match version < 4 {
                    true => response,
                    false => response.with_leader_epoch(found.epoch),
                },
            );
        }
    }
    let answers = answers.into_iter().map(|(name, of_topic)| {
        ListOffsetsTopicResponse::default()
            .with_name(name.clone())
            .with_partitions(of_topic.into_values().collect())
    });
    Ok(ListOffsetsResponse::default().with_topics(answers.collect()))
}

fn offset(
    partitions: &Partitions,
    topics: &Topics,
    (topic, number): (&str, i32),
    asked: &ListOffsetsPartition,
    version: i16,
    is_committed: bool,
) -> Result<Found, Refusal> {
    let timestamp = asked.timestamp;
    let is_known = SINCE
        .iter()
        .any(|(special, since)| *special == timestamp && version >= *since);
    if timestamp < 0 && !is_known {
        return Err(Refusal::new(
            ResponseError::UnsupportedVersion,
            "no timestamp of this version",
        ));
    }
    topics.check(topic, number)?;
    let partition = partitions.get(topic, number)?;
    partition.check_epoch(asked.current_leader_epoch)?;
    Ok(match timestamp {
        LATEST => Found {
            offset: partition.visible_end(is_committed),
            timestamp: -1,
            epoch: partition.leader_epoch(),
        },
        EARLIEST => Found {
            offset: partition.log_start_offset,
            timestamp: -1,
            epoch: epoch_at(&partition, partition.log_start_offset),
        },
        _ => {
            let end = partition.visible_end(is_committed);
            partitions
                .directory()
                .offset_for_time(topic, number, timestamp, end)?
                .map_or(NONE, |found| Found {
                    offset: found.offset,
                    timestamp: found.timestamp,
                    epoch: found.leader_epoch,
                })
        }
    })
}

fn epoch_at(partition: &Partition, offset: i64) -> i32 {
    let place = partition
        .epochs
        .partition_point(|(_, start)| *start <= offset);
    place
        .checked_sub(1)
        .and_then(|before| partition.epochs.get(before))
        .map_or(-1, |(epoch, _)| *epoch)
}

/// The answer to a request for the ends of leader epochs (KIP-320).
pub(super) fn ends_of_epochs(
    call: &Call,
    request: &OffsetForLeaderEpochRequest,
) -> Result<OffsetForLeaderEpochResponse, Refusal> {
    let partitions = call.partitions();
    let topics = partitions.directory().topics()?;
    let found = request.topics.iter().map(|topic| {
        let found = topic.partitions.iter().map(|one| {
            let answer = topics
                .check(&topic.topic, one.partition)
                .and_then(|()| partitions.get(&topic.topic, one.partition))
                .and_then(|found| {
                    found.check_epoch(one.current_leader_epoch)?;
                    Ok(found.end_of_epoch(one.leader_epoch))
                });
            let response = EpochEndOffset::default().with_partition(one.partition);
            match answer {
                Ok((epoch, end)) => response.with_leader_epoch(epoch).with_end_offset(end),
                Err(refusal) => {
                    partitions.tell(&topic.topic, one.partition, &refusal);
                    response.with_error_code(refusal.error.code())
                }
            }
        });
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(found.collect())
    });
    Ok(OffsetForLeaderEpochResponse::default().with_topics(found.collect()))
}
