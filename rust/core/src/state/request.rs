//! The bytes of a request of Kafka's protocol, checked before anything allocates what they announce.

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;
use crate::state::requests::REQUESTS;
use crate::state::schema::Field;
use crate::state::walk::{Value, Visitor, walk};

/// Checks the body of a request: all lengths and counts fit into it.
///
/// # Errors
///
/// The API or its version is not known; or the bytes break the format, or announce more than there is.
pub fn check_request(api_key: i16, version: i16, body: &[u8]) -> Result<()> {
    let (_, schema) = REQUESTS
        .iter()
        .find(|(key, _)| *key == api_key)
        .ok_or_else(|| Error::unsupported(format!("unknown request {api_key}")))?;
    let mut reader = Reader::new(body);
    // Bytes behind a request are ignored, as brokers do: librdkafka leaves three when it asks for all topics.
    walk(schema, version, &mut reader, &mut Nobody)
}

struct Nobody;

impl Visitor<'_> for Nobody {
    fn begin_field(&mut self, _: &'static Field) {}
    fn end_field(&mut self, _: &'static Field, _: bool) -> Result<()> {
        Ok(())
    }
    fn value(&mut self, _: Value<'_>) {}
    fn begin_array(&mut self) {}
    fn end_array(&mut self) {}
    fn begin_struct(&mut self) {}
    fn end_struct(&mut self) {}
}
