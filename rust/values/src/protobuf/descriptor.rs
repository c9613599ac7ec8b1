//! A file as a descriptor: the bytes of a `google.protobuf.FileDescriptorProto`, which stand in base64 for the text.
//!
//! The Python client registers a schema so, and a registry may keep and return what it was given.
//! Message indexes count all messages of a descriptor, the types of groups and of maps too: so its writers count them.

use std::borrow::Cow;

use brokerless_core::BytesFormat;

use crate::limits::{Error, Result};
use crate::protobuf::parse::{
    Body, Enum, Extension, Field, File, Items, Kind, MOST_LEVELS, MOST_NAME, Message, Presence,
    too_long,
};
use crate::protobuf::wire::{Input, Wire};

/// The numbers of the types of fields, and their names; 10 is a group, 11 a message and 14 an enum.
const SCALARS: [&str; 19] = [
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "",
    "", "bytes", "uint32", "", "sfixed32", "sfixed64", "sint32", "sint64",
];
const GROUP: u64 = 10;
const MESSAGE: u64 = 11;
const ENUM: u64 = 14;

/// The bytes of a schema in base64. A text that is not base64 as a whole is none; no file has only such characters,
/// unless it is empty or a comment.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    if text.is_empty() || text.starts_with("//") {
        return None;
    }
    BytesFormat::Base64.decode(text).ok()
}

impl<'t> File<'t> {
    /// Reads a file from its descriptor.
    pub(super) fn of_descriptor(bytes: &'t [u8]) -> Result<Self> {
        Reader::default().file(bytes).map_err(|error| {
            Error::new(format!(
                "the schema is no .proto file, and as base64 it is no FileDescriptorProto: {error}"
            ))
        })
    }
}

/// The value of a field of a descriptor.
#[derive(Debug, Clone, Copy)]
enum Value<'t> {
    Number(u64),
    Bytes(&'t [u8]),
    /// No field of a descriptor has values of this form.
    Other,
}

impl<'t> Value<'t> {
    fn number(self) -> Result<u64> {
        match self {
            Self::Number(value) => Ok(value),
            _ => Err(Error::new("a field of a descriptor is no number")),
        }
    }

    fn bytes(self) -> Result<&'t [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Error::new("a field of a descriptor is no text or message")),
        }
    }

    fn text(self) -> Result<&'t str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::not_utf8())
    }

    /// Reads a name without dots.
    fn name(self) -> Result<&'t str> {
        let text = self.text()?;
        if is_name(text) {
            Ok(text)
        } else {
            Err(bad_name(text))
        }
    }

    /// Reads a name of several parts.
    fn full_name(self) -> Result<&'t str> {
        let text = self.text()?;
        let parts = text.strip_prefix('.').unwrap_or(text).split('.');
        if text.len() <= MOST_NAME && parts.into_iter().all(is_name) {
            Ok(text)
        } else {
            Err(bad_name(text))
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= MOST_NAME
        && text.bytes().all(is_part)
        && text.starts_with(|first: char| !first.is_ascii_digit())
}

#[cold]
fn bad_name(text: &str) -> Error {
    if text.len() > MOST_NAME {
        return too_long();
    }
    Error::new(format!("{text:?} is no name"))
}

/// Calls `take` with each field of a message that a descriptor has, and its value.
fn each<'t>(bytes: &'t [u8], mut take: impl FnMut(u32, Value<'t>) -> Result<()>) -> Result<()> {
    let mut input = Input::new(bytes, 0);
    while let Some(tag) = input.next_tag()? {
        let (number, wire) = tag.parts()?;
        let value = match wire {
            Wire::Varint => Value::Number(input.varint()?),
            Wire::Sized => Value::Bytes(input.sized()?),
            _ => {
                input.skip(number, wire)?;
                Value::Other
            }
        };
        take(number, value)?;
    }
    Ok(())
}

/// The options of a file or field that change how a body is decoded.
#[derive(Debug, Default)]
struct Features {
    presence: Option<Presence>,
    is_required: bool,
    is_delimited: Option<bool>,
}

impl Features {
    /// Reads a `FeatureSet`.
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        each(bytes, |number, value| {
            match number {
                1 => {
                    let found = value.number()?;
                    self.is_required = found == 3;
                    self.presence = match found {
                        1 | 3 => Some(Presence::Explicit),
                        2 => Some(Presence::Implicit),
                        _ => self.presence,
                    };
                }
                5 => self.is_delimited = Some(value.number()? == 2),
                _ => {}
            }
            Ok(())
        })
    }

    /// Reads options, in which the features have the number `place`.
    fn add_options(&mut self, bytes: &[u8], place: u32) -> Result<()> {
        each(bytes, |number, value| {
            if number == place {
                self.add(value.bytes()?)?;
            }
            Ok(())
        })
    }
}

#[derive(Debug, Default)]
struct Reader {
    items: Items,
}

impl Reader {
    fn file<'t>(&mut self, bytes: &'t [u8]) -> Result<File<'t>> {
        let mut file = File {
            package: Cow::Borrowed(""),
            imports: Vec::new(),
            presence: Presence::Explicit,
            is_delimited: false,
            body: Body::default(),
        };
        let (mut features, mut name) = (Features::default(), "");
        each(bytes, |number, value| {
            match number {
                1 => name = value.text()?,
                2 => {
                    let package = value.text()?;
                    if !package.is_empty() {
                        file.package = Cow::Borrowed(value.full_name()?);
                    }
                }
                3 => file.imports.push(value.text()?),
                4 => file.body.messages.push(self.message(value, 0)?),
                5 => file.body.enums.push(self.enumeration(value)?),
                7 => file.body.extensions.push(self.extension(value)?),
                8 => features.add_options(value.bytes()?, 50)?,
                12 => match value.text()? {
                    "" | "proto2" | "editions" => {}
                    "proto3" => file.presence = Presence::Implicit,
                    other => {
                        return Err(Error::new(format!("the syntax {other:?} is not known")));
                    }
                },
                _ => {}
            }
            Ok(())
        })?;
        // Without a name, hardly any bytes would be refused.
        if name.is_empty() {
            return Err(Error::new("the file has no name"));
        }
        file.presence = features.presence.unwrap_or(file.presence);
        file.is_delimited = features.is_delimited.unwrap_or_default();
        Ok(file)
    }

    fn message<'t>(&mut self, value: Value<'t>, level: u32) -> Result<Message<'t>> {
        if level >= MOST_LEVELS {
            return Err(Error::new(format!(
                "messages are nested more than {MOST_LEVELS} levels deep"
            )));
        }
        self.items.count()?;
        let (mut name, mut fields, mut body) = (None, Vec::new(), Body::default());
        let (mut is_entry, mut oneofs) = (false, 0);
        each(value.bytes()?, |number, value| {
            match number {
                1 => name = Some(value.name()?),
                2 => fields.push(self.field(value)?.1),
                3 => body.messages.push(self.message(value, level + 1)?),
                4 => body.enums.push(self.enumeration(value)?),
                6 => body.extensions.push(self.extension(value)?),
                7 => each(value.bytes()?, |number, value| {
                    if number == 7 {
                        is_entry = value.number()? != 0;
                    }
                    Ok(())
                })?,
                8 => oneofs += 1,
                _ => {}
            }
            Ok(())
        })?;
        if fields
            .iter()
            .any(|field| field.oneof.is_some_and(|at| at >= oneofs))
        {
            return Err(Error::new("a field is of a oneof that is not there"));
        }
        Ok(Message {
            name: name.ok_or_else(|| nameless("message"))?,
            fields,
            body,
            is_group: false,
            is_entry,
        })
    }

    fn extension<'t>(&mut self, value: Value<'t>) -> Result<Extension<'t>> {
        let (extended, field) = self.field(value)?;
        let extended = extended.ok_or_else(|| Error::new("an extension extends no message"))?;
        Ok(Extension {
            extended: Cow::Borrowed(extended),
            fields: vec![field],
        })
    }

    /// Reads a field, and the name of the message that it extends.
    fn field<'t>(&mut self, value: Value<'t>) -> Result<(Option<&'t str>, Field<'t>)> {
        self.items.count()?;
        let (mut name, mut extended, mut number, mut oneof) = (None, None, 0, None);
        let (mut label, mut kind, mut kind_name, mut is_optional) = (1, 0, None, false);
        let mut features = Features::default();
        each(value.bytes()?, |place, value| {
            match place {
                1 => name = Some(value.name()?),
                2 => extended = Some(value.full_name()?),
                3 => number = value.number()?,
                4 => label = value.number()?,
                5 => kind = value.number()?,
                6 => kind_name = Some(value.full_name()?),
                8 => features.add_options(value.bytes()?, 21)?,
                9 => oneof = Some(value.number()?),
                17 => is_optional = value.number()? != 0,
                _ => {}
            }
            Ok(())
        })?;
        let name = name.ok_or_else(|| nameless("field"))?;
        let number = u32::try_from(number)
            .ok()
            .filter(|number| (1..1 << 29).contains(number))
            .ok_or_else(|| Error::new(format!("the field {name} has no valid number")))?;
        if !(1..=3).contains(&label) {
            return Err(Error::new(format!("the field {name} has no valid label")));
        }
        let scalar = SCALARS
            .get(usize::try_from(kind).unwrap_or(usize::MAX))
            .filter(|scalar| !scalar.is_empty());
        let kind_name = match (scalar, kind, kind_name) {
            (Some(scalar), _, None) => scalar,
            (None, 0 | GROUP | MESSAGE | ENUM, Some(name)) => name,
            _ => return Err(Error::new(format!("the field {name} has no valid type"))),
        };
        // The oneof of an optional field has no other one.
        let oneof = oneof
            .filter(|_| !is_optional)
            .map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        let is_explicit = is_optional || oneof.is_some() || label == 2;
        let field = Field {
            name,
            number,
            is_repeated: label == 3,
            kind: Kind::Named(Cow::Borrowed(kind_name)),
            oneof,
            presence: if is_explicit {
                Some(Presence::Explicit)
            } else {
                features.presence
            },
            is_required: label == 2 || features.is_required,
            is_delimited: if kind == GROUP {
                Some(true)
            } else {
                features.is_delimited
            },
        };
        Ok((extended, field))
    }

    fn enumeration<'t>(&mut self, value: Value<'t>) -> Result<Enum<'t>> {
        let (mut name, mut values) = (None, Vec::new());
        each(value.bytes()?, |number, value| {
            match number {
                1 => name = Some(value.name()?),
                2 => {
                    self.items.count()?;
                    let (mut name, mut found) = (None, 0);
                    each(value.bytes()?, |number, value| {
                        match number {
                            1 => name = Some(value.name()?),
                            // A negative number has ten bytes.
                            2 => found = value.number()? as i32,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    values.push((name.ok_or_else(|| nameless("value of an enum"))?, found));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(Enum {
            name: name.ok_or_else(|| nameless("enum"))?,
            values,
        })
    }
}

#[cold]
fn nameless(what: &str) -> Error {
    Error::new(format!("a {what} has no name"))
}
