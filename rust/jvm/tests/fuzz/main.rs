//! Fuzzing as an ordinary test: the seeds of `rust/fuzz`, and mutations of them for a minute. The same seed gives the
//! same mutations. `FUZZ_SECONDS` and `FUZZ_SEED` change the duration and the seed. The test is in this crate because
//! some targets test this crate.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod mutate;
#[path = "../../../fuzz/targets/mod.rs"]
mod targets;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use mutate::{Random, mutated};
use peak_alloc::PeakAlloc;
use targets::{MAX_INPUT, MAX_MEMORY, TARGETS, Target};

/// Measures the memory that Rust allocates. The C contexts of the codecs are not measured, because they have a constant
/// size and never allocate a window.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Names and contents of the seeds.
fn seeds(target: &Target) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/seeds")
        .join(target.seeds);
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (
            path.file_name().unwrap().to_string_lossy().into_owned(),
            std::fs::read(path).unwrap(),
        )
    };
    let mut seeds: Vec<_> = std::fs::read_dir(directory).unwrap().map(read).collect();
    // Directory order differs between machines.
    seeds.sort();
    seeds
}

/// Runs one input and returns its peak memory. A failure names the file of the input that reproduces it.
fn run(target: &Target, input: &[u8], origin: &str) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = std::panic::catch_unwind(|| (target.run)(input));
    let peak = MEMORY.peak_usage().saturating_sub(before);
    if result.is_err() || peak > MAX_MEMORY {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.input", target.name));
        std::fs::write(&path, input).unwrap();
        panic!(
            "{} failed ({origin}), peak memory {peak}; the input is in {}",
            target.name,
            path.display()
        );
    }
    peak
}

/// Counts the inputs for docs/reliability.md, as `tests/support/tally.py` does.
fn tally(target: &Target, count: u64) {
    if let Ok(path) = std::env::var("BROKERLESS_TALLY") {
        let line = serde_json::json!({"what": "input", "of": target.name, "times": count, "test": "rust/jvm/tests/fuzz"});
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

#[test]
fn no_bytes_make_it_panic_or_take_more_memory_than_the_cap() {
    let seconds = variable("FUZZ_SECONDS", 56);
    let seed = variable("FUZZ_SEED", 20_240_607);
    for (number, target) in (1..).zip(&TARGETS) {
        let named = seeds(target);
        let mut peak = 0;
        for (name, input) in &named {
            peak = peak.max(run(target, input, &format!("seed {name}")));
        }
        // The largest seeds expand a thousandfold. They run once, for their memory, and are too slow to mutate.
        let small = named
            .into_iter()
            .filter(|(name, _)| !name.ends_with("-largest"));
        let seeds: Vec<_> = small.map(|(_, input)| input).collect();
        let mut random = Random(seed + number);
        let end = Instant::now() + Duration::from_secs(seconds) / TARGETS.len() as u32;
        let mut count = 0u64;
        while Instant::now() < end {
            let input = mutated(&mut random, &seeds, MAX_INPUT);
            peak = peak.max(run(
                target,
                &input,
                &format!("FUZZ_SEED={seed}, input {count}"),
            ));
            count += 1;
        }
        println!(
            "{}: {count} inputs, at most {peak} bytes of memory",
            target.name
        );
        tally(target, count);
    }
}
