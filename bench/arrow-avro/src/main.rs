//! For each line on stdin, one pass over framed values, whose id is 1: to record batches of Arrow. Prints the seconds it
//! took. The arguments are the file of the schema, and that of the values one after the other.

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};

/// The rows of a batch.
const ROWS: usize = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [schema, values] = paths.as_slice() else {
        return Err("usage: brokerless-bench-arrow-avro SCHEMA VALUES".into());
    };
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    let id = Fingerprint::load_fingerprint_id(1_u32.to_be());
    store.set(id, AvroSchema::new(std::fs::read_to_string(schema)?))?;
    let values = std::fs::read(values)?;
    for line in stdin().lock().lines() {
        line?;
        let start = Instant::now();
        let mut decoder = ReaderBuilder::new()
            .with_batch_size(ROWS)
            .with_writer_schema_store(store.clone())
            .with_active_fingerprint(id)
            .build_decoder()?;
        let mut at = 0;
        while let Some(rest) = values.get(at..).filter(|rest| !rest.is_empty()) {
            at += decoder.decode(rest)?;
            black_box(decoder.flush()?);
        }
        let took = start.elapsed().as_secs_f64();
        println!("{took}");
        stdout().flush()?;
    }
    Ok(())
}
