//! Whose clock a timestamp is of.

/// Who set the timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum TimestampType {
    /// Magic 0 has no timestamps.
    NoTimestampType = -1,
    /// The producer.
    CreateTime = 0,
    /// The broker, one for the whole batch.
    LogAppendTime = 1,
}

impl TimestampType {
    const ALL: [Self; 3] = [Self::NoTimestampType, Self::CreateTime, Self::LogAppendTime];

    /// By Kafka's number.
    pub fn from_id(id: i32) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|&timestamp_type| timestamp_type as i32 == id)
    }

    /// By Kafka's name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|timestamp_type| timestamp_type.name() == name)
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
