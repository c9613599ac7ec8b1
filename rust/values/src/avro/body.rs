//! A body in Avro's binary encoding, as JSON text.

use brokerless_core::{BytesFormat, Json, Mark};

use crate::avro::input::Input;
use crate::avro::schema::{AvroSchema, Node, NodeId};
use crate::limits::{Error, MOST_DECIMAL, MOST_DECODED, Result};
use crate::text;

impl AvroSchema {
    /// Appends a body as JSON text, and returns the number of bytes that follow it. After an error, `out` is as before.
    ///
    /// The JSON has bytes and fixed as base64, decimals as text, dates, times and timestamps as ISO 8601 in UTC, NaN and
    /// the infinities as text, and the bare value of a union. Registries' serializers write a schema that is `bytes` without
    /// a length.
    pub fn write_json(&self, body: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        if matches!(self.nodes.get(self.root), Some(Node::Bytes)) {
            Json::new(out).bytes(Some(body), BytesFormat::Base64);
            return Ok(0);
        }
        let mut input = Input::new(body);
        self.write_value(self.root, &mut input, out)?;
        Ok(input.rest.len())
    }

    /// Appends the next value as JSON text. After an error, `out` is as before.
    pub(super) fn write_value(
        &self,
        node: NodeId,
        input: &mut Input<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let before = out.len();
        let mut json = Json::new(out);
        let mut walk = Walk {
            start: json.mark(),
            schema: self,
            text: String::new(),
        };
        let result = walk.value(node, input, &mut json);
        if result.is_err() {
            out.truncate(before);
        }
        result
    }

    /// Reads past the next value.
    pub(super) fn skip_value(&self, node: NodeId, input: &mut Input<'_>) -> Result<()> {
        match self.node(node)? {
            Node::Null => {}
            Node::Boolean => {
                input.boolean()?;
            }
            Node::Int | Node::Date | Node::Time(text::Unit::Millis) => {
                input.int()?;
            }
            Node::Long | Node::Time(_) | Node::Timestamp(..) => {
                input.long()?;
            }
            Node::Enum(symbols) => {
                input.symbol(symbols.len())?;
            }
            Node::Float => {
                input.bytes(4, "float")?;
            }
            Node::Double => {
                input.bytes(8, "double")?;
            }
            Node::Uuid => {
                input.bytes(16, "uuid")?;
            }
            Node::Duration => {
                input.bytes(12, "duration")?;
            }
            Node::Fixed(size) => {
                input.bytes(*size, "fixed")?;
            }
            Node::Decimal {
                size: Some(size), ..
            } => {
                input.bytes(*size, "decimal")?;
            }
            Node::Bytes | Node::String | Node::Decimal { size: None, .. } => {
                input.sized("skipped value")?;
            }
            Node::Record(fields) => {
                for field in fields {
                    input.deeper(|input| self.skip_value(field.node, input))?;
                }
            }
            Node::Array(items) => {
                input.blocks(|input| input.deeper(|input| self.skip_value(*items, input)))?;
            }
            Node::Map(values) => input.blocks(|input| {
                input.sized("key")?;
                input.deeper(|input| self.skip_value(*values, input))
            })?,
            Node::Union(branches) => {
                let branch = input.branch(branches.len())?;
                if let Some(&branch) = branches.get(branch) {
                    input.deeper(|input| self.skip_value(branch, input))?;
                }
            }
        }
        Ok(())
    }
}

struct Walk<'s> {
    /// The start of the JSON text.
    start: Mark,
    schema: &'s AvroSchema,
    text: String,
}

impl Walk<'_> {
    fn value(&mut self, id: NodeId, input: &mut Input<'_>, json: &mut Json<'_>) -> Result<()> {
        let schema = self.schema;
        match schema.node(id)? {
            Node::Null => json.null(),
            Node::Boolean => json.bool(input.boolean()?),
            Node::Int => json.int(input.int()?),
            Node::Long => json.int(input.long()?),
            Node::Float => {
                let value = f32::from_le_bytes(input.array("float")?);
                json.float64(value.into());
            }
            Node::Double => json.float64(f64::from_le_bytes(input.array("double")?)),
            Node::Bytes => json.bytes(Some(input.sized("bytes")?), BytesFormat::Base64),
            Node::String => json.string(input.string()?),
            Node::Fixed(size) => {
                json.bytes(Some(input.bytes(*size, "fixed")?), BytesFormat::Base64);
            }
            Node::Enum(symbols) => {
                let at = input.symbol(symbols.len())?;
                json.string(symbols.get(at).map_or("", String::as_str));
            }
            Node::Record(fields) => {
                json.begin_object();
                for field in fields {
                    json.text_key(&field.name);
                    self.inner(field.node, input, json)?;
                }
                json.end_object();
            }
            Node::Array(items) => {
                json.begin_array();
                input.blocks(|input| self.inner(*items, input, json))?;
                json.end_array();
            }
            Node::Map(values) => {
                json.begin_object();
                input.blocks(|input| {
                    json.text_key(input.string()?);
                    self.inner(*values, input, json)
                })?;
                json.end_object();
            }
            Node::Union(branches) => {
                let at = input.branch(branches.len())?;
                if let Some(&branch) = branches.get(at) {
                    self.inner(branch, input, json)?;
                }
            }
            Node::Date => {
                let day = input.int()?;
                self.write(json, |out| text::date(day.into(), out));
            }
            Node::Time(text::Unit::Millis) => {
                let value = input.int()?;
                self.write(json, |out| {
                    text::time(value.into(), text::Unit::Millis, out)
                });
            }
            Node::Time(unit) => {
                let value = input.long()?;
                self.write(json, |out| text::time(value, *unit, out));
            }
            Node::Timestamp(unit, is_utc) => {
                let value = input.long()?;
                self.write(json, |out| {
                    text::timestamp(value, *unit, out);
                    if *is_utc {
                        out.push('Z');
                    }
                });
            }
            Node::Decimal { size, scale, .. } => {
                let bytes = decimal(*size, input)?;
                self.write(json, |out| text::decimal(bytes, *scale, out));
            }
            Node::Uuid => {
                let bytes = input.array("uuid")?;
                self.write(json, |out| out.push_str(&text::uuid(bytes)));
            }
            Node::Duration => {
                json.begin_object();
                for name in ["months", "days", "millis"] {
                    let value = u32::from_le_bytes(input.array("duration")?);
                    json.int_field(name, value);
                }
                json.end_object();
            }
        }
        Ok(())
    }

    /// Writes a value within another one.
    fn inner(&mut self, node: NodeId, input: &mut Input<'_>, json: &mut Json<'_>) -> Result<()> {
        if json.since(&self.start).len() > MOST_DECODED {
            return Err(Error::too_long());
        }
        input.deeper(|input| self.value(node, input, json))
    }

    fn write(&mut self, json: &mut Json<'_>, write: impl FnOnce(&mut String)) {
        self.text.clear();
        write(&mut self.text);
        json.string(&self.text);
    }
}

/// Reads the bytes of a decimal.
pub(super) fn decimal<'a>(size: Option<usize>, input: &mut Input<'a>) -> Result<&'a [u8]> {
    let bytes = match size {
        Some(size) => input.bytes(size, "decimal")?,
        None => input.sized("decimal")?,
    };
    if bytes.len() > MOST_DECIMAL {
        return Err(Error::new(format!(
            "a decimal has {} bytes, at most {MOST_DECIMAL} are supported",
            bytes.len()
        )));
    }
    Ok(bytes)
}
