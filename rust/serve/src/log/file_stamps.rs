//! Stamps of files, which show whether a cached partition is still current. A query to the directory would take a
//! hundred times longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::base::directory::FileStamp;
use crate::base::sync::lock;

impl FileStamp {
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

/// Files that many partitions share. They are checked together for all these partitions.
#[derive(Debug)]
pub(crate) struct SharedFiles {
    files: Vec<FileStamp>,
    /// The time of the last check, and whether the files were unchanged then.
    looked: Mutex<(Instant, bool)>,
}

/// All such sets of files, by the first file of each.
#[derive(Debug, Default)]
pub(crate) struct SharedFileSets(Mutex<HashMap<String, Arc<SharedFiles>>>);

impl SharedFileSets {
    /// Returns the set of these files with these stamps; None if there are no files.
    pub(crate) fn of(&self, files: Vec<FileStamp>) -> Option<Arc<SharedFiles>> {
        let first = files.first()?.path.clone();
        let mut sets = lock(&self.0);
        if let Some(known) = sets.get(&first).filter(|known| known.files == files) {
            return Some(Arc::clone(known));
        }
        let set = Arc::new(SharedFiles {
            files,
            looked: Mutex::new((Instant::now(), true)),
        });
        sets.insert(first, Arc::clone(&set));
        Some(set)
    }
}

/// The files that a partition depends on.
#[derive(Debug, Clone)]
pub(crate) struct Dependencies {
    pub(crate) own: Vec<FileStamp>,
    pub(crate) shared: Option<Arc<SharedFiles>>,
}

/// The time for which unchanged files are trusted. The time is short because a broker's lock disappears with its
/// process, and no file changes then.
const TRUSTED: Duration = Duration::from_secs(5);
/// The time for which a partition in an object store is trusted, where stamps do not show changes.
const TRUSTED_REMOTE: Duration = Duration::from_secs(60);

impl Dependencies {
    /// Returns the time for which unchanged files prove that nothing has changed.
    pub(crate) fn trusted(&self) -> Duration {
        match self.own.is_empty() {
            true => TRUSTED_REMOTE,
            false => TRUSTED,
        }
    }

    /// Returns true if all files are unchanged. For shared files, the last check may be up to `fresh` old.
    pub(crate) fn are_same(&self, fresh: Duration) -> bool {
        let is_shared_same = self.shared.as_ref().is_none_or(|shared| {
            let mut looked = lock(&shared.looked);
            if looked.0.elapsed() >= fresh {
                *looked = (Instant::now(), shared.files.iter().all(FileStamp::is_same));
            }
            looked.1
        });
        is_shared_same && self.own.iter().all(FileStamp::is_same)
    }
}
