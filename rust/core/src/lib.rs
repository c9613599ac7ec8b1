//! Kafka's log formats as bytes: reading, writing, appending and rewriting, without Arrow or a clock.
//!
//! Files are read through [`ReadAt`], and opened by the caller.
//!
//! The modules form groups, and a group imports only groups to its left (`tools/rust_modules`):
//!
//! `base` < `state` < `format` < `read` < `write` < `broker` < `rewrite`

mod base;
mod broker;
mod format;
mod read;
mod rewrite;
mod state;
mod write;

pub use base::error::{Error, ErrorKind, Fault, Result};
pub use base::json::{BytesFormat, Json, JsonInteger, Mark};
pub use base::primitives::Reader;
pub use base::units::in_bytes;
pub use base::utf8::java_utf8;
pub use broker::append::{
    ActiveSegment, AppendInfo, AppendInfos, AppendRequest, Effects, LogAppender, LogConfig,
    SegmentWrite,
};
pub use broker::epochs::LeaderEpochs;
pub use broker::index_builder::{
    IndexError, OffsetIndexEnd, SegmentIndexes, TimeIndexEnd, TransactionIndexEnd, relative_offset,
};
pub use broker::producers::{
    AppendOrigin, DuplicateBatch, FIRST_OWN_PRODUCER_ID, Producers, ProducersUpdate,
    highest_cluster_producer_id,
};
pub use broker::recovery::{ProducerReplay, SegmentEnd, SegmentRecovery, WalkEnd};
pub use broker::refusal::{Refusal, Refused};
pub use broker::validate::{ValidationRules, topic_codec};
pub use format::batch::{
    BATCH_OVERHEAD, Header, TimestampType, crc32, crc32c, decrement_sequence, empty_batch,
    increment_sequence,
};
pub use format::compression::{
    Codec, Compression, Compressor, DEFAULT_MAX_BATCH_BYTES, Decompressor,
};
pub use format::control::{ControlType, control_type, coordinator_epoch};
pub use format::find_batch::find_batch;
pub use format::index::{
    AbortedTxn, Index, IndexEntry, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset,
    TransactionIndex,
};
pub use format::message::{Message, MessageSet, first_offset};
pub use format::record::{Headers, HeadersBuffer, Record, payload};
pub use format::schema_id::{Framed, Framing, KEY_SCHEMA_ID, SchemaId, VALUE_SCHEMA_ID};
pub use format::snapshot::{ProducerState, producer_snapshot, write_producer_snapshot};
pub use format::walk::{
    NextBatch, PlacedHeaders, check_first_offset, check_offset_range, framing_holds, headers_alone,
    next_batch, place_headers,
};
pub use read::batch_scan::HeaderWalk;
pub use read::columns::{BatchRows, BinaryColumn, BinaryParts, Columns, HeadersColumn};
pub use read::decoder::Decoder;
pub use read::defect::{Defect, cut_short_in_words};
pub use read::dump::{JsonDump, LogDump};
pub use read::end_offsets::EndOffsets;
pub use read::equal_batches::{BatchCursor, skip_equal};
pub use read::fetch::{AbortedTransaction, Fetch, Progress, Selection};
pub use read::file::{ReadAt, ReadError, batch_offsets_at};
pub use read::profile::{BatchSize, Profile, ProfileFact, ProfileGroup, ProfileSums};
pub use read::row_column::RowColumn;
pub use read::search::{Criterion, Part as SearchedPart, Search, Test, TextTest};
pub use read::segment_check::{
    EpochRange, OffsetGap, ProducerSequences, SegmentSummary, SequenceGap, UncheckedSegment,
    check_segment,
};
pub use read::segment_timestamp_search::{TimestampMatch, TimestampQuery, find_timestamp};
pub use read::soundness::{BatchRange, Rising, Soundness};
pub use read::split_reader::{DecodeOptions, SegmentFiles, Split, SplitReader, Step};
pub use read::survey::{Part, Survey, SurveyedSegment, cut_batch};
pub use read::survey_reader::{RowsOrDefect, SurveyReader};
pub use read::transactions::{EndOfTransaction, Transactions, end_of_transaction};
pub use rewrite::compact::{
    CompactionRewrite, CompactionScan, HashRange, LastRecord, NewestRecords, Phase, RecordCounts,
    RewriteOptions, ScanOptions, SegmentVerdicts,
};
pub use rewrite::convert::{
    Conversion, Converted, Converter, DEFAULT_BATCH_SIZE, SegmentConverter,
};
pub use rewrite::erase::{ErasedRecords, Eraser, ErasureScan, RecordMatcher};
pub use rewrite::estimate::{Space, SpaceEstimate};
pub use rewrite::filter::{BatchFilter, Filtered, Retention, Verdict};
pub use rewrite::rewriter::{Rewrite, Rewriter};
pub use rewrite::segment_output::{PendingBytes, SegmentOutput};
pub use state::internal_topic::{InternalTopic, StateRecord, metadata_record};
pub use state::json::embedded_json;
pub use state::latest::{LatestRecord, LatestRecords};
pub use state::offset_commit::{Committed, OffsetCommit};
pub use state::request::{check_request, replace_in_request};
pub use write::batch_builder::{
    BatchBuilder, BatchOptions, BuiltBatch, NewRecord, check_header_count, check_timestamp,
};
pub use write::encode::{BatchLimits, BatchWriter, SourceFields};
pub use write::end_transaction_marker::end_transaction_marker;
pub use write::fast_encode::{PlainColumn, PlainHeaders, PlainRow, PlainRows};
pub use write::kraft::kraft_snapshot;
pub use write::partitioner::{Partitioner, murmur2, partition_for_key};
