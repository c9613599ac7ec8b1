//! A body in Protobuf's wire format, as JSON text.
//!
//! The values of a field may be anywhere in a message. So a message is read twice: first its values are found and
//! sorted by field, then they are written. A found value takes eight bytes of memory and at least two of the body.

use std::fmt::Write as _;
use std::ops::Range;

use brokerless_core::{BytesFormat, Framed, Json, Mark};

use crate::limits::{Error, Limits, MOST_DECODED, Result};
use crate::protobuf::schema::{
    EnumId, Field, Form, Kind, Message, MessageId, ProtobufSchema, Shape,
};
use crate::protobuf::wire::{Input, Wire};
use crate::text;

/// The most values of a message and of the messages around it.
const MOST_VALUES: usize = MOST_DECODED / 4;

impl ProtobufSchema {
    /// Appends a key or value as JSON text, and returns 0: a message has no end of its own, so no bytes follow it.
    /// After an error, `out` is as before.
    ///
    /// The text is Protobuf's canonical JSON, with these differences:
    ///
    /// - Fields have the names and the order of the schema.
    /// - 64-bit integers are numbers.
    /// - An `Any` whose type the schema lacks is an object of its two fields.
    /// - A Timestamp or Duration out of range has the form of any other one.
    /// - An enum's number without a name is a number, also in proto2.
    /// - A required field may be missing.
    ///
    /// As in canonical JSON, unknown fields are left out, and so are fields without presence that are zero or empty,
    /// unless the schema is [`Self::with_defaults`].
    pub fn write_json(&self, framed: &Framed<'_>, out: &mut Vec<u8>) -> Result<usize> {
        let (id, body) = self.split(framed)?;
        let before = out.len();
        let mut json = Json::new(out);
        let mut walk = Walk::new(self, body, json.mark())?;
        match walk.message(id, &Parts::Body, &mut json) {
            Ok(()) => Ok(0),
            Err(error) => {
                out.truncate(before);
                Err(error)
            }
        }
    }

    /// Returns the type and the bytes of the message.
    pub(super) fn split<'a>(&self, framed: &Framed<'a>) -> Result<(MessageId, &'a [u8])> {
        let mut id = None;
        let mut level = Some(&self.roots);
        let body = framed
            .message_indexes(|index| {
                let at = usize::try_from(index).ok();
                id = level.and_then(|level| level.get(at?)).copied();
                level = id
                    .and_then(|id| self.messages.get(id))
                    .map(|one| &one.nested);
            })
            .map_err(|error| Error::new(format!("the indexes of the message: {error}")))?;
        let id = id.ok_or_else(|| Error::new("the schema has no message with these indexes"))?;
        Ok((id, body))
    }
}

/// A value in the body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// Twice the position of the field in the message, and one more if a length precedes the value.
    key: u32,
    at: u32,
}

impl Found {
    pub(super) fn field(self) -> u32 {
        self.key >> 1
    }

    fn is_sized(self) -> bool {
        self.key & 1 == 1
    }
}

/// The bytes of a message: those of all values of its field, one after the other.
#[derive(Debug, Clone)]
pub(super) enum Parts {
    Body,
    Found(Range<usize>),
}

/// A value that is no message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'a> {
    Int(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    Bool(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
    Enum(EnumId, i32),
}

impl Scalar<'_> {
    fn is_zero(self) -> bool {
        match self {
            Self::Int(value) => value == 0,
            Self::Unsigned(value) => value == 0,
            // Minus zero is no zero: it is written.
            Self::Float(value) => value.to_bits() == 0,
            Self::Double(value) => value.to_bits() == 0,
            Self::Bool(value) => !value,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Enum(_, number) => number == 0,
        }
    }
}

/// A key of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<'a> {
    Int(i64),
    Unsigned(u64),
    Text(&'a str),
}

pub(super) struct Walk<'a> {
    /// The start of the JSON text.
    pub(super) start: Mark,
    pub(super) schema: &'a ProtobufSchema,
    body: &'a [u8],
    /// The values of the current message, after those of the messages around it.
    pub(super) found: Vec<Found>,
    pub(super) limits: Limits,
    text: String,
}

impl<'a> Walk<'a> {
    pub(super) fn new(schema: &'a ProtobufSchema, body: &'a [u8], start: Mark) -> Result<Self> {
        if u32::try_from(body.len()).is_err() {
            return Err(Error::new("the body has more than 4 GiB"));
        }
        Ok(Self {
            start,
            schema,
            body,
            found: Vec::new(),
            limits: Limits::new(),
            text: String::new(),
        })
    }

    /// Writes a message within another one.
    pub(super) fn inner(
        &mut self,
        id: MessageId,
        parts: &Parts,
        json: &mut Json<'_>,
    ) -> Result<()> {
        if self.limits.depth == 0 {
            return Err(Error::too_deep());
        }
        self.limits.depth -= 1;
        let result = self.message(id, parts, json);
        self.limits.depth += 1;
        result
    }

    fn message(&mut self, id: MessageId, parts: &Parts, json: &mut Json<'_>) -> Result<()> {
        let schema = self.schema;
        let message = schema
            .messages
            .get(id)
            .ok_or_else(|| Error::new("the schema has a type that is not there"))?;
        let base = self.find(message, parts)?;
        match message.form {
            Form::Object => {
                json.begin_object();
                self.fields(message, base, json)?;
                json.end_object();
            }
            Form::Timestamp | Form::Duration => {
                let seconds = self.int(message, 0, base)?;
                let nanos = self.int(message, 1, base)? as i32;
                self.text.clear();
                match message.form {
                    Form::Timestamp => text::instant(seconds, nanos, &mut self.text),
                    _ => text::duration(seconds, nanos, &mut self.text),
                }
                json.string(&self.text);
            }
            Form::Bare => match (self.found.get(base), message.fields.as_slice()) {
                (Some(found), fields) => {
                    if let Some(field) = fields.get(found.field() as usize) {
                        self.value(field, base..self.found.len(), json)?;
                    }
                }
                (None, [field]) => self.default(field, json)?,
                (None, _) => json.null(),
            },
            Form::FieldMask => {
                let mut paths = String::new();
                for index in base..self.found.len() {
                    if let Scalar::Text(path) =
                        self.scalar(Kind::String, &mut self.input(index)?)?
                    {
                        if index > base {
                            paths.push(',');
                        }
                        append_camel(path, &mut paths);
                    }
                }
                json.string(&paths);
            }
            Form::Any => self.any(message, base, json)?,
        }
        self.found.truncate(base);
        Ok(())
    }

    /// Writes an `Any`: `@type` and the fields of its message, if the schema has the type.
    fn any(&mut self, message: &'a Message, base: usize, json: &mut Json<'_>) -> Result<()> {
        let schema = self.schema;
        let url = match self.last(0, base) {
            Some(index) => self.scalar(Kind::String, &mut self.input(index)?)?,
            None => Scalar::Text(""),
        };
        let Scalar::Text(url) = url else {
            return Ok(());
        };
        let name = url.rsplit('/').next().unwrap_or_default();
        let known = schema.named.get(name).copied();
        json.begin_object();
        if let Some(id) = known
            && let Some(inner) = schema.messages.get(id)
        {
            let parts = match self.last(1, base) {
                Some(index) => Parts::Found(index..index + 1),
                None => Parts::Found(0..0),
            };
            json.string_field("@type", url);
            if inner.form == Form::Object {
                if self.limits.depth == 0 {
                    return Err(Error::too_deep());
                }
                self.limits.depth -= 1;
                let base = self.find(inner, &parts)?;
                self.fields(inner, base, json)?;
                self.limits.depth += 1;
            } else {
                json.key("value");
                self.inner(id, &parts, json)?;
            }
        } else if base < self.found.len() {
            self.fields(message, base, json)?;
        }
        json.end_object();
        Ok(())
    }

    /// Writes the fields of a message whose values are found, and removes the values.
    fn fields(&mut self, message: &'a Message, base: usize, json: &mut Json<'_>) -> Result<()> {
        let implicit: &[u32] = if self.schema.has_defaults {
            &message.implicit
        } else {
            &[]
        };
        let mut implicit = implicit.iter().copied().peekable();
        let mut at = base;
        loop {
            let position = self.found.get(at).map(|found| found.field());
            while let Some(absent) =
                implicit.next_if(|&one| position.is_none_or(|position| one < position))
            {
                if let Some(field) = message.fields.get(absent as usize) {
                    json.key(&field.name);
                    self.default(field, json)?;
                }
            }
            let Some(position) = position else {
                break;
            };
            implicit.next_if_eq(&position);
            let rest = self.found.get(at..).unwrap_or_default();
            let count = rest
                .iter()
                .take_while(|found| found.field() == position)
                .count();
            if let Some(field) = message.fields.get(position as usize) {
                let mark = json.mark();
                json.key(&field.name);
                let is_there = self.value(field, at..at + count, json)?;
                if !is_there && !self.schema.has_defaults {
                    json.go_back(&mark);
                }
            }
            at += count;
        }
        self.found.truncate(base);
        Ok(())
    }

    /// Writes the value of a field. Returns false if a field without presence is zero or empty.
    pub(super) fn value(
        &mut self,
        field: &'a Field,
        values: Range<usize>,
        json: &mut Json<'_>,
    ) -> Result<bool> {
        self.check_length(json)?;
        match (field.shape, field.kind) {
            (Shape::Map, Kind::Message(entry)) => {
                self.map(entry, values, json)?;
                Ok(true)
            }
            (Shape::Repeated, kind) => {
                json.begin_array();
                let is_there = self.items(kind, values, json)?;
                json.end_array();
                Ok(is_there)
            }
            (_, Kind::Message(id)) => {
                self.inner(id, &Parts::Found(values), json)?;
                Ok(true)
            }
            (shape, kind) => {
                // The last one wins.
                let scalar = self.scalar(kind, &mut self.input(values.end - 1)?)?;
                self.write(scalar, json);
                Ok(shape != Shape::Implicit || !scalar.is_zero())
            }
        }
    }

    /// Writes the items of an array. Returns false for an empty array.
    fn items(&mut self, kind: Kind, values: Range<usize>, json: &mut Json<'_>) -> Result<bool> {
        let mut is_there = false;
        for index in values {
            self.check_length(json)?;
            if let Kind::Message(id) = kind {
                self.inner(id, &Parts::Found(index..index + 1), json)?;
                is_there = true;
                continue;
            }
            let mut input = self.input(index)?;
            if kind.wire() == Wire::Sized || !self.is_sized(index) {
                let scalar = self.scalar(kind, &mut input)?;
                self.write(scalar, json);
                is_there = true;
                continue;
            }
            let mut packed = input.part()?;
            while !packed.is_empty() {
                let scalar = self.scalar(kind, &mut packed)?;
                self.write(scalar, json);
                is_there = true;
                self.check_length(json)?;
            }
        }
        Ok(is_there)
    }

    /// Writes a map. The last of several entries with one key counts.
    fn map(&mut self, id: MessageId, values: Range<usize>, json: &mut Json<'_>) -> Result<()> {
        let schema = self.schema;
        let (entry, key, value) = schema.entry(id)?;
        json.begin_object();
        for (name, index) in self.entries(entry, key, values)? {
            match name {
                Key::Text(text) => json.text_key(text),
                other => {
                    self.text.clear();
                    let _ = match other {
                        Key::Int(number) => write!(self.text, "{number}"),
                        Key::Unsigned(number) => write!(self.text, "{number}"),
                        Key::Text(_) => Ok(()),
                    };
                    json.key(&self.text);
                }
            }
            let base = self.find(entry, &Parts::Found(index..index + 1))?;
            match (self.first(1, base), value.kind) {
                (Some(first), _) => {
                    self.value(value, first..self.found.len(), json)?;
                }
                (None, Kind::Message(id)) => self.inner(id, &Parts::Found(0..0), json)?,
                (None, _) => self.default(value, json)?,
            }
            self.found.truncate(base);
        }
        json.end_object();
        Ok(())
    }

    /// The keys of a map, each with the position of its entry. The last of several entries with one key counts.
    pub(super) fn entries(
        &mut self,
        entry: &Message,
        key: &Field,
        values: Range<usize>,
    ) -> Result<Vec<(Key<'a>, usize)>> {
        let mut keys = Vec::with_capacity(values.len());
        for index in values {
            let base = self.find(entry, &Parts::Found(index..index + 1))?;
            keys.push((self.key(key, base)?, index));
            self.found.truncate(base);
        }
        if keys.len() > 1 {
            keys.sort_unstable();
            keys.reverse();
            keys.dedup_by_key(|(key, _)| *key);
            keys.sort_unstable_by_key(|&(_, index)| index);
        }
        Ok(keys)
    }

    /// Finds the values of a message, and appends them in the order of the fields. Returns the position of the first
    /// one.
    pub(super) fn find(&mut self, message: &Message, parts: &Parts) -> Result<usize> {
        let base = self.found.len();
        match parts {
            Parts::Body => self.scan(message, Input::new(self.body, 0), false)?,
            Parts::Found(values) => {
                for index in values.clone() {
                    let mut input = self.input(index)?;
                    if self.is_sized(index) {
                        self.scan(message, input.part()?, false)?;
                    } else {
                        self.scan(message, input, true)?;
                    }
                }
            }
        }
        if message.has_oneofs {
            self.settle_oneofs(message, base);
        }
        self.sort_found(base);
        Ok(base)
    }

    /// Sorts the values from `base` on by their fields.
    pub(super) fn sort_found(&mut self, base: usize) {
        let found = self.found.get_mut(base..).unwrap_or_default();
        if !found.is_sorted_by_key(|one| one.field()) {
            found.sort_unstable_by_key(|one| (one.field(), one.at));
        }
    }

    /// The bytes of a message, if they are all in one place.
    pub(super) fn whole(&self, parts: &Parts) -> Result<Option<Input<'a>>> {
        Ok(match parts {
            Parts::Body => Some(Input::new(self.body, 0)),
            Parts::Found(values) if values.len() == 1 && self.is_sized(values.start) => {
                Some(self.input(values.start)?.part()?)
            }
            Parts::Found(_) => None,
        })
    }

    /// Adds a value to those that are found.
    pub(super) fn note(&mut self, position: u32, wire: Wire, at: usize) -> Result<()> {
        if self.found.len() >= MOST_VALUES {
            return Err(Error::new(format!(
                "the body has more than {MOST_VALUES} values"
            )));
        }
        self.found.push(Found {
            key: 2 * position + u32::from(wire == Wire::Sized),
            at: at as u32,
        });
        Ok(())
    }

    /// Finds the values in a part of a message.
    fn scan(&mut self, message: &Message, mut input: Input<'a>, is_group: bool) -> Result<()> {
        while is_group || !input.is_empty() {
            let (number, wire) = input.tag()?.parts()?;
            if is_group && wire == Wire::EndGroup {
                return Ok(());
            }
            let at = input.at();
            input.skip(number, wire)?;
            let Some(position) = message.position(number) else {
                continue;
            };
            let field = message.fields.get(position as usize);
            if field.is_some_and(|field| field.fits(wire)) {
                self.note(position, wire, at)?;
            }
        }
        Ok(())
    }

    /// Removes the values of oneofs that a later value of another field has replaced.
    fn settle_oneofs(&mut self, message: &Message, base: usize) {
        let oneof = |found: &Found| {
            let field = message.fields.get(found.field() as usize);
            field.and_then(|field| field.oneof)
        };
        let Some(found) = self.found.get_mut(base..) else {
            return;
        };
        found.sort_unstable_by_key(|one| (oneof(one), one.at));
        let mut kept = 0;
        let mut at = 0;
        while let Some(first) = found.get(at).copied() {
            let group = oneof(&first);
            let rest = found.get(at..).unwrap_or_default();
            let count = rest.iter().take_while(|one| oneof(one) == group).count();
            let end = at + count;
            // The last values may be parts of one message, which are merged.
            let from = match (group, found.get(end - 1)) {
                (Some(_), Some(last)) => {
                    let last = last.field();
                    let group = found.get(at..end).unwrap_or_default();
                    let same = group.iter().rev().take_while(|one| one.field() == last);
                    end - same.count()
                }
                _ => at,
            };
            found.copy_within(from..end, kept);
            kept += end - from;
            at = end;
        }
        self.found.truncate(base + kept);
    }

    /// The first value of a field.
    pub(super) fn first(&self, position: u32, base: usize) -> Option<usize> {
        let found = self.found.get(base..)?;
        let at = found.iter().position(|one| one.field() == position)?;
        Some(base + at)
    }

    /// The last value of a field.
    pub(super) fn last(&self, position: u32, base: usize) -> Option<usize> {
        let found = self.found.get(base..)?;
        let at = found.iter().rposition(|one| one.field() == position)?;
        Some(base + at)
    }

    /// Reads a number of a message, or 0 if it is missing.
    pub(super) fn int(&self, message: &Message, position: u32, base: usize) -> Result<i64> {
        let field = message.fields.get(position as usize);
        match (self.last(position, base), field) {
            (Some(index), Some(field)) => match self.scalar(field.kind, &mut self.input(index)?)? {
                Scalar::Int(value) => Ok(value),
                _ => Ok(0),
            },
            _ => Ok(0),
        }
    }

    /// Reads the key of an entry of a map.
    pub(super) fn key(&self, field: &Field, base: usize) -> Result<Key<'a>> {
        let scalar = match self.last(0, base) {
            Some(index) => self.scalar(field.kind, &mut self.input(index)?)?,
            None => self.zero(field.kind),
        };
        Ok(match scalar {
            Scalar::Int(value) => Key::Int(value),
            Scalar::Unsigned(value) => Key::Unsigned(value),
            Scalar::Text(text) => Key::Text(text),
            Scalar::Bool(true) => Key::Text("true"),
            _ => Key::Text("false"),
        })
    }

    /// The body from the start of a value on.
    pub(super) fn input(&self, index: usize) -> Result<Input<'a>> {
        let found = self.found.get(index);
        let found = found.ok_or_else(|| Error::new("a value is not there"))?;
        Ok(Input::new(self.body, found.at as usize))
    }

    pub(super) fn is_sized(&self, index: usize) -> bool {
        self.found.get(index).is_some_and(|one| one.is_sized())
    }

    fn check_length(&self, json: &Json<'_>) -> Result<()> {
        if json.since(&self.start).len() > MOST_DECODED {
            return Err(Error::too_long());
        }
        Ok(())
    }

    /// Writes the value of a missing field.
    pub(super) fn default(&mut self, field: &Field, json: &mut Json<'_>) -> Result<()> {
        self.check_length(json)?;
        match field.shape {
            Shape::Repeated => {
                json.begin_array();
                json.end_array();
            }
            Shape::Map => {
                json.begin_object();
                json.end_object();
            }
            Shape::Optional | Shape::Implicit => self.write(self.zero(field.kind), json),
        }
        Ok(())
    }

    pub(super) fn zero(&self, kind: Kind) -> Scalar<'a> {
        match kind {
            Kind::Double => Scalar::Double(0.0),
            Kind::Float => Scalar::Float(0.0),
            Kind::UInt32 | Kind::UInt64 | Kind::Fixed32 | Kind::Fixed64 => Scalar::Unsigned(0),
            Kind::Bool => Scalar::Bool(false),
            Kind::String => Scalar::Text(""),
            Kind::Bytes | Kind::Message(_) => Scalar::Bytes(&[]),
            Kind::Enum(id) => {
                let first = self.schema.enums.get(id).map_or(0, |one| one.first);
                Scalar::Enum(id, first)
            }
            _ => Scalar::Int(0),
        }
    }

    /// Reads a value. Surplus bits of a number are dropped, as all implementations do.
    #[inline(always)]
    pub(super) fn scalar(&self, kind: Kind, input: &mut Input<'a>) -> Result<Scalar<'a>> {
        let zigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
        Ok(match kind {
            Kind::Double => Scalar::Double(f64::from_le_bytes(input.array()?)),
            Kind::Float => Scalar::Float(f32::from_le_bytes(input.array()?)),
            Kind::Int32 => Scalar::Int((input.varint()? as i32).into()),
            Kind::Int64 => Scalar::Int(input.varint()? as i64),
            Kind::UInt32 => Scalar::Unsigned((input.varint()? as u32).into()),
            Kind::UInt64 => Scalar::Unsigned(input.varint()?),
            Kind::SInt32 => Scalar::Int(zigzag((input.varint()? as u32).into())),
            Kind::SInt64 => Scalar::Int(zigzag(input.varint()?)),
            Kind::Fixed32 => Scalar::Unsigned(u32::from_le_bytes(input.array()?).into()),
            Kind::Fixed64 => Scalar::Unsigned(u64::from_le_bytes(input.array()?)),
            Kind::SFixed32 => Scalar::Int(i32::from_le_bytes(input.array()?).into()),
            Kind::SFixed64 => Scalar::Int(i64::from_le_bytes(input.array()?)),
            Kind::Bool => Scalar::Bool(input.varint()? != 0),
            Kind::String => {
                Scalar::Text(std::str::from_utf8(input.sized()?).map_err(|_| Error::not_utf8())?)
            }
            Kind::Bytes | Kind::Message(_) => Scalar::Bytes(input.sized()?),
            Kind::Enum(id) => Scalar::Enum(id, input.varint()? as i32),
        })
    }

    pub(super) fn write(&self, scalar: Scalar<'_>, json: &mut Json<'_>) {
        match scalar {
            Scalar::Int(value) => json.int(value),
            Scalar::Unsigned(value) => json.int(value),
            Scalar::Float(value) => json.float32(value),
            Scalar::Double(value) => json.float64(value),
            Scalar::Bool(value) => json.bool(value),
            Scalar::Text(text) => json.string(text),
            Scalar::Bytes(bytes) => json.bytes(Some(bytes), BytesFormat::Base64),
            Scalar::Enum(id, number) => {
                let known = self.schema.enums.get(id);
                match known.and_then(|known| known.name(number)) {
                    _ if known.is_some_and(|known| known.is_null) => json.null(),
                    Some(name) => json.string(name),
                    None => json.int(number),
                }
            }
        }
    }
}

/// Appends the path of a field with the names that it has in canonical JSON: `one_two` as `oneTwo`.
fn append_camel(path: &str, out: &mut String) {
    let mut is_start = false;
    for one in path.chars() {
        if one == '_' {
            is_start = true;
            continue;
        }
        out.push(if is_start {
            one.to_ascii_uppercase()
        } else {
            one
        });
        is_start = false;
    }
}
