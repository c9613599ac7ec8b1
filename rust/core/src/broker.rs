//! Appends to one log and its recovery, with the same results as on a Kafka broker.

pub(crate) mod append;
pub(crate) mod epochs;
pub(crate) mod index_builder;
pub(crate) mod producers;
pub(crate) mod recovery;
pub(crate) mod refusal;
pub(crate) mod validate;
