//! With `crc THREADS FILE...`: one pass over files, each read in blocks through one buffer of a thread, with the CRC of each
//! batch.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is read at once stays in the cache of a core until its checksum is computed.
pub(crate) const BLOCK: usize = 256 << 10;

pub(crate) fn run(threads: usize, files: &[String]) -> Result<(), Box<dyn Error>> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), String> {
        let mut buffer = vec![0; BLOCK];
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            pass(path, &mut buffer).map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })
}

fn pass(path: &str, buffer: &mut Vec<u8>) -> Result<(), Box<dyn Error>> {
    each_batch(path, buffer, |batch| super::checked(batch).map(|_| ()))
}

/// Calls `visit` with each batch of a file, which is read through `buffer`.
pub(crate) fn each_batch(
    path: &str,
    buffer: &mut Vec<u8>,
    mut visit: impl FnMut(&[u8]) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut held = 0;
    loop {
        let count = file.read(&mut buffer[held..])?;
        held += count;
        let mut at = 0;
        while held - at > 61 {
            let size = 12 + u32::from_be_bytes(buffer[at + 8..at + 12].try_into()?) as usize;
            if size > buffer.len() {
                buffer.resize(size, 0);
            }
            if size > held - at {
                break;
            }
            visit(&buffer[at..at + size])?;
            at += size;
        }
        buffer.copy_within(at..held, 0);
        held -= at;
        if count == 0 {
            return if held == 0 {
                Ok(())
            } else {
                Err("the file ends inside a batch".into())
            };
        }
    }
}
