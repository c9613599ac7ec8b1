//! Keys and values of the serializers that Kafka ships (`org.apache.kafka.common.serialization`). No schema describes
//! them.

use brokerless_core::BytesFormat;

use crate::column::Column;
use crate::column_type::Type;
use crate::decoded::DecodedRows;
use crate::encode::{Misfit, float32, float64, parsed};
use crate::from_text;
use crate::json::json_document;
use crate::limits::{Error, Result};
use crate::text::uuid as uuid_text;

/// Text, if the bytes are UTF-8 (`StringSerializer`).
fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Error::new(format!(
            "the bytes are not UTF-8 from byte {} on",
            error.valid_up_to()
        ))
    })
}

/// The bytes of a number, big-endian (`IntegerSerializer`, `LongSerializer`, `FloatSerializer`, `DoubleSerializer`).
fn number<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes
        .try_into()
        .map_err(|_| Error::new(format!("the number has {N} bytes, and not {}", bytes.len())))
}

/// A UUID as Java reads it (`UUIDDeserializer`, `UUID.fromString`): five hexadecimal numbers in UTF-8, which may lack
/// leading zeros.
fn uuid(bytes: &[u8]) -> Result<[u8; 16]> {
    const DIGITS: [usize; 5] = [8, 4, 4, 4, 12];
    let unfit = || Error::new("the bytes are not the text of a UUID");
    if bytes.len() > 36 {
        return Err(unfit());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| unfit())?;
    let parts: Vec<_> = text.split('-').collect();
    if parts.len() != DIGITS.len() {
        return Err(unfit());
    }
    let mut value = 0_u128;
    for (part, digits) in parts.iter().zip(DIGITS) {
        let number = i64::from_str_radix(part, 16).map_err(|_| unfit())?;
        // Java drops what is above the digits of a part.
        let mask = (1_u64 << (4 * digits)) - 1;
        value = value << (4 * digits) | u128::from(number as u64 & mask);
    }
    Ok(value.to_be_bytes())
}

/// Appends bytes as lower-case hexadecimal digits.
fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.extend(DIGITS.get(usize::from(digit)));
        }
    }
}

/// A form of keys or values that no schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text.
    Utf8,
    /// JSON text.
    Json,
    /// Bytes, as hexadecimal text.
    Hex,
    /// The text of a UUID.
    Uuid,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// A float.
    Float32,
    /// A double.
    Float64,
}

impl Form {
    /// The form with a name.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "utf8" => Self::Utf8,
            "json" => Self::Json,
            "hex" => Self::Hex,
            "uuid" => Self::Uuid,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "float32" => Self::Float32,
            "float64" => Self::Float64,
            _ => return Err(Error::new(format!("no plain form {name:?}"))),
        })
    }

    /// The type of its values.
    pub fn kind(self) -> Type {
        match self {
            Self::Utf8 | Self::Hex | Self::Uuid => Type::Utf8,
            Self::Json => Type::Json,
            Self::Int32 => Type::Int32,
            Self::Int64 => Type::Int64,
            Self::Float32 => Type::Float32,
            Self::Float64 => Type::Float64,
        }
    }

    /// Adds a key or value to rows of this form's type. Without a schema, they have no names of one.
    pub fn push(self, payload: &[u8], rows: &mut DecodedRows) -> Result<()> {
        let before = rows.values.len();
        let result = self.append(payload, &mut rows.values);
        result.or_else(|error| {
            rows.values.truncate(before);
            rows.push_undecoded(payload, Some(&error.to_string()))
        })
    }

    fn append(self, payload: &[u8], column: &mut Column) -> Result<()> {
        match self {
            Self::Utf8 => column.push_bytes(utf8(payload)?.as_bytes()),
            Self::Json => column.push_written(|out| json_document(payload, out)),
            Self::Hex => column.push_written(|out| {
                hex(payload, out);
                Ok(())
            }),
            Self::Uuid => column.push_bytes(uuid_text(uuid(payload)?).as_bytes()),
            Self::Int32 => column.push_integer(number(payload).map(i32::from_be_bytes)?.into()),
            Self::Int64 => column.push_integer(number(payload).map(i64::from_be_bytes)?),
            Self::Float32 => column.push_float(number(payload).map(f32::from_be_bytes)?),
            Self::Float64 => column.push_double(number(payload).map(f64::from_be_bytes)?),
        }
    }
}

/// Appends the bytes of a value whose JSON text is given in the form that it is decoded to. `form` is the name of a
/// serializer's form. An error begins with `root`; `out` is then as before.
pub fn encode(form: &str, json: &[u8], root: &str, out: &mut Vec<u8>) -> Result<()> {
    if form == "json" {
        return json_document(json, out);
    }
    let value = parsed(json, root)?;
    let text = || value.as_str();
    let whole = || value.as_i64();
    let (expected, bytes) = match form {
        "utf8" => ("text", text().map(|text| text.as_bytes().to_vec())),
        "hex" => (
            "hexadecimal text",
            text().and_then(|text| BytesFormat::Hex.decode(text).ok()),
        ),
        "uuid" => (
            "the text of a UUID",
            text()
                .and_then(from_text::uuid)
                .map(|bytes| uuid_text(bytes).into_bytes()),
        ),
        "int32" => (
            "an integer of 32 bits",
            whole()
                .and_then(|number| i32::try_from(number).ok())
                .map(|number| number.to_be_bytes().to_vec()),
        ),
        "int64" => (
            "an integer of 64 bits",
            whole().map(|number| number.to_be_bytes().to_vec()),
        ),
        "float32" => (
            "a number of 32 bits",
            float32(&value).map(|number| number.to_be_bytes().to_vec()),
        ),
        "float64" => (
            "a number",
            float64(&value).map(|number| number.to_be_bytes().to_vec()),
        ),
        _ => return Err(Error::new(format!("no plain form {form:?}"))),
    };
    out.extend(bytes.ok_or_else(|| Misfit::unlike(expected, &value).at(root))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_all_their_bytes_and_no_more() {
        assert_eq!(number::<4>(&[0, 0, 1, 2]), Ok([0, 0, 1, 2]));
        for wrong in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
            assert!(number::<4>(wrong).is_err());
        }
    }

    #[test]
    fn uuids_are_those_of_java() {
        let text = "12345678-9abc-def0-0123-456789abcdef";
        for at in 0..text.len() {
            let cut = uuid(text.as_bytes().get(..at).unwrap_or_default());
            // Java takes a last part with fewer digits.
            assert_eq!(cut.is_ok(), at > 24, "{at}");
        }
        assert_eq!(uuid(text.as_bytes()).map(uuid_text), Ok(text.to_owned()));
        assert_eq!(
            uuid(b"f00000001-2-3-4-5").map(uuid_text),
            Ok("00000001-0002-0003-0004-000000000005".to_owned())
        );
        for wrong in [
            "",
            "1-2-3-4",
            "1-2-3-4-5-6",
            "1-2-3-4-",
            "g-2-3-4-5",
            "12345678-9abc-def0-0123-456789abcdef0",
        ] {
            assert!(uuid(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(uuid(&[0xff; 36]).is_err());
    }

    #[test]
    fn hexadecimal_digits_are_those_of_all_bytes() {
        let mut out = Vec::new();
        hex(&[0x00, 0x7f, 0xa0, 0xff], &mut out);
        assert_eq!(out, b"007fa0ff");
        let error = utf8(&[b'a', 0xff]).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("the bytes are not UTF-8 from byte 1 on".to_owned())
        );
    }
}
