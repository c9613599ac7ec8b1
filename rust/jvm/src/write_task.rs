//! The messages between the driver, the tasks of a write, and its commit: JSON, as `brokerless.spark.sink.written`
//! writes and reads it.

use std::collections::HashMap;

use brokerless_core::{BatchLimits, BatchOptions, BatchWriter, Codec, Compression, Error, Result};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::task::check_version;

/// The version of the form.
const VERSION: u32 = 1;
/// The maximum number of partitions of a topic: see `brokerless.layout.file_names`.
const MOST_PARTITIONS: i32 = 100_000;

#[derive(Debug, Deserialize)]
pub(crate) struct WriteTask {
    version: u32,
    /// The topic of the write.
    pub(crate) attempt: String,
    /// The columns to write.
    pub(crate) columns: Vec<String>,
    pub(crate) staging: Staging,
    /// The fingerprint of the partitions of each topic, and the fingerprint for any other topic.
    pub(crate) among: HashMap<String, String>,
    pub(crate) among_of_others: String,
}

impl WriteTask {
    pub(crate) fn parse(text: &[u8]) -> std::result::Result<Self, TaskError> {
        let task: Self = serde_json::from_slice(text)
            .map_err(|error| TaskError::plain(format!("the write cannot be read: {error}")))?;
        check_version("write", task.version, VERSION)?;
        match task.staging.others {
            Some(others) if !(1..=MOST_PARTITIONS).contains(&others) => Err(TaskError::value(
                format!("{others} partitions: 1 to {MOST_PARTITIONS} are allowed"),
            )),
            _ => Ok(task),
        }
    }
}

/// `brokerless.staging.parts.Staging`.
#[derive(Debug, Deserialize)]
pub(crate) struct Staging {
    pub(crate) path: String,
    pub(crate) token: String,
    pub(crate) topic: Option<String>,
    pub(crate) partitions: HashMap<String, Vec<i32>>,
    pub(crate) others: Option<i32>,
    pub(crate) encoding: Encoding,
}

/// `brokerless.staging.parts.Encoding`.
#[derive(Debug, Deserialize)]
pub(crate) struct Encoding {
    compression: String,
    pub(crate) batch_size: usize,
    idempotent: bool,
    transactional: bool,
    pub(crate) keep_offsets: bool,
}

impl Encoding {
    pub(crate) fn has_producer(&self) -> bool {
        self.idempotent || self.transactional
    }

    /// The batches of one partition.
    pub(crate) fn batches(&self, producer_id: i64) -> Result<BatchWriter> {
        let compression = Compression::from_name(&self.compression)
            .ok_or_else(|| Error::invalid(format!("unknown compression {:?}", self.compression)))?;
        let sequence = if self.has_producer() { 0 } else { -1 };
        let options = BatchOptions {
            codec: Codec::new(compression, None)?,
            partition_leader_epoch: if self.keep_offsets { 0 } else { -1 },
            producer_id,
            producer_epoch: sequence,
            base_sequence: sequence.into(),
            is_transactional: self.transactional,
            ..BatchOptions::default()
        };
        let limits = BatchLimits {
            batch_size: self.batch_size,
            max_records: i32::MAX,
        };
        BatchWriter::new(options, limits)
    }
}

/// `brokerless.spark.sink.written.Written`.
#[derive(Serialize)]
pub(crate) struct Written<'a> {
    pub(crate) query: &'a str,
    pub(crate) attempt: &'a str,
    pub(crate) parts: Vec<&'a Part>,
}

/// `brokerless.staging.parts.Part`.
#[derive(Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) path: String,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) among: String,
    pub(crate) size: u64,
    pub(crate) records: u64,
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) leader_epoch: i32,
}
