//! Fuzz targets of decoding: a log, the records of one batch, and the content of a wrapper message.

use brokerless_core::{
    BinaryColumn, BinaryParts, Columns, Error, Fetch, HeadersColumn, NextBatch, Progress,
    Selection, crc32c, next_batch,
};

use super::MAX_BATCH_BYTES;

/// After this many rows, the next batch is left for the next call, as in `Decoder`.
const MAX_ROWS: usize = 65536;

/// Offsets, data, nulls.
type Parts = (Vec<i32>, Vec<u8>, Option<Vec<bool>>);

/// All rows of `data` up to the first error.
#[derive(Debug, PartialEq)]
struct Decoded {
    columns: Vec<Parts>,
    list_offsets: Vec<i32>,
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    batches: Vec<(u64, i64, usize)>,
    end: usize,
    error: Option<Error>,
}

fn decoded(data: &[u8], check_crcs: bool, is_fast: bool) -> Decoded {
    let mut columns = Columns::default();
    columns.keys = Some(BinaryColumn::default());
    columns.values = Some(BinaryColumn::default());
    columns.headers = Some(HeadersColumn::default());
    columns.offsets = Some(Vec::new());
    columns.timestamps = Some(Vec::new());
    // The fast path does not support sequences.
    columns.sequences = (!is_fast).then(Vec::new);
    let mut fetch = Fetch::new(Selection::new(&[]), check_crcs, MAX_BATCH_BYTES);
    let (mut end, mut error) = (0, None);
    while let Ok(NextBatch::Batch(header, entry)) = next_batch(&data[end..], end as u64)
        && columns.rows() < MAX_ROWS
    {
        match fetch.batch(&header, entry, &mut columns) {
            Ok(Progress::Complete) => end += header.size(),
            Ok(Progress::Partial) => {}
            Ok(Progress::ColumnsFull) => panic!("no room in memory for {} rows", columns.rows()),
            Err(failed) => {
                error = Some(failed);
                break;
            }
        }
    }
    let rows = columns.rows();
    let (list_offsets, header_keys, header_values) =
        columns.headers.take().unwrap().take(Default::default());
    let mut keys_and_values = [columns.keys.take().unwrap(), columns.values.take().unwrap()];
    let [keys, values] = keys_and_values
        .each_mut()
        .map(|column| column.take(Default::default()));
    let (offsets, timestamps) = (
        columns.offsets.take().unwrap(),
        columns.timestamps.take().unwrap(),
    );
    assert_eq!(
        [offsets.len(), timestamps.len(), list_offsets.len() - 1],
        [rows; 3]
    );
    assert!(
        columns
            .sequences
            .is_none_or(|sequences| sequences.len() == rows)
    );
    assert_eq!(
        columns.batches.iter().map(|run| run.rows).sum::<usize>(),
        rows
    );
    for (column, rows) in [
        (&keys, rows),
        (&values, rows),
        (&header_keys, header_values.offsets.len() - 1),
    ] {
        assert_eq!(column.offsets.len(), rows + 1);
        assert!(column.offsets.is_sorted() && column.offsets[0] == 0);
        assert_eq!(column.offsets[rows] as usize, column.data.len());
        assert!(
            column
                .nulls
                .as_ref()
                .is_none_or(|nulls| nulls.len() == rows)
        );
    }
    assert!(
        std::str::from_utf8(&header_keys.data).is_ok(),
        "header keys are text"
    );
    let parts = |column: BinaryParts| (column.offsets, column.data, column.nulls);
    Decoded {
        columns: [keys, values, header_keys, header_values].map(parts).into(),
        list_offsets,
        offsets,
        timestamps,
        batches: columns
            .batches
            .iter()
            .map(|run| (run.header.position, run.first_offset, run.rows))
            .collect(),
        end,
        error,
    }
}

/// The fast and the checked path give the same rows and the same error. Without the damaged batch, the batches before
/// it give the same rows. If all checksums are right, verifying them changes nothing.
pub(crate) fn decode(data: &[u8]) {
    let fast = decoded(data, false, true);
    assert_eq!(
        fast,
        decoded(data, false, false),
        "the fast way differs from the safe one"
    );
    let prefix = decoded(&data[..fast.end], false, true);
    assert_eq!(
        prefix,
        Decoded {
            error: None,
            ..fast
        }
    );
    let checked = decoded(data, true, true);
    assert!(checked.end <= prefix.end);
    if checked.end == prefix.end {
        assert_eq!(checked.offsets, prefix.offsets);
    }
}

/// Like [`decode`], for the records of an uncompressed batch: the input is their number in two bytes, then the records.
/// Plain records follow them, because the fast path ends before the last bytes of a payload.
pub(crate) fn records(data: &[u8]) {
    const PLAIN: [u8; 7] = [12, 0, 0, 0, 1, 1, 0];
    const MORE: usize = 30;
    let Some((&count, payload)) = data.split_first_chunk::<2>() else {
        return;
    };
    let count = i32::from(i16::from_be_bytes(count));
    decode(&batch(count, 0, payload));
    let followed = [payload, &PLAIN.repeat(MORE)].concat();
    decode(&batch(count.saturating_add(MORE as i32), 0, &followed));
    // A wrong number is always an error. Find the right one, if there is any.
    let fits = |&n: &i32| decoded(&batch(n, 0, payload), false, false).error.is_none();
    if let Some(count) = (0..=count.clamp(0, 20)).find(fits) {
        decode(&batch(count + MORE as i32, 0, &followed));
    }
}

/// A batch of magic 2 with a right checksum.
pub(crate) fn batch(count: i32, attributes: i16, payload: &[u8]) -> Vec<u8> {
    let mut body = attributes.to_be_bytes().to_vec();
    body.extend(count.saturating_sub(1).to_be_bytes());
    body.extend(
        [1_600_000_000_000i64, 1_600_000_000_000, -1]
            .map(i64::to_be_bytes)
            .as_flattened(),
    );
    body.extend((-1i16).to_be_bytes());
    body.extend((-1i32).to_be_bytes());
    body.extend(count.to_be_bytes());
    body.extend(payload);
    let mut batch = 7i64.to_be_bytes().to_vec();
    batch.extend((body.len() as u32 + 9).to_be_bytes());
    batch.extend(4u32.to_be_bytes());
    batch.push(2);
    batch.extend(crc32c(&body).to_be_bytes());
    batch.extend(body);
    batch
}

/// Like [`decode`], for the content of compressed wrappers of magic 0 and of magic 1.
pub(crate) fn legacy_set(data: &[u8]) {
    decode(data);
    for magic in [0, 1] {
        for log_append_time in [false, true] {
            let offset = data.first().map_or(0, |&byte| i64::from(byte >> 1));
            decode(&wrapper(magic, log_append_time, offset, data));
        }
    }
}

/// A wrapper message with a right checksum.
pub(crate) fn wrapper(magic: u8, log_append_time: bool, offset: i64, inner: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::fastest());
    let mut value = vec![0; compressor.gzip_compress_bound(inner.len())];
    let size = compressor.gzip_compress(inner, &mut value).unwrap();
    let mut message = vec![magic, 1 | u8::from(log_append_time) << 3];
    if magic == 1 {
        message.extend(1_600_000_000_000i64.to_be_bytes());
    }
    message.extend((-1i32).to_be_bytes());
    message.extend((size as u32).to_be_bytes());
    message.extend(&value[..size]);
    let mut entry = offset.to_be_bytes().to_vec();
    entry.extend((message.len() as u32 + 4).to_be_bytes());
    entry.extend(libdeflater::crc32(&message).to_be_bytes());
    entry.extend(message);
    entry
}
