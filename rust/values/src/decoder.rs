//! Keys or values of a topic, decoded with the schemas that they name.

use std::collections::HashMap;
use std::sync::Arc;

use brokerless_core::{Framed, SchemaId};

use crate::column_type::Type;
use crate::decoded::{DecodedRows, SchemaName};
use crate::limits::{Error, Result};
use crate::plan::Plan;
use crate::schema::Schema;

/// The number of types in the schemas that are kept. Above it, all are parsed again when they are needed.
const MOST_TYPES: usize = 4 << 20;
/// The number of schemas that are kept. Damaged bytes may name any id.
const MOST_SCHEMAS: usize = 100_000;

/// A schema as text: its type, itself, and the names and texts of those that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaText {
    /// AVRO, PROTOBUF or JSON.
    pub schema_type: String,
    /// The schema.
    pub text: String,
    /// The names and texts of the schemas that it refers to.
    pub references: Vec<(String, String)>,
}

/// The answer of a registry for the id of a schema: the schema, or why there is none.
#[derive(Debug)]
pub struct Resolved {
    /// The schema, or why it cannot be had.
    pub schema: std::result::Result<SchemaText, String>,
    /// Its names.
    pub name: SchemaName,
}

/// The schema of an id.
#[derive(Debug)]
struct Known {
    schema: std::result::Result<(Schema, Plan), String>,
    name: Arc<SchemaName>,
}

/// Decodes the keys or the values of a topic.
#[derive(Debug)]
pub struct SchemaDecoder {
    /// The schema that all others are resolved to.
    reader: Option<Schema>,
    kind: Type,
    /// False if all become JSON text.
    is_typed: bool,
    /// That of the schemas that are not resolved to another one.
    message: Option<String>,
    known: HashMap<SchemaId, Arc<Known>>,
    /// The schema of the last row: mostly, that of the next one.
    last: Option<(SchemaId, Arc<Known>)>,
    /// That of rows without an id.
    no_name: Arc<SchemaName>,
    types: usize,
    left_over: u64,
    of_glue: u64,
}

impl SchemaText {
    fn parse(&self, message: Option<&str>) -> Result<Schema> {
        let schema = Schema::parse(&self.schema_type, &self.text, &self.references)?;
        match message {
            Some(name) => schema.with_message(name),
            None => Ok(schema),
        }
    }
}

impl SchemaDecoder {
    /// A decoder into the types of one schema, to which all others are resolved, or of the fields of several. Without
    /// any, all become JSON text. `message` is the full name of the Protobuf message that typed values are; None: the
    /// first one of each schema.
    pub fn new(
        reader: Option<&SchemaText>,
        union: Option<&[SchemaText]>,
        message: Option<&str>,
    ) -> Result<Self> {
        let is_typed = reader.is_some() || union.is_some();
        let message = message.filter(|_| is_typed);
        let parse = |text: &SchemaText| text.parse(message);
        let reader = reader.map(parse).transpose()?;
        let kind = match (&reader, union) {
            (Some(reader), _) => reader.column_type()?,
            (None, Some(schemas)) => {
                let mut kind = Type::Null;
                for schema in schemas {
                    kind = kind.merge(parse(schema)?.column_type()?);
                }
                kind
            }
            (None, None) => Type::Json,
        };
        Ok(Self {
            reader,
            kind,
            is_typed,
            message: message.map(str::to_owned),
            known: HashMap::new(),
            last: None,
            no_name: Arc::default(),
            types: 0,
            left_over: 0,
            of_glue: 0,
        })
    }

    /// The type of the values.
    pub fn kind(&self) -> &Type {
        &self.kind
    }

    /// The number of values so far with bytes after their end.
    pub fn left_over(&self) -> u64 {
        self.left_over
    }

    /// The number of keys or values so far that begin as those of the AWS Glue Schema Registry do.
    pub fn of_glue(&self) -> u64 {
        self.of_glue
    }

    /// Adds a key or value to rows of this decoder's type, and returns the bytes that its value takes, about.
    ///
    /// `header` is the value of its last header that names a schema. `resolve` is called once for each id, unless many
    /// are named; its error ends the decoding before the row.
    pub fn push<E>(
        &mut self,
        payload: &[u8],
        header: Option<&[u8]>,
        rows: &mut DecodedRows,
        resolve: impl FnOnce(SchemaId) -> std::result::Result<Resolved, E>,
    ) -> std::result::Result<Result<usize>, E> {
        let framed = Framed::split(payload, header);
        let framing = framed.framing;
        let Some(id) = framed.schema_id else {
            self.of_glue += u64::from(framed.is_of_glue());
            let named = rows.name(Some((framing, &self.no_name)));
            let added = named.and_then(|()| rows.push_undecoded(payload, None));
            return Ok(added.map(|()| 0));
        };
        self.find(id, resolve)?;
        // That of the last row is the one that was found.
        let Some((_, known)) = &self.last else {
            return Ok(Err(Error::misfit()));
        };
        let decoded = match &known.schema {
            Ok((schema, plan)) => rows.name(Some((framing, &known.name))).and_then(|()| {
                let reader = self.reader.as_ref();
                plan.decode(schema, reader, &framed, &mut rows.values)
            }),
            Err(reason) => Err(Error::new(reason.clone())),
        };
        let error = match decoded {
            Ok(appended) => {
                self.left_over += u64::from(appended.left_over > 0);
                return Ok(Ok(appended.bytes));
            }
            Err(error) => error,
        };
        let mut reason = error.to_string();
        if let Some(id) = framed.id_of_apicurio() {
            reason.push_str(&format!(
                "; in the framing of Apicurio Registry it is the id {id}, and its schemas are not in the topic _schemas"
            ));
        }
        let named = rows.name(Some((framing, &known.name)));
        let added = named.and_then(|()| rows.push_undecoded(payload, Some(&reason)));
        Ok(added.map(|()| rows.values.weight()))
    }

    /// Makes the schema of an id that of the last row.
    #[inline]
    fn find<E>(
        &mut self,
        id: SchemaId,
        resolve: impl FnOnce(SchemaId) -> std::result::Result<Resolved, E>,
    ) -> std::result::Result<(), E> {
        if matches!(&self.last, Some((last, _)) if *last == id) {
            return Ok(());
        }
        let known = match self.known.get(&id) {
            Some(known) => Arc::clone(known),
            None => self.learn(id, resolve(id)?),
        };
        self.last = Some((id, known));
        Ok(())
    }

    fn learn(&mut self, id: SchemaId, found: Resolved) -> Arc<Known> {
        let known = Arc::new(self.planned(found));
        self.types += match &known.schema {
            Ok((schema, _)) => schema.types(),
            Err(_) => 1,
        };
        if self.types > MOST_TYPES || self.known.len() >= MOST_SCHEMAS {
            self.known.clear();
            self.types = 0;
        }
        self.known.insert(id, Arc::clone(&known));
        known
    }

    fn planned(&self, found: Resolved) -> Known {
        let id = found.name.id.unwrap_or_default();
        let planned = |text: SchemaText| {
            let message = self.message.as_deref().filter(|_| self.reader.is_none());
            let schema = text
                .parse(message)
                .map_err(|error| format!("schema {id} cannot be used: {error}"))?;
            let plan = if self.is_typed {
                Plan::new(&schema, self.reader.as_ref(), &self.kind)
                    .map_err(|error| format!("schema {id} cannot be read: {error}"))?
            } else {
                Plan::json()
            };
            Ok((schema, plan))
        };
        Known {
            schema: found.schema.and_then(planned),
            name: Arc::new(found.name),
        }
    }
}
