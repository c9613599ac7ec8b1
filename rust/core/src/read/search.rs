//! A search: the criteria of records, and how to see that a batch holds no such record.
//!
//! A batch is looked at as a whole before its records are: a batch whose bytes do not contain the text is left out
//! without parsing a record. Its checksum is verified all the same.

mod texts;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::Hir;

use crate::base::error::{Error, Result};
use crate::base::units::in_bytes;
use crate::base::utf8::java_utf8;
use crate::format::batch::Header;
use crate::format::record::Headers;
use texts::Texts;

/// The maximum size of a compiled pattern. Thousands of texts without regard to case need some megabytes.
const MAX_PATTERN: usize = 256 << 20;
/// The memory in which each thread keeps states of a pattern.
const MAX_STATES: usize = 16 << 20;

/// The part of a record that a criterion is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The key, the value, or the name or the value of a header.
    Any,
    /// The key.
    Key,
    /// The value.
    Value,
    /// The value of a header with this name.
    Header(Vec<u8>),
}

/// The test of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// It is null.
    Null,
    /// It is there, for a header even if its value is null.
    Present,
    /// It has one of these texts.
    Texts(TextTest),
}

/// A test for texts. One of them suffices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextTest {
    /// The texts.
    pub texts: Vec<Vec<u8>>,
    /// True if the texts are regular expressions.
    pub are_patterns: bool,
    /// True if a text is the whole part, not some of it.
    pub is_whole: bool,
    /// True if upper and lower case are the same.
    pub ignores_case: bool,
}

impl TextTest {
    /// Prepares the test.
    fn compiled(self) -> Result<Compiled> {
        // Each part contains the empty text.
        let is_always_met = !self.is_whole && self.texts.iter().any(Vec::is_empty);
        if self.are_patterns || self.ignores_case || is_always_met {
            let pattern = self.pattern()?;
            return Ok(Compiled::Matches {
                regex: compiled(&pattern)?,
                is_context_free: is_context_free(&pattern),
            });
        }
        let texts: HashSet<_> = self.texts.into_iter().collect();
        if !self.is_whole {
            return Ok(Compiled::Contains(Texts::new(texts)?));
        }
        let has_empty = texts.iter().any(Vec::is_empty);
        Ok(Compiled::Equals {
            sought: (!has_empty)
                .then(|| Texts::new(texts.clone()))
                .transpose()?,
            texts,
        })
    }

    /// The regular expression that matches what this test finds.
    fn pattern(&self) -> Result<String> {
        let alternatives: Vec<String> = if self.are_patterns {
            self.texts
                .iter()
                .map(|text| checked(text))
                .collect::<Result<_>>()?
        } else {
            self.texts.iter().map(|text| escaped(text)).collect()
        };
        let pattern = alternatives.join("|");
        let case = if self.ignores_case { "(?i)" } else { "" };
        Ok(if self.is_whole {
            format!(r"{case}\A(?:{pattern})\z")
        } else {
            format!("{case}(?:{pattern})")
        })
    }
}

/// Returns a group of a pattern that can be parsed.
fn checked(pattern: &[u8]) -> Result<String> {
    let Ok(text) = std::str::from_utf8(pattern) else {
        return Err(Error::invalid("a pattern is not UTF-8"));
    };
    parsed(text)?;
    let group = format!("(?:{text})");
    // In a pattern with comments, the last one would hide the end of the group.
    Ok(if parsed(&group).is_ok() {
        group
    } else {
        format!("(?:{text}\n)")
    })
}

fn parsed(pattern: &str) -> Result<Hir> {
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
    parser.parse(pattern).map_err(|error| {
        let reason = match error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            error => error.to_string(),
        };
        Error::invalid(format!(
            "the pattern {pattern:?} does not compile: {reason}"
        ))
    })
}

/// A pattern that matches these bytes alone.
fn escaped(text: &[u8]) -> String {
    let mut pattern = String::new();
    for chunk in text.utf8_chunks() {
        pattern.push_str(&regex_syntax::escape(chunk.valid()));
        for byte in chunk.invalid() {
            pattern.push_str(&format!(r"(?-u:\x{byte:02x})"));
        }
    }
    pattern
}

/// A condition that a record must meet.
#[derive(Debug)]
pub struct Criterion {
    part: Part,
    test: Compiled,
}

#[derive(Debug)]
enum Compiled {
    Null,
    Present,
    Contains(Texts),
    Equals {
        texts: HashSet<Vec<u8>>,
        /// None if one of the texts is empty.
        sought: Option<Texts>,
    },
    Matches {
        regex: Regex,
        /// True if what surrounds a match has no influence on it.
        is_context_free: bool,
    },
}

impl Criterion {
    /// Prepares a test of a part.
    pub fn new(part: Part, test: Test) -> Result<Self> {
        let test = match test {
            Test::Null => Compiled::Null,
            Test::Present => Compiled::Present,
            Test::Texts(texts) => texts.compiled()?,
        };
        Ok(Self { part, test })
    }

    /// True if a record with these fields meets the condition.
    #[inline]
    fn is_met(&self, key: Option<&[u8]>, value: Option<&[u8]>, headers: Headers<'_>) -> bool {
        match &self.part {
            Part::Key => self.holds(key),
            Part::Value => self.holds(value),
            Part::Any => {
                self.holds(key)
                    || self.holds(value)
                    || any_header(headers, |name, value| {
                        self.holds(Some(name)) || self.holds(value)
                    })
            }
            Part::Header(wanted) => any_header(headers, |name, value| {
                java_utf8(name).as_bytes() == wanted
                    && (matches!(self.test, Compiled::Present) || self.holds(value))
            }),
        }
    }

    #[inline]
    fn holds(&self, field: Option<&[u8]>) -> bool {
        match (&self.test, field) {
            (Compiled::Null, field) => field.is_none(),
            (_, None) => false,
            (Compiled::Present, Some(_)) => true,
            (Compiled::Contains(texts), Some(field)) => texts.find(field, 0).is_some(),
            (Compiled::Equals { texts, .. }, Some(field)) => texts.contains(field),
            (Compiled::Matches { regex, .. }, Some(field)) => regex.is_match(field),
        }
    }

    /// The rank of the criterion, if the bytes of a batch show whether a record may meet it; None if they do not.
    fn selectivity(&self) -> Option<u8> {
        match &self.test {
            Compiled::Contains(Texts::One(_))
            | Compiled::Equals {
                sought: Some(Texts::One(_)),
                ..
            } => Some(3),
            Compiled::Contains(_)
            | Compiled::Equals {
                sought: Some(_), ..
            } => Some(2),
            Compiled::Matches {
                is_context_free: true,
                ..
            } => Some(1),
            _ => None,
        }
    }

    /// The lowest position from which on the bytes of a record may meet the condition.
    #[inline]
    fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        match &self.test {
            Compiled::Contains(texts) => texts.find(bytes, at),
            Compiled::Equals { sought, .. } => match sought {
                Some(texts) => texts.find(bytes, at),
                None => Some(at),
            },
            // A match may reach far beyond the record, and would be sought again for each record.
            Compiled::Matches { .. } | Compiled::Null | Compiled::Present => Some(at),
        }
    }
}

/// Calls `is_met` with the headers until one meets it. The headers have been checked.
fn any_header(headers: Headers<'_>, is_met: impl Fn(&[u8], Option<&[u8]>) -> bool) -> bool {
    let mut found = false;
    let _ = headers.for_each(|name, value| {
        found = found || is_met(name, value);
        Ok(())
    });
    found
}

fn compiled(pattern: &str) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_STATES)
        .build()
        .map_err(|_| {
            Error::invalid(format!(
                "the patterns take more than {} once compiled",
                in_bytes(MAX_PATTERN as u64)
            ))
        })
}

/// True if the pattern has no anchor and no word boundary, so that it matches in the bytes of a batch wherever it matches
/// in a field.
fn is_context_free(pattern: &str) -> bool {
    parsed(pattern).is_ok_and(|hir| hir.properties().look_set().is_empty())
}

/// The criteria of the records that are sought, and the progress of the search. Any number of threads share it.
#[derive(Debug)]
pub struct Search {
    criteria: Vec<Criterion>,
    /// True to find the records that do not meet all criteria.
    is_inverted: bool,
    /// The ids of the producers whose batches are searched; empty for all.
    producer_ids: Vec<i64>,
    /// The criterion by which batches are left out.
    best: Option<usize>,
    records: AtomicU64,
    bytes: AtomicU64,
    is_stopped: AtomicBool,
}

impl Search {
    /// Prepares a search for records that meet all criteria; with `is_inverted`, for all others.
    pub fn new(criteria: Vec<Criterion>, is_inverted: bool, producer_ids: Vec<i64>) -> Self {
        let selectivity = |index: &usize| criteria.get(*index).and_then(Criterion::selectivity);
        let best = (0..criteria.len())
            .filter(|index| !is_inverted && selectivity(index).is_some())
            .max_by_key(selectivity);
        Self {
            criteria,
            is_inverted,
            producer_ids,
            best,
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// The numbers of records and of bytes of files searched so far.
    pub fn progress(&self) -> (u64, u64) {
        (self.records.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Ends all readers of this search soon.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }

    pub(crate) fn count_records(&self, records: usize) {
        self.records.fetch_add(records as u64, Relaxed);
    }

    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// True if the batch is from a producer whose records are not sought.
    pub(crate) fn leaves_out(&self, header: &Header) -> bool {
        !self.producer_ids.is_empty() && !self.producer_ids.contains(&header.producer_id)
    }

    /// True if the records of an uncompressed payload may include sought ones.
    pub(crate) fn may_be_in(&self, payload: &[u8]) -> bool {
        match self.best.and_then(|best| self.criteria.get(best)) {
            Some(criterion) => match &criterion.test {
                Compiled::Matches { regex, .. } => regex.is_match(payload),
                _ => criterion.find(payload, 0).is_some(),
            },
            None => true,
        }
    }

    /// A position before which no sought record of an uncompressed payload ends, if records are looked at from `at` on.
    /// None if no further record is sought.
    #[inline]
    pub(crate) fn next(&self, payload: &[u8], at: usize) -> Option<usize> {
        match self.best.and_then(|best| self.criteria.get(best)) {
            Some(criterion) => criterion.find(payload, at),
            None => Some(at),
        }
    }

    /// True if a record with these fields is sought.
    #[inline]
    pub(crate) fn is_sought(
        &self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: Headers<'_>,
    ) -> bool {
        let are_met = self
            .criteria
            .iter()
            .all(|criterion| criterion.is_met(key, value, headers));
        are_met != self.is_inverted
    }
}
