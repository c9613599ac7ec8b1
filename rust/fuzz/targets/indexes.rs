//! Fuzz targets of index files and producer snapshots.

use brokerless_core::{
    OffsetIndex, Result, TimeIndex, TransactionIndex, crc32c, producer_snapshot,
};

/// Each entry depends only on its own bytes. An entry of an ascending index is found by its own offset.
pub(crate) fn offset_index(data: &[u8]) {
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
        index.last_entry().offset,
        entries.last().map_or(base, |entry| entry.offset)
    );
}

/// Like [`offset_index`].
pub(crate) fn time_index(data: &[u8]) {
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

/// A search finds entries of the index in order, and finds all entries if its range covers everything.
pub(crate) fn transaction_index(data: &[u8]) {
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

/// With a corrected checksum, each entry depends only on its own bytes.
pub(crate) fn snapshot(data: &[u8]) {
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
