//! The types of columns for Avro's types.

use crate::avro::schema::{AvroSchema, Node, NodeId};
use crate::column_type::{Counter, MOST_LEVELS, Type};
use crate::limits::Result;

/// The most digits of a decimal of 256 bits.
const MOST_DIGITS: usize = 76;
/// The most types around a type that is no leaf. A map takes two levels of columns.
const MOST_AROUND: usize = MOST_LEVELS / 2;
/// The names of the parts of a duration.
pub(super) const DURATION: [&str; 3] = ["months", "days", "millis"];

/// The branches of a union that are not null.
#[derive(Debug)]
pub(super) struct Members {
    pub(super) branches: Vec<NodeId>,
    /// True if the union is a struct of its members, of which one is not null, as Spark's `from_avro` has it.
    /// Otherwise all branches have one type, or are promoted to it.
    pub(super) is_struct: bool,
}

/// The name of a member's column.
pub(super) fn member_name(at: usize) -> String {
    format!("member{at}")
}

impl AvroSchema {
    /// The type of a column with the values of this schema. A type within itself is JSON text, and so is one that is nested
    /// too deep for a column.
    pub(crate) fn column_type(&self) -> Result<Type> {
        self.type_of(self.root, &mut Vec::new(), &mut Counter::new())
    }

    /// The type of a node. `around` are the nodes that it is within.
    pub(super) fn type_of(
        &self,
        id: NodeId,
        around: &mut Vec<NodeId>,
        counter: &mut Counter,
    ) -> Result<Type> {
        counter.take()?;
        let is_nest = matches!(
            self.node(id)?,
            Node::Record(_) | Node::Array(_) | Node::Map(_) | Node::Union(_)
        );
        if around.contains(&id) || is_nest && around.len() >= MOST_AROUND {
            return Ok(Type::Json);
        }
        around.push(id);
        let kind = self.type_within(id, around, counter);
        around.pop();
        kind
    }

    fn type_within(
        &self,
        id: NodeId,
        around: &mut Vec<NodeId>,
        counter: &mut Counter,
    ) -> Result<Type> {
        Ok(match self.node(id)? {
            Node::Null => Type::Null,
            Node::Boolean => Type::Boolean,
            Node::Int => Type::Int32,
            Node::Long => Type::Int64,
            Node::Float => Type::Float32,
            Node::Double => Type::Float64,
            Node::Bytes | Node::Fixed(_) => Type::Binary,
            Node::String | Node::Enum(_) | Node::Uuid => Type::Utf8,
            Node::Record(fields) => {
                let mut typed = Vec::with_capacity(fields.len());
                for field in fields {
                    typed.push((
                        field.name.clone(),
                        self.type_of(field.node, around, counter)?,
                    ));
                }
                Type::Struct(typed)
            }
            Node::Array(items) => Type::List(Box::new(self.type_of(*items, around, counter)?)),
            Node::Map(values) => {
                let values = self.type_of(*values, around, counter)?;
                Type::Map(Box::new(Type::Utf8), Box::new(values))
            }
            Node::Union(branches) => {
                let members = self.members(branches)?;
                let mut kinds = Vec::with_capacity(members.branches.len());
                for branch in members.branches {
                    kinds.push(self.type_of(branch, around, counter)?);
                }
                if members.is_struct {
                    Type::Struct((0..).map(member_name).zip(kinds).collect())
                } else {
                    kinds.into_iter().fold(Type::Null, Type::merge)
                }
            }
            Node::Date => Type::Date,
            Node::Time(unit) => Type::Time(*unit),
            Node::Timestamp(unit, is_utc) => Type::Timestamp(*unit, *is_utc),
            Node::Decimal {
                precision, scale, ..
            } => match (u8::try_from(*precision), u8::try_from(*scale)) {
                (Ok(precision), Ok(scale)) if usize::from(precision) <= MOST_DIGITS => {
                    Type::Decimal(precision, scale)
                }
                _ => Type::Utf8,
            },
            Node::Duration => {
                Type::Struct(DURATION.map(|name| (name.to_owned(), Type::Int64)).into())
            }
        })
    }

    /// The members of a union.
    pub(super) fn members(&self, branches: &[NodeId]) -> Result<Members> {
        let mut found = Vec::with_capacity(branches.len());
        let mut nodes = Vec::with_capacity(branches.len());
        for &branch in branches {
            let node = self.node(branch)?;
            if !matches!(node, Node::Null) {
                found.push(branch);
                nodes.push(node);
            }
        }
        let is_one = matches!(
            nodes.as_slice(),
            [] | [_]
                | [Node::Int, Node::Long]
                | [Node::Long, Node::Int]
                | [Node::Float, Node::Double]
                | [Node::Double, Node::Float]
        );
        Ok(Members {
            branches: found,
            is_struct: !is_one,
        })
    }
}
