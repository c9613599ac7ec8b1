//! What groups have committed: in the directory before, and to this server since.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kafka_protocol::ResponseError;

use crate::base::directory::{Commit, Directory, Refusal};
use crate::base::memory::{Memory, Share};
use crate::base::sync::lock;

/// The memory of a commit, besides what clients wrote.
pub(super) const OF_COMMIT: usize = 256;

pub(crate) type OfGroup = BTreeMap<(String, i32), Commit>;

/// What is known of a group besides its members.
#[derive(Debug, Default)]
struct Kept {
    protocol_type: String,
    commits: OfGroup,
    /// Those of them that were committed to this server, or an earlier one with the same file.
    own: BTreeSet<(String, i32)>,
    /// Partitions whose offsets are in a transaction that never ends here.
    pending: BTreeSet<(String, i32)>,
}

type Groups = BTreeMap<String, Kept>;

/// The commits of all groups.
pub(crate) struct Commits {
    known: Mutex<Option<Groups>>,
    file: Option<PathBuf>,
    share: Mutex<Share>,
    /// Held as long as this server keeps commits in the file.
    _lock: Option<fs::File>,
}

impl Commits {
    /// `file` keeps what is committed here; None: it is forgotten when the server stops.
    ///
    /// # Errors
    ///
    /// The file cannot be read, its directory is not there, or another server keeps its commits there.
    pub(crate) fn new(file: Option<PathBuf>, memory: &Arc<Memory>) -> io::Result<Self> {
        let lock = file.as_deref().map(locked).transpose()?;
        file.as_deref().map(read).transpose()?;
        Ok(Self {
            _lock: lock,
            known: Mutex::default(),
            file,
            share: Mutex::new(memory.share()),
        })
    }

    /// Calls `work` with the commits of all groups. The first call reads the directory's, and those of the file.
    fn with<T>(
        &self,
        directory: &dyn Directory,
        work: impl FnOnce(&mut Groups) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut known = lock(&self.known);
        let all = match &mut *known {
            Some(all) => all,
            None => {
                let mut all = Groups::new();
                for group in directory.groups()? {
                    let kept = all.entry(group.name).or_default();
                    kept.protocol_type = group.protocol_type;
                    kept.pending = group.pending.into_iter().collect();
                }
                let seeded = directory.commits()?;
                let kept = self.file.as_deref().map_or_else(|| Ok(Vec::new()), read);
                let kept = kept.map_err(|error| {
                    Refusal::new(ResponseError::CoordinatorLoadInProgress, error.to_string())
                })?;
                for (group, topic, partition, commit) in seeded {
                    let of_group = all.entry(group).or_default();
                    of_group.commits.insert((topic, partition), commit);
                }
                for (group, topic, partition, commit) in kept {
                    let of_group = all.entry(group).or_default();
                    of_group.own.insert((topic.clone(), partition));
                    of_group.commits.insert((topic, partition), commit);
                }
                known.insert(all)
            }
        };
        work(all)
    }

    /// The names of all groups, and the types of their protocols.
    pub(crate) fn groups(
        &self,
        directory: &dyn Directory,
    ) -> Result<BTreeMap<String, String>, Refusal> {
        self.with(directory, |all| {
            Ok(all
                .iter()
                .map(|(name, kept)| (name.clone(), kept.protocol_type.clone()))
                .collect())
        })
    }

    /// Whether there is a group.
    pub(crate) fn has(&self, directory: &dyn Directory, group: &str) -> Result<bool, Refusal> {
        self.with(directory, |all| Ok(all.contains_key(group)))
    }

    /// The commits of a group, and its partitions whose offsets are in a transaction.
    pub(crate) fn of_group(
        &self,
        directory: &dyn Directory,
        group: &str,
    ) -> Result<(OfGroup, BTreeSet<(String, i32)>), Refusal> {
        self.with(directory, |all| {
            Ok(all
                .get(group)
                .map(|kept| (kept.commits.clone(), kept.pending.clone()))
                .unwrap_or_default())
        })
    }

    /// Keeps commits of a group, durably if there is a file. `protocol_type` is that of its members, if it has any.
    pub(crate) fn commit(
        &self,
        directory: &dyn Directory,
        group: &str,
        protocol_type: Option<String>,
        commits: Vec<(String, i32, Commit)>,
    ) -> Result<(), Refusal> {
        self.with(directory, |all| {
            let known = all.get(group).map(|kept| &kept.commits);
            let is_new = |topic: &String, partition: i32| {
                known.is_none_or(|known| !known.contains_key(&(topic.clone(), partition)))
            };
            let more = commits
                .iter()
                .filter(|(topic, partition, _)| is_new(topic, *partition))
                .map(|(topic, _, commit)| OF_COMMIT + topic.len() + commit.metadata.len());
            if !lock(&self.share).grow(more.sum()) {
                return Err(Refusal::new(
                    ResponseError::CoordinatorNotAvailable,
                    "commits take all memory that they may take",
                ));
            }
            let kept = all.entry(group.to_owned()).or_default();
            if let Some(protocol_type) = protocol_type {
                kept.protocol_type = protocol_type;
            }
            for (topic, partition, commit) in commits {
                kept.own.insert((topic.clone(), partition));
                kept.commits.insert((topic, partition), commit);
            }
            match &self.file {
                None => Ok(()),
                Some(file) => write(file, all).map_err(|error| {
                    Refusal::new(
                        ResponseError::CoordinatorNotAvailable,
                        format!("{}: {error}", file.display()),
                    )
                }),
            }
        })
    }
}

type Line = (String, String, i32, Commit);

/// Reads the file: a line for each commit, with tabs between its fields.
fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    text.lines()
        .enumerate()
        .map(|(number, line)| {
            parsed(line).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{}: line {} is no commit", path.display(), number + 1),
                )
            })
        })
        .collect()
}

fn parsed(line: &str) -> Option<Line> {
    let mut fields = line.split('\t');
    let mut text = || unescaped(fields.next()?);
    let (group, topic) = (text()?, text()?);
    let partition = text()?.parse().ok()?;
    let offset = text()?.parse().ok()?;
    let leader_epoch = text()?.parse().ok()?;
    let metadata = text()?;
    let commit = Commit {
        offset,
        leader_epoch,
        metadata,
    };
    fields
        .next()
        .is_none()
        .then_some((group, topic, partition, commit))
}

/// Replaces the file as a whole: a reader finds the old lines or the new ones.
fn write(path: &Path, all: &Groups) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = io::BufWriter::new(fs::File::create(&new)?);
    for (group, kept) in all {
        let own = kept.commits.iter();
        for ((topic, partition), commit) in own.filter(|(place, _)| kept.own.contains(*place)) {
            writeln!(
                file,
                "{}\t{}\t{partition}\t{}\t{}\t{}",
                escaped(group),
                escaped(topic),
                commit.offset,
                commit.leader_epoch,
                escaped(&commit.metadata)
            )?;
        }
    }
    file.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()?;
    fs::rename(&new, path)?;
    fs::File::open(parent(path))?.sync_all()
}

/// Locks the file, by one beside it: the file itself is replaced.
fn locked(path: &Path) -> io::Result<fs::File> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let file = fs::File::options()
        .create(true)
        .append(true)
        .open(path.with_file_name(name))
        .map_err(|error| io::Error::new(error.kind(), named(&error)))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            named(&"another server keeps its commits there"),
        )),
        Err(fs::TryLockError::Error(error)) => Err(io::Error::new(error.kind(), named(&error))),
    }
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent();
    let named = parent.filter(|parent| !parent.as_os_str().is_empty());
    named.unwrap_or(Path::new("."))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\t', "\\t")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn unescaped(text: &str) -> Option<String> {
    let mut found = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        found.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(found)
}
