//! The types of columns: those of Arrow that keys and values have.

use crate::limits::{Error, Result};
use crate::text::Unit;

/// The most columns of a type: a type that several fields share has its columns in each of them.
const MOST_COLUMNS: usize = 20_000;

/// The most levels of columns in columns. Arrow's C data interface takes 64, with the batch and the leaf, and a schema
/// with many more would overflow the stack.
pub(crate) const MOST_LEVELS: usize = 60;

/// The type of a column. Every column may have nulls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Nothing but nulls.
    Null,
    /// True or false.
    Boolean,
    /// A signed number of 32 bits.
    Int32,
    /// A signed number of 64 bits.
    Int64,
    /// An unsigned number of 32 bits.
    UInt32,
    /// An unsigned number of 64 bits.
    UInt64,
    /// A number of IEEE 754 of 32 bits.
    Float32,
    /// A number of IEEE 754 of 64 bits.
    Float64,
    /// Bytes.
    Binary,
    /// Text.
    Utf8,
    /// Text that is JSON.
    Json,
    /// Days since 1970, in 32 bits.
    Date,
    /// The time of a day: 32 bits of milliseconds, else 64 bits.
    Time(Unit),
    /// A point in time since 1970: in UTC if the flag is set, else in no time zone.
    Timestamp(Unit, bool),
    /// A span of time.
    Duration(Unit),
    /// The number of digits, and how many of them follow the point: 128 bits up to 38 digits, else 256.
    Decimal(u8, u8),
    /// Named columns.
    Struct(Vec<(String, Type)>),
    /// Any number of values.
    List(Box<Type>),
    /// Any number of values, each with a key.
    Map(Box<Type>, Box<Type>),
}

/// Counts the columns of a type that is made.
#[derive(Debug)]
pub(crate) struct Counter(usize);

impl Counter {
    pub(crate) fn new() -> Self {
        Self(MOST_COLUMNS)
    }

    /// The number of columns so far.
    pub(crate) fn taken(&self) -> usize {
        MOST_COLUMNS - self.0
    }

    pub(crate) fn take(&mut self) -> Result<()> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| {
            Error::new(format!(
                "the schema has more than {MOST_COLUMNS} columns: read it as JSON text"
            ))
        })?;
        Ok(())
    }
}

impl Type {
    /// The type that holds the values of both. Where there is none, it is [`Type::Json`].
    pub fn merge(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Null, one) | (one, Self::Null) => one,
            (Self::Struct(one), Self::Struct(other)) => Self::Struct(merge_fields(one, other)),
            (Self::List(one), Self::List(other)) => Self::List(Box::new(one.merge(*other))),
            (Self::Map(key, one), Self::Map(other_key, other)) if key == other_key => {
                Self::Map(key, Box::new(one.merge(*other)))
            }
            (Self::Decimal(digits, scale), Self::Decimal(other_digits, other_scale))
                if scale == other_scale =>
            {
                Self::Decimal(digits.max(other_digits), scale)
            }
            (one, other) => match (one.rank(), other.rank()) {
                (Some(rank), Some(other_rank)) => Self::of_rank(rank.max(other_rank)),
                _ => Self::Json,
            },
        }
    }

    /// The place of a number's type among those that it may be promoted to.
    fn rank(&self) -> Option<u8> {
        Some(match self {
            Self::Int32 => 0,
            Self::UInt32 => 1,
            Self::Int64 => 2,
            Self::Float32 => 3,
            Self::Float64 => 4,
            _ => return None,
        })
    }

    fn of_rank(rank: u8) -> Self {
        // All numbers of 32 bits fit into 64 bits. A float has no more than 24 bits of an integer.
        if rank < 3 { Self::Int64 } else { Self::Float64 }
    }
}

fn merge_fields(mut one: Vec<(String, Type)>, other: Vec<(String, Type)>) -> Vec<(String, Type)> {
    for (name, kind) in other {
        match one.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = std::mem::replace(known, Type::Null).merge(kind),
            None => one.push((name, kind)),
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(listed: &[(&str, Type)]) -> Type {
        let owned = listed
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.clone()));
        Type::Struct(owned.collect())
    }

    #[test]
    fn a_merged_type_holds_the_values_of_both() {
        let old = fields(&[
            ("id", Type::Int32),
            ("name", Type::Utf8),
            ("odd", Type::Boolean),
        ]);
        let new = fields(&[
            ("id", Type::Int64),
            ("odd", Type::Utf8),
            ("tags", Type::List(Box::new(Type::Utf8))),
        ]);
        let merged = fields(&[
            ("id", Type::Int64),
            ("name", Type::Utf8),
            ("odd", Type::Json),
            ("tags", Type::List(Box::new(Type::Utf8))),
        ]);
        assert_eq!(old.merge(new), merged);
    }

    #[test]
    fn numbers_are_promoted_only_to_types_that_hold_them() {
        assert_eq!(Type::Int64.merge(Type::Float32), Type::Float64);
        assert_eq!(Type::UInt32.merge(Type::Int32), Type::Int64);
        assert_eq!(Type::UInt64.merge(Type::Int64), Type::Json);
        assert_eq!(Type::Date.merge(Type::Int32), Type::Json);
        assert_eq!(Type::Null.merge(Type::Date), Type::Date);
    }
}
