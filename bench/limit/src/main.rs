//! For each line on stdin, one pass over a log of magic 2 batches: CRC of the batch, decompression, and one copy of the
//! records section into reused buffers. Prints the seconds it took. With `encode`, the other direction: one copy of each
//! batch's records section, its compression at the codec's default level, and CRC. With `recode` and a codec's number, both
//! ways: CRC, decompression, compression, and CRC.
//!
//! `crc THREADS FILE...` is one pass over files that are read meanwhile, by several threads: CRC alone. So is `find THREADS
//! crc|plain TEXT FILE...`: CRC or not, decompression, and a search for the text.
//!
//! The file is trusted: this is a measuring rod, not a reader.

mod crc;
mod encode;
mod find;

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

/// Copies go on until this much is there, as a decoder's columns do.
const COLUMN_BYTES: usize = 2 << 20;

struct Scratch {
    decoded: Vec<u8>,
    gzip: libdeflater::Decompressor,
    snappy: snap::raw::Decoder,
    zstd: zstd_safe::DCtx<'static>,
}

impl Scratch {
    fn new() -> Self {
        Self {
            decoded: vec![0; 64 << 20],
            gzip: libdeflater::Decompressor::new(),
            snappy: snap::raw::Decoder::new(),
            zstd: zstd_safe::DCtx::create(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("usage: brokerless-limit FILE [encode | recode CODEC]")?;
    if path == "crc" {
        let rest: Vec<String> = std::env::args().skip(2).collect();
        let (threads, files) = rest
            .split_first()
            .ok_or("usage: brokerless-limit crc THREADS FILE...")?;
        return crc::run(threads.parse()?, files);
    }
    if path == "find" {
        let rest: Vec<String> = std::env::args().skip(2).collect();
        let [threads, checks, text, files @ ..] = rest.as_slice() else {
            return Err("usage: brokerless-limit find THREADS crc|plain TEXT FILE...".into());
        };
        return find::run(threads.parse()?, checks == "crc", text, files);
    }
    let log = std::fs::read(path)?;
    let mut scratch = Scratch::new();
    if let Some(codec) = std::env::args().nth(3) {
        let codec = codec.parse()?;
        let mut room = encode::Room::new()?;
        return each_line(|| recode(&log, codec, &mut scratch, &mut room));
    }
    if std::env::args().nth(2).is_some() {
        let batches = encode::batches(&log, &mut scratch)?;
        let mut room = encode::Room::new()?;
        return each_line(|| encode::pass(&batches, &mut room));
    }
    let mut copy = Vec::with_capacity(2 * COLUMN_BYTES);
    each_line(|| pass(&log, &mut scratch, &mut copy))
}

fn each_line(mut pass: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    for line in stdin().lock().lines() {
        line?;
        let start = Instant::now();
        pass()?;
        println!("{}", start.elapsed().as_secs_f64());
        stdout().flush()?;
    }
    Ok(())
}

fn recode(
    mut log: &[u8],
    codec: u8,
    scratch: &mut Scratch,
    room: &mut encode::Room,
) -> Result<(), Box<dyn Error>> {
    while log.len() > 61 {
        let (batch, rest) = checked(log)?;
        log = rest;
        let records = decode(batch[22] & 7, &batch[61..], scratch)?;
        encode::one(codec, records, room)?;
    }
    Ok(())
}

/// A batch, and what follows.
type Cut<'a> = (&'a [u8], &'a [u8]);

/// The next one, its checksum compared.
fn checked(log: &[u8]) -> Result<Cut<'_>, Box<dyn Error>> {
    let size = 12 + u32::from_be_bytes(log[8..12].try_into()?) as usize;
    let (batch, rest) = log.split_at(size);
    let stored = u32::from_be_bytes(batch[17..21].try_into()?);
    let computed = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &batch[21..]) as u32;
    if stored != computed {
        return Err("crc mismatch".into());
    }
    Ok((batch, rest))
}

fn pass(mut log: &[u8], scratch: &mut Scratch, copy: &mut Vec<u8>) -> Result<(), Box<dyn Error>> {
    while log.len() > 61 {
        let (batch, rest) = checked(log)?;
        log = rest;
        let records = decode(batch[22] & 7, &batch[61..], scratch)?;
        if copy.len() > COLUMN_BYTES {
            copy.clear();
        }
        copy.extend_from_slice(records);
        std::hint::black_box(&copy);
    }
    Ok(())
}

fn decode<'a>(
    codec: u8,
    stored: &'a [u8],
    scratch: &'a mut Scratch,
) -> Result<&'a [u8], Box<dyn Error>> {
    let decoded = &mut scratch.decoded;
    let length = match codec {
        0 => return Ok(stored),
        1 => scratch.gzip.gzip_decompress(stored, decoded)?,
        2 => {
            let (mut at, mut length) = (16, 0);
            while at < stored.len() {
                let size = u32::from_be_bytes(stored[at..at + 4].try_into()?) as usize;
                at += 4;
                length += scratch
                    .snappy
                    .decompress(&stored[at..at + size], &mut decoded[length..])?;
                at += size;
            }
            length
        }
        3 => {
            let (mut at, mut length) = (7, 0);
            loop {
                let word = u32::from_le_bytes(stored[at..at + 4].try_into()?);
                at += 4;
                let size = (word & 0x7fff_ffff) as usize;
                if size == 0 {
                    break;
                }
                let block = &stored[at..at + size];
                length += if word >> 31 == 1 {
                    decoded[length..length + size].copy_from_slice(block);
                    size
                } else {
                    lz4::block::decompress_to_buffer(block, Some(64 << 10), &mut decoded[length..])?
                };
                at += size;
            }
            length
        }
        4 => scratch
            .zstd
            .decompress(&mut decoded[..], stored)
            .map_err(|code| zstd_safe::get_error_name(code))?,
        _ => return Err("unknown codec".into()),
    };
    Ok(&scratch.decoded[..length])
}
