//! The common part of the encoders of all schemas: JSON values of rows to bytes.
//!
//! A value has the form that [`crate::Schema::write_json`] gives it.

use brokerless_core::BytesFormat;
use serde_json::Value;

use crate::limits::{Error, MOST_DECODED, MOST_DEPTH, Result};

/// The most values of a row, with those that were tried for branches of unions.
const MOST_VALUES: usize = 1 << 22;
/// The characters of a map's key that an error shows.
const SHOWN: usize = 40;

/// Why a value is none of its type, and the place of it.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// The places from the inside out.
    path: Vec<String>,
    why: String,
}

/// The result of encoding a value.
pub(crate) type Fit<T = ()> = std::result::Result<T, Misfit>;

impl Misfit {
    #[cold]
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self {
            path: Vec::new(),
            why: why.into(),
        }
    }

    /// The value of another type than the expected one.
    #[cold]
    pub(crate) fn unlike(expected: &str, value: &Value) -> Self {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "this boolean",
            Value::Number(_) => "this number",
            Value::String(_) => "this text",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        Self::new(format!("{expected} is expected, not {found}"))
    }

    /// The value is in a field.
    #[cold]
    pub(crate) fn in_field(mut self, name: &str) -> Self {
        self.path.push(format!(".{name}"));
        self
    }

    /// The value is an item of a list or an entry of a map, of which nothing is shown.
    #[cold]
    pub(crate) fn in_each(mut self) -> Self {
        self.path.push("[*]".to_owned());
        self
    }

    /// The value is an item of a list.
    #[cold]
    pub(crate) fn in_item(mut self, index: usize) -> Self {
        self.path.push(format!("[{index}]"));
        self
    }

    /// The value is one of a map.
    #[cold]
    pub(crate) fn in_entry(mut self, key: &str) -> Self {
        let shown: String = key.chars().take(SHOWN).collect();
        self.path.push(format!("[{shown:?}]"));
        self
    }

    /// The error, with the path of the value from `root` on.
    #[cold]
    pub(crate) fn at(self, root: &str) -> Error {
        let path: String = self.path.into_iter().rev().collect();
        Error::new(format!("{root}{path}: {}", self.why))
    }
}

impl From<Error> for Misfit {
    #[cold]
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}

/// The work that encoding may still take: short schemas may have defaults within defaults that double at each level,
/// or unions whose branches are tried in vain.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: usize,
    values: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize, values: usize) -> Self {
        Self { bytes, values }
    }

    pub(crate) fn of_row() -> Self {
        Self::new(MOST_DECODED, MOST_VALUES)
    }

    /// Counts a value. `len` is the number of bytes of all values so far.
    pub(crate) fn take(&mut self, len: usize) -> Fit {
        self.values = self.values.saturating_sub(1);
        if self.is_spent(len) {
            return Err(Misfit::new(format!(
                "the value takes more than {} MiB, or has too many types to try",
                MOST_DECODED >> 20
            )));
        }
        Ok(())
    }

    pub(crate) fn is_spent(&self, len: usize) -> bool {
        self.values == 0 || len > self.bytes
    }
}

/// The levels that are left below a value.
pub(crate) fn deeper(depth: u32) -> Fit<u32> {
    depth.checked_sub(1).ok_or_else(|| {
        Misfit::new(format!(
            "values are nested more than {MOST_DEPTH} levels deep"
        ))
    })
}

/// Parses the JSON text of a row.
pub(crate) fn parsed(json: &[u8], root: &str) -> Result<Value> {
    serde_json::from_slice(json).map_err(|error| Error::new(format!("{root}: no JSON: {error}")))
}

/// A number, or the text of one that JSON does not have.
pub(crate) fn float64(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| match value.as_str()? {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    })
}

/// The nearest number of 32 bits. A finite number beyond all of them is none.
pub(crate) fn float32(value: &Value) -> Option<f32> {
    let wide = float64(value)?;
    let narrow = wide as f32;
    (narrow.is_finite() || !wide.is_finite()).then_some(narrow)
}

/// The bytes of base64 text.
pub(crate) fn base64(value: &Value) -> Option<Vec<u8>> {
    BytesFormat::Base64.decode(value.as_str()?).ok()
}

/// Appends an unsigned number, seven bits to a byte.
pub(crate) fn varint(mut rest: u64, out: &mut Vec<u8>) {
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The unsigned number of a signed one: small if that is near zero.
pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}
