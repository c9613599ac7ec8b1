//! A Protobuf schema: messages and enums that refer to each other by number, so that a message may contain itself.

use std::collections::{HashMap, HashSet};

use crate::limits::{Error, Result};
use crate::protobuf::wire::{Tag, Wire};

/// The number of a message.
pub(super) type MessageId = usize;
/// The number of an enum.
pub(super) type EnumId = usize;

/// A Protobuf schema: a file, with the files that it imports.
#[derive(Debug)]
pub struct ProtobufSchema {
    pub(super) messages: Vec<Message>,
    pub(super) enums: Vec<Enum>,
    /// The messages of the file that are in no other message.
    pub(super) roots: Vec<MessageId>,
    /// The full names of these messages.
    pub(super) root_names: Vec<String>,
    /// All messages by their full names, if the schema uses `Any`.
    pub(super) named: HashMap<String, MessageId>,
    pub(super) has_defaults: bool,
    /// The indexes of the message that values are encoded as, and that typed columns have: outermost first.
    pub(super) chosen: Vec<usize>,
}

/// A type of messages.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// The name within the file or the outer message.
    pub(super) name: Box<str>,
    pub(super) form: Form,
    /// The fields in the order of the file, then the extensions.
    pub(super) fields: Vec<Field>,
    /// The numbers of the fields, in order, and their positions.
    pub(super) numbers: Vec<(u32, u32)>,
    /// The positions of the fields without presence, except extensions.
    pub(super) implicit: Vec<u32>,
    pub(super) has_oneofs: bool,
    /// The messages that are declared in this one, as message indexes count them.
    pub(super) nested: Vec<MessageId>,
}

/// The JSON form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Form {
    #[default]
    Object,
    Timestamp,
    Duration,
    /// The bare value of its only field, or of the field that is set.
    Bare,
    FieldMask,
    Any,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) shape: Shape,
    /// The number of its oneof in the message.
    pub(super) oneof: Option<u32>,
    pub(super) is_required: bool,
    /// True for messages that are encoded as groups. Both forms are decoded.
    pub(super) is_group: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A single value, which may be missing.
    Optional,
    /// A single value without presence: a missing one is zero or empty.
    Implicit,
    Repeated,
    /// Repeated messages with a key and a value.
    Map,
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Double,
    Float,
    Int32,
    Int64,
    UInt32,
    UInt64,
    SInt32,
    SInt64,
    Fixed32,
    Fixed64,
    SFixed32,
    SFixed64,
    Bool,
    String,
    Bytes,
    Enum(EnumId),
    Message(MessageId),
}

/// A type of enums.
#[derive(Debug)]
pub(super) struct Enum {
    /// The numbers in order, each with its names in the order of the file.
    pub(super) values: Vec<(i32, String)>,
    /// The number of the first value, which is the default.
    pub(super) first: i32,
    /// True for `google.protobuf.NullValue`.
    pub(super) is_null: bool,
}

impl ProtobufSchema {
    /// Returns a schema that also writes missing fields without presence: as zero, empty text, an empty array or an
    /// empty object. Confluent's deserializers in Java do so.
    pub fn with_defaults(mut self) -> Self {
        self.has_defaults = true;
        self
    }

    /// The message of a map's entries, its key and its value.
    pub(super) fn entry(&self, id: MessageId) -> Result<(&Message, &Field, &Field)> {
        let entry = self.messages.get(id);
        entry
            .and_then(|entry| {
                let (key, value) = entry.entry()?;
                Some((entry, key, value))
            })
            .ok_or_else(|| Error::new("the schema has a map that is none"))
    }

    /// The number of types, fields and values.
    pub(crate) fn types(&self) -> usize {
        let fields = self.messages.iter().map(|one| 1 + one.fields.len());
        let values = self.enums.iter().map(|one| 1 + one.values.len());
        fields.chain(values).sum()
    }
}

impl Message {
    /// The position of the field with a number.
    #[inline]
    pub(super) fn position(&self, number: u32) -> Option<u32> {
        // Most messages number their fields from 1 on, in order.
        match self.numbers.get(number as usize - 1) {
            Some(&(found, position)) if found == number => Some(position),
            _ => {
                let at = self.numbers.binary_search_by_key(&number, |&(one, _)| one);
                self.numbers.get(at.ok()?).map(|&(_, position)| position)
            }
        }
    }

    /// The key and the value of a map's entry.
    pub(super) fn entry(&self) -> Option<(&Field, &Field)> {
        match self.fields.as_slice() {
            [key, value] if key.number == 1 && value.number == 2 => Some((key, value)),
            _ => None,
        }
    }

    pub(super) fn push(&mut self, field: Field) {
        self.fields.push(field);
    }

    /// Completes a message that has all its fields. No two of them have the same name or number.
    pub(super) fn close(&mut self) -> Result<()> {
        let mut names = HashSet::with_capacity(self.fields.len());
        if let Some(field) = self.fields.iter().find(|one| !names.insert(&one.name)) {
            let name = &field.name;
            return Err(Error::new(format!(
                "a message has two fields with the name {name}"
            )));
        }
        self.numbers = (0..)
            .zip(&self.fields)
            .map(|(position, field)| (field.number, position))
            .collect();
        self.numbers.sort_unstable();
        for (one, next) in self.numbers.iter().zip(self.numbers.iter().skip(1)) {
            if let ((number, first), (same, second)) = (*one, *next)
                && number == same
            {
                let name = |position: u32| self.fields.get(position as usize).map(|one| &one.name);
                let [first, second] = [first, second].map(|at| name(at).map_or("", |one| one));
                return Err(Error::new(format!(
                    "two fields of a message have the number {number}: {first} and {second}"
                )));
            }
        }
        self.implicit = (0..)
            .zip(&self.fields)
            .filter(|(_, field)| field.shape != Shape::Optional && !field.is_extension())
            .map(|(position, _)| position)
            .collect();
        self.has_oneofs = self.fields.iter().any(|field| field.oneof.is_some());
        // Another type may have the name of a known type, but not its form.
        let is_known = match (self.form, self.fields.as_slice()) {
            (Form::Timestamp | Form::Duration, [seconds, nanos]) => {
                seconds.is(1, Kind::Int64) && nanos.is(2, Kind::Int32)
            }
            (Form::Bare, [_]) => true,
            (Form::Bare, fields) => fields.iter().all(|field| field.oneof == Some(0)),
            (Form::FieldMask, [paths]) => {
                paths.kind == Kind::String && paths.shape == Shape::Repeated
            }
            (Form::Any, [url, value]) => url.is(1, Kind::String) && value.is(2, Kind::Bytes),
            _ => false,
        };
        if !is_known {
            self.form = Form::Object;
        }
        Ok(())
    }
}

impl Field {
    /// True for a single value that is no message.
    pub(super) fn is_scalar(&self) -> bool {
        matches!(self.shape, Shape::Optional | Shape::Implicit)
            && !matches!(self.kind, Kind::Message(_))
    }

    /// True for an extension. Its name is its full name in brackets.
    fn is_extension(&self) -> bool {
        self.name.starts_with('[')
    }

    fn is(&self, number: u32, kind: Kind) -> bool {
        let is_single = matches!(self.shape, Shape::Optional | Shape::Implicit);
        self.number == number && self.kind == kind && is_single
    }

    /// The form of a value with this tag, if the field takes it.
    #[inline]
    pub(super) fn wire_of(&self, tag: Option<Tag>) -> Result<Option<Wire>> {
        let Some(tag) = tag else {
            return Ok(None);
        };
        let (number, wire) = tag.parts()?;
        Ok((number == self.number && self.fits(wire)).then_some(wire))
    }

    /// True if the field takes a value of this form. Any other value is skipped like that of an unknown field.
    ///
    /// A message may be encoded as a group, because registries write groups as messages into their schemas.
    #[inline]
    pub(super) fn fits(&self, wire: Wire) -> bool {
        match self.kind.wire() {
            Wire::Sized => {
                wire == Wire::Sized
                    || wire == Wire::StartGroup && matches!(self.kind, Kind::Message(_))
            }
            own => wire == own || wire == Wire::Sized && self.shape == Shape::Repeated,
        }
    }
}

impl Kind {
    pub(super) fn scalar(name: &str) -> Option<Self> {
        Some(match name {
            "double" => Self::Double,
            "float" => Self::Float,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint32" => Self::UInt32,
            "uint64" => Self::UInt64,
            "sint32" => Self::SInt32,
            "sint64" => Self::SInt64,
            "fixed32" => Self::Fixed32,
            "fixed64" => Self::Fixed64,
            "sfixed32" => Self::SFixed32,
            "sfixed64" => Self::SFixed64,
            "bool" => Self::Bool,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }

    /// The form of a single value.
    #[inline]
    pub(super) fn wire(self) -> Wire {
        match self {
            Self::Double | Self::Fixed64 | Self::SFixed64 => Wire::Fixed64,
            Self::Float | Self::Fixed32 | Self::SFixed32 => Wire::Fixed32,
            Self::String | Self::Bytes | Self::Message(_) => Wire::Sized,
            _ => Wire::Varint,
        }
    }

    pub(super) fn is_key(self) -> bool {
        !matches!(
            self,
            Self::Double | Self::Float | Self::Bytes | Self::Enum(_) | Self::Message(_)
        )
    }
}

impl Enum {
    /// The first name of a number.
    #[inline]
    pub(super) fn name(&self, number: i32) -> Option<&str> {
        // Most enums number their values from 0 on.
        let is_of = |at: usize| self.values.get(at).is_some_and(|(one, _)| *one == number);
        let guess = number as usize;
        let at = if is_of(guess) && (guess == 0 || !is_of(guess - 1)) {
            guess
        } else {
            self.values.partition_point(|(one, _)| *one < number)
        };
        let found = self.values.get(at).filter(|(one, _)| *one == number);
        found.map(|(_, name)| name.as_str())
    }

    /// The number of a name.
    pub(super) fn number(&self, name: &str) -> Option<i32> {
        let found = self.values.iter().find(|(_, one)| one == name);
        found.map(|(number, _)| *number)
    }
}
