//! A record in 64 bits, as the key map stores one for each key.

/// The kind of a record's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// Not null.
    Present = 1,
    /// Null, in a batch that needs a delete horizon.
    Tombstone = 2,
    /// Null, and dropped even if no newer record has its key.
    Expired = 3,
}

/// A record's number, then two bits for the kind of its value. So no record is 0.
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

    /// Adds `first` preceding records to the number.
    #[inline]
    pub(super) fn after(self, first: u64) -> Self {
        Self(self.0 + (first << Self::VALUE_BITS))
    }
}
