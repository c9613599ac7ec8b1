//! The broker on produce, for one log (`UnifiedLog.append`): requests in, bytes for files out.
//!
//! Each request is decided in Kafka's order: its batches by their headers and checksums, then (from a producer) its
//! records, its size, whether the segment is rolled first, its producer. Only then does anything change. Kafka has assigned
//! the leader epoch and rolled before it looks at the producer, and leaves both behind when it refuses; here a refused
//! request leaves nothing.

mod analyse;
mod check;
mod config;
mod in_place;
mod roll;
mod state;

use std::fmt;

use crate::broker::epochs::LeaderEpochs;
use crate::broker::index_builder::{IndexError, relative_offset};
use crate::broker::producers::{AppendOrigin, DuplicateBatch, Producers, ProducersUpdate};
use crate::broker::refusal::{Refusal, Refused};
use crate::broker::validate::{AppendContext, ValidatedBatch, Validator, entry, not_in_place};
use crate::format::batch::TimestampType;
use crate::format::walk::NextBatch;

use analyse::{Analysis, framing};
pub use config::{
    ActiveSegment, AppendInfo, AppendInfos, AppendRequest, Effects, LogConfig, SegmentWrite,
};
use in_place::Form;

type Result<T> = std::result::Result<T, Refused>;

/// One log, as its appends know it.
pub struct LogAppender {
    settings: LogConfig,
    segment: ActiveSegment,
    producers: Producers,
    epochs: LeaderEpochs,
    log_start_offset: i64,
    /// Base offset of the batch that holds the log start offset.
    log_start_batch: i64,
    log_end_offset: i64,
    /// None: it follows the log end.
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
    /// Goes on with a log as loading it left it.
    pub fn new(
        settings: LogConfig,
        segment: ActiveSegment,
        mut producers: Producers,
        epochs: LeaderEpochs,
        log_start_offset: i64,
        log_end_offset: i64,
    ) -> Self {
        // Loading has left a snapshot of its end, if one was due.
        producers.set_end_offset(log_end_offset);
        producers.set_snapshot_offset(Some(log_end_offset));
        // At rest the high watermark is the log end: transactions that ended below it hold nothing back.
        producers.forget_ended(log_end_offset);
        Self {
            validator: Validator::new(settings.max_batch_bytes),
            settings,
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

    /// Takes one request: all whole batches of `data`, or none.
    pub fn append(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        effects: &mut Effects,
    ) -> Result<AppendInfo> {
        self.take(data, request, Form::Whole, effects)
    }

    fn take(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        form: Form,
        effects: &mut Effects,
    ) -> Result<AppendInfo> {
        self.batches.clear();
        self.update.clear();
        let mut analysis = self.analyse(data, request, form)?;
        if self.batches.is_empty() {
            return Ok(AppendInfo::EMPTY);
        }
        let mut is_rebuilt = false;
        if matches!(
            request.origin,
            AppendOrigin::Client | AppendOrigin::Coordinator
        ) {
            is_rebuilt = self.assign(data, request, form, &mut analysis)?;
        } else {
            self.check_given_offsets(&analysis)?;
            self.fill_epochs(request);
        }
        if analysis.last_offset == i64::MAX {
            return Err(Refused::new(
                Refusal::Append,
                format!(
                    "last offset {} leaves none for the log end offset: it can be 2^63-2 at most",
                    analysis.last_offset
                ),
            ));
        }
        let size = match is_rebuilt {
            true => self.validator.rebuilt.len(),
            false => analysis.size,
        };
        self.check_epochs()?;
        self.check_fits(size)?;
        let rolled = self.roll_offset(size, &analysis, request.now);
        if form == Form::Headers && rolled.is_some() {
            return Err(not_in_place("a new segment begins"));
        }
        let mut segment = match rolled {
            Some(base_offset) => self.new_segment(base_offset, request.now),
            None => self.segment,
        };
        if relative_offset(analysis.last_offset, segment.base_offset).is_none() {
            return Err(Refused::new(
                Refusal::LogSegmentOffsetOverflow,
                format!(
                    "last offset {} is not within 2^31-1 of base offset {}: append fewer batches at once",
                    analysis.last_offset, segment.base_offset
                ),
            ));
        }
        let answer = AppendInfo {
            first_offset: analysis.first_offset.unwrap_or(-1),
            last_offset: analysis.last_offset,
            log_append_time: self.log_append_time(request),
            max_timestamp: analysis.max_timestamp,
            is_duplicate: false,
        };
        if let Some(duplicate) = self.check_producers(data, is_rebuilt, request)? {
            if form == Form::Headers {
                return Err(not_in_place("it is in the log already"));
            }
            return Ok(AppendInfo {
                first_offset: duplicate.first_offset,
                last_offset: duplicate.last_offset,
                log_append_time: duplicate.timestamp,
                max_timestamp: duplicate.timestamp,
                is_duplicate: true,
            });
        }
        let server = |error: IndexError| Refused::new(Refusal::Append, error.to_string());
        self.update.check(&segment.transactions).map_err(server)?;
        self.index_batches(&mut segment).map_err(server)?;
        if let Some(base_offset) = rolled {
            // The last thing that can fail.
            self.leave_segment(base_offset, effects).map_err(server)?;
        }
        self.store(data, is_rebuilt, size, segment, effects);
        self.log_end_offset = answer.last_offset.wrapping_add(1);
        self.producers.set_end_offset(self.log_end_offset);
        self.producers.forget_ended(self.high_watermark());
        Ok(answer)
    }

    /// Takes every batch of `data` as a request of its own, up to the first that is refused.
    pub fn append_each(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        effects: &mut Effects,
    ) -> AppendInfos {
        self.take_each(data, request, Form::Whole, effects)
    }

    fn take_each(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        form: Form,
        effects: &mut Effects,
    ) -> AppendInfos {
        let mut answers = AppendInfos {
            count: 0,
            duplicates: 0,
            last: AppendInfo::EMPTY,
            consumed: 0,
            refused: None,
        };
        let mut first_offset = None;
        loop {
            let at = answers.consumed;
            let rest = data.get(at..).unwrap_or_default();
            effects.expected = rest.len();
            let (size, taken) = match form.next(rest, 0) {
                Ok(NextBatch::NeedMore(_)) => break,
                Ok(NextBatch::Batch(_, entry)) => {
                    (entry.len(), self.take(entry, request, form, effects))
                }
                Err(error) => (0, Err(framing(error))),
            };
            match taken {
                Ok(answer) => {
                    first_offset = first_offset.or(Some(answer.first_offset));
                    answers.last = answer;
                    answers.count += u64::from(answer.last_offset >= 0);
                    answers.duplicates += u64::from(answer.is_duplicate);
                    answers.consumed += size;
                }
                Err(mut refused) => {
                    refused.position = refused.position.wrapping_add(at as u64);
                    answers.refused = Some(refused);
                    break;
                }
            }
        }
        effects.expected = 0;
        answers.last.first_offset = first_offset.unwrap_or(-1);
        answers
    }

    /// Validates a request of a leader and gives it its offsets; true if it was rebuilt.
    fn assign(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        form: Form,
        analysis: &mut Analysis,
    ) -> Result<bool> {
        let place = AppendContext {
            origin: request.origin,
            leader_epoch: request.leader_epoch,
            first_offset: self.log_end_offset,
            now: request.now,
            is_encoded_here: request.is_encoded_here,
            is_in_place: form == Form::Headers,
        };
        let rules = self.settings.rules;
        let validated =
            self.validator
                .validate(&rules, data, &mut self.batches, analysis.source, place)?;
        analysis.first_offset = Some(self.log_end_offset);
        analysis.last_offset = validated.next_offset.wrapping_sub(1);
        analysis.max_timestamp = validated.max_timestamp;
        Ok(validated.is_rebuilt)
    }

    /// Checks the producers of all batches; the first duplicate ends the request.
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

    /// Adds the batches to the indexes of `segment`, a copy; the bytes are kept in scratch memory.
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

    /// Hands out the bytes of a request that is taken, and makes it part of the state.
    fn store(
        &mut self,
        data: &[u8],
        is_rebuilt: bool,
        size: usize,
        segment: ActiveSegment,
        effects: &mut Effects,
    ) {
        self.segment = segment;
        self.segment.size += size as u64;
        for ValidatedBatch { header, .. } in &self.batches {
            effects.has_new_epochs |= match header.magic {
                2 => self
                    .epochs
                    .assign(header.partition_leader_epoch, header.base_offset)
                    .unwrap_or(false),
                _ => self.epochs.clear(),
            };
        }
        let expected = effects
            .expected
            .min(self.settings.segment_bytes.unsigned_abs() as usize);
        let Some(write) = effects.write_to(self.segment.base_offset) else {
            return;
        };
        write.index.extend_from_slice(&self.index);
        write.timeindex.extend_from_slice(&self.timeindex);
        if write.log.is_empty() {
            write.log.reserve_exact(expected.max(size));
        }
        if is_rebuilt {
            write.log.extend_from_slice(&self.validator.rebuilt);
        } else {
            let start = write.log.len();
            // Of a header alone, all there is.
            write
                .log
                .extend_from_slice(data.get(..size).unwrap_or(data));
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
            // It was checked before anything changed.
            let _ = self
                .segment
                .transactions
                .append(&aborted, &mut write.txnindex);
        }
    }

    fn log_append_time(&self, request: AppendRequest) -> i64 {
        let is_leader = matches!(
            request.origin,
            AppendOrigin::Client | AppendOrigin::Coordinator
        );
        match self.settings.rules.timestamp_type {
            TimestampType::LogAppendTime if is_leader => request.now,
            _ => -1,
        }
    }
}
