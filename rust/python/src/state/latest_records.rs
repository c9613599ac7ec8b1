//! `LatestRecords`: the latest record of each key.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

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
const MOST_BYTES: usize = 16 << 20;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct LatestRecords {
    latest: Latest,
}

#[pymethods]
impl LatestRecords {
    #[new]
    fn new() -> Self {
        Self {
            latest: Latest::default(),
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
            // A record without a key says nothing.
            if let Some(key) = keys.get(row)? {
                let number = |column: &Option<NumbersColumn<i64>>| {
                    column
                        .as_ref()
                        .and_then(|column| column.get(row))
                        .unwrap_or(-1)
                };
                latest.push(key, values.get(row)?, number(&offsets), number(&timestamps));
            }
            Ok(())
        };
        py.detach(|| (0..rows).try_for_each(&mut push)).or_raise()
    }

    fn take_commit_groups(&mut self, py: Python<'_>) -> HashMap<String, i64> {
        py.detach(|| self.latest.take_commit_groups())
    }

    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let records = mem::take(&mut self.latest).into_records();
        let batches = py.detach(|| batches(&records)).or_raise()?;
        batches.iter().map(|batch| batch.to_pyarrow(py)).collect()
    }
}

fn batches(records: &[(Box<[u8]>, LatestRecord)]) -> Result<Vec<RecordBatch>> {
    let mut found = Vec::new();
    let mut rest = records;
    while !rest.is_empty() || found.is_empty() {
        let mut bytes = 0;
        let rows = rest
            .iter()
            .take(MOST_ROWS)
            .take_while(|(key, record)| {
                let fits = bytes < MOST_BYTES;
                bytes += key.len() + record.value.len();
                fits
            })
            .count();
        let (chunk, after) = rest.split_at(rows);
        rest = after;
        let (mut keys, mut values) = (BinaryBuilder::new(), BinaryBuilder::new());
        let (mut offsets, mut timestamps) = (Int64Builder::new(), Int64Builder::new());
        for (key, record) in chunk {
            keys.append_value(key);
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
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, true)),
        );
        found.push(batch.map_err(|error| Error::invalid(error.to_string()))?);
    }
    Ok(found)
}
