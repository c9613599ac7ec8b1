//! Hand-made bytes for tests, and readers that return rows.
#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing)]

use brokerless_core::{
    Columns, Error, Fetch, NextBatch, Progress, Selection, crc32, crc32c, next_batch,
};

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(pair).collect()
}

pub(crate) type Header = (String, Option<Vec<u8>>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<Header>,
}

pub(crate) fn row(offset: i64, timestamp: i64, key: Option<&str>, value: Option<&str>) -> Row {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    Row {
        offset,
        timestamp,
        key: bytes(key),
        value: bytes(value),
        headers: vec![],
    }
}

/// All columns. Sequences are requested only to avoid the fast path, which does not support them.
pub(crate) fn all_columns(plain: bool) -> Columns {
    let mut columns = Columns::default();
    columns.keys = Some(Default::default());
    columns.values = Some(Default::default());
    columns.headers = Some(Default::default());
    columns.offsets = Some(Default::default());
    columns.timestamps = Some(Default::default());
    columns.sequences = (!plain).then(Default::default);
    columns
}

fn slices(parts: &brokerless_core::BinaryParts) -> Vec<Option<Vec<u8>>> {
    parts
        .offsets
        .windows(2)
        .enumerate()
        .map(|(i, ends)| {
            let is_null = parts.nulls.as_ref().is_some_and(|nulls| nulls[i]);
            (!is_null).then(|| parts.data[ends[0] as usize..ends[1] as usize].to_vec())
        })
        .collect()
}

pub(crate) fn take_rows(columns: &mut Columns) -> Vec<Row> {
    let keys = slices(&columns.keys.as_mut().unwrap().take(Vec::new()));
    let values = slices(&columns.values.as_mut().unwrap().take(Vec::new()));
    let (lists, header_keys, header_values) =
        columns.headers.as_mut().unwrap().take(Default::default());
    let header_keys = slices(&header_keys);
    let header_values = slices(&header_values);
    let offsets = std::mem::take(columns.offsets.as_mut().unwrap());
    let timestamps = std::mem::take(columns.timestamps.as_mut().unwrap());
    assert_eq!(columns.rows(), offsets.len());
    assert_eq!(
        columns
            .batches
            .iter()
            .map(|batch| batch.rows)
            .sum::<usize>(),
        offsets.len()
    );
    columns.clear();
    (0..offsets.len())
        .map(|i| Row {
            offset: offsets[i],
            timestamp: timestamps[i],
            key: keys[i].clone(),
            value: values[i].clone(),
            headers: (lists[i] as usize..lists[i + 1] as usize)
                .map(|h| {
                    let key = String::from_utf8(header_keys[h].clone().unwrap()).unwrap();
                    (key, header_values[h].clone())
                })
                .collect(),
        })
        .collect()
}

/// Reads all rows of `bytes` up to the end, an incomplete batch, or an error.
pub(crate) fn read(bytes: &[u8], fetch: &mut Fetch, plain: bool) -> (Vec<Row>, Option<Error>) {
    let mut columns = all_columns(plain);
    let mut at = 0;
    let error = loop {
        match next_batch(&bytes[at..], at as u64) {
            Ok(NextBatch::NeedMore(_)) => break None,
            Ok(NextBatch::Batch(header, entry)) => {
                match fetch.batch(&header, entry, &mut columns) {
                    Ok(Progress::Complete) => at += header.size(),
                    Ok(Progress::Partial) => {}
                    Ok(Progress::ColumnsFull) => unreachable!("a small batch has room"),
                    Err(error) => break Some(error),
                }
            }
            Err(error) => break Some(error),
        }
    };
    (take_rows(&mut columns), error)
}

pub(crate) fn everything() -> Fetch {
    Fetch::new(Selection::new(&[]), true, 1 << 24)
}

/// Returns the rows of whole and sound `bytes`, read by both paths.
pub(crate) fn rows(bytes: &[u8]) -> Vec<Row> {
    let (rows, error) = read(bytes, &mut everything(), true);
    assert_eq!(error, None);
    assert_eq!(
        read(bytes, &mut everything(), false),
        (rows.clone(), None),
        "the plain way differs"
    );
    rows
}

/// Returns the error for the first batch of `bytes`, by both paths.
pub(crate) fn first_error(bytes: &[u8]) -> Error {
    let (rows, error) = read(bytes, &mut everything(), true);
    assert_eq!(rows, vec![]);
    assert_eq!(
        read(bytes, &mut everything(), false),
        (rows, error.clone()),
        "the plain way differs"
    );
    error.unwrap()
}

pub(crate) fn varint(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

pub(crate) fn field(value: Option<&[u8]>) -> Vec<u8> {
    match value {
        None => varint(-1),
        Some(value) => [varint(value.len() as i64), value.to_vec()].concat(),
    }
}

/// A record of magic 2 from its body.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    [varint(body.len() as i64), body.to_vec()].concat()
}

pub(crate) fn record(row: &Row, base_offset: i64, base_timestamp: i64) -> Vec<u8> {
    let mut body = vec![0];
    body.extend(varint(row.timestamp - base_timestamp));
    body.extend(varint(row.offset - base_offset));
    body.extend(field(row.key.as_deref()));
    body.extend(field(row.value.as_deref()));
    body.extend(varint(row.headers.len() as i64));
    for (key, value) in &row.headers {
        body.extend(field(Some(key.as_bytes())));
        body.extend(field(value.as_deref()));
    }
    framed(&body)
}

/// A batch of magic 2. If `attributes` has the transactional or control bit, it is of producer 7.
pub(crate) fn batch(
    base_offset: i64,
    attributes: i16,
    count: i32,
    last_offset_delta: i32,
    payload: &[u8],
) -> Vec<u8> {
    let producer: i64 = if attributes & 0x30 != 0 { 7 } else { -1 };
    let mut tail = attributes.to_be_bytes().to_vec();
    tail.extend(last_offset_delta.to_be_bytes());
    tail.extend(1000i64.to_be_bytes());
    tail.extend(2000i64.to_be_bytes());
    tail.extend(producer.to_be_bytes());
    tail.extend((-1i16).to_be_bytes());
    tail.extend((-1i32).to_be_bytes());
    tail.extend(count.to_be_bytes());
    tail.extend(payload);
    let mut bytes = base_offset.to_be_bytes().to_vec();
    bytes.extend((tail.len() as i32 + 9).to_be_bytes());
    bytes.extend(5i32.to_be_bytes());
    bytes.push(2);
    bytes.extend(crc32c(&tail).to_be_bytes());
    bytes.extend(tail);
    bytes
}

/// A message of magic 0 or 1.
pub(crate) fn message(
    magic: u8,
    attributes: u8,
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend(timestamp.to_be_bytes());
    }
    for field in [key, value] {
        body.extend(field.map_or(-1, |field| field.len() as i32).to_be_bytes());
        body.extend(field.unwrap_or_default());
    }
    let mut bytes = offset.to_be_bytes().to_vec();
    bytes.extend((body.len() as i32 + 4).to_be_bytes());
    bytes.extend(crc32(&body).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A wrapper of magic 0 or 1.
pub(crate) fn wrapper(
    magic: u8,
    offset: i64,
    timestamp: i64,
    attributes: u8,
    inner: &[Vec<u8>],
) -> Vec<u8> {
    // Raw snappy, as non-Java clients write it: a length and one literal.
    let payload = inner.concat();
    let mut block = Vec::new();
    let mut length = payload.len();
    while length >= 0x80 {
        block.push(length as u8 | 0x80);
        length >>= 7;
    }
    block.push(length as u8);
    if !payload.is_empty() {
        block.extend([
            61 << 2,
            (payload.len() - 1) as u8,
            ((payload.len() - 1) >> 8) as u8,
        ]);
        block.extend(&payload);
    }
    message(magic, attributes | 2, offset, timestamp, None, Some(&block))
}
