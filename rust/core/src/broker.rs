//! The broker's side: appends and recovery of one log, decided as Kafka decides.

pub(crate) mod append;
pub(crate) mod epochs;
pub(crate) mod index_builder;
pub(crate) mod producers;
pub(crate) mod recovery;
pub(crate) mod refusal;
pub(crate) mod validate;
