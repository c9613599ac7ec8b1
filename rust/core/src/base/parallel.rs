//! Dividing independent parts of work among threads: each thread takes the next part when it has finished one.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::base::error::Result;

/// The maximum number of threads. More threads do not help, because one thread reads and writes the files.
const MAX_THREADS: usize = 64;

/// Creates a worker for each thread. For a single thread it creates none, because the caller does the work itself.
pub(crate) fn workers<Worker>(
    threads: usize,
    make: impl FnMut() -> Result<Worker>,
) -> Result<Vec<Worker>> {
    let count = if threads > 1 {
        threads.min(MAX_THREADS)
    } else {
        0
    };
    std::iter::repeat_with(make).take(count).collect()
}

/// Does `work` on every part and returns the results in the order of the parts.
///
/// Each thread uses one of the `workers`. This thread uses the first worker, and calls `before` before its first part.
/// Without workers, only `before` is called.
pub(crate) fn in_parallel<Worker: Send, Part: Sync, Made: Send>(
    workers: &mut [Worker],
    parts: &[Part],
    before: impl FnOnce(),
    work: impl Fn(&mut Worker, &Part) -> Made + Sync,
) -> Vec<Made> {
    let next = AtomicUsize::new(0);
    let run = |worker: &mut Worker| -> Vec<(usize, Made)> {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(number) else {
                return made;
            };
            made.push((number, work(worker, part)));
        }
    };
    let Some((own, others)) = workers.split_first_mut() else {
        before();
        return Vec::new();
    };
    // Starting threads for a single part costs more than it saves.
    let others = if parts.len() > 1 { others } else { &mut [] };
    let mut made = thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter_mut()
            .map(|worker| scope.spawn(|| run(worker)))
            .collect();
        before();
        let mut made = run(own);
        for thread in threads {
            made.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        made
    });
    made.sort_unstable_by_key(|&(number, _)| number);
    made.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_parts() {
        let parts: Vec<u64> = (0..100).collect();
        let expected: Vec<u64> = parts.iter().map(|part| part * part).collect();
        for threads in [2, 3, 4, 200] {
            let mut workers = workers(threads, || Ok(0_u64)).unwrap();
            let mut is_called = false;
            let squares = in_parallel(
                &mut workers,
                &parts,
                || is_called = true,
                |done, part| {
                    *done += 1;
                    part * part
                },
            );
            assert_eq!(squares, expected);
            assert!(is_called);
            assert_eq!(workers.iter().sum::<u64>(), 100);
        }
    }

    #[test]
    fn one_thread_has_no_worker_and_many_are_limited() {
        let count = |threads| workers(threads, || Ok(())).unwrap().len();
        assert_eq!([0, 1, 2, 64, 1000].map(count), [0, 0, 2, 64, 64]);
    }
}
