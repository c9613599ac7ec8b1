//! Fuzz targets of appends and recoveries.

use brokerless_core::{
    ActiveSegment, AppendOrigin, AppendRequest, Codec, Compression, Effects, LeaderEpochs,
    LogAppender, LogConfig, NextBatch, Producers, SegmentIndexes, SegmentRecovery, TimestampType,
    TransactionIndexEnd, ValidationRules, WalkEnd, crc32c, headers_alone, next_batch,
    place_headers,
};

use super::MAX_BATCH_BYTES;

const NOW: i64 = 1_700_000_000_000;

fn config(choice: u8) -> LogConfig {
    let codecs = [
        None,
        Some(Compression::None),
        Some(Compression::Gzip),
        Some(Compression::Zstd),
    ];
    let codec = codecs[usize::from(choice & 3)].map(|compression| Codec {
        compression,
        level: None,
    });
    LogConfig {
        rules: ValidationRules {
            message_format: [2, 2, 1, 0][usize::from(choice >> 2 & 3)],
            codec,
            timestamp_type: match choice & 16 {
                0 => TimestampType::CreateTime,
                _ => TimestampType::LogAppendTime,
            },
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            is_compacted: choice & 32 != 0,
            max_message_bytes: 1 << 20,
            max_decompressed_message_bytes: ValidationRules::NO_RECORD_LIMIT,
        },
        segment_bytes: 1 << 20,
        segment_ms: 1000,
        segment_jitter_ms: 10,
        jitter_seed: 0,
        segment_index_bytes: 1 << 10,
        index_interval_bytes: 64,
        producer_id_expiration_ms: 1000,
        max_batch_bytes: MAX_BATCH_BYTES,
    }
}

fn log(config: LogConfig) -> LogAppender {
    let LogConfig {
        index_interval_bytes,
        segment_index_bytes,
        ..
    } = config;
    let segment = ActiveSegment {
        base_offset: 0,
        size: 0,
        created_ms: NOW,
        first_timestamp: None,
        indexes: SegmentIndexes::new(0, index_interval_bytes, segment_index_bytes),
        transactions: TransactionIndexEnd::default(),
    };
    let (producers, epochs) = (Producers::default(), LeaderEpochs::default());
    LogAppender::new(config, segment, producers, epochs, 0, 0)
}

fn request(origin: AppendOrigin) -> AppendRequest {
    AppendRequest {
        origin,
        leader_epoch: i32::MAX,
        now: NOW,
        is_encoded_here: false,
        transaction_version: 0,
    }
}

/// Corrects the checksum of every framed batch in `data`. With `is_first`, also sets base offset 0, as a producer sends
/// it.
fn sealed(data: &[u8], is_first: bool) -> Vec<u8> {
    let mut sealed = data.to_vec();
    let mut at = 0;
    while let Ok(NextBatch::Batch(header, entry)) = next_batch(&data[at..], at as u64) {
        let crc_at = at + if header.magic == 2 { 17 } else { 12 };
        let crc = header.computed_crc(entry).to_be_bytes();
        sealed[crc_at..crc_at + 4].copy_from_slice(&crc);
        if is_first && header.magic == 2 {
            sealed[at..at + 8].fill(0);
        }
        at += header.size();
    }
    sealed
}

/// Either all headers are appended in place, or none. If all are appended, the last batch ends at the size of the
/// segment.
fn append_in_place(headers: &[u8], config: LogConfig) {
    let (mut log, mut effects) = (log(config), Effects::default());
    let request = AppendRequest {
        is_encoded_here: true,
        ..request(AppendOrigin::Client)
    };
    let Ok(infos) = log.append_in_place(headers, request, &mut effects) else {
        assert_eq!(effects, Effects::default());
        assert_eq!((log.log_end_offset(), log.segment().size), (0, 0));
        return;
    };
    let given: Vec<_> = effects.writes.iter().map(|write| &write.log[..]).collect();
    let given = given.concat();
    let (placed, end) = place_headers(&given).unwrap();
    assert_eq!(placed.len() as u64, infos.count);
    assert_eq!(end, log.segment().size);
}

/// The bytes determine the topic's settings and the origin. A refused request leaves no trace. A follower accepts the
/// batches of a client as the leader has stored them, leaves them unchanged, and ends in the same state.
pub(crate) fn append(data: &[u8]) {
    let choice = crc32c(data) as u8;
    let origin = [
        AppendOrigin::Client,
        AppendOrigin::Coordinator,
        AppendOrigin::Client,
        AppendOrigin::Replication,
    ][usize::from(choice >> 6)];
    let data = &sealed(data, origin != AppendOrigin::Replication)[..];
    append_in_place(data, config(choice));
    append_in_place(&headers_alone(data).unwrap_or_default().0, config(choice));
    let mut leader = log(config(choice));
    let mut effects = Effects::default();
    if leader.append(data, request(origin), &mut effects).is_err() {
        assert_eq!(effects, Effects::default());
        assert_eq!((leader.log_end_offset(), leader.segment().size), (0, 0));
        assert_eq!(
            (leader.producers().entries(), leader.epochs().entries()),
            (vec![], &[][..])
        );
    }
    let infos = leader.append_each(data, request(origin), &mut effects);
    assert!(infos.consumed <= data.len() && infos.duplicates <= infos.count);
    assert!(leader.last_stable_offset() <= leader.high_watermark());
    // Only a client's batches are certain to be consecutive.
    if origin != AppendOrigin::Client {
        return;
    }
    let mut follower = log(config(choice));
    let stored: Vec<_> = effects.writes.iter().map(|write| &write.log[..]).collect();
    let stored = stored.concat();
    let mut copied = Effects::default();
    let infos = follower.append_each(&stored, request(AppendOrigin::Replication), &mut copied);
    assert_eq!((infos.refused, infos.consumed), (None, stored.len()));
    let copied: Vec<_> = copied.writes.iter().map(|write| &write.log[..]).collect();
    assert_eq!(copied.concat(), stored);
    assert_eq!(follower.log_end_offset(), leader.log_end_offset());
    assert_eq!(follower.epochs(), leader.epochs());
    assert_eq!(follower.producers().entries(), leader.producers().entries());
}

/// Windows of any size give the same result. A second recovery of the valid part cuts nothing.
pub(crate) fn recovery(data: &[u8]) {
    recovered_alike(data);
    recovered_alike(&sealed(data, false));
}

fn recovered_alike(data: &[u8]) {
    let whole = recovered(data, data.len().max(1));
    for window in [64, 300] {
        assert_eq!(recovered(data, window), whole, "window {window}");
    }
    let (ended, valid, ..) = whole;
    if matches!(ended, WalkEnd::Whole | WalkEnd::Cut(_)) {
        let (again, valid_again, ..) = recovered(&data[..valid], valid.max(1));
        // A bad marker stays, and is found again.
        assert!(again == WalkEnd::Whole || again == ended);
        assert_eq!(valid_again, valid);
    }
}

type Recovered = (WalkEnd, usize, i64, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>);

fn recovered(data: &[u8], window: usize) -> Recovered {
    let mut recovery = SegmentRecovery::new(0, 64, 1 << 10);
    let (mut producers, mut epochs) = (Producers::default(), LeaderEpochs::default());
    let (mut at, mut size) = (0, window);
    while recovery.walk.ended.is_none() {
        let bytes = &data[at..data.len().min(at + size)];
        let end = data.len() as u64;
        let taken = recovery.feed(bytes, at as u64, end, &mut producers, &mut epochs);
        let taken = taken.unwrap();
        if taken == 0 && recovery.walk.ended.is_none() {
            assert!(bytes.len() < data.len() - at, "asks for more than there is");
            size = recovery.walk.needed.max(size + 1);
        } else {
            (at, size) = (at + taken, window);
        }
    }
    let ended = recovery.walk.ended.clone().unwrap();
    (
        ended,
        recovery.valid_bytes as usize,
        recovery.next_offset,
        recovery.index,
        recovery.timeindex,
        recovery.txnindex,
        producers.snapshot(),
    )
}
