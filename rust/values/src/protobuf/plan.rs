//! Messages of a schema to values of a column.

use std::collections::HashMap;

use crate::column_type::{Counter, MOST_LEVELS, Type};
use crate::limits::{Error, Result};
use crate::protobuf::schema::{Field, Form, Kind, Message, MessageId, ProtobufSchema, Shape};
use crate::protobuf::wire::Tag;
use crate::text::Unit;

/// The most messages around a message. One takes up to three levels of columns: its own, and those of a map.
const MOST_AROUND: usize = MOST_LEVELS / 3;

/// The way from messages to values of a column.
#[derive(Debug)]
pub(crate) struct ProtobufPlan {
    pub(super) root: MessageId,
    /// The full name of the root.
    pub(super) name: String,
    /// The message of the writer's schema with this name.
    pub(super) written: Option<MessageId>,
    pub(super) step: Step,
}

/// The step from a value to a column.
#[derive(Debug)]
pub(super) enum Step {
    Scalar,
    Object(Object),
    Timestamp,
    Duration,
    /// A message with a single field, whose value stands for it.
    Bare(Kind),
    List(Box<Step>),
    Map(Box<Step>),
    /// The value as JSON text.
    Json,
}

/// The fields of a message.
#[derive(Debug)]
pub(super) struct Object {
    /// In the order of their numbers, in which most writers put them.
    pub(super) ways: Vec<Way>,
    /// The columns without a field.
    pub(super) absent: Vec<usize>,
}

/// The way from a field to its column, if it has one.
#[derive(Debug)]
pub(super) struct Way {
    /// The tag of its values, if each is a value of the column: a scalar that is in no oneof.
    pub(super) scalar: Option<(Tag, Kind)>,
    pub(super) number: u32,
    pub(super) position: u32,
    pub(super) column: Option<(usize, Step)>,
}

impl ProtobufSchema {
    /// The type of a column with the values of this schema. A message within itself is JSON text, and so is one
    /// that is nested too deep for a column.
    pub(crate) fn column_type(&self) -> Result<Type> {
        self.type_of(self.root()?, &mut Vec::new(), &mut Counter::new())
    }

    pub(super) fn message(&self, id: MessageId) -> Result<&Message> {
        self.messages
            .get(id)
            .ok_or_else(|| Error::new("the schema has a type that is not there"))
    }

    fn type_of(
        &self,
        id: MessageId,
        around: &mut Vec<MessageId>,
        counter: &mut Counter,
    ) -> Result<Type> {
        counter.take()?;
        if around.contains(&id) || around.len() >= MOST_AROUND {
            return Ok(Type::Json);
        }
        let message = self.message(id)?;
        around.push(id);
        let kind = match (message.form, message.fields.as_slice()) {
            (Form::Object, fields) => {
                let mut typed = Vec::with_capacity(fields.len());
                for field in fields {
                    typed.push((field.name.clone(), self.field_type(field, around, counter)?));
                }
                Type::Struct(typed)
            }
            // Microseconds reach from the year 1 to 9999, as these types do. Nanoseconds do not.
            (Form::Timestamp, _) => Type::Timestamp(Unit::Micros, true),
            (Form::Duration, _) => Type::Duration(Unit::Micros),
            (Form::Bare, [field]) if field.is_scalar() => {
                self.field_type(field, around, counter)?
            }
            (Form::FieldMask | Form::Bare | Form::Any, _) => Type::Json,
        };
        around.pop();
        Ok(kind)
    }

    fn field_type(
        &self,
        field: &Field,
        around: &mut Vec<MessageId>,
        counter: &mut Counter,
    ) -> Result<Type> {
        counter.take()?;
        Ok(match (field.shape, field.kind) {
            (Shape::Map, Kind::Message(id)) => {
                let (_, key, value) = self.entry(id)?;
                let key = self.kind_type(key.kind, around, counter)?;
                let value = self.kind_type(value.kind, around, counter)?;
                Type::Map(Box::new(key), Box::new(value))
            }
            (Shape::Repeated, kind) => Type::List(Box::new(self.kind_type(kind, around, counter)?)),
            (_, kind) => self.kind_type(kind, around, counter)?,
        })
    }

    fn kind_type(
        &self,
        kind: Kind,
        around: &mut Vec<MessageId>,
        counter: &mut Counter,
    ) -> Result<Type> {
        Ok(match kind {
            Kind::Double => Type::Float64,
            Kind::Float => Type::Float32,
            Kind::Int32 | Kind::SInt32 | Kind::SFixed32 => Type::Int32,
            Kind::Int64 | Kind::SInt64 | Kind::SFixed64 => Type::Int64,
            Kind::UInt32 | Kind::Fixed32 => Type::UInt32,
            Kind::UInt64 | Kind::Fixed64 => Type::UInt64,
            Kind::Bool => Type::Boolean,
            Kind::String | Kind::Enum(_) => Type::Utf8,
            Kind::Bytes => Type::Binary,
            Kind::Message(id) => self.type_of(id, around, counter)?,
        })
    }
}

impl ProtobufPlan {
    /// Plans how messages of `writer` with the name of that of `reader` become values of a column, which may have more
    /// fields.
    pub(crate) fn new(
        writer: &ProtobufSchema,
        reader: &ProtobufSchema,
        column: &Type,
    ) -> Result<Self> {
        let root = reader.root()?;
        let name = reader.root_full_name();
        Ok(Self {
            root,
            written: name.as_deref().and_then(|name| writer.named_message(name)),
            name: name.unwrap_or_default(),
            step: reader.step(root, column)?,
        })
    }
}

impl ProtobufSchema {
    fn step(&self, id: MessageId, column: &Type) -> Result<Step> {
        let message = self.message(id)?;
        Ok(match (message.form, message.fields.as_slice(), column) {
            (_, _, Type::Json) => Step::Json,
            (Form::Timestamp, ..) => Step::Timestamp,
            (Form::Duration, ..) => Step::Duration,
            (Form::Bare, [field], _) => Step::Bare(field.kind),
            (Form::Object, fields, Type::Struct(columns)) => {
                let places: HashMap<&str, (u32, &Field)> = (0..)
                    .zip(fields)
                    .map(|(position, field)| (field.name.as_str(), (position, field)))
                    .collect();
                let mut absent = Vec::new();
                let mut to_columns: Vec<_> = fields.iter().map(|_| None).collect();
                for (at, (name, column)) in columns.iter().enumerate() {
                    let found = places.get(name.as_str());
                    match found.and_then(|&(position, field)| {
                        Some((to_columns.get_mut(position as usize)?, field))
                    }) {
                        Some((place, field)) => {
                            *place = Some((at, self.field_step(field, column)?))
                        }
                        None => absent.push(at),
                    }
                }
                let mut ways: Vec<_> = (0..)
                    .zip(fields)
                    .zip(to_columns)
                    .map(|((position, field), column)| Way {
                        scalar: match &column {
                            Some((_, Step::Scalar)) if field.oneof.is_none() => {
                                Some((Tag::new(field.number, field.kind.wire()), field.kind))
                            }
                            _ => None,
                        },
                        number: field.number,
                        position,
                        column,
                    })
                    .collect();
                ways.sort_unstable_by_key(|way| way.number);
                Step::Object(Object { ways, absent })
            }
            _ => return Err(Error::misfit()),
        })
    }

    fn field_step(&self, field: &Field, column: &Type) -> Result<Step> {
        Ok(match (field.shape, field.kind, column) {
            (_, _, Type::Json) => Step::Json,
            (Shape::Map, Kind::Message(id), Type::Map(_, column)) => {
                let (_, _, value) = self.entry(id)?;
                Step::Map(Box::new(self.kind_step(value.kind, column)?))
            }
            (Shape::Map, ..) => return Err(Error::misfit()),
            (Shape::Repeated, kind, Type::List(column)) => {
                Step::List(Box::new(self.kind_step(kind, column)?))
            }
            (Shape::Repeated, ..) => return Err(Error::misfit()),
            (_, kind, column) => self.kind_step(kind, column)?,
        })
    }

    fn kind_step(&self, kind: Kind, column: &Type) -> Result<Step> {
        match kind {
            Kind::Message(id) => self.step(id, column),
            _ if *column == Type::Json => Ok(Step::Json),
            _ => Ok(Step::Scalar),
        }
    }
}
