//! Messages as JSON, in the form of Kafka's generated `*JsonConverter` classes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::base::error::{Error, Result};
use crate::base::json::{BytesFormat, Json, Mark};
use crate::base::primitives::Reader;
use crate::base::units::in_bytes;
use crate::base::utf8::java_utf8;
use crate::state::messages;
use crate::state::schema::{Field, Schema};
use crate::state::walk::{Value, Visitor, walk};

/// The default for the maximum memory of one message.
pub(crate) const MAX_MESSAGE_MEMORY: u64 = 250_000_000;

/// Writes a message as JSON, and leaves the bytes after it in `reader`.
///
/// After an error, `json` is unchanged. Tagged fields with their default value are left out; other tagged fields come
/// after the untagged ones.
pub(crate) fn message_json(
    schema: &'static Schema,
    version: i16,
    reader: &mut Reader<'_>,
    json: &mut Json<'_>,
) -> Result<()> {
    match bounded_json(schema, version, reader, json, MAX_MESSAGE_MEMORY)? {
        0..=MAX_MESSAGE_MEMORY => Ok(()),
        memory => Err(Error::unsupported(format!(
            "decoded, it takes about {} of memory",
            in_bytes(memory)
        ))),
    }
}

/// Works like [`message_json`], but writes nothing if the message, with the objects built from its JSON, takes more
/// memory than `most`. Returns the approximate memory.
pub(crate) fn bounded_json(
    schema: &'static Schema,
    version: i16,
    reader: &mut Reader<'_>,
    json: &mut Json<'_>,
    most: u64,
) -> Result<u64> {
    let start = json.mark();
    let mut visitor = JsonMessage {
        memory: DecodedMemory::default(),
        most,
        json,
        fields: Vec::new(),
    };
    let walked = walk(schema, version, reader, &mut visitor);
    let memory = visitor.memory.bytes;
    if walked.is_err() || memory > most {
        json.go_back(&start);
    }
    walked.map(|()| memory)
}

/// Estimates the memory that a message takes once it is decoded: as JSON, as Python's objects, and as rows of a table.
/// A few hostile bytes may need very much memory.
#[derive(Debug, Default)]
struct DecodedMemory {
    bytes: u64,
    field: &'static str,
    /// The length of the last text.
    text: u64,
}

impl DecodedMemory {
    /// The memory of an object, of its slot in a list or a dict, and of its part in a row.
    const VALUE: u64 = 300;
    /// The memory of a byte of text. A character that JSON escapes takes six bytes. A character outside Latin-1 makes
    /// each character of a text take two or four bytes.
    const BYTE_OF_TEXT: u64 = 24;
    /// The memory of a byte of a bytes field. A client's message in such a field may have values of only two bytes.
    const BYTE: u64 = 40;
    /// The memory of a byte of a topic's name for each partition, because a table of transactions repeats the name.
    const BYTE_OF_REPEATED_TEXT: u64 = 3;

    fn add(&mut self, value: Value<'_>) {
        let more = match value {
            Value::Text(text) => {
                self.text = text.len() as u64;
                self.text * Self::BYTE_OF_TEXT
            }
            Value::Bytes(bytes) => bytes.len() as u64 * Self::BYTE,
            Value::Int(_) if self.field == "partitionIds" => {
                self.text * Self::BYTE_OF_REPEATED_TEXT
            }
            _ => 0,
        };
        self.bytes += Self::VALUE + more;
    }
}

/// Returns as JSON a message that records hold as bytes.
///
/// Args: `name` is the name of its definition; `version` is None if the version is in front of the message.
pub fn embedded_json(name: &str, version: Option<i16>, bytes: &[u8]) -> Result<Vec<u8>> {
    let schema = messages::EMBEDDED
        .iter()
        .find(|schema| schema.name == name)
        .ok_or_else(|| Error::invalid(format!("no message {name:?}")))?;
    let mut reader = Reader::new(bytes);
    let version = match version {
        Some(version) => version,
        None => reader.i16()?,
    };
    let mut out = Vec::new();
    message_json(schema, version, &mut reader, &mut Json::new(&mut out))?;
    Ok(out)
}

/// An id as Kafka prints it (`Uuid.toString`).
pub(crate) fn uuid_text(id: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(id)
}

struct JsonMessage<'a, 'out> {
    json: &'a mut Json<'out>,
    /// The positions before the open fields, and before their values.
    fields: Vec<(Mark, Mark)>,
    memory: DecodedMemory,
    /// Above this limit nothing more is written, and only the memory is added up.
    most: u64,
}

impl JsonMessage<'_, '_> {
    fn is_beyond(&self) -> bool {
        self.memory.bytes > self.most
    }
}

impl<'a> Visitor<'a> for JsonMessage<'_, '_> {
    fn begin_field(&mut self, field: &'static Field, _: &'a [u8]) {
        self.memory.field = field.name;
        let before = self.json.mark();
        if !self.is_beyond() {
            self.json.key(field.name);
        }
        self.fields.push((before, self.json.mark()));
    }

    fn end_field(&mut self, field: &'static Field, is_tagged: bool, _: &'a [u8]) -> Result<()> {
        if let Some((before, value)) = self.fields.pop()
            && is_tagged
            && !self.is_beyond()
            && self.json.since(&value) == field.default.as_bytes()
        {
            self.json.go_back(&before);
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'a>) {
        self.memory.add(value);
        if self.is_beyond() {
            return;
        }
        match value {
            Value::Null => self.json.null(),
            Value::Bool(value) => self.json.bool(value),
            Value::Int(value) => self.json.int(value),
            Value::Float(value) if value.is_finite() => self.json.float(value),
            // Jackson quotes values that JSON has no number for.
            Value::Float(value) if value.is_nan() => self.json.string("NaN"),
            Value::Float(value) => {
                self.json
                    .string(if value > 0.0 { "Infinity" } else { "-Infinity" })
            }
            Value::Uuid(value) => self.json.string(&uuid_text(value)),
            Value::Text(value) => self.json.string(&java_utf8(value)),
            Value::Bytes(value) => self.json.bytes(Some(value), BytesFormat::Base64),
        }
    }

    fn begin_array(&mut self) {
        if !self.is_beyond() {
            self.json.begin_array();
        }
    }

    fn end_array(&mut self) {
        if !self.is_beyond() {
            self.json.end_array();
        }
    }

    fn begin_struct(&mut self) {
        self.memory.bytes += DecodedMemory::VALUE;
        if !self.is_beyond() {
            self.json.begin_object();
        }
    }

    fn end_struct(&mut self) {
        if !self.is_beyond() {
            self.json.end_object();
        }
    }
}
