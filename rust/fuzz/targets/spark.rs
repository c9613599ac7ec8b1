//! Fuzz targets of the data that Spark's JVM passes to the native code: tasks and filters as JSON, and rows in Spark's
//! own format.

use std::fs;
use std::path::{Path, PathBuf};

use brokerless_core::{Header, NextBatch, crc32c, next_batch};
use brokerless_jvm::{PartWriter, TaskReader, narrow};

/// The name of the directory of its files in an input.
const DIRECTORY: &[u8] = b"DIR";
/// The columns of a write, in the order in which rows have them. Only copies have the last three.
const COLUMNS: [&str; 9] = [
    "key",
    "value",
    "headers",
    "timestamp",
    "topic",
    "partition",
    "offset",
    "timestampType",
    "leaderEpoch",
];
const OF_COPIES: usize = 3;
/// A filter: values with an a or a b.
const CRITERIA: &[u8] = br#"[{"part":"value","texts":["YQ==","Yg=="],"is_whole":false}]"#;
/// The columns of a read: one of each kind.
const READ: [&str; 8] = [
    "key",
    "headers",
    "topic",
    "partition",
    "timestamp",
    "producerId",
    "leaderEpoch",
    "compression",
];
/// The plan of a read that decodes framed values, and keys that are text.
const DECODING: &str = r#"{"version": 1, "raises": false, "texts": ["\"string\""], "schemas": [{"schema_type": "AVRO",
    "text": 0, "references": []}], "parts": [{"part": "value", "form": "registry", "reader": 0, "answers": {"0":
    {"schema": 0, "id": 0}}, "no_id": "no {}", "no_guid": "no {}"}, {"part": "key", "form": "utf8"}]}"#;
/// The columns of a read that decodes.
const DECODED: [&str; 7] = [
    "key",
    "value",
    "valueBytes",
    "decodeError",
    "valueSchemaId",
    "keyDecodeError",
    "headers",
];

/// A directory that is removed at the end of an input.
struct Directory(PathBuf);

impl Directory {
    fn create() -> Self {
        let name = format!("brokerless-fuzz-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("parts")).unwrap();
        fs::write(path.join("parts/token"), b"").unwrap();
        Self(path)
    }

    /// The text, with the path of this directory.
    fn in_place(&self, text: &[u8]) -> Vec<u8> {
        let (mut placed, mut rest) = (Vec::new(), text);
        while let Some((first, after)) = rest.split_first() {
            if let Some(after) = rest.strip_prefix(DIRECTORY) {
                placed.extend(self.0.to_str().unwrap().bytes());
                rest = after;
            } else {
                placed.push(*first);
                rest = after;
            }
        }
        placed
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Filters, a task in the next line, and the `.log` that it reads after that. Narrowing a task twice has no further
/// effect, and a read ends.
pub(crate) fn task(data: &[u8]) {
    let mut parts = data.splitn(3, |&byte| byte == b'\n');
    let directory = Directory::create();
    let bounds = parts.next().unwrap_or_default();
    let task = directory.in_place(parts.next().unwrap_or_default());
    let log = directory.0.join("00000000000000000000.log");
    fs::write(&log, parts.next().unwrap_or_default()).unwrap();
    // Where the second batch of the seeds is, which ends with offset 3.
    let index = [3u32, 71].map(u32::to_be_bytes).concat();
    fs::write(log.with_extension("index"), index).unwrap();
    read(&task, &READ, &[]);
    read(&task, &["offset"], &[]);
    read(&task, &READ, CRITERIA);
    decode(&task);
    let tasks = [task.clone(), task];
    let Ok(narrowed) = narrow(&tasks, bounds) else {
        return;
    };
    assert_eq!(narrow(&narrowed, bounds).unwrap(), narrowed);
    for task in &narrowed {
        read(task, &["offset"], &[]);
    }
}

fn read(task: &[u8], columns: &[&str], criteria: &[u8]) {
    let columns: Vec<_> = columns.iter().map(|&name| name.to_owned()).collect();
    let Ok(mut reader) = TaskReader::new(task, &columns, &[], criteria) else {
        return;
    };
    while let Ok(Some(rows)) = reader.next_rows() {
        assert!(rows > 0);
        assert_eq!(reader.addresses().len(), 5 * columns.len());
    }
    reader.warnings();
}

fn decode(task: &[u8]) {
    let columns = DECODED.map(str::to_owned);
    let Ok(mut reader) = TaskReader::new(task, &columns, DECODING.as_bytes(), &[]) else {
        return;
    };
    while let Ok(Some(rows)) = reader.next_rows() {
        assert!(rows > 0);
        // Six of the columns are decoded, and none has columns in it.
        assert_eq!(reader.addresses().len(), 6 * 4 + 5);
    }
    reader.warnings();
}

/// The task of a write, which then writes a few rows: see [`rows`].
pub(crate) fn write_task(data: &[u8]) {
    let directory = Directory::create();
    write(
        &directory,
        &directory.in_place(data),
        include_bytes!("../seeds/rows/plain"),
    );
}

/// A block of rows. The checksum of the block selects the options with which they are written. Either the rows are
/// refused, or the parts have the same number of records, in sound batches. An abort leaves none of its files.
pub(crate) fn rows(data: &[u8]) {
    let choice = crc32c(data);
    let is = |bit: u32| choice >> bit & 1 != 0;
    let columns = &COLUMNS[..COLUMNS.len() - if is(0) { 0 } else { OF_COPIES }];
    let columns = columns.iter().filter(|&&name| is(1) || name != "topic");
    let codec = ["none", "snappy", "lz4", "zstd"][choice as usize >> 3 & 3];
    let task = serde_json::json!({
        "version": 1,
        "attempt": "1",
        "columns": columns.collect::<Vec<_>>(),
        "staging": {
            "path": "DIR",
            "token": "token",
            "topic": (!is(1)).then_some("t"),
            "partitions": {"t": [0, 1, 2], "gap": [1, 4]},
            "others": is(2).then_some(2),
            "encoding": {
                "compression": codec,
                "batch_size": 300,
                "idempotent": is(5),
                "transactional": is(6),
                "keep_offsets": is(0),
            },
        },
        "among": {"t": "3-0"},
        "among_of_others": "2-0",
    });
    let directory = Directory::create();
    write(
        &directory,
        &directory.in_place(task.to_string().as_bytes()),
        data,
    );
}

fn write(directory: &Directory, task: &[u8], block: &[u8]) {
    let unique = "0123456789abcdef0123456789abcdef";
    let names = COLUMNS.map(str::to_owned);
    let Ok(mut writer) = PartWriter::new(task, &names, "query".to_owned(), unique) else {
        return;
    };
    if writer.write(block).is_ok() {
        let written: serde_json::Value = serde_json::from_slice(&writer.finish().unwrap()).unwrap();
        let parts = written["parts"].as_array().unwrap();
        let records: u64 = parts.iter().map(check).sum();
        assert_eq!(records, count(block));
    }
    writer.abort();
    let left = fs::read_dir(directory.0.join("parts")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_str().unwrap().starts_with(unique))
    );
}

/// Checks the file of a part, and returns the number of its records.
fn check(part: &serde_json::Value) -> u64 {
    let log = fs::read(Path::new(part["path"].as_str().unwrap())).unwrap();
    assert_eq!(part["size"], log.len());
    let (mut at, mut records) = (0, 0);
    // Without offsets of their own, the batches get theirs when they are appended.
    let keeps_offsets = part["first_offset"] != -1;
    let mut last: Option<Header> = None;
    while let NextBatch::Batch(header, entry) = next_batch(&log[at..], at as u64).unwrap() {
        header.check_crc(entry).unwrap();
        let follows = last.is_none_or(|last| last.last_offset() < header.base_offset);
        assert!(follows || !keeps_offsets);
        records += header.records_count.unwrap() as u64;
        at += header.size();
        last = Some(header);
    }
    assert_eq!((at, &part["records"]), (log.len(), &records.into()));
    records
}

/// Returns the number of rows in a block, in which each row follows its size.
fn count(mut block: &[u8]) -> u64 {
    let mut rows = 0;
    while let Some((size, rest)) = block.split_first_chunk() {
        block = &rest[u64::from_ne_bytes(*size) as usize..];
        rows += 1;
    }
    rows
}
