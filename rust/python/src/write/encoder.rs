//! `Encoder`: encodes Arrow rows as batches.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, UInt8Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{
    BatchLimits, BatchOptions, BatchWriter, Codec, Compression, Error, Headers, HeadersBuffer,
    NewRecord, PlainRows, SourceFields, TimestampType,
};
use pyo3::intern;
use pyo3::prelude::*;

use crate::base::columns::{BytesColumn, Columns, HeadersColumn, NumbersColumn, TimeColumn};
use crate::base::error::{OrRaise as _, exception};

/// Memory of earlier batches, for reuse: fresh memory causes a page fault for every 4 KiB.
type Spares = Arc<Mutex<Vec<Vec<u8>>>>;

/// The maximum number of kept blocks. A caller that passes each buffer on before it requests the next needs two.
const KEPT_SPARES: usize = 2;
/// A block above this size is freed, so that one outsized call does not keep its memory forever.
const KEPT_SPARE_BYTES: usize = 16 << 20;

/// The columns of a record's content.
const CONTENT: [&str; 4] = ["key", "value", "headers", "timestamp"];
/// The content columns, and the columns of a record's place in its old log.
const WITH_SOURCE: [&str; 7] = [
    "key",
    "value",
    "headers",
    "timestamp",
    "offset",
    "leaderEpoch",
    "timestampType",
];

/// Batches lent to Python.
struct Lent {
    memory: Vec<u8>,
    length: usize,
    spares: Spares,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.memory.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < KEPT_SPARES && self.memory.len() <= KEPT_SPARE_BYTES {
            spares.push(std::mem::take(&mut self.memory));
        }
    }
}

#[pyclass(module = "brokerless._native")]
pub(crate) struct Encoder {
    writer: BatchWriter,
    headers: HeadersBuffer,
    spares: Spares,
    keep_offsets: bool,
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (*, magic=2, compression="none", level=None, batch_size=16384, max_records=None,
        keep_offsets=false, timestamp_type="CreateTime", log_append_time=-1, base_offset=0, partition_leader_epoch=-1,
        producer_id=-1, producer_epoch=-1, base_sequence=-1, is_transactional=false))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        magic: i8,
        compression: &str,
        level: Option<i32>,
        batch_size: usize,
        max_records: Option<i32>,
        keep_offsets: bool,
        timestamp_type: &str,
        log_append_time: i64,
        base_offset: i64,
        partition_leader_epoch: i32,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        is_transactional: bool,
    ) -> PyResult<Self> {
        let writer = || {
            let compression = Compression::from_name(compression)
                .ok_or_else(|| Error::invalid(format!("unknown compression {compression:?}")))?;
            let timestamp_type = TimestampType::from_name(timestamp_type).ok_or_else(|| {
                Error::invalid(format!("unknown timestamp type {timestamp_type:?}"))
            })?;
            let options = BatchOptions {
                magic,
                codec: Codec::new(compression, level)?,
                timestamp_type,
                log_append_time,
                base_offset,
                partition_leader_epoch,
                producer_id,
                producer_epoch,
                base_sequence,
                is_transactional,
                ..BatchOptions::default()
            };
            let limits = BatchLimits {
                batch_size,
                max_records: max_records.unwrap_or(i32::MAX),
            };
            BatchWriter::new(options, limits)
        };
        Ok(Self {
            writer: writer().or_raise()?,
            headers: HeadersBuffer::default(),
            spares: Spares::default(),
            keep_offsets,
        })
    }

    /// The sequence of the next record.
    #[getter]
    fn next_sequence(&self) -> i32 {
        self.writer.next_sequence()
    }

    #[pyo3(signature = (rows, *, timestamp))]
    fn encode<'py>(
        &mut self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        timestamp: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wanted: &[&'static str] = match self.keep_offsets {
            true => &WITH_SOURCE,
            false => &CONTENT,
        };
        let columns = Columns::new(rows, wanted)?;
        let records = Records::new(&columns, timestamp)?;
        let sources = match self.keep_offsets {
            true => Some(SourceColumns::new(&columns)?),
            false => None,
        };
        let lent = py
            .detach(|| self.batches(&records, sources.as_ref()))
            .or_raise()?;
        let length = lent.length;
        let memory = Buffer::from(bytes::Bytes::from_owner(lent));
        UInt8Array::new(ScalarBuffer::new(memory, 0, length), None)
            .to_data()
            .to_pyarrow(py)?
            .call_method0(intern!(py, "buffers"))?
            .get_item(1)
    }
}

impl Encoder {
    /// Encodes all rows, or none: an error discards the rows before it.
    fn batches(
        &mut self,
        records: &Records,
        sources: Option<&SourceColumns>,
    ) -> Result<Lent, Error> {
        let spare = self
            .spares
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let pushed = match sources {
            Some(sources) => self.push_at(records, sources),
            None => self.push(records),
        };
        match pushed.and_then(|()| self.writer.finish(spare.unwrap_or_default())) {
            Ok((memory, length)) => Ok(Lent {
                memory,
                length,
                spares: Arc::clone(&self.spares),
            }),
            Err(error) => {
                self.writer.discard();
                Err(error)
            }
        }
    }

    fn push_at(&mut self, records: &Records, sources: &SourceColumns) -> Result<(), Error> {
        for row in 0..records.rows {
            records
                .get(row, &mut self.headers)
                .and_then(|mut record| {
                    let (offset, source) = sources.get(row)?;
                    record.offset = offset;
                    self.writer.push_at(&record, source)
                })
                .map_err(|error| numbered(error, row))?;
        }
        Ok(())
    }

    fn push(&mut self, records: &Records) -> Result<(), Error> {
        let same_times;
        let times = match &records.times {
            // A column of nulls has no memory that would limit the number of rows.
            None if records.values.is_absent() => None,
            None => {
                same_times = vec![records.timestamp; records.rows];
                Some(same_times.as_slice())
            }
            Some(times) => times.plain(),
        };
        let plain = times.and_then(|times| records.plain(times));
        let mut row = 0;
        while row < records.rows {
            records
                .get(row, &mut self.headers)
                .and_then(|record| self.writer.push(record))
                .map_err(|error| numbered(error, row))?;
            row += 1;
            if let Some(plain) = &plain {
                row += self.writer.push_plain(plain, row);
            }
        }
        Ok(())
    }
}

#[cold]
fn numbered(mut error: Error, row: usize) -> Error {
    error.message = format!("row {row}: {}", error.message);
    error
}

/// The columns from which records are made.
struct Records {
    rows: usize,
    keys: BytesColumn,
    values: BytesColumn,
    headers: Option<HeadersColumn>,
    times: Option<TimeColumn>,
    timestamp: i64,
}

impl Records {
    fn new(columns: &Columns, timestamp: i64) -> PyResult<Self> {
        if columns.get("value").is_none() {
            return Err(exception(Error::invalid("there is no column value")));
        }
        let bytes = |name| BytesColumn::new(name, columns.typed(name));
        let headers = columns.typed("headers");
        let times = columns.typed("timestamp");
        Ok(Self {
            rows: columns.rows,
            keys: bytes("key")?,
            values: bytes("value")?,
            headers: headers.map(HeadersColumn::new).transpose()?,
            times: times
                .map(|array| TimeColumn::new("timestamp", array))
                .transpose()?,
            timestamp,
        })
    }

    /// Returns the columns for the fast path, if all rows qualify.
    fn plain<'a>(&'a self, timestamps: &'a [i64]) -> Option<PlainRows<'a>> {
        let headers = match &self.headers {
            Some(column) if !column.is_empty() => Some(column.plain()?),
            _ => None,
        };
        let keys = match self.keys.is_absent() {
            true => None,
            false => Some(self.keys.plain()?),
        };
        Some(PlainRows {
            keys,
            values: self.values.plain()?,
            headers,
            timestamps,
        })
    }

    #[inline]
    fn get<'a>(
        &'a self,
        row: usize,
        headers: &'a mut HeadersBuffer,
    ) -> Result<NewRecord<'a>, Error> {
        let timestamp = match &self.times {
            None => None,
            Some(times) => times.millis(row)?,
        };
        let headers = match &self.headers {
            None => Headers::NONE,
            Some(column) => {
                column.get(row, headers)?;
                headers.headers()
            }
        };
        Ok(NewRecord {
            offset: 0,
            timestamp: timestamp.unwrap_or(self.timestamp),
            key: self.keys.get(row)?,
            value: self.values.get(row)?,
            headers,
        })
    }
}

/// The columns of a record's place in its old log.
struct SourceColumns {
    offsets: NumbersColumn<i64>,
    leader_epochs: Option<NumbersColumn<i32>>,
    timestamp_types: Option<NumbersColumn<i32>>,
}

impl SourceColumns {
    fn new(columns: &Columns) -> PyResult<Self> {
        let offsets = columns.numbers("offset", "int64")?.ok_or_else(|| {
            let message = "there is no column offset, which must be kept";
            exception(Error::invalid(message))
        })?;
        Ok(Self {
            offsets,
            leader_epochs: columns.numbers("leaderEpoch", "int32")?,
            timestamp_types: columns.numbers("timestampType", "int32")?,
        })
    }

    fn get(&self, row: usize) -> Result<(i64, SourceFields), Error> {
        let Some(offset) = self.offsets.get(row) else {
            return Err(Error::invalid("offset is null"));
        };
        let known = |column: &Option<NumbersColumn<i32>>| column.as_ref()?.get(row);
        let timestamp_type = known(&self.timestamp_types)
            .map(|id| {
                TimestampType::from_id(id)
                    .ok_or_else(|| Error::invalid(format!("unknown timestamp type {id}")))
            })
            .transpose()?;
        let source = SourceFields {
            leader_epoch: known(&self.leader_epochs),
            timestamp_type,
        };
        Ok((offset, source))
    }
}
