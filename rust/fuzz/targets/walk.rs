//! Fuzz targets of framing, header scans and searches by timestamp.

use brokerless_core::{
    Decompressor, Error, Header, HeaderWalk, NextBatch, Result, TimestampQuery, Transactions,
    find_batch, find_timestamp, next_batch,
};

use super::MAX_BATCH_BYTES;

/// Returns the whole entries at the start of `data`, and their end.
fn entries(data: &[u8]) -> (Vec<Header>, usize, Result<usize>) {
    let (mut headers, mut at) = (Vec::new(), 0);
    loop {
        match next_batch(&data[at..], at as u64) {
            Ok(NextBatch::Batch(header, entry)) => {
                assert_eq!(entry, &data[at..at + header.size()]);
                at += header.size();
                headers.push(header);
            }
            Ok(NextBatch::NeedMore(needed)) => {
                assert!(
                    needed == 0 || needed > data.len() - at,
                    "asks for fewer bytes than there are"
                );
                return (headers, at, Ok(needed));
            }
            Err(error) => {
                assert_eq!(error.position, at as u64, "an error names its entry");
                return (headers, at, Err(error));
            }
        }
    }
}

/// The valid prefix reads the same again. A scan in windows has the same result as a scan over all bytes together.
pub(crate) fn walk(data: &[u8]) {
    let (headers, end, _) = entries(data);
    let (again, end_again, rest) = entries(&data[..end]);
    assert_eq!((&again, end_again, rest), (&headers, end, Ok(0)));

    let whole = walked(data, data.len().max(1));
    for window in [128, 300] {
        assert_eq!(walked(data, window), whole, "window {window}");
    }
    for exact in [false, true] {
        let target = TimestampQuery {
            timestamp: 1_500_000_000_000,
            start_offset: 3,
            exact,
        };
        let whole = found(data, data.len().max(1), target);
        assert_eq!(found(data, 128, target), whole);
    }
    let end = data.len() as u64;
    let offsets = 0..headers.first().map_or(1 << 40, |first| first.base_offset);
    if let Some(header) = find_batch(data, 0, end, &offsets) {
        let entry = &data[header.position as usize..];
        assert_eq!(Header::parse(entry, header.position), Ok(Some(header)));
        assert!(header.end_position() <= end && offsets.contains(&header.base_offset));
    }
}

type Walked = (Option<Error>, u64, Option<i64>, u64, Vec<(i64, i64)>, usize);

fn walked(data: &[u8], window: usize) -> Walked {
    let mut walk = HeaderWalk::new(Transactions::default());
    let error = windows(data, window, |bytes, position, end| {
        let at = walk.feed(bytes, position, end)?;
        Ok(if walk.done { end } else { at })
    });
    let (open, aborted) = (walk.transactions.open(), walk.transactions.aborted().len());
    // After a failure, the position is known, but not how far a window reached.
    let end = if error.is_some() {
        0
    } else {
        walk.end_position
    };
    (error, end, walk.next_offset, walk.batches, open, aborted)
}

fn found(
    data: &[u8],
    window: usize,
    target: TimestampQuery,
) -> (Option<Error>, Option<(i64, i64)>) {
    let mut decompressor = Decompressor::new(MAX_BATCH_BYTES);
    let mut answer = None;
    let error = windows(data, window, |bytes, position, end| {
        let (found, at) = find_timestamp(bytes, position, end, target, &mut decompressor)?;
        answer = found.map(|found| (found.timestamp, found.offset));
        Ok(if found.is_some() { end } else { at })
    });
    (error, answer)
}

/// Feeds `data` as a file, in windows at the wanted position. A window that makes no progress is doubled.
fn windows(
    data: &[u8],
    window: usize,
    mut feed: impl FnMut(&[u8], u64, u64) -> Result<u64>,
) -> Option<Error> {
    let (mut position, mut size) = (0, window);
    while position < data.len() {
        let end = data.len().min(position + size);
        match feed(&data[position..end], position as u64, data.len() as u64) {
            Ok(wanted) if wanted as usize > position => {
                position = wanted as usize;
                size = window;
            }
            Ok(wanted) => {
                assert_eq!(wanted as usize, position, "goes back");
                if end == data.len() {
                    return None;
                }
                size *= 2;
            }
            Err(error) => return Some(error),
        }
    }
    None
}
