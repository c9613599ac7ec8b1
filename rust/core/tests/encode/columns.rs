//! Columns in Arrow's layout, which both encoding paths accept.

use brokerless_core::{
    BatchWriter, HeadersBuffer, NewRecord, PlainColumn, PlainHeaders, PlainRow, PlainRows,
};

/// The ends of fields, and their bytes.
#[derive(Default)]
struct Column(Vec<i32>, Vec<u8>);

impl Column {
    fn push(&mut self, n: usize) {
        if self.0.is_empty() {
            // Bytes before the first row of a slice.
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

    /// The bytes from the start of a row's field on, and the length of the field.
    fn from(&self, row: usize) -> (&[u8], usize) {
        let start = self.0[row] as usize;
        (&self.1[start..], self.0[row + 1] as usize - start)
    }

    fn get(&self, row: usize) -> &[u8] {
        &self.1[self.0[row] as usize..self.0[row + 1] as usize]
    }
}

/// Columns in Arrow's layout.
#[derive(Default)]
pub(crate) struct Table {
    keys: Option<Column>,
    values: Column,
    headers: Option<(Vec<i32>, Column, Column)>,
    pub(crate) times: Vec<i64>,
}

impl Table {
    pub(crate) fn push(&mut self, key: Option<usize>, value: usize, time: i64) {
        if let Some(n) = key {
            self.keys.get_or_insert_default().push(n);
        }
        self.values.push(value);
        self.times.push(time);
    }

    /// Adds headers to the last row: the lengths of keys and values.
    pub(crate) fn push_headers(&mut self, headers: &[(usize, usize)]) {
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

    pub(crate) fn plain(&self) -> PlainRows<'_> {
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

    pub(crate) fn record<'a>(
        &'a self,
        row: usize,
        headers: &'a mut HeadersBuffer,
    ) -> NewRecord<'a> {
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

    pub(crate) fn has_headers(&self) -> bool {
        self.headers.is_some()
    }

    /// The row in the form of the fast path for single rows; None if it has headers.
    fn plain_row(&self, row: usize) -> Option<PlainRow<'_>> {
        let has_headers = |ends: &Vec<i32>| ends[row] < ends[row + 1];
        if self
            .headers
            .as_ref()
            .is_some_and(|(ends, ..)| has_headers(ends))
        {
            return None;
        }
        Some(PlainRow {
            key: self.keys.as_ref().map(|keys| keys.from(row)),
            value: self.values.from(row),
            timestamp: self.times[row],
        })
    }

    /// Returns the batches of all rows, and the number of rows that the fast path took one by one.
    pub(crate) fn batches_by_row(&self, writer: &mut BatchWriter) -> (Vec<u8>, usize) {
        let mut taken = 0;
        let mut headers = HeadersBuffer::default();
        for row in 0..self.times.len() {
            let plain = self.plain_row(row);
            if plain.is_some_and(|plain| writer.push_plain_row(&plain)) {
                taken += 1;
            } else {
                writer.push(self.record(row, &mut headers)).unwrap();
            }
        }
        let (mut bytes, length) = writer.finish(vec![0xee; 1000]).unwrap();
        bytes.truncate(length);
        (bytes, taken)
    }

    /// Returns the batches of all rows, and the number of rows that the fast path took in runs.
    pub(crate) fn batches(&self, writer: &mut BatchWriter, short: bool) -> (Vec<u8>, usize) {
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
