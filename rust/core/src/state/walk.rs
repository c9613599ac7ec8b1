//! The walk through the bytes of a message, field by field, as Kafka's generated classes read it.

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;
use crate::state::schema::{Field, Kind, Schema};

/// A value without inner values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Uuid(&'a [u8]),
    /// Bytes of text, which may not be UTF-8.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
}

/// A visitor of each field of a message, in the order of the walk. An implementation leaves out the calls that it
/// ignores.
pub(crate) trait Visitor<'a> {
    /// A field begins. Its value is at the start of the remaining bytes.
    fn begin_field(&mut self, _field: &'static Field, _left: &'a [u8]) {}
    /// The value of the field has ended, right before the remaining bytes.
    fn end_field(
        &mut self,
        _field: &'static Field,
        _is_tagged: bool,
        _left: &'a [u8],
    ) -> Result<()> {
        Ok(())
    }
    fn value(&mut self, _value: Value<'a>) {}
    fn begin_array(&mut self) {}
    /// An element of an array begins, or an unknown tagged field was skipped.
    fn element(&mut self) {}
    fn end_array(&mut self) {}
    fn begin_struct(&mut self) {}
    fn end_struct(&mut self) {}
}

/// Walks through a message, and leaves the bytes after it in `reader`.
///
/// Fields that the version does not have are not visited. Tagged fields are visited after the other fields, in the
/// order of the bytes, and only if they are present. Unknown tagged fields are skipped.
pub(crate) fn walk<'a>(
    schema: &'static Schema,
    version: i16,
    reader: &mut Reader<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    if !schema.versions.contains(version) {
        return Err(Error::unsupported(format!(
            "unknown version {version} of {}",
            schema.name
        )));
    }
    Walk {
        version,
        is_flexible: schema.flexible.contains(version),
    }
    .fields(schema.fields, reader, visitor)
}

struct Walk {
    version: i16,
    is_flexible: bool,
}

impl Walk {
    fn fields<'a>(
        &self,
        fields: &'static [Field],
        reader: &mut Reader<'a>,
        visitor: &mut impl Visitor<'a>,
    ) -> Result<()> {
        visitor.begin_struct();
        for field in fields {
            if field.is_in_order(self.version) {
                self.field(field, false, reader, visitor)?;
            }
        }
        if self.is_flexible {
            self.tagged(fields, reader, visitor)?;
        }
        visitor.end_struct();
        Ok(())
    }

    fn tagged<'a>(
        &self,
        fields: &'static [Field],
        reader: &mut Reader<'a>,
        visitor: &mut impl Visitor<'a>,
    ) -> Result<()> {
        let mut previous = None;
        // As in Kafka, a number of more than 31 bits is negative: there are none.
        for _ in 0..reader.unsigned_varint()? as i32 {
            let tag = reader.unsigned_varint()?;
            let size = reader.unsigned_varint()? as usize;
            // Kafka writes them in this order, so none comes twice.
            if previous.is_some_and(|previous| previous >= tag) {
                return Err(Error::corrupt(format!(
                    "tagged field {tag} does not come in order"
                )));
            }
            previous = Some(tag);
            let mut field = fields
                .iter()
                .filter(|field| field.tag == tag && field.tagged.contains(self.version));
            let mut content = Reader::new(reader.bytes(size)?);
            if let Some(field) = field.next() {
                self.field(field, true, &mut content, visitor)?;
                if content.remaining() > 0 {
                    return Err(Error::corrupt(format!(
                        "{} bytes after the tagged field {}",
                        content.remaining(),
                        field.name
                    )));
                }
            } else {
                visitor.element();
            }
        }
        Ok(())
    }

    fn field<'a>(
        &self,
        field: &'static Field,
        is_tagged: bool,
        reader: &mut Reader<'a>,
        visitor: &mut impl Visitor<'a>,
    ) -> Result<()> {
        let is_nullable = field.nullable.contains(self.version);
        visitor.begin_field(field, reader.rest());
        self.value(&field.kind, is_nullable, is_tagged, reader, visitor)
            .and_then(|()| visitor.end_field(field, is_tagged, reader.rest()))
            .map_err(|error| Error::corrupt(format!("{}: {}", field.name, error.message)))
    }

    fn value<'a>(
        &self,
        kind: &'static Kind,
        is_nullable: bool,
        is_tagged: bool,
        reader: &mut Reader<'a>,
        visitor: &mut impl Visitor<'a>,
    ) -> Result<()> {
        let value = match kind {
            Kind::Bool => Value::Bool(reader.i8()? != 0),
            Kind::Int8 => Value::Int(reader.i8()?.into()),
            Kind::Int16 => Value::Int(reader.i16()?.into()),
            Kind::Uint16 => Value::Int((reader.i16()? as u16).into()),
            Kind::Int32 => Value::Int(reader.i32()?.into()),
            Kind::Int64 => Value::Int(reader.i64()?),
            Kind::Float64 => Value::Float(f64::from_bits(reader.i64()? as u64)),
            Kind::Uuid => Value::Uuid(reader.bytes(16)?),
            Kind::String => {
                let length = self.length(is_nullable, true, reader)?;
                match length {
                    Some(length) => Value::Text(reader.bytes(length)?),
                    None => Value::Null,
                }
            }
            Kind::Bytes => match self.length(is_nullable, false, reader)? {
                Some(length) => Value::Bytes(reader.bytes(length)?),
                None => Value::Null,
            },
            Kind::Array(element) => match self.length(is_nullable, false, reader)? {
                Some(length) => return self.array(element, length, reader, visitor),
                None => Value::Null,
            },
            Kind::Struct(fields) => {
                // A nullable struct has a byte in front, but a varint after a tag.
                let is_null = is_nullable
                    && match is_tagged {
                        true => reader.unsigned_varint()? as i32 <= 0,
                        false => reader.i8()? < 0,
                    };
                if !is_null {
                    return self.fields(fields, reader, visitor);
                }
                Value::Null
            }
        };
        visitor.value(value);
        Ok(())
    }

    fn array<'a>(
        &self,
        element: &'static Kind,
        length: usize,
        reader: &mut Reader<'a>,
        visitor: &mut impl Visitor<'a>,
    ) -> Result<()> {
        // Each element has a byte at least. Kafka refuses this, too.
        if length > reader.remaining() {
            return Err(Error::corrupt(format!(
                "{length} elements, but only {} bytes left",
                reader.remaining()
            )));
        }
        visitor.begin_array();
        for _ in 0..length {
            visitor.element();
            self.value(element, false, false, reader, visitor)?;
        }
        visitor.end_array();
        Ok(())
    }

    /// Reads the length of a string, of bytes or of an array; None if it is null.
    fn length(
        &self,
        is_nullable: bool,
        is_text: bool,
        reader: &mut Reader<'_>,
    ) -> Result<Option<usize>> {
        let length = match (self.is_flexible, is_text) {
            // As in Kafka, a varint of more than 31 bits is negative.
            (true, _) => (reader.unsigned_varint()? as i32).wrapping_sub(1),
            (false, true) => reader.i16()?.into(),
            (false, false) => reader.i32()?,
        };
        match usize::try_from(length) {
            Ok(length) if is_text && length > i16::MAX as usize => Err(Error::corrupt(format!(
                "a string of {length} bytes, at most {} are allowed",
                i16::MAX
            ))),
            Ok(length) => Ok(Some(length)),
            Err(_) if is_nullable => Ok(None),
            Err(_) => Err(Error::corrupt("null, but null is not allowed here")),
        }
    }
}
