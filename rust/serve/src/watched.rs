//! Files that tell by their status whether what was read is still so. To ask a directory takes a hundred times longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::partitions::lock;

/// A file, or a directory, as it was when something was read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The path.
    pub path: String,
    /// The modification time in ns; -1: there was no such file.
    pub modified: i64,
    /// The size; -1: there was no such file.
    pub size: i64,
}

impl Watched {
    fn is_same(&self) -> bool {
        let (modified, size) = std::fs::metadata(&self.path).map_or((-1, -1), |status| {
            let modified = status
                .modified()
                .ok()
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .and_then(|since| i64::try_from(since.as_nanos()).ok());
            let size = i64::try_from(status.len()).unwrap_or(i64::MAX);
            (modified.unwrap_or(0), size)
        });
        (modified, size) == (self.modified, self.size)
    }
}

/// Files that many partitions have in common: they are looked at for all of them at once.
#[derive(Debug)]
pub(crate) struct Group {
    files: Vec<Watched>,
    /// When they were looked at, and whether they were the same.
    looked: Mutex<(Instant, bool)>,
}

/// The groups, by their first file.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<String, Arc<Group>>>);

impl Groups {
    /// Returns the group with these files as they are here; None: there are none.
    pub(crate) fn of(&self, files: Vec<Watched>) -> Option<Arc<Group>> {
        let first = files.first()?.path.clone();
        let mut groups = lock(&self.0);
        if let Some(known) = groups.get(&first).filter(|known| known.files == files) {
            return Some(Arc::clone(known));
        }
        let group = Arc::new(Group {
            files,
            looked: Mutex::new((Instant::now(), true)),
        });
        groups.insert(first, Arc::clone(&group));
        Some(group)
    }
}

/// What a partition depends on.
#[derive(Debug, Clone)]
pub(crate) struct Dependencies {
    pub(crate) own: Vec<Watched>,
    pub(crate) group: Option<Arc<Group>>,
}

/// A broker's lock is gone with its process, which changes no file.
const TRUSTED: Duration = Duration::from_secs(5);
/// Nothing tells when an object store has changed.
const TRUSTED_REMOTE: Duration = Duration::from_secs(60);

impl Dependencies {
    /// How long files are enough to tell that nothing has changed.
    pub(crate) fn trusted(&self) -> Duration {
        match self.own.is_empty() {
            true => TRUSTED_REMOTE,
            false => TRUSTED,
        }
    }

    /// Whether all files are as they were; those of the group at most `fresh` ago.
    pub(crate) fn are_same(&self, fresh: Duration) -> bool {
        let is_group_same = self.group.as_ref().is_none_or(|group| {
            let mut looked = lock(&group.looked);
            if looked.0.elapsed() >= fresh {
                *looked = (Instant::now(), group.files.iter().all(Watched::is_same));
            }
            looked.1
        });
        is_group_same && self.own.iter().all(Watched::is_same)
    }
}
