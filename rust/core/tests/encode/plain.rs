//! The fast path accepts plain rows, and writes the same bytes as the checked path.

use brokerless_core::{
    Compression, Headers, HeadersBuffer, NewRecord, PlainColumn, PlainHeaders, PlainRows,
};

use crate::columns::Table;
use crate::support::rows;
use crate::{T, writer};

/// Encodes the rows by the checked path, and by the fast one in runs and row by row; returns the number of rows that
/// the fast path took in runs.
fn compare(table: &Table, codec: Compression, batch_size: usize, max_records: i32) -> usize {
    let mut short = writer(codec, batch_size, max_records);
    let mut by_row = writer(codec, batch_size, max_records);
    let mut checked = writer(codec, batch_size, max_records);
    let mut taken = 0;
    // Twice, because memory and sequences continue.
    for _ in 0..2 {
        let (bytes, n) = table.batches(&mut short, true);
        let (of_rows, alone) = table.batches_by_row(&mut by_row);
        let (expected, _) = table.batches(&mut checked, false);
        assert_eq!(bytes, expected, "{codec:?} {batch_size} {max_records}");
        assert_eq!(of_rows, expected, "{codec:?} {batch_size} {max_records}");
        // A run ends where its memory does, too.
        assert!(table.has_headers() || alone >= n, "{alone} of {n}");
        assert_eq!(rows(&bytes).len(), table.times.len());
        taken = n;
    }
    assert_eq!(short.next_sequence(), checked.next_sequence());
    taken
}

#[test]
fn the_short_way_writes_what_the_checked_way_writes() {
    let lengths = [
        0, 1, 15, 16, 17, 31, 47, 48, 49, 62, 63, 64, 65, 100, 127, 128, 129, 300, 8100, 8170,
        8180, 8191, 8192, 8200, 70_000,
    ];
    let times = [
        0,
        1,
        -1,
        63,
        -64,
        64,
        -65,
        8191,
        -8192,
        8192,
        1 << 20,
        -(1 << 20),
        1 << 27,
        -(1 << 27),
        1 << 40,
    ];
    for has_keys in [true, false] {
        let mut table = Table::default();
        for i in 0..3000usize {
            // Long runs of small rows, and every length next to every other.
            let value = if i % 7 > 0 {
                20 + i % 90
            } else {
                lengths[i / 7 % lengths.len()]
            };
            let key = if i % 5 > 0 {
                i % 20
            } else {
                lengths[i / 5 % 18]
            };
            let time = if i % 11 > 0 {
                i as i64 / 3
            } else {
                times[i / 11 % times.len()]
            };
            table.push(has_keys.then_some(key), value, (T + time).max(-1));
        }
        for id in 0..5 {
            let codec = Compression::from_id(id).unwrap();
            for (batch_size, max_records) in [
                (0, i32::MAX),
                (1000, i32::MAX),
                (16384, i32::MAX),
                (1 << 30, i32::MAX),
                (1 << 30, 7),
                (usize::MAX, 1),
            ] {
                let taken = compare(&table, codec, batch_size, max_records);
                let expects = batch_size > 1000 && max_records > 1;
                assert!(!expects || taken > 1000, "{taken} rows went the short way");
            }
        }
    }
}

#[test]
fn headers_of_every_length_are_the_same() {
    let lengths = [0, 1, 15, 16, 17, 48, 49, 62, 63, 64, 65, 127, 128, 300];
    let counts = [0, 1, 2, 2, 3, 63, 64, 65];
    for has_keys in [true, false] {
        let mut table = Table::default();
        for i in 0..3000usize {
            let count = if i % 13 > 0 {
                i % 3
            } else {
                counts[i / 13 % counts.len()]
            };
            let length = |k: usize| {
                if i % 17 > 0 {
                    (i + k) % 40
                } else {
                    lengths[(i / 17 + k) % lengths.len()]
                }
            };
            table.push(has_keys.then_some(i % 30), i % 300, T + i as i64);
            table.push_headers(
                &(0..count)
                    .map(|k| (length(2 * k), length(2 * k + 1)))
                    .collect::<Vec<_>>(),
            );
        }
        for (batch_size, max_records) in [(1000, i32::MAX), (16384, i32::MAX), (1 << 30, 7)] {
            let taken = compare(&table, Compression::None, batch_size, max_records);
            assert!(taken > 1000, "{taken} rows went the short way");
        }
        compare(&table, Compression::Lz4, 16384, i32::MAX);
    }
}

#[test]
fn offset_deltas_that_grow_long_are_the_same() {
    let mut table = Table::default();
    for i in 0..20_000 {
        table.push(Some(3), 5, T + i);
    }
    let taken = compare(&table, Compression::None, 1 << 30, i32::MAX);
    assert!((8000..9000).contains(&taken), "{taken}");
}

#[test]
fn times_near_none_are_left_to_the_checked_way() {
    for base in [-1, 0, 5, 1 << 27] {
        let mut table = Table::default();
        for time in [base, -1, 0, base, 1 << 30, -1] {
            table.push(None, 5, time);
        }
        compare(&table, Compression::None, 16384, i32::MAX);
    }
    let mut table = Table::default();
    table.push(None, 5, 5);
    table.push(None, 5, -2);
    let mut writer = writer(Compression::None, 16384, i32::MAX);
    writer
        .push(table.record(0, &mut HeadersBuffer::default()))
        .unwrap();
    assert_eq!(writer.push_plain(&table.plain(), 1), 0);
    writer
        .push(table.record(1, &mut HeadersBuffer::default()))
        .unwrap_err();
}

/// Offsets outside the data are never read.
#[test]
fn columns_that_lie_take_nothing() {
    let data = [7; 100];
    let column = |offsets| PlainColumn {
        offsets,
        data: &data,
    };
    let sound = column(&[0, 10, 20]);
    let sound_rows = PlainRows {
        keys: Some(sound),
        values: sound,
        headers: Some(PlainHeaders {
            offsets: &[0, 1, 2],
            keys: sound,
            values: sound,
        }),
        timestamps: &[T, T],
    };
    let taken = |rows: &PlainRows<'_>| {
        let mut writer = writer(Compression::None, 16384, i32::MAX);
        let first = NewRecord {
            offset: 0,
            timestamp: T,
            key: None,
            value: None,
            headers: Headers::NONE,
        };
        writer.push(first).unwrap();
        writer.push_plain(rows, 1)
    };
    assert_eq!(taken(&sound_rows), 1);
    for offsets in [
        &[0, 10, 5][..],
        &[0, 10, -5],
        &[0, -10, 5],
        &[0, 10, 101],
        &[0, 99, i32::MAX],
        &[0, 10],
        &[],
    ] {
        let lying = column(offsets);
        let headers = sound_rows.headers.unwrap();
        for rows in [
            PlainRows {
                keys: Some(lying),
                ..sound_rows
            },
            PlainRows {
                values: lying,
                ..sound_rows
            },
            PlainRows {
                headers: Some(PlainHeaders {
                    keys: lying,
                    ..headers
                }),
                ..sound_rows
            },
            PlainRows {
                headers: Some(PlainHeaders {
                    values: lying,
                    ..headers
                }),
                ..sound_rows
            },
            PlainRows {
                headers: Some(PlainHeaders { offsets, ..headers }),
                ..sound_rows
            },
        ] {
            assert_eq!(taken(&rows), 0, "{offsets:?}");
        }
    }
}
