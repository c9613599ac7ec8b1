//! `SegmentConversion`: old segments into new ones of another magic or codec. Batches that do not depend on others are made
//! by several threads, and pushed in order.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use brokerless_core::{
    AbortedTransaction, Codec, Compression, Conversion, Converted, Converter, Error, Header,
    NextBatch, Result, Rewriter, TransactionIndex, next_batch,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::buffer::Bytes;
use crate::error::to_py;
use crate::segment_output::SegmentOutput;
use crate::share::{share, workers};

#[pyclass(module = "brokerless._native")]
#[derive(Debug)]
pub(crate) struct SegmentConversion {
    converter: Converter,
    /// Of the threads; one thread needs none.
    others: Vec<Converter>,
    /// What these did.
    converted: Converted,
    rewriter: Rewriter,
}

/// Bytes of batches that a thread takes at a time, and one batch more.
const TOGETHER: usize = 128 << 10;
/// Threads stop when they have made so much: small batches may become large ones.
const MAX_MADE: usize = 16 << 20;

/// A whole batch of the bytes that were fed.
struct Piece {
    header: Header,
    at: Range<usize>,
}

/// What some pieces became, until there was enough: where each one ends in `bytes`, None for one that stays as it is.
#[derive(Default)]
struct Made {
    bytes: Vec<u8>,
    ends: Vec<Option<usize>>,
    converted: Converted,
}

impl SegmentConversion {
    fn feed_all(
        &mut self,
        data: &[u8],
        position: u64,
        output: &mut SegmentOutput,
    ) -> Result<usize> {
        let parts = match self.others.len() {
            0 => Vec::new(),
            _ => self.independent(data, position)?,
        };
        if parts.is_empty() || !self.rewriter.drain(&mut output.0)? {
            return self
                .rewriter
                .feed(&mut self.converter, data, position, &mut output.0);
        }
        let made_bytes = AtomicUsize::new(0);
        let made = share(
            &mut self.others,
            &parts,
            || (),
            |converter, part| convert(converter, part, data, &made_bytes),
        )?;
        let mut taken = 0;
        for (part, made) in parts.iter().zip(&made) {
            let mut start = 0;
            for (piece, end) in part.iter().zip(&made.ends) {
                self.converter.check_offset_range(&piece.header)?;
                let batch = match *end {
                    Some(end) => made.bytes.get(std::mem::replace(&mut start, end)..end),
                    None => data.get(piece.at.clone()),
                };
                self.rewriter.put(
                    batch.unwrap_or_default(),
                    piece.header.position,
                    &mut output.0,
                )?;
                taken = piece.at.end;
            }
            self.converted += made.converted;
            if made.ends.len() < part.len() {
                break;
            }
        }
        Ok(taken)
    }

    /// The whole batches that `data` starts with, in parts; none if one of them depends on others.
    fn independent(&self, data: &[u8], position: u64) -> Result<Vec<Vec<Piece>>> {
        let mut parts: Vec<Vec<Piece>> = Vec::new();
        let (mut at, mut free) = (0, 0_usize);
        while let NextBatch::Batch(header, entry) =
            next_batch(data.get(at..).unwrap_or_default(), position + at as u64)?
        {
            if !self.converter.is_independent(&header) {
                return Ok(Vec::new());
            }
            let piece = Piece {
                header,
                at: at..at + entry.len(),
            };
            at += entry.len();
            match parts.last_mut() {
                Some(part) if free > 0 => {
                    part.push(piece);
                    free = free.saturating_sub(entry.len());
                }
                _ => {
                    parts.push(vec![piece]);
                    free = TOGETHER.saturating_sub(entry.len());
                }
            }
        }
        Ok(parts)
    }

    fn converted(&self) -> Converted {
        let mut converted = self.converter.converted();
        converted += self.converted;
        converted
    }
}

fn convert(
    converter: &mut Converter,
    part: &[Piece],
    data: &[u8],
    made_bytes: &AtomicUsize,
) -> Result<Made> {
    let mut made = Made::default();
    for piece in part {
        // The first batch is always made: else nothing would be taken, as at the end of what there is.
        if piece.at.start > 0 && made_bytes.load(Ordering::Relaxed) >= MAX_MADE {
            break;
        }
        let before = made.bytes.len();
        let entry = data.get(piece.at.clone()).unwrap_or_default();
        let stays = converter.alone(&piece.header, entry, &mut made.bytes)?;
        made_bytes.fetch_add(made.bytes.len() - before, Ordering::Relaxed);
        made.ends.push((!stays).then_some(made.bytes.len()));
    }
    made.converted = converter.take_converted();
    Ok(made)
}

#[pymethods]
impl SegmentConversion {
    #[new]
    #[pyo3(signature = (*, magic=None, compression=None, compression_level=None, recompress=false, batch_size=None,
        join_below=None, drop_headers=false, drop_producers=false, aborted=vec![], last_stable_offset=i64::MAX, log_end_offset=i64::MAX,
        max_batch_bytes=256 << 20, threads=1))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        py: Python<'_>,
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
            Converter::new(
                conversion,
                &aborted,
                last_stable_offset,
                log_end_offset,
                max_batch_bytes,
            )
        };
        let converters = || {
            Ok((
                converter()?,
                (0..workers(threads))
                    .map(|_| converter())
                    .collect::<Result<_>>()?,
            ))
        };
        let (converter, others) = converters().map_err(|error| to_py(py, error))?;
        Ok(Self {
            converter,
            others,
            converted: Converted::default(),
            rewriter: Rewriter::new(u64::MAX),
        })
    }

    fn begin(&mut self, py: Python<'_>, txnindex: Bytes, max_segment_bytes: u64) -> PyResult<()> {
        self.rewriter = Rewriter::new(max_segment_bytes);
        self.rewriter
            .begin(&TransactionIndex::new(txnindex.as_slice(), 0))
            .map_err(|error| to_py(py, error))
    }

    fn feed(
        &mut self,
        py: Python<'_>,
        data: Bytes,
        position: u64,
        output: &mut SegmentOutput,
    ) -> PyResult<usize> {
        py.detach(|| self.feed_all(data.as_slice(), position, output))
            .map_err(|error| to_py(py, error))
    }

    fn finish(&mut self, py: Python<'_>, output: &mut SegmentOutput) -> PyResult<bool> {
        let Self {
            converter,
            rewriter,
            ..
        } = self;
        let output = &mut output.0;
        py.detach(|| rewriter.finish(converter, output))
            .map_err(|error| to_py(py, error))
    }

    #[getter]
    fn needed(&self) -> usize {
        self.rewriter.needed
    }

    #[getter]
    fn is_full(&self) -> bool {
        self.rewriter.is_full
    }

    #[getter]
    fn changed(&self) -> u64 {
        self.converted().changed
    }

    #[getter(converted)]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Converted {
            batches,
            changed,
            apart,
            headers,
            timestamps,
            producers,
            control_batches,
            aborted,
            undecided,
        } = self.converted();
        let counts = PyDict::new(py);
        for (name, count) in [
            ("batches", batches),
            ("changed", changed),
            ("apart", apart),
            ("headers", headers),
            ("timestamps", timestamps),
            ("producers", producers),
            ("control_batches", control_batches),
            ("aborted", aborted),
            ("undecided", undecided),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }
}

/// The codec that has this name, at this level.
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
