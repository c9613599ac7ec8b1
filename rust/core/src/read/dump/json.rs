//! A dump with one JSON object per batch, whose fields have Kafka's names in snake_case.

use crate::base::error::Result;
use crate::base::json::{BytesFormat, Json};
use crate::base::utf8::java_utf8;
use crate::format::batch::Header;
use crate::format::control::{ControlType, control_type, coordinator_epoch};
use crate::format::message::{Message, MessageSet, first_offset};
use crate::format::record::{self, Record};

use super::{BatchDump, DumpScratch, check_size, compression_name};

/// Dumps each batch as a line of JSON.
#[derive(Debug)]
pub struct JsonDump {
    batches: BatchDump,
    records: bool,
    format: BytesFormat,
}

impl JsonDump {
    /// `records`: with a list of the records; keys, values and header values are written in this `format`. A batch may
    /// decompress to `max_batch_bytes`, and its line may take four times as much.
    pub fn new(records: bool, format: BytesFormat, max_batch_bytes: usize) -> Self {
        Self {
            batches: BatchDump::new(max_batch_bytes),
            records,
            format,
        }
    }

    /// Writes a line for each whole batch in `bytes`, which start at `position` of the file, to `out`. Returns the size
    /// of these batches in bytes. If the records of a batch are damaged, its line has null for them. The next call,
    /// from the position of that batch, returns the error.
    pub fn feed(&mut self, bytes: &[u8], position: u64, out: &mut Vec<u8>) -> Result<usize> {
        let Self {
            batches,
            records,
            format,
        } = self;
        batches.feed(bytes, position, out, |header, entry, scratch, out| {
            batch(header, entry, records.then_some(*format), scratch, out)
        })
    }
}

fn batch(
    header: &Header,
    entry: &[u8],
    format: Option<BytesFormat>,
    scratch: &mut DumpScratch<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut json = Json::new(out);
    json.begin_object();
    header_fields(header, entry, scratch, &mut json);
    let mut written = Ok(());
    if let Some(format) = format {
        json.key("records");
        let start = json.mark();
        json.begin_array();
        written = records(header, entry, format, scratch, &mut json);
        match written {
            Ok(()) => json.end_array(),
            Err(_) => {
                json.go_back(&start);
                json.null();
            }
        }
    }
    json.end_object();
    out.push(b'\n');
    written
}

/// Writes the columns of a header scan, and whether the checksum is right.
fn header_fields(
    header: &Header,
    entry: &[u8],
    scratch: &mut DumpScratch<'_>,
    json: &mut Json<'_>,
) {
    // Fields that only magic 2 stores.
    let stored = |value: i64| (header.magic == 2).then_some(value);
    json.int_field("position", header.position);
    json.int_field("size", header.size());
    json.optional_field(
        "base_offset",
        first_offset(header, entry, scratch.decompressor).ok(),
    );
    json.int_field("last_offset", header.last_offset());
    json.int_field("batch_length", header.batch_length);
    json.int_field("partition_leader_epoch", header.partition_leader_epoch);
    json.int_field("magic", header.magic);
    json.int_field("crc", header.crc);
    json.int_field("attributes", header.attributes);
    json.string_field("compression", &compression_name(header));
    json.string_field("timestamp_type", header.timestamp_type().name());
    json.bool_field("is_transactional", header.is_transactional());
    json.bool_field("is_control", header.is_control());
    json.optional_field("delete_horizon_ms", header.delete_horizon_ms());
    json.optional_field("last_offset_delta", stored(header.last_offset_delta.into()));
    json.optional_field("base_timestamp", stored(header.base_timestamp));
    json.int_field("max_timestamp", header.max_timestamp);
    json.int_field("producer_id", header.producer_id);
    json.int_field("producer_epoch", header.producer_epoch);
    json.int_field("base_sequence", header.base_sequence);
    json.int_field("last_sequence", header.last_sequence());
    json.optional_field("records_count", header.records_count.map(i64::from));
    json.bool_field("is_valid", header.check_crc(entry).is_ok());
}

fn records(
    header: &Header,
    entry: &[u8],
    format: BytesFormat,
    scratch: &mut DumpScratch<'_>,
    json: &mut Json<'_>,
) -> Result<()> {
    if header.records_count == Some(0) {
        return Ok(());
    }
    let (start, max_text) = (json.mark(), scratch.max_text);
    if header.magic == 2 {
        let payload = record::payload(header, entry, scratch.decompressor)?;
        record::for_each(payload, header.records_count.unwrap_or(0), |record| {
            record_object(header, &record, format, json)?;
            check_size(json.since(&start).len(), max_text)
        })
    } else {
        MessageSet::open(header, entry, scratch.decompressor)?.for_each(false, |message| {
            message_object(&message, format, json);
            check_size(json.since(&start).len(), max_text)
        })
    }
}

fn record_object(
    header: &Header,
    record: &Record<'_>,
    format: BytesFormat,
    json: &mut Json<'_>,
) -> Result<()> {
    let (timestamp, offset) = record.timestamp_and_offset(header);
    json.begin_object();
    json.int_field("offset", offset);
    json.int_field("timestamp", timestamp);
    json.int_field("sequence", header.sequence(record.offset_delta));
    if header.is_control() {
        control_fields(record, json)?;
    } else {
        json.key("key");
        json.bytes(record.key, format);
        json.key("value");
        json.bytes(record.value, format);
    }
    json.key("headers");
    json.begin_array();
    record.headers.for_each(|key, value| {
        json.begin_array();
        json.string(&java_utf8(key));
        json.bytes(value, format);
        json.end_array();
        Ok(())
    })?;
    json.end_array();
    json.end_object();
    Ok(())
}

/// Writes the content of a control record instead of key and value.
fn control_fields(record: &Record<'_>, json: &mut Json<'_>) -> Result<()> {
    let control_type = control_type(record.key.unwrap_or_default())?;
    let value = record.value.unwrap_or_default();
    json.string_field("control_type", control_type.name());
    match control_type {
        ControlType::Abort | ControlType::Commit => {
            json.int_field("coordinator_epoch", coordinator_epoch(value)?);
        }
        ControlType::Unknown(id) => json.int_field("control_type_id", id),
        _ => {
            json.key("value");
            control_type.value_json(value, json)?;
        }
    }
    Ok(())
}

fn message_object(message: &Message<'_>, format: BytesFormat, json: &mut Json<'_>) {
    json.begin_object();
    json.int_field("offset", message.offset);
    json.int_field("timestamp", message.timestamp);
    json.int_field("crc", message.header.crc);
    json.bool_field("is_valid", message.header.check_crc(message.entry).is_ok());
    json.key("key");
    json.bytes(message.key, format);
    json.key("value");
    json.bytes(message.value, format);
    json.end_object();
}
