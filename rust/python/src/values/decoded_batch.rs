//! Decoded keys or values as a record batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};
use brokerless_core::{Error, Result};
use brokerless_values::{Column, DecodedRows, Type};

use crate::values::arrow_column;

/// The error of values in terms of the core.
pub(crate) fn invalid(error: brokerless_values::Error) -> Error {
    Error::invalid(error.to_string())
}

/// A batch of rows whose values have this type. With `has_names`, it has their framings and the names of their schemas.
pub(crate) fn batch(kind: &Type, mut rows: DecodedRows, has_names: bool) -> Result<RecordBatch> {
    rows.finish().map_err(invalid)?;
    let mut columns = vec![
        ("decoded", kind, rows.values),
        ("bytes", &Type::Binary, rows.bytes),
    ];
    if has_names {
        columns.extend([
            ("framing", &Type::Utf8, rows.framings),
            ("schemaId", &Type::Int32, rows.ids),
            ("subject", &Type::Utf8, rows.subjects),
            ("version", &Type::Int32, rows.versions),
        ]);
    }
    columns.push(("error", &Type::Utf8, rows.errors));
    of_columns(columns).map_err(|error| Error::invalid(error.to_string()))
}

fn of_columns(columns: Vec<(&str, &Type, Column)>) -> std::result::Result<RecordBatch, ArrowError> {
    let mut fields: Vec<Field> = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (name, kind, column) in columns {
        fields.push(arrow_column::field(name, kind));
        arrays.push(arrow_column::array(kind, column)?);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}
