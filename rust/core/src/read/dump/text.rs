//! The lines of `kafka-dump-log` (`DumpLogSegments` of Kafka 4.1), field for field.

use crate::base::error::Result;
use crate::base::json::Json;
use crate::base::utf8::java_utf8;
use crate::format::batch::Header;
use crate::format::control::{ControlType, control_type, coordinator_epoch};
use crate::format::message::{Message, MessageSet};
use crate::format::record::{self, Record};

use super::{BatchDump, DumpScratch, check_size, compression_name};

/// Dumps a `.log` file as `kafka-dump-log` does.
#[derive(Debug)]
pub struct LogDump {
    batches: BatchDump,
    lines: Lines,
}

impl LogDump {
    /// `deep_iteration`: also dump records. `print_data_log`: with their keys and values. `skip_record_metadata`: only
    /// keys and values. A batch may decompress to `max_batch_bytes`, and its lines may take four times as much.
    pub fn new(
        deep_iteration: bool,
        print_data_log: bool,
        skip_record_metadata: bool,
        max_batch_bytes: usize,
    ) -> Self {
        let lines = Lines {
            deep_iteration,
            print_data_log,
            skip_record_metadata,
            escape_controls: false,
            last_offset: None,
            gaps: Vec::new(),
        };
        Self {
            batches: BatchDump::new(max_batch_bytes),
            lines,
        }
    }

    /// Escapes control characters in the content of records, as in JSON: for terminals.
    pub fn escape_controls(mut self) -> Self {
        self.lines.escape_controls = true;
        self
    }

    /// Writes the lines of the whole batches in `bytes`, which start at `position` of the file, to `out`. Returns the
    /// size of these batches in bytes. If that size is 0, lines in `out` are the readable part of a damaged batch. The
    /// next call, from the same position, returns the error.
    pub fn feed(&mut self, bytes: &[u8], position: u64, out: &mut Vec<u8>) -> Result<usize> {
        let Self { batches, lines } = self;
        batches.feed(bytes, position, out, |header, entry, scratch, out| {
            lines.batch(header, entry, scratch, out)
        })
    }

    /// Pairs of successive record offsets that are not consecutive.
    pub fn gaps(&self) -> &[(i64, i64)] {
        &self.lines.gaps
    }
}

#[derive(Debug)]
struct Lines {
    deep_iteration: bool,
    print_data_log: bool,
    skip_record_metadata: bool,
    escape_controls: bool,
    last_offset: Option<i64>,
    gaps: Vec<(i64, i64)>,
}

impl Lines {
    fn batch(
        &mut self,
        header: &Header,
        entry: &[u8],
        scratch: &mut DumpScratch<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        let max_text = scratch.max_text;
        batch_line(header, entry, out);
        if !self.deep_iteration || header.records_count == Some(0) {
            return Ok(());
        }
        if header.magic == 2 {
            let payload = record::payload(header, entry, scratch.decompressor)?;
            record::for_each(payload, header.records_count.unwrap_or(0), |record| {
                self.line(out, |lines, out| lines.record(header, &record, out))?;
                check_size(out.len() - start, max_text)
            })
        } else {
            MessageSet::open(header, entry, scratch.decompressor)?.for_each(false, |message| {
                self.line(out, |lines, out| {
                    lines.message(header, &message, out);
                    Ok(())
                })?;
                check_size(out.len() - start, max_text)
            })
        }
    }

    /// Writes a line; an error leaves no part of it.
    fn line(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let start = out.len();
        let written = write(self, out);
        match written {
            Ok(()) => out.push(b'\n'),
            Err(_) => out.truncate(start),
        }
        written
    }

    fn record(&mut self, header: &Header, record: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        let (timestamp, offset) = record.timestamp_and_offset(header);
        self.note(offset);
        if !self.skip_record_metadata {
            record_fields(header, offset, timestamp, record.key, record.value, out);
            number(out, " sequence: ", header.sequence(record.offset_delta));
            text(out, " headerKeys: [");
            let mut comma = "";
            record.headers.for_each(|key, _| {
                text(out, comma);
                comma = ",";
                self.stored(out, key);
                Ok(())
            })?;
            text(out, "]");
            if header.is_control() {
                return control_fields(record, out);
            }
        }
        if !header.is_control() {
            self.contents(record.key, record.value, out);
        }
        Ok(())
    }

    fn message(&mut self, header: &Header, message: &Message<'_>, out: &mut Vec<u8>) {
        self.note(message.offset);
        if !self.skip_record_metadata {
            record_fields(
                header,
                message.offset,
                message.timestamp,
                message.key,
                message.value,
                out,
            );
            flag(
                out,
                " isValid: ",
                message.header.check_crc(message.entry).is_ok(),
            );
            number(out, " crc: ", message.header.crc);
            // A stray brace of the tool.
            text(out, "}");
        }
        self.contents(message.key, message.value, out);
    }

    fn note(&mut self, offset: i64) {
        if let Some(last) = self.last_offset.replace(offset)
            && offset != last.wrapping_add(1)
        {
            self.gaps.push((last, offset));
        }
    }

    fn contents(&self, key: Option<&[u8]>, value: Option<&[u8]>, out: &mut Vec<u8>) {
        if !self.print_data_log {
            return;
        }
        if let Some(key) = key {
            // The first field of a line has the bar. Without metadata, a value alone comes without one.
            text(
                out,
                if self.skip_record_metadata {
                    "| key: "
                } else {
                    " key: "
                },
            );
            self.stored(out, key);
        }
        if let Some(value) = value {
            text(out, " payload: ");
            self.stored(out, value);
        }
    }

    /// Writes bytes of a record as text.
    fn stored(&self, out: &mut Vec<u8>, bytes: &[u8]) {
        let stored = java_utf8(bytes);
        if !self.escape_controls {
            return text(out, &stored);
        }
        for piece in stored.split_inclusive(char::is_control) {
            let plain = piece.trim_end_matches(char::is_control);
            text(out, plain);
            for control in piece.chars().skip(plain.chars().count()) {
                text(out, &format!("\\u{:04X}", u32::from(control)));
            }
        }
    }
}

fn batch_line(header: &Header, entry: &[u8], out: &mut Vec<u8>) {
    if header.magic == 2 {
        number(out, "baseOffset: ", header.base_offset);
        number(out, " lastOffset: ", header.last_offset());
        number(out, " count: ", header.records_count.unwrap_or(0));
        number(out, " baseSequence: ", header.base_sequence);
        number(out, " lastSequence: ", header.last_sequence());
        number(out, " producerId: ", header.producer_id);
        number(out, " producerEpoch: ", header.producer_epoch);
        number(
            out,
            " partitionLeaderEpoch: ",
            header.partition_leader_epoch,
        );
        flag(out, " isTransactional: ", header.is_transactional());
        flag(out, " isControl: ", header.is_control());
        match header.delete_horizon_ms() {
            Some(horizon) => {
                number(out, " deleteHorizonMs: OptionalLong[", horizon);
                text(out, "]");
            }
            None => text(out, " deleteHorizonMs: OptionalLong.empty"),
        }
    } else {
        number(out, "offset: ", header.last_offset());
    }
    number(out, " position: ", header.position);
    timestamp_field(header, header.max_timestamp, out);
    number(out, " size: ", header.size());
    number(out, " magic: ", header.magic);
    text(out, " compresscodec: ");
    text(out, &compression_name(header));
    number(out, " crc: ", header.crc);
    flag(out, " isvalid: ", header.check_crc(entry).is_ok());
    text(out, "\n");
}

fn record_fields(
    header: &Header,
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    let size = |field: Option<&[u8]>| field.map_or(-1, |bytes| bytes.len() as i64);
    number(out, "| offset: ", offset);
    timestamp_field(header, timestamp, out);
    number(out, " keySize: ", size(key));
    number(out, " valueSize: ", size(value));
}

fn timestamp_field(header: &Header, timestamp: i64, out: &mut Vec<u8>) {
    text(out, " ");
    text(out, header.timestamp_type().name());
    number(out, ": ", timestamp);
}

fn control_fields(record: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
    let control_type = control_type(record.key.unwrap_or_default())?;
    let value = record.value.unwrap_or_default();
    let name = match control_type {
        ControlType::Abort | ControlType::Commit => {
            text(out, " endTxnMarker: ");
            text(out, control_type.name());
            number(out, " coordinatorEpoch: ", coordinator_epoch(value)?);
            return Ok(());
        }
        ControlType::Unknown(id) => {
            text(out, " controlType: ");
            text(out, control_type.name());
            number(out, "(", id);
            text(out, ")");
            return Ok(());
        }
        // This field has a colon, unlike the others.
        ControlType::LeaderChange => " LeaderChange: ",
        ControlType::SnapshotHeader => " SnapshotHeader ",
        ControlType::SnapshotFooter => " SnapshotFooter ",
        ControlType::KRaftVersion => " KRaftVersion ",
        ControlType::KRaftVoters => " KRaftVoters ",
    };
    text(out, name);
    control_type.value_json(value, &mut Json::new(out))
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn number(out: &mut Vec<u8>, name: &str, value: impl itoa::Integer) {
    text(out, name);
    text(out, itoa::Buffer::new().format(value));
}

fn flag(out: &mut Vec<u8>, name: &str, value: bool) {
    text(out, name);
    text(out, if value { "true" } else { "false" });
}
