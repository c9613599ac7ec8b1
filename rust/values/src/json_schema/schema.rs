//! The type of a column for a schema.

use std::collections::HashMap;

use crate::column_type::{Counter, MOST_LEVELS, Type};
use crate::json_schema::document::Part;
use crate::limits::Result;

/// The most schemas around a schema. A map takes two levels of columns.
const MOST_AROUND: usize = MOST_LEVELS / 2;
/// The most bytes and values that all steps look at. A step may look at long texts and lists again.
const MOST_WORK: usize = 4 << 20;
/// The keywords by which other schemas add to the members that `unevaluatedProperties` knows.
const ADDING: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "$dynamicRef",
    "$recursiveRef",
];

/// A JSON Schema.
#[derive(Debug)]
pub struct JsonSchema {
    kind: Result<Type>,
    types: usize,
}

impl JsonSchema {
    /// Parses a schema. Every text is one: what it does not describe stays JSON text.
    ///
    /// `references` are the names and texts of the schemas that it refers to.
    pub(crate) fn parse(text: &str, references: &[(String, String)]) -> Self {
        let Ok(root) = serde_json::from_str(text) else {
            return Self {
                kind: Ok(Type::Json),
                types: 1,
            };
        };
        let parsed: Vec<(&str, Part)> = references
            .iter()
            .filter_map(|(name, text)| Some((name.as_str(), serde_json::from_str(text).ok()?)))
            .collect();
        // A name counts for more than what a schema calls itself.
        let own = parsed.iter().map(|(_, part)| part).chain([&root]);
        let documents = own
            .filter_map(|part| Some((identifier(part)?, part)))
            .chain(parsed.iter().map(|(name, part)| (*name, part)))
            .collect();
        let mut typing = Typing {
            documents,
            around: Vec::new(),
            counter: Counter::new(),
            work: 0,
            // Draft 7 and those before it have no such keyword.
            has_unevaluated: (root.get("$schema").and_then(Part::text))
                .is_none_or(|draft| !draft.contains("json-schema.org/draft-0")),
        };
        let kind = typing.type_of(&root, &root);
        Self {
            kind,
            types: typing.counter.taken(),
        }
    }

    /// The type of a column with the values of this schema.
    pub(crate) fn column_type(&self) -> Result<Type> {
        self.kind.clone()
    }

    /// The number of types in the schema.
    pub(crate) fn types(&self) -> usize {
        self.types
    }
}

/// The URI that a schema gives itself. Draft 4 has `id`. A fragment is a name within the schema around it.
fn identifier(part: &Part) -> Option<&str> {
    let named = part.get("$id").or_else(|| part.get("id"))?.text()?;
    (!named.starts_with('#')).then(|| named.trim_end_matches('#'))
}

struct Typing<'s> {
    /// The schemas that others refer to, by their names and URIs.
    documents: HashMap<&'s str, &'s Part>,
    /// The schemas that a schema is within.
    around: Vec<&'s Part>,
    counter: Counter,
    /// The bytes and values that the steps so far looked at.
    work: usize,
    /// True if the keyword `unevaluatedProperties` means something.
    has_unevaluated: bool,
}

impl<'s> Typing<'s> {
    /// The type of a part of the document `root`. A schema within itself is JSON text, and so is one that is nested too
    /// deep for a column.
    fn type_of(&mut self, part: &'s Part, root: &'s Part) -> Result<Type> {
        self.counter.take()?;
        let is_within = self.around.iter().any(|&one| std::ptr::eq(one, part));
        self.work += looked_at(part, root);
        if is_within || self.around.len() >= MOST_AROUND || self.work > MOST_WORK {
            return Ok(Type::Json);
        }
        self.around.push(part);
        let kind = self.type_within(part, root);
        self.around.pop();
        kind
    }

    /// The type of a part that `around` has. Several keywords only narrow each other down, so the values of the part have
    /// the type that one of them gives.
    fn type_within(&mut self, part: &'s Part, root: &'s Part) -> Result<Type> {
        let root = if identifier(part).is_some() {
            part
        } else {
            root
        };
        if let Some(reference) = part.get("$ref") {
            // Before 2019-09, the keywords beside it are ignored.
            let found = reference.text().and_then(|text| self.find(text, root));
            return found.map_or(Ok(Type::Json), |(part, root)| self.type_of(part, root));
        }
        let kinds: Option<Vec<&str>> = match part.get("type") {
            Some(Part::List(kinds)) => kinds.iter().map(Part::text).collect(),
            Some(kind) => kind.text().map(|kind| vec![kind]),
            None => return self.type_of_others(part, root),
        };
        let kinds = kinds.unwrap_or_default();
        let others: Vec<&str> = (kinds.iter().copied())
            .filter(|&kind| kind != "null")
            .collect();
        Ok(match others.as_slice() {
            [] if !kinds.is_empty() => Type::Null,
            ["boolean"] => Type::Boolean,
            ["integer"] => Type::Int64,
            ["number"] => Type::Float64,
            ["string"] => Type::Utf8,
            ["array"] => match part.get("items") {
                // Before 2020-12, a list has a schema for each item.
                Some(items @ (Part::Object(_) | Part::Boolean(_)))
                    if part.get("prefixItems").is_none() =>
                {
                    Type::List(Box::new(self.type_of(items, root)?))
                }
                _ => Type::Json,
            },
            ["object"] => self.type_of_object(part, root)?,
            _ => Type::Json,
        })
    }

    /// The type of a part without the keyword `type`.
    fn type_of_others(&mut self, part: &'s Part, root: &'s Part) -> Result<Type> {
        if let Some(Part::List(values)) = part.get("enum")
            && values.iter().any(|value| value.text().is_some())
            && (values.iter()).all(|value| matches!(value, Part::Text(_) | Part::Null))
        {
            return Ok(Type::Utf8);
        }
        let is_null = |part: &Part| part.get("type").and_then(Part::text) == Some("null");
        for name in ["anyOf", "oneOf"] {
            let Some(Part::List(parts)) = part.get(name) else {
                continue;
            };
            match parts.as_slice() {
                [null, one] | [one, null] if is_null(null) => return self.type_of(one, root),
                _ => {}
            }
        }
        Ok(Type::Json)
    }

    /// The type of an object: a struct if no other members are allowed than those with a column.
    fn type_of_object(&mut self, part: &'s Part, root: &'s Part) -> Result<Type> {
        let additional = part.get("additionalProperties");
        let is_closed = match additional {
            Some(additional) => matches!(additional, Part::Boolean(false)),
            None => {
                let unevaluated = part.get("unevaluatedProperties");
                self.has_unevaluated
                    && matches!(unevaluated, Some(Part::Boolean(false)))
                    && ADDING.iter().all(|name| part.get(name).is_none())
            }
        };
        if part.get("patternProperties").is_some_and(Part::has_members) {
            return Ok(Type::Json);
        }
        let properties = part.get("properties").filter(|part| part.has_members());
        match (properties, additional) {
            (Some(properties), _) if is_closed => {
                let members = properties.members();
                // Arrow's C data interface ends a name at a zero byte.
                if members.iter().any(|(name, _)| name.contains('\0')) {
                    return Ok(Type::Json);
                }
                let mut fields = Vec::with_capacity(members.len());
                for (name, member) in members {
                    fields.push((name.to_owned(), self.type_of(member, root)?));
                }
                Ok(Type::Struct(fields))
            }
            (None, Some(values)) if values.has_members() => {
                let values = self.type_of(values, root)?;
                Ok(Type::Map(Box::new(Type::Utf8), Box::new(values)))
            }
            _ => Ok(Type::Json),
        }
    }

    /// The part that a reference in `root` names, and the document that it is in.
    fn find(&self, reference: &str, root: &'s Part) -> Option<(&'s Part, &'s Part)> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = if uri.is_empty() {
            root
        } else {
            let found = self.documents.get(uri).or_else(|| {
                // A relative URI: a name beside that of the schema.
                let (directory, _) = identifier(root)?.rsplit_once('/')?;
                self.documents.get(format!("{directory}/{uri}").as_str())
            });
            found.copied()?
        };
        let is_pointer = fragment.is_empty() || fragment.starts_with('/');
        let mut root = document;
        let part = document.at(&decoded(fragment), |part| {
            if identifier(part).is_some() {
                root = part;
            }
        });
        Some((part.filter(|_| is_pointer)?, root))
    }
}

/// The bytes and values that the step to a type looks at, about.
fn looked_at(part: &Part, root: &Part) -> usize {
    let length = |part: &Part, name| match part.get(name) {
        Some(Part::Text(text)) => text.len(),
        Some(Part::List(parts)) => parts.len(),
        _ => 0,
    };
    let of_root = length(root, "$id") + length(root, "id");
    let of_part = ["$ref", "$id", "id", "type", "enum"].map(|name| length(part, name));
    of_root + of_part.iter().sum::<usize>()
}

/// The text of a URI's fragment, in which `%20` is a space.
fn decoded(fragment: &str) -> String {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or(("", part));
        match u8::from_str_radix(code, 16) {
            Ok(byte) => bytes.push(byte),
            Err(_) => {
                bytes.push(b'%');
                bytes.extend(code.as_bytes());
            }
        }
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
