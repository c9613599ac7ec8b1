//! Bodies of a schema to values of a column.

use brokerless_core::Framed;

use crate::avro::AvroPlan;
use crate::column::Column;
use crate::column_type::Type;
use crate::json_schema::JsonPlan;
use crate::limits::{Error, Result};
use crate::protobuf::ProtobufPlan;
use crate::schema::Schema;

/// The way from bodies of a schema to values of a column.
#[derive(Debug)]
pub struct Plan(Kind);

#[derive(Debug)]
enum Kind {
    Avro(AvroPlan),
    /// With the reader's schema.
    Protobuf(ProtobufPlan),
    JsonSchema(JsonPlan),
    /// The body as JSON text.
    Json,
}

/// The size of a value that was appended to a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The number of bytes that follow the body.
    pub left_over: usize,
    /// The number of bytes in the column, about.
    pub bytes: usize,
}

impl Plan {
    /// Bodies of any schema become JSON text.
    pub fn json() -> Self {
        Self(Kind::Json)
    }

    /// Plans how bodies of `writer` become values of a column. `reader` is the schema that they are resolved to; None: the
    /// column has the fields of several schemas, and those that `writer` does not have are null.
    pub fn new(writer: &Schema, reader: Option<&Schema>, column: &Type) -> Result<Self> {
        Ok(Self(match (writer, reader.unwrap_or(writer)) {
            (Schema::Avro(writer), Schema::Avro(own)) => {
                let reader = reader.is_some().then_some(own);
                Kind::Avro(AvroPlan::new(writer, reader, column)?)
            }
            (Schema::Protobuf(writer), Schema::Protobuf(own)) => {
                Kind::Protobuf(ProtobufPlan::new(writer, own, column)?)
            }
            (Schema::Json(_), Schema::Json(_)) => match column {
                Type::Json => Kind::Json,
                column => Kind::JsonSchema(JsonPlan::new(column)?),
            },
            (writer, reader) => {
                return Err(Error::new(format!(
                    "a schema of type {} is written, and one of type {} is read",
                    writer.schema_type(),
                    reader.schema_type()
                )));
            }
        }))
    }

    /// Appends the body of a key or value to a column. `writer`, `reader` and `column` are those of the plan. After an
    /// error, the column is as before.
    pub fn decode(
        &self,
        writer: &Schema,
        reader: Option<&Schema>,
        framed: &Framed<'_>,
        column: &mut Column,
    ) -> Result<Appended> {
        match (&self.0, writer, reader.unwrap_or(writer)) {
            (Kind::Avro(plan), Schema::Avro(writer), Schema::Avro(reader)) => {
                let (left_over, made) = plan.decode(writer, reader, framed.body, column)?;
                Ok(Appended {
                    left_over,
                    bytes: framed.body.len() + made,
                })
            }
            (Kind::Protobuf(plan), Schema::Protobuf(writer), Schema::Protobuf(reader)) => {
                let made = plan.decode(writer, reader, framed, column)?;
                Ok(Appended {
                    left_over: 0,
                    bytes: framed.body.len() + made,
                })
            }
            (Kind::JsonSchema(plan), Schema::Json(_), Schema::Json(_)) => {
                let made = plan.decode(framed.body, column)?;
                Ok(Appended {
                    left_over: 0,
                    bytes: framed.body.len() + made,
                })
            }
            (Kind::Json, ..) => column.push_written(|out| {
                let before = out.len();
                let left_over = writer.write_json(framed, out)?;
                Ok(Appended {
                    left_over,
                    bytes: out.len() - before,
                })
            }),
            _ => Err(Error::misfit()),
        }
    }
}
