//! The JSON of a schema.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value of a schema's JSON.
#[derive(Debug)]
pub(super) enum Part {
    Null,
    Boolean(bool),
    Number,
    Text(String),
    List(Vec<Part>),
    /// Each member, and its place among them: columns have the order of the schema.
    Object(HashMap<String, (usize, Part)>),
}

impl Part {
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(name).map(|(_, part)| part),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The members of an object in their order; of anything else, none.
    pub(super) fn members(&self) -> Vec<(&str, &Self)> {
        let Self::Object(members) = self else {
            return Vec::new();
        };
        let mut listed: Vec<_> = members.iter().collect();
        listed.sort_unstable_by_key(|(_, (place, _))| *place);
        let named = listed
            .into_iter()
            .map(|(name, (_, part))| (name.as_str(), part));
        named.collect()
    }

    /// True for an object with members.
    pub(super) fn has_members(&self) -> bool {
        matches!(self, Self::Object(members) if !members.is_empty())
    }

    /// The part that a JSON pointer leads to from this one. `pass` is called with each part on the way.
    pub(super) fn at<'p>(
        &'p self,
        pointer: &str,
        mut pass: impl FnMut(&'p Self),
    ) -> Option<&'p Self> {
        pointer.split('/').skip(1).try_fold(self, |part, name| {
            let name = name.replace("~1", "/").replace("~0", "~");
            let part = match part {
                Self::List(parts) => parts.get(name.parse::<usize>().ok()?),
                _ => part.get(&name),
            }?;
            pass(part);
            Some(part)
        })
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Parts)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Part;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Part, E> {
        Ok(Part::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Part, E> {
        Ok(Part::Boolean(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Part, E> {
        Ok(Part::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Part, E> {
        Ok(Part::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Part, E> {
        Ok(Part::Number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Part, E> {
        Ok(Part::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Part, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = input.next_element()? {
            parts.push(part);
        }
        Ok(Part::List(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Part, A::Error> {
        let mut members = HashMap::new();
        let mut place = 0;
        // Of members with the same name, the last one counts.
        while let Some((name, part)) = input.next_entry::<String, Part>()? {
            members.insert(name, (place, part));
            place += 1;
        }
        Ok(Part::Object(members))
    }
}
