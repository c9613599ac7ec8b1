//! `SegmentConversion`: converts old segments to another magic or codec.

use brokerless_core::{
    AbortedTransaction, Codec, Compression, Conversion, DEFAULT_MAX_BATCH_BYTES, Error, Result,
    SegmentConverter, TransactionIndex,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::rewrite::segment_output::SegmentOutput;

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct SegmentConversion(SegmentConverter);

segment_rewrite!(SegmentConversion, {
    #[new]
    #[pyo3(signature = (*, magic=None, compression=None, compression_level=None, recompress=false, batch_size=None,
        join_below=None, drop_headers=false, drop_producers=false, aborted=vec![], last_stable_offset=i64::MAX, log_end_offset=i64::MAX,
        max_batch_bytes=DEFAULT_MAX_BATCH_BYTES, threads=1))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        magic: Option<i8>,
        compression: Option<&str>,
        compression_level: Option<i32>,
        recompress: bool,
        batch_size: Option<usize>,
        join_below: Option<i64>,
        drop_headers: bool,
        drop_producers: bool,
        aborted: Vec<(i64, i64, i64)>,
        last_stable_offset: i64,
        log_end_offset: i64,
        max_batch_bytes: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let aborted: Vec<_> = aborted.into_iter().map(AbortedTransaction::from).collect();
        let converter = || {
            let conversion = Conversion {
                magic,
                codec: codec(compression, compression_level)?,
                recompress,
                batch_size,
                join_below,
                drop_headers,
                drop_producers,
            };
            SegmentConverter::new(
                conversion,
                &aborted,
                last_stable_offset,
                log_end_offset,
                max_batch_bytes,
                threads,
            )
        };
        converter().map(Self).or_raise()
    }

    fn begin(&mut self, txnindex: Bytes, max_segment_bytes: u64) -> PyResult<()> {
        let aborted = TransactionIndex::new(txnindex.as_slice(), 0);
        self.0.begin(&aborted, max_segment_bytes).or_raise()
    }

    #[getter]
    fn changed(&self) -> u64 {
        self.0.converted().changed
    }

    #[getter(converted)]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        for (name, count) in self.0.converted().by_name() {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }
});

/// Returns the codec of a name and a level.
fn codec(name: Option<&str>, level: Option<i32>) -> Result<Option<Codec>> {
    let Some(name) = name else {
        return match level {
            Some(_) => Err(Error::invalid("a compression level needs a compression")),
            None => Ok(None),
        };
    };
    let compression = Compression::from_name(name).ok_or_else(|| {
        Error::invalid(format!(
            "compression is {name:?}, not one of none, gzip, snappy, lz4, zstd"
        ))
    })?;
    Codec::new(compression, level).map(Some)
}
