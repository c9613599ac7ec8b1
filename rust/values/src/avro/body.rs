//! A body in Avro's binary encoding, as JSON text.

use brokerless_core::{BytesFormat, Json, Mark, Reader};

use crate::avro::schema::{AvroSchema, Node, NodeId};
use crate::limits::{Error, Limits, MOST_JSON, Result};
use crate::text;

/// The most bytes of a decimal: its text takes time that grows with their square.
const MOST_DECIMAL: usize = 4096;

impl AvroSchema {
    /// Appends a body as JSON text, and returns the number of bytes that follow it. After an error, `out` is as before.
    ///
    /// The JSON has bytes and fixed as base64, decimals as text, dates, times and timestamps as ISO 8601 in UTC, NaN and
    /// the infinities as text, and the bare value of a union. Registries' serializers write a schema that is `bytes` without
    /// a length.
    pub fn write_json(&self, body: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let before = out.len();
        let mut json = Json::new(out);
        if matches!(self.nodes.get(self.root), Some(Node::Bytes)) {
            json.bytes(Some(body), BytesFormat::Base64);
            return Ok(0);
        }
        let mut walk = Walk {
            start: json.mark(),
            nodes: &self.nodes,
            body: Reader::new(body),
            limits: Limits::new(),
            text: String::new(),
        };
        match walk.value(self.root, &mut json) {
            Ok(()) => Ok(walk.body.remaining()),
            Err(error) => {
                out.truncate(before);
                Err(error)
            }
        }
    }
}

struct Walk<'a> {
    /// The start of the JSON text.
    start: Mark,
    nodes: &'a [Node],
    body: Reader<'a>,
    limits: Limits,
    text: String,
}

impl<'a> Walk<'a> {
    fn value(&mut self, id: NodeId, json: &mut Json<'_>) -> Result<()> {
        let nodes = self.nodes;
        let node = nodes
            .get(id)
            .ok_or_else(|| Error::new("the schema has a type that is not there"))?;
        match node {
            Node::Null => json.null(),
            Node::Boolean => match self.bytes(1, "boolean")? {
                [0] => json.bool(false),
                [1] => json.bool(true),
                _ => return Err(Error::new("a boolean is neither 0 nor 1")),
            },
            Node::Int => json.int(self.int()?),
            Node::Long => json.int(self.long()?),
            Node::Float => {
                let value = f32::from_le_bytes(self.array("float")?);
                json.float64(value.into());
            }
            Node::Double => json.float64(f64::from_le_bytes(self.array("double")?)),
            Node::Bytes => {
                let bytes = self.sized("bytes")?;
                json.bytes(Some(bytes), BytesFormat::Base64);
            }
            Node::String => json.string(self.string()?),
            Node::Fixed(size) => {
                let bytes = self.bytes(*size, "fixed")?;
                json.bytes(Some(bytes), BytesFormat::Base64);
            }
            Node::Enum(symbols) => {
                let index = self.int()?;
                let symbol = usize::try_from(index).ok().and_then(|at| symbols.get(at));
                json.string(symbol.ok_or_else(|| {
                    Error::new(format!(
                        "{index} is no symbol of an enum of {}",
                        symbols.len()
                    ))
                })?);
            }
            Node::Record(fields) => {
                json.begin_object();
                for field in fields {
                    json.text_key(&field.name);
                    self.inner(field.node, json)?;
                }
                json.end_object();
            }
            Node::Array(items) => {
                json.begin_array();
                self.blocks(|walk| walk.inner(*items, json))?;
                json.end_array();
            }
            Node::Map(values) => {
                json.begin_object();
                self.blocks(|walk| {
                    json.text_key(walk.string()?);
                    walk.inner(*values, json)
                })?;
                json.end_object();
            }
            Node::Union(branches) => {
                let index = self.long()?;
                let branch = usize::try_from(index).ok().and_then(|at| branches.get(at));
                let branch = *branch.ok_or_else(|| {
                    Error::new(format!(
                        "{index} is no branch of a union of {}",
                        branches.len()
                    ))
                })?;
                self.inner(branch, json)?;
            }
            Node::Date => {
                let day = self.int()?;
                self.write(json, |out| text::date(day.into(), out));
            }
            Node::Time(text::Unit::Millis) => {
                let value = self.int()?;
                self.write(json, |out| {
                    text::time(value.into(), text::Unit::Millis, out)
                });
            }
            Node::Time(unit) => {
                let value = self.long()?;
                self.write(json, |out| text::time(value, *unit, out));
            }
            Node::Timestamp(unit, is_utc) => {
                let value = self.long()?;
                self.write(json, |out| {
                    text::timestamp(value, *unit, out);
                    if *is_utc {
                        out.push('Z');
                    }
                });
            }
            Node::Decimal(size, scale) => {
                let bytes = match size {
                    Some(size) => self.bytes(*size, "decimal")?,
                    None => self.sized("decimal")?,
                };
                if bytes.len() > MOST_DECIMAL {
                    return Err(Error::new(format!(
                        "a decimal has {} bytes, at most {MOST_DECIMAL} are supported",
                        bytes.len()
                    )));
                }
                self.write(json, |out| text::decimal(bytes, *scale, out));
            }
            Node::Uuid => {
                let bytes = self.array("uuid")?;
                self.write(json, |out| out.push_str(&text::uuid(bytes)));
            }
            Node::Duration => {
                json.begin_object();
                for name in ["months", "days", "millis"] {
                    let value = u32::from_le_bytes(self.array("duration")?);
                    json.int_field(name, value);
                }
                json.end_object();
            }
        }
        Ok(())
    }

    /// Writes a value within another one.
    fn inner(&mut self, node: NodeId, json: &mut Json<'_>) -> Result<()> {
        if self.limits.depth == 0 {
            return Err(Error::too_deep());
        }
        if json.since(&self.start).len() > MOST_JSON {
            return Err(Error::too_long());
        }
        self.limits.depth -= 1;
        let result = self.value(node, json);
        self.limits.depth += 1;
        result
    }

    /// Calls `item` for each item of an array or map. A block with a negative count also has its size, which is for
    /// readers that skip it.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                let before = self.body.remaining();
                item(self)?;
                if self.body.remaining() == before {
                    self.limits.take_empty()?;
                }
            }
        }
    }

    fn write(&mut self, json: &mut Json<'_>, write: impl FnOnce(&mut String)) {
        self.text.clear();
        write(&mut self.text);
        json.string(&self.text);
    }

    fn int(&mut self) -> Result<i32> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Error::new("an int has more than 32 bits"))
    }

    fn long(&mut self) -> Result<i64> {
        self.body.varlong().map_err(|_| {
            Error::new("the body ends within a number, or the number has more than ten bytes")
        })
    }

    fn string(&mut self) -> Result<&'a str> {
        let bytes = self.sized("string")?;
        std::str::from_utf8(bytes).map_err(|_| Error::new("a string is not UTF-8"))
    }

    fn sized(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.long()?;
        let length = usize::try_from(length)
            .map_err(|_| Error::new(format!("the length of a {what} is negative")))?;
        self.bytes(length, what)
    }

    fn bytes(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        let left = self.body.remaining();
        self.body
            .bytes(length)
            .map_err(|_| Error::new(format!("a {what} has {length} bytes, but {left} are left")))
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.bytes(N, what)?;
        Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
    }
}
