//! What a broker decides when it appends, and when it recovers.

pub(crate) mod append;
pub(crate) mod epochs;
pub(crate) mod index_builder;
pub(crate) mod producers;
pub(crate) mod recovery;
pub(crate) mod refusal;
pub(crate) mod validate;
