//! Decoded keys or values as columns.

use std::sync::Arc;

use brokerless_core::Framing;

use crate::column::Column;
use crate::column_type::Type;
use crate::limits::Result;

/// The columns of decoded keys or values: the values, what does not decode and why, and the schemas that were named.
///
/// The other columns may have fewer rows than `values` until [`DecodedRows::finish`] completes them.
#[derive(Debug)]
pub struct DecodedRows {
    /// The values.
    pub values: Column,
    /// The bytes of each key or value that has no schema or does not decode, else null.
    pub bytes: Column,
    /// Why it does not decode, else null.
    pub errors: Column,
    /// The names of the framings.
    pub framings: Column,
    /// The ids of the schemas.
    pub ids: Column,
    /// The subjects of the schemas.
    pub subjects: Column,
    /// The versions of the schemas in these subjects.
    pub versions: Column,
    /// The framing and the schema of the last rows; None: they are null.
    named: Option<(Framing, Arc<SchemaName>)>,
}

/// The id of a schema, and the version of a subject that it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SchemaName {
    /// The id.
    pub id: Option<i32>,
    /// The subject.
    pub subject: Option<String>,
    /// The version.
    pub version: Option<i32>,
}

impl DecodedRows {
    /// No rows, of values of this type.
    pub fn new(kind: &Type) -> Self {
        let [bytes, text, number] = [Type::Binary, Type::Utf8, Type::Int32];
        Self {
            values: Column::new(kind),
            bytes: Column::new(&bytes),
            errors: Column::new(&text),
            framings: Column::new(&text),
            ids: Column::new(&number),
            subjects: Column::new(&text),
            versions: Column::new(&number),
            named: None,
        }
    }

    /// Adds a null key or value, which has no schema.
    pub fn push_null(&mut self) -> Result<()> {
        self.name(None)?;
        self.values.push_null();
        Ok(())
    }

    /// Adds a key or value that has no schema, or does not decode for a reason.
    pub(crate) fn push_undecoded(&mut self, payload: &[u8], reason: Option<&str>) -> Result<()> {
        let rows = self.values.len();
        self.bytes.push_nulls(rows - self.bytes.len());
        self.bytes.push_bytes(payload)?;
        if let Some(reason) = reason {
            self.errors.push_nulls(rows - self.errors.len());
            self.errors.push_bytes(reason.as_bytes())?;
        }
        self.values.push_null();
        Ok(())
    }

    /// Names the framing and the schema of the next row, before it is added.
    pub(crate) fn name(&mut self, named: Option<(Framing, &Arc<SchemaName>)>) -> Result<()> {
        let is_same = match (&self.named, &named) {
            (Some((framing, schema)), Some((other, its))) => {
                framing == other && Arc::ptr_eq(schema, its)
            }
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            self.end_run()?;
            self.named = named.map(|(framing, schema)| (framing, Arc::clone(schema)));
        }
        Ok(())
    }

    /// Adds the framing and the schema to the rows that lack them.
    fn end_run(&mut self) -> Result<()> {
        let rows = self.values.len() - self.framings.len();
        let (framing, schema) = match &self.named {
            Some((framing, schema)) => (Some(framing.name()), schema.as_ref()),
            None => (None, &SchemaName::default()),
        };
        self.framings.repeat_text(framing, rows)?;
        self.subjects.repeat_text(schema.subject.as_deref(), rows)?;
        self.ids.repeat_integer(schema.id, rows)?;
        self.versions.repeat_integer(schema.version, rows)
    }

    /// Why the last row does not decode, before [`Self::finish`]; None if it does.
    pub fn last_error(&self) -> Option<&str> {
        let is_last = !self.errors.is_empty() && self.errors.len() == self.values.len();
        is_last.then(|| self.errors.last_text())?
    }

    /// Completes all columns.
    pub fn finish(&mut self) -> Result<()> {
        let rows = self.values.len();
        self.bytes.push_nulls(rows - self.bytes.len());
        self.errors.push_nulls(rows - self.errors.len());
        self.end_run()
    }

    /// Removes all rows, and keeps the memory.
    pub fn clear(&mut self) {
        self.named = None;
        for column in [
            &mut self.values,
            &mut self.bytes,
            &mut self.errors,
            &mut self.framings,
            &mut self.ids,
            &mut self.subjects,
            &mut self.versions,
        ] {
            column.truncate(0);
        }
    }
}
