//! Rows cut into batches: the short way and the checked way write the same bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    BatchOptions, BatchWriter, Codec, Compression, Cut, Header, Headers, HeadersBuffer, NewRecord,
    Next, Place, PlainColumn, PlainHeaders, PlainRows, TimestampType, next,
};
use support::rows;

const T: i64 = 1_700_000_000_000;

/// Where fields end, and their bytes.
#[derive(Default)]
struct Column(Vec<i32>, Vec<u8>);

impl Column {
    fn push(&mut self, n: usize) {
        if self.0.is_empty() {
            // What the first rows of a slice leave before them.
            self.1.extend(b"left out");
            self.0.push(8);
        }
        let seed = self.1.len();
        self.1.extend((0..n).map(|i| ((seed + i * i) % 251) as u8));
        self.0.push(self.1.len() as i32);
    }

    fn plain(&self) -> PlainColumn<'_> {
        PlainColumn {
            offsets: &self.0,
            data: &self.1,
        }
    }

    fn get(&self, row: usize) -> &[u8] {
        &self.1[self.0[row] as usize..self.0[row + 1] as usize]
    }
}

/// Columns as Arrow has them.
#[derive(Default)]
struct Table {
    keys: Option<Column>,
    values: Column,
    headers: Option<(Vec<i32>, Column, Column)>,
    times: Vec<i64>,
}

impl Table {
    fn push(&mut self, key: Option<usize>, value: usize, time: i64) {
        if let Some(n) = key {
            self.keys.get_or_insert_default().push(n);
        }
        self.values.push(value);
        self.times.push(time);
    }

    /// Of the row pushed last: the lengths of keys and values.
    fn push_headers(&mut self, headers: &[(usize, usize)]) {
        let (ends, keys, values) = self.headers.get_or_insert_default();
        if ends.is_empty() {
            // The entry of a row that a slice leaves out.
            keys.push(3);
            values.push(5);
            ends.push(1);
        }
        for &(key, value) in headers {
            keys.push(key);
            values.push(value);
        }
        ends.push(keys.0.len() as i32 - 1);
    }

    fn plain(&self) -> PlainRows<'_> {
        PlainRows {
            keys: self.keys.as_ref().map(Column::plain),
            values: self.values.plain(),
            headers: self
                .headers
                .as_ref()
                .map(|(offsets, keys, values)| PlainHeaders {
                    offsets,
                    keys: keys.plain(),
                    values: values.plain(),
                }),
            timestamps: &self.times,
        }
    }

    fn record<'a>(&'a self, row: usize, headers: &'a mut HeadersBuffer) -> NewRecord<'a> {
        headers.clear();
        if let Some((ends, keys, values)) = &self.headers {
            for entry in ends[row] as usize..ends[row + 1] as usize {
                headers
                    .push(keys.get(entry), Some(values.get(entry)))
                    .unwrap();
            }
        }
        NewRecord {
            offset: -7,
            timestamp: self.times[row],
            key: self.keys.as_ref().map(|keys| keys.get(row)),
            value: Some(self.values.get(row)),
            headers: headers.headers(),
        }
    }

    /// The batches of all rows, and how many rows went the short way.
    fn batches(&self, writer: &mut BatchWriter, short: bool) -> (Vec<u8>, usize) {
        let plain = self.plain();
        let (mut row, mut taken) = (0, 0);
        let mut headers = HeadersBuffer::default();
        while row < self.times.len() {
            writer.push(self.record(row, &mut headers)).unwrap();
            row += 1;
            if short {
                let n = writer.push_plain(&plain, row);
                (row, taken) = (row + n, taken + n);
            }
        }
        let (mut bytes, length) = writer.finish(vec![0xee; 1000]).unwrap();
        bytes.truncate(length);
        (bytes, taken)
    }
}

fn writer(codec: Compression, batch_size: usize, max_records: i32) -> BatchWriter {
    let options = BatchOptions {
        codec: Codec::new(codec, None).unwrap(),
        producer_id: 5,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let cut = Cut {
        batch_size,
        max_records,
    };
    BatchWriter::new(options, cut).unwrap()
}

/// The same rows by both ways; returns how many went the short one.
fn compare(table: &Table, codec: Compression, batch_size: usize, max_records: i32) -> usize {
    let mut short = writer(codec, batch_size, max_records);
    let mut checked = writer(codec, batch_size, max_records);
    let mut taken = 0;
    // Twice: memory and sequences go on.
    for _ in 0..2 {
        let (bytes, n) = table.batches(&mut short, true);
        assert_eq!(
            bytes,
            table.batches(&mut checked, false).0,
            "{codec:?} {batch_size} {max_records}"
        );
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
            // Long runs of small rows, and every length beside every other.
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

/// Offsets that do not fit the data are nothing to be read, whatever they say.
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

#[test]
fn what_is_discarded_leaves_no_trace() {
    let mut writer = writer(Compression::Gzip, 100, i32::MAX);
    let mut table = Table::default();
    for _ in 0..10 {
        table.push(None, 50, T);
    }
    let (expected, _) = table.batches(&mut writer, true);
    assert_eq!(writer.next_sequence(), 10);
    writer
        .push(table.record(0, &mut HeadersBuffer::default()))
        .unwrap();
    writer
        .push(table.record(1, &mut HeadersBuffer::default()))
        .unwrap();
    writer.discard();
    assert_eq!(writer.next_sequence(), 10);
    let (again, _) = table.batches(&mut writer, true);
    assert_eq!(again.len(), expected.len());
    let first = Header::parse(&again, 0).unwrap().unwrap();
    assert_eq!(first.base_sequence, 10);
}

/// Sequences follow offset deltas: a gap in the offsets is one in the sequences.
#[test]
fn kept_gaps_take_sequences() {
    let mut writer = writer(Compression::None, 1 << 20, 2);
    let place = Place {
        leader_epoch: Some(3),
        timestamp_type: Some(TimestampType::CreateTime),
    };
    for offset in [10, 15, 20] {
        let record = NewRecord {
            offset,
            timestamp: T,
            key: None,
            value: None,
            headers: Headers::NONE,
        };
        writer.push_at(&record, place).unwrap();
    }
    let (bytes, length) = writer.finish(Vec::new()).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(Next::Batch(header, _)) = next(&bytes[at..length], 0) {
        found.push((
            header.base_offset,
            header.base_sequence,
            header.last_sequence(),
        ));
        at += header.size();
    }
    assert_eq!(found, [(10, 0, 5), (20, 6, 6)]);
    assert_eq!(writer.next_sequence(), 7);
}
