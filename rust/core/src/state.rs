//! The state of a cluster: the records of Kafka's internal topics, in Kafka's message format.

pub(crate) mod encode;
pub(crate) mod json;
pub(crate) mod latest;
#[rustfmt::skip] // a table with a row a line
pub(crate) mod messages;
pub(crate) mod internal_topic;
pub(crate) mod offset_commit;
pub(crate) mod request;
#[rustfmt::skip] // a table with a row a line
mod requests;
pub(crate) mod schema;
mod walk;
