//! Fields that another magic cannot store. They are refused, or dropped and counted.

use super::{Conversion, Converted};
use crate::base::error::{Error, Result};
use crate::format::record::Headers;
use crate::write::batch_builder::NewRecord;

/// Handles the fields that a magic cannot store.
pub(super) struct FieldLosses<'c> {
    magic: i8,
    drop_headers: bool,
    converted: &'c mut Converted,
}

impl<'c> FieldLosses<'c> {
    pub(super) fn of(conversion: &Conversion, converted: &'c mut Converted, magic: i8) -> Self {
        Self {
            magic,
            drop_headers: conversion.drop_headers,
            converted,
        }
    }

    pub(super) fn record<'r>(&mut self, record: NewRecord<'r>) -> Result<NewRecord<'r>> {
        if self.magic == 2 {
            return Ok(record);
        }
        self.converted.timestamps += u64::from(self.magic == 0 && record.timestamp != -1);
        let count = record.headers.count;
        if count == 0 {
            return Ok(record);
        }
        if !self.drop_headers {
            return Err(Error::invalid(format!(
                "the record at offset {} has {count} headers, which magic {} cannot store: drop headers, or keep magic 2",
                record.offset, self.magic
            )));
        }
        self.converted.headers += 1;
        Ok(NewRecord {
            headers: Headers::NONE,
            ..record
        })
    }
}
