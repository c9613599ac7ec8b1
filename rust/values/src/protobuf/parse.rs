//! The text of a `.proto` file: its messages, enums and extensions.
//!
//! Services, reserved names and all options except three are skipped, because they do not change a body.
//! So a schema is read even if its options are of an unknown syntax. Only nested messages recurse, and their depth is
//! limited. The memory grows with the text.

use std::borrow::Cow;

use crate::limits::{Error, Result};

/// The most levels of messages in messages, as in protoc.
pub(super) const MOST_LEVELS: u32 = 32;
/// The most bytes of a full name.
pub(super) const MOST_NAME: usize = 512;
/// The most fields, messages and values of enums in a file.
const MOST_ITEMS: usize = 1 << 20;

/// A file.
#[derive(Debug)]
pub(super) struct File<'t> {
    pub(super) package: Cow<'t, str>,
    pub(super) imports: Vec<&'t str>,
    /// The presence of fields without a presence of their own.
    pub(super) presence: Presence,
    /// True if messages within messages are groups, unless a field says otherwise.
    pub(super) is_delimited: bool,
    pub(super) body: Body<'t>,
}

/// The types in a file or message.
#[derive(Debug, Default)]
pub(super) struct Body<'t> {
    /// The messages in the order of message indexes, then the types of groups.
    pub(super) messages: Vec<Message<'t>>,
    pub(super) enums: Vec<Enum<'t>>,
    pub(super) extensions: Vec<Extension<'t>>,
    groups: Vec<Message<'t>>,
}

#[derive(Debug)]
pub(super) struct Message<'t> {
    pub(super) name: &'t str,
    pub(super) fields: Vec<Field<'t>>,
    pub(super) body: Body<'t>,
    /// True for the type of a group, which message indexes do not count.
    pub(super) is_group: bool,
    /// True for the entries of a map. Registries write a map as a repeated message with the option `map_entry`.
    pub(super) is_entry: bool,
}

#[derive(Debug)]
pub(super) struct Enum<'t> {
    pub(super) name: &'t str,
    pub(super) values: Vec<(&'t str, i32)>,
}

/// Fields for another message: `extended`.
#[derive(Debug)]
pub(super) struct Extension<'t> {
    pub(super) extended: Cow<'t, str>,
    pub(super) fields: Vec<Field<'t>>,
}

#[derive(Debug)]
pub(super) struct Field<'t> {
    pub(super) name: &'t str,
    pub(super) number: u32,
    pub(super) is_repeated: bool,
    pub(super) kind: Kind<'t>,
    /// The position of its oneof in the message.
    pub(super) oneof: Option<u32>,
    pub(super) presence: Option<Presence>,
    pub(super) is_required: bool,
    /// True if a message is a group, False if it is not.
    pub(super) is_delimited: Option<bool>,
}

/// The type of a field, by its name.
#[derive(Debug)]
pub(super) enum Kind<'t> {
    Named(Cow<'t, str>),
    /// The type of a group has the name of the field.
    Group,
    Map {
        key: Cow<'t, str>,
        value: Cow<'t, str>,
    },
}

/// The presence of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// A message with the field differs from one without it.
    Explicit,
    /// A missing field is zero or empty.
    Implicit,
}

impl Presence {
    fn of(name: &str) -> Option<Self> {
        match name {
            "EXPLICIT" | "LEGACY_REQUIRED" => Some(Self::Explicit),
            "IMPLICIT" => Some(Self::Implicit),
            _ => None,
        }
    }
}

impl<'t> File<'t> {
    /// Reads a file.
    pub(super) fn parse(text: &'t str) -> Result<Self> {
        let mut parser = Parser {
            tokens: Tokens::new(text)?,
            items: Items::default(),
        };
        parser.file()
    }
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    items: Items,
}

/// The options of a field, a message or a file that change how a body is decoded.
#[derive(Debug, Default)]
struct Options {
    presence: Option<Presence>,
    is_required: bool,
    is_delimited: Option<bool>,
    is_entry: bool,
}

impl<'t> Parser<'t> {
    fn file(&mut self) -> Result<File<'t>> {
        let mut file = File {
            package: Cow::Borrowed(""),
            imports: Vec::new(),
            presence: Presence::Explicit,
            is_delimited: false,
            body: Body::default(),
        };
        let mut options = Options::default();
        loop {
            let word = match self.tokens.next {
                Token::End => break,
                Token::Symbol(b';') => {
                    self.tokens.advance()?;
                    continue;
                }
                _ => self.word("a declaration")?,
            };
            match word {
                "syntax" => {
                    self.symbol(b'=')?;
                    match self.string()? {
                        "proto2" => {}
                        "proto3" => file.presence = Presence::Implicit,
                        other => {
                            return Err(Error::new(format!("the syntax {other:?} is not known")));
                        }
                    }
                    self.symbol(b';')?;
                }
                "edition" => {
                    self.symbol(b'=')?;
                    self.string()?;
                    self.symbol(b';')?;
                }
                "package" => {
                    file.package = self.full_name("a package")?;
                    self.symbol(b';')?;
                }
                "import" => {
                    if let Token::Word(_) = self.tokens.next {
                        self.tokens.advance()?;
                    }
                    file.imports.push(self.string()?);
                    self.symbol(b';')?;
                }
                "option" => self.option(&mut options)?,
                "service" => self.skip(b'}')?,
                // Editions limit the use of a type so.
                "export" | "local" => {}
                _ if self.declaration(word, &mut file.body, 0)? => {}
                _ => return Err(self.tokens.unexpected("a declaration")),
            }
        }
        file.presence = options.presence.unwrap_or(file.presence);
        file.is_delimited = options.is_delimited.unwrap_or_default();
        file.body.close();
        Ok(file)
    }

    /// Reads a declaration that a file and a message may both have. Returns false if `word` begins another one.
    fn declaration(&mut self, word: &str, body: &mut Body<'t>, level: u32) -> Result<bool> {
        match word {
            "message" => {
                let name = self.name()?;
                let message = self.message(name, level)?;
                body.messages.push(message);
            }
            "enum" => {
                let one = self.enumeration()?;
                body.enums.push(one);
            }
            "extend" => {
                let extended = self.full_name("a message")?;
                let mut fields = Vec::new();
                self.symbol(b'{')?;
                while !self.ends(b'}')? {
                    let word = self.word("a field")?;
                    self.field(word, None, &mut fields, body, level)?;
                }
                body.extensions.push(Extension { extended, fields });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn message(&mut self, name: &'t str, level: u32) -> Result<Message<'t>> {
        if level >= MOST_LEVELS {
            return Err(Error::new(format!(
                "messages are nested more than {MOST_LEVELS} levels deep"
            )));
        }
        self.items.count()?;
        let (mut fields, mut body) = (Vec::new(), Body::default());
        let mut options = Options::default();
        let mut oneofs = 0;
        self.symbol(b'{')?;
        while !self.ends(b'}')? {
            match self.word("a field")? {
                "option" => self.option(&mut options)?,
                "reserved" | "extensions" => self.skip(b';')?,
                "oneof" => {
                    self.name()?;
                    self.symbol(b'{')?;
                    while !self.ends(b'}')? {
                        match self.word("a field")? {
                            "option" => self.option(&mut Options::default())?,
                            word => {
                                self.field(word, Some(oneofs), &mut fields, &mut body, level)?;
                            }
                        }
                    }
                    oneofs += 1;
                }
                "export" | "local"
                    if matches!(self.tokens.next, Token::Word("message" | "enum")) => {}
                word => {
                    if !self.declaration(word, &mut body, level + 1)? {
                        self.field(word, None, &mut fields, &mut body, level)?;
                    }
                }
            }
        }
        body.close();
        Ok(Message {
            name,
            fields,
            body,
            is_group: false,
            is_entry: options.is_entry,
        })
    }

    /// Reads a field that begins with `word`. Adds the type of a group to `body`.
    fn field(
        &mut self,
        word: &'t str,
        oneof: Option<u32>,
        fields: &mut Vec<Field<'t>>,
        body: &mut Body<'t>,
        level: u32,
    ) -> Result<()> {
        self.items.count()?;
        let is_label = matches!(word, "optional" | "required" | "repeated");
        let named = if is_label { self.word("a type")? } else { word };
        let named = self.whole_name(named)?;
        let kind = match (named.as_ref(), self.tokens.next) {
            ("map", Token::Symbol(b'<')) => {
                self.tokens.advance()?;
                let key = self.full_name("a type")?;
                self.symbol(b',')?;
                let value = self.full_name("a type")?;
                self.symbol(b'>')?;
                Kind::Map { key, value }
            }
            ("group", _) => Kind::Group,
            _ => Kind::Named(named),
        };
        let name = self.name()?;
        self.symbol(b'=')?;
        let number = u32::try_from(self.integer()?)
            .ok()
            .filter(|number| (1..1 << 29).contains(number))
            .ok_or_else(|| Error::new(format!("the field {name} has no valid number")))?;
        let mut options = Options::default();
        if self.tokens.next == Token::Symbol(b'[') {
            self.options(&mut options)?;
        }
        let is_group = matches!(kind, Kind::Group);
        if is_group {
            let mut group = self.message(name, level + 1)?;
            group.is_group = true;
            body.groups.push(group);
        } else {
            self.symbol(b';')?;
        }
        let is_explicit = matches!(word, "optional" | "required") || oneof.is_some();
        fields.push(Field {
            name,
            number,
            is_repeated: word == "repeated" || matches!(kind, Kind::Map { .. }),
            kind,
            oneof,
            presence: if is_explicit {
                Some(Presence::Explicit)
            } else {
                options.presence
            },
            is_required: word == "required" || options.is_required,
            is_delimited: if is_group {
                Some(true)
            } else {
                options.is_delimited
            },
        });
        Ok(())
    }

    fn enumeration(&mut self) -> Result<Enum<'t>> {
        let name = self.name()?;
        let mut values = Vec::new();
        self.symbol(b'{')?;
        while !self.ends(b'}')? {
            match self.name()? {
                "option" => self.option(&mut Options::default())?,
                "reserved" => self.skip(b';')?,
                value => {
                    self.items.count()?;
                    self.symbol(b'=')?;
                    let number = i32::try_from(self.integer()?)
                        .map_err(|_| Error::new(format!("{value} has more than 32 bits")))?;
                    if self.tokens.next == Token::Symbol(b'[') {
                        self.options(&mut Options::default())?;
                    }
                    self.symbol(b';')?;
                    values.push((value, number));
                }
            }
        }
        Ok(Enum { name, values })
    }

    /// Reads the options of a field, in brackets.
    fn options(&mut self, options: &mut Options) -> Result<()> {
        self.symbol(b'[')?;
        loop {
            if self.one_option(options, b",]")? == b']' {
                return Ok(());
            }
        }
    }

    /// Reads an option that is a declaration of its own.
    fn option(&mut self, options: &mut Options) -> Result<()> {
        self.one_option(options, b";").map(|_| ())
    }

    /// Reads an option, and returns the one of `ends` that follows it. A value may be text in braces and brackets.
    fn one_option(&mut self, options: &mut Options, ends: &[u8]) -> Result<u8> {
        let first = self.tokens.next;
        let is_feature =
            matches!(first, Token::Word(word) if word.split('.').next() == Some("features"));
        let (mut depth, mut name) = (0_u32, "");
        loop {
            match self.tokens.next {
                Token::Symbol(symbol) if depth == 0 && ends.contains(&symbol) => {
                    self.tokens.advance()?;
                    return Ok(symbol);
                }
                Token::Symbol(b'{' | b'[' | b'(') => depth += 1,
                Token::Symbol(b'}' | b']' | b')') => {
                    depth = depth
                        .checked_sub(1)
                        .ok_or_else(|| self.tokens.unexpected("the end of an option"))?;
                }
                // A name precedes it, and its value follows.
                Token::Symbol(b'=' | b':') => {
                    self.tokens.advance()?;
                    if let Token::Word(value) = self.tokens.next {
                        if is_feature && name.ends_with("field_presence") {
                            options.presence = Presence::of(value).or(options.presence);
                            options.is_required = value == "LEGACY_REQUIRED";
                        }
                        if is_feature && name.ends_with("message_encoding") {
                            options.is_delimited = Some(value == "DELIMITED");
                        }
                        if first == Token::Word("map_entry") {
                            options.is_entry = value == "true";
                        }
                    }
                    continue;
                }
                Token::Word(word) => name = word,
                Token::End => return Err(self.tokens.unexpected("the end of an option")),
                _ => {}
            }
            self.tokens.advance()?;
        }
    }

    /// Skips a declaration up to its end: a semicolon, or the brace that closes its first one.
    fn skip(&mut self, end: u8) -> Result<()> {
        let mut depth = 0_u32;
        loop {
            let token = self.tokens.next;
            self.tokens.advance()?;
            match token {
                Token::Symbol(b'{' | b'[') => depth += 1,
                Token::Symbol(symbol @ (b'}' | b']')) => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && symbol == end {
                        return Ok(());
                    }
                }
                Token::Symbol(symbol) if depth == 0 && symbol == end => return Ok(()),
                Token::End => return Err(self.tokens.unexpected("the end of a declaration")),
                _ => {}
            }
        }
    }

    /// Consumes the end of a list of declarations, and semicolons before it.
    fn ends(&mut self, end: u8) -> Result<bool> {
        while self.tokens.next == Token::Symbol(b';') {
            self.tokens.advance()?;
        }
        let is_end = self.tokens.next == Token::Symbol(end);
        if is_end {
            self.tokens.advance()?;
        }
        Ok(is_end)
    }

    fn word(&mut self, what: &str) -> Result<&'t str> {
        match self.tokens.next {
            Token::Word(word) => {
                self.tokens.advance()?;
                Ok(word)
            }
            _ => Err(self.tokens.unexpected(what)),
        }
    }

    fn full_name(&mut self, what: &str) -> Result<Cow<'t, str>> {
        let word = self.word(what)?;
        self.whole_name(word)
    }

    /// Completes a name of several parts, which may stand on several lines.
    fn whole_name(&mut self, word: &'t str) -> Result<Cow<'t, str>> {
        let mut name = Cow::Borrowed(word);
        loop {
            match self.tokens.next {
                _ if name.len() > MOST_NAME => return Err(too_long()),
                Token::Word(part) if part.starts_with('.') || name.ends_with('.') => {
                    name.to_mut().push_str(part);
                    self.tokens.advance()?;
                }
                _ => return Ok(name),
            }
        }
    }

    /// Reads a name without dots.
    fn name(&mut self) -> Result<&'t str> {
        match self.tokens.next {
            Token::Word(word) if !word.contains('.') => self.word("a name"),
            _ => Err(self.tokens.unexpected("a name")),
        }
    }

    fn symbol(&mut self, symbol: u8) -> Result<()> {
        if self.tokens.next != Token::Symbol(symbol) {
            let expected = format!("'{}'", char::from(symbol));
            return Err(self.tokens.unexpected(&expected));
        }
        self.tokens.advance()
    }

    fn string(&mut self) -> Result<&'t str> {
        match self.tokens.next {
            Token::Text(text) => {
                self.tokens.advance()?;
                Ok(text)
            }
            _ => Err(self.tokens.unexpected("text in quotes")),
        }
    }

    /// Reads a decimal, hexadecimal or octal number.
    fn integer(&mut self) -> Result<i64> {
        let is_negative = self.tokens.next == Token::Symbol(b'-');
        if is_negative {
            self.tokens.advance()?;
        }
        let Token::Number(text) = self.tokens.next else {
            return Err(self.tokens.unexpected("a number"));
        };
        let (digits, radix) = match text.as_bytes() {
            [b'0', b'x' | b'X', ..] => (text.get(2..).unwrap_or_default(), 16),
            [b'0', _, ..] => (text, 8),
            _ => (text, 10),
        };
        let value = u32::from_str_radix(digits, radix)
            .map_err(|_| self.tokens.unexpected("a whole number"))?;
        self.tokens.advance()?;
        let value = i64::from(value);
        Ok(if is_negative { -value } else { value })
    }
}

/// The number of fields, messages and values of enums so far.
#[derive(Debug, Default)]
pub(super) struct Items(usize);

impl Items {
    pub(super) fn count(&mut self) -> Result<()> {
        self.0 += 1;
        if self.0 > MOST_ITEMS {
            return Err(Error::new(format!(
                "the schema has more than {MOST_ITEMS} fields, messages and values"
            )));
        }
        Ok(())
    }
}

impl Body<'_> {
    /// Puts the types of groups after all other messages.
    fn close(&mut self) {
        self.messages.append(&mut self.groups);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    /// A name, or names with dots between and before them.
    Word(&'t str),
    Number(&'t str),
    /// The text between quotes, with its escapes.
    Text(&'t str),
    Symbol(u8),
    End,
}

/// The tokens of a text, with the next one read ahead.
struct Tokens<'t> {
    text: &'t str,
    at: usize,
    next: Token<'t>,
}

impl<'t> Tokens<'t> {
    fn new(text: &'t str) -> Result<Self> {
        let mut tokens = Self {
            text: text.strip_prefix('\u{feff}').unwrap_or(text),
            at: 0,
            next: Token::End,
        };
        tokens.advance()?;
        Ok(tokens)
    }

    fn advance(&mut self) -> Result<()> {
        self.skip_space()?;
        let rest = self.rest();
        let length = |is_part: fn(u8) -> bool| {
            let end = rest.bytes().position(|byte| !is_part(byte));
            rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
        };
        let (token, taken) = match rest.as_bytes() {
            [] => (Token::End, 0),
            [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => {
                let number = length(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
                (Token::Number(number), number.len())
            }
            [b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.', ..] => {
                let word = length(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
                if word.len() > MOST_NAME {
                    return Err(too_long());
                }
                (Token::Word(word), word.len())
            }
            [quote @ (b'"' | b'\''), ..] => {
                let inner = self.quoted(*quote)?;
                (Token::Text(inner), inner.len() + 2)
            }
            [symbol, ..] if symbol.is_ascii() => (Token::Symbol(*symbol), 1),
            _ => return Err(self.error("a character stands outside of quotes that may not")),
        };
        self.at += taken;
        self.next = token;
        Ok(())
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips white space and comments. Those that begin with `#` are in the values of options.
    fn skip_space(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let inner =
                rest.trim_start_matches(|one: char| one.is_ascii_whitespace() || one == '\x0b');
            self.at += rest.len() - inner.len();
            let end = match inner.as_bytes() {
                [b'/', b'/', ..] | [b'#', ..] => inner.find('\n').unwrap_or(inner.len()),
                [b'/', b'*', ..] => match inner.get(2..).and_then(|inner| inner.find("*/")) {
                    Some(end) => end + 4,
                    None => return Err(self.error("a comment does not end")),
                },
                _ => return Ok(()),
            };
            self.at += end;
        }
    }

    /// Returns the text between the next quote and the one that closes it.
    fn quoted(&self, quote: u8) -> Result<&'t str> {
        let inner = self.rest().get(1..).unwrap_or_default();
        let mut is_escaped = false;
        for (at, byte) in inner.bytes().enumerate() {
            if byte == quote && !is_escaped {
                return Ok(inner.get(..at).unwrap_or_default());
            }
            is_escaped = !is_escaped && byte == b'\\';
        }
        Err(self.error("text in quotes does not end"))
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self.next {
            Token::Word(word) | Token::Number(word) => format!("{word:?}"),
            Token::Text(_) => "text in quotes".to_owned(),
            Token::Symbol(symbol) => format!("'{}'", char::from(symbol).escape_default()),
            Token::End => "the end".to_owned(),
        };
        self.error(&format!("{expected} was expected, not {found}"))
    }

    #[cold]
    fn error(&self, reason: &str) -> Error {
        let before = self.text.get(..self.at).unwrap_or_default();
        let line = 1 + before.bytes().filter(|&byte| byte == b'\n').count();
        Error::new(format!("line {line}: {reason}"))
    }
}

#[cold]
pub(super) fn too_long() -> Error {
    Error::new(format!("a name has more than {MOST_NAME} bytes"))
}
