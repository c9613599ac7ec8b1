//! Registers the contents of `brokerless._native`. Each name is defined in the file of that name.

mod appended;
mod appender;
mod arrays;
mod borrowed_array;
mod buffer;
mod columns;
mod compaction_rewrite;
mod compaction_scan;
mod crc32c;
mod decoder;
mod defect;
mod empty_batch;
mod encoder;
mod end_offsets;
mod end_transaction_marker;
mod equal_batches;
mod erasure;
mod error;
mod file;
mod file_names;
mod find_batch;
mod find_timestamp;
mod hand_over;
mod header_walk;
mod headers_alone;
mod json_dump;
mod json_lines;
mod json_rows;
mod key_sketch;
mod kraft_snapshot;
mod latest_records;
mod leader_epochs;
mod log_dump;
mod offset_index;
mod partitioner;
mod producer_snapshot;
mod producers;
mod record_rows;
mod rows;
mod scan;
mod segment_check;
mod segment_conversion;
mod segment_output;
mod segment_recovery;
mod segment_state;
mod server;
mod soundness;
mod space_estimate;
mod split_reader;
mod state_records;
mod survey;
mod table;
mod time_index;
mod transaction_index;

use arrow_pyarrow::ToPyArrow;
use brokerless_core::{
    BATCH_OVERHEAD, Compression, DEFAULT_MAX_BATCH_BYTES, FIRST_OWN_PRODUCER_ID,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[pyfunction]
#[pyo3(signature = (columns, spark=false))]
fn row_schema(py: Python<'_>, columns: Vec<String>, spark: bool) -> PyResult<Bound<'_, PyAny>> {
    rows::Projection::new(&columns, spark)
        .map_err(|error| error::to_py(py, error))?
        .schema
        .to_pyarrow(py)
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add(
        "CODECS",
        PyTuple::new(module.py(), Compression::ALL.map(Compression::name))?,
    )?;
    module.add(
        "ROW_COLUMNS",
        PyTuple::new(module.py(), rows::column_names())?,
    )?;
    module.add("BATCH_OVERHEAD", BATCH_OVERHEAD)?;
    module.add("DEFAULT_MAX_BATCH_BYTES", DEFAULT_MAX_BATCH_BYTES)?;
    module.add("FIRST_OWN_PRODUCER_ID", FIRST_OWN_PRODUCER_ID)?;
    module.add_class::<file::LocalFile>()?;
    module.add_class::<split_reader::RunReader>()?;
    module.add_class::<split_reader::SplitReader>()?;
    module.add_class::<appended::Appended>()?;
    module.add_class::<appended::Closing>()?;
    module.add_class::<appended::SegmentWrite>()?;
    module.add_class::<appender::Appender>()?;
    module.add_class::<compaction_rewrite::CompactionRewrite>()?;
    module.add_class::<compaction_scan::CompactionScan>()?;
    module.add_class::<compaction_scan::SegmentVerdicts>()?;
    module.add_class::<decoder::Decoder>()?;
    module.add_class::<encoder::Encoder>()?;
    module.add_class::<end_offsets::EndOffsets>()?;
    module.add_class::<equal_batches::BatchCursor>()?;
    module.add_class::<erasure::ErasedRecords>()?;
    module.add_class::<erasure::ErasureScan>()?;
    module.add_class::<erasure::SegmentErasure>()?;
    module.add_class::<header_walk::HeaderWalk>()?;
    module.add_class::<json_dump::JsonDump>()?;
    module.add_class::<key_sketch::KeySketch>()?;
    module.add_class::<latest_records::LatestRecords>()?;
    module.add_class::<leader_epochs::LeaderEpochs>()?;
    module.add_class::<log_dump::LogDump>()?;
    module.add_class::<state_records::OffsetCommits>()?;
    module.add_class::<offset_index::OffsetIndex>()?;
    module.add_class::<partitioner::Partitioner>()?;
    module.add_class::<producers::Producers>()?;
    module.add_class::<record_rows::RecordRows>()?;
    module.add_class::<segment_check::PlainSegment>()?;
    module.add_class::<segment_check::ProducerSequences>()?;
    module.add_class::<segment_conversion::SegmentConversion>()?;
    module.add_class::<segment_output::SegmentOutput>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<segment_recovery::ProducerReplay>()?;
    module.add_class::<segment_recovery::SegmentEnd>()?;
    module.add_class::<segment_recovery::SegmentRecovery>()?;
    module.add_class::<segment_state::SegmentState>()?;
    module.add_class::<soundness::Soundness>()?;
    module.add_class::<space_estimate::SpaceEstimate>()?;
    module.add_class::<time_index::TimeIndex>()?;
    module.add_class::<transaction_index::TransactionIndex>()?;
    module.add_function(wrap_pyfunction!(crc32c::crc32c, module)?)?;
    module.add_function(wrap_pyfunction!(empty_batch::empty_batch, module)?)?;
    module.add_function(wrap_pyfunction!(
        end_transaction_marker::end_of_transaction,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        end_transaction_marker::end_transaction_marker,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(equal_batches::skip_equal, module)?)?;
    module.add_function(wrap_pyfunction!(segment_check::batch_offsets_at, module)?)?;
    module.add_function(wrap_pyfunction!(segment_check::check_segment, module)?)?;
    module.add_function(wrap_pyfunction!(survey::survey, module)?)?;
    module.add_function(wrap_pyfunction!(survey::cut_short_in_words, module)?)?;
    module.add_function(wrap_pyfunction!(find_batch::find_batch, module)?)?;
    module.add_function(wrap_pyfunction!(headers_alone::headers_alone, module)?)?;
    module.add_function(wrap_pyfunction!(headers_alone::place_headers, module)?)?;
    module.add_function(wrap_pyfunction!(find_timestamp::find_timestamp, module)?)?;
    module.add_function(wrap_pyfunction!(
        producer_snapshot::producer_snapshot,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        producer_snapshot::open_transactions,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(file_names::segment_files, module)?)?;
    module.add_function(wrap_pyfunction!(
        producers::highest_cluster_producer_id,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(json_lines::json_lines, module)?)?;
    module.add_function(wrap_pyfunction!(json_rows::json_rows, module)?)?;
    module.add_function(wrap_pyfunction!(kraft_snapshot::kraft_snapshot, module)?)?;
    module.add_function(wrap_pyfunction!(kraft_snapshot::metadata_record, module)?)?;
    module.add_function(wrap_pyfunction!(row_schema, module)?)?;
    module.add_function(wrap_pyfunction!(scan::batch_schema, module)?)?;
    module.add_function(wrap_pyfunction!(scan::scan, module)?)?;
    module.add_function(wrap_pyfunction!(state_records::embedded_json, module)?)?;
    module.add_function(wrap_pyfunction!(state_records::state_records, module)?)?;
    Ok(())
}
