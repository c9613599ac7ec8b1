//! The records of Kafka's own topics as Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMillisecondBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{Error, InternalTopic, OffsetCommit, Result, StateRecord, in_bytes};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::borrowed_array::Array;
use crate::base::columns::BytesColumn;
use crate::base::error::{OrRaise as _, exception};

/// The maximum size of the text in a column, because Arrow's offsets have 32 bits.
const MOST_TEXT: usize = 1 << 30;

#[pyfunction]
#[pyo3(signature = (topic, keys, values, memory=MOST_MEMORY))]
pub(crate) fn state_records<'py>(
    py: Python<'py>,
    topic: &str,
    keys: Bound<'py, PyAny>,
    values: Bound<'py, PyAny>,
    memory: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let topic = InternalTopic::from_name(topic)
        .ok_or_else(|| exception(Error::invalid(format!("{topic} is no internal topic"))))?;
    let records = Records::new(py, keys, values)?;
    py.detach(|| decoded(topic, &records, memory))
        .or_raise()?
        .to_pyarrow(py)
}

/// The default for the maximum memory of one decoded record.
const MOST_MEMORY: u64 = 250_000_000;
/// Several decoded records together take at most the memory divided by this.
const SHARE_OF_PART: u64 = 4;
/// The memory of a key in a map that is half full, in addition to its bytes.
const MEMORY_OF_KEY: usize = 112;
/// The memory of an empty record.
const MEMORY_OF_ROW: u64 = 200;

/// A decoder of offset commits, which remembers the last offset of each key, even after the key is removed.
#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct OffsetCommits {
    last: HashMap<Box<[u8]>, Last>,
    /// The number of commits that could not be decoded, and the row index and the reason of the first one.
    failed: Option<(u64, usize, String)>,
    /// The memory that `last` uses, and the maximum that it may use.
    memory: usize,
    most: usize,
}

/// The last commit of a key: its offset and its time.
#[derive(Debug, Clone, Copy)]
struct Last {
    offset: i64,
    time: i64,
}

#[pymethods]
impl OffsetCommits {
    #[new]
    #[pyo3(signature = (memory=MOST_MEMORY as usize))]
    fn new(memory: usize) -> Self {
        Self {
            last: HashMap::new(),
            failed: None,
            memory: 0,
            most: memory,
        }
    }

    #[getter]
    fn failed(&self) -> Option<(u64, usize, String)> {
        self.failed.clone()
    }

    #[pyo3(signature = (keys, values))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        keys: Bound<'py, PyAny>,
        values: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let records = Records::new(py, keys, values)?;
        py.detach(|| commits(&records, self))
            .or_raise()?
            .to_pyarrow(py)
    }
}

#[pyfunction]
#[pyo3(signature = (name, data, version=None))]
pub(crate) fn embedded_json<'py>(
    py: Python<'py>,
    name: &str,
    data: &[u8],
    version: Option<i16>,
) -> PyResult<Bound<'py, PyBytes>> {
    brokerless_core::embedded_json(name, version, data)
        .map(|json| PyBytes::new(py, &json))
        .or_raise()
}

/// The keys and values of records.
struct Records {
    rows: usize,
    keys: BytesColumn,
    values: BytesColumn,
}

impl Records {
    fn new(py: Python<'_>, keys: Bound<'_, PyAny>, values: Bound<'_, PyAny>) -> PyResult<Self> {
        let mut arrays = Array::import(py, [keys, values])?;
        let (keys, values) = (arrays.next(), arrays.next());
        let rows = |array: &Option<Array>| array.as_ref().map_or(0, |array| array.rows.len());
        if rows(&keys) != rows(&values) {
            let text = format!("{} keys, but {} values", rows(&keys), rows(&values));
            return Err(exception(Error::invalid(text)));
        }
        Ok(Self {
            rows: rows(&keys),
            keys: BytesColumn::new("key", keys.as_ref())?,
            values: BytesColumn::new("value", values.as_ref())?,
        })
    }
}

/// Text for an Arrow column.
#[derive(Default)]
struct Texts(StringBuilder);

impl Texts {
    fn push(&mut self, text: Option<&str>) -> Result<()> {
        let more = text.map_or(0, str::len);
        if self.0.values_slice().len() + more > MOST_TEXT {
            return Err(Error::unsupported(format!(
                "a column takes more than {MOST_TEXT} bytes: decode fewer records at a time"
            )));
        }
        self.0.append_option(text);
        Ok(())
    }

    /// Adds JSON, which is valid text; null if it is empty.
    fn push_json(&mut self, json: &[u8]) -> Result<()> {
        let text =
            std::str::from_utf8(json).map_err(|_| Error::invalid("JSON that is no valid text"))?;
        self.push((!text.is_empty()).then_some(text))
    }
}

/// Decodes as many records as fit into the memory, but at least one.
fn decoded(topic: InternalTopic, records: &Records, memory: u64) -> Result<RecordBatch> {
    let (mut kinds, mut versions) = (Int16Builder::new(), Int16Builder::new());
    let mut memories = UInt64Builder::new();
    let mut too_large = BooleanBuilder::new();
    let mut taken = 0;
    let mut texts: [Texts; 4] = Default::default();
    let mut record = StateRecord::default();
    for row in 0..records.rows {
        let (key, value) = (records.keys.get(row)?, records.values.get(row)?);
        topic.decode(key, value, Some(memory), &mut record);
        let kept = if record.is_too_large {
            0
        } else {
            record.memory
        };
        if row > 0 && taken + kept > memory / SHARE_OF_PART {
            break;
        }
        taken += kept + MEMORY_OF_ROW;
        memories.append_value(record.memory);
        too_large.append_value(record.is_too_large);
        kinds.append_option(record.kind);
        versions.append_option(record.version);
        let [names, keys, values, unknown] = &mut texts;
        names.push(record.name)?;
        keys.push_json(&record.key)?;
        values.push_json(&record.value)?;
        unknown.push(record.unknown.as_deref())?;
    }
    let [names, keys, values, unknown] =
        texts.map(|mut texts| Arc::new(texts.0.finish()) as ArrayRef);
    batch([
        ("type", Arc::new(kinds.finish()) as ArrayRef),
        ("name", names),
        ("version", Arc::new(versions.finish())),
        ("key", keys),
        ("value", values),
        ("unknown", unknown),
        ("memory", Arc::new(memories.finish())),
        ("is_too_large", Arc::new(too_large.finish())),
    ])
}

fn commits(records: &Records, decoder: &mut OffsetCommits) -> Result<RecordBatch> {
    let OffsetCommits {
        last,
        failed,
        memory,
        most,
    } = decoder;
    let (mut rows, mut partitions) = (Int32Builder::new(), Int32Builder::new());
    let (mut offsets, mut epochs) = (Int64Builder::new(), Int32Builder::new());
    let mut previous = Int64Builder::new();
    let mut removed = BooleanBuilder::new();
    let time = || TimestampMillisecondBuilder::new().with_timezone("UTC");
    let (mut times, mut expire_times, mut previous_times) = (time(), time(), time());
    let mut texts: [Texts; 4] = Default::default();
    for row in 0..records.rows {
        let (key, value) = (records.keys.get(row)?, records.values.get(row)?);
        let commit = match OffsetCommit::decode(key, value) {
            Ok(Some(commit)) => commit,
            Ok(None) => continue,
            Err(error) => {
                failed.get_or_insert((0, row, error.message)).0 += 1;
                continue;
            }
        };
        rows.append_value(row as i32);
        let [groups, topics, metadata, topic_ids] = &mut texts;
        groups.push(Some(&commit.group))?;
        topics.push(Some(&commit.topic))?;
        partitions.append_value(commit.partition);
        let committed = commit.committed.as_ref();
        let key = key.unwrap_or_default();
        let known = last.get_mut(key);
        previous.append_option(known.as_ref().map(|known| known.offset));
        previous_times.append_option(known.as_ref().map(|known| known.time));
        if let Some(value) = committed {
            let now = Last {
                offset: value.offset,
                time: value.commit_timestamp,
            };
            match known {
                Some(known) => *known = now,
                None => {
                    *memory += MEMORY_OF_KEY + key.len();
                    if *memory > *most {
                        return Err(Error::unsupported(format!(
                            "the offsets of {} keys take more than {} of memory",
                            last.len(),
                            in_bytes(*most as u64)
                        )));
                    }
                    last.insert(key.into(), now);
                }
            }
        }
        removed.append_value(committed.is_none());
        offsets.append_option(committed.map(|value| value.offset));
        epochs.append_option(
            committed.and_then(|value| (value.leader_epoch >= 0).then_some(value.leader_epoch)),
        );
        metadata.push(committed.map(|value| value.metadata.as_ref()))?;
        times.append_option(committed.map(|value| value.commit_timestamp));
        expire_times.append_option(committed.and_then(|value| value.expire_timestamp));
        topic_ids.push(committed.and_then(|value| value.topic_id.as_deref()))?;
    }
    let [groups, topics, metadata, topic_ids] =
        texts.map(|mut texts| Arc::new(texts.0.finish()) as ArrayRef);
    batch([
        ("row", Arc::new(rows.finish()) as ArrayRef),
        ("group", groups),
        ("topic", topics),
        ("partition", Arc::new(partitions.finish())),
        ("is_removed", Arc::new(removed.finish())),
        ("offset", Arc::new(offsets.finish())),
        ("previous_offset", Arc::new(previous.finish())),
        ("previous_commit_time", Arc::new(previous_times.finish())),
        ("leader_epoch", Arc::new(epochs.finish())),
        ("metadata", metadata),
        ("commit_time", Arc::new(times.finish())),
        ("expire_time", Arc::new(expire_times.finish())),
        ("topic_id", topic_ids),
    ])
}

fn batch<const N: usize>(columns: [(&'static str, ArrayRef); N]) -> Result<RecordBatch> {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .map_err(|error| Error::invalid(error.to_string()))
}
