//! An Avro schema, parsed into nodes that refer to each other by number, so that a type may contain itself.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::limits::{Error, Result};
use crate::text::Unit;

/// The most nodes of a schema, with all that it refers to.
const MOST_NODES: usize = 1 << 20;

/// The most digits after the point of a decimal. Even a decimal of one byte has all of them in its text.
const MOST_SCALE: usize = 10_000;

/// The number of a node.
pub(crate) type NodeId = usize;

/// A type.
#[derive(Debug)]
pub(crate) enum Node {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Record(Vec<Field>),
    Enum(Vec<String>),
    Fixed(usize),
    Array(NodeId),
    Map(NodeId),
    Union(Vec<NodeId>),
    Date,
    Time(Unit),
    /// In UTC if the flag is set, else local.
    Timestamp(Unit, bool),
    /// A number in bytes, or in a fixed size of them.
    Decimal {
        size: Option<usize>,
        precision: usize,
        scale: u32,
    },
    /// Sixteen bytes. A uuid that is a string is a string.
    Uuid,
    /// Months, days and milliseconds.
    Duration,
}

/// A field of a record.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) node: NodeId,
    /// Its earlier names.
    pub(crate) aliases: Vec<String>,
    /// Its value in data that was written without it.
    pub(crate) default: Option<Value>,
}

/// The name of a record, an enum or a fixed type, with the namespace.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) full: String,
    pub(crate) aliases: Vec<String>,
    /// The symbol of an enum for those that it does not know.
    pub(crate) default: Option<String>,
}

impl Name {
    /// The name without the namespace.
    pub(crate) fn short(&self) -> &str {
        self.full.rsplit('.').next().unwrap_or_default()
    }
}

/// An Avro schema.
#[derive(Debug)]
pub struct AvroSchema {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: HashMap<NodeId, Name>,
    pub(crate) root: NodeId,
}

impl AvroSchema {
    /// Parses a schema. `references` are the texts of the schemas that it refers to, each after those that it refers to
    /// itself: their named types are known in `text`.
    pub fn parse<'a>(text: &str, references: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut parser = Parser::default();
        for reference in references {
            parser.parse(reference)?;
        }
        let root = parser.parse(text)?;
        Ok(Self {
            nodes: parser.nodes,
            names: parser.names,
            root,
        })
    }

    pub(crate) fn node(&self, id: NodeId) -> Result<&Node> {
        self.nodes
            .get(id)
            .ok_or_else(|| Error::new("the schema has a type that is not there"))
    }

    /// The name of a type in errors.
    pub(super) fn name(&self, id: NodeId) -> String {
        let kind = match self.node(id) {
            Ok(Node::Null) => "null",
            Ok(Node::Boolean) => "boolean",
            Ok(Node::Int) => "int",
            Ok(Node::Long) => "long",
            Ok(Node::Float) => "float",
            Ok(Node::Double) => "double",
            Ok(Node::Bytes) => "bytes",
            Ok(Node::String) => "string",
            Ok(Node::Record(_)) => "record",
            Ok(Node::Enum(_)) => "enum",
            Ok(Node::Fixed(_)) => "fixed",
            Ok(Node::Array(_)) => "array",
            Ok(Node::Map(_)) => "map",
            Ok(Node::Union(_)) => "union",
            Ok(Node::Date) => "date",
            Ok(Node::Time(_)) => "time",
            Ok(Node::Timestamp(..)) => "timestamp",
            Ok(Node::Decimal { .. }) => "decimal",
            Ok(Node::Uuid) => "uuid",
            Ok(Node::Duration) => "duration",
            Err(_) => "nothing",
        };
        match self.names.get(&id) {
            Some(name) => format!("{kind} {}", name.full),
            None => kind.to_owned(),
        }
    }

    /// The number of types.
    pub(crate) fn types(&self) -> usize {
        self.nodes.len()
    }
}

#[derive(Debug, Default)]
struct Parser {
    nodes: Vec<Node>,
    names: HashMap<NodeId, Name>,
    /// Named types, by their full names.
    named: HashMap<String, NodeId>,
}

impl Parser {
    fn parse(&mut self, text: &str) -> Result<NodeId> {
        // The parser of JSON limits the depth, and so the depth of `node`.
        let value = serde_json::from_str(text)
            .or_else(|error| {
                // Registries also keep the bare name of a type.
                let name = text.trim();
                let is_name = name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
                if is_name && !name.is_empty() {
                    Ok(Value::from(name))
                } else {
                    Err(error)
                }
            })
            .map_err(|error| Error::new(format!("the schema is no JSON: {error}")))?;
        self.node(&value, "")
    }

    fn add(&mut self, node: Node) -> Result<NodeId> {
        if self.nodes.len() >= MOST_NODES {
            return Err(Error::new(format!(
                "the schema has more than {MOST_NODES} types"
            )));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    /// Adds a type. `namespace` is that of the type around it.
    fn node(&mut self, value: &Value, namespace: &str) -> Result<NodeId> {
        match value {
            Value::String(name) => self.by_name(name, namespace),
            Value::Array(branches) => {
                let branches = branches
                    .iter()
                    .map(|branch| self.node(branch, namespace))
                    .collect::<Result<_>>()?;
                self.add(Node::Union(branches))
            }
            Value::Object(object) => self.object(object, namespace),
            _ => Err(Error::new("a type is neither a name, a list nor an object")),
        }
    }

    fn by_name(&mut self, name: &str, namespace: &str) -> Result<NodeId> {
        if let Some(node) = primitive(name) {
            return self.add(node);
        }
        let full = full_name(name, namespace);
        self.named
            .get(&full)
            .or_else(|| self.named.get(name))
            .copied()
            .ok_or_else(|| Error::new(format!("the type {full} is not defined")))
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<NodeId> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            // {"type": {"type": ...}}, and a union within an object
            Some(inner @ (Value::Object(_) | Value::Array(_))) => {
                return self.node(inner, namespace);
            }
            _ => return Err(Error::new("a type has no name")),
        };
        match kind {
            "record" | "error" => self.record(object, namespace),
            "enum" => {
                let symbols = strings(object, "symbols")?;
                self.named(object, namespace, Node::Enum(symbols))
            }
            "fixed" => {
                let size =
                    number(object, "size").ok_or_else(|| Error::new("a fixed type has no size"))?;
                let node = logical(object, Some(size)).unwrap_or(Node::Fixed(size));
                self.named(object, namespace, node)
            }
            "array" => {
                let items = self.inner(object, "items", namespace)?;
                self.add(Node::Array(items))
            }
            "map" => {
                let values = self.inner(object, "values", namespace)?;
                self.add(Node::Map(values))
            }
            _ => match primitive(kind) {
                Some(node) => self.add(logical_of(object, kind).unwrap_or(node)),
                None => self.by_name(kind, namespace),
            },
        }
    }

    fn inner(
        &mut self,
        object: &Map<String, Value>,
        name: &str,
        namespace: &str,
    ) -> Result<NodeId> {
        let inner = object
            .get(name)
            .ok_or_else(|| Error::new(format!("an array or map has no {name}")))?;
        self.node(inner, namespace)
    }

    fn record(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<NodeId> {
        // A field may have the type of the record itself, so the record is known before its fields.
        let id = self.named(object, namespace, Node::Record(Vec::new()))?;
        let name = string(object, "name").unwrap_or_default();
        let inner = namespace_of(name, string(object, "namespace"), namespace).to_owned();
        let Some(Value::Array(listed)) = object.get("fields") else {
            return Err(Error::new("a record has no fields"));
        };
        let mut fields = Vec::with_capacity(listed.len());
        for field in listed {
            let field = field
                .as_object()
                .ok_or_else(|| Error::new("a field is no object"))?;
            let name = string(field, "name").ok_or_else(|| Error::new("a field has no name"))?;
            let kind = field
                .get("type")
                .ok_or_else(|| Error::new(format!("the field {name} has no type")))?;
            fields.push(Field {
                name: name.to_owned(),
                node: self.node(kind, &inner)?,
                aliases: listed_strings(field, "aliases"),
                default: field.get("default").cloned(),
            });
        }
        if let Some(node) = self.nodes.get_mut(id) {
            *node = Node::Record(fields);
        }
        Ok(id)
    }

    /// Adds a type that has a name. A name that is known already keeps its first type, as two subjects may both define a
    /// type that a third one refers to.
    fn named(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        node: Node,
    ) -> Result<NodeId> {
        let name = string(object, "name").ok_or_else(|| Error::new("a named type has no name"))?;
        let own = namespace_of(name, string(object, "namespace"), namespace);
        let full = full_name(name, own);
        let id = self.add(node)?;
        let aliases = listed_strings(object, "aliases");
        let aliases = aliases.iter().map(|alias| full_name(alias, own));
        let known = Name {
            full: full.clone(),
            aliases: aliases.collect(),
            default: string(object, "default").map(str::to_owned),
        };
        self.names.insert(id, known);
        self.named.insert(full, id);
        Ok(id)
    }
}

fn primitive(name: &str) -> Option<Node> {
    Some(match name {
        "null" => Node::Null,
        "boolean" => Node::Boolean,
        "int" => Node::Int,
        "long" => Node::Long,
        "float" => Node::Float,
        "double" => Node::Double,
        "bytes" => Node::Bytes,
        "string" => Node::String,
        _ => return None,
    })
}

/// The logical type of a primitive. One that does not fit its type is ignored, as the specification says.
fn logical_of(object: &Map<String, Value>, kind: &str) -> Option<Node> {
    let name = string(object, "logicalType")?;
    Some(match (kind, name) {
        ("int", "date") => Node::Date,
        ("int", "time-millis") => Node::Time(Unit::Millis),
        ("long", "time-micros") => Node::Time(Unit::Micros),
        ("long", "timestamp-millis") => Node::Timestamp(Unit::Millis, true),
        ("long", "timestamp-micros") => Node::Timestamp(Unit::Micros, true),
        ("long", "timestamp-nanos") => Node::Timestamp(Unit::Nanos, true),
        ("long", "local-timestamp-millis") => Node::Timestamp(Unit::Millis, false),
        ("long", "local-timestamp-micros") => Node::Timestamp(Unit::Micros, false),
        ("long", "local-timestamp-nanos") => Node::Timestamp(Unit::Nanos, false),
        ("bytes", _) => return logical(object, None),
        _ => return None,
    })
}

/// The logical type of bytes, or of a fixed size.
fn logical(object: &Map<String, Value>, size: Option<usize>) -> Option<Node> {
    match (string(object, "logicalType")?, size) {
        ("decimal", _) => {
            let precision = number(object, "precision")?;
            let scale = match object.get("scale") {
                None => 0,
                Some(_) => number(object, "scale")?,
            };
            let is_valid = precision > 0 && scale <= precision.min(MOST_SCALE);
            let scale = u32::try_from(scale).ok().filter(|_| is_valid)?;
            Some(Node::Decimal {
                size,
                precision,
                scale,
            })
        }
        ("uuid", Some(16)) => Some(Node::Uuid),
        ("duration", Some(12)) => Some(Node::Duration),
        _ => None,
    }
}

fn string<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str()
}

fn number(object: &Map<String, Value>, name: &str) -> Option<usize> {
    usize::try_from(object.get(name)?.as_u64()?).ok()
}

/// The texts of a list that may be missing.
fn listed_strings(object: &Map<String, Value>, name: &str) -> Vec<String> {
    let listed = object.get(name).and_then(Value::as_array);
    let texts = listed.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn strings(object: &Map<String, Value>, name: &str) -> Result<Vec<String>> {
    let listed = object.get(name).and_then(Value::as_array);
    let listed = listed.ok_or_else(|| Error::new(format!("an enum has no {name}")))?;
    listed
        .iter()
        .map(|one| one.as_str().map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::new(format!("{name} of an enum are not all text")))
}

/// The namespace of a named type: that within its name, else its own, else that around it.
fn namespace_of<'a>(name: &'a str, own: Option<&'a str>, around: &'a str) -> &'a str {
    match name.rsplit_once('.') {
        Some((namespace, _)) => namespace,
        None => own.unwrap_or(around),
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        name.trim_start_matches('.').to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}
