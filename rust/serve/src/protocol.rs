//! Kafka's protocol: requests and replies as bytes, and the login of clients.

pub(crate) mod operations;
pub(crate) mod sasl;
pub(crate) mod versions_4_4;
pub(crate) mod wire;
