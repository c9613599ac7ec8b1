//! The bytes of requests of Kafka's protocol.

use crate::base::error::{Error, Result};
use crate::base::primitives::Reader;
use crate::state::requests::REQUESTS;
use crate::state::schema::{Field, Schema};
use crate::state::walk::{Visitor, walk};

/// Checks that all lengths and counts in the body of a request fit into the body. Call this before any code allocates
/// memory of the announced sizes.
///
/// Returns the number of array elements and unknown tagged fields: each of them takes memory when it is decoded, even
/// if it has few bytes.
///
/// # Errors
///
/// The API or its version is unknown; or the bytes break the format, or announce more than the body holds.
pub fn check_request(api_key: i16, version: i16, body: &[u8]) -> Result<usize> {
    let mut elements = Elements(0);
    // Bytes after a request are ignored, as brokers do: librdkafka leaves three when it asks for all topics.
    walk(
        schema(api_key)?,
        version,
        &mut Reader::new(body),
        &mut elements,
    )?;
    Ok(elements.0)
}

/// Returns the body of a request with other bytes for some fields. `replace` returns these bytes, given the name and
/// the bytes of a field. Bytes after the body are left out.
///
/// `replace` must not change tagged fields or fields inside these, because the size of a tagged field is stored before
/// it.
///
/// # Errors
///
/// As for [`check_request`].
pub fn replace_in_request<'a>(
    api_key: i16,
    version: i16,
    body: &'a [u8],
    replace: impl FnMut(&str, &'a [u8]) -> Option<Vec<u8>>,
) -> Result<Vec<u8>> {
    let mut reader = Reader::new(body);
    let mut replacer = Replacer {
        body,
        replace,
        open: Vec::new(),
        copied: 0,
        out: Vec::with_capacity(body.len()),
    };
    walk(schema(api_key)?, version, &mut reader, &mut replacer)?;
    replacer.copy_before(reader.rest());
    Ok(replacer.out)
}

fn schema(api_key: i16) -> Result<&'static Schema> {
    let known = REQUESTS.iter().find(|(key, _)| *key == api_key);
    known
        .map(|(_, schema)| *schema)
        .ok_or_else(|| Error::unsupported(format!("unknown request {api_key}")))
}

struct Replacer<'a, F> {
    body: &'a [u8],
    replace: F,
    /// For each open field, the bytes that remained at its start.
    open: Vec<&'a [u8]>,
    /// The bytes of the body that have been copied or replaced.
    copied: usize,
    out: Vec<u8>,
}

impl<'a, F> Replacer<'a, F> {
    fn copy_before(&mut self, left: &'a [u8]) {
        let end = self.body.len() - left.len();
        let kept = self.body.get(self.copied..end);
        self.out.extend_from_slice(kept.unwrap_or_default());
        self.copied = end;
    }
}

impl<'a, F: FnMut(&str, &'a [u8]) -> Option<Vec<u8>>> Visitor<'a> for Replacer<'a, F> {
    fn begin_field(&mut self, _: &'static Field, left: &'a [u8]) {
        self.open.push(left);
    }

    fn end_field(&mut self, field: &'static Field, _: bool, left: &'a [u8]) -> Result<()> {
        let begin = self.open.pop().unwrap_or_default();
        let value = begin.get(..begin.len() - left.len()).unwrap_or_default();
        if let Some(other) = (self.replace)(field.name, value) {
            self.copy_before(begin);
            self.out.extend(other);
            self.copied = self.body.len() - left.len();
        }
        Ok(())
    }
}

struct Elements(usize);

impl Visitor<'_> for Elements {
    fn element(&mut self) {
        self.0 += 1;
    }
}
