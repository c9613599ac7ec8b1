//! Rows cut into batches: the short way and the checked way write the same bytes.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use brokerless_core::{
    BatchOptions, BatchWriter, Codec, Compression, Cut, Header, Headers, NewRecord, Next, Place,
    PlainColumn, PlainRows, TimestampType, next,
};
use support::rows;

const T: i64 = 1_700_000_000_000;

/// Columns as Arrow has them.
#[derive(Default)]
struct Table {
    keys: Option<(Vec<i32>, Vec<u8>)>,
    values: (Vec<i32>, Vec<u8>),
    times: Vec<i64>,
}

impl Table {
    fn push(&mut self, key: Option<usize>, value: usize, time: i64) {
        let add = |(ends, data): &mut (Vec<i32>, Vec<u8>), n: usize| {
            if ends.is_empty() {
                // What the first rows of a slice leave before them.
                data.extend(b"left out");
                ends.push(8);
            }
            let seed = data.len();
            data.extend((0..n).map(|i| ((seed + i * i) % 251) as u8));
            ends.push(data.len() as i32);
        };
        if let Some(n) = key {
            add(self.keys.get_or_insert_default(), n);
        }
        add(&mut self.values, value);
        self.times.push(time);
    }

    fn plain(&self) -> PlainRows<'_> {
        let column = |(offsets, data)| PlainColumn { offsets, data };
        PlainRows {
            keys: self
                .keys
                .as_ref()
                .map(|(offsets, data)| column((offsets, data))),
            values: column((&self.values.0, &self.values.1)),
            timestamps: &self.times,
        }
    }

    fn record(&self, row: usize) -> NewRecord<'_> {
        let field = |(ends, _): &(Vec<i32>, Vec<u8>)| ends[row] as usize..ends[row + 1] as usize;
        NewRecord {
            offset: -7,
            timestamp: self.times[row],
            key: self.keys.as_ref().map(|keys| &keys.1[field(keys)]),
            value: Some(&self.values.1[field(&self.values)]),
            headers: Headers::NONE,
        }
    }

    /// The batches of all rows, and how many rows went the short way.
    fn batches(&self, writer: &mut BatchWriter, short: bool) -> (Vec<u8>, usize) {
        let plain = self.plain();
        let (mut row, mut taken) = (0, 0);
        while row < self.times.len() {
            writer.push(self.record(row)).unwrap();
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
    writer.push(table.record(0)).unwrap();
    assert_eq!(writer.push_plain(&table.plain(), 1), 0);
    writer.push(table.record(1)).unwrap_err();
}

/// Offsets that do not fit the data are nothing to be read, whatever they say.
#[test]
fn columns_that_lie_take_nothing() {
    let data = [7; 100];
    for offsets in [
        &[0, 10, 5][..],
        &[0, 10, -5],
        &[0, -10, 5],
        &[0, 10, 101],
        &[0, 99, i32::MAX],
        &[0, 10],
        &[],
    ] {
        let lying = PlainColumn {
            offsets,
            data: &data,
        };
        let sound = PlainColumn {
            offsets: &[0, 10, 20],
            data: &data,
        };
        for (keys, values) in [(lying, sound), (sound, lying)] {
            let rows = PlainRows {
                keys: Some(keys),
                values,
                timestamps: &[T, T],
            };
            let mut writer = writer(Compression::None, 16384, i32::MAX);
            let first = NewRecord {
                offset: 0,
                timestamp: T,
                key: None,
                value: None,
                headers: Headers::NONE,
            };
            writer.push(first).unwrap();
            assert_eq!(writer.push_plain(&rows, 1), 0, "{offsets:?}");
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
    writer.push(table.record(0)).unwrap();
    writer.push(table.record(1)).unwrap();
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
