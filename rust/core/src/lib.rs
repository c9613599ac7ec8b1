//! Kafka's log formats as bytes.

mod batch;
mod columns;
mod compression;
mod control;
mod dump;
mod error;
mod fetch;
mod headers;
mod index;
mod json;
mod kernel;
mod message;
mod primitives;
mod record;
mod search;
mod snapshot;
mod transactions;
mod utf8;
mod walk;

pub use batch::{Header, TimestampType, crc32, crc32c, decrement_sequence, increment_sequence};
pub use columns::{BinaryColumn, BinaryParts, Columns, HeadersColumn, Run};
pub use compression::{Compression, Decompressor};
pub use control::{ControlType, control_type, coordinator_epoch};
pub use dump::{JsonDump, LogDump};
pub use error::{Error, Kind, Result};
pub use fetch::{AbortedTransaction, Fetch, Selection, Taken, payload};
pub use headers::HeaderWalk;
pub use index::{
    AbortedTxn, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset, TransactionIndex,
};
pub use json::{BytesFormat, Json, JsonInteger};
pub use message::{Message, MessageSet, first_offset, open};
pub use primitives::Reader;
pub use record::{Headers, Record};
pub use search::{Found, Target, find_timestamp};
pub use snapshot::{ProducerState, producer_snapshot};
pub use transactions::Transactions;
pub use utf8::java_utf8;
pub use walk::{Next, framing_holds, next};
