//! The columns of a chunk in memory that Spark reads: flat arrays, whose addresses Java gets.

use brokerless_core::{BatchRows, BinaryColumn, Columns};

/// A column of the source, by the name that Spark has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Key,
    Value,
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    Headers,
    LeaderEpoch,
    BaseOffset,
    Position,
    Magic,
    Compression,
    ProducerId,
    ProducerEpoch,
    Sequence,
    IsTransactional,
}

const COLUMNS: [(&str, Column); 17] = [
    ("key", Column::Key),
    ("value", Column::Value),
    ("topic", Column::Topic),
    ("partition", Column::Partition),
    ("offset", Column::Offset),
    ("timestamp", Column::Timestamp),
    ("timestampType", Column::TimestampType),
    ("headers", Column::Headers),
    ("leaderEpoch", Column::LeaderEpoch),
    ("baseOffset", Column::BaseOffset),
    ("position", Column::Position),
    ("magic", Column::Magic),
    ("compression", Column::Compression),
    ("producerId", Column::ProducerId),
    ("producerEpoch", Column::ProducerEpoch),
    ("sequence", Column::Sequence),
    ("isTransactional", Column::IsTransactional),
];

impl Column {
    pub(crate) fn named(name: &str) -> Option<Self> {
        COLUMNS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, column)| column)
    }
}

/// The core's columns that these ones are made of.
pub(crate) fn core_columns(wanted: &[Column]) -> Columns {
    let wants = |column| wanted.contains(&column);
    let mut columns = Columns::default();
    columns.keys = wants(Column::Key).then(Default::default);
    columns.values = wants(Column::Value).then(Default::default);
    columns.headers = wants(Column::Headers).then(Default::default);
    columns.offsets = wants(Column::Offset).then(Default::default);
    columns.timestamps = wants(Column::Timestamp).then(Default::default);
    columns.sequences = wants(Column::Sequence).then(Default::default);
    columns
}

/// The addresses of a column's arrays; 0 for an array that it does not have.
pub(crate) type Addresses = [u64; ADDRESSES];
pub(crate) const ADDRESSES: usize = 5;

/// The values that a chunk's columns are computed into. The memory is used again for the next chunk.
#[derive(Debug, Default)]
pub(crate) struct Flat {
    longs: Vec<i64>,
    ints: Vec<i32>,
    bytes: Vec<u8>,
    /// For each row, 1 if it is null. Empty: none is.
    nulls: Vec<u8>,
}

fn address<T>(values: &[T]) -> u64 {
    values.as_ptr() as u64
}

fn binary(column: &BinaryColumn) -> [u64; 2] {
    let (offsets, data) = column.parts();
    [address(offsets), address(data)]
}

impl Flat {
    /// Computes a column of the chunk in `columns`, and returns where its arrays lie. They are valid until `columns` or
    /// this value change.
    pub(crate) fn fill(
        &mut self,
        column: Column,
        columns: &Columns,
        split: (Option<&str>, Option<i32>),
        null_timestamps: &mut u64,
    ) -> Addresses {
        self.nulls.clear();
        let batches = &columns.batches;
        match column {
            Column::Key => columns.keys.as_ref().map_or([0; 5], two),
            Column::Value => columns.values.as_ref().map_or([0; 5], two),
            Column::Headers => columns.headers.as_ref().map_or([0; 5], |headers| {
                let (offsets, keys, values) = headers.parts();
                let ([keys_at, keys], [values_at, values]) = (binary(keys), binary(values));
                [address(offsets), keys_at, keys, values_at, values]
            }),
            Column::Topic => {
                self.bytes.clear();
                self.bytes.extend(split.0.unwrap_or_default().bytes());
                let length = self.bytes.len() as u64;
                [
                    address(&self.bytes),
                    length,
                    u64::from(split.0.is_none()),
                    0,
                    0,
                ]
            }
            Column::Partition => {
                let value = split.1.unwrap_or_default() as u64;
                [value, 0, u64::from(split.1.is_none()), 0, 0]
            }
            Column::Offset => columns
                .offsets
                .as_ref()
                .map_or([0; 5], |offsets| [address(offsets), 0, 0, 0, 0]),
            Column::Timestamp => self.micros(
                columns.timestamps.as_deref().unwrap_or_default(),
                null_timestamps,
            ),
            Column::Sequence => {
                let sequences = columns.sequences.as_deref().unwrap_or_default();
                self.ints.clear();
                self.ints.extend(sequences);
                self.null_negatives_of_ints()
            }
            Column::TimestampType => {
                expand(&mut self.ints, batches, |b| {
                    b.header.timestamp_type() as i32
                });
                [address(&self.ints), 0, 0, 0, 0]
            }
            Column::LeaderEpoch => {
                expand(&mut self.ints, batches, |b| b.header.partition_leader_epoch);
                self.null_negatives_of_ints()
            }
            Column::ProducerEpoch => {
                expand(&mut self.ints, batches, |b| {
                    i32::from(b.header.producer_epoch)
                });
                self.null_negatives_of_ints()
            }
            Column::Magic => {
                expand(&mut self.ints, batches, |b| i32::from(b.header.magic));
                [address(&self.ints), 0, 0, 0, 0]
            }
            Column::IsTransactional => {
                expand(&mut self.ints, batches, |b| {
                    i32::from(b.header.is_transactional())
                });
                [address(&self.ints), 0, 0, 0, 0]
            }
            Column::BaseOffset => {
                expand(&mut self.longs, batches, |b| b.first_offset);
                [address(&self.longs), 0, 0, 0, 0]
            }
            Column::Position => {
                expand(&mut self.longs, batches, |b| b.header.position as i64);
                [address(&self.longs), 0, 0, 0, 0]
            }
            Column::ProducerId => {
                expand(&mut self.longs, batches, |b| b.header.producer_id);
                self.nulls
                    .extend(self.longs.iter().map(|&id| u8::from(id < 0)));
                [address(&self.longs), address(&self.nulls), 0, 0, 0]
            }
            Column::Compression => {
                // The codec's id, and the names of all codecs on the other side; -1 for an unknown one.
                expand(&mut self.ints, batches, |b| {
                    b.header
                        .compression()
                        .map_or(-1, |_| i32::from(b.header.compression_id()))
                });
                self.null_negatives_of_ints()
            }
        }
    }

    fn null_negatives_of_ints(&mut self) -> Addresses {
        self.nulls
            .extend(self.ints.iter().map(|&value| u8::from(value < 0)));
        [address(&self.ints), address(&self.nulls), 0, 0, 0]
    }

    /// Milliseconds as Spark's microseconds; null beyond its range.
    fn micros(&mut self, millis: &[i64], null_timestamps: &mut u64) -> Addresses {
        const LIMIT: i64 = i64::MAX / 1000;
        self.longs.clear();
        self.longs
            .extend(millis.iter().map(|ms| ms.wrapping_mul(1000)));
        let is_beyond = |ms: &i64| !(-LIMIT..=LIMIT).contains(ms);
        let beyond = millis.iter().filter(|ms| is_beyond(ms)).count();
        if beyond == 0 {
            return [address(&self.longs), 0, 0, 0, 0];
        }
        *null_timestamps += beyond as u64;
        self.nulls
            .extend(millis.iter().map(|ms| u8::from(is_beyond(ms))));
        [address(&self.longs), address(&self.nulls), 0, 0, 0]
    }
}

fn two(column: &BinaryColumn) -> Addresses {
    let [offsets, data] = binary(column);
    [offsets, data, 0, 0, 0]
}

/// Repeats a value of each Kafka batch for each of its rows.
fn expand<T: Clone>(values: &mut Vec<T>, batches: &[BatchRows], value: impl Fn(&BatchRows) -> T) {
    values.clear();
    for batch in batches {
        values.resize(values.len() + batch.rows, value(batch));
    }
}
