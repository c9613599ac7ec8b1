//! The first check of a request: its batches by their headers and checksums. Nothing changes yet.

use super::{AppendRequest, BatchForm, LogAppender, Result};
use crate::base::error::{Error, ErrorKind};
use crate::broker::producers::AppendOrigin;
use crate::broker::refusal::{Refusal, Refused};
use crate::broker::validate::{ValidatedBatch, check_size, not_in_place};
use crate::format::batch::Header;
use crate::format::compression::Compression;
use crate::format::walk::NextBatch;

/// The facts from the headers of a request's batches.
pub(super) struct Analysis {
    pub(super) size: usize,
    pub(super) source: Compression,
    pub(super) first_offset: Option<i64>,
    pub(super) last_offset_of_first: i64,
    pub(super) last_offset: i64,
    pub(super) max_timestamp: i64,
    pub(super) is_monotonic: bool,
}

impl LogAppender {
    /// Reads the headers of all batches, and verifies their checksums.
    pub(super) fn analyse(
        &mut self,
        data: &[u8],
        request: AppendRequest,
        form: BatchForm,
    ) -> Result<Analysis> {
        let mut found = Analysis {
            size: 0,
            source: Compression::None,
            first_offset: None,
            last_offset_of_first: -1,
            last_offset: -1,
            max_timestamp: -1,
            is_monotonic: true,
        };
        let origin = request.origin;
        loop {
            let rest = data.get(found.size..).unwrap_or_default();
            let (header, entry) = match form.next(rest, found.size as u64) {
                Ok(NextBatch::Batch(header, entry)) => (header, entry),
                Ok(NextBatch::NeedMore(_)) => return Ok(found),
                Err(error) => return Err(framing(error)),
            };
            if origin == AppendOrigin::Replication
                && header.partition_leader_epoch > request.leader_epoch
            {
                if form == BatchForm::HeaderOnly {
                    return Err(not_in_place("its leader epoch is above the request's"));
                }
                // They are a newer leader's. The fetch that brings them comes with its epoch.
                return Ok(found);
            }
            self.check_header(&header, entry, request, form)
                .map_err(|refused| refused.at(header.position, header.base_offset))?;
            let last_offset = header.last_offset();
            if self.batches.is_empty() {
                found.first_offset = (header.magic == 2).then_some(header.base_offset);
                found.last_offset_of_first = last_offset;
            }
            found.is_monotonic &= last_offset > found.last_offset;
            found.last_offset = last_offset;
            found.max_timestamp = found.max_timestamp.max(header.max_timestamp);
            match header.compression() {
                Ok(Compression::None) => {}
                Ok(codec) => found.source = codec,
                Err(error) => {
                    return Err(
                        Refused::of(Refusal::Append, error).at(header.position, header.base_offset)
                    );
                }
            }
            found.size += header.size();
            self.batches.push(ValidatedBatch {
                header,
                is_resummed: false,
            });
        }
    }

    fn check_header(
        &self,
        header: &Header,
        entry: &[u8],
        request: AppendRequest,
        form: BatchForm,
    ) -> Result<()> {
        let invalid = |message| Err(Refused::new(Refusal::InvalidRecord, message));
        let epoch = header.partition_leader_epoch;
        match request.origin {
            AppendOrigin::RaftLeader if epoch != request.leader_epoch => {
                return invalid(format!(
                    "batch has leader epoch {epoch}, but the leader has {}",
                    request.leader_epoch
                ));
            }
            AppendOrigin::Client if header.magic == 2 && header.base_offset != 0 => {
                return invalid(format!(
                    "batch has base_offset {}, but a producer sends 0, because the log assigns offsets",
                    header.base_offset
                ));
            }
            _ => {}
        }
        if request.origin != AppendOrigin::Replication {
            check_size(header, &self.config.rules, "")?;
        }
        if form == BatchForm::HeaderOnly {
            return Ok(());
        }
        header
            .check_crc(entry)
            .map_err(|error| Refused::of(Refusal::CorruptRecord, error))
    }
}

/// Converts the error for a batch with an impossible length or magic. No batch after it can be found.
#[cold]
pub(super) fn framing(error: Error) -> Refused {
    let (position, base_offset) = (error.position, error.base_offset);
    let refusal = match error.kind {
        ErrorKind::Corrupt | ErrorKind::Unsupported => Refusal::CorruptRecord,
        ErrorKind::Invalid => Refusal::Append,
    };
    let mut refused = Refused::of(refusal, error);
    refused.position = position;
    refused.base_offset = base_offset;
    refused
}
