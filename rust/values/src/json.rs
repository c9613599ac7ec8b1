//! A body that is JSON text.

use serde::de::IgnoredAny;

use crate::limits::{Error, Result};

/// Appends JSON text on one line, without the white space between its parts. After an error, `out` is as before.
pub fn json_document(body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    write_compact(valid(body)?.as_bytes(), out);
    Ok(())
}

/// Returns a body that is JSON text.
pub(crate) fn valid(body: &[u8]) -> Result<&str> {
    // Without it, strings that are skipped may be any bytes.
    let text = std::str::from_utf8(body).map_err(|_| Error::new("the body is not UTF-8"))?;
    serde_json::from_str::<IgnoredAny>(text)
        // Its message names a place, and no content.
        .map_err(|error| Error::new(format!("the body is no JSON: {error}")))?;
    Ok(text)
}

/// Appends valid JSON text without the white space between its parts.
pub(crate) fn write_compact(body: &[u8], out: &mut Vec<u8>) {
    let mut is_string = false;
    let mut is_escaped = false;
    for &byte in body {
        if is_string {
            is_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
        } else {
            is_string = byte == b'"';
            if byte.is_ascii_whitespace() {
                continue;
            }
        }
        out.push(byte);
    }
}
