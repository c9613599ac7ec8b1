//! Validation of produce requests (`LogValidator`): the checks of a broker, and the fields that it writes into a batch.
//!
//! The offsets that the producer wrote into batches are replaced by the log's offsets. Apart from a few header fields,
//! most batches stay unchanged. A new batch is built if the topic has another codec or message format, or if inner
//! offsets of old clients are not 0, 1, 2. Every record is walked, but none becomes an object. Batches of brokerless's
//! encoder are not walked, because their headers are trusted.
//!
//! Two checks are stricter than Kafka's, because the result could not be read otherwise: the lengths of compressed
//! records, and a wrapper whose last message is cut. The decompressed size of a batch is known, and capped, only if its
//! records are walked.

mod record_checks;

use crate::base::error::Error;
use crate::broker::producers::AppendOrigin;
use crate::broker::refusal::{Refusal, Refused};
use crate::format::batch::{Header, TimestampType};
use crate::format::compression::{Codec, Compression, Decompressor};
use crate::format::walk::{NextBatch, next_batch};
use crate::write::batch_builder::{BatchBuilder, BatchOptions, NewRecord};
use crate::write::transcode;

use record_checks::RecordChecks;

type Result<T> = std::result::Result<T, Refused>;

/// A topic's rules for the batches it accepts, under Kafka's names.
#[derive(Debug, Clone, Copy)]
pub struct ValidationRules {
    /// The magic that the topic stores: 2, on brokers before 4.0 also 1 or 0.
    pub message_format: i8,
    /// `compression.type` with its level; None for `producer`.
    pub codec: Option<Codec>,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `cleanup.policy` includes `compact`.
    pub is_compacted: bool,
    /// `max.message.bytes`.
    pub max_message_bytes: i64,
    /// `max.decompressed.message.bytes`, for each record of a compressed batch.
    pub max_decompressed_message_bytes: i32,
}

impl ValidationRules {
    /// The default of `max.decompressed.message.bytes`: no limit.
    pub const NO_RECORD_LIMIT: i32 = i32::MAX - 8;
}

/// Returns the codec of `compression.type`, with the one of the three levels that belongs to it; None for `producer`.
pub fn topic_codec(
    compression_type: &str,
    gzip_level: i32,
    lz4_level: i32,
    zstd_level: i32,
) -> crate::base::error::Result<Option<Codec>> {
    let (compression, level) = match compression_type {
        "producer" => return Ok(None),
        "uncompressed" => (Compression::None, None),
        "gzip" => (Compression::Gzip, Some(gzip_level)),
        "snappy" => (Compression::Snappy, None),
        "lz4" => (Compression::Lz4, Some(lz4_level)),
        "zstd" => (Compression::Zstd, Some(zstd_level)),
        other => {
            return Err(Error::invalid(format!(
                "compression_type is {other:?}, not one of producer, uncompressed, gzip, snappy, lz4, zstd"
            )));
        }
    };
    Codec::new(compression, level).map(Some)
}

/// A batch with the header with which it is stored. Its `position` is relative to the start of the request, or of the
/// rebuilt bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValidatedBatch {
    pub(crate) header: Header,
    /// True if fields that the checksum covers have changed.
    pub(crate) is_resummed: bool,
}

/// Who appends a request, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendContext {
    pub(crate) origin: AppendOrigin,
    pub(crate) leader_epoch: i32,
    pub(crate) first_offset: i64,
    /// The current time on the broker, ms.
    pub(crate) now: i64,
    /// True if the header's statements about records are trusted.
    pub(crate) is_encoded_here: bool,
    /// True if only headers are given, and records stay as they are.
    pub(crate) is_in_place: bool,
}

/// The result of a valid request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValidationResult {
    /// The offset after its last record.
    pub(crate) next_offset: i64,
    /// Largest timestamp of its records; -1 for none.
    pub(crate) max_timestamp: i64,
    /// True if its bytes are [`Validator::rebuilt`].
    pub(crate) is_rebuilt: bool,
}

/// Validates requests, in memory that is reused.
pub(crate) struct Validator {
    decompressor: Decompressor,
    builder: BatchBuilder,
    pub(crate) rebuilt: Vec<u8>,
}

impl Validator {
    /// `max_batch_bytes` caps the decompressed size of one batch.
    pub(crate) fn new(max_batch_bytes: usize) -> Self {
        Self {
            decompressor: Decompressor::new(max_batch_bytes),
            builder: BatchBuilder::new(),
            rebuilt: Vec::new(),
        }
    }

    /// Checks the batches of `data`, whose framing and checksums are right, and assigns them offsets from
    /// `context.first_offset` on. `source` is the codec of the last compressed batch.
    pub(crate) fn validate(
        &mut self,
        rules: &ValidationRules,
        data: &[u8],
        batches: &mut Vec<ValidatedBatch>,
        source: Compression,
        context: AppendContext,
    ) -> Result<ValidationResult> {
        let target = rules.codec.unwrap_or(Codec {
            compression: source,
            level: None,
        });
        let first = check_batch_count(batches, source)?;
        let stays_plain = source == Compression::None
            && (target.compression == Compression::None || first.is_control());
        let may_stay = if stays_plain {
            batches
                .iter()
                .all(|batch| batch.header.magic == rules.message_format)
        } else {
            source == target.compression
                && first.magic == rules.message_format
                && rules.message_format > 0
        };
        let mut checks = RecordChecks::new(rules, context);
        for batch in batches.iter_mut() {
            let (position, base_offset) = (batch.header.position, batch.header.base_offset);
            check_batch(&first, &batch.header, rules, context.origin)
                .and_then(|()| self.check_records(&batch.header, data, may_stay, &mut checks))
                .map_err(|refused| refused.at(position, base_offset))?;
            place_batch(batch, &checks, rules, context)?;
        }
        if may_stay && (stays_plain || checks.is_in_order) {
            return Ok(ValidationResult {
                next_offset: context.first_offset.wrapping_add(checks.ordinal),
                max_timestamp: match rules.timestamp_type {
                    TimestampType::LogAppendTime => context.now,
                    _ => checks.max_timestamp,
                },
                is_rebuilt: false,
            });
        }
        if may_stay && first.magic == 2 {
            return Err(Refused::new(
                Refusal::Append,
                "offset deltas of a compressed batch are not 0, 1, 2 and so on: a broker does not renumber them",
            )
            .at(first.position, first.base_offset));
        }
        self.rebuild(rules, data, batches, &first, target, context)
            .map_err(|refused| refused.at(first.position, first.base_offset))
    }

    /// Checks the records of a batch by its header, or one by one if the header is not enough.
    fn check_records(
        &mut self,
        header: &Header,
        data: &[u8],
        may_stay: bool,
        checks: &mut RecordChecks<'_>,
    ) -> Result<()> {
        if may_stay && checks.accepts_header(header) {
            return Ok(());
        }
        if checks.context.is_in_place {
            return Err(not_in_place("its records would have to be read"));
        }
        checks.batch(header, entry(data, header), &mut self.decompressor)
    }

    /// Builds one new batch (uncompressed magic 0 and 1: messages) of all records.
    fn rebuild(
        &mut self,
        rules: &ValidationRules,
        data: &[u8],
        batches: &mut Vec<ValidatedBatch>,
        first: &Header,
        codec: Codec,
        context: AppendContext,
    ) -> Result<ValidationResult> {
        if first.is_control() {
            return Err(Refused::new(
                Refusal::Append,
                "a control batch is stored unchanged, so its codec or magic cannot differ from the topic's",
            ));
        }
        if rules.message_format < 2 && codec.compression == Compression::Zstd {
            return Err(Refused::new(
                Refusal::UnsupportedCompressionType,
                format!(
                    "zstd needs magic 2, but the topic stores magic {}",
                    rules.message_format
                ),
            ));
        }
        let refused = |error: Error| Refused::of(Refusal::Append, error);
        let Self {
            decompressor,
            builder,
            rebuilt,
        } = self;
        builder
            .begin(BatchOptions {
                magic: rules.message_format,
                codec,
                timestamp_type: rules.timestamp_type,
                log_append_time: context.now,
                base_offset: context.first_offset,
                partition_leader_epoch: context.leader_epoch,
                producer_id: first.producer_id,
                producer_epoch: first.producer_epoch,
                base_sequence: first.base_sequence,
                is_transactional: first.is_transactional(),
                ..BatchOptions::default()
            })
            .map_err(refused)?;
        let mut offset = context.first_offset;
        for ValidatedBatch { header, .. } in batches.iter() {
            // `header` already has the fields that are stored. The records are read by those that came.
            let entry = entry(data, header);
            let sent = Header::parse(entry, header.position).ok().flatten();
            let sent = sent.unwrap_or(*header);
            transcode::for_each(&sent, entry, decompressor, false, |record| {
                builder.append(&NewRecord { offset, ..record })?;
                offset = offset.wrapping_add(1);
                Ok(())
            })
            .map_err(refused)?;
        }
        rebuilt.clear();
        let built = builder.finish(rebuilt).map_err(refused)?;
        *batches = rebuilt_batches(rebuilt, rules)?;
        Ok(ValidationResult {
            next_offset: offset,
            max_timestamp: built.max_timestamp,
            is_rebuilt: true,
        })
    }
}

/// Returns the first batch's header. A request holds one batch of magic 2, or one compressed batch, or any number of
/// uncompressed messages.
fn check_batch_count(batches: &[ValidatedBatch], source: Compression) -> Result<Header> {
    let Some(&ValidatedBatch { header: first, .. }) = batches.first() else {
        return Err(Refused::new(
            Refusal::InvalidRecord,
            "there is no batch to append",
        ));
    };
    match batches.get(1) {
        Some(second) if first.magic == 2 || source != Compression::None => Err(Refused::new(
            Refusal::InvalidRecord,
            "a produce request has only one batch if it is of magic 2 or compressed: append each batch in its own call",
        )
        .at(second.header.position, second.header.base_offset)),
        _ => Ok(first),
    }
}

/// Sets the offsets, the leader epoch and the timestamps with which a checked batch is stored.
fn place_batch(
    batch: &mut ValidatedBatch,
    checks: &RecordChecks<'_>,
    rules: &ValidationRules,
    context: AppendContext,
) -> Result<()> {
    let next_offset = context.first_offset.wrapping_add(checks.ordinal);
    let header = &mut batch.header;
    header.set_last_offset_and_epoch(next_offset.wrapping_sub(1), context.leader_epoch);
    let max_timestamp = match rules.timestamp_type {
        TimestampType::LogAppendTime => context.now,
        _ => checks.max_batch_timestamp,
    };
    batch.is_resummed = header.set_max_timestamp(rules.timestamp_type, max_timestamp);
    if context.is_in_place && batch.is_resummed {
        return Err(not_in_place("its checksum would change"));
    }
    Ok(())
}

/// Returns the batches in rebuilt bytes, which must not be too large.
fn rebuilt_batches(rebuilt: &[u8], rules: &ValidationRules) -> Result<Vec<ValidatedBatch>> {
    let (mut batches, mut at) = (Vec::new(), 0);
    while let Ok(NextBatch::Batch(header, _)) =
        next_batch(rebuilt.get(at..).unwrap_or_default(), at as u64)
    {
        check_size(&header, rules, " once it is rebuilt as the topic stores it")?;
        at += header.size();
        batches.push(ValidatedBatch {
            header,
            is_resummed: false,
        });
    }
    Ok(batches)
}

/// Returns the bytes of the batch.
pub(crate) fn entry<'a>(data: &'a [u8], header: &Header) -> &'a [u8] {
    let at = header.position as usize;
    data.get(at..)
        .and_then(|rest| rest.get(..header.size()))
        .unwrap_or_default()
}

/// The refusal of an append in place that requires more than headers.
pub(crate) fn not_in_place(why: &str) -> Refused {
    let message = format!("a batch cannot be appended in place: {why}");
    Refused::new(Refusal::Append, message)
}

/// Refuses a batch above `max.message.bytes`.
pub(crate) fn check_size(header: &Header, rules: &ValidationRules, when: &str) -> Result<()> {
    let size = header.size() as i64;
    if size <= rules.max_message_bytes {
        return Ok(());
    }
    Err(Refused::new(
        Refusal::RecordTooLarge,
        format!(
            "batch has {size} bytes{when}, but max_message_bytes is {}: send fewer records in a batch, or raise \
             max_message_bytes",
            rules.max_message_bytes
        ),
    ))
}

fn check_batch(
    first: &Header,
    header: &Header,
    rules: &ValidationRules,
    origin: AppendOrigin,
) -> Result<()> {
    let invalid = |message: String| Err(Refused::new(Refusal::InvalidRecord, message));
    if header.magic != first.magic {
        return invalid(format!(
            "batch has magic {}, but the first batch of the request has {}",
            header.magic, first.magic
        ));
    }
    if origin == AppendOrigin::Client {
        if let Some(count) = header.records_count {
            let delta = header.last_offset_delta;
            if delta < 0 || count <= 0 || i64::from(count) != i64::from(delta) + 1 {
                return invalid(format!(
                    "batch has records count {count}, but last offset delta {delta}: the count must be the delta + 1"
                ));
            }
        }
        if header.is_control() {
            return invalid("control batches are for coordinators, not for clients".into());
        }
        if header.producer_id >= 0 && header.base_sequence < 0 {
            return invalid(format!(
                "batch of producer {} has base_sequence {}: a producer with an id numbers its records from 0",
                header.producer_id, header.base_sequence
            ));
        }
    }
    if rules.message_format < 2 && (header.is_transactional() || header.producer_id >= 0) {
        return Err(Refused::new(
            Refusal::UnsupportedForMessageFormat,
            format!(
                "idempotent and transactional batches need magic 2, but the topic stores magic {}",
                rules.message_format
            ),
        ));
    }
    Ok(())
}
