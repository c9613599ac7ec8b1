//! Encodes messages from JSON, by the schemas that decode them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use crate::base::error::{Error, Result};
use crate::base::primitives::push_unsigned_varint;
use crate::state::schema::{Field, Kind, Schema};

/// Appends a message, given as JSON in the form to which messages are decoded.
///
/// Untagged fields are required, and fields that the version does not have are refused. After an error, `out` may have
/// a part of the message.
pub(crate) fn encode_message(
    schema: &'static Schema,
    version: i16,
    json: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    if !schema.versions.contains(version) {
        return Err(Error::unsupported(format!(
            "unknown version {version} of {}",
            schema.name
        )));
    }
    let value: Value = serde_json::from_slice(json)
        .map_err(|error| Error::invalid(format!("{}: {error}", schema.name)))?;
    Encoder {
        version,
        is_flexible: schema.flexible.contains(version),
    }
    .fields(schema.fields, &value, out)
    .map_err(|error| Error::invalid(format!("{}: {}", schema.name, error.message)))
}

struct Encoder {
    version: i16,
    is_flexible: bool,
}

impl Encoder {
    fn fields(&self, fields: &'static [Field], value: &Value, out: &mut Vec<u8>) -> Result<()> {
        let values = value
            .as_object()
            .ok_or_else(|| not_a("JSON object", value))?;
        let has = |name: &str| {
            fields
                .iter()
                .any(|field| field.name == name && field.versions.contains(self.version))
        };
        if let Some(name) = values.keys().find(|name| !has(name)) {
            return Err(Error::invalid(format!(
                "version {} has no field {name}",
                self.version
            )));
        }
        for field in fields
            .iter()
            .filter(|field| field.is_in_order(self.version))
        {
            let value = values
                .get(field.name)
                .ok_or_else(|| Error::invalid(format!("{} is missing", field.name)))?;
            self.field(field, false, value, out)?;
        }
        if self.is_flexible {
            self.tagged(fields, values, out)?;
        }
        Ok(())
    }

    /// Appends the tagged fields in the order of their tags. Fields with their default value are left out.
    fn tagged(
        &self,
        fields: &'static [Field],
        values: &Map<String, Value>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut present = Vec::new();
        for field in fields
            .iter()
            .filter(|field| field.tagged.contains(self.version))
        {
            if let Some(value) = values.get(field.name)
                && serde_json::from_str::<Value>(field.default).ok().as_ref() != Some(value)
            {
                present.push((field, value));
            }
        }
        present.sort_by_key(|(field, _)| field.tag);
        push_unsigned_varint(out, present.len() as u32);
        for (field, value) in present {
            let mut content = Vec::new();
            self.field(field, true, value, &mut content)?;
            push_unsigned_varint(out, field.tag);
            push_unsigned_varint(out, content.len() as u32);
            out.extend_from_slice(&content);
        }
        Ok(())
    }

    fn field(
        &self,
        field: &'static Field,
        is_tagged: bool,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let is_nullable = field.nullable.contains(self.version);
        self.value(&field.kind, is_nullable, is_tagged, value, out)
            .map_err(|error| Error::invalid(format!("{}: {}", field.name, error.message)))
    }

    fn value(
        &self,
        kind: &'static Kind,
        is_nullable: bool,
        is_tagged: bool,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match kind {
            Kind::Bool => out.push(value.as_bool().ok_or_else(|| not_a("bool", value))?.into()),
            Kind::Int8 => out.extend(integer::<i8>(value)?.to_be_bytes()),
            Kind::Int16 => out.extend(integer::<i16>(value)?.to_be_bytes()),
            Kind::Uint16 => out.extend(integer::<u16>(value)?.to_be_bytes()),
            Kind::Int32 => out.extend(integer::<i32>(value)?.to_be_bytes()),
            Kind::Int64 => out.extend(integer::<i64>(value)?.to_be_bytes()),
            Kind::Float64 => {
                out.extend(
                    value
                        .as_f64()
                        .ok_or_else(|| not_a("number", value))?
                        .to_be_bytes(),
                );
            }
            Kind::Uuid => {
                let id = URL_SAFE_NO_PAD.decode(text(value)?).unwrap_or_default();
                if id.len() != 16 {
                    return Err(not_a("id of 22 characters", value));
                }
                out.extend(id);
            }
            Kind::String if !value.is_null() => {
                let text = text(value)?;
                if text.len() > i16::MAX as usize {
                    return Err(Error::invalid(format!(
                        "a string has {} bytes, but at most {} are allowed",
                        text.len(),
                        i16::MAX
                    )));
                }
                self.length(Some(text.len()), true, out)?;
                out.extend_from_slice(text.as_bytes());
            }
            Kind::Bytes if !value.is_null() => {
                let bytes = STANDARD
                    .decode(text(value)?)
                    .map_err(|_| not_a("base64 text", value))?;
                self.length(Some(bytes.len()), false, out)?;
                out.extend(bytes);
            }
            Kind::Array(element) if !value.is_null() => {
                let values = value.as_array().ok_or_else(|| not_a("JSON array", value))?;
                self.length(Some(values.len()), false, out)?;
                for value in values {
                    self.value(element, false, false, value, out)?;
                }
            }
            Kind::Struct(fields) if !value.is_null() => {
                // Neither a byte nor a varint of 1 is null.
                if is_nullable {
                    out.push(1);
                }
                self.fields(fields, value, out)?;
            }
            _ if !is_nullable => return Err(Error::invalid("null, but null is not allowed here")),
            Kind::Struct(_) => out.push(if is_tagged { 0 } else { u8::MAX }),
            Kind::String | Kind::Bytes | Kind::Array(_) => {
                self.length(None, matches!(kind, Kind::String), out)?;
            }
        }
        Ok(())
    }

    /// Appends the length of a string, of bytes or of an array; None for null.
    fn length(&self, length: Option<usize>, is_text: bool, out: &mut Vec<u8>) -> Result<()> {
        let length = match length {
            Some(length) => i32::try_from(length)
                .ok()
                .filter(|length| *length < i32::MAX)
                .ok_or_else(|| Error::invalid("longer than 2 GiB"))?,
            None => -1,
        };
        match (self.is_flexible, is_text) {
            (true, _) => push_unsigned_varint(out, (length + 1) as u32),
            (false, true) => out.extend((length as i16).to_be_bytes()),
            (false, false) => out.extend(length.to_be_bytes()),
        }
        Ok(())
    }
}

fn integer<T: TryFrom<i64>>(value: &Value) -> Result<T> {
    value
        .as_i64()
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| not_a("integer of its size", value))
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| not_a("string", value))
}

fn not_a(expected: &str, value: &Value) -> Error {
    let found: String = value.to_string().chars().take(60).collect();
    Error::invalid(format!("{found}, {expected} expected"))
}
