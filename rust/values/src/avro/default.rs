//! The default of a field, in Avro's binary encoding.

use serde_json::Value;

use crate::avro::schema::{AvroSchema, Node, NodeId};
use crate::limits::{Error, MOST_DEPTH, Result};

/// The most bytes of the defaults of a plan.
const MOST_BYTES: usize = 1 << 20;
/// The most values of the defaults of a plan, with those that were tried for branches of a union.
const MOST_VALUES: usize = 1 << 20;

/// The memory that the defaults of a plan may still take. A short schema may have defaults within defaults that double at
/// each level.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: usize,
    values: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            bytes: MOST_BYTES,
            values: MOST_VALUES,
        }
    }
}

impl AvroSchema {
    /// Returns the default of a field of this type.
    pub(super) fn encode_default(
        &self,
        id: NodeId,
        value: &Value,
        budget: &mut Budget,
    ) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let is_fit = self.encode(id, value, MOST_DEPTH, budget, &mut out);
        let left = budget.bytes.checked_sub(out.len());
        match left.filter(|_| budget.values > 0) {
            None => Err(Error::new(
                "the defaults of the fields take too much memory",
            )),
            Some(_) if !is_fit => Err(Error::new("the default of a field does not fit its type")),
            Some(left) => {
                budget.bytes = left;
                Ok(out)
            }
        }
    }

    /// Returns false if the value is none of this type. `out` then has a part of it.
    fn encode(
        &self,
        id: NodeId,
        value: &Value,
        depth: u32,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> bool {
        budget.values = budget.values.saturating_sub(1);
        if budget.values == 0 || out.len() > budget.bytes {
            return false;
        }
        let (Some(node), Some(depth)) = (self.nodes.get(id), depth.checked_sub(1)) else {
            return false;
        };
        let int = || value.as_i64().filter(|&value| i32::try_from(value).is_ok());
        match node {
            Node::Null => value.is_null(),
            Node::Boolean => value
                .as_bool()
                .map(|value| out.push(value.into()))
                .is_some(),
            Node::Int | Node::Date | Node::Time(crate::text::Unit::Millis) => {
                int().map(|value| long(value, out)).is_some()
            }
            Node::Long | Node::Time(_) | Node::Timestamp(..) => {
                value.as_i64().map(|value| long(value, out)).is_some()
            }
            Node::Float => {
                let value = value.as_f64().or_else(|| special(value));
                value
                    .map(|value| out.extend((value as f32).to_le_bytes()))
                    .is_some()
            }
            Node::Double => {
                let value = value.as_f64().or_else(|| special(value));
                value.map(|value| out.extend(value.to_le_bytes())).is_some()
            }
            Node::String => value
                .as_str()
                .map(|text| sized(text.as_bytes(), out))
                .is_some(),
            Node::Bytes | Node::Decimal { size: None, .. } => {
                latin(value).map(|bytes| sized(&bytes, out)).is_some()
            }
            Node::Fixed(size)
            | Node::Decimal {
                size: Some(size), ..
            } => fixed(value, *size).map(|bytes| out.extend(bytes)).is_some(),
            Node::Uuid => fixed(value, 16).map(|bytes| out.extend(bytes)).is_some(),
            Node::Duration => fixed(value, 12).map(|bytes| out.extend(bytes)).is_some(),
            Node::Enum(symbols) => {
                let at = symbols
                    .iter()
                    .position(|symbol| Some(symbol.as_str()) == value.as_str());
                at.map(|at| long(at as i64, out)).is_some()
            }
            Node::Record(fields) => {
                let Some(object) = value.as_object() else {
                    return false;
                };
                fields.iter().all(|field| {
                    let value = object.get(&field.name).or(field.default.as_ref());
                    value.is_some_and(|value| self.encode(field.node, value, depth, budget, out))
                })
            }
            Node::Array(items) => {
                let Some(listed) = value.as_array() else {
                    return false;
                };
                if !listed.is_empty() {
                    long(listed.len() as i64, out);
                }
                let is_fit = listed
                    .iter()
                    .all(|value| self.encode(*items, value, depth, budget, out));
                out.push(0);
                is_fit
            }
            Node::Map(values) => {
                let Some(object) = value.as_object() else {
                    return false;
                };
                if !object.is_empty() {
                    long(object.len() as i64, out);
                }
                let is_fit = object.iter().all(|(key, value)| {
                    sized(key.as_bytes(), out);
                    self.encode(*values, value, depth, budget, out)
                });
                out.push(0);
                is_fit
            }
            // The specification knew only the first branch until 1.12; since then it may be any.
            Node::Union(branches) => (0..).zip(branches).any(|(at, &branch)| {
                let before = out.len();
                long(at, out);
                let is_fit = self.encode(branch, value, depth, budget, out);
                if !is_fit {
                    out.truncate(before);
                }
                is_fit
            }),
        }
    }
}

fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

/// The bytes of a text whose characters are bytes.
fn latin(value: &Value) -> Option<Vec<u8>> {
    value
        .as_str()?
        .chars()
        .map(|one| u8::try_from(one).ok())
        .collect()
}

fn fixed(value: &Value, size: usize) -> Option<Vec<u8>> {
    latin(value).filter(|bytes| bytes.len() == size)
}

fn special(value: &Value) -> Option<f64> {
    match value.as_str()? {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}
