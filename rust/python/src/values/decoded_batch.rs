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

/// A batch of rows whose values have this type, without the names of schemas.
pub(crate) fn unnamed(kind: &Type, mut rows: DecodedRows) -> Result<RecordBatch> {
    rows.finish().map_err(invalid)?;
    batch([
        ("decoded", kind, rows.values),
        ("bytes", &Type::Binary, rows.bytes),
        ("error", &Type::Utf8, rows.errors),
    ])
}

/// A batch of rows whose values have this type, with their framings and the names of their schemas.
pub(crate) fn named(kind: &Type, mut rows: DecodedRows) -> Result<RecordBatch> {
    rows.finish().map_err(invalid)?;
    batch([
        ("decoded", kind, rows.values),
        ("bytes", &Type::Binary, rows.bytes),
        ("framing", &Type::Utf8, rows.framings),
        ("schemaId", &Type::Int32, rows.ids),
        ("subject", &Type::Utf8, rows.subjects),
        ("version", &Type::Int32, rows.versions),
        ("error", &Type::Utf8, rows.errors),
    ])
}

fn batch<const N: usize>(columns: [(&str, &Type, Column); N]) -> Result<RecordBatch> {
    let made = || -> std::result::Result<_, ArrowError> {
        let mut fields: Vec<Field> = Vec::with_capacity(N);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(N);
        for (name, kind, column) in columns {
            fields.push(arrow_column::field(name, kind));
            arrays.push(arrow_column::array(kind, column)?);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    };
    made().map_err(|error| Error::invalid(error.to_string()))
}
