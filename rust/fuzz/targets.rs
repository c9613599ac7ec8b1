//! What hostile bytes are thrown at, and what must hold whatever they are.
//!
//! Of every target: a value or an error, never a panic, and never more memory than [`MAX_MEMORY`] for inputs up to
//! [`MAX_INPUT`]. What more holds stands above each. `cargo fuzz` runs these functions, and so does the test
//! `brokerless-core/tests/fuzz`, which watches the memory.

use std::cell::RefCell;

use brokerless_core::{
    BinaryColumn, BinaryParts, BytesFormat, Columns, Compression, ControlType, Decompressor, Error,
    Fetch, Header, HeaderWalk, HeadersColumn, Json, JsonDump, Kind, LogDump, Next, OffsetIndex,
    Result, Selection, Target as Time, TimeIndex, TransactionIndex, Transactions, control_type,
    coordinator_epoch, crc32c, find_timestamp, java_utf8, next, producer_snapshot,
};

/// Inputs are cut to this.
pub const MAX_INPUT: usize = 64 << 10;

/// The cap on one decompressed batch while fuzzing.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// What one input may take at its peak. Rows are the largest: a record of seven bytes becomes some forty in columns, twice
/// while they grow, and a target keeps what two ways made of it.
pub const MAX_MEMORY: usize = 64 << 20;

/// A batch behind so many rows is left for the next call, as `Decoder` leaves it.
const MAX_ROWS: usize = 65536;

/// A target, and the seeds it starts from: a directory beside this file.
pub struct Target {
    pub name: &'static str,
    pub seeds: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: [Target; 14] = [
    Target {
        name: "walk",
        seeds: "log",
        run: walk,
    },
    Target {
        name: "decode",
        seeds: "log",
        run: decode,
    },
    Target {
        name: "records",
        seeds: "records",
        run: records,
    },
    Target {
        name: "legacy_set",
        seeds: "messages",
        run: legacy_set,
    },
    Target {
        name: "gzip",
        seeds: "gzip",
        run: gzip,
    },
    Target {
        name: "snappy",
        seeds: "snappy",
        run: snappy,
    },
    Target {
        name: "lz4",
        seeds: "lz4",
        run: lz4,
    },
    Target {
        name: "zstd",
        seeds: "zstd",
        run: zstd,
    },
    Target {
        name: "offset_index",
        seeds: "index",
        run: offset_index,
    },
    Target {
        name: "time_index",
        seeds: "timeindex",
        run: time_index,
    },
    Target {
        name: "transaction_index",
        seeds: "txnindex",
        run: transaction_index,
    },
    Target {
        name: "snapshot",
        seeds: "snapshot",
        run: snapshot,
    },
    Target {
        name: "dump",
        seeds: "log",
        run: dump,
    },
    Target {
        name: "control",
        seeds: "control",
        run: control,
    },
];

/// The whole entries at the start of `data`, and where they end.
fn entries(data: &[u8]) -> (Vec<Header>, usize, Result<usize>) {
    let (mut headers, mut at) = (Vec::new(), 0);
    loop {
        match next(&data[at..], at as u64) {
            Ok(Next::Batch(header, entry)) => {
                assert_eq!(entry, &data[at..at + header.size()]);
                at += header.size();
                headers.push(header);
            }
            Ok(Next::NeedMore(needed)) => {
                assert!(
                    needed == 0 || needed > data.len() - at,
                    "asks for what is there"
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

/// The valid prefix re-reads the same. A walk in windows ends as a walk over everything at once does.
pub fn walk(data: &[u8]) {
    let (headers, end, _) = entries(data);
    let (again, end_again, rest) = entries(&data[..end]);
    assert_eq!((again, end_again, rest), (headers, end, Ok(0)));

    let whole = walked(data, data.len().max(1));
    for window in [128, 300] {
        assert_eq!(walked(data, window), whole, "window {window}");
    }
    for exact in [false, true] {
        let target = Time {
            timestamp: 1_500_000_000_000,
            start_offset: 3,
            exact,
        };
        let whole = found(data, data.len().max(1), target);
        assert_eq!(found(data, 128, target), whole);
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
    // Where it stopped is known, but not how far a window reached, when it failed.
    let end = if error.is_some() {
        0
    } else {
        walk.end_position
    };
    (error, end, walk.next_offset, walk.batches, open, aborted)
}

fn found(data: &[u8], window: usize, target: Time) -> (Option<Error>, Option<(i64, i64)>) {
    let mut decompressor = Decompressor::new(MAX_BATCH_BYTES);
    let mut answer = None;
    let error = windows(data, window, |bytes, position, end| {
        let (found, at) = find_timestamp(bytes, position, end, target, &mut decompressor)?;
        answer = found.map(|found| (found.timestamp, found.offset));
        Ok(if found.is_some() { end } else { at })
    });
    (error, answer)
}

/// Feeds `data` as a file: a window at the position wanted, twice as large where that did not help.
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

/// Offsets, data, nulls.
type Parts = (Vec<i32>, Vec<u8>, Option<Vec<bool>>);

/// All rows of `data` up to the first error.
#[derive(Debug, PartialEq)]
struct Decoded {
    columns: Vec<Parts>,
    list_offsets: Vec<i32>,
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    runs: Vec<(u64, i64, usize)>,
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
    // Sequences are what the fast way does not do.
    columns.sequences = (!is_fast).then(Vec::new);
    let mut fetch = Fetch::new(Selection::new(&[]), check_crcs, MAX_BATCH_BYTES);
    let (mut end, mut error) = (0, None);
    while let Ok(Next::Batch(header, entry)) = next(&data[end..], end as u64)
        && columns.rows() < MAX_ROWS
    {
        match fetch.batch(&header, entry, &mut columns) {
            Ok(taken) => {
                assert!(taken, "no room in memory for {} rows", columns.rows());
                end += header.size();
            }
            Err(failed) => {
                error = Some(failed);
                break;
            }
        }
    }
    let rows = columns.rows();
    let (list_offsets, header_keys, header_values) = columns.headers.take().unwrap().take();
    let mut keys_and_values = [columns.keys.take().unwrap(), columns.values.take().unwrap()];
    let [keys, values] = keys_and_values
        .each_mut()
        .map(|column| column.take(Vec::new()));
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
    assert_eq!(columns.runs.iter().map(|run| run.rows).sum::<usize>(), rows);
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
        runs: columns
            .runs
            .iter()
            .map(|run| (run.header.position, run.first_offset, run.rows))
            .collect(),
        end,
        error,
    }
}

/// The fast way and the safe way give the same rows and the same error; the batches before the error decode the same
/// without it; a right checksum changes nothing.
pub fn decode(data: &[u8]) {
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

/// The same as [`decode`], the input being the records of an uncompressed batch behind two bytes with their number. Plain
/// records are put behind it, because the fast way ends before the last bytes of a payload.
pub fn records(data: &[u8]) {
    const PLAIN: [u8; 7] = [12, 0, 0, 0, 1, 1, 0];
    const MORE: usize = 30;
    let Some((&count, payload)) = data.split_first_chunk::<2>() else {
        return;
    };
    let count = i32::from(i16::from_be_bytes(count));
    decode(&batch(count, 0, payload));
    let followed = [payload, &PLAIN.repeat(MORE)].concat();
    decode(&batch(count.saturating_add(MORE as i32), 0, &followed));
    // A wrong number is an error whatever the records are: find the one that fits, if any.
    let fits = |&n: &i32| decoded(&batch(n, 0, payload), false, false).error.is_none();
    if let Some(count) = (0..=count.clamp(0, 20)).find(fits) {
        decode(&batch(count + MORE as i32, 0, &followed));
    }
}

/// A batch of magic 2 with a right checksum.
pub fn batch(count: i32, attributes: i16, payload: &[u8]) -> Vec<u8> {
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

/// The same as [`decode`], the input being what a compressed wrapper of magic 0 and one of magic 1 hold.
pub fn legacy_set(data: &[u8]) {
    decode(data);
    for magic in [0, 1] {
        for log_append_time in [false, true] {
            let offset = data.first().map_or(0, |&byte| i64::from(byte >> 1));
            decode(&wrapper(magic, log_append_time, offset, data));
        }
    }
}

/// A wrapper message with a right checksum.
pub fn wrapper(magic: u8, log_append_time: bool, offset: i64, inner: &[u8]) -> Vec<u8> {
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

/// What a decompressor gives does not depend on what it decoded before, nor on the cap as long as it is not in the way; one
/// byte less of it is refused.
fn decompress(codec: Compression, data: &[u8]) {
    thread_local! {
        static REUSED: RefCell<Decompressor> = RefCell::new(Decompressor::new(MAX_BATCH_BYTES));
    }
    let with_cap = |cap, ignore| {
        Decompressor::new(cap)
            .decompress(codec, data, ignore)
            .map(<[u8]>::to_vec)
    };
    let fresh = with_cap(MAX_BATCH_BYTES, false);
    REUSED.with_borrow_mut(|reused| {
        assert_eq!(
            reused.decompress(codec, data, false).map(<[u8]>::to_vec),
            fresh
        );
    });
    let Ok(fresh) = fresh else { return };
    assert!(fresh.len() <= MAX_BATCH_BYTES);
    assert_eq!(
        with_cap(fresh.len(), false).as_ref(),
        Ok(&fresh),
        "the cap is exact"
    );
    assert_eq!(
        with_cap(MAX_BATCH_BYTES, true).as_ref(),
        Ok(&fresh),
        "fewer checks, same bytes"
    );
    if let Some(less) = fresh.len().checked_sub(1) {
        assert_eq!(with_cap(less, false).unwrap_err().kind, Kind::Unsupported);
    }
}

/// See [`decompress`].
pub fn gzip(data: &[u8]) {
    decompress(Compression::Gzip, data);
}

/// See [`decompress`].
pub fn snappy(data: &[u8]) {
    decompress(Compression::Snappy, data);
}

/// See [`decompress`].
pub fn lz4(data: &[u8]) {
    decompress(Compression::Lz4, data);
}

/// See [`decompress`].
pub fn zstd(data: &[u8]) {
    decompress(Compression::Zstd, data);
}

/// The entries are those of the bytes they came from, alone. Looked up by its own offset, an entry of an ascending index is
/// found; below the first, the segment's start.
pub fn offset_index(data: &[u8]) {
    let Some((&base, data)) = data.split_first_chunk::<8>() else {
        return;
    };
    let base = i64::from_be_bytes(base);
    let index = OffsetIndex::new(data, base, false);
    let entries: Vec<_> = index.entries().collect();
    let alone: Vec<_> = OffsetIndex::new(&data[..8 * entries.len()], base, false)
        .entries()
        .collect();
    assert_eq!(alone, entries);
    let raw: Vec<_> = OffsetIndex::new(data, base, true).entries().collect();
    assert_eq!(
        (raw.len(), &raw[..entries.len()]),
        (data.len() / 8, &entries[..])
    );
    let _ = index.sanity_check();
    let _ = (
        index.lookup(i64::MIN),
        index.lookup(i64::MAX),
        index.upper_bound(i64::MIN, i64::MIN),
    );
    for entry in &entries {
        let found = index.lookup(entry.offset);
        let bound = index.upper_bound(entry.position.into(), 0);
        if entries.is_sorted_by(|a, b| a.offset < b.offset && a.position < b.position) {
            assert_eq!((found, bound), (*entry, Some(entry.offset)));
        }
    }
    assert_eq!(
        index.last_offset(),
        entries.last().map_or(base, |entry| entry.offset)
    );
}

/// As [`offset_index`].
pub fn time_index(data: &[u8]) {
    let Some((&base, data)) = data.split_first_chunk::<8>() else {
        return;
    };
    let base = i64::from_be_bytes(base);
    let index = TimeIndex::new(data, base, false);
    let entries: Vec<_> = index.entries().collect();
    let alone: Vec<_> = TimeIndex::new(&data[..12 * entries.len()], base, false)
        .entries()
        .collect();
    assert_eq!(alone, entries);
    let _ = (
        index.sanity_check(),
        index.lookup(i64::MIN),
        index.lookup(i64::MAX),
    );
    for entry in &entries {
        let found = index.lookup(entry.timestamp);
        if entries.is_sorted_by(|a, b| a.timestamp < b.timestamp) {
            assert_eq!(found, *entry);
        }
    }
    if let Some(last) = entries.last() {
        assert_eq!(index.last_entry(), *last);
    }
}

/// A search finds entries of the index, in order, and all of them when asked for everything.
pub fn transaction_index(data: &[u8]) {
    let Some((&base, data)) = data.split_first_chunk::<8>() else {
        return;
    };
    let base = i64::from_be_bytes(base);
    let index = TransactionIndex::new(data, base);
    assert_eq!(index.len(), data.len() / 34);
    let entries: Result<Vec<_>> = index.entries().collect();
    let _ = index.sanity_check();
    let _ = index.collect(base, base.wrapping_add(100));
    if let (Ok(entries), Ok((found, is_complete))) = (&entries, index.collect(i64::MIN, i64::MAX)) {
        let expected: Vec<_> = entries
            .iter()
            .filter(|entry| entry.first_offset < i64::MAX)
            .copied()
            .collect();
        assert!(is_complete || found == expected);
    }
}

/// With a right checksum put in, the entries are those of the bytes they came from, alone.
pub fn snapshot(data: &[u8]) {
    let _ = producer_snapshot(data);
    let sealed = |data: &[u8]| {
        let mut data = data.to_vec();
        let crc = crc32c(&data[6..]);
        data[2..6].copy_from_slice(&crc.to_be_bytes());
        data
    };
    if data.len() < 10 {
        return;
    }
    let data = sealed(data);
    if let Ok(producers) = producer_snapshot(&data) {
        let alone = sealed(&data[..10 + 46 * producers.len()]);
        assert_eq!(producer_snapshot(&alone), Ok(producers));
    }
}

/// Text is text, in whole lines, and does not depend on the windows.
pub fn dump(data: &[u8]) {
    for (deep, print, skip) in [
        (false, false, false),
        (true, true, false),
        (true, true, true),
    ] {
        let new = || LogDump::new(deep, print, skip, MAX_BATCH_BYTES);
        let (mut dump, mut windowed) = (new(), new());
        let whole = lines(data, data.len().max(1), |b, p, out| dump.feed(b, p, out));
        let parts = lines(data, 100, |b, p, out| windowed.feed(b, p, out));
        assert_eq!(parts, whole);
        assert_eq!(dump.gaps(), windowed.gaps());
    }
    for format in [BytesFormat::Utf8, BytesFormat::Base64, BytesFormat::Hex] {
        let mut dump = JsonDump::new(true, format, MAX_BATCH_BYTES);
        lines(data, data.len().max(1), |b, p, out| {
            let start = out.len();
            let consumed = dump.feed(b, p, out)?;
            let text = std::str::from_utf8(&out[start..]).unwrap();
            assert!(text.split_inclusive('\n').all(is_one_object));
            Ok(consumed)
        });
    }
}

/// The number of lines and a checksum of them all, and the error at the end.
fn lines(
    data: &[u8],
    window: usize,
    mut feed: impl FnMut(&[u8], u64, &mut Vec<u8>) -> Result<usize>,
) -> (usize, u32, Option<Error>) {
    let (mut count, mut checksum) = (0, 0u32);
    let (mut out, mut position, mut size) = (Vec::new(), 0, window);
    while position < data.len() {
        let end = data.len().min(position + size);
        out.clear();
        match feed(&data[position..end], position as u64, &mut out) {
            Ok(0) if out.is_empty() && end == data.len() => break,
            Ok(0) if out.is_empty() => size *= 2,
            // No progress: the next call raises.
            Ok(0) => {}
            Ok(consumed) => {
                position += consumed;
                size = window;
            }
            Err(error) => return (count, checksum, Some(error)),
        }
        let text = std::str::from_utf8(&out).unwrap();
        for line in text.split_inclusive('\n') {
            assert!(line.ends_with('\n'));
            count += 1;
            checksum = checksum.rotate_left(1) ^ crc32c(line.as_bytes());
        }
    }
    (count, checksum, None)
}

/// Brackets balance outside strings, and strings end.
fn is_one_object(line: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            0..0x20 if in_string => return false,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'\n' => return depth == 0 && at + 1 == line.len(),
            _ => {}
        }
    }
    false
}

/// Control values parse or fail; text is text.
pub fn control(data: &[u8]) {
    let _ = (control_type(data), coordinator_epoch(data));
    for control_type in [
        ControlType::LeaderChange,
        ControlType::SnapshotHeader,
        ControlType::SnapshotFooter,
        ControlType::KRaftVersion,
        ControlType::KRaftVoters,
    ] {
        let mut out = Vec::new();
        if control_type
            .value_json(data, &mut Json::new(&mut out))
            .is_ok()
        {
            out.push(b'\n');
            assert!(is_one_object(std::str::from_utf8(&out).unwrap()));
        }
    }
    let text = java_utf8(data);
    assert_eq!(
        matches!(text, std::borrow::Cow::Borrowed(_)),
        std::str::from_utf8(data).is_ok()
    );
    assert!(text.chars().count() <= data.len());
}
