//! A broker's appends, its state of a log, and its recovery.

pub(crate) mod appended;
pub(crate) mod appender;
pub(crate) mod leader_epochs;
pub(crate) mod producers;
pub(crate) mod segment_recovery;
pub(crate) mod segment_state;
