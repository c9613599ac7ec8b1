//! Registers the contents of `brokerless._native`. The modules have the same names as in `rust/core`; `values` is
//! `rust/values`. Each public name is defined in the file of that name.

mod base;
mod broker;
mod format;
mod read;
mod rewrite;
mod serve;
mod state;
mod values;
mod write;

#[pyo3::pymodule(gil_used = false)]
mod _native {
    use brokerless_core::{
        BATCH_OVERHEAD, Compression, DEFAULT_MAX_BATCH_BYTES, FIRST_OWN_PRODUCER_ID,
    };
    use pyo3::prelude::*;
    use pyo3::types::PyTuple;

    #[pymodule_export]
    use crate::base::file::LocalFile;
    #[pymodule_export]
    use crate::broker::{
        appended::{Appended, Closing, SegmentWrite},
        appender::Appender,
        leader_epochs::LeaderEpochs,
        producers::{Producers, highest_cluster_producer_id},
        segment_recovery::{ProducerReplay, SegmentEnd, SegmentRecovery},
        segment_state::SegmentState,
    };
    #[pymodule_export]
    use crate::format::{
        crc32c::crc32c,
        empty_batch::empty_batch,
        file_names::segment_files,
        find_batch::find_batch,
        headers_alone::{headers_alone, place_headers},
        index::{OffsetIndex, TimeIndex},
        producer_snapshot::{open_transactions, producer_snapshot},
        schema_ids::schema_ids,
        transaction_index::TransactionIndex,
    };
    #[pymodule_export]
    use crate::read::{
        decoder::Decoder,
        dump::{JsonDump, LogDump},
        end_offsets::EndOffsets,
        equal_batches::{BatchCursor, skip_equal},
        find_timestamp::find_timestamp,
        header_walk::HeaderWalk,
        json_lines::{binary_columns, json_lines},
        key_sketch::KeySketch,
        profile::Profile,
        rows::row_schema,
        scan::{batch_schema, scan},
        search::Search,
        segment_check::{PlainSegment, ProducerSequences, batch_offsets_at, check_segment},
        soundness::Soundness,
        split_reader::{RunReader, SplitReader},
        survey::{cut_short_in_words, survey},
    };
    #[pymodule_export]
    use crate::rewrite::{
        compaction_rewrite::CompactionRewrite,
        compaction_scan::{CompactionScan, SegmentVerdicts},
        erasure::{ErasedRecords, ErasureScan, SegmentErasure},
        segment_conversion::SegmentConversion,
        segment_output::SegmentOutput,
        space_estimate::SpaceEstimate,
    };
    #[pymodule_export]
    use crate::serve::Server;
    #[pymodule_export]
    use crate::state::{
        kraft_snapshot::{kraft_snapshot, metadata_record},
        latest_records::LatestRecords,
        state_records::{OffsetCommits, embedded_json, state_records},
    };
    #[pymodule_export]
    use crate::values::{
        decode_plain::decode_plain, schema_decoder::SchemaDecoder, value_encoder::ValueEncoder,
    };
    #[pymodule_export]
    use crate::write::{
        encoder::Encoder,
        end_transaction_marker::{end_of_transaction, end_transaction_marker},
        json_rows::json_rows,
        partitioner::{Partitioner, murmur2},
        record_rows::RecordRows,
    };

    #[pymodule_init]
    fn add_names(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let codecs = Compression::ALL.map(Compression::name);
        module.add("CODECS", PyTuple::new(module.py(), codecs)?)?;
        let columns = crate::read::rows::column_names();
        module.add("ROW_COLUMNS", PyTuple::new(module.py(), columns)?)?;
        module.add("BATCH_OVERHEAD", BATCH_OVERHEAD)?;
        module.add("DEFAULT_MAX_BATCH_BYTES", DEFAULT_MAX_BATCH_BYTES)?;
        module.add("FIRST_OWN_PRODUCER_ID", FIRST_OWN_PRODUCER_ID)
    }
}
