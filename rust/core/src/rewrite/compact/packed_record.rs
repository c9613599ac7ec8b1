//! A record in 64 bits: a key map has one for each key.

/// What a record's value says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// There is one.
    Present = 1,
    /// It is null, and asks for a delete horizon.
    Tombstone = 2,
    /// It is null, and goes even where no newer record has its key.
    Expired = 3,
}

/// A record's number, and below it in two bits what its value says: so no record is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PackedRecord(pub(super) u64);

impl PackedRecord {
    const VALUE_BITS: u32 = 2;

    #[inline]
    pub(super) fn new(number: u64, value: ValueKind) -> Self {
        Self(number << Self::VALUE_BITS | value as u64)
    }

    #[inline]
    pub(super) fn number(self) -> u64 {
        self.0 >> Self::VALUE_BITS
    }

    #[inline]
    pub(super) fn value(self) -> ValueKind {
        match self.0 & 3 {
            1 => ValueKind::Present,
            2 => ValueKind::Tombstone,
            _ => ValueKind::Expired,
        }
    }

    /// The same, counted from `first` records before.
    #[inline]
    pub(super) fn after(self, first: u64) -> Self {
        Self(self.0 + (first << Self::VALUE_BITS))
    }
}
