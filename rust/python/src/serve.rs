//! `Server`: Kafka's protocol in front of a Python object that represents a directory.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use brokerless_serve::{
    Aborted, Bytes, Commit, Damage, Directory, FileStamp, KnownGroup, Limits, Options, Partition,
    PartitionLookup, RecordView, Refusal, ResponseError, TimedOffset, Tls, Topic, Topics, Uuid,
};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::base::error::exception;

/// A running server.
#[pyclass(module = "brokerless._native")]
pub(crate) struct Server(brokerless_serve::Server);

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (
        directory, listen, *, node_id, advertised = None, commits = None, tls = None, users = None, read_log = None,
        as_v2 = false, only_committed = false, max_connections = None, max_connections_per_address = None,
        max_memory_bytes = None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        directory: Py<PyAny>,
        listen: String,
        node_id: i32,
        advertised: Option<String>,
        commits: Option<PathBuf>,
        tls: Option<(PathBuf, PathBuf)>,
        users: Option<Vec<(String, String)>>,
        read_log: Option<PathBuf>,
        as_v2: bool,
        only_committed: bool,
        max_connections: Option<usize>,
        max_connections_per_address: Option<usize>,
        max_memory_bytes: Option<usize>,
    ) -> PyResult<Self> {
        let defaults = Limits::default();
        let options = Options {
            listen,
            node_id,
            advertised,
            commits,
            tls: tls.map(|(certificate, key)| Tls { certificate, key }),
            users,
            read_log,
            view: RecordView {
                as_v2,
                only_committed,
            },
            limits: Limits {
                connections: max_connections.unwrap_or(defaults.connections),
                connections_of_address: max_connections_per_address
                    .unwrap_or(defaults.connections_of_address),
                memory_bytes: max_memory_bytes.unwrap_or(defaults.memory_bytes),
                ..defaults
            },
        };
        let directory = Arc::new(Answers {
            directory,
            topics: Mutex::default(),
        });
        py.detach(|| brokerless_serve::Server::start(directory, options))
            .map(Self)
            .map_err(|error| PyOSError::new_err(error.to_string()))
    }

    #[getter]
    fn port(&self) -> u16 {
        self.0.address().port()
    }

    #[getter]
    fn host(&self) -> String {
        self.0.address().ip().to_string()
    }

    fn counts(&self) -> Vec<CountTuple> {
        let all = self.0.counts().into_iter();
        all.map(|one| (one.name, one.help, one.is_gauge, one.label, one.value))
            .collect()
    }

    fn commits(&self, py: Python<'_>) -> Vec<CommitTuple> {
        let commits = py.detach(|| self.0.commits()).into_iter();
        let tuples = commits.map(|(group, topic, partition, commit)| {
            let metadata = commit.metadata.to_string();
            let numbers = (commit.offset, commit.leader_epoch);
            (group, topic, partition, numbers.0, numbers.1, metadata)
        });
        tuples.collect()
    }

    fn stop(&mut self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}

/// The Python object, `serving.directory.ServedDirectory`.
struct Answers {
    directory: Py<PyAny>,
    /// The last listing of topics, with its number.
    topics: Mutex<Option<(u64, Arc<Topics>)>>,
}

impl Answers {
    fn ask<T>(
        &self,
        ask: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Result<T, Refusal> {
        Python::attach(|py| {
            ask(self.directory.bind(py)).map_err(|error| {
                let kind = error
                    .get_type(py)
                    .name()
                    .map(|name| name.to_string())
                    .unwrap_or_default();
                // The error names the place, so the directory reports it in its own words.
                let is_damage = matches!(
                    kind.as_str(),
                    "CorruptRecordError" | "UnsupportedFormatError"
                );
                let is_reported = is_damage
                    && (self.directory.bind(py))
                        .call_method1("damaged", (error.value(py),))
                        .is_ok();
                let refused = match kind.as_str() {
                    _ if is_damage => ResponseError::CorruptMessage,
                    // The topic has disappeared since it was listed.
                    "KeyError" => ResponseError::UnknownTopicOrPartition,
                    _ if error.is_instance_of::<PyOSError>(py) => ResponseError::KafkaStorageError,
                    _ => ResponseError::UnknownServerError,
                };
                Refusal {
                    is_reported,
                    ..Refusal::new(refused, error.to_string())
                }
            })
        })
    }
}

type TopicTuple = (String, Option<[u8; 16]>, Vec<i32>, bool);

type CommitTuple = (String, String, i32, i64, i32, String);

type CountTuple = (
    &'static str,
    &'static str,
    bool,
    Option<(&'static str, String)>,
    u64,
);

type GroupTuple = (String, String, Vec<(String, i32)>);

type StatusTuple = (String, i64, i64);

type PartitionTuple = (
    String,
    Vec<i64>,
    Vec<(i64, String)>,
    u64,
    (i64, i64, i64),
    Vec<(i32, i64)>,
    Vec<(i64, i64, i64)>,
);

fn listed(found: Vec<TopicTuple>) -> Arc<Topics> {
    let topics = found.into_iter();
    let topics = topics.map(|(name, id, partitions, is_internal)| Topic {
        name,
        id: id.map_or_else(Uuid::nil, Uuid::from_bytes),
        partitions,
        is_internal,
    });
    Arc::new(Topics::new(topics.collect()))
}

impl Directory for Answers {
    fn cluster_id(&self) -> String {
        self.ask(|directory| directory.getattr("cluster_id")?.extract())
            .unwrap_or_default()
    }

    fn topics(&self) -> Result<Arc<Topics>, Refusal> {
        let known = self.topics.lock().ok().and_then(|known| known.clone());
        let number = known.as_ref().map(|(number, _)| *number);
        let found: Option<(u64, Vec<TopicTuple>)> =
            self.ask(|directory| directory.call_method1("topics", (number,))?.extract())?;
        let listed = match (found, known) {
            (Some((number, topics)), _) => (number, listed(topics)),
            (None, Some(known)) => known,
            (None, None) => return Err(Refusal::new(ResponseError::UnknownServerError, "topics")),
        };
        let topics = Arc::clone(&listed.1);
        if let Ok(mut known) = self.topics.lock() {
            *known = Some(listed);
        }
        Ok(topics)
    }

    fn partition(
        &self,
        topic: &str,
        partition: i32,
        known: Option<u64>,
    ) -> Result<PartitionLookup, Refusal> {
        let (state, own, shared, found): (
            u64,
            Vec<StatusTuple>,
            Vec<StatusTuple>,
            Option<PartitionTuple>,
        ) = self.ask(|directory| {
            directory
                .call_method1("partition", (topic, partition, known))?
                .extract()
        })?;
        let watched = |files: Vec<StatusTuple>| {
            files
                .into_iter()
                .map(|(path, modified, size)| FileStamp {
                    path,
                    modified,
                    size,
                })
                .collect()
        };
        let (own, shared) = (watched(own), watched(shared));
        let Some((path, base_offsets, other_names, end_position, offsets, epochs, aborted)) = found
        else {
            return Ok(PartitionLookup {
                partition: None,
                own,
                shared,
            });
        };
        let (log_start_offset, high_watermark, last_stable_offset) = offsets;
        let partition = Partition {
            state,
            path,
            base_offsets,
            other_names,
            end_position,
            log_start_offset,
            high_watermark,
            last_stable_offset,
            epochs,
            aborted: aborted
                .into_iter()
                .map(|(producer_id, first_offset, last_offset)| Aborted {
                    producer_id,
                    first_offset,
                    last_offset,
                })
                .collect(),
        };
        Ok(PartitionLookup {
            partition: Some(partition),
            own,
            shared,
        })
    }

    fn offset_for_time(
        &self,
        topic: &str,
        partition: i32,
        timestamp: i64,
        end: i64,
    ) -> Result<Option<TimedOffset>, Refusal> {
        let (offset, timestamp, leader_epoch): (i64, i64, i32) = self.ask(|directory| {
            directory
                .call_method1("offset_for_time", (topic, partition, timestamp, end))?
                .extract()
        })?;
        Ok((offset >= 0).then_some(TimedOffset {
            offset,
            timestamp,
            leader_epoch,
        }))
    }

    fn leader_epochs(&self, topic: &str) -> Result<Vec<i32>, Refusal> {
        self.ask(|directory| directory.call_method1("leader_epochs", (topic,))?.extract())
    }

    fn groups(&self) -> Result<Vec<KnownGroup>, Refusal> {
        let found: Vec<GroupTuple> =
            self.ask(|directory| directory.call_method0("groups")?.extract())?;
        Ok(found
            .into_iter()
            .map(|(name, protocol_type, pending)| KnownGroup {
                name,
                protocol_type,
                pending,
            })
            .collect())
    }

    fn commits(&self) -> Result<Vec<(String, String, i32, Commit)>, Refusal> {
        let found: Vec<CommitTuple> =
            self.ask(|directory| directory.call_method0("commits")?.extract())?;
        Ok(found
            .into_iter()
            .map(
                |(group, topic, partition, offset, leader_epoch, metadata)| {
                    let commit = Commit {
                        offset,
                        leader_epoch,
                        metadata: metadata.into(),
                    };
                    (group, topic, partition, commit)
                },
            )
            .collect())
    }

    fn configs(&self, kind: &str, name: &str) -> Result<Vec<(String, String)>, Refusal> {
        self.ask(|directory| directory.call_method1("configs", (kind, name))?.extract())
    }

    fn problem(&self, text: &str) {
        // It only informs the user.
        let _ = self.ask(|directory| directory.call_method1("problem", (text,)).map(drop));
    }

    fn damaged(&self, damage: &Damage) {
        // It only informs the user.
        let _ = self.ask(|directory| {
            let error = exception(damage.error.clone());
            let arguments = (error.value(directory.py()), damage.path.as_str());
            directory.call_method1("damaged", arguments).map(drop)
        });
    }

    fn refused(&self, topic: &str) {
        // It only informs the user.
        let _ = self.ask(|directory| directory.call_method1("refused", (topic,)).map(drop));
    }

    fn size(&self, path: &str) -> Result<u64, Refusal> {
        self.ask(|directory| directory.call_method1("size", (path,))?.extract())
    }

    fn read(&self, path: &str, position: u64, length: usize) -> Result<Bytes, Refusal> {
        self.ask(|directory| {
            let found = directory.call_method1("read", (path, position, length))?;
            Ok(Bytes::copy_from_slice(found.extract::<&[u8]>()?))
        })
    }
}
