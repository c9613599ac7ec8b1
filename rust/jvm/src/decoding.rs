//! Keys and values that a task decodes, with the schemas that the planner knew: `brokerless.spark.source.decoded`.

use std::collections::{BTreeMap, HashMap};

use brokerless_core::{Columns, KEY_SCHEMA_ID, RowColumn, SchemaId, VALUE_SCHEMA_ID};
use brokerless_values::plain::Form;
use brokerless_values::{
    Bits, Column, DecodedRows, Resolved, SchemaDecoder, SchemaName, SchemaText, Type, Unit, Values,
    text, uuid_text,
};
use serde::Deserialize;

use crate::column::address;
use crate::error::TaskError;
use crate::task::check_version;

/// The version of the form.
const VERSION: u32 = 1;
/// The bytes of decoded values after which a chunk ends.
const ENOUGH_BYTES: usize = 16 << 20;
/// The form of keys and values with the schemas of a registry.
const REGISTRY: &str = "registry";

/// Words for keys or values that are not decoded: those of Python's `RowDecoder`.
const OF_GLUE: &str =
    "the framing of the AWS Glue Schema Registry, which keeps no schemas in Kafka: not decoded";

/// The planner's part of a decoded read, as JSON.
#[derive(Debug, Deserialize)]
struct Planned {
    version: u32,
    raises: bool,
    /// Texts of schemas.
    texts: Vec<String>,
    schemas: Vec<PlannedSchema>,
    parts: Vec<PlannedPart>,
}

/// A schema. Its numbers are places in the texts.
#[derive(Debug, Deserialize)]
struct PlannedSchema {
    schema_type: String,
    text: usize,
    references: Vec<(String, usize)>,
}

/// The form of keys or values, and all that decodes those of a registry. Its numbers are places in the schemas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlannedPart {
    part: String,
    form: String,
    reader: Option<usize>,
    union: Option<Vec<usize>>,
    message: Option<String>,
    /// The answers for ids and GUIDs, unless a topic has its own.
    answers: HashMap<String, Answer>,
    topics: HashMap<String, HashMap<String, Answer>>,
    /// The words for all other ids and GUIDs, which stand in place of `{}`.
    no_id: String,
    no_guid: String,
}

/// The answer for an id or a GUID: the place of the schema, or why there is none.
#[derive(Debug, Deserialize)]
struct Answer {
    schema: Option<usize>,
    reason: Option<String>,
    id: Option<i32>,
    subject: Option<String>,
    version: Option<i32>,
}

/// A column of decoded keys or values.
#[derive(Debug, Clone, Copy)]
enum Which {
    Values,
    Bytes,
    Error,
    Framing,
    SchemaId,
    Subject,
    Version,
}

/// A column of a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodedColumn {
    part: usize,
    which: Which,
}

/// Decodes the keys and values of a task.
#[derive(Debug)]
pub(crate) struct Decoding {
    /// True if a key or value that does not decode ends the task.
    raises: bool,
    schemas: Schemas,
    parts: Vec<Part>,
    /// The bytes of the last rows, about.
    size: usize,
}

#[derive(Debug)]
struct Schemas {
    texts: Vec<String>,
    schemas: Vec<PlannedSchema>,
}

/// The keys or the values.
#[derive(Debug)]
struct Part {
    planned: PlannedPart,
    /// A form that needs no schema.
    plain: Option<Form>,
    /// The topic of the last rows, and its decoder.
    current: Option<(Option<String>, SchemaDecoder)>,
    /// Those of other topics.
    others: HashMap<Option<String>, SchemaDecoder>,
    kind: Type,
    rows: DecodedRows,
    /// False as long as no column needs it.
    is_wanted: bool,
    /// By topic: the number of keys or values that did not decode, and the place and error of the first.
    failures: BTreeMap<Option<String>, (u64, String)>,
    /// The values of decimals that Spark has as text.
    texts: Vec<(Vec<i32>, String)>,
}

/// The place of the rows of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) topic: Option<&'a str>,
    pub(crate) partition: Option<i32>,
}

fn incomplete() -> TaskError {
    TaskError::plain("the schemas of the task are not complete")
}

impl Schemas {
    fn text(&self, place: usize) -> Result<SchemaText, TaskError> {
        let text = |place: usize| self.texts.get(place).cloned().ok_or_else(incomplete);
        let schema = self.schemas.get(place).ok_or_else(incomplete)?;
        let mut references = Vec::with_capacity(schema.references.len());
        for (name, place) in &schema.references {
            references.push((name.clone(), text(*place)?));
        }
        Ok(SchemaText {
            schema_type: schema.schema_type.clone(),
            text: text(schema.text)?,
            references,
        })
    }
}

impl PlannedPart {
    fn decoder(&self, schemas: &Schemas) -> Result<SchemaDecoder, TaskError> {
        let reader = self.reader.map(|place| schemas.text(place)).transpose()?;
        let union: Option<Vec<_>> = match &self.union {
            Some(places) => {
                let texts: Result<_, _> = places.iter().map(|&one| schemas.text(one)).collect();
                Some(texts?)
            }
            None => None,
        };
        SchemaDecoder::new(reader.as_ref(), union.as_deref(), self.message.as_deref())
            .map_err(TaskError::value)
    }

    fn resolve(
        &self,
        topic: Option<&str>,
        id: SchemaId,
        schemas: &Schemas,
    ) -> Result<Resolved, TaskError> {
        let (name, number, absent) = match id {
            SchemaId::Id(id) => (id.to_string(), Some(id), &self.no_id),
            SchemaId::Guid(guid) => (uuid_text(guid), None, &self.no_guid),
        };
        let of_topic = topic.and_then(|topic| self.topics.get(topic)?.get(&name));
        let Some(answer) = of_topic.or_else(|| self.answers.get(&name)) else {
            let name_of_none = SchemaName {
                id: number,
                ..SchemaName::default()
            };
            return Ok(Resolved {
                schema: Err(absent.replacen("{}", &name, 1)),
                name: name_of_none,
            });
        };
        let schema = match answer.schema {
            Some(place) => Ok(schemas.text(place)?),
            None => Err(answer.reason.clone().unwrap_or_default()),
        };
        Ok(Resolved {
            schema,
            name: SchemaName {
                id: answer.id,
                subject: answer.subject.clone(),
                version: answer.version,
            },
        })
    }
}

impl Part {
    fn new(planned: PlannedPart, schemas: &Schemas) -> Result<Self, TaskError> {
        let (plain, current, kind) = if planned.form == REGISTRY {
            let decoder = planned.decoder(schemas)?;
            let kind = decoder.kind().clone();
            (None, Some((None, decoder)), kind)
        } else {
            let form = Form::named(&planned.form).map_err(TaskError::value)?;
            (Some(form), None, form.kind())
        };
        Ok(Self {
            planned,
            plain,
            current,
            others: HashMap::new(),
            rows: DecodedRows::new(&kind),
            kind,
            is_wanted: false,
            failures: BTreeMap::new(),
            texts: Vec::new(),
        })
    }

    fn is_key(&self) -> bool {
        self.planned.part == "key"
    }

    /// The column with a name, if this part has it.
    fn column(&self, name: &str) -> Option<Which> {
        // The word is short where it matters most.
        if name == "decodeError" {
            return (!self.is_key()).then_some(Which::Error);
        }
        Some(match name.strip_prefix(self.planned.part.as_str())? {
            "" => Which::Values,
            "Bytes" => Which::Bytes,
            "DecodeError" if self.is_key() => Which::Error,
            "Framing" => Which::Framing,
            "SchemaId" => Which::SchemaId,
            "Subject" => Which::Subject,
            "Version" => Which::Version,
            _ => return None,
        })
    }

    /// Removes the rows, and takes the decoder of a topic.
    fn begin(&mut self, topic: Option<&str>, schemas: &Schemas) -> Result<(), TaskError> {
        self.rows.clear();
        self.texts.clear();
        if self.plain.is_some()
            || matches!(&self.current, Some((last, _)) if last.as_deref() == topic)
        {
            return Ok(());
        }
        let topic = topic.map(str::to_owned);
        let decoder = match self.others.remove(&topic) {
            Some(decoder) => decoder,
            None => self.planned.decoder(schemas)?,
        };
        if let Some((last, decoder)) = self.current.replace((topic, decoder)) {
            self.others.insert(last, decoder);
        }
        Ok(())
    }

    /// Decodes a row, and returns the bytes that its value takes, about.
    fn push(
        &mut self,
        row: usize,
        columns: &Columns,
        schemas: &Schemas,
    ) -> Result<usize, TaskError> {
        let is_key = self.is_key();
        let column = if is_key {
            &columns.keys
        } else {
            &columns.values
        };
        let Some(payload) = column.as_ref().and_then(|column| column.get(row)) else {
            self.rows.push_null().map_err(TaskError::value)?;
            return Ok(self.rows.values.weight());
        };
        if let Some(form) = self.plain {
            form.push(payload, &mut self.rows)
                .map_err(TaskError::value)?;
            return Ok(payload.len());
        }
        let (topic, decoder) = self.current.as_mut().ok_or_else(incomplete)?;
        let name = if is_key {
            KEY_SCHEMA_ID
        } else {
            VALUE_SCHEMA_ID
        };
        let headers = columns.headers.as_ref();
        let header = headers.and_then(|headers| headers.last(row, name.as_bytes()));
        decoder
            .push(payload, header, &mut self.rows, |id| {
                self.planned.resolve(topic.as_deref(), id, schemas)
            })?
            .map_err(TaskError::value)
    }
}

impl Decoding {
    /// Reads what the planner wrote.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, TaskError> {
        let planned: Planned = serde_json::from_slice(text)
            .map_err(|error| TaskError::plain(format!("the schemas cannot be read: {error}")))?;
        check_version("decoding", planned.version, VERSION)?;
        let schemas = Schemas {
            texts: planned.texts,
            schemas: planned.schemas,
        };
        let mut parts = Vec::with_capacity(planned.parts.len());
        for part in planned.parts {
            parts.push(Part::new(part, &schemas)?);
        }
        Ok(Self {
            raises: planned.raises,
            schemas,
            parts,
            size: 0,
        })
    }

    /// The bytes of the last rows, about.
    pub(crate) fn bytes(&self) -> usize {
        self.size
    }

    /// The column with a name, which is decoded from now on; None if it is no decoded one.
    pub(crate) fn column(&mut self, name: &str) -> Option<DecodedColumn> {
        (0..).zip(&mut self.parts).find_map(|(part, one)| {
            let which = one.column(name)?;
            one.is_wanted = true;
            Some(DecodedColumn { part, which })
        })
    }

    /// The stored columns that are needed besides those of the rows.
    pub(crate) fn stored(&self) -> impl Iterator<Item = RowColumn> {
        self.wanted().flat_map(|part| {
            let own = if part.is_key() {
                RowColumn::Key
            } else {
                RowColumn::Value
            };
            // For the place of an error, and the headers that name a schema.
            [own, RowColumn::Offset, RowColumn::Headers]
        })
    }

    fn wanted(&self) -> impl Iterator<Item = &Part> {
        self.parts
            .iter()
            .filter(|part| part.is_wanted || self.raises)
    }

    /// Decodes the rows from `start` on, as many as fit into a chunk, and returns the row after them.
    pub(crate) fn decode(
        &mut self,
        columns: &Columns,
        start: usize,
        place: Place<'_>,
    ) -> Result<usize, TaskError> {
        let raises = self.raises;
        for part in &mut self.parts {
            part.begin(place.topic, &self.schemas)?;
        }
        self.size = 0;
        let mut row = start;
        while row < columns.rows() && self.size < ENOUGH_BYTES {
            for part in &mut self.parts {
                if !part.is_wanted && !raises {
                    continue;
                }
                self.size += part.push(row, columns, &self.schemas)?;
                let Some(reason) = part.rows.last_error() else {
                    continue;
                };
                let offsets = columns.offsets.as_deref().unwrap_or_default();
                let at = place.of(offsets.get(row).copied().unwrap_or_default());
                if raises {
                    return Err(TaskError::plain(format!(
                        "brokerless.errors.RecordDeserializationError: the {} of a record does not decode at {at}: \
                         {reason}",
                        part.planned.part
                    )));
                }
                let topic = place.topic.map(str::to_owned);
                match part.failures.get_mut(&topic) {
                    Some((count, _)) => *count += 1,
                    None => {
                        part.failures.insert(topic, (1, format!("{at}: {reason}")));
                    }
                }
            }
            row += 1;
        }
        for part in &mut self.parts {
            part.rows.finish().map_err(TaskError::value)?;
        }
        Ok(row)
    }

    /// Appends the addresses of a column: see [`flatten`].
    pub(crate) fn addresses(&mut self, column: DecodedColumn, out: &mut Vec<u64>) {
        let Some(part) = self.parts.get_mut(column.part) else {
            return;
        };
        let rows = &part.rows;
        let (kind, column) = match column.which {
            Which::Values => (&part.kind, &rows.values),
            Which::Bytes => (&Type::Binary, &rows.bytes),
            Which::Error => (&Type::Utf8, &rows.errors),
            Which::Framing => (&Type::Utf8, &rows.framings),
            Which::SchemaId => (&Type::Int32, &rows.ids),
            Which::Subject => (&Type::Utf8, &rows.subjects),
            Which::Version => (&Type::Int32, &rows.versions),
        };
        flatten(kind, column, &mut part.texts, out);
    }

    /// A sentence for each topic with keys or values that did not decode, or have bytes after their end.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let of = |topic: &Option<String>, count: u64, part: &str| {
            let topic = topic.as_deref().unwrap_or("a log");
            format!(
                "{topic}: {count} {part}{}",
                if count == 1 { "" } else { "s" }
            )
        };
        for part in &self.parts {
            let name = &part.planned.part;
            for (topic, (count, first)) in &part.failures {
                let verb = if *count == 1 { "does" } else { "do" };
                warnings.push(format!(
                    "{} {verb} not decode, the first at {first}",
                    of(topic, *count, name)
                ));
            }
            let current = part.current.iter().map(|(topic, decoder)| (topic, decoder));
            for (topic, decoder) in current.chain(&part.others) {
                for (count, what) in [
                    (
                        decoder.left_over(),
                        "bytes after the end, which are left out",
                    ),
                    (decoder.of_glue(), OF_GLUE),
                ] {
                    if count > 0 {
                        let verb = if count == 1 { "has" } else { "have" };
                        warnings.push(format!("{} {verb} {what}", of(topic, count, name)));
                    }
                }
            }
        }
        warnings
    }
}

impl Place<'_> {
    /// The place of a record in words, as Python's `RowDecoder` has it.
    fn of(self, offset: i64) -> String {
        match (self.topic, self.partition) {
            (Some(topic), Some(partition)) => format!("{topic}-{partition}, offset {offset}"),
            _ => format!("offset {offset}"),
        }
    }
}

/// The content of an array, for Java: `DecodedVector.java`.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum Layout {
    Null,
    /// Bits; all are set if there is no array.
    Boolean,
    Int32,
    Int64,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Decimal128,
    /// Ends after a 0, and bytes.
    Bytes,
    /// Columns, which follow.
    Struct,
    /// Ends after a 0, and a column that follows.
    List,
    /// Ends after a 0, and two columns that follow.
    Map,
    /// Milliseconds, which Spark has as microseconds.
    Millis,
}

/// Appends the addresses of a column: its layout, its validity (0: nothing is null), two arrays, and the same of the
/// columns in it.
fn flatten(kind: &Type, column: &Column, texts: &mut Vec<(Vec<i32>, String)>, out: &mut Vec<u64>) {
    let bits = |bits: &Bits| bits.as_bytes().map_or(0, address);
    let validity = bits(&column.validity);
    let mut put = |layout: Layout, one: u64, two: u64| {
        out.extend([layout as u64, validity, one, two]);
    };
    match (kind, &column.values) {
        (_, Values::Null) => put(Layout::Null, 0, 0),
        (_, Values::Boolean(values)) => put(Layout::Boolean, bits(values), 0),
        (_, Values::Int32(values)) => put(Layout::Int32, address(values), 0),
        (Type::Timestamp(Unit::Millis, _), Values::Int64(values)) => {
            put(Layout::Millis, address(values), 0);
        }
        (_, Values::Int64(values)) => put(Layout::Int64, address(values), 0),
        (_, Values::UInt32(values)) => put(Layout::UInt32, address(values), 0),
        (_, Values::UInt64(values)) => put(Layout::UInt64, address(values), 0),
        (_, Values::Float32(values)) => put(Layout::Float32, address(values), 0),
        (_, Values::Float64(values)) => put(Layout::Float64, address(values), 0),
        (_, Values::Decimal128(values, ..)) => put(Layout::Decimal128, address(values), 0),
        (_, Values::Decimal256(values, _, scale)) => {
            // Spark has no number of so many digits.
            let mut ends = vec![0];
            let mut text = String::new();
            for value in values {
                let mut value = *value;
                value.reverse();
                text::decimal(&value, (*scale).into(), &mut text);
                ends.push(i32::try_from(text.len()).unwrap_or(i32::MAX));
            }
            put(Layout::Bytes, address(&ends), address(text.as_bytes()));
            texts.push((ends, text));
        }
        (_, Values::Bytes(ends, bytes)) => {
            put(Layout::Bytes, address(ends.as_offsets()), address(bytes));
        }
        (Type::Struct(kinds), Values::Struct(columns)) => {
            put(Layout::Struct, 0, 0);
            for ((_, kind), column) in kinds.iter().zip(columns) {
                flatten(kind, column, texts, out);
            }
        }
        (Type::List(kind), Values::List(ends, items)) => {
            put(Layout::List, address(ends.as_offsets()), 0);
            flatten(kind, items, texts, out);
        }
        (Type::Map(key, value), Values::Map(ends, entries)) => {
            put(Layout::Map, address(ends.as_offsets()), 0);
            flatten(key, &entries.0, texts, out);
            flatten(value, &entries.1, texts, out);
        }
        // The column was made for its type.
        (_, Values::Struct(_) | Values::List(..) | Values::Map(..)) => put(Layout::Null, 0, 0),
    }
}
