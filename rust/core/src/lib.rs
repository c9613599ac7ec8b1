//! Kafka's log formats as bytes.

mod append;
mod batch;
mod batch_options;
mod bits;
mod build;
mod columns;
mod compact;
mod compression;
mod control;
mod convert;
mod dump;
mod encode;
mod epochs;
mod erase;
mod error;
mod fetch;
mod filter;
mod find_batch;
mod headers;
mod index;
mod indexing;
mod json;
mod kernel;
mod kraft;
mod message;
mod partition;
mod plain;
mod primitives;
mod producers;
mod record;
mod records;
mod recovery;
mod refusal;
mod rewrite;
mod room;
mod search;
mod segment_output;
mod snapshot;
mod soundness;
mod space;
mod timestamp_type;
mod transactions;
mod utf8;
mod validate;
mod walk;

pub use append::{
    ActiveSegment, Answer, Answers, Effects, LogAppender, Request, SegmentWrite, Settings,
};
pub use batch::{
    Header, TimestampType, crc32, crc32c, decrement_sequence, empty_batch, increment_sequence,
};
pub use build::{
    BatchBuilder, BatchOptions, Built, NewRecord, check_header_count, check_timestamp,
};
pub use columns::{BinaryColumn, BinaryParts, Columns, HeadersColumn, Run};
pub use compact::{
    CompactionRewrite, CompactionScan, HashRange, Hashed, KeyHasher, LastRecord, Newest, Phase,
    Piece, RecordCounts, RewriteTerms, RewriteVerdicts, ScanTerms, SegmentVerdicts, Task, Wanted,
};
pub use compression::{Codec, Compression, Compressor, Decompressor};
pub use control::{ControlType, control_type, coordinator_epoch, end_transaction_marker};
pub use convert::{Conversion, Converted, Converter, DEFAULT_BATCH_SIZE};
pub use dump::{JsonDump, LogDump};
pub use encode::{BatchWriter, Cut, Place};
pub use epochs::LeaderEpochs;
pub use erase::{Erased, Eraser, ErasureScan, RecordMatcher};
pub use error::{Error, Kind, Result};
pub use fetch::{AbortedTransaction, Fetch, Selection, Taken, payload};
pub use filter::{BatchFilter, Filtered, Retention, Verdict};
pub use find_batch::find_batch;
pub use headers::HeaderWalk;
pub use index::{
    AbortedTxn, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset, TransactionIndex,
};
pub use indexing::{
    IndexError, OffsetIndexEnd, SegmentIndexes, TimeIndexEnd, TransactionIndexEnd, relative_offset,
};
pub use json::{BytesFormat, Json, JsonInteger};
pub use kraft::kraft_snapshot;
pub use message::{Message, MessageSet, first_offset, open};
pub use partition::{murmur2, partition_for_key};
pub use plain::{PlainColumn, PlainHeaders, PlainRows};
pub use primitives::Reader;
pub use producers::{
    Duplicate, FIRST_OWN_PRODUCER_ID, Origin, Producers, Update, highest_cluster_producer_id,
};
pub use record::{Headers, HeadersBuffer, Record};
pub use recovery::{Ended, ProducerReplay, SegmentEnd, SegmentRecovery};
pub use refusal::{Refusal, Refused};
pub use rewrite::{Rewrite, Rewriter};
pub use search::{Found, Target, find_timestamp};
pub use segment_output::{Pending, SegmentOutput};
pub use snapshot::{ProducerState, producer_snapshot, write_producer_snapshot};
pub use soundness::{Place as SoundPlace, Soundness};
pub use space::{Space, SpaceEstimate};
pub use transactions::Transactions;
pub use utf8::java_utf8;
pub use validate::{Rules, topic_codec};
pub use walk::{
    Next, PlacedHeaders, check_first_offset, check_place, framing_holds, headers_alone, next,
    place_headers,
};
