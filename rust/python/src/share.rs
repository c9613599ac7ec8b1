//! Work on independent parts, shared by threads: each takes the next part when it is done with one.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use brokerless_core::Result;

/// How many workers so many threads need: one thread alone does without.
pub(crate) fn workers(threads: usize) -> usize {
    match threads {
        0 | 1 => 0,
        threads => threads.min(64),
    }
}

/// Does `work` on every part, with one of the `workers` (at least one) in each thread, and returns what it made, in the
/// order of the parts. The first worker is this thread's, which does `before` first.
///
/// Of several errors, any is returned.
pub(crate) fn share<Worker: Send, Part: Sync, Made: Send>(
    workers: &mut [Worker],
    parts: &[Part],
    before: impl FnOnce(),
    work: impl Fn(&mut Worker, &Part) -> Result<Made> + Sync,
) -> Result<Vec<Made>> {
    let next = AtomicUsize::new(0);
    let run = |worker: &mut Worker| -> Result<Vec<(usize, Made)>> {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(number) else {
                return Ok(made);
            };
            made.push((number, work(worker, part)?));
        }
    };
    let Some((own, others)) = workers.split_first_mut() else {
        before();
        return Ok(Vec::new());
    };
    let mut made = thread::scope(|scope| {
        // A thread for a few parts costs more than it brings.
        let others = if parts.len() > 1 { others } else { &mut [] };
        let threads: Vec<_> = others
            .iter_mut()
            .map(|worker| scope.spawn(|| run(worker)))
            .collect();
        before();
        let mut made = run(own);
        for thread in threads {
            let more = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            made = made.and_then(|mut made| {
                made.extend(more?);
                Ok(made)
            });
        }
        made
    })?;
    made.sort_unstable_by_key(|&(number, _)| number);
    Ok(made.into_iter().map(|(_, made)| made).collect())
}
