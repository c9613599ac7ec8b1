//! The fields of a row of Spark that make a record, checked as `brokerless._native.RecordRows` checks columns.

use brokerless_core::{
    Error, Headers, HeadersBuffer, NewRecord, PlainRow, Result, SourceFields, TimestampType,
    check_timestamp,
};

use crate::unsafe_rows::UnsafeRow;

/// The indexes of the written columns among the fields of a row.
#[derive(Debug)]
pub(crate) struct RowFields {
    key: Option<usize>,
    value: Option<usize>,
    headers: Option<usize>,
    timestamp: Option<usize>,
    topic: Option<usize>,
    partition: Option<usize>,
    offset: Option<usize>,
    timestamp_type: Option<usize>,
    leader_epoch: Option<usize>,
}

impl RowFields {
    /// The indexes of the columns `written` in `names`.
    pub(crate) fn new(written: &[String], names: &[String]) -> Self {
        let place = |column: &str| {
            let is_written = written.iter().any(|name| name == column);
            names.iter().position(|name| name == column && is_written)
        };
        Self {
            key: place("key"),
            value: place("value"),
            headers: place("headers"),
            timestamp: place("timestamp"),
            topic: place("topic"),
            partition: place("partition"),
            offset: place("offset"),
            timestamp_type: place("timestampType"),
            leader_epoch: place("leaderEpoch"),
        }
    }

    pub(crate) fn has_topic(&self) -> bool {
        self.topic.is_some()
    }

    /// The row in the form of the fast encoder; None if the row needs [`Self::record`].
    #[inline]
    pub(crate) fn plain<'a>(&self, row: &UnsafeRow<'a>, now: i64) -> Result<Option<PlainRow<'a>>> {
        let headers = at(self.headers, |field| row.bytes(field))?;
        let value = at(self.value, |field| row.bytes_onwards(field))?;
        let (Some(value), None) = (value, headers) else {
            return Ok(None);
        };
        Ok(Some(PlainRow {
            key: at(self.key, |field| row.bytes_onwards(field))?,
            value,
            timestamp: match self.timestamp {
                Some(_) => self.timestamp(row)?.unwrap_or(now),
                None => now,
            },
        }))
    }

    pub(crate) fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    pub(crate) fn topic<'a>(&self, row: &UnsafeRow<'a>) -> Result<Option<&'a [u8]>> {
        at(self.topic, |field| row.bytes(field))
    }

    pub(crate) fn key<'a>(&self, row: &UnsafeRow<'a>) -> Result<Option<&'a [u8]>> {
        at(self.key, |field| row.bytes(field))
    }

    #[inline]
    pub(crate) fn partition(&self, row: &UnsafeRow<'_>) -> Result<Option<i32>> {
        let partition = at(self.partition, |field| row.int(field))?;
        match partition {
            Some(negative) if negative < 0 => Err(Error::invalid(format!(
                "partition is {negative}, but must be from 0 to {}",
                i32::MAX
            ))),
            other => Ok(other),
        }
    }

    /// The time in milliseconds, rounded down. A time before 1970 must not become -1, which means no timestamp.
    pub(crate) fn timestamp(&self, row: &UnsafeRow<'_>) -> Result<Option<i64>> {
        let Some(micros) = at(self.timestamp, |field| row.long(field))? else {
            return Ok(None);
        };
        let millis = micros.div_euclid(1000);
        if millis < 0 && micros % 1000 != 0 {
            return Err(Error::invalid(format!(
                "timestamp {} ms is before 1970",
                micros as f64 / 1000.0
            )));
        }
        check_timestamp(millis)?;
        Ok(Some(millis))
    }

    /// The record of a row, with its headers in `headers`. `now` is the time for a row without a timestamp, in
    /// milliseconds.
    pub(crate) fn record<'a>(
        &self,
        row: &UnsafeRow<'a>,
        now: i64,
        headers: &'a mut HeadersBuffer,
    ) -> Result<NewRecord<'a>> {
        let timestamp = self.timestamp(row)?.unwrap_or(now);
        let headers = match self.headers {
            None => Headers::NONE,
            Some(field) => {
                headers.clear();
                for header in row.structs(field, 2)?.into_iter().flatten() {
                    let header = header?.ok_or_else(|| Error::invalid("a header is null"))?;
                    let key = header.bytes(0)?;
                    let key = key.ok_or_else(|| Error::invalid("a header's key is null"))?;
                    headers.push(key, header.bytes(1)?)?;
                }
                headers.headers()
            }
        };
        Ok(NewRecord {
            offset: 0,
            timestamp,
            key: self.key(row)?,
            value: at(self.value, |field| row.bytes(field))?,
            headers,
        })
    }

    /// The offset that a row keeps, and the other fields from its old log.
    pub(crate) fn source(&self, row: &UnsafeRow<'_>) -> Result<(i64, SourceFields)> {
        let offset = at(self.offset, |field| row.long(field))?;
        let offset = offset.ok_or_else(|| Error::invalid("offset is null"))?;
        if offset < 0 {
            return Err(Error::invalid(format!(
                "offset is {offset}, but must be from 0 to {}",
                i64::MAX
            )));
        }
        let timestamp_type = at(self.timestamp_type, |field| row.int(field))?
            .map(|id| {
                TimestampType::from_id(id)
                    .ok_or_else(|| Error::invalid(format!("unknown timestamp type {id}")))
            })
            .transpose()?;
        let source = SourceFields {
            leader_epoch: at(self.leader_epoch, |field| row.int(field))?,
            timestamp_type,
        };
        Ok((offset, source))
    }
}

/// The field at an index; None without an index.
#[inline]
fn at<T>(
    place: Option<usize>,
    field: impl FnOnce(usize) -> Result<Option<T>>,
) -> Result<Option<T>> {
    place.map_or(Ok(None), field)
}
