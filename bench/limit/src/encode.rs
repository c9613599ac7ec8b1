//! What no encoder can beat.

use std::error::Error;

use crate::{COLUMN_BYTES, Scratch, decode};

const HEADER: usize = 61;

/// A batch's records section, decompressed.
pub(crate) struct Batch {
    codec: u8,
    records: Vec<u8>,
}

/// Reused buffers.
pub(crate) struct Room {
    copy: Vec<u8>,
    /// Batches so far, up to `filled`; compressed ones have room behind that.
    out: Vec<u8>,
    filled: usize,
    gzip: libdeflater::Compressor,
    snappy: snap::raw::Encoder,
    zstd: zstd_safe::CCtx<'static>,
}

impl Room {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let mut zstd = zstd_safe::CCtx::create();
        zstd.set_parameter(zstd_safe::CParameter::CompressionLevel(3))
            .map_err(zstd_safe::get_error_name)?;
        Ok(Self {
            copy: Vec::with_capacity(64 << 20),
            out: vec![0; 64 << 20],
            filled: 0,
            gzip: libdeflater::Compressor::new(libdeflater::CompressionLvl::default()),
            snappy: snap::raw::Encoder::new(),
            zstd,
        })
    }
}

pub(crate) fn batches(mut log: &[u8], scratch: &mut Scratch) -> Result<Vec<Batch>, Box<dyn Error>> {
    let mut batches = Vec::new();
    while log.len() > HEADER {
        let size = 12 + u32::from_be_bytes(log[8..12].try_into()?) as usize;
        let (batch, rest) = log.split_at(size);
        log = rest;
        let codec = batch[22] & 7;
        let records = decode(codec, &batch[HEADER..], scratch)?.to_vec();
        batches.push(Batch { codec, records });
    }
    Ok(batches)
}

pub(crate) fn pass(batches: &[Batch], room: &mut Room) -> Result<(), Box<dyn Error>> {
    for batch in batches {
        if batch.codec == 0 {
            one(0, &batch.records, room)?;
        } else {
            room.copy.clear();
            room.copy.extend_from_slice(&batch.records);
            let records = std::mem::take(&mut room.copy);
            one(batch.codec, &records, room)?;
            room.copy = records;
        }
    }
    Ok(())
}

/// One batch to where the next one belongs.
pub(crate) fn one(codec: u8, records: &[u8], room: &mut Room) -> Result<(), Box<dyn Error>> {
    if room.filled > COLUMN_BYTES {
        room.filled = 0;
    }
    let start = room.filled;
    let at = start + HEADER;
    room.filled = at + compress(codec, records, at, room)?;
    let summed = &room.out[start + 21..room.filled];
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, summed) as u32;
    room.out[start + 17..start + 21].copy_from_slice(&crc.to_be_bytes());
    std::hint::black_box(&room.out);
    Ok(())
}

/// Compresses the records to where they belong; returns how long they became.
fn compress(
    codec: u8,
    records: &[u8],
    at: usize,
    room: &mut Room,
) -> Result<usize, Box<dyn Error>> {
    let out = &mut room.out[at..];
    Ok(match codec {
        0 => {
            out[..records.len()].copy_from_slice(records);
            records.len()
        }
        1 => room.gzip.gzip_compress(records, out)?,
        2 => {
            let mut length = 16;
            for block in records.chunks(32 << 10) {
                length += 4 + room.snappy.compress(block, &mut out[length + 4..])?;
            }
            length
        }
        3 => {
            let mut length = 7;
            for block in records.chunks(64 << 10) {
                length +=
                    4 + lz4::block::compress_to_buffer(block, None, false, &mut out[length + 4..])?;
            }
            length + 4
        }
        4 => room
            .zstd
            .compress2(out, records)
            .map_err(zstd_safe::get_error_name)?,
        _ => return Err("unknown codec".into()),
    })
}
