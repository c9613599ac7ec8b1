//! Schema resolution: bodies of one schema, the writer's, to values of another one, the reader's, in a column.

use std::collections::HashMap;

use crate::avro::schema::{AvroSchema, Field, Node, NodeId};
use crate::avro::types::{DURATION, member_name};
use crate::column_type::{Counter, Type};
use crate::encode::Budget;
use crate::limits::{Error, Result};
use crate::text::Unit;

/// The way from bodies of a schema to values of a column.
#[derive(Debug)]
pub(crate) struct AvroPlan {
    pub(super) root: Step,
    /// True if the body is bytes without a length.
    pub(super) is_bare: bool,
}

/// The next step from a body to a column.
#[derive(Debug)]
pub(super) enum Step {
    Null,
    Boolean,
    Int,
    Long,
    /// A time of a day; the flag is set for an int, and not for a long.
    Time(bool, Unit),
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    Uuid,
    /// The positions of the columns of its parts.
    Duration([usize; DURATION.len()]),
    /// The text of each symbol; None where the reader does not know it.
    Enum(Vec<Option<String>>),
    Decimal(Option<usize>),
    /// The size and the scale of a decimal that is text.
    DecimalText(Option<usize>, u32),
    Record(Box<Record>),
    /// The step of the items, and the columns of one.
    Array(Box<Step>),
    Map(Box<Step>),
    /// The step of each branch.
    Union(Vec<Step>),
    /// The value is a member of a union that is a struct.
    Member(usize, Box<Step>),
    /// The value as JSON text.
    Json(NodeId),
    /// The writer's type is none that the reader's may be resolved from.
    Unresolved(String),
}

#[derive(Debug, Default)]
pub(super) struct Record {
    /// The fields in the order of the writer.
    pub(super) fields: Vec<Source>,
    /// The columns that the writer has no field for.
    pub(super) missing: Vec<(usize, Missing)>,
}

#[derive(Debug)]
pub(super) enum Source {
    /// The field goes into the column of this position.
    Column(usize, Step),
    /// The reader has no such field.
    Skip(NodeId),
}

/// The value of a field that the writer does not have.
#[derive(Debug)]
pub(super) enum Missing {
    Null,
    /// The reader's default, as a body of the reader's schema.
    Default(Vec<u8>, Step),
}

impl AvroPlan {
    /// Plans how bodies of `writer` become values of a column. `reader` is the schema that they are resolved to; None: the
    /// column has the fields of several schemas, and those that `writer` does not have are null.
    pub(crate) fn new(
        writer: &AvroSchema,
        reader: Option<&AvroSchema>,
        column: &Type,
    ) -> Result<Self> {
        let is_union = reader.is_none();
        let reader = reader.unwrap_or(writer);
        let mut resolution = Resolution {
            writer,
            reader,
            is_union,
            counter: Counter::new(),
            default_counter: Counter::new(),
            budget: Budget::of_defaults(),
        };
        Ok(Self {
            root: resolution.step(writer.root, reader.root, column)?,
            is_bare: matches!(writer.node(writer.root)?, Node::Bytes),
        })
    }
}

struct Resolution<'a> {
    writer: &'a AvroSchema,
    reader: &'a AvroSchema,
    /// True if the column has the fields of several schemas.
    is_union: bool,
    counter: Counter,
    /// Counts the columns of defaults, and what they take.
    default_counter: Counter,
    budget: Budget,
}

impl Resolution<'_> {
    /// The step for a writer's value, a reader's type and the type of the column.
    fn step(&mut self, from: NodeId, to: NodeId, column: &Type) -> Result<Step> {
        let step = self.step_of_any(from, to, column)?;
        // Arrow has no other times.
        Ok(match (step, column) {
            (Step::Int, Type::Time(unit)) => Step::Time(true, *unit),
            (Step::Long, Type::Time(unit)) => Step::Time(false, *unit),
            (step, _) => step,
        })
    }

    fn step_of_any(&mut self, from: NodeId, to: NodeId, column: &Type) -> Result<Step> {
        self.counter.take()?;
        let (writer, reader) = (self.writer, self.reader);
        let (writes, reads) = (writer.node(from)?, reader.node(to)?);
        if let Node::Union(branches) = writes {
            let steps = branches
                .iter()
                .map(|&branch| self.step_or_not(branch, to, column))
                .collect();
            return Ok(Step::Union(steps));
        }
        let unresolved = || {
            Error::new(format!(
                "{} is written, and {} is read",
                writer.name(from),
                reader.name(to)
            ))
        };
        if *column == Type::Json {
            return match writes {
                _ if !self.may_be(from, to) => Err(unresolved()),
                Node::Null => Ok(Step::Null),
                _ => Ok(Step::Json(from)),
            };
        }
        if let Node::Union(branches) = reads {
            return self.read_as_union(from, branches, column);
        }
        Ok(match (writes, reads) {
            (Node::Null, Node::Null) => Step::Null,
            (Node::Boolean, Node::Boolean) => Step::Boolean,
            (Node::Int, Node::Int | Node::Long | Node::Float | Node::Double)
            | (Node::Date, Node::Date)
            | (Node::Int, Node::Date | Node::Time(_) | Node::Timestamp(..))
            | (Node::Date, Node::Int | Node::Long) => Step::Int,
            (Node::Time(Unit::Millis), Node::Time(Unit::Millis) | Node::Int | Node::Long) => {
                Step::Int
            }
            (Node::Long, Node::Long | Node::Float | Node::Double | Node::Timestamp(..)) => {
                Step::Long
            }
            (Node::Long, Node::Time(unit)) if *unit != Unit::Millis => Step::Long,
            (Node::Time(one), Node::Time(other)) if one == other => Step::Long,
            (Node::Timestamp(one, _), Node::Timestamp(other, _)) if one == other => Step::Long,
            (Node::Time(Unit::Micros | Unit::Nanos) | Node::Timestamp(..), Node::Long) => {
                Step::Long
            }
            (Node::Float, Node::Float | Node::Double) => Step::Float,
            (Node::Double, Node::Double) => Step::Double,
            (Node::Bytes, Node::Bytes) => Step::Bytes,
            (Node::Bytes | Node::String, Node::String) => Step::Text,
            (Node::String, Node::Bytes) => Step::Bytes,
            (Node::Fixed(one), Node::Fixed(other))
                if one == other && self.are_named_alike(from, to) =>
            {
                Step::Fixed(*one)
            }
            (Node::Uuid, Node::Uuid) if self.are_named_alike(from, to) => Step::Uuid,
            (Node::Duration, Node::Duration) if self.are_named_alike(from, to) => {
                Step::Duration(parts_of_duration(column)?)
            }
            (Node::Decimal { size: None, .. }, Node::Bytes) => Step::Bytes,
            (
                Node::Decimal {
                    size,
                    precision,
                    scale,
                },
                Node::Decimal {
                    precision: most,
                    scale: other,
                    ..
                },
            ) if scale == other && precision <= most && self.are_named_alike(from, to) => {
                match column {
                    Type::Utf8 => Step::DecimalText(*size, *scale),
                    _ => Step::Decimal(*size),
                }
            }
            (Node::Enum(written), Node::Enum(known)) if self.are_named_alike(from, to) => {
                let default = reader.names.get(&to).and_then(|name| name.default.as_ref());
                let default = default.filter(|symbol| known.contains(symbol));
                let texts = written.iter().map(|symbol| {
                    let own = known.contains(symbol).then_some(symbol);
                    own.or(default).cloned()
                });
                Step::Enum(texts.collect())
            }
            (Node::Record(written), Node::Record(known)) if self.are_named_alike(from, to) => {
                Step::Record(Box::new(self.record(written, known, column)?))
            }
            (Node::Array(items), Node::Array(known)) => match column {
                Type::List(column) => Step::Array(Box::new(self.step(*items, *known, column)?)),
                _ => return Err(unresolved()),
            },
            (Node::Map(values), Node::Map(known)) => match column {
                Type::Map(_, column) => Step::Map(Box::new(self.step(*values, *known, column)?)),
                _ => return Err(unresolved()),
            },
            _ => return Err(unresolved()),
        })
    }

    /// As [`Self::step`], but a value that cannot be resolved is an error only when there is one.
    fn step_or_not(&mut self, from: NodeId, to: NodeId, column: &Type) -> Step {
        self.step(from, to, column)
            .unwrap_or_else(|error| Step::Unresolved(error.to_string()))
    }

    /// The step for a value that is no union, and a reader's union.
    fn read_as_union(&mut self, from: NodeId, branches: &[NodeId], column: &Type) -> Result<Step> {
        if matches!(self.writer.node(from)?, Node::Null) {
            for &branch in branches {
                if matches!(self.reader.node(branch)?, Node::Null) {
                    return Ok(Step::Null);
                }
            }
        }
        let members = self.reader.members(branches)?;
        // First a type of the same name, then one that the value may be promoted to. A union has several types of one
        // kind only if they differ in their names, or in that one of them has none.
        let mut ordered: Vec<(usize, NodeId)> = members.branches.into_iter().enumerate().collect();
        if self.is_union {
            ordered.retain(|&(_, branch)| branch == from);
        }
        ordered.sort_by_key(|&(_, branch)| {
            (
                !self.is_exact(from, branch),
                !self.is_same_kind(from, branch),
            )
        });
        let mut first = None;
        for (at, branch) in ordered {
            let step = match (members.is_struct, column) {
                (false, column) => self.step(from, branch, column),
                (true, Type::Struct(columns)) => {
                    let name = member_name(at);
                    let found = (0..).zip(columns).find(|(_, (one, _))| *one == name);
                    let (position, (_, column)) = found.ok_or_else(Error::misfit)?;
                    self.step(from, branch, column)
                        .map(|step| Step::Member(position, Box::new(step)))
                }
                (true, _) => Err(Error::misfit()),
            };
            match step {
                Ok(step) => return Ok(step),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let written = self.writer.name(from);
        Err(first.unwrap_or_else(|| {
            Error::new(format!(
                "{written} is written, and no such branch of a union is read"
            ))
        }))
    }

    fn record(&mut self, written: &[Field], known: &[Field], column: &Type) -> Result<Record> {
        let Type::Struct(columns) = column else {
            return Err(Error::misfit());
        };
        let known = Known::new(known, columns);
        let mut record = Record::default();
        let mut is_filled = vec![false; columns.len()];
        for field in written {
            let Some((position, column, to)) = known.of(&field.name) else {
                record.fields.push(Source::Skip(field.node));
                continue;
            };
            let step = self
                .step(field.node, to.node, column)
                .map_err(|error| Error::new(format!("field {}: {error}", field.name)))?;
            record.fields.push(Source::Column(position, step));
            if let Some(filled) = is_filled.get_mut(position)
                && std::mem::replace(filled, true)
            {
                return Err(Error::new(format!("two fields are read as {}", to.name)));
            }
        }
        for (position, (name, column)) in columns.iter().enumerate() {
            if is_filled.get(position) == Some(&false) {
                let missing = match known.fields.get(name.as_str()) {
                    Some((_, _, field)) if !self.is_union => self.default(field, column)?,
                    _ => Missing::Null,
                };
                record.missing.push((position, missing));
            }
        }
        Ok(record)
    }

    fn default(&mut self, field: &Field, column: &Type) -> Result<Missing> {
        let value = field.default.as_ref().ok_or_else(|| {
            Error::new(format!(
                "field {} is not written, and has no default",
                field.name
            ))
        })?;
        let reader = self.reader;
        let body = reader.encode_default(field.node, value, &mut self.budget)?;
        let mut own = Resolution {
            writer: reader,
            reader,
            is_union: false,
            counter: std::mem::replace(&mut self.default_counter, Counter::new()),
            default_counter: Counter::new(),
            budget: Budget::of_defaults(),
        };
        let step = own.step(field.node, field.node, column);
        self.default_counter = own.counter;
        Ok(Missing::Default(body, step?))
    }

    /// True if the types are of the same kind, and have the same full name or none.
    fn is_exact(&self, from: NodeId, to: NodeId) -> bool {
        let is_named_so = match (self.writer.names.get(&from), self.reader.names.get(&to)) {
            (Some(one), Some(other)) => one.full == other.full || other.aliases.contains(&one.full),
            _ => true,
        };
        is_named_so && self.is_same_kind(from, to)
    }

    /// True if the types are of the same kind, and both have a name or none.
    fn is_same_kind(&self, from: NodeId, to: NodeId) -> bool {
        let (Ok(writes), Ok(reads)) = (self.writer.node(from), self.reader.node(to)) else {
            return false;
        };
        let is_unit_same = match (writes, reads) {
            (Node::Time(one), Node::Time(other)) => one == other,
            (Node::Timestamp(one, is_utc), Node::Timestamp(other, other_is_utc)) => {
                one == other && is_utc == other_is_utc
            }
            _ => true,
        };
        let is_named = self.writer.names.contains_key(&from);
        std::mem::discriminant(writes) == std::mem::discriminant(reads)
            && is_unit_same
            && is_named == self.reader.names.contains_key(&to)
    }

    /// False if a value that becomes JSON text is none of the reader's type. What is within the value is not resolved.
    fn may_be(&self, from: NodeId, to: NodeId) -> bool {
        let (Ok(writes), Ok(reads)) = (self.writer.node(from), self.reader.node(to)) else {
            return false;
        };
        if let Node::Union(branches) = reads {
            return branches.iter().any(|&branch| self.may_be(from, branch));
        }
        let is_leaf = |node: &Node| {
            !matches!(
                node,
                Node::Null | Node::Record(_) | Node::Array(_) | Node::Map(_)
            )
        };
        is_leaf(writes) && is_leaf(reads)
            || std::mem::discriminant(writes) == std::mem::discriminant(reads)
                && self.are_named_alike(from, to)
    }

    /// True if two named types have the same name without a namespace, or one is an alias of the other.
    fn are_named_alike(&self, from: NodeId, to: NodeId) -> bool {
        match (self.writer.names.get(&from), self.reader.names.get(&to)) {
            (Some(one), Some(other)) => {
                one.short() == other.short() || other.aliases.contains(&one.full)
            }
            _ => true,
        }
    }
}

/// The fields of a reader's record, by their names, with the position and the type of their columns.
struct Known<'a> {
    fields: HashMap<&'a str, (usize, &'a Type, &'a Field)>,
    aliases: HashMap<&'a str, &'a str>,
}

impl<'a> Known<'a> {
    fn new(known: &'a [Field], columns: &'a [(String, Type)]) -> Self {
        let columns: HashMap<&str, (usize, &Type)> = (0..)
            .zip(columns)
            .map(|(at, (name, kind))| (name.as_str(), (at, kind)))
            .collect();
        let mut aliases = HashMap::new();
        let mut fields = HashMap::new();
        for field in known {
            if let Some(&(at, kind)) = columns.get(field.name.as_str()) {
                fields.insert(field.name.as_str(), (at, kind, field));
            }
            for alias in &field.aliases {
                aliases.insert(alias.as_str(), field.name.as_str());
            }
        }
        Self { fields, aliases }
    }

    /// The field that a writer's field is read as.
    fn of(&self, written: &str) -> Option<(usize, &'a Type, &'a Field)> {
        let by_alias = || self.fields.get(self.aliases.get(written)?);
        self.fields.get(written).or_else(by_alias).copied()
    }
}

/// The positions of the columns of a duration. Those of several schemas may have the fields of a record among them.
fn parts_of_duration(column: &Type) -> Result<[usize; DURATION.len()]> {
    let Type::Struct(columns) = column else {
        return Err(Error::misfit());
    };
    let mut positions = [0; DURATION.len()];
    for (position, name) in positions.iter_mut().zip(DURATION) {
        let found = columns.iter().position(|(one, _)| one == name);
        *position = found.ok_or_else(Error::misfit)?;
    }
    Ok(positions)
}
