//! Appends of batches whose payload is broken under a right checksum, in every codec, or too large for memory. An
//! accepted batch must be readable, and a refused one must leave no trace.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod in_place;
#[path = "../support/mod.rs"]
mod support;

use brokerless_core::{
    ActiveSegment, AppendInfo, AppendOrigin, AppendRequest, BatchBuilder, BatchOptions, Codec,
    Compression, Effects, Headers, HeadersBuffer, LeaderEpochs, LogAppender, LogConfig, NewRecord,
    Producers, Refusal, Refused, SegmentIndexes, TimestampType, TransactionIndexEnd,
    ValidationRules, crc32c,
};
use support::rows;

const NOW: i64 = 1_700_000_000_000;
const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn codec(compression: Compression) -> Codec {
    Codec {
        compression,
        level: None,
    }
}

fn config(target: Option<Compression>) -> LogConfig {
    LogConfig {
        rules: ValidationRules {
            message_format: 2,
            codec: target.map(codec),
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            is_compacted: false,
            max_message_bytes: 1 << 20,
            max_decompressed_message_bytes: ValidationRules::NO_RECORD_LIMIT,
        },
        segment_bytes: 1 << 30,
        segment_ms: i64::MAX,
        segment_jitter_ms: 0,
        jitter_seed: 0,
        segment_index_bytes: 1 << 20,
        index_interval_bytes: 4096,
        producer_id_expiration_ms: i64::MAX,
        max_batch_bytes: 1 << 20,
    }
}

fn log(target: Option<Compression>) -> LogAppender {
    log_with(config(target))
}

fn log_with(config: LogConfig) -> LogAppender {
    let segment = ActiveSegment {
        base_offset: 0,
        size: 0,
        created_ms: NOW,
        first_timestamp: None,
        indexes: SegmentIndexes::new(0, 4096, 1 << 20),
        transactions: TransactionIndexEnd::default(),
    };
    let (producers, epochs) = (Producers::default(), LeaderEpochs::default());
    LogAppender::new(config, segment, producers, epochs, 0, 0)
}

fn append(log: &mut LogAppender, data: &[u8]) -> (Result<AppendInfo, Refused>, Effects) {
    append_as(log, data, false)
}

fn append_as(
    log: &mut LogAppender,
    data: &[u8],
    is_encoded_here: bool,
) -> (Result<AppendInfo, Refused>, Effects) {
    let mut effects = Effects::default();
    let request = AppendRequest {
        origin: AppendOrigin::Client,
        leader_epoch: 0,
        now: NOW,
        is_encoded_here,
        transaction_version: 0,
    };
    let info = log.append(data, request, &mut effects);
    (info, effects)
}

fn build(compression: Compression, records: &[NewRecord<'_>]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    let options = BatchOptions {
        codec: codec(compression),
        ..BatchOptions::default()
    };
    builder.begin(options).unwrap();
    for record in records {
        builder.append(record).unwrap();
    }
    let mut batch = Vec::new();
    builder.finish(&mut batch).unwrap();
    batch
}

fn three_records(compression: Compression) -> Vec<u8> {
    let mut headers = HeadersBuffer::default();
    headers.push(b"name", Some(b"value")).unwrap();
    headers.push(b"", None).unwrap();
    let record = |offset, key, value, headers| NewRecord {
        offset,
        timestamp: NOW + offset,
        key,
        value,
        headers,
    };
    let records = [
        record(0, Some(&b"key"[..]), Some(&b"value"[..]), Headers::NONE),
        record(1, None, None, headers.headers()),
        record(2, Some(&b""[..]), Some(&[7; 200][..]), Headers::NONE),
    ];
    build(compression, &records)
}

fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

#[test]
fn a_payload_broken_behind_a_right_checksum_is_refused_or_can_be_read() {
    for from in CODECS {
        let batch = three_records(from);
        for to in [None, Some(Compression::None), Some(Compression::Zstd)] {
            for at in 61..batch.len() {
                for flip in [1, 0x40, 0x80, 0xff] {
                    let mut broken = batch.clone();
                    broken[at] ^= flip;
                    let mut log = log(to);
                    match append(&mut log, &sealed(broken)) {
                        (Ok(info), effects) => {
                            assert_eq!(info.last_offset, 2);
                            assert_eq!(rows(&effects.writes[0].log).len(), 3);
                        }
                        (Err(refused), effects) => {
                            let known = [
                                Refusal::InvalidRecord,
                                Refusal::InvalidTimestamp,
                                Refusal::Append,
                            ];
                            assert!(known.contains(&refused.refusal), "{refused}");
                            assert_eq!(effects, Effects::default());
                            assert_eq!((log.log_end_offset(), log.segment().size), (0, 0));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_encoded_here_gets_the_answers_that_its_records_would_get() {
    let rules = config(None).rules;
    let topics = [
        rules,
        ValidationRules {
            timestamp_type: TimestampType::LogAppendTime,
            ..rules
        },
        ValidationRules {
            timestamp_after_max_ms: 1,
            ..rules
        },
        ValidationRules {
            timestamp_after_max_ms: 2,
            ..rules
        },
        ValidationRules {
            timestamp_before_max_ms: -1,
            ..rules
        },
        ValidationRules {
            timestamp_before_max_ms: 0,
            ..rules
        },
        ValidationRules {
            is_compacted: true,
            ..rules
        },
        ValidationRules {
            codec: Some(codec(Compression::Zstd)),
            ..rules
        },
    ];
    for from in CODECS {
        for rules in topics {
            let taken = [false, true].map(|is_encoded_here| {
                let mut log = log_with(LogConfig {
                    rules,
                    ..config(None)
                });
                let mut effects = Vec::new();
                for _ in 0..2 {
                    let (info, effect) = append_as(&mut log, &three_records(from), is_encoded_here);
                    let info = info.map_err(|refused| (refused.to_string(), refused.records));
                    effects.push((info, effect, log.segment().size));
                }
                effects
            });
            assert_eq!(taken[0], taken[1], "{from:?} {rules:?}");
        }
    }
}

#[test]
fn the_records_of_what_is_encoded_here_are_not_looked_at() {
    for compression in CODECS {
        let mut batch = three_records(compression);
        let last = batch.len() - 1;
        batch[61] ^= 0xff;
        batch[last] ^= 0xff;
        let batch = sealed(batch);
        assert!(append_as(&mut log(None), &batch, false).0.is_err());
        assert_eq!(
            append_as(&mut log(None), &batch, true)
                .0
                .unwrap()
                .last_offset,
            2
        );
        let mut rotten = batch;
        rotten[last] ^= 1;
        let refused = append_as(&mut log(None), &rotten, true).0.unwrap_err();
        assert_eq!(refused.refusal, Refusal::CorruptRecord);
    }
}

#[test]
fn a_payload_cut_anywhere_is_refused() {
    for from in CODECS {
        let batch = three_records(from);
        for cut in 61..batch.len() {
            let mut broken = batch[..cut].to_vec();
            broken[8..12].copy_from_slice(&(cut as i32 - 12).to_be_bytes());
            // The end of a zstd frame holds no data, and Kafka's reader does not miss it.
            let holds_all = from == Compression::Zstd && cut + 3 >= batch.len();
            let (info, _) = append(&mut log(None), &sealed(broken));
            assert!(info.is_err() || holds_all, "{from:?} cut to {cut}");
        }
    }
}

#[test]
fn every_codec_becomes_every_other_with_the_same_records() {
    for from in CODECS {
        let expected = rows(&three_records(from));
        for to in CODECS {
            let mut log = log(Some(to));
            let (info, effects) = append(&mut log, &three_records(from));
            info.unwrap();
            let stored = &effects.writes[0].log;
            assert_eq!(rows(stored), expected, "{from:?} to {to:?}");
            assert_eq!(stored[22] & 7, to as u8);
        }
    }
}

#[test]
fn a_batch_may_not_decompress_to_more_than_the_cap() {
    let value = vec![0; (1 << 20) + 1];
    let record = NewRecord {
        offset: 0,
        timestamp: NOW,
        key: None,
        value: Some(&value),
        headers: Headers::NONE,
    };
    for compression in &CODECS[1..] {
        let batch = build(*compression, &[record]);
        let (info, effects) = append(&mut log(None), &batch);
        assert_eq!(info.unwrap_err().refusal, Refusal::Append);
        assert_eq!(effects, Effects::default());
    }
}

#[test]
fn a_count_that_memory_could_not_hold_is_refused_for_what_is_missing() {
    for compression in CODECS {
        let mut batch = three_records(compression);
        batch[23..27].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
        batch[57..61].copy_from_slice(&i32::MAX.to_be_bytes());
        let (info, _) = append(&mut log(None), &sealed(batch));
        let refused = info.unwrap_err();
        assert_eq!(refused.refusal, Refusal::InvalidRecord);
        assert!(
            refused.message.contains("record 3 of 2147483647"),
            "{refused}"
        );
    }
}
