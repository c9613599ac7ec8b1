//! Appends in place: headers change as in an ordinary append, and either all batches are appended or none.

use brokerless_core::{
    AppendInfos, AppendOrigin, AppendRequest, Compression, Effects, LogAppender, LogConfig,
    Refused, TimestampType, ValidationRules, headers_alone, place_headers,
};

use super::{CODECS, NOW, codec, config, log_with, three_records};

const WHOLE: AppendRequest = AppendRequest {
    origin: AppendOrigin::Client,
    leader_epoch: 7,
    now: NOW,
    is_encoded_here: true,
    transaction_version: 0,
};

/// Appends the same batches in place and whole.
fn append_both(
    config: LogConfig,
    batches: &[Vec<u8>],
) -> (
    Result<AppendInfos, Refused>,
    Effects,
    LogAppender,
    LogAppender,
) {
    let data = batches.concat();
    let (mut whole, mut alone) = (log_with(config), log_with(config));
    whole.append_each(&data, WHOLE, &mut Effects::default());
    let mut effects = Effects::default();
    let infos = alone.append_in_place(&headers_alone(&data).unwrap().0, WHOLE, &mut effects);
    (infos, effects, whole, alone)
}

#[test]
fn batches_in_place_change_in_their_headers_as_they_would_when_copied() {
    for compression in CODECS {
        let batches = vec![three_records(compression); 3];
        let data = batches.concat();
        let (infos, effects, whole, alone) = append_both(config(None), &batches);
        let infos = infos.unwrap();
        assert_eq!((infos.count, infos.consumed), (3, 3 * 61));
        assert_eq!(infos.last.last_offset, 8);
        assert_eq!(format!("{whole:?}"), format!("{alone:?}"));
        let mut expected = Effects::default();
        log_with(config(None)).append_each(&data, WHOLE, &mut expected);
        let (stored, given) = (&expected.writes[0], &effects.writes[0]);
        assert_eq!(
            headers_alone(&stored.log).unwrap(),
            (given.log.clone(), data.len())
        );
        assert_eq!(
            (&stored.index, &stored.timeindex),
            (&given.index, &given.timeindex)
        );
        let (placed, end) = place_headers(&given.log).unwrap();
        let mut patched = data.clone();
        for (position, start) in placed {
            patched[position as usize..][..start.len()].copy_from_slice(start);
        }
        assert_eq!((patched, end), (stored.log.clone(), data.len() as u64));
    }
}

#[test]
fn in_place_all_batches_are_taken_or_none() {
    let plain = config(None);
    let rules = plain.rules;
    let refusing = [
        LogConfig {
            segment_bytes: 250,
            ..plain
        },
        LogConfig {
            rules: ValidationRules {
                timestamp_type: TimestampType::LogAppendTime,
                ..rules
            },
            ..plain
        },
        LogConfig {
            rules: ValidationRules {
                is_compacted: true,
                ..rules
            },
            ..plain
        },
        LogConfig {
            rules: ValidationRules {
                codec: Some(codec(Compression::Zstd)),
                ..rules
            },
            ..plain
        },
        LogConfig {
            rules: ValidationRules {
                max_message_bytes: 10,
                ..rules
            },
            ..plain
        },
    ];
    for config in refusing {
        let batches = vec![three_records(Compression::None); 3];
        let (infos, effects, _, alone) = append_both(config, &batches);
        assert!(infos.is_err(), "{config:?}");
        assert_eq!(effects, Effects::default());
        assert_eq!(format!("{alone:?}"), format!("{:?}", log_with(config)));
    }
}

#[test]
fn a_newer_leaders_batch_in_place_is_not_left_out() {
    // An ordinary append would succeed. In place, the file's own header would claim too much.
    let mut batch = three_records(Compression::None);
    batch[12..16].copy_from_slice(&8_i32.to_be_bytes());
    let request = AppendRequest {
        origin: AppendOrigin::Replication,
        ..WHOLE
    };
    let (headers, mut log) = (headers_alone(&batch).unwrap().0, log_with(config(None)));
    let newer = log.append_in_place(&headers, request, &mut Effects::default());
    assert!(newer.is_err());
    let request = AppendRequest {
        leader_epoch: 8,
        ..request
    };
    let infos = log.append_in_place(&headers, request, &mut Effects::default());
    assert_eq!(infos.unwrap().count, 1);
}

#[test]
fn headers_cut_anywhere_are_those_before_the_cut() {
    let data = vec![three_records(Compression::None); 2].concat();
    let (headers, consumed) = headers_alone(&data).unwrap();
    assert_eq!(consumed, data.len());
    for cut in 0..data.len() {
        let whole = usize::from(cut >= data.len() / 2);
        let expected = (headers[..whole * 61].to_vec(), whole * data.len() / 2);
        assert_eq!(headers_alone(&data[..cut]).unwrap(), expected);
    }
    for cut in 0..=headers.len() {
        let (placed, end) = place_headers(&headers[..cut]).unwrap();
        assert_eq!(
            (placed.len(), end),
            (cut / 61, (cut / 61 * data.len() / 2) as u64)
        );
    }
    for at in [0, 1].map(|batch| batch * data.len() / 2 + 61) {
        let mut rotten = data.clone();
        rotten[at] ^= 1;
        assert!(headers_alone(&rotten).is_err());
    }
    let mut other = headers.clone();
    other[16] = 1;
    assert!(place_headers(&other).is_err());
    other[16] = 2;
    other[8] = 0xff;
    assert!(place_headers(&other).is_err());
    let legacy = headers_alone(&[data.clone(), vec![0; 61]].concat());
    assert!(legacy.is_err());
}

#[test]
fn headers_cut_anywhere_are_refused_in_place() {
    let data = vec![three_records(Compression::None); 2].concat();
    let (headers, _) = headers_alone(&data).unwrap();
    let untouched = format!("{:?}", log_with(config(None)));
    for cut in (0..headers.len()).filter(|&cut| cut != 61) {
        let (mut log, mut effects) = (log_with(config(None)), Effects::default());
        let taken = log.append_in_place(&headers[..cut], WHOLE, &mut effects);
        assert!(taken.is_err(), "cut at {cut}");
        assert_eq!(effects, Effects::default());
        assert_eq!(format!("{log:?}"), untouched);
    }
}
