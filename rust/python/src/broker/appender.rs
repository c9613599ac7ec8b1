//! `Appender`: a broker's appends to one log.

use brokerless_core::{
    ActiveSegment, AppendInfo, AppendInfos, AppendOrigin, AppendRequest, Effects, Error,
    LogAppender, LogConfig, NextBatch, Refused, SegmentIndexes, TimestampType, TransactionIndexEnd,
    ValidationRules, next_batch, topic_codec,
};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::broker::appended::{Appended, Closing};
use crate::broker::leader_epochs::LeaderEpochs;
use crate::broker::producers::Producers;
use crate::broker::segment_state::SegmentState;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct Appender(LogAppender);

#[pymethods]
impl Appender {
    #[new]
    #[pyo3(signature = (*, segment, producers, leader_epochs, log_start_offset, log_end_offset, segment_bytes,
        segment_ms, segment_jitter_ms, segment_index_bytes, index_interval_bytes, max_message_bytes,
        max_decompressed_message_bytes, compression_type, compression_gzip_level, compression_lz4_level, compression_zstd_level,
        message_timestamp_type, message_timestamp_before_max_ms, message_timestamp_after_max_ms, cleanup_policy,
        max_compaction_lag_ms, producer_id_expiration_ms, message_format, segment_jitter_seed=0,
        max_batch_bytes=1 << 30))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        segment: &SegmentState,
        producers: &Producers,
        leader_epochs: &LeaderEpochs,
        log_start_offset: i64,
        log_end_offset: i64,
        segment_bytes: i32,
        segment_ms: i64,
        segment_jitter_ms: i64,
        segment_index_bytes: usize,
        index_interval_bytes: i64,
        max_message_bytes: i64,
        max_decompressed_message_bytes: i32,
        compression_type: &str,
        compression_gzip_level: i32,
        compression_lz4_level: i32,
        compression_zstd_level: i32,
        message_timestamp_type: &str,
        message_timestamp_before_max_ms: i64,
        message_timestamp_after_max_ms: i64,
        cleanup_policy: &str,
        max_compaction_lag_ms: i64,
        producer_id_expiration_ms: i64,
        message_format: i8,
        segment_jitter_seed: u64,
        max_batch_bytes: usize,
    ) -> PyResult<Self> {
        let is_compacted = cleanup_policy
            .split(',')
            .any(|policy| policy.trim() == "compact");
        let (gzip, lz4, zstd) = (
            compression_gzip_level,
            compression_lz4_level,
            compression_zstd_level,
        );
        let settings = topic_codec(compression_type, gzip, lz4, zstd)
            .and_then(|codec| {
                let rules = ValidationRules {
                    message_format,
                    codec,
                    timestamp_type: timestamp_type(message_timestamp_type)?,
                    timestamp_before_max_ms: message_timestamp_before_max_ms,
                    timestamp_after_max_ms: message_timestamp_after_max_ms,
                    is_compacted,
                    max_message_bytes,
                    max_decompressed_message_bytes,
                };
                Ok(LogConfig {
                    rules,
                    segment_bytes: i64::from(segment_bytes),
                    segment_ms: match is_compacted {
                        true => segment_ms.min(max_compaction_lag_ms),
                        false => segment_ms,
                    },
                    segment_jitter_ms,
                    jitter_seed: segment_jitter_seed,
                    segment_index_bytes,
                    index_interval_bytes,
                    producer_id_expiration_ms,
                    max_batch_bytes,
                })
            })
            .or_raise()?;
        let log = LogAppender::new(
            settings,
            active_segment(&settings, segment),
            producers.0.clone(),
            leader_epochs.0.clone(),
            log_start_offset,
            log_end_offset,
        );
        Ok(Self(log))
    }

    #[pyo3(signature = (data, *, leader_epoch, now, origin="client", may_be_cut=true, transaction_version=0))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python method"
    )]
    fn append(
        &mut self,
        py: Python<'_>,
        data: Bytes,
        leader_epoch: i32,
        now: i64,
        origin: &str,
        may_be_cut: bool,
        transaction_version: i8,
    ) -> PyResult<Appended> {
        let request = AppendRequest {
            transaction_version,
            ..request(origin, leader_epoch, now)?
        };
        let data = data.as_slice();
        if !may_be_cut {
            check_whole(data).or_raise()?;
        }
        self.appended(py, |log, effects| {
            let info = log.append(data, request, effects)?;
            Ok(combined(info, data.len()))
        })
    }

    #[pyo3(signature = (data, *, leader_epoch, now, origin="client", position=0, is_encoded_here=false))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python method"
    )]
    fn append_each(
        &mut self,
        py: Python<'_>,
        data: Bytes,
        leader_epoch: i32,
        now: i64,
        origin: &str,
        position: u64,
        is_encoded_here: bool,
    ) -> PyResult<Appended> {
        let request = AppendRequest {
            is_encoded_here,
            ..request(origin, leader_epoch, now)?
        };
        self.appended(py, |log, effects| {
            let mut infos = log.append_each(data.as_slice(), request, effects);
            if let Some(refused) = &mut infos.refused {
                refused.position = refused.position.wrapping_add(position);
            }
            Ok(infos)
        })
    }

    #[pyo3(signature = (headers, *, leader_epoch, now, origin="client"))]
    fn append_in_place(
        &mut self,
        py: Python<'_>,
        headers: Bytes,
        leader_epoch: i32,
        now: i64,
        origin: &str,
    ) -> PyResult<Appended> {
        let request = AppendRequest {
            is_encoded_here: true,
            ..request(origin, leader_epoch, now)?
        };
        self.appended(py, |log, effects| {
            log.append_in_place(headers.as_slice(), request, effects)
        })
    }

    fn roll(&mut self, py: Python<'_>, now: i64) -> PyResult<Appended> {
        self.appended(py, |log, effects| {
            log.roll(now, effects)?;
            Ok(combined(AppendInfo::EMPTY, 0))
        })
    }

    fn close(&mut self, py: Python<'_>) -> PyResult<Closing> {
        let (final_time_entry, snapshot) = self.0.close().or_raise()?;
        Closing::new(py, final_time_entry, snapshot)
    }

    #[pyo3(signature = (offset, batch_base_offset=None, snapshot_offset=None))]
    fn set_log_start_offset(
        &mut self,
        offset: i64,
        batch_base_offset: Option<i64>,
        snapshot_offset: Option<i64>,
    ) -> PyResult<bool> {
        self.0
            .set_log_start_offset(offset, batch_base_offset.unwrap_or(offset), snapshot_offset)
            .or_raise()
    }

    fn set_high_watermark(&mut self, offset: Option<i64>) {
        self.0.set_high_watermark(offset);
    }

    fn remove_expired_producers(&mut self, now: i64) -> Vec<i64> {
        self.0.remove_expired_producers(now)
    }

    #[getter]
    fn producers(&self) -> Producers {
        Producers(self.0.producers().clone())
    }

    #[getter]
    fn leader_epochs(&mut self) -> LeaderEpochs {
        LeaderEpochs(self.0.epochs().clone())
    }

    #[getter]
    fn log_start_offset(&self) -> i64 {
        self.0.log_start_offset()
    }

    #[getter]
    fn log_end_offset(&self) -> i64 {
        self.0.log_end_offset()
    }

    #[getter]
    fn high_watermark(&self) -> i64 {
        self.0.high_watermark()
    }

    #[getter]
    fn first_unstable_offset(&self) -> Option<i64> {
        self.0.first_unstable_offset()
    }

    #[getter]
    fn last_stable_offset(&self) -> i64 {
        self.0.last_stable_offset()
    }

    #[getter]
    fn segment_base_offset(&self) -> i64 {
        self.0.segment().base_offset
    }

    #[getter]
    fn segment_size(&self) -> u64 {
        self.0.segment().size
    }

    #[getter]
    fn max_timestamp(&self) -> (i64, i64) {
        let found = self.0.segment().indexes.max_timestamp;
        (found.timestamp, found.offset)
    }
}

impl Appender {
    fn appended(
        &mut self,
        py: Python<'_>,
        append: impl FnOnce(&mut LogAppender, &mut Effects) -> Result<AppendInfos, Refused> + Send,
    ) -> PyResult<Appended> {
        let mut effects = Effects::default();
        let infos = py.detach(|| append(&mut self.0, &mut effects)).or_raise()?;
        Appended::new(py, infos, effects)
    }
}

fn timestamp_type(name: &str) -> brokerless_core::Result<TimestampType> {
    [TimestampType::CreateTime, TimestampType::LogAppendTime]
        .into_iter()
        .find(|timestamp_type| timestamp_type.name() == name)
        .ok_or_else(|| {
            Error::invalid(format!(
                "message_timestamp_type is {name:?}, not one of CreateTime, LogAppendTime"
            ))
        })
}

fn request(origin: &str, leader_epoch: i32, now: i64) -> PyResult<AppendRequest> {
    let found = AppendOrigin::from_name(origin).ok_or_else(|| {
        Error::invalid(format!(
            "origin is {origin:?}, not one of client, coordinator, replication, raft_leader"
        ))
    });
    let origin = found.or_raise()?;
    Ok(AppendRequest {
        origin,
        leader_epoch,
        now,
        is_encoded_here: false,
        transaction_version: 0,
    })
}

fn active_segment(settings: &LogConfig, state: &SegmentState) -> ActiveSegment {
    let (interval, max_bytes) = (settings.index_interval_bytes, settings.segment_index_bytes);
    let mut indexes = SegmentIndexes::new(state.base_offset, interval, max_bytes)
        .reopened(&state.index, &state.timeindex);
    if let Some(max_timestamp) = state.max_timestamp {
        indexes.max_timestamp = max_timestamp;
    }
    ActiveSegment {
        base_offset: state.base_offset,
        size: state.size,
        created_ms: state.created_ms,
        first_timestamp: state.first_timestamp,
        indexes,
        transactions: TransactionIndexEnd {
            last_offset: state.last_txn_offset,
        },
    }
}

/// Refuses an incomplete last batch. A broker ignores an incomplete batch, because a fetch may end anywhere. Other
/// callers would lose the batch.
fn check_whole(data: &[u8]) -> Result<(), Error> {
    let mut position = 0;
    loop {
        let rest = data.get(position..).unwrap_or_default();
        match next_batch(rest, position as u64) {
            Ok(NextBatch::Batch(header, _)) => position += header.size(),
            Ok(NextBatch::NeedMore(_)) if rest.is_empty() => return Ok(()),
            Ok(NextBatch::NeedMore(_)) => {
                let message = format!(
                    "the last batch is cut, {} bytes are left of it; nothing was appended",
                    rest.len()
                );
                return Err(Error::corrupt(message).at(position as u64, None));
            }
            // The append reports the error.
            Err(_) => return Ok(()),
        }
    }
}

fn combined(info: AppendInfo, consumed: usize) -> AppendInfos {
    AppendInfos {
        count: u64::from(info.last_offset >= 0),
        duplicates: u64::from(info.is_duplicate),
        last: info,
        consumed,
        refused: None,
    }
}
