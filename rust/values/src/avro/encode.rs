//! JSON values in Avro's binary encoding: those of rows, and the defaults of fields, which have another form.

use serde_json::{Map, Value};

use crate::avro::schema::{AvroSchema, Field, Node, NodeId};
use crate::avro::types::DURATION;
use crate::encode::{
    Budget, Fit, Misfit, base64, deeper, float32, float64, parsed, varint, zigzag,
};
use crate::from_text;
use crate::limits::{Error, MOST_DECIMAL, MOST_DEPTH, Result};
use crate::text::{self, Unit};

/// The most bytes of the defaults of a plan.
const MOST_BYTES: usize = 1 << 20;
/// The most values of the defaults of a plan, with those that were tried for branches of a union.
const MOST_VALUES: usize = 1 << 20;

impl Budget {
    pub(super) fn of_defaults() -> Self {
        Self::new(MOST_BYTES, MOST_VALUES)
    }
}

/// The form of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// That of [`AvroSchema::write_json`], and forms near it: a decimal with fewer digits, a timestamp with a zone, a
    /// record without fields that have a default.
    Row,
    /// Exactly the form that [`AvroSchema::write_json`] gives to a value of the type. It separates the branches of unions.
    Exact,
    /// That of the specification for defaults: bytes are the characters of a text, times are numbers.
    Default,
}

impl AvroSchema {
    /// Appends the body of a value that has the form of [`Self::write_json`]. An error names its place from `root` on;
    /// `out` is then as before.
    ///
    /// A field with a default may be missing. A value of a union has the first branch whose JSON it is, else the first
    /// one that takes it.
    pub fn encode(&self, json: &[u8], root: &str, out: &mut Vec<u8>) -> Result<()> {
        let value = parsed(json, root)?;
        let before = out.len();
        let mut budget = Budget::of_row();
        let mut encoder = Encoder::new(self, Form::Row, &mut budget, out);
        let fit = if matches!(self.nodes.get(self.root), Some(Node::Bytes)) {
            // Without a length: see `write_json`.
            let bytes = base64(&value).ok_or_else(|| encoder.unlike(self.root, &value));
            bytes.map(|bytes| encoder.out.extend(bytes))
        } else {
            encoder.value(self.root, &value, MOST_DEPTH)
        };
        fit.map_err(|misfit| {
            out.truncate(before);
            misfit.at(root)
        })
    }

    /// Returns the default of a field of this type.
    pub(super) fn encode_default(
        &self,
        id: NodeId,
        value: &Value,
        budget: &mut Budget,
    ) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let fit = Encoder::new(self, Form::Default, budget, &mut out).value(id, value, MOST_DEPTH);
        if budget.is_spent(out.len()) {
            return Err(Error::new(
                "the defaults of the fields take too much memory",
            ));
        }
        fit.map_err(|_| Error::new("the default of a field does not fit its type"))?;
        budget.bytes -= out.len();
        Ok(out)
    }
}

struct Encoder<'a> {
    schema: &'a AvroSchema,
    form: Form,
    budget: &'a mut Budget,
    start: usize,
    out: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    fn new(
        schema: &'a AvroSchema,
        form: Form,
        budget: &'a mut Budget,
        out: &'a mut Vec<u8>,
    ) -> Self {
        Self {
            schema,
            form,
            budget,
            start: out.len(),
            out,
        }
    }

    /// Appends a value. After an error, `out` has a part of it.
    fn value(&mut self, id: NodeId, value: &Value, depth: u32) -> Fit {
        self.budget.take(self.out.len() - self.start)?;
        let depth = deeper(depth)?;
        let schema = self.schema;
        match schema.nodes.get(id) {
            Some(Node::Record(fields)) => match value {
                Value::Object(object) => self.record(id, fields, object, depth),
                _ => Err(self.unlike(id, value)),
            },
            Some(Node::Array(items)) => match value {
                Value::Array(listed) => self.array(*items, listed, depth),
                _ => Err(self.unlike(id, value)),
            },
            Some(Node::Map(values)) => match value {
                Value::Object(object) => self.map(*values, object, depth),
                _ => Err(self.unlike(id, value)),
            },
            Some(Node::Union(branches)) => self.union(id, branches, value, depth),
            Some(node) => {
                let written = match self.form {
                    Form::Default => self.default_leaf(node, value),
                    _ => self.leaf(node, value),
                };
                written.ok_or_else(|| self.unlike(id, value))
            }
            None => Err(Misfit::new("the schema has a type that is not there")),
        }
    }

    fn record(
        &mut self,
        id: NodeId,
        fields: &[Field],
        object: &Map<String, Value>,
        depth: u32,
    ) -> Fit {
        let mut known = 0;
        for field in fields {
            let (value, form) = match (object.get(&field.name), &field.default) {
                (Some(value), _) => {
                    known += 1;
                    (value, self.form)
                }
                (None, Some(default)) if self.form != Form::Exact => (default, Form::Default),
                _ => {
                    return Err(Misfit::new(format!(
                        "{} has the field {}, which is missing here",
                        self.schema.name(id),
                        field.name
                    )));
                }
            };
            let outer = std::mem::replace(&mut self.form, form);
            let fit = self.value(field.node, value, depth);
            self.form = outer;
            fit.map_err(|misfit| misfit.in_field(&field.name))?;
        }
        // Other members of a default are ignored, as other implementations do.
        if known < object.len() && self.form != Form::Default {
            let is_known = |name: &String| fields.iter().any(|field| field.name == *name);
            let surplus = object.keys().find(|name| !is_known(name));
            return Err(
                Misfit::new(format!("{} has no such field", self.schema.name(id)))
                    .in_field(surplus.map_or("", String::as_str)),
            );
        }
        Ok(())
    }

    fn array(&mut self, items: NodeId, listed: &[Value], depth: u32) -> Fit {
        self.count(listed.len());
        for (index, item) in listed.iter().enumerate() {
            self.value(items, item, depth)
                .map_err(|misfit| misfit.in_item(index))?;
        }
        self.out.push(0);
        Ok(())
    }

    fn map(&mut self, values: NodeId, object: &Map<String, Value>, depth: u32) -> Fit {
        self.count(object.len());
        for (key, value) in object {
            self.sized(key.as_bytes());
            self.value(values, value, depth)
                .map_err(|misfit| misfit.in_entry(key))?;
        }
        self.out.push(0);
        Ok(())
    }

    /// Appends the number of items in a block. An array without items has no block.
    fn count(&mut self, items: usize) {
        if items > 0 {
            self.long(items as i64);
        }
    }

    fn union(&mut self, id: NodeId, branches: &[NodeId], value: &Value, depth: u32) -> Fit {
        // The specification knew only the first branch of a default until 1.12; since then it may be any.
        let is_default = self.form == Form::Default;
        let is_fit = |branch: NodeId| is_default || self.schema.may_have(branch, value);
        let mut fit = (0..).zip(branches).filter(|(_, branch)| is_fit(**branch));
        let (first, second) = (fit.next(), fit.next());
        let Some((at, &branch)) = first else {
            return Err(self.unlike(id, value));
        };
        if second.is_none() {
            self.long(at);
            return self.value(branch, value, depth);
        }
        let candidates: Vec<_> = first.into_iter().chain(second).chain(fit).collect();
        let outer = self.form;
        let forms = match outer {
            Form::Row => &[Form::Exact, Form::Row][..],
            Form::Exact => &[Form::Exact],
            Form::Default => &[Form::Default],
        };
        for &form in forms {
            for &(at, &branch) in &candidates {
                let before = self.out.len();
                self.form = form;
                self.long(at);
                let fit = self.value(branch, value, depth);
                self.form = outer;
                if fit.is_ok() {
                    return fit;
                }
                self.out.truncate(before);
                // With nothing left, no other branch may be tried.
                self.budget.take(self.out.len() - self.start)?;
            }
        }
        Err(self.unlike(id, value))
    }

    /// Appends a value of a row that has no values in it. None if the type has no such value.
    fn leaf(&mut self, node: &Node, value: &Value) -> Option<()> {
        let is_exact = self.form == Form::Exact;
        match node {
            Node::Null => return value.is_null().then_some(()),
            Node::Boolean => self.out.push(value.as_bool()?.into()),
            Node::Int => self.long(i32::try_from(value.as_i64()?).ok()?.into()),
            Node::Long => self.long(value.as_i64()?),
            Node::Float => {
                let number = float32(value)?;
                let is_same = value.is_string() || value.as_f64() == Some(number.into());
                if is_exact && (value.is_i64() || value.is_u64() || !is_same) {
                    return None;
                }
                self.out.extend(number.to_le_bytes());
            }
            Node::Double => {
                if is_exact && (value.is_i64() || value.is_u64()) {
                    return None;
                }
                self.out.extend(float64(value)?.to_le_bytes());
            }
            Node::Bytes => self.sized(&base64(value)?),
            Node::Fixed(size) => {
                let bytes = base64(value).filter(|bytes| bytes.len() == *size)?;
                self.out.extend(bytes);
            }
            Node::String => self.sized(value.as_str()?.as_bytes()),
            Node::Enum(symbols) => self.symbol(symbols, value)?,
            Node::Duration => {
                let object = value.as_object().filter(|object| object.len() == 3)?;
                for name in DURATION {
                    let part = u32::try_from(object.get(name)?.as_u64()?).ok()?;
                    self.out.extend(part.to_le_bytes());
                }
            }
            _ => return self.text(node, value.as_str()?, is_exact),
        }
        Some(())
    }

    /// Appends a value whose JSON is text that is written anew.
    fn text(&mut self, node: &Node, given: &str, is_exact: bool) -> Option<()> {
        let mut written = String::new();
        match node {
            Node::Date => {
                let days = i32::try_from(from_text::date(given)?).ok()?.into();
                text::date(days, &mut written);
                self.long(days);
            }
            Node::Time(unit) => {
                let value = from_text::time(given, *unit)?;
                text::time(value, *unit, &mut written);
                self.long(value);
            }
            Node::Timestamp(unit, is_utc) => {
                let value = from_text::timestamp(given, *unit, *is_utc)?;
                text::timestamp(value, *unit, &mut written);
                if *is_utc {
                    written.push('Z');
                }
                self.long(value);
            }
            Node::Decimal {
                size,
                precision,
                scale,
            } => {
                let bytes = from_text::decimal(given, *precision, *scale)
                    .filter(|bytes| bytes.len() <= MOST_DECIMAL)?;
                if is_exact {
                    text::decimal(&bytes, *scale, &mut written);
                }
                match size {
                    // A schema may name any size, and none of these is decoded.
                    Some(size) if *size > MOST_DECIMAL => return None,
                    Some(size) => self.out.extend(from_text::sized(&bytes, *size)?),
                    None => self.sized(&bytes),
                }
            }
            Node::Uuid => {
                let bytes = from_text::uuid(given)?;
                written = text::uuid(bytes);
                self.out.extend(bytes);
            }
            _ => return None,
        }
        (!is_exact || written == given).then_some(())
    }

    /// Appends a value of a default that has no values in it.
    fn default_leaf(&mut self, node: &Node, value: &Value) -> Option<()> {
        match node {
            Node::Null | Node::Boolean | Node::Int | Node::Long | Node::String | Node::Enum(_) => {
                return self.leaf(node, value);
            }
            Node::Date | Node::Time(Unit::Millis) => return self.leaf(&Node::Int, value),
            Node::Time(_) | Node::Timestamp(..) => return self.leaf(&Node::Long, value),
            Node::Float => {
                let number = float64(value).or_else(|| short_infinity(value))?;
                self.out.extend((number as f32).to_le_bytes());
            }
            Node::Double => {
                let number = float64(value).or_else(|| short_infinity(value))?;
                self.out.extend(number.to_le_bytes());
            }
            Node::Bytes | Node::Decimal { size: None, .. } => self.sized(&latin(value)?),
            Node::Fixed(size)
            | Node::Decimal {
                size: Some(size), ..
            } => self.latin_of_size(value, *size)?,
            Node::Uuid => self.latin_of_size(value, 16)?,
            Node::Duration => self.latin_of_size(value, 12)?,
            Node::Record(_) | Node::Array(_) | Node::Map(_) | Node::Union(_) => return None,
        }
        Some(())
    }

    fn latin_of_size(&mut self, value: &Value, size: usize) -> Option<()> {
        let bytes = latin(value).filter(|bytes| bytes.len() == size)?;
        self.out.extend(bytes);
        Some(())
    }

    fn symbol(&mut self, symbols: &[String], value: &Value) -> Option<()> {
        let text = value.as_str()?;
        let at = symbols.iter().position(|symbol| symbol == text)?;
        self.long(at as i64);
        Some(())
    }

    fn long(&mut self, value: i64) {
        varint(zigzag(value), self.out);
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.long(bytes.len() as i64);
        self.out.extend_from_slice(bytes);
    }

    #[cold]
    fn unlike(&self, id: NodeId, value: &Value) -> Misfit {
        Misfit::unlike(&self.schema.expected(id), value)
    }
}

impl AvroSchema {
    /// True if a type has values with this kind of JSON.
    fn may_have(&self, id: NodeId, value: &Value) -> bool {
        match self.nodes.get(id) {
            Some(Node::Null) => value.is_null(),
            Some(Node::Boolean) => value.is_boolean(),
            Some(Node::Int | Node::Long) => value.is_number(),
            Some(Node::Float | Node::Double) => float64(value).is_some(),
            Some(Node::Array(_)) => value.is_array(),
            Some(Node::Record(_) | Node::Map(_) | Node::Duration) => value.is_object(),
            Some(Node::Union(_)) => true,
            Some(_) => value.is_string(),
            None => false,
        }
    }

    /// The words for a type that was expected, in an error.
    fn expected(&self, id: NodeId) -> String {
        let size = |size: &Option<usize>| match size {
            Some(size) => format!(" in {size} bytes"),
            None => String::new(),
        };
        let unit = |unit: &Unit| match unit {
            Unit::Millis => "milliseconds",
            Unit::Micros => "microseconds",
            Unit::Nanos => "nanoseconds",
        };
        match self.nodes.get(id) {
            Some(Node::Bytes) => "base64 text".to_owned(),
            Some(Node::Fixed(size)) => format!("base64 text of {size} bytes"),
            Some(Node::Uuid) => "the text of a UUID".to_owned(),
            Some(Node::Date) => "the text of a date, such as 2024-05-01,".to_owned(),
            Some(Node::Time(of)) => {
                format!("the text of a time of {}, such as 12:33:01.832,", unit(of))
            }
            Some(Node::Timestamp(of, is_utc)) => format!(
                "the text of a timestamp of {}, such as 2024-05-01T12:33:01.832{},",
                unit(of),
                if *is_utc { "Z" } else { "" }
            ),
            Some(Node::Decimal {
                size: bytes,
                precision,
                scale,
            }) => format!(
                "the text of a decimal of at most {precision} digits, {scale} of them after the point,{}",
                size(bytes)
            ),
            Some(Node::Duration) => "an object of months, days and millis".to_owned(),
            Some(Node::Record(_)) => format!("an object for {}", self.name(id)),
            Some(Node::Enum(_)) => format!("a symbol of {}", self.name(id)),
            Some(Node::Array(_)) => "an array".to_owned(),
            Some(Node::Map(_)) => "an object for a map".to_owned(),
            Some(Node::Union(branches)) => {
                let names: Vec<_> = branches.iter().map(|&one| self.name(one)).collect();
                format!("one of {}", names.join(", "))
            }
            _ => self.name(id),
        }
    }
}

/// The bytes of a text whose characters are bytes.
fn latin(value: &Value) -> Option<Vec<u8>> {
    value
        .as_str()?
        .chars()
        .map(|one| u8::try_from(one).ok())
        .collect()
}

fn short_infinity(value: &Value) -> Option<f64> {
    match value.as_str()? {
        "INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}
