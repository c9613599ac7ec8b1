//! Kafka's log formats as bytes.

mod base;
mod broker;
mod format;
mod read;
mod rewrite;
mod write;

pub use base::error::{Error, Kind, Result};
pub use base::json::{BytesFormat, Json, JsonInteger};
pub use base::primitives::Reader;
pub use base::utf8::java_utf8;
pub use broker::append::{
    ActiveSegment, Answer, Answers, Effects, LogAppender, Request, SegmentWrite, Settings,
};
pub use broker::epochs::LeaderEpochs;
pub use broker::index_builder::{
    IndexError, OffsetIndexEnd, SegmentIndexes, TimeIndexEnd, TransactionIndexEnd, relative_offset,
};
pub use broker::producers::{
    Duplicate, FIRST_OWN_PRODUCER_ID, Origin, Producers, Update, highest_cluster_producer_id,
};
pub use broker::recovery::{Ended, ProducerReplay, SegmentEnd, SegmentRecovery};
pub use broker::refusal::{Refusal, Refused};
pub use broker::validate::{Rules, topic_codec};
pub use format::batch::{
    Header, TimestampType, crc32, crc32c, decrement_sequence, empty_batch, increment_sequence,
};
pub use format::compression::{Codec, Compression, Compressor, Decompressor};
pub use format::control::{ControlType, control_type, coordinator_epoch, end_transaction_marker};
pub use format::find_batch::find_batch;
pub use format::index::{
    AbortedTxn, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset, TransactionIndex,
};
pub use format::message::{Message, MessageSet, first_offset, open};
pub use format::record::{Headers, HeadersBuffer, Record};
pub use format::snapshot::{ProducerState, producer_snapshot, write_producer_snapshot};
pub use format::walk::{
    Next, PlacedHeaders, check_first_offset, check_place, framing_holds, headers_alone, next,
    place_headers,
};
pub use read::batch_scan::HeaderWalk;
pub use read::columns::{BinaryColumn, BinaryParts, Columns, HeadersColumn, Run};
pub use read::dump::{JsonDump, LogDump};
pub use read::fetch::{AbortedTransaction, Fetch, Selection, Taken, payload};
pub use read::search::{Found, Target, find_timestamp};
pub use read::soundness::{Place as SoundPlace, Soundness};
pub use read::transactions::Transactions;
pub use rewrite::compact::{
    CompactionRewrite, CompactionScan, HashRange, Hashed, KeyHasher, LastRecord, Newest, Phase,
    Piece, RecordCounts, RewriteOptions, RewriteVerdicts, ScanOptions, SegmentVerdicts, Task,
    Wanted,
};
pub use rewrite::convert::{Conversion, Converted, Converter, DEFAULT_BATCH_SIZE};
pub use rewrite::erase::{Erased, Eraser, ErasureScan, RecordMatcher};
pub use rewrite::estimate::{Space, SpaceEstimate};
pub use rewrite::filter::{BatchFilter, Filtered, Retention, Verdict};
pub use rewrite::rewriter::{Rewrite, Rewriter};
pub use rewrite::segment_output::{Pending, SegmentOutput};
pub use write::batch_builder::{
    BatchBuilder, BatchOptions, Built, NewRecord, check_header_count, check_timestamp,
};
pub use write::encode::{BatchWriter, Cut, Place};
pub use write::fast_encode::{PlainColumn, PlainHeaders, PlainRows};
pub use write::kraft::kraft_snapshot;
pub use write::partition::{murmur2, partition_for_key};
