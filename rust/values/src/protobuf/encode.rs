//! JSON values of rows in Protobuf's wire format.

use serde_json::{Map, Value};

use crate::encode::{
    Budget, Fit, Misfit, base64, deeper, float32, float64, parsed, varint, zigzag,
};
use crate::from_text;
use crate::limits::{MOST_DEPTH, Result};
use crate::protobuf::schema::{Field, Form, Kind, Message, MessageId, ProtobufSchema, Shape};
use crate::protobuf::wire::Wire;

/// The member of an `Any` that names its type.
const TYPE: &str = "@type";

impl ProtobufSchema {
    /// The indexes of the message of encoded values, as they precede it: the number of indexes and each of them, or 0
    /// for the single index 0.
    pub fn message_indexes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.chosen.as_slice() {
            [0] => out.push(0),
            indexes => {
                for number in [indexes.len()].iter().chain(indexes) {
                    varint(zigzag(*number as i64), &mut out);
                }
            }
        }
        out
    }

    /// Appends the message of a value that has the form of [`Self::write_json`]. An error names its place from `root`
    /// on; `out` is then as before.
    ///
    /// A field may be missing or null, unless it is required. Fields have the order of their numbers.
    pub fn encode(&self, json: &[u8], root: &str, out: &mut Vec<u8>) -> Result<()> {
        let id = self.root()?;
        let value = parsed(json, root)?;
        let before = out.len();
        let mut encoder = Encoder {
            schema: self,
            budget: Budget::of_row(),
            start: before,
            out,
        };
        encoder.message(id, &value, MOST_DEPTH).map_err(|misfit| {
            out.truncate(before);
            misfit.at(root)
        })
    }
}

struct Encoder<'a> {
    schema: &'a ProtobufSchema,
    budget: Budget,
    start: usize,
    out: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// Appends a message, without its length. After an error, `out` has a part of it.
    fn message(&mut self, id: MessageId, value: &Value, depth: u32) -> Fit {
        self.budget.take(self.out.len() - self.start)?;
        let depth = deeper(depth)?;
        let message = self.schema_message(id)?;
        let unlike = |expected| Misfit::unlike(expected, value);
        let text = |expected| value.as_str().ok_or_else(|| unlike(expected));
        match (message.form, message.fields.as_slice()) {
            (Form::Object, _) => self.fields(message, self.object(value)?, depth),
            (Form::Timestamp, [seconds, nanos]) => {
                let expected = "the text of a timestamp, such as 2024-05-01T12:33:01.832Z,";
                let parts = from_text::instant(text(expected)?).ok_or_else(|| unlike(expected))?;
                self.parts([seconds, nanos], parts, depth)
            }
            (Form::Duration, [seconds, nanos]) => {
                let expected = "the text of a duration, such as 1.500s,";
                let parts = from_text::duration(text(expected)?).ok_or_else(|| unlike(expected))?;
                self.parts([seconds, nanos], parts, depth)
            }
            (Form::FieldMask, [paths]) => {
                let text = text("the text of a field mask, such as one.twoThree,four,")?;
                let listed = text.split(',').filter(|_| !text.is_empty());
                let listed = listed.map(|path| Value::from(snake(path))).collect();
                self.field(paths, &Value::Array(listed), depth)
            }
            (Form::Any, [url, content]) => self.any(message, [url, content], value, depth),
            (_, [field]) => self.field(field, value, depth),
            (_, fields) => {
                let fit = fields.iter().find(|field| self.may_have(field.kind, value));
                let field = fit.ok_or_else(|| unlike("a value of JSON"))?;
                self.field(field, value, depth)
            }
        }
    }

    fn schema_message(&self, id: MessageId) -> Fit<&'a Message> {
        let found = self.schema.messages.get(id);
        found.ok_or_else(|| Misfit::new("the schema has a type that is not there"))
    }

    fn object<'v>(&self, value: &'v Value) -> Fit<&'v Map<String, Value>> {
        let object = value.as_object();
        object.ok_or_else(|| Misfit::unlike("an object", value))
    }

    /// Appends the seconds and nanoseconds of a timestamp or a duration.
    fn parts(&mut self, fields: [&Field; 2], (seconds, nanos): (i64, i32), depth: u32) -> Fit {
        for (field, part) in fields.into_iter().zip([seconds, nanos.into()]) {
            self.field(field, &Value::from(part), depth)?;
        }
        Ok(())
    }

    /// Appends the fields of an object, in the order of their numbers.
    fn fields(&mut self, message: &Message, object: &Map<String, Value>, depth: u32) -> Fit {
        let mut known = 0;
        let mut set = Vec::new();
        for &(_, position) in &message.numbers {
            let Some(field) = message.fields.get(position as usize) else {
                continue;
            };
            let given = object.get(&field.name);
            known += usize::from(given.is_some());
            match given {
                Some(value) if !value.is_null() || self.may_have(field.kind, value) => {
                    if field.oneof.is_some() && set.contains(&field.oneof) {
                        let why = "another field of the same oneof is set, too";
                        return Err(Misfit::new(why).in_field(&field.name));
                    }
                    if field.oneof.is_some() {
                        set.push(field.oneof);
                    }
                    self.field(field, value, depth)
                        .map_err(|misfit| misfit.in_field(&field.name))?;
                }
                _ if field.is_required => {
                    let why = format!("the field {} is required, and is missing here", field.name);
                    return Err(Misfit::new(why));
                }
                _ => {}
            }
        }
        if known < object.len() {
            let is_known = |name: &String| message.fields.iter().any(|one| one.name == *name);
            let surplus = object.keys().find(|name| !is_known(name));
            let name = surplus.map_or("", String::as_str);
            return Err(Misfit::new("the message has no such field").in_field(name));
        }
        Ok(())
    }

    /// Appends an `Any`: the type that `@type` names, and its message; or the two fields themselves.
    fn any(
        &mut self,
        message: &Message,
        [url, content]: [&Field; 2],
        value: &Value,
        depth: u32,
    ) -> Fit {
        let object = self.object(value)?;
        let Some(named) = object.get(TYPE) else {
            return self.fields(message, object, depth);
        };
        let name = named.as_str().unwrap_or_default().rsplit('/').next();
        let id = name.and_then(|name| self.schema.named.get(name)).copied();
        let id = id.ok_or_else(|| {
            Misfit::unlike("the name of a message of the schema", named).in_field(TYPE)
        })?;
        self.field(url, named, depth)?;
        let inner = self.schema_message(id)?;
        self.tag(content, Wire::Sized);
        let start = self.out.len();
        if inner.form == Form::Object {
            let mut rest = object.clone();
            rest.remove(TYPE);
            self.fields(inner, &rest, depth)?;
        } else {
            let value = object.get("value").unwrap_or(&Value::Null);
            self.message(id, value, depth)
                .map_err(|misfit| misfit.in_field("value"))?;
        }
        self.insert_length(start);
        Ok(())
    }

    /// Appends all of a field: nothing, if it has no presence and is zero or empty.
    fn field(&mut self, field: &Field, value: &Value, depth: u32) -> Fit {
        match (field.shape, field.kind) {
            (Shape::Map, Kind::Message(entry)) => self.map(field, entry, value, depth),
            (Shape::Repeated, kind) => {
                let Value::Array(listed) = value else {
                    return Err(Misfit::unlike("an array", value));
                };
                let is_packed = kind.wire() != Wire::Sized && !listed.is_empty();
                if is_packed {
                    self.tag(field, Wire::Sized);
                }
                let start = self.out.len();
                for (index, item) in listed.iter().enumerate() {
                    let fit = if is_packed {
                        self.scalar(kind, item).map(drop)
                    } else {
                        self.single(field, item, depth)
                    };
                    fit.map_err(|misfit| misfit.in_item(index))?;
                }
                if is_packed {
                    self.insert_length(start);
                }
                Ok(())
            }
            _ => self.single(field, value, depth),
        }
    }

    fn map(&mut self, field: &Field, id: MessageId, value: &Value, depth: u32) -> Fit {
        let schema = self.schema;
        let entry = schema.entry(id);
        let (_, key_field, value_field) = entry.map_err(|error| Misfit::new(error.to_string()))?;
        for (key, value) in self.object(value)? {
            let mut entry = || {
                self.tag(field, Wire::Sized);
                let start = self.out.len();
                // JSON has the keys as text.
                let parsed = match key_field.kind {
                    Kind::String => Value::from(key.as_str()),
                    _ => serde_json::from_str(key).unwrap_or(Value::Null),
                };
                self.single(key_field, &parsed, depth)
                    .map_err(|misfit| misfit.in_field("key"))?;
                self.single(value_field, value, depth)?;
                self.insert_length(start);
                Ok(())
            };
            entry().map_err(|misfit: Misfit| misfit.in_entry(key))?;
        }
        Ok(())
    }

    /// Appends a single value with its tag.
    fn single(&mut self, field: &Field, value: &Value, depth: u32) -> Fit {
        let before = self.out.len();
        let Kind::Message(id) = field.kind else {
            self.tag(field, field.kind.wire());
            let is_zero = self.scalar(field.kind, value)?;
            if is_zero && field.shape == Shape::Implicit {
                self.out.truncate(before);
            }
            return Ok(());
        };
        if field.is_group {
            self.tag(field, Wire::StartGroup);
            self.message(id, value, depth)?;
            self.tag(field, Wire::EndGroup);
        } else {
            self.tag(field, Wire::Sized);
            let start = self.out.len();
            self.message(id, value, depth)?;
            self.insert_length(start);
        }
        Ok(())
    }

    /// Appends a value that is no message. Returns true if it is zero or empty.
    fn scalar(&mut self, kind: Kind, value: &Value) -> Fit<bool> {
        self.budget.take(self.out.len() - self.start)?;
        self.written(kind, value)
            .ok_or_else(|| Misfit::unlike(&self.expected(kind), value))
    }

    fn written(&mut self, kind: Kind, value: &Value) -> Option<bool> {
        let signed = || value.as_i64();
        let short = || i32::try_from(value.as_i64()?).ok();
        let unsigned = || value.as_u64();
        let short_unsigned = || u32::try_from(value.as_u64()?).ok();
        let out = &mut *self.out;
        Some(match kind {
            Kind::Double => {
                let bits = float64(value)?.to_bits();
                out.extend(bits.to_le_bytes());
                // Minus zero is no zero.
                bits == 0
            }
            Kind::Float => {
                let bits = float32(value)?.to_bits();
                out.extend(bits.to_le_bytes());
                bits == 0
            }
            Kind::Int32 => {
                let number = short()?;
                varint(i64::from(number) as u64, out);
                number == 0
            }
            Kind::Int64 => {
                let number = signed()?;
                varint(number as u64, out);
                number == 0
            }
            Kind::UInt32 => {
                let number = short_unsigned()?;
                varint(number.into(), out);
                number == 0
            }
            Kind::UInt64 => {
                let number = unsigned()?;
                varint(number, out);
                number == 0
            }
            Kind::SInt32 => {
                let number = short()?;
                varint(zigzag(number.into()), out);
                number == 0
            }
            Kind::SInt64 => {
                let number = signed()?;
                varint(zigzag(number), out);
                number == 0
            }
            Kind::Fixed32 => {
                let number = short_unsigned()?;
                out.extend(number.to_le_bytes());
                number == 0
            }
            Kind::Fixed64 => {
                let number = unsigned()?;
                out.extend(number.to_le_bytes());
                number == 0
            }
            Kind::SFixed32 => {
                let number = short()?;
                out.extend(number.to_le_bytes());
                number == 0
            }
            Kind::SFixed64 => {
                let number = signed()?;
                out.extend(number.to_le_bytes());
                number == 0
            }
            Kind::Bool => {
                let is_true = value.as_bool()?;
                out.push(is_true.into());
                !is_true
            }
            Kind::String => {
                let text = value.as_str()?;
                sized(text.as_bytes(), out);
                text.is_empty()
            }
            Kind::Bytes => {
                let bytes = base64(value)?;
                sized(&bytes, out);
                bytes.is_empty()
            }
            Kind::Enum(id) => {
                let known = self.schema.enums.get(id)?;
                let number = match value {
                    Value::Null if known.is_null => 0,
                    Value::String(name) => known.number(name)?,
                    _ => short()?,
                };
                varint(i64::from(number) as u64, out);
                number == 0
            }
            Kind::Message(_) => return None,
        })
    }

    /// True if a type has values with this kind of JSON. It chooses the field of a `Value`, and shows whether null is a
    /// value.
    fn may_have(&self, kind: Kind, value: &Value) -> bool {
        match kind {
            Kind::Bool => value.is_boolean(),
            Kind::String | Kind::Bytes => value.is_string(),
            Kind::Enum(id) => {
                let is_null = self.schema.enums.get(id).is_some_and(|one| one.is_null);
                is_null == value.is_null()
            }
            Kind::Message(id) => {
                let message = self.schema.messages.get(id);
                match message.map(|one| (one.form, one.fields.as_slice())) {
                    Some((Form::Bare, [field])) => match field.shape {
                        Shape::Map => value.is_object(),
                        Shape::Repeated => value.is_array(),
                        _ => !value.is_null(),
                    },
                    // A `Value` may be anything.
                    Some((Form::Bare, _)) => true,
                    _ => !value.is_null(),
                }
            }
            _ => value.is_number(),
        }
    }

    /// The words for a type that was expected, in an error.
    fn expected(&self, kind: Kind) -> String {
        match kind {
            Kind::String => "a string".to_owned(),
            Kind::Bytes => "base64 text".to_owned(),
            Kind::Enum(_) => "a name of the enum, or an int32,".to_owned(),
            other => format!("{other:?}").to_ascii_lowercase(),
        }
    }

    fn tag(&mut self, field: &Field, wire: Wire) {
        varint(u64::from(field.number) << 3 | wire as u64, self.out);
    }

    /// Inserts the number of the bytes from `start` on before them.
    fn insert_length(&mut self, start: usize) {
        let mut length = Vec::with_capacity(10);
        varint((self.out.len() - start) as u64, &mut length);
        self.out.splice(start..start, length);
    }
}

fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// The path of a field with the names of the schema: `oneTwo` as `one_two`.
fn snake(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for one in path.chars() {
        if one.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(one.to_ascii_lowercase());
    }
    out
}
