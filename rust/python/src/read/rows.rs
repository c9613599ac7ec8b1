//! The Arrow schema of records, and its columns, which are defined only here. With `spark`, the types are Spark's too:
//! timestamps in microseconds, and null instead of an empty list of headers.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchOptions, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow_pyarrow::ToPyArrow as _;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use brokerless_core::{BatchRows, Columns, Error, Result, RowColumn as Column};
use pyo3::prelude::*;

use crate::base::arrays::{binary_array, headers_array, headers_type};
use crate::base::error::OrRaise as _;

/// The integers are Kafka's ids. JSON lines have the names instead.
pub(crate) const TIMESTAMP_TYPE: &str = "timestampType";

pub(crate) fn column_names() -> Vec<&'static str> {
    Column::ALL.iter().map(|(name, _)| *name).collect()
}

#[pyfunction]
#[pyo3(signature = (columns, spark=false))]
pub(crate) fn row_schema(
    py: Python<'_>,
    columns: Vec<String>,
    spark: bool,
) -> PyResult<Bound<'_, PyAny>> {
    Projection::new(&columns, spark)
        .or_raise()?
        .schema
        .to_pyarrow(py)
}

fn data_type(column: Column, spark: bool) -> DataType {
    let unit = if spark {
        TimeUnit::Microsecond
    } else {
        TimeUnit::Millisecond
    };
    match column {
        Column::Key | Column::Value => DataType::Binary,
        Column::Topic | Column::Compression => DataType::Utf8,
        Column::Partition | Column::TimestampType | Column::LeaderEpoch | Column::Sequence => {
            DataType::Int32
        }
        Column::Offset | Column::BaseOffset | Column::Position | Column::ProducerId => {
            DataType::Int64
        }
        Column::Timestamp => DataType::Timestamp(unit, Some("UTC".into())),
        Column::Headers => headers_type(),
        Column::Magic => DataType::Int8,
        Column::ProducerEpoch => DataType::Int16,
        Column::IsTransactional => DataType::Boolean,
    }
}

/// The wanted columns and their Arrow types.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    columns: Vec<Column>,
    spark: bool,
    pub(crate) schema: SchemaRef,
}

impl Projection {
    pub(crate) fn new(names: &[String], spark: bool) -> Result<Self> {
        let columns = names
            .iter()
            .map(|name| {
                Column::named(name)
                    .ok_or_else(|| Error::invalid(format!("unknown column {name:?}")))
            })
            .collect::<Result<Vec<_>>>()?;
        if let Some(twice) = names.iter().enumerate().find_map(|(i, name)| {
            names
                .get(..i)
                .is_some_and(|before| before.contains(name))
                .then_some(name)
        }) {
            return Err(Error::invalid(format!("column {twice:?} is named twice")));
        }
        let fields: Vec<_> = names
            .iter()
            .zip(&columns)
            .map(|(name, column)| Field::new(name, data_type(*column, spark), true))
            .collect();
        Ok(Self {
            columns,
            spark,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The empty decoded columns from which these columns are built.
    pub(crate) fn empty_columns(&self) -> Columns {
        Column::decoded(&self.columns)
    }
}

/// Makes Arrow batches of the core's columns.
#[derive(Debug)]
pub(crate) struct RowBuilder {
    projection: Projection,
    topic: Option<String>,
    partition: Option<i32>,
    topics: Repeated,
    partitions: Repeated,
    timestamp_types: Repeated,
    timestamp_type: Option<i32>,
    pub(crate) null_timestamps: u64,
}

impl RowBuilder {
    pub(crate) fn new(
        projection: Projection,
        topic: Option<String>,
        partition: Option<i32>,
    ) -> Self {
        Self {
            projection,
            topic,
            partition,
            topics: Repeated::default(),
            partitions: Repeated::default(),
            timestamp_types: Repeated::default(),
            timestamp_type: None,
            null_timestamps: 0,
        }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.projection.schema.clone()
    }

    /// Takes the rows out of `columns` as an Arrow batch; None without rows.
    pub(crate) fn take(&mut self, columns: &mut Columns) -> Result<Option<RecordBatch>> {
        let rows = columns.rows();
        if rows == 0 {
            return Ok(None);
        }
        let arrays = self
            .projection
            .columns
            .clone()
            .into_iter()
            .map(|column| self.array(column, columns, rows))
            .collect::<std::result::Result<Vec<_>, _>>();
        columns.clear();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        arrays
            .and_then(|arrays| RecordBatch::try_new_with_options(self.schema(), arrays, &options))
            .map(Some)
            .map_err(|error| Error::invalid(error.to_string()))
    }

    fn array(
        &mut self,
        column: Column,
        columns: &mut Columns,
        rows: usize,
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let absent = || ArrowError::InvalidArgumentError("column was not asked for".into());
        let batches = &columns.batches;
        Ok(match column {
            Column::Key => {
                let keys = columns.keys.as_mut().ok_or_else(absent)?;
                Arc::new(binary_array(keys)?)
            }
            Column::Value => {
                let values = columns.values.as_mut().ok_or_else(absent)?;
                Arc::new(binary_array(values)?)
            }
            Column::Headers => {
                let headers = columns.headers.as_mut().ok_or_else(absent)?;
                Arc::new(headers_array(headers, self.projection.spark)?)
            }
            Column::Topic => {
                let topic = &self.topic;
                self.topics.rows(rows, |rows| {
                    Arc::new(StringArray::from(vec![topic.as_deref(); rows]))
                })
            }
            Column::Partition => {
                let partition = self.partition;
                self.partitions.rows(rows, |rows| {
                    Arc::new(Int32Array::from(vec![partition; rows]))
                })
            }
            Column::Offset => Arc::new(Int64Array::from(take(&mut columns.offsets))),
            Column::Timestamp => self.timestamp_array(take(&mut columns.timestamps)),
            Column::Sequence => {
                let sequences = take(&mut columns.sequences);
                Arc::new(Int32Array::from_iter(sequences.into_iter().map(known)))
            }
            Column::TimestampType => {
                let timestamp_type = |batch: &BatchRows| batch.header.timestamp_type() as i32;
                match batches.first().map(timestamp_type) {
                    Some(first) if batches.iter().all(|batch| timestamp_type(batch) == first) => {
                        if self.timestamp_type != Some(first) {
                            self.timestamp_type = Some(first);
                            self.timestamp_types = Repeated::default();
                        }
                        self.timestamp_types
                            .rows(rows, |rows| Arc::new(Int32Array::from(vec![first; rows])))
                    }
                    _ => Arc::new(Int32Array::from(expand(batches, timestamp_type))),
                }
            }
            Column::LeaderEpoch => Arc::new(Int32Array::from(expand(batches, |batch| {
                known(batch.header.partition_leader_epoch)
            }))),
            Column::BaseOffset => Arc::new(Int64Array::from(expand(batches, |batch| {
                batch.first_offset
            }))),
            Column::Position => Arc::new(Int64Array::from(expand(batches, |batch| {
                batch.header.position as i64
            }))),
            Column::Magic => Arc::new(Int8Array::from(expand(batches, |batch| batch.header.magic))),
            Column::Compression => Arc::new(StringArray::from(expand(batches, |batch| {
                batch.header.compression().ok().map(|codec| codec.name())
            }))),
            Column::ProducerId => Arc::new(Int64Array::from(expand(batches, |batch| {
                known(batch.header.producer_id)
            }))),
            Column::ProducerEpoch => Arc::new(Int16Array::from(expand(batches, |batch| {
                known(batch.header.producer_epoch)
            }))),
            Column::IsTransactional => Arc::new(BooleanArray::from(expand(batches, |batch| {
                batch.header.is_transactional()
            }))),
        })
    }

    fn timestamp_array(&mut self, millis: Vec<i64>) -> ArrayRef {
        if !self.projection.spark {
            return Arc::new(TimestampMillisecondArray::from(millis).with_timezone("UTC"));
        }
        const LIMIT: i64 = i64::MAX / 1000;
        let beyond = millis
            .iter()
            .filter(|&&ms| !(-LIMIT..=LIMIT).contains(&ms))
            .count();
        if beyond == 0 {
            let micros: Vec<i64> = millis.into_iter().map(|ms| ms * 1000).collect();
            return Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"));
        }
        self.null_timestamps += beyond as u64;
        let micros = millis.into_iter().map(|ms| ms.checked_mul(1000));
        Arc::new(TimestampMicrosecondArray::from_iter(micros).with_timezone("UTC"))
    }
}

/// Repeats a value of each Kafka batch for each of its rows.
fn expand<T: Clone>(batches: &[BatchRows], value: impl Fn(&BatchRows) -> T) -> Vec<T> {
    let mut values = Vec::with_capacity(batches.iter().map(|batch| batch.rows).sum());
    for batch in batches {
        values.resize(values.len() + batch.rows, value(batch));
    }
    values
}

/// A value that is the same in all rows. Its array is built once, and sliced for each batch.
#[derive(Debug, Default)]
struct Repeated(Option<ArrayRef>);

impl Repeated {
    fn rows(&mut self, rows: usize, build: impl FnOnce(usize) -> ArrayRef) -> ArrayRef {
        match &self.0 {
            Some(array) if array.len() >= rows => array.slice(0, rows),
            _ => {
                let array = build(rows.next_power_of_two());
                self.0.insert(array).slice(0, rows)
            }
        }
    }
}

/// Converts Kafka's -1 to null.
fn known<T: Copy + PartialOrd + Default>(value: T) -> Option<T> {
    (value >= T::default()).then_some(value)
}

fn take<T>(column: &mut Option<Vec<T>>) -> Vec<T> {
    column.as_mut().map(std::mem::take).unwrap_or_default()
}
