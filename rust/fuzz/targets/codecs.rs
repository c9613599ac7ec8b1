//! Fuzz targets of the four decompressors.

use std::cell::RefCell;

use brokerless_core::{Compression, Decompressor, ErrorKind};

use super::MAX_BATCH_BYTES;

/// The result of a decompressor does not depend on earlier payloads. It does not depend on the cap either, unless the
/// result exceeds the cap: a cap one byte lower refuses the payload.
fn decompress(codec: Compression, data: &[u8]) {
    thread_local! {
        static REUSED: RefCell<Decompressor> = RefCell::new(Decompressor::new(MAX_BATCH_BYTES));
    }
    let with_cap = |cap, ignore| {
        Decompressor::new(cap)
            .decompress(codec, data, ignore)
            .map(<[u8]>::to_vec)
    };
    let fresh = with_cap(MAX_BATCH_BYTES, false);
    REUSED.with_borrow_mut(|reused| {
        assert_eq!(
            reused.decompress(codec, data, false).map(<[u8]>::to_vec),
            fresh
        );
    });
    let Ok(fresh) = fresh else { return };
    assert!(fresh.len() <= MAX_BATCH_BYTES);
    assert_eq!(
        with_cap(fresh.len(), false).as_ref(),
        Ok(&fresh),
        "the cap is exact"
    );
    assert_eq!(
        with_cap(MAX_BATCH_BYTES, true).as_ref(),
        Ok(&fresh),
        "fewer checks, same bytes"
    );
    if let Some(less) = fresh.len().checked_sub(1) {
        assert_eq!(
            with_cap(less, false).unwrap_err().kind,
            ErrorKind::Unsupported
        );
    }
}

/// See [`decompress`].
pub(crate) fn gzip(data: &[u8]) {
    decompress(Compression::Gzip, data);
}

/// See [`decompress`].
pub(crate) fn snappy(data: &[u8]) {
    decompress(Compression::Snappy, data);
}

/// See [`decompress`].
pub(crate) fn lz4(data: &[u8]) {
    decompress(Compression::Lz4, data);
}

/// See [`decompress`].
pub(crate) fn zstd(data: &[u8]) {
    decompress(Compression::Zstd, data);
}
