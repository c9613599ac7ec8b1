//! Dumps of a log: as the text of Kafka's own dump tool, or as JSON.
//!
//! Checksums are shown and not enforced, because a dump should show damage. Only a batch that cannot be parsed is an
//! error. Its readable part is shown before the error is returned.

mod json;
mod text;

pub use json::JsonDump;
pub use text::LogDump;

use crate::base::error::{Error, Result};
use crate::format::batch::Header;
use crate::format::compression::Decompressor;
use crate::format::walk::{NextBatch, next_batch};

/// A call returns after the batch with which its text reaches this size.
const ENOUGH: usize = 4 << 20;

/// The largest text of a batch, as a multiple of the cap on its payload. Seven bytes of a hostile record become a line
/// of a hundred.
const TEXT_TO_PAYLOAD: usize = 4;

/// The common part of both forms: the loop over batches, and an error that is kept until its batch comes first.
#[derive(Debug)]
struct BatchDump {
    decompressor: Decompressor,
    max_text: usize,
    failed: Option<Error>,
}

impl BatchDump {
    fn new(max_batch_bytes: usize) -> Self {
        Self {
            decompressor: Decompressor::new(max_batch_bytes),
            max_text: max_batch_bytes.saturating_mul(TEXT_TO_PAYLOAD),
            failed: None,
        }
    }

    /// Writes the whole batches of `bytes` to `out`; returns the size of these batches in bytes.
    ///
    /// If that size is 0, text in `out` is the readable part of a damaged batch. The next call returns its error.
    fn feed(
        &mut self,
        bytes: &[u8],
        position: u64,
        out: &mut Vec<u8>,
        mut write: impl FnMut(&Header, &[u8], &mut DumpScratch<'_>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<usize> {
        if let Some(error) = self.failed.take_if(|error| error.position == position) {
            return Err(error);
        }
        let mut scratch = DumpScratch {
            decompressor: &mut self.decompressor,
            max_text: self.max_text,
        };
        let mut consumed = 0;
        while out.len() < ENOUGH {
            let at = position + consumed as u64;
            match next_batch(bytes.get(consumed..).unwrap_or_default(), at) {
                Ok(NextBatch::Batch(header, entry)) => {
                    let before = out.len();
                    if let Err(error) = write(&header, entry, &mut scratch, out) {
                        let mut error = error.at(at, Some(header.base_offset));
                        error.next_position = Some(header.end_position());
                        if consumed == 0 && out.len() == before {
                            return Err(error);
                        }
                        self.failed = Some(error);
                        break;
                    }
                    consumed += header.size();
                }
                Ok(NextBatch::NeedMore(_)) => break,
                Err(error) if consumed == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(consumed)
    }
}

/// The scratch memory for writing a batch.
struct DumpScratch<'a> {
    decompressor: &'a mut Decompressor,
    max_text: usize,
}

/// Refuses a batch whose text has reached `size` bytes.
fn check_size(size: usize, max_text: usize) -> Result<()> {
    if size > max_text {
        return Err(Error::unsupported(format!(
            "batch takes more than {max_text} bytes when dumped"
        )));
    }
    Ok(())
}

/// Kafka's name of the codec, or `unknown(id)`. Kafka's tool fails for unknown ids.
fn compression_name(header: &Header) -> String {
    match header.compression() {
        Ok(codec) => codec.name().to_owned(),
        Err(_) => format!("unknown({})", header.compression_id()),
    }
}
