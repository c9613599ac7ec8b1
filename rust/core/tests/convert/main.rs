//! Conversions lose data only on request, and equal Kafka's own conversions. If the codec leaves no choice, the bytes
//! equal the worked examples in record-format.md; otherwise the rows are equal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod batch_size;
mod codec;
mod damage;
mod magic;
mod segments;
#[path = "../support/mod.rs"]
mod support;

use brokerless_core::{
    AbortedTransaction, Codec, Compression, Conversion, Converted, Converter, Error, ErrorKind,
    Header, NextBatch, Rewrite, next_batch,
};

const V2: &str = "000000000000000000000049ffffffff02ef692a750000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400";
const V2_WITHOUT_TIMESTAMPS: &str = "000000000000000000000049ffffffff025d66079d000000000001ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000002010a776f726c6400";
const V1: &str = "00000000000000000000001b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f00000000000000010000001b0627d21201000000018bcfe56805ffffffff00000005776f726c64";
const V0: &str = "00000000000000000000001387a77ab20000ffffffff0000000568656c6c6f0000000000000001000000138bc0cd770000ffffffff00000005776f726c64";
const V1_GZIP: &str = "000000000000000100000059d076985501010000018bcfe56805ffffffff000000431f8b08000000000000ff63608003e9bec7dcbb18810cc6eef34f3318fe030190c39a919a93930f550292956653bf240457c60a53569e5f949302007eaf54cb4e000000";
const V1_LZ4: &str = "0000000000000001000000610ad13f4b01030000018bcfe56805ffffffff0000004b04224d186040823c00000016000100f30d1b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f2600001e00501b0627d21209000127001405270050776f726c6400000000";
const V0_LZ4: &str = "00000000000000010000004bdf83a1b90003ffffffff0000003d04224d1860401a2e00000016000100f3051387a77ab20000ffffffff0000000568656c6c6f1e009601000000138bc0cd771f0050776f726c6400000000";
/// Producer 1000, headers, a null value, a null key.
const WITH_HEADERS: &str = "00000000000000640000005600000005022ca5c06e0000000000020000018bcfe568000000018bcfe5680100000000000003e80003000000070000000326000000026b02760604683102780468320100000e000202026b0100100001040104763300";
const TRANSACTIONAL: &str = "00000000000000000000003affffffff0243606c9f0010000000000000000000000005000000000000000500000000000003e80003000000000000000110000000026b027600";
const COMMIT: &str = "000000000000002a0000004200000009027eacaeaf0030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000010c00000000000b00";
const ABORT: &str = "000000000000002a0000004200000009028a9278e70030000000000000018bcfe568000000018bcfe5680000000000000003e80003ffffffff000000012000000008000000000c00000000000b00";
const EMPTY: &str = "00000000000000640000003100000005020b0177cc000000000002ffffffffffffffff0000018bcfe5680100000000000003e800030000000700000000";
const HORIZON: &str = "00000000000000000000004bffffffff02b5ef82a000400000000200000000000000640000000000000096ffffffffffffffffffffffffffff000000031000630002300230000e00000202310100100064040232023200";
const LOG_APPEND_TIME: &str = "000000000000000000000049ffffffff0210c43bcd0008000000010000018bcfe56800000001a3185c5000ffffffffffffffffffffffffffff0000000216000000010a68656c6c6f0016000a02010a776f726c6400";
const V1_GZIP_LOG_APPEND_TIME: &str = "000000000000000b0000004d0c058e6401090000000000000309ffffffff000000371f8b08000000000000ff63608003890d3bb6bb32724038cc9c40823111442441e519416a44843757a3aa49061129006f4c911848000000";

fn codec(compression: Compression) -> Option<Codec> {
    Some(Codec::new(compression, None).unwrap())
}

fn to(magic: i8) -> Conversion {
    Conversion {
        magic: Some(magic),
        ..Conversion::default()
    }
}

fn to_codec(compression: Compression) -> Conversion {
    Conversion {
        codec: codec(compression),
        ..Conversion::default()
    }
}

/// Converts all of `log` with one converter that knows these transactions.
fn converted_of(
    conversion: Conversion,
    log: &[u8],
    aborted: &[AbortedTransaction],
    last_stable_offset: i64,
) -> Result<(Vec<u8>, Converted), Error> {
    let mut converter = Converter::new(conversion, aborted, last_stable_offset, i64::MAX, 1 << 24)?;
    let (mut out, mut at) = (Vec::new(), 0);
    while let NextBatch::Batch(header, entry) = next_batch(&log[at..], at as u64)? {
        at += entry.len();
        if converter.entry(&header, entry, &mut out)? {
            out.extend_from_slice(entry);
        }
    }
    assert_eq!(at, log.len());
    converter.finish(&mut out)?;
    Ok((out, converter.converted()))
}

fn convert(conversion: Conversion, log: &[u8]) -> Vec<u8> {
    converted_of(conversion, log, &[], i64::MAX).unwrap().0
}

fn refusal(conversion: Conversion, log: &[u8]) -> String {
    let error = converted_of(conversion, log, &[], i64::MAX).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    error.message
}

fn headers(log: &[u8]) -> Vec<Header> {
    let (mut headers, mut at) = (Vec::new(), 0);
    while let NextBatch::Batch(header, entry) = next_batch(&log[at..], at as u64).unwrap() {
        header.check_crc(entry).unwrap();
        headers.push(header);
        at += entry.len();
    }
    assert_eq!(at, log.len());
    headers
}
