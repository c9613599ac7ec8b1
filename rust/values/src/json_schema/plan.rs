//! The steps from JSON text to a column.

use std::collections::HashMap;

use crate::column_type::Type;
use crate::limits::{Error, Result};

/// The way from bodies to values of a column. It depends on the type of the column alone: a body names its members.
#[derive(Debug)]
pub(crate) struct JsonPlan {
    pub(super) root: Step,
}

/// The step from a value to a column.
#[derive(Debug)]
pub(super) enum Step {
    Null,
    Boolean,
    Integer,
    Number,
    Text,
    Object(Object),
    List(Box<Step>),
    Map(Box<Step>),
    /// The value as JSON text.
    Json,
}

/// An object whose members have columns.
#[derive(Debug)]
pub(super) struct Object {
    /// The name and the step of each column. None: it is of a type that no JSON Schema gives.
    pub(super) fields: Vec<(String, Option<Step>)>,
    positions: HashMap<String, usize>,
}

impl JsonPlan {
    pub(crate) fn new(column: &Type) -> Result<Self> {
        let root = Step::new(column).ok_or_else(Error::misfit)?;
        Ok(Self { root })
    }
}

impl Step {
    fn new(column: &Type) -> Option<Self> {
        let boxed = |column: &Type| Some(Box::new(Self::new(column)?));
        Some(match column {
            Type::Null => Self::Null,
            Type::Boolean => Self::Boolean,
            Type::Int64 => Self::Integer,
            Type::Float64 => Self::Number,
            Type::Utf8 => Self::Text,
            Type::Json => Self::Json,
            Type::Struct(fields) => {
                let names = fields.iter().map(|(name, _)| name.clone());
                let steps = fields
                    .iter()
                    .map(|(name, column)| (name.clone(), Self::new(column)));
                Self::Object(Object {
                    fields: steps.collect(),
                    positions: names.zip(0..).collect(),
                })
            }
            Type::List(items) => Self::List(boxed(items)?),
            Type::Map(keys, values) if **keys == Type::Utf8 => Self::Map(boxed(values)?),
            _ => return None,
        })
    }

    /// The kind of value that is expected.
    pub(super) fn expected(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Integer => "an integer of 64 bits",
            Self::Number => "a number that a double holds",
            Self::Text => "text",
            Self::Object(_) | Self::Map(_) => "an object",
            Self::List(_) => "an array",
            Self::Json => "JSON",
        }
    }
}

impl Object {
    /// The position of a member's column, which mostly is the one after the last member's.
    pub(super) fn position(&self, name: &str, next: usize) -> Option<usize> {
        match self.fields.get(next) {
            Some((known, _)) if known == name => Some(next),
            _ => self.positions.get(name).copied(),
        }
    }
}
