//! Appends to one log as a broker does (`UnifiedLog.append`): requests in, bytes for files out.
//!
//! Each request is checked in Kafka's order: first the headers and checksums of its batches, then the records (from a
//! producer), the size, the need for a new segment, and the producer. The log changes only after all checks, so a
//! refused request leaves no trace. In Kafka, a refusal by the last check leaves traces: the leader epoch is already
//! assigned, and the segment is already rolled.

mod analyse;
mod config;
mod in_place;
mod request_checks;
mod roll;
mod state;

use std::fmt;

use crate::broker::epochs::LeaderEpochs;
use crate::broker::index_builder::{IndexError, relative_offset};
use crate::broker::producers::{AppendOrigin, DuplicateBatch, Producers, ProducersUpdate};
use crate::broker::refusal::{Refusal, Refused};
use crate::broker::validate::{AppendContext, ValidatedBatch, Validator, entry};
use crate::format::batch::TimestampType;
use crate::format::walk::NextBatch;

use analyse::{Analysis, framing};
pub use config::{
    ActiveSegment, AppendInfo, AppendInfos, AppendRequest, Effects, LogConfig, SegmentWrite,
};
use in_place::BatchForm;

type Result<T> = std::result::Result<T, Refused>;

/// The decision about a request.
enum Decision {
    /// The request holds no batch.
    Empty,
    /// The batch of the request is in the log already.
    Duplicate(AppendInfo),
    /// The batches of the request must be stored.
    Append(Accepted),
}

/// An accepted request that is not stored yet.
struct Accepted {
    info: AppendInfo,
    /// The number of bytes of its batches in stored form.
    size: usize,
    /// True if the batches were built anew. They are then in [`Validator::rebuilt`].
    is_rebuilt: bool,
    /// The base offset of a new segment that begins with this request.
    roll_to: Option<i64>,
    /// The segment with the index entries of the batches, but without their size.
    segment: ActiveSegment,
}

/// The state of one log that appends need.
pub struct LogAppender {
    config: LogConfig,
    segment: ActiveSegment,
    producers: Producers,
    epochs: LeaderEpochs,
    log_start_offset: i64,
    /// Base offset of the batch that holds the log start offset.
    log_start_batch: i64,
    log_end_offset: i64,
    /// None if it follows the log end.
    high_watermark: Option<i64>,
    validator: Validator,
    batches: Vec<ValidatedBatch>,
    update: ProducersUpdate,
    index: Vec<u8>,
    timeindex: Vec<u8>,
}

impl fmt::Debug for LogAppender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogAppender")
            .field("segment", &self.segment)
            .field("log_end_offset", &self.log_end_offset)
            .finish_non_exhaustive()
    }
}

impl LogAppender {
    /// Continues a log after its load.
    pub fn new(
        config: LogConfig,
        segment: ActiveSegment,
        mut producers: Producers,
        epochs: LeaderEpochs,
        log_start_offset: i64,
        log_end_offset: i64,
    ) -> Self {
        // The load has written a snapshot of its end, if one was due.
        producers.set_end_offset(log_end_offset);
        producers.set_snapshot_offset(Some(log_end_offset));
        // At rest, the high watermark is the log end: transactions that ended below it are decided.
        producers.forget_ended(log_end_offset);
        Self {
            validator: Validator::new(config.max_batch_bytes),
            config,
            segment,
            producers,
            epochs,
            log_start_offset,
            log_start_batch: log_start_offset,
            log_end_offset,
            high_watermark: None,
            batches: Vec::new(),
            update: ProducersUpdate::default(),
            index: Vec::new(),
            timeindex: Vec::new(),
        }
    }

    /// Appends one request: all whole batches of `data`, or none.
    pub fn append(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        effects: &mut Effects,
    ) -> Result<AppendInfo> {
        match self.decide(data, request, BatchForm::Whole)? {
            Decision::Empty => Ok(AppendInfo::EMPTY),
            Decision::Duplicate(stored) => Ok(stored),
            Decision::Append(accepted) => self.store(data, accepted, effects),
        }
    }

    /// Appends each batch of `data` as its own request, up to the first refused one.
    pub fn append_each(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        effects: &mut Effects,
    ) -> AppendInfos {
        self.append_each_of(data, request, BatchForm::Whole, effects)
    }

    fn append_each_of(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        form: BatchForm,
        effects: &mut Effects,
    ) -> AppendInfos {
        let mut infos = AppendInfos {
            count: 0,
            duplicates: 0,
            last: AppendInfo::EMPTY,
            consumed: 0,
            refused: None,
        };
        let mut first_offset = None;
        loop {
            let at = infos.consumed;
            let rest = data.get(at..).unwrap_or_default();
            effects.expected = rest.len();
            let (size, appended) = match form.next(rest, 0) {
                Ok(NextBatch::NeedMore(_)) => break,
                Ok(NextBatch::Batch(_, entry)) => {
                    let appended = match form {
                        BatchForm::Whole => self.append(entry, request, effects),
                        BatchForm::HeaderOnly => self.append_header(entry, request, effects),
                    };
                    (entry.len(), appended)
                }
                Err(error) => (0, Err(framing(error))),
            };
            match appended {
                Ok(info) => {
                    first_offset = first_offset.or(Some(info.first_offset));
                    infos.last = info;
                    infos.count += u64::from(info.last_offset >= 0);
                    infos.duplicates += u64::from(info.is_duplicate);
                    infos.consumed += size;
                }
                Err(mut refused) => {
                    refused.position = refused.position.wrapping_add(at as u64);
                    infos.refused = Some(refused);
                    break;
                }
            }
        }
        effects.expected = 0;
        infos.last.first_offset = first_offset.unwrap_or(-1);
        infos
    }

    /// Decides about a request, in Kafka's order of checks. The log's state does not change; the scratch memory holds what
    /// [`Self::store`] needs.
    fn decide(&mut self, data: &[u8], request: AppendRequest, form: BatchForm) -> Result<Decision> {
        self.batches.clear();
        self.update.clear();
        let mut analysis = self.analyse(data, request, form)?;
        if self.batches.is_empty() {
            return Ok(Decision::Empty);
        }
        let mut is_rebuilt = false;
        if request.origin.log_assigns_offsets() {
            is_rebuilt = self.assign_offsets(data, request, form, &mut analysis)?;
        } else {
            self.check_given_offsets(&analysis)?;
            self.fill_epochs(request);
        }
        check_last_offset(analysis.last_offset)?;
        let size = match is_rebuilt {
            true => self.validator.rebuilt.len(),
            false => analysis.size,
        };
        self.check_epochs()?;
        self.check_fits(size)?;
        let roll_to = self.roll_offset(size, &analysis, request.now);
        let mut segment = match roll_to {
            Some(base_offset) => self.new_segment(base_offset, request.now),
            None => self.segment,
        };
        check_segment_range(analysis.last_offset, segment.base_offset)?;
        if let Some(duplicate) = self.check_producers(data, is_rebuilt, request)? {
            return Ok(Decision::Duplicate(AppendInfo::of_duplicate(duplicate)));
        }
        self.update
            .check(&segment.transactions)
            .map_err(index_refusal)?;
        self.index_batches(&mut segment).map_err(index_refusal)?;
        Ok(Decision::Append(Accepted {
            info: AppendInfo {
                first_offset: analysis.first_offset.unwrap_or(-1),
                last_offset: analysis.last_offset,
                log_append_time: self.log_append_time(request),
                max_timestamp: analysis.max_timestamp,
                is_duplicate: false,
            },
            size,
            is_rebuilt,
            roll_to,
            segment,
        }))
    }

    /// Validates a request to a leader and assigns its offsets; true if its batches were rebuilt.
    fn assign_offsets(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        form: BatchForm,
        analysis: &mut Analysis,
    ) -> Result<bool> {
        let context = AppendContext {
            origin: request.origin,
            leader_epoch: request.leader_epoch,
            first_offset: self.log_end_offset,
            now: request.now,
            is_encoded_here: request.is_encoded_here,
            is_in_place: form == BatchForm::HeaderOnly,
        };
        let rules = self.config.rules;
        let validated =
            self.validator
                .validate(&rules, data, &mut self.batches, analysis.source, context)?;
        analysis.first_offset = Some(self.log_end_offset);
        analysis.last_offset = validated.next_offset.wrapping_sub(1);
        analysis.max_timestamp = validated.max_timestamp;
        Ok(validated.is_rebuilt)
    }

    /// Checks the producers of all batches. The first duplicate decides the request.
    fn check_producers(
        &mut self,
        data: &[u8],
        is_rebuilt: bool,
        request: AppendRequest,
    ) -> Result<Option<DuplicateBatch>> {
        let Self {
            batches,
            update,
            producers,
            validator,
            ..
        } = self;
        let bytes = if is_rebuilt { &validator.rebuilt } else { data };
        for ValidatedBatch { header, .. } in batches.iter().filter(|b| b.header.producer_id >= 0) {
            if request.origin == AppendOrigin::Client
                && let Some(duplicate) = producers.duplicate(header)
            {
                return Ok(Some(duplicate));
            }
            let entry = entry(bytes, header);
            producers.prepare(
                update,
                header,
                entry,
                request.origin,
                request.transaction_version,
            )?;
        }
        Ok(None)
    }

    /// Adds the batches to the indexes of `segment`, which is a copy. The new entries are kept in scratch memory.
    fn index_batches(
        &mut self,
        segment: &mut ActiveSegment,
    ) -> std::result::Result<(), IndexError> {
        self.index.clear();
        self.timeindex.clear();
        for ValidatedBatch { header, .. } in &self.batches {
            let position = segment.size + header.position;
            if segment.size + header.position == 0 {
                segment.first_timestamp = Some(header.max_timestamp);
            }
            segment
                .indexes
                .add(header, position, &mut self.index, &mut self.timeindex)?;
        }
        Ok(())
    }

    /// Makes an accepted request part of the state, and adds its bytes to `effects`.
    fn store(
        &mut self,
        data: &[u8],
        accepted: Accepted,
        effects: &mut Effects,
    ) -> Result<AppendInfo> {
        if let Some(base_offset) = accepted.roll_to {
            // Nothing after this can fail.
            self.leave_segment(base_offset, effects)
                .map_err(index_refusal)?;
        }
        self.segment = accepted.segment;
        self.segment.size += accepted.size as u64;
        for ValidatedBatch { header, .. } in &self.batches {
            effects.has_new_epochs |= match header.magic {
                2 => self
                    .epochs
                    .assign(header.partition_leader_epoch, header.base_offset)
                    .unwrap_or(false),
                _ => self.epochs.clear(),
            };
        }
        self.write_batches(data, &accepted, effects);
        self.log_end_offset = accepted.info.last_offset.wrapping_add(1);
        self.producers.set_end_offset(self.log_end_offset);
        self.producers.forget_ended(self.high_watermark());
        Ok(accepted.info)
    }

    /// Adds to `effects` the writes of one accepted append.
    fn write_batches(&mut self, data: &[u8], accepted: &Accepted, effects: &mut Effects) {
        let expected = effects
            .expected
            .min(self.config.segment_bytes.unsigned_abs() as usize);
        let Some(write) = effects.write_to(self.segment.base_offset) else {
            return;
        };
        write.index.extend_from_slice(&self.index);
        write.timeindex.extend_from_slice(&self.timeindex);
        if write.log.is_empty() {
            write.log.reserve_exact(expected.max(accepted.size));
        }
        if accepted.is_rebuilt {
            write.log.extend_from_slice(&self.validator.rebuilt);
        } else {
            let start = write.log.len();
            // A header alone is shorter than its batch.
            let batches = data.get(..accepted.size).unwrap_or(data);
            write.log.extend_from_slice(batches);
            for ValidatedBatch {
                header,
                is_resummed,
            } in &mut self.batches
            {
                let at = start + header.position as usize;
                let Some(stored) = write.log.get_mut(at..) else {
                    continue;
                };
                let size = header.size().min(stored.len());
                if let Some(entry) = stored.get_mut(..size) {
                    header.write_changes(entry, *is_resummed);
                }
            }
        }
        for aborted in self.producers.apply(&mut self.update) {
            // The index was checked to take them before anything changed.
            let _ = self
                .segment
                .transactions
                .append(&aborted, &mut write.txnindex);
        }
    }

    fn log_append_time(&self, request: AppendRequest) -> i64 {
        match self.config.rules.timestamp_type {
            TimestampType::LogAppendTime if request.origin.log_assigns_offsets() => request.now,
            _ => -1,
        }
    }
}

fn check_last_offset(last_offset: i64) -> Result<()> {
    if last_offset < i64::MAX {
        return Ok(());
    }
    Err(Refused::new(
        Refusal::Append,
        format!(
            "last offset {last_offset} is too large: it can be 2^63-2 at most, because the log end offset is above it"
        ),
    ))
}

fn check_segment_range(last_offset: i64, base_offset: i64) -> Result<()> {
    if relative_offset(last_offset, base_offset).is_some() {
        return Ok(());
    }
    Err(Refused::new(
        Refusal::LogSegmentOffsetOverflow,
        format!(
            "last offset {last_offset} is not within 2^31-1 of base offset {base_offset}: append fewer batches at once"
        ),
    ))
}

fn index_refusal(error: IndexError) -> Refused {
    Refused::new(Refusal::Append, error.to_string())
}
