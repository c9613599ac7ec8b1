//! Writes the rows of one attempt at a task as parts, with the rules and messages of `brokerless.staging.parts`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use brokerless_core::{
    BatchWriter, Error, FIRST_OWN_PRODUCER_ID, HeadersBuffer, NewRecord, Partitioner, SourceFields,
};
use sha2::{Digest, Sha256};

use crate::error::TaskError;
use crate::row_fields::RowFields;
use crate::unsafe_rows::{UnsafeRow, UnsafeRows};
use crate::write_task::{Encoding, Part, Staging, WriteTask, Written};

/// The topic of the Raft layer. No write creates it.
const METADATA_TOPIC: &str = "__cluster_metadata";
const SORT: &str = "sort the rows of each task by partition and offset (repartition by partition, then \
                    sortWithinPartitions by both)";

/// A writer of one attempt at a task.
pub struct PartWriter {
    task: WriteTask,
    query: String,
    /// The number of fields of a row.
    width: usize,
    fields: RowFields,
    files: Files,
    topics: Vec<Topic>,
    /// The index of each topic in `topics`.
    by_name: HashMap<Vec<u8>, usize>,
    /// The number of rows so far.
    rows: u64,
    headers: HeadersBuffer,
    spare: Spare,
    random: u64,
}

struct Topic {
    name: String,
    among: String,
    partitioner: Partitioner,
    parts: BTreeMap<i32, OpenPart>,
}

struct OpenPart {
    part: Part,
    batches: BatchWriter,
    /// True if the part has rows that are not in its file yet.
    has_waiting: bool,
}

/// Memory of earlier batches. Only parts with waiting rows use it, because a task may write to many partitions.
#[derive(Default)]
struct Spare {
    memory: Vec<Vec<u8>>,
    bytes: usize,
}

/// The files of parts.
struct Files {
    /// The path of each part, without its number.
    prefix: String,
    count: usize,
    producer_id: i64,
}

impl PartWriter {
    /// Creates a writer of rows with fields of these names.
    ///
    /// `task` is the driver's description of the write. `query` is the streaming query whose epoch is written, or
    /// empty. A later commit of the query removes the staging directory if this write never commits. `unique` are 32
    /// hexadecimal digits that no other attempt has.
    pub fn new(
        task: &[u8],
        names: &[String],
        query: String,
        unique: &str,
    ) -> Result<Self, TaskError> {
        let task = WriteTask::parse(task)?;
        let random = u128::from_str_radix(unique, 16)
            .map_err(|error| TaskError::plain(format!("{unique:?}: {error}")))?;
        let parts = format!("{}/parts", task.staging.path);
        if !Path::new(&format!("{parts}/{}", task.staging.token)).exists() {
            return Err(TaskError::value(format!(
                "{} is not visible on {}: the driver and all executors must share the directory; or a broker was \
                 started on it, and deleted the unfinished write",
                task.staging.path,
                gethostname::gethostname().to_string_lossy()
            )));
        }
        if !query.is_empty() {
            claim(&parts, &query)?;
        }
        let own_ids = (i64::MAX - FIRST_OWN_PRODUCER_ID) as u64;
        let producer_id = match task.staging.encoding.has_producer() {
            true => FIRST_OWN_PRODUCER_ID + ((random >> 64) as u64 % own_ids) as i64,
            false => -1,
        };
        Ok(Self {
            width: names.len(),
            fields: RowFields::new(&task.columns, names),
            files: Files {
                prefix: format!("{parts}/{unique}"),
                count: 0,
                producer_id,
            },
            topics: Vec::new(),
            by_name: HashMap::new(),
            rows: 0,
            headers: HeadersBuffer::default(),
            spare: Spare::default(),
            random: random as u64,
            task,
            query,
        })
    }

    /// Writes a block of rows: see [`UnsafeRows`].
    pub fn write(&mut self, block: &[u8]) -> Result<(), TaskError> {
        self.check_nulls(block)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as i64);
        for row in UnsafeRows::new(block, self.width) {
            self.push(&row?, now)?;
            self.rows += 1;
        }
        self.write_out()
    }

    /// Returns the information for the commit, as JSON.
    pub fn finish(&self) -> Result<Vec<u8>, TaskError> {
        let parts = self.topics.iter().flat_map(|topic| topic.parts.values());
        let mut parts: Vec<_> = parts.map(|open| &open.part).collect();
        parts.sort_by_key(|part| (&part.topic, part.partition));
        let written = Written {
            query: &self.query,
            attempt: &self.task.attempt,
            parts,
        };
        serde_json::to_vec(&written).map_err(|error| TaskError::plain(error.to_string()))
    }

    /// Removes the parts, so that no commit appends them.
    pub fn abort(&self) {
        for number in 0..self.files.count {
            // The staging directory may be gone.
            let _ = fs::remove_file(self.files.path(number));
        }
    }

    /// Refuses rows without a topic. If rows keep their offsets and have a column `timestamp`, also refuses nulls in
    /// this column.
    fn check_nulls(&self, block: &[u8]) -> Result<(), TaskError> {
        let needs_topic = self.fields.has_topic();
        let needs_time = self.fields.has_timestamp() && self.task.staging.encoding.keep_offsets;
        let (mut topics, mut times) = (0, 0);
        for row in UnsafeRows::new(block, self.width) {
            if !needs_topic && !needs_time {
                break;
            }
            let row = row?;
            topics += u64::from(needs_topic && self.fields.topic(&row)?.is_none());
            times += u64::from(needs_time && self.fields.timestamp(&row)?.is_none());
        }
        if topics > 0 {
            return Err(TaskError::value(format!(
                "{topics} rows have a null in column topic: each row needs a topic"
            )));
        }
        if times > 0 {
            return Err(TaskError::value(format!(
                "{times} rows that keep their offsets have no timestamp, and would get the current time: give each its \
                 own, -1 for none, or leave the column out. Spark reads times beyond its range as null; Python and the \
                 command copy them unchanged"
            )));
        }
        Ok(())
    }

    fn push(&mut self, row: &UnsafeRow<'_>, now: i64) -> Result<(), TaskError> {
        let number = self.rows;
        let numbered = |error: Error| TaskError::value(format!("row {number}: {}", error.message));
        let index = self.topic_of(self.fields.topic(row)?)?;
        let given = self.fields.partition(row).map_err(numbered)?;
        let keeps_offsets = self.task.staging.encoding.keep_offsets;
        let plain = match keeps_offsets {
            true => None,
            false => self.fields.plain(row, now).map_err(numbered)?,
        };
        let key = self.fields.key(row).map_err(numbered)?;
        // A row that is not plain is checked before its partition.
        let mut checked = None;
        if plain.is_none() {
            let record = self.fields.record(row, now, &mut self.headers);
            let mut record = record.map_err(numbered)?;
            let mut source = None;
            if keeps_offsets {
                let (offset, fields) = self.fields.source(row).map_err(numbered)?;
                record.offset = offset;
                source = Some(fields);
            }
            checked = Some((record, source));
        }
        let Some(topic) = self.topics.get_mut(index) else {
            return Ok(()); // `topic_of` returns the place of a topic.
        };
        let partition = topic.partitioner.choose(given, key, row.size())?;
        let open = match topic.parts.entry(partition) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(room) => {
                let among = (topic.name.as_str(), topic.among.as_str());
                room.insert(self.files.create(among, partition, &self.task.staging)?)
            }
        };
        if !open.has_waiting {
            self.spare.give(&mut open.batches)?;
        }
        match (plain, checked) {
            (Some(plain), _) if open.batches.push_plain_row(&plain) => {}
            (_, Some((record, Some(source)))) => {
                open.keep(&record, source)?;
                open.batches.push_at(&record, source).map_err(numbered)?;
            }
            (_, Some((record, None))) => open.batches.push(record).map_err(numbered)?,
            (_, None) => {
                let record = self.fields.record(row, now, &mut self.headers);
                let record = record.map_err(numbered)?;
                open.batches.push(record).map_err(numbered)?;
            }
        }
        open.part.records += 1;
        open.has_waiting = true;
        Ok(())
    }

    /// Returns the index of a topic in `topics`. Rows without a topic go to the topic of the write.
    fn topic_of(&mut self, name: Option<&[u8]>) -> Result<usize, TaskError> {
        let staging = &self.task.staging;
        let name = match (name, &staging.topic) {
            (Some(name), _) => name,
            // All rows of a write go to its one topic, or each names its own.
            (None, Some(_)) if !self.topics.is_empty() => return Ok(0),
            (None, Some(topic)) => topic.as_bytes(),
            (None, None) => {
                return Err(TaskError::value(
                    "rows have no column topic, which they need unless the write has exactly one topic",
                ));
            }
        };
        if let Some(&index) = self.by_name.get(name) {
            return Ok(index);
        }
        let topic = std::str::from_utf8(name)
            .map_err(|_| TaskError::value("a topic's name is not UTF-8"))?
            .to_owned();
        let (partitions, among) = match (staging.partitions.get(&topic), staging.others) {
            (Some(partitions), _) => {
                let among = self.task.among.get(&topic).cloned().unwrap_or_default();
                (partitions.clone(), among)
            }
            // The commit checks the name of a new topic.
            (None, Some(others)) if topic != METADATA_TOPIC => {
                ((0..others).collect(), self.task.among_of_others.clone())
            }
            (None, _) => {
                return Err(TaskError::value(format!(
                    "rows cannot go to topic '{topic}': it does not exist, and this write does not create it; if a \
                     cluster has been started on the directory, create the topic there, and name it with its id"
                )));
            }
        };
        let index = self.topics.len();
        let seed = self.random.wrapping_add(index as u64);
        let batch_size = staging.encoding.batch_size as u64;
        self.topics.push(Topic {
            partitioner: Partitioner::new(&topic, partitions, batch_size, seed)?,
            name: topic,
            among,
            parts: BTreeMap::new(),
        });
        self.by_name.insert(name.to_vec(), index);
        Ok(index)
    }

    /// Appends the batches of each part to its file.
    fn write_out(&mut self) -> Result<(), TaskError> {
        for open in self
            .topics
            .iter_mut()
            .flat_map(|topic| topic.parts.values_mut())
        {
            if std::mem::take(&mut open.has_waiting) {
                let (batches, size) = open.batches.finish(Vec::new())?;
                // Opened each time: a task may write to more partitions than a process may have open files.
                File::options()
                    .append(true)
                    .open(&open.part.path)
                    .and_then(|mut file| file.write_all(batches.get(..size).unwrap_or_default()))
                    .map_err(|error| of_file(&error, &open.part.path, &self.task.staging))?;
                open.part.size += size as u64;
                self.spare.take(batches);
            }
        }
        Ok(())
    }
}

impl Spare {
    /// The maximum size of the kept memory, in bytes.
    const MOST: usize = 8 << 20;

    /// Gives memory to batches that have none.
    fn give(&mut self, batches: &mut BatchWriter) -> Result<(), TaskError> {
        if let Some(memory) = self.memory.pop() {
            self.bytes -= memory.len();
            batches.finish(memory)?;
        }
        Ok(())
    }

    fn take(&mut self, memory: Vec<u8>) {
        if self.bytes + memory.len() <= Self::MOST {
            self.bytes += memory.len();
            self.memory.push(memory);
        }
    }
}

impl OpenPart {
    /// Records the fields that a record keeps from its old log. Refuses offsets that do not rise.
    fn keep(&mut self, record: &NewRecord<'_>, source: SourceFields) -> Result<(), TaskError> {
        let part = &mut self.part;
        if record.offset <= part.last_offset {
            let log = format!("{}-{}", part.topic, part.partition);
            return Err(TaskError::value(match self.has_waiting {
                true => format!("offsets of {log} do not rise: {SORT}"),
                false => format!(
                    "offset {} of {log} after offset {}: {SORT}",
                    record.offset, part.last_offset
                ),
            }));
        }
        if part.first_offset < 0 {
            part.first_offset = record.offset;
        }
        part.last_offset = record.offset;
        part.leader_epoch = part.leader_epoch.max(source.leader_epoch.unwrap_or(-1));
        Ok(())
    }
}

impl Files {
    fn path(&self, number: usize) -> String {
        // Numbered: a topic's name may be too long for a file's name.
        format!("{}-{number}", self.prefix)
    }

    /// Creates the file of a part of a topic, given with the fingerprint of its partitions.
    fn create(
        &mut self,
        (topic, among): (&str, &str),
        partition: i32,
        staging: &Staging,
    ) -> Result<OpenPart, TaskError> {
        let path = self.path(self.count);
        File::create_new(&path).map_err(|error| of_file(&error, &path, staging))?;
        self.count += 1;
        let encoding: &Encoding = &staging.encoding;
        Ok(OpenPart {
            batches: encoding.batches(self.producer_id)?,
            has_waiting: false,
            part: Part {
                path,
                topic: topic.to_owned(),
                partition,
                among: among.to_owned(),
                size: 0,
                records: 0,
                producer_id: self.producer_id,
                first_offset: -1,
                last_offset: -1,
                leader_epoch: -1,
            },
        })
    }
}

/// Marks a staging directory as the query's: see `brokerless.staging.parts.claim`.
fn claim(parts: &str, query: &str) -> Result<(), TaskError> {
    let digest = Sha256::digest(query.as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("{parts}/query-{digits}");
    match File::create_new(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(TaskError::of_file(&error, &path))
        }
        _ => Ok(()),
    }
}

fn of_file(error: &io::Error, path: &str, staging: &Staging) -> TaskError {
    if error.kind() != io::ErrorKind::NotFound {
        return TaskError::of_file(error, path);
    }
    TaskError::value(format!(
        "{} was deleted: a broker was started meanwhile and deleted it, or the streaming query was started a second \
         time and continued without this streaming epoch, or the job was cancelled",
        staging.path
    ))
}
