//! The columns of a chunk in memory that Spark reads: flat arrays, whose addresses Java gets.

use brokerless_core::{BatchRows, BinaryColumn, Columns, RowColumn};

/// The addresses of a column's arrays; 0 for an array that it does not have.
pub(crate) type Addresses = [u64; ADDRESSES];
pub(crate) const ADDRESSES: usize = 5;

/// The memory into which a chunk's columns are computed. It is reused for the next chunk.
#[derive(Debug, Default)]
pub(crate) struct Flat {
    longs: Vec<i64>,
    ints: Vec<i32>,
    bytes: Vec<u8>,
    /// For each row, 1 if it is null; empty if no row is null.
    nulls: Vec<u8>,
}

pub(crate) fn address<T>(values: &[T]) -> u64 {
    values.as_ptr() as u64
}

fn binary(column: &BinaryColumn) -> [u64; 2] {
    let (offsets, data) = column.parts();
    [address(offsets), address(data)]
}

impl Flat {
    /// Computes a column of the chunk in `columns`, and returns the addresses of its arrays. They are valid until
    /// `columns` or this value change.
    pub(crate) fn fill(
        &mut self,
        column: RowColumn,
        columns: &Columns,
        split: (Option<&str>, Option<i32>),
        null_timestamps: &mut u64,
    ) -> Addresses {
        self.nulls.clear();
        let batches = &columns.batches;
        match column {
            RowColumn::Key => columns.keys.as_ref().map_or([0; 5], two),
            RowColumn::Value => columns.values.as_ref().map_or([0; 5], two),
            RowColumn::Headers => columns.headers.as_ref().map_or([0; 5], |headers| {
                let (offsets, keys, values) = headers.parts();
                let ([keys_at, keys], [values_at, values]) = (binary(keys), binary(values));
                [address(offsets), keys_at, keys, values_at, values]
            }),
            RowColumn::Topic => {
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
            RowColumn::Partition => {
                let value = split.1.unwrap_or_default() as u64;
                [value, 0, u64::from(split.1.is_none()), 0, 0]
            }
            RowColumn::Offset => columns
                .offsets
                .as_ref()
                .map_or([0; 5], |offsets| [address(offsets), 0, 0, 0, 0]),
            RowColumn::Timestamp => self.micros(
                columns.timestamps.as_deref().unwrap_or_default(),
                null_timestamps,
            ),
            RowColumn::Sequence => {
                let sequences = columns.sequences.as_deref().unwrap_or_default();
                self.ints.clear();
                self.ints.extend(sequences);
                self.null_negatives_of_ints()
            }
            RowColumn::TimestampType => {
                expand(&mut self.ints, batches, |b| {
                    b.header.timestamp_type() as i32
                });
                [address(&self.ints), 0, 0, 0, 0]
            }
            RowColumn::LeaderEpoch => {
                expand(&mut self.ints, batches, |b| b.header.partition_leader_epoch);
                self.null_negatives_of_ints()
            }
            RowColumn::ProducerEpoch => {
                expand(&mut self.ints, batches, |b| {
                    i32::from(b.header.producer_epoch)
                });
                self.null_negatives_of_ints()
            }
            RowColumn::Magic => {
                expand(&mut self.ints, batches, |b| i32::from(b.header.magic));
                [address(&self.ints), 0, 0, 0, 0]
            }
            RowColumn::IsTransactional => {
                expand(&mut self.ints, batches, |b| {
                    i32::from(b.header.is_transactional())
                });
                [address(&self.ints), 0, 0, 0, 0]
            }
            RowColumn::BaseOffset => {
                expand(&mut self.longs, batches, |b| b.first_offset);
                [address(&self.longs), 0, 0, 0, 0]
            }
            RowColumn::Position => {
                expand(&mut self.longs, batches, |b| b.header.position as i64);
                [address(&self.longs), 0, 0, 0, 0]
            }
            RowColumn::ProducerId => {
                expand(&mut self.longs, batches, |b| b.header.producer_id);
                self.nulls
                    .extend(self.longs.iter().map(|&id| u8::from(id < 0)));
                [address(&self.longs), address(&self.nulls), 0, 0, 0]
            }
            RowColumn::Compression => {
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

/// The addresses of a column from a row on: those of its arrays with a value for each row are that many values further.
pub(crate) fn from_row(column: RowColumn, mut addresses: Addresses, row: usize) -> Addresses {
    let row = row as u64;
    let [first, second, ..] = &mut addresses;
    match column {
        RowColumn::Topic | RowColumn::Partition => {}
        RowColumn::Key | RowColumn::Value | RowColumn::Headers => *first += 4 * row,
        RowColumn::Offset
        | RowColumn::Timestamp
        | RowColumn::BaseOffset
        | RowColumn::Position
        | RowColumn::ProducerId => {
            *first += 8 * row;
            if *second != 0 {
                *second += row;
            }
        }
        RowColumn::Sequence
        | RowColumn::TimestampType
        | RowColumn::LeaderEpoch
        | RowColumn::ProducerEpoch
        | RowColumn::Magic
        | RowColumn::IsTransactional
        | RowColumn::Compression => {
            *first += 4 * row;
            if *second != 0 {
                *second += row;
            }
        }
    }
    addresses
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
