//! From bytes to columns, and to text.

pub(crate) mod batch_scan;
pub(crate) mod columns;
pub(crate) mod dump;
pub(crate) mod fast_decode;
pub(crate) mod fetch;
pub(crate) mod search;
pub(crate) mod soundness;
pub(crate) mod transactions;
