//! Texts that are sought in bytes: one, a few, or many thousands at once.
//!
//! Libraries find one text or a few at the speed of memory. Automata of many texts do not fit into a cache, so [`Grams`]
//! looks at a few bytes only.

use std::collections::HashSet;

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
    /// The grams, ascending, each with a place of a text around it.
    places: Vec<(u64, Place)>,
    /// Two bits of a word for each gram.
    bits: Vec<u64>,
    mask: u64,
    length: usize,
    step: usize,
}

/// The place of a text that a gram is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Bytes of the text before the gram.
    before: u32,
    /// Bytes of the text.
    length: u32,
}

impl Grams {
    fn new(texts: HashSet<Vec<u8>>, shortest: usize) -> Self {
        // Longer grams are rarer in the bytes, and shorter ones allow longer steps.
        let length = (3 * shortest).div_ceil(4).clamp(GRAM.0, GRAM.1);
        let step = (shortest - length + 1).min((MAX_GRAMS / texts.len()).max(1));
        let mask = u64::MAX >> (8 * (GRAM.1 - length));
        let mut places: Vec<(u64, Place)> = texts
            .iter()
            .flat_map(|text| {
                (0..step).map(move |before| {
                    let place = Place {
                        before: before as u32,
                        length: text.len() as u32,
                    };
                    (gram_at(text, before, length) & mask, place)
                })
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        let words = (places.len() / 4).next_power_of_two();
        let mut grams = Self {
            bits: vec![0; words],
            texts,
            places,
            mask,
            length,
            step,
        };
        for index in 0..grams.places.len() {
            if let Some(&(gram, _)) = grams.places.get(index) {
                let (word, bits) = grams.place_of(gram);
                if let Some(word) = grams.bits.get_mut(word) {
                    *word |= bits;
                }
            }
        }
        grams
    }

    /// The word and the bits of a gram.
    #[inline]
    fn place_of(&self, gram: u64) -> (usize, u64) {
        let hash = gram.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (hash >> 32) as usize & (self.bits.len() - 1);
        (word, 1 << (hash >> 26 & 63) | 1 << (hash >> 20 & 63))
    }

    #[inline]
    fn may_have(&self, gram: u64) -> bool {
        let (word, bits) = self.place_of(gram);
        self.bits.get(word).is_some_and(|word| word & bits == bits)
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

    /// The lowest start of a text that begins at `from` or after it and has this gram at `at`.
    #[cold]
    fn text_around(&self, bytes: &[u8], from: usize, at: usize, gram: u64) -> Option<usize> {
        let first = self.places.partition_point(|&(known, _)| known < gram);
        let of_gram = self.places.get(first..)?.iter();
        let starts = of_gram
            .take_while(|&&(known, _)| known == gram)
            .filter_map(|(_, place)| {
                let start = at
                    .checked_sub(place.before as usize)
                    .filter(|&start| start >= from)?;
                let text = bytes.get(start..)?.get(..place.length as usize)?;
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
