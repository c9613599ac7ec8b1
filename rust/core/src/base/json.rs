//! A writer that appends JSON to a byte vector. Strings are escaped as Kafka's tools (Jackson) escape them: only where
//! JSON requires it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::base::error::{Error, Result};
/// The integers that can be written.
pub use itoa::Integer as JsonInteger;

/// The form of keys, values and header values as JSON strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BytesFormat {
    /// As text. Bytes that are not UTF-8 become `{"base64": "..."}`, so the result is unambiguous.
    Utf8,
    /// As base64 with padding.
    Base64,
    /// As lower-case hexadecimal.
    Hex,
    /// As `{"base64": "..."}`, also where the bytes are text.
    Object,
}

impl BytesFormat {
    /// Returns the format of a name: `utf8`, `base64` or `hex`.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "utf8" => Ok(Self::Utf8),
            "base64" => Ok(Self::Base64),
            "hex" => Ok(Self::Hex),
            _ => Err(Error::invalid(format!(
                "bytes is {name:?}, not one of utf8, base64, hex"
            ))),
        }
    }

    /// Decodes a string that was written in this format.
    pub fn decode(self, text: &str) -> Result<Vec<u8>> {
        match self {
            Self::Utf8 => Ok(text.as_bytes().to_vec()),
            Self::Base64 | Self::Object => STANDARD
                .decode(text)
                .map_err(|error| Error::invalid(format!("not base64: {error}"))),
            Self::Hex => text
                .as_bytes()
                .chunks(2)
                .map(|digits| {
                    std::str::from_utf8(digits)
                        .ok()
                        .filter(|digits| digits.len() == 2 && !digits.starts_with('+'))
                        .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                        .ok_or_else(|| Error::invalid("not hexadecimal"))
                })
                .collect(),
        }
    }
}

/// A writer that adds the commas. The caller must end each object and array that it begins.
#[derive(Debug)]
pub struct Json<'a> {
    out: &'a mut Vec<u8>,
    /// True if a value precedes the next key or element.
    follows: bool,
}

/// A position in the text of a [`Json`].
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    length: usize,
    follows: bool,
}

impl<'a> Json<'a> {
    /// Creates a writer of one JSON text, which is appended to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            follows: false,
        }
    }

    #[inline]
    fn separate(&mut self) {
        if self.follows {
            self.out.push(b',');
        }
    }

    /// Begins an object.
    #[inline]
    pub fn begin_object(&mut self) {
        self.separate();
        self.out.push(b'{');
        self.follows = false;
    }

    /// Ends an object.
    #[inline]
    pub fn end_object(&mut self) {
        self.out.push(b'}');
        self.follows = true;
    }

    /// Begins an array.
    #[inline]
    pub fn begin_array(&mut self) {
        self.separate();
        self.out.push(b'[');
        self.follows = false;
    }

    /// Ends an array.
    #[inline]
    pub fn end_array(&mut self) {
        self.out.push(b']');
        self.follows = true;
    }

    /// Writes a key that needs no escaping. Its value comes next.
    #[inline]
    pub fn key(&mut self, name: &str) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.follows = false;
    }

    /// Writes a key of any text. Its value comes next.
    #[inline]
    pub fn text_key(&mut self, name: &str) {
        self.string(name);
        self.out.push(b':');
        self.follows = false;
    }

    /// Writes a number.
    #[inline]
    pub fn int(&mut self, value: impl JsonInteger) {
        self.separate();
        self.out
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.follows = true;
    }

    /// Writes a finite number with a fraction or an exponent.
    pub fn float(&mut self, value: f64) {
        self.separate();
        self.out.extend_from_slice(format!("{value:?}").as_bytes());
        self.follows = true;
    }

    /// Writes a number. JSON has no NaN and no infinities: they become text.
    pub fn float64(&mut self, value: f64) {
        if value.is_finite() {
            self.float(value);
        } else {
            self.not_finite(value);
        }
    }

    /// Writes a number with the fewest digits that no other 32-bit number has. NaN and the infinities become text.
    pub fn float32(&mut self, value: f32) {
        if value.is_finite() {
            self.text(&format!("{value:?}"));
        } else {
            self.not_finite(value.into());
        }
    }

    fn not_finite(&mut self, value: f64) {
        self.string(if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        });
    }

    /// Writes a JSON text as it is.
    #[inline]
    pub fn text(&mut self, text: &str) {
        self.separate();
        self.out.extend_from_slice(text.as_bytes());
        self.follows = true;
    }

    /// Writes `true` or `false`.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.separate();
        self.out
            .extend_from_slice(if value { b"true" } else { b"false" });
        self.follows = true;
    }

    /// Writes `null`.
    #[inline]
    pub fn null(&mut self) {
        self.separate();
        self.out.extend_from_slice(b"null");
        self.follows = true;
    }

    /// Writes a key and its number.
    #[inline]
    pub fn int_field(&mut self, name: &str, value: impl JsonInteger) {
        self.key(name);
        self.int(value);
    }

    /// Writes a key and its number, or null.
    #[inline]
    pub fn optional_field(&mut self, name: &str, value: Option<i64>) {
        self.key(name);
        match value {
            Some(value) => self.int(value),
            None => self.null(),
        }
    }

    /// Writes a key and `true` or `false`.
    #[inline]
    pub fn bool_field(&mut self, name: &str, value: bool) {
        self.key(name);
        self.bool(value);
    }

    /// Writes a key and its string.
    #[inline]
    pub fn string_field(&mut self, name: &str, value: &str) {
        self.key(name);
        self.string(value);
    }

    /// Returns the current position, for [`Self::since`] and [`Self::go_back`].
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            length: self.out.len(),
            follows: self.follows,
        }
    }

    /// Returns the bytes written since the mark.
    #[inline]
    pub fn since(&self, mark: &Mark) -> &[u8] {
        self.out.get(mark.length..).unwrap_or_default()
    }

    /// Removes the bytes written since the mark.
    #[inline]
    pub fn go_back(&mut self, mark: &Mark) {
        self.out.truncate(mark.length);
        self.follows = mark.follows;
    }

    /// Writes a string.
    #[inline]
    pub fn string(&mut self, value: &str) {
        self.separate();
        self.out.push(b'"');
        append_escaped(value.as_bytes(), self.out);
        self.out.push(b'"');
        self.follows = true;
    }

    /// Writes bytes, or null.
    #[inline]
    pub fn bytes(&mut self, value: Option<&[u8]>, format: BytesFormat) {
        let Some(value) = value else {
            return self.null();
        };
        match format {
            BytesFormat::Utf8 => match std::str::from_utf8(value) {
                Ok(text) => self.string(text),
                Err(_) => self.object(value),
            },
            BytesFormat::Base64 => self.base64(value),
            BytesFormat::Hex => self.hex(value),
            BytesFormat::Object => self.object(value),
        }
    }

    fn object(&mut self, value: &[u8]) {
        self.begin_object();
        self.key("base64");
        self.base64(value);
        self.end_object();
    }

    fn base64(&mut self, value: &[u8]) {
        self.separate();
        self.out.push(b'"');
        let start = self.out.len();
        self.out.resize(start + value.len().div_ceil(3) * 4, 0);
        let room = self.out.get_mut(start..).unwrap_or_default();
        let written = STANDARD.encode_slice(value, room).unwrap_or(0);
        self.out.truncate(start + written);
        self.out.push(b'"');
        self.follows = true;
    }

    fn hex(&mut self, value: &[u8]) {
        let digit = |nibble: u8| {
            if nibble < 10 {
                b'0' + nibble
            } else {
                b'a' - 10 + nibble
            }
        };
        self.separate();
        self.out.push(b'"');
        self.out.extend(
            value
                .iter()
                .flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]),
        );
        self.out.push(b'"');
        self.follows = true;
    }
}

/// Appends UTF-8 text with quotes, backslashes and control characters escaped.
fn append_escaped(mut text: &[u8], out: &mut Vec<u8>) {
    loop {
        let (plain, rest) = text.split_at(plain_length(text));
        out.extend_from_slice(plain);
        let Some((&byte, rest)) = rest.split_first() else {
            return;
        };
        append_escape(byte, out);
        text = rest;
    }
}

/// Counts the bytes before the first one that needs an escape.
fn plain_length(text: &[u8]) -> usize {
    let needs_escape = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    // Whole blocks without an early exit: the compiler vectorizes the fold.
    let (blocks, tail) = text.as_chunks::<16>();
    let is_plain = |block: &[u8; 16]| {
        !block
            .iter()
            .fold(false, |found, byte| found | needs_escape(byte))
    };
    let plain = blocks.iter().take_while(|block| is_plain(block)).count();
    let rest = blocks.get(plain).map_or(tail, |block| block.as_slice());
    16 * plain + rest.iter().position(needs_escape).unwrap_or(rest.len())
}

fn append_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let digit = |nibble: u8| {
                if nibble < 10 {
                    b'0' + nibble
                } else {
                    b'A' - 10 + nibble
                }
            };
            out.extend_from_slice(b"\\u00");
            out.extend([digit(byte >> 4), digit(byte & 15)]);
            return;
        }
    };
    out.extend([b'\\', short]);
}
