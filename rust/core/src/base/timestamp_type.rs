//! The timestamp types of Kafka: who set the timestamps of a batch.

use crate::base::error::{Error, Result};

/// Who set the timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum TimestampType {
    /// Magic 0 has no timestamps.
    NoTimestampType = -1,
    /// The producer set the timestamp of each record.
    CreateTime = 0,
    /// The broker set one timestamp for the whole batch.
    LogAppendTime = 1,
}

impl TimestampType {
    const ALL: [Self; 3] = [Self::NoTimestampType, Self::CreateTime, Self::LogAppendTime];

    /// Returns the type with Kafka's id.
    pub fn from_id(id: i32) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|&timestamp_type| timestamp_type as i32 == id)
    }

    /// Returns the type with Kafka's name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|timestamp_type| timestamp_type.name() == name)
    }

    /// Refuses a type that this magic cannot store. [`Self::NoTimestampType`] is accepted for every magic: a timestamp
    /// of -1 stands for it.
    pub fn check_magic(self, magic: i8) -> Result<()> {
        if magic == 0 && self != Self::NoTimestampType {
            return Err(Error::invalid(format!(
                "timestamp type {} cannot be kept in magic 0; it needs magic 1 or 2",
                self.name()
            )));
        }
        Ok(())
    }

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTimestampType => "NoTimestampType",
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}
