//! The checks of a request's records against the topic's rules.

use super::{AppendContext, Result, ValidationRules};
use crate::base::error::Error;
use crate::base::primitives::Reader;
use crate::broker::producers::AppendOrigin;
use crate::broker::refusal::{Refusal, Refused};
use crate::format::batch::{Header, LOG_OVERHEAD, TimestampType};
use crate::format::compression::{Compression, Decompressor};
use crate::format::message::{self, Message, MessageSet};
use crate::format::record;

/// The maximum number of listed record errors. Further errors are only counted.
const MAX_LISTED: usize = 1 << 16;

/// The results of the checks.
pub(super) struct RecordChecks<'r> {
    rules: &'r ValidationRules,
    pub(super) context: AppendContext,
    /// The number of records so far.
    pub(super) ordinal: i64,
    /// Largest timestamp of all batches, then of the last batch.
    pub(super) max_timestamp: i64,
    pub(super) max_batch_timestamp: i64,
    /// True if the records' offsets are 0, 1, 2 and so on.
    pub(super) is_in_order: bool,
    /// The refused records of the current batch, their number, and whether a timestamp is among the reasons.
    refused: Vec<(i32, String)>,
    refused_count: u64,
    is_timestamp: bool,
}

impl<'r> RecordChecks<'r> {
    pub(super) fn new(rules: &'r ValidationRules, context: AppendContext) -> Self {
        Self {
            rules,
            context,
            ordinal: 0,
            max_timestamp: -1,
            max_batch_timestamp: -1,
            is_in_order: true,
            refused: Vec::new(),
            refused_count: 0,
            is_timestamp: false,
        }
    }

    /// Accepts a batch of brokerless's encoder by its header. Returns false if the rules need more than the header, or
    /// may refuse a record.
    pub(super) fn accepts_header(&mut self, header: &Header) -> bool {
        let rules = self.rules;
        let is_stamped_here = rules.timestamp_type == TimestampType::LogAppendTime;
        let ahead = header.max_timestamp.saturating_sub(self.context.now);
        let is_accepted = self.context.is_encoded_here
            && self.context.origin == AppendOrigin::Client
            && header.magic == 2
            && record_limit(rules, header) == ValidationRules::NO_RECORD_LIMIT
            && header.timestamp_type() == TimestampType::CreateTime
            && !rules.is_compacted
            && (is_stamped_here
                || (rules.timestamp_before_max_ms == i64::MAX
                    && ahead <= rules.timestamp_after_max_ms));
        if is_accepted {
            self.ordinal += i64::from(header.records_count.unwrap_or(0));
            self.max_batch_timestamp = header.max_timestamp;
            self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        }
        is_accepted
    }

    pub(super) fn batch(
        &mut self,
        header: &Header,
        entry: &[u8],
        decompressor: &mut Decompressor,
    ) -> Result<()> {
        self.max_batch_timestamp = -1;
        if header.magic == 2 {
            self.records(header, entry, decompressor)?;
        } else {
            self.messages(header, entry, decompressor)?;
        }
        self.max_timestamp = self.max_timestamp.max(self.max_batch_timestamp);
        if self.refused_count == 0 {
            return Ok(());
        }
        Err(self.refusal())
    }

    fn records(
        &mut self,
        header: &Header,
        entry: &[u8],
        decompressor: &mut Decompressor,
    ) -> Result<()> {
        let payload = record::payload(header, entry, decompressor)
            .map_err(|error| Refused::of(Refusal::Append, error))?;
        let count = header.records_count.unwrap_or(0);
        let invalid = |error: Error| Refused::of(Refusal::InvalidRecord, error);
        let (base, factor) = match header.log_append_time() {
            Some(timestamp) => (timestamp, 0),
            None => (header.base_timestamp, 1),
        };
        let limit = record_limit(self.rules, header);
        let mut at = 0;
        for index in 0..record::check_count(count).map_err(invalid)? {
            if limit < ValidationRules::NO_RECORD_LIMIT {
                let length = Reader::new(payload.get(at..).unwrap_or_default()).varint();
                length
                    .and_then(|length| check_record(i64::from(length), limit))
                    .map_err(|error| invalid(record::at_record(error, index, count)))?;
            }
            let record = record::outline(payload, &mut at)
                .map_err(|error| invalid(record::at_record(error, index, count)))?;
            let timestamp = base.wrapping_add(record.timestamp_delta.wrapping_mul(factor));
            let offset = header
                .base_offset
                .wrapping_add(i64::from(record.offset_delta));
            self.record(
                header,
                index as i32,
                timestamp,
                offset,
                record.key.is_some(),
            );
        }
        record::check_end(payload, at, count).map_err(invalid)
    }

    fn messages(
        &mut self,
        header: &Header,
        entry: &[u8],
        decompressor: &mut Decompressor,
    ) -> Result<()> {
        let invalid = |error: Error| Refused::of(Refusal::InvalidRecord, error);
        let outer = Message::parse(*header, entry).map_err(invalid)?;
        let Some(codec) = message::wrapper_codec(header).map_err(invalid)? else {
            self.record(
                header,
                0,
                outer.timestamp,
                outer.offset,
                outer.key.is_some(),
            );
            return Ok(());
        };
        let wrapped = outer.wrapped().map_err(invalid)?;
        let payload = decompressor
            .decompress(codec, wrapped, header.magic == 0)
            .map_err(|error| Refused::of(Refusal::Append, error))?;
        let set = MessageSet::of_wrapper(header, payload).map_err(invalid)?;
        let mut index = 0;
        let mut broken = None;
        let limit = record_limit(self.rules, header);
        set.for_each(false, |message| {
            let size = message.entry.len().saturating_sub(LOG_OVERHEAD);
            check_record(size as i64, limit)?;
            if message.header.magic != header.magic {
                self.refuse(index, || {
                    format!(
                        "magic {} inside a wrapper of magic {}",
                        message.header.magic, header.magic
                    )
                });
                self.ordinal += 1;
            } else {
                if broken.is_none() {
                    broken = message.header.check_crc(message.entry).err();
                }
                let has_key = message.key.is_some();
                self.record(header, index, message.timestamp, message.offset, has_key);
            }
            index = index.wrapping_add(1);
            Ok(())
        })
        .map_err(invalid)?;
        match broken {
            Some(error) => Err(Refused::of(Refusal::CorruptRecord, error)),
            None => Ok(()),
        }
    }

    #[inline]
    fn record(&mut self, batch: &Header, index: i32, timestamp: i64, offset: i64, has_key: bool) {
        if offset != self.ordinal && batch.magic > 0 {
            self.is_in_order = false;
        }
        self.ordinal += 1;
        if self.rules.is_compacted && !has_key {
            self.refuse(index, || {
                "null key, but a compacted topic needs keys".to_owned()
            });
            return;
        }
        let is_timed = self.rules.timestamp_type == TimestampType::CreateTime && timestamp != -1;
        if is_timed {
            // Wraps as in Kafka: the same timestamps must be out of range.
            let age = self.context.now.wrapping_sub(timestamp);
            if age > self.rules.timestamp_before_max_ms
                || age.wrapping_neg() > self.rules.timestamp_after_max_ms
            {
                return self.refuse_timestamp(index, timestamp);
            }
        }
        // Brokers that store older formats refuse this claim even with a valid timestamp.
        if batch.timestamp_type() == TimestampType::LogAppendTime
            && (!is_timed || self.rules.message_format < 2)
        {
            self.is_timestamp = true;
            self.refuse(index, || {
                "the batch claims LogAppendTime, which only a broker may set".to_owned()
            });
            return;
        }
        if batch.magic > 0 && timestamp > self.max_batch_timestamp {
            self.max_batch_timestamp = timestamp;
        }
    }

    #[cold]
    fn refuse_timestamp(&mut self, index: i32, timestamp: i64) {
        self.is_timestamp = true;
        let (now, rules) = (self.context.now, self.rules);
        self.refuse(index, || {
            format!(
                "timestamp {timestamp} is not within {} ms before and {} ms after {now} (message_timestamp_before_max_ms, \
                 message_timestamp_after_max_ms)",
                rules.timestamp_before_max_ms, rules.timestamp_after_max_ms
            )
        });
    }

    #[cold]
    fn refuse(&mut self, index: i32, reason: impl FnOnce() -> String) {
        self.refused_count += 1;
        if self.refused.len() < MAX_LISTED {
            self.refused.push((index, reason()));
        }
    }

    fn refusal(&mut self) -> Refused {
        let refusal = if self.is_timestamp {
            Refusal::InvalidTimestamp
        } else {
            Refusal::InvalidRecord
        };
        let first = match self.refused.first() {
            Some((index, reason)) => format!("record {index}: {reason}"),
            None => String::new(),
        };
        let message = match self.refused_count {
            1 => first,
            count => format!("{count} records are refused; the first is {first}"),
        };
        let mut refused = Refused::new(refusal, message);
        refused.records = std::mem::take(&mut self.refused);
        refused
    }
}

/// The largest record of the batch. Brokers check it in compressed batches only.
fn record_limit(rules: &ValidationRules, header: &Header) -> i32 {
    match header.compression() {
        Ok(Compression::None) => ValidationRules::NO_RECORD_LIMIT,
        _ => rules.max_decompressed_message_bytes,
    }
}

fn check_record(size: i64, limit: i32) -> crate::base::error::Result<()> {
    if size <= i64::from(limit) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "record is {size} bytes decompressed, max_decompressed_message_bytes is {limit}: send smaller records, or raise it"
    )))
}
