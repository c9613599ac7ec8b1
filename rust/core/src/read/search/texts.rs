//! Texts that are sought in bytes: one, a few, or many thousands at once.
//!
//! Libraries find one text or a few at the speed of memory. Automata of many texts do not fit into a cache, so [`Grams`]
//! looks at a few bytes only.

use std::collections::{HashMap, HashSet};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use memchr::memmem::Finder;

use crate::base::error::{Error, Result};

/// The number of texts above which [`Grams`] is faster than an automaton.
const MANY: usize = 64;
/// The maximum number of texts.
const MAX_TEXTS: usize = 1_000_000;
/// The shortest and the longest gram.
const GRAM: (usize, usize) = (4, 8);
/// The number of grams above which each text has fewer of them.
const MAX_GRAMS: usize = 1 << 20;

/// Texts of which one is sought. None is empty.
#[derive(Debug)]
pub(super) enum Texts {
    One(Box<Finder<'static>>),
    Few(Box<AhoCorasick>),
    Many(Grams),
}

impl Texts {
    /// Prepares a search for any of `texts`, which are not empty.
    pub(super) fn new(texts: HashSet<Vec<u8>>) -> Result<Self> {
        if texts.len() > MAX_TEXTS {
            return Err(Error::invalid(format!(
                "{} texts; at most {MAX_TEXTS} are sought at once",
                texts.len()
            )));
        }
        let shortest = texts.iter().map(Vec::len).min().unwrap_or(0);
        if texts.len() == 1
            && let Some(text) = texts.iter().next()
        {
            return Ok(Self::One(Box::new(Finder::new(text).into_owned())));
        }
        if texts.len() > MANY && shortest >= GRAM.0 {
            return Ok(Self::Many(Grams::new(texts, shortest)));
        }
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(texts)
            .map(|automaton| Self::Few(Box::new(automaton)))
            .map_err(|error| Error::invalid(error.to_string()))
    }

    /// The position of the first text at `at` or after it.
    pub(super) fn find(&self, bytes: &[u8], at: usize) -> Option<usize> {
        match self {
            Self::One(finder) => finder.find(bytes.get(at..)?).map(|found| at + found),
            Self::Few(automaton) => {
                let input = Input::new(bytes.get(at..)?);
                let found = automaton.try_find(input).ok().flatten()?;
                Some(at + found.start())
            }
            Self::Many(grams) => grams.find(bytes, at),
        }
    }
}

/// Texts by their grams, which are runs of `length` bytes.
///
/// A text of `step + length - 1` bytes or more has a whole gram at one of any `step` positions in sequence. So every
/// `step`-th position of the bytes is looked at, and the table has the first `step` grams of each text. Most
/// positions are settled by one bit.
#[derive(Debug)]
pub(super) struct Grams {
    texts: HashSet<Vec<u8>>,
    /// By gram: the places of the text around it.
    places: HashMap<u64, Vec<Place>>,
    /// A bit for each hash of a gram.
    bits: Vec<u64>,
    /// Positions to shift a hash.
    shift: u32,
    mask: u64,
    length: usize,
    step: usize,
}

/// The place of a text that a gram is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Bytes of the text before the gram.
    before: usize,
    /// Bytes of the text.
    length: usize,
}

impl Grams {
    fn new(texts: HashSet<Vec<u8>>, shortest: usize) -> Self {
        // Longer grams are rarer in the bytes, and shorter ones allow longer steps.
        let length = (3 * shortest).div_ceil(4).clamp(GRAM.0, GRAM.1);
        let step = (shortest - length + 1).min((MAX_GRAMS / texts.len()).max(1));
        let mask = u64::MAX >> (8 * (GRAM.1 - length));
        let mut places: HashMap<u64, Vec<Place>> = HashMap::new();
        for text in &texts {
            for before in 0..step {
                let gram = gram_at(text, before, length) & mask;
                let place = Place {
                    before,
                    length: text.len(),
                };
                let known = places.entry(gram).or_default();
                if !known.contains(&place) {
                    known.push(place);
                }
            }
        }
        let exponent = (16 * places.len())
            .next_power_of_two()
            .trailing_zeros()
            .max(6);
        let mut grams = Self {
            bits: vec![0; 1 << (exponent - 6)],
            shift: 64 - exponent,
            texts,
            places: HashMap::new(),
            mask,
            length,
            step,
        };
        for gram in places.keys() {
            let (word, bit) = grams.place_of(*gram);
            if let Some(word) = grams.bits.get_mut(word) {
                *word |= bit;
            }
        }
        grams.places = places;
        grams
    }

    /// The word and the bit of a gram.
    #[inline]
    fn place_of(&self, gram: u64) -> (usize, u64) {
        let hash = gram.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }

    #[inline]
    fn may_have(&self, gram: u64) -> bool {
        let (word, bit) = self.place_of(gram);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        while let Some(window) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
            let gram = u64::from_le_bytes(*window) & self.mask;
            if self.may_have(gram)
                && let Some(found) = self.text_around(bytes, from, at, gram)
            {
                return Some(found);
            }
            at += self.step;
        }
        while at + self.length <= bytes.len() {
            let gram = gram_at(bytes, at, self.length);
            if let Some(found) = self.text_around(bytes, from, at, gram) {
                return Some(found);
            }
            at += self.step;
        }
        None
    }

    /// The start of the longest run of bytes from `from` on that is a text and has this gram at `at`.
    #[cold]
    fn text_around(&self, bytes: &[u8], from: usize, at: usize, gram: u64) -> Option<usize> {
        let starts = self.places.get(&gram)?.iter().filter_map(|place| {
            let start = at
                .checked_sub(place.before)
                .filter(|&start| start >= from)?;
            let text = bytes.get(start..)?.get(..place.length)?;
            self.texts.contains(text).then_some(start)
        });
        starts.min()
    }
}

/// The bytes of a gram as a number.
fn gram_at(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut gram = [0; 8];
    for (to, byte) in gram.iter_mut().zip(bytes.iter().skip(at).take(length)) {
        *to = *byte;
    }
    u64::from_le_bytes(gram)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    /// A generator of numbers that look random (xorshift).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end as u64) as usize
        }

        fn text(&mut self, length: usize) -> Vec<u8> {
            (0..length).map(|_| b'a' + self.below(3) as u8).collect()
        }
    }

    fn first(texts: &HashSet<Vec<u8>>, bytes: &[u8], at: usize) -> Option<usize> {
        (at..bytes.len()).find(|&start| texts.iter().any(|text| bytes[start..].starts_with(text)))
    }

    #[test]
    fn the_first_text_is_found_however_many_there_are() {
        let mut numbers = Numbers(20_260_101);
        for round in 0..2000 {
            let shortest = 1 + numbers.below(20);
            let count = [1, 2, 65, 200][round % 4];
            let texts: HashSet<_> = (0..count)
                .map(|_| {
                    let length = shortest + numbers.below(4);
                    numbers.text(length)
                })
                .collect();
            let length = numbers.below(80);
            let bytes = numbers.text(length);
            let sought = Texts::new(texts.clone()).unwrap();
            for at in [0, bytes.len() / 3, bytes.len()] {
                assert_eq!(
                    sought.find(&bytes, at),
                    first(&texts, &bytes, at),
                    "{texts:?}"
                );
            }
        }
    }
}
