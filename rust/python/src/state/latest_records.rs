//! `LatestRecords`: the latest record of each key.

use std::collections::HashMap;
use std::iter::Peekable;
use std::mem;
use std::sync::Arc;
use std::vec::IntoIter;

use arrow_array::builder::{BinaryBuilder, Int64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_pyarrow::ToPyArrow;
use brokerless_core::{Error, LatestRecord, LatestRecords as Latest, Result};
use pyo3::prelude::*;

use crate::base::borrowed_array::Array;
use crate::base::columns::{BytesColumn, NumbersColumn};
use crate::base::error::{OrRaise as _, exception};

/// Rows and bytes of a batch that `take` returns.
const MOST_ROWS: usize = 64 << 10;
const MOST_BYTES: usize = 4 << 20;

type Records = Peekable<IntoIter<(Box<[u8]>, LatestRecord)>>;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct LatestRecords {
    latest: Latest,
}

#[pymethods]
impl LatestRecords {
    #[new]
    #[pyo3(signature = (memory=usize::MAX, *, share=(0, 1)))]
    fn new(memory: usize, share: (u64, u64)) -> Self {
        Self {
            latest: Latest::new(memory).of_share(share.0, share.1),
        }
    }

    #[pyo3(signature = (keys, values, offsets, timestamps))]
    fn push(
        &mut self,
        py: Python<'_>,
        keys: Bound<'_, PyAny>,
        values: Bound<'_, PyAny>,
        offsets: Bound<'_, PyAny>,
        timestamps: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let arrays: Vec<_> = Array::import(py, [keys, values, offsets, timestamps])?.collect();
        let [keys, values, offsets, timestamps] = arrays.as_slice() else {
            return Ok(());
        };
        let rows = keys.rows.len();
        if [values, offsets, timestamps]
            .iter()
            .any(|array| array.rows.len() != rows)
        {
            let text = "keys, values, offsets and timestamps are not of one length";
            return Err(exception(Error::invalid(text)));
        }
        let keys = BytesColumn::new("key", Some(keys))?;
        let values = BytesColumn::new("value", Some(values))?;
        let offsets = NumbersColumn::<i64>::named("offset", offsets, "int64")?;
        let timestamps = NumbersColumn::<i64>::named("timestamp", timestamps, "int64")?;
        let latest = &mut self.latest;
        let mut push = |row| -> Result<()> {
            // A record without a key has no meaning here.
            if let Some(key) = keys.get(row)? {
                let number = |column: &Option<NumbersColumn<i64>>| {
                    column
                        .as_ref()
                        .and_then(|column| column.get(row))
                        .unwrap_or(-1)
                };
                latest.push(key, values.get(row)?, number(&offsets), number(&timestamps))?;
            }
            Ok(())
        };
        py.detach(|| (0..rows).try_for_each(&mut push)).or_raise()
    }

    fn take_commit_groups(&mut self, py: Python<'_>) -> HashMap<String, i64> {
        py.detach(|| self.latest.take_commit_groups())
    }

    fn too_large(&self) -> Vec<(i64, usize)> {
        self.latest.too_large()
    }

    #[pyo3(signature = (*, by_group=false))]
    fn take(&mut self, py: Python<'_>, by_group: bool) -> LatestBatches {
        let latest = mem::replace(&mut self.latest, Latest::new(0));
        let records = py.detach(|| match by_group {
            true => latest.into_groups(),
            false => latest.into_records(),
        });
        LatestBatches {
            records: records.into_iter().peekable(),
            is_first: true,
        }
    }
}

/// The records that `take` returns, one batch at a time. The records of a returned batch are no longer kept.
#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct LatestBatches {
    records: Records,
    is_first: bool,
}

#[pymethods]
impl LatestBatches {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // The caller needs the schema even without records.
        if !mem::take(&mut self.is_first) && self.records.peek().is_none() {
            return Ok(None);
        }
        let records = &mut self.records;
        let batch = py.detach(|| batch(records)).or_raise()?;
        batch.to_pyarrow(py).map(Some)
    }
}

fn batch(records: &mut Records) -> Result<RecordBatch> {
    let (mut keys, mut values) = (BinaryBuilder::new(), BinaryBuilder::new());
    let (mut offsets, mut timestamps) = (Int64Builder::new(), Int64Builder::new());
    let (mut rows, mut bytes) = (0, 0);
    while rows < MOST_ROWS
        && let Some((key, record)) = records.next_if(|(key, record)| {
            rows == 0 || bytes + key.len() + record.value.len() <= MOST_BYTES
        })
    {
        rows += 1;
        bytes += key.len() + record.value.len();
        keys.append_value(&key);
        values.append_value(&record.value);
        offsets.append_value(record.offset);
        timestamps.append_value(record.timestamp);
    }
    let columns: [(&str, ArrayRef); 4] = [
        ("key", Arc::new(keys.finish())),
        ("value", Arc::new(values.finish())),
        ("offset", Arc::new(offsets.finish())),
        ("timestamp", Arc::new(timestamps.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .map_err(|error| Error::invalid(error.to_string()))
}
