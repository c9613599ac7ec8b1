//! The commits of groups: the commits in the directory, and the commits made to this server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;

use crate::base::directory::{Commit, Directory, Refusal};
use crate::base::memory::{Memory, Share};
use crate::base::sync::lock;
use crate::groups::journal::{self, Journal};

/// The memory of a commit, of a topic of a group with its name, and of a group, besides the bytes from clients.
pub(super) const OF_COMMIT: usize = 256;
const OF_TOPIC: usize = 1024;
const OF_GROUP: usize = 1024;

/// Commits by topic and partition.
pub(super) type ByPartition = BTreeMap<(StrBytes, i32), Commit>;
/// The commits for the partitions of a topic, each with an error.
pub(super) type OfTopic = (StrBytes, Vec<(i32, Commit, i16)>);

/// The state of a group besides its members.
#[derive(Debug, Default)]
struct Kept {
    protocol_type: StrBytes,
    topics: BTreeMap<StrBytes, BTreeMap<i32, Entry>>,
    /// Partitions with offsets in an open transaction, which never ends on this server.
    pending: BTreeSet<(String, i32)>,
}

#[derive(Debug, Default)]
struct Entry {
    commit: Commit,
    /// True if the group committed to this server, or to an earlier server with the same file.
    is_own: bool,
}

impl Entry {
    /// The memory that this state takes from the clients' share. Commits from the directory take nothing from that
    /// share.
    fn size(&self) -> usize {
        match self.is_own {
            true => size(&self.commit),
            false => 0,
        }
    }
}

fn size(commit: &Commit) -> usize {
    OF_COMMIT + commit.metadata.len()
}

/// The commits of all groups.
pub(crate) struct Commits {
    known: Mutex<Known>,
    share: Share,
    journal: Option<Journal>,
}

#[derive(Default)]
struct Known {
    groups: BTreeMap<StrBytes, Kept>,
    /// True if the groups of the directory have been read.
    is_loaded: bool,
}

impl Known {
    fn entry(&mut self, group: String, topic: String, partition: i32) -> &mut Entry {
        let kept = self.groups.entry(group.into()).or_default();
        let of_topic = kept.topics.entry(topic.into()).or_default();
        of_topic.entry(partition).or_default()
    }

    /// The memory that a topic of a group and the group itself take, as far as they are new.
    fn size_of_new(&self, group: &StrBytes, topic: &StrBytes) -> usize {
        match self.groups.get(group) {
            None => OF_GROUP + group.len() + OF_TOPIC,
            Some(kept) if kept.topics.contains_key(topic) => 0,
            Some(_) => OF_TOPIC,
        }
    }
}

impl Commits {
    /// `file` is the file for commits made to this server; with None, these commits are lost when the server stops.
    ///
    /// # Errors
    ///
    /// The file cannot be used: see [`Journal::open`].
    pub(crate) fn new(file: Option<&Path>, memory: &Arc<Memory>) -> io::Result<Self> {
        let (mut known, share) = (Known::default(), memory.share());
        let journal = file.map(|file| {
            Journal::open(file, |group, topic, partition, commit| {
                let names = (group.clone().into(), topic.clone().into());
                share.force(known.size_of_new(&names.0, &names.1));
                let entry = known.entry(group, topic, partition);
                let before = entry.size();
                *entry = Entry {
                    commit,
                    is_own: true,
                };
                share.force(entry.size());
                share.give_back(before);
            })
        });
        let journal = journal.transpose()?;
        Ok(Self {
            known: Mutex::new(known),
            share,
            journal,
        })
    }

    /// Calls `work` with the commits of all groups. The first call reads the commits in the directory.
    fn with<T>(
        &self,
        directory: &dyn Directory,
        work: impl FnOnce(&mut Known) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut known = lock(&self.known);
        if !known.is_loaded {
            for group in directory.groups()? {
                let kept = known.groups.entry(group.name.into()).or_default();
                kept.protocol_type = group.protocol_type.into();
                kept.pending = group.pending.into_iter().collect();
            }
            for (group, topic, partition, commit) in directory.commits()? {
                let entry = known.entry(group, topic, partition);
                if !entry.is_own {
                    entry.commit = commit;
                }
            }
            known.is_loaded = true;
        }
        work(&mut known)
    }

    /// The names of all groups, and the types of their protocols. `share` takes the memory of a reply with them.
    pub(super) fn groups(
        &self,
        directory: &dyn Directory,
        share: &Share,
    ) -> Result<Vec<(StrBytes, StrBytes)>, Refusal> {
        self.with(directory, |known| {
            let sizes = known
                .groups
                .iter()
                .map(|(name, kept)| OF_GROUP + name.len() + kept.protocol_type.len());
            if !share.grow(sizes.sum()) {
                return Err(Refusal::no_memory());
            }
            let groups = known.groups.iter();
            Ok(groups
                .map(|(name, kept)| (name.clone(), kept.protocol_type.clone()))
                .collect())
        })
    }

    /// The type of a group's protocol; None if there is no such group.
    pub(super) fn protocol_type(
        &self,
        directory: &dyn Directory,
        group: &StrBytes,
    ) -> Result<Option<StrBytes>, Refusal> {
        self.with(directory, |known| {
            let kept = known.groups.get(group);
            Ok(kept.map(|kept| kept.protocol_type.clone()))
        })
    }

    /// Returns the commits made to this server, or to an earlier server with the same file: group, topic, partition.
    pub(crate) fn own(&self) -> Vec<(String, String, i32, Commit)> {
        let known = lock(&self.known);
        let groups = known.groups.iter();
        let topics = groups.flat_map(|(group, kept)| {
            let topics = kept.topics.iter();
            topics.map(move |(topic, entries)| (group, topic, entries))
        });
        let entries = topics.flat_map(|(group, topic, entries)| {
            let own = entries.iter().filter(|(_, entry)| entry.is_own);
            own.map(move |(partition, entry)| {
                let names = (group.to_string(), topic.to_string());
                (names.0, names.1, *partition, entry.commit.clone())
            })
        });
        entries.collect()
    }

    /// Returns a group's commits for some partitions; None for all. `share` takes the memory of a reply with them.
    pub(super) fn of_group(
        &self,
        directory: &dyn Directory,
        group: &StrBytes,
        wanted: Option<Vec<(StrBytes, &[i32])>>,
        requires_stable: bool,
        share: &Share,
    ) -> Result<Vec<OfTopic>, Refusal> {
        let (nothing, none) = (Kept::default(), BTreeMap::new());
        self.with(directory, |known| {
            let kept = known.groups.get(group).unwrap_or(&nothing);
            let found = |topic: &StrBytes, partition, entry: Option<&Entry>| {
                let commit = entry.map_or_else(Commit::default, |entry| entry.commit.clone());
                if !share.grow(size(&commit)) {
                    return Err(Refusal::no_memory());
                }
                let is_pending = requires_stable
                    && !kept.pending.is_empty()
                    && kept.pending.contains(&(topic.to_string(), partition));
                Ok(match is_pending {
                    true => (
                        partition,
                        Commit::default(),
                        ResponseError::UnstableOffsetCommit.code(),
                    ),
                    false => (partition, commit, 0),
                })
            };
            let of_topic = |topic: StrBytes, partitions: &[i32]| {
                let known = kept.topics.get(&topic).unwrap_or(&none);
                let partitions = partitions.iter();
                let answers = partitions.map(|one| found(&topic, *one, known.get(one)));
                let answers = answers.collect::<Result<_, _>>();
                answers.map(|answers| (topic, answers))
            };
            if let Some(wanted) = wanted {
                let wanted = wanted.into_iter();
                return wanted.map(|(topic, ids)| of_topic(topic, ids)).collect();
            }
            let topics = kept.topics.iter().map(|(topic, partitions)| {
                let partitions: Vec<i32> = partitions.keys().copied().collect();
                of_topic(topic.clone(), &partitions)
            });
            topics.collect()
        })
    }

    /// Keeps commits of a group, durably if there is a file. `protocol_type` is the protocol type of the group's
    /// members, if it has members. A group without commits is not kept. `share` is charged with the memory of the lines
    /// for the file.
    pub(super) fn commit(
        &self,
        directory: &dyn Directory,
        group: &StrBytes,
        protocol_type: Option<StrBytes>,
        commits: &ByPartition,
        share: &Share,
    ) -> Result<(), Refusal> {
        if commits.is_empty() {
            return Ok(());
        }
        let of_lines = commits.iter();
        let of_lines = of_lines.map(|((topic, _), commit)| {
            OF_COMMIT + 2 * (group.len() + topic.len() + commit.metadata.len())
        });
        if self.journal.is_some() && !share.grow(of_lines.sum()) {
            return Err(Refusal::no_memory());
        }
        let number = self.with(directory, |known| {
            self.charge(known, group, protocol_type.as_ref(), commits)?;
            // Copies, here and below, so that the request itself is not kept.
            let kept = known.groups.entry(copied(group)).or_default();
            if let Some(protocol_type) = protocol_type {
                kept.protocol_type = protocol_type;
            }
            for ((topic, partition), commit) in commits {
                let of_topic = match kept.topics.get_mut(topic) {
                    Some(of_topic) => of_topic,
                    None => kept.topics.entry(copied(topic)).or_default(),
                };
                let commit = Commit {
                    metadata: copied(&commit.metadata),
                    ..*commit
                };
                let is_own = true;
                of_topic.insert(*partition, Entry { commit, is_own });
            }
            let lines = commits
                .iter()
                .map(|((topic, partition), commit)| (&**group, &**topic, *partition, commit));
            // Under the lock, so that the lines are in commit order.
            Ok(self.journal.as_ref().map(|journal| journal.add(lines)))
        })?;
        let (Some(number), Some(journal)) = (number, &self.journal) else {
            return Ok(());
        };
        let written = journal.sync(number, |into| self.write_all(into));
        written.map_err(|error| {
            Refusal::new(
                ResponseError::CoordinatorNotAvailable,
                format!("commits cannot be kept: {error}"),
            )
        })
    }

    /// Reserves the memory of commits, and releases the memory of the commits that they replace.
    fn charge(
        &self,
        known: &Known,
        group: &StrBytes,
        protocol_type: Option<&StrBytes>,
        commits: &ByPartition,
    ) -> Result<(), Refusal> {
        let (mut more, mut less) = (0, 0);
        let kept = known.groups.get(group);
        if let Some(protocol_type) = protocol_type {
            more += protocol_type.len();
            less += kept.map_or(0, |kept| kept.protocol_type.len());
        }
        let mut last = None;
        for ((topic, partition), commit) in commits {
            if last != Some(topic) {
                more += match last {
                    None => known.size_of_new(group, topic),
                    // The memory of the group itself counts once.
                    Some(_) => known.size_of_new(group, topic).min(OF_TOPIC),
                };
                last = Some(topic);
            }
            more += size(commit);
            let of_topic = kept.and_then(|kept| kept.topics.get(topic));
            let before = of_topic.and_then(|of_topic| of_topic.get(partition));
            less += before.map_or(0, Entry::size);
        }
        if more > less && !self.share.grow(more - less) {
            return Err(Refusal::new(
                ResponseError::CoordinatorNotAvailable,
                "commits take all memory that they may take (--memory)",
            ));
        }
        self.share.give_back(less.saturating_sub(more));
        Ok(())
    }

    /// Writes all commits except those from the directory. Commits made during the write follow as further lines.
    fn write_all(&self, into: &mut impl Write) -> io::Result<()> {
        let mut last = Bound::Unbounded;
        loop {
            let mut lines = Vec::new();
            {
                let known = lock(&self.known);
                let mut rest = known.groups.range((last, Bound::Unbounded));
                let Some((group, kept)) = rest.next() else {
                    return Ok(());
                };
                for (topic, partitions) in &kept.topics {
                    for (partition, entry) in partitions.iter().filter(|(_, entry)| entry.is_own) {
                        journal::put(&mut lines, (group, topic, *partition, &entry.commit));
                    }
                }
                last = Bound::Excluded(group.clone());
            }
            into.write_all(&lines)?;
        }
    }
}

/// Returns a copy, so that the text does not keep its request in memory.
pub(super) fn copied(text: &StrBytes) -> StrBytes {
    text.to_string().into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use std::fs;

    use super::*;
    use crate::base::directory::tests::Empty;

    fn commit(offset: i64, metadata: &str) -> Commit {
        Commit {
            offset,
            leader_epoch: -1,
            metadata: metadata.to_owned().into(),
        }
    }

    fn one(partition: i32, commit: Commit) -> ByPartition {
        [(("t".into(), partition), commit)].into()
    }

    fn keep(commits: &Commits, group: &str, wanted: &ByPartition) -> Result<(), Refusal> {
        let share = Memory::new(1 << 20).share();
        commits.commit(
            &Empty::default(),
            &group.to_owned().into(),
            None,
            wanted,
            &share,
        )
    }

    fn offsets(commits: &Commits, group: &str) -> Vec<(i32, i64, String)> {
        let share = Memory::new(1 << 20).share();
        let group = group.to_owned().into();
        let found = commits.of_group(&Empty::default(), &group, None, false, &share);
        let topics = found.unwrap().into_iter();
        let all = topics.flat_map(|(_, partitions)| partitions);
        all.map(|(partition, commit, _)| (partition, commit.offset, commit.metadata.to_string()))
            .collect()
    }

    #[test]
    fn the_memory_is_that_of_what_is_kept_now() {
        let memory = Memory::of_one(100 * OF_COMMIT);
        let commits = Commits::new(None, &memory).unwrap();
        keep(&commits, "g", &ByPartition::new()).unwrap();
        assert_eq!((memory.used(), offsets(&commits, "g").len()), (0, 0));
        keep(&commits, "g", &one(0, commit(1, ""))).unwrap();
        let least = memory.used();
        assert_eq!(least, OF_GROUP + 1 + OF_TOPIC + OF_COMMIT);
        for offset in 0..1000 {
            keep(&commits, "g", &one(0, commit(offset, &"m".repeat(4096)))).unwrap();
        }
        assert_eq!(memory.used(), least + 4096);
        keep(&commits, "g", &one(0, commit(7, ""))).unwrap();
        assert_eq!(memory.used(), least);
        for partition in 1..1000 {
            let _ = keep(&commits, "g", &one(partition, commit(1, "")));
        }
        // A new commit is refused. A commit that replaces another one is still taken.
        assert!(memory.used() <= 100 * OF_COMMIT);
        assert!(keep(&commits, "h", &one(0, commit(1, ""))).is_err());
        keep(&commits, "g", &one(0, commit(8, ""))).unwrap();
        assert_eq!(offsets(&commits, "g").first().unwrap().1, 8);
    }

    #[test]
    fn a_file_holds_what_was_committed_also_when_its_last_line_was_cut() {
        let path = std::env::temp_dir().join(format!("commits-{}", uuid::Uuid::new_v4()));
        let memory = Memory::new(1 << 20);
        let open = || Commits::new(Some(&path), &memory).unwrap();
        let odd = "tab\t, line\n, \\ and \r";
        {
            let commits = open();
            keep(&commits, "g", &one(0, commit(1, odd))).unwrap();
            keep(&commits, "g", &one(0, commit(2, odd))).unwrap();
            keep(&commits, "h", &one(1, commit(3, ""))).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let length = whole.len();
        for cut in 0..8 {
            fs::write(&path, &whole[..length - cut]).unwrap();
            let commits = open();
            assert_eq!(offsets(&commits, "g"), [(0, 2, odd.to_owned())]);
            let left = offsets(&commits, "h");
            assert_eq!(left.len(), usize::from(cut == 0));
            // What was cut is gone, and does not become a part of the next line.
            keep(&commits, "h", &one(1, commit(4, "x"))).unwrap();
            drop(commits);
            assert_eq!(offsets(&open(), "h"), [(1, 4, "x".to_owned())]);
        }
        fs::write(&path, "no commit").unwrap();
        assert!(Commits::new(Some(&path), &memory).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"no commit");
        fs::remove_file(&path).unwrap();
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_file_of_lines_that_no_longer_count_becomes_short() {
        let path = std::env::temp_dir().join(format!("commits-{}", uuid::Uuid::new_v4()));
        let memory = Memory::new(1 << 20);
        let commits = Commits::new(Some(&path), &memory).unwrap();
        for offset in 0..3000 {
            keep(&commits, "g", &one(0, commit(offset, &"m".repeat(4000)))).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= 4 << 20);
        drop(commits);
        let again = Commits::new(Some(&path), &memory).unwrap();
        assert_eq!(offsets(&again, "g"), [(0, 2999, "m".repeat(4000))]);
        fs::remove_file(&path).unwrap();
    }
}
