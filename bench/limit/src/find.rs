//! With `find THREADS crc|plain TEXT FILE...`: one pass over files as in [`super::crc`], with the decompression of each batch
//! and a search for the text. Prints how many batches have it.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memmem::Finder;

use super::Scratch;
use super::crc::each_batch;

pub(crate) fn run(
    threads: usize,
    checks: bool,
    text: &str,
    files: &[String],
) -> Result<(), Box<dyn Error>> {
    let next = AtomicUsize::new(0);
    let found = AtomicUsize::new(0);
    let work = || -> Result<(), String> {
        let mut buffer = vec![0; super::crc::BLOCK];
        let mut scratch = Scratch::new();
        let finder = Finder::new(text);
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let pass = each_batch(path, &mut buffer, |batch| {
                if checks {
                    super::checked(batch)?;
                }
                let records = super::decode(batch[22] & 7, &batch[61..], &mut scratch)?;
                found.fetch_add(
                    usize::from(finder.find(records).is_some()),
                    Ordering::Relaxed,
                );
                Ok(())
            });
            pass.map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        println!("{}", found.load(Ordering::Relaxed));
        Ok(())
    })
}
