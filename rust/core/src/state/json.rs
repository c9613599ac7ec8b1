//! Messages as JSON, in the form of Kafka's generated `*JsonConverter` classes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::base::error::{Error, Result};
use crate::base::json::{BytesFormat, Json, Mark};
use crate::base::primitives::Reader;
use crate::base::utf8::java_utf8;
use crate::state::messages;
use crate::state::schema::{Field, Schema};
use crate::state::walk::{Value, Visitor, walk};

/// The most bytes of JSON that one message becomes. A few hostile bytes could become very many.
const MAX_JSON_BYTES: usize = 64 << 20;

/// Writes a message as JSON, and leaves what is behind it in `reader`.
///
/// After an error, `json` is as before. Fields with a tag that have their default are left out, and the others come
/// after the fields without one.
pub(crate) fn message_json(
    schema: &'static Schema,
    version: i16,
    reader: &mut Reader<'_>,
    json: &mut Json<'_>,
) -> Result<()> {
    let start = json.mark();
    let mut visitor = JsonMessage {
        start: json.mark(),
        json,
        fields: Vec::new(),
    };
    let walked = walk(schema, version, reader, &mut visitor);
    if walked.is_err() {
        json.go_back(&start);
    }
    walked
}

/// Returns a message that other records hold as bytes, as JSON.
///
/// Args: `name` is that of its definition; `version` None if it is in front of the message.
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
    /// The places before the open fields, and those before their values.
    fields: Vec<(Mark, Mark)>,
    start: Mark,
}

impl<'a> Visitor<'a> for JsonMessage<'_, '_> {
    fn begin_field(&mut self, field: &'static Field, _: &'a [u8]) {
        let before = self.json.mark();
        self.json.key(field.name);
        self.fields.push((before, self.json.mark()));
    }

    fn end_field(&mut self, field: &'static Field, is_tagged: bool, _: &'a [u8]) -> Result<()> {
        if self.json.since(&self.start).len() > MAX_JSON_BYTES {
            return Err(Error::unsupported(format!(
                "more than {MAX_JSON_BYTES} bytes of JSON"
            )));
        }
        if let Some((before, value)) = self.fields.pop()
            && is_tagged
            && self.json.since(&value) == field.default.as_bytes()
        {
            self.json.go_back(&before);
        }
        Ok(())
    }

    fn value(&mut self, value: Value<'a>) {
        match value {
            Value::Null => self.json.null(),
            Value::Bool(value) => self.json.bool(value),
            Value::Int(value) => self.json.int(value),
            Value::Float(value) if value.is_finite() => self.json.float(value),
            // Jackson quotes what JSON has no number for.
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
        self.json.begin_array();
    }

    fn end_array(&mut self) {
        self.json.end_array();
    }

    fn begin_struct(&mut self) {
        self.json.begin_object();
    }

    fn end_struct(&mut self) {
        self.json.end_object();
    }
}
