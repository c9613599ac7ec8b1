//! A group of the newer protocol (KIP-848): the server assigns, and each member moves to its assignment by itself.
//!
//! As `ConsumerGroup` and `CurrentAssignmentBuilder` of Kafka. A state machine without a clock: callers pass the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;
use regex::{Regex, RegexBuilder};
use uuid::Uuid;

use crate::base::directory::Topics;
use crate::base::memory::Share;
use crate::groups::assignors::{Assignment, Assignor, TopicPartition};

/// The most members of a group.
const MOST_MEMBERS: usize = 1000;
/// The most bytes of a compiled pattern.
pub(super) const MOST_PATTERN: usize = 256 << 10;
/// A silent member is out after this time.
const SESSION: Duration = Duration::from_secs(15);
/// How often members send heartbeats, in ms.
pub(crate) const HEARTBEAT_MS: i32 = 1000;
/// The epoch of a member that joins.
const JOINS: i32 = 0;
/// The epoch of a static member that leaves for a while (KIP-345); that of one that leaves for good is -1.
const LEAVES_FOR_A_WHILE: i32 = -2;

/// What a heartbeat says.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    pub(crate) member_id: String,
    /// The memory of what it wants.
    pub(crate) share: Share,
    pub(crate) epoch: i32,
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) host: String,
    /// None: as before.
    pub(crate) rebalance_timeout: Option<Duration>,
    /// None: as before.
    pub(crate) names: Option<BTreeSet<String>>,
    /// None: as before.
    pub(crate) regex: Option<String>,
    pub(crate) assignor: Option<String>,
    /// None: as before.
    pub(crate) owned: Option<BTreeSet<TopicPartition>>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beaten {
    pub(crate) member_id: String,
    pub(crate) epoch: i32,
    /// None: as it was.
    pub(crate) assignment: Option<BTreeSet<TopicPartition>>,
}

/// Where a member stands on its way to the group's assignment (`MemberState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Stable,
    /// It has to give partitions back first.
    Unrevoked,
    /// It waits for partitions that others have to give back.
    Unreleased,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) epoch: i32,
    previous_epoch: i32,
    state: State,
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) host: String,
    pub(crate) names: BTreeSet<String>,
    pub(crate) regex: Option<Regex>,
    assignor: Option<Assignor>,
    pub(crate) assigned: BTreeSet<TopicPartition>,
    revoked: BTreeSet<TopicPartition>,
    rebalance_timeout: Duration,
    share: Option<Share>,
    deadline: Instant,
    /// Until when it must have given partitions back.
    revocation_deadline: Option<Instant>,
    /// It left for a while.
    is_away: bool,
}

/// A group.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {
    pub(crate) epoch: i32,
    pub(crate) target_epoch: i32,
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) target: Assignment,
    /// The topics that were there when the target was looked at.
    listing: Option<Arc<Topics>>,
    /// The topics that the target was made for.
    topics: BTreeMap<Uuid, Vec<i32>>,
}

impl ConsumerGroup {
    /// The name of its state (`ConsumerGroupState`).
    pub(crate) fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.target_epoch {
            "Assigning"
        } else if self
            .members
            .values()
            .any(|member| member.state != State::Stable || member.epoch != self.target_epoch)
        {
            "Reconciling"
        } else {
            "Stable"
        }
    }

    /// The assignor that most members want.
    pub(crate) fn assignor(&self) -> Assignor {
        let wants = |assignor| {
            let of_members = self.members.values().filter_map(|member| member.assignor);
            of_members.filter(|one| *one == assignor).count()
        };
        match wants(Assignor::Range) > wants(Assignor::Uniform) {
            true => Assignor::Range,
            false => Assignor::Uniform,
        }
    }

    /// Takes a heartbeat.
    pub(crate) fn heartbeat(
        &mut self,
        beat: Heartbeat,
        topics: &Arc<Topics>,
        now: Instant,
    ) -> Result<Beaten, ResponseError> {
        if beat.epoch < LEAVES_FOR_A_WHILE {
            return Err(ResponseError::InvalidRequest);
        }
        if beat.epoch < JOINS {
            return self.leave(&beat);
        }
        let assignor = match &beat.assignor {
            None => None,
            Some(name) => Some(Assignor::named(name).ok_or(ResponseError::UnsupportedAssignor)?),
        };
        let regex = match beat.regex.as_deref() {
            None => None,
            Some(text) => Some(pattern(text)?),
        };
        let is_new = beat.epoch == JOINS && self.join(&beat, now)?;
        let group_epoch = self.epoch;
        let member = self
            .members
            .get_mut(&beat.member_id)
            .ok_or(ResponseError::UnknownMemberId)?;
        member.check_instance(beat.instance_id.as_deref())?;
        member.check_epoch(&beat)?;
        member.deadline = now + SESSION;
        member.is_away = false;
        let before = member.assigned.clone();
        let is_changed = member.update(&beat, regex, assignor);
        if beat.names.is_some() || beat.regex.is_some() {
            member.share = Some(beat.share);
        }
        if is_changed || is_new {
            self.epoch = group_epoch + 1;
        }
        self.renew(topics);
        self.reconcile(&beat.member_id, beat.owned.as_ref(), now);
        let member = self
            .members
            .get(&beat.member_id)
            .ok_or(ResponseError::UnknownMemberId)?;
        // A client that says all of itself wants to hear all.
        let is_full = beat.epoch == JOINS
            || (beat.owned.is_some() && beat.names.is_some() && beat.rebalance_timeout.is_some());
        let shows = is_full || member.assigned != before;
        Ok(Beaten {
            member_id: beat.member_id,
            epoch: member.epoch,
            assignment: shows.then(|| member.assigned.clone()),
        })
    }

    /// Adds a member, unless it is there; returns whether it did.
    fn join(&mut self, beat: &Heartbeat, now: Instant) -> Result<bool, ResponseError> {
        if self.members.contains_key(&beat.member_id) {
            return Ok(false);
        }
        let former = beat.instance_id.as_ref().and_then(|instance| {
            let of_instance = self
                .members
                .iter()
                .find(|(_, member)| member.instance_id.as_ref() == Some(instance));
            of_instance.map(|(id, _)| id.clone())
        });
        if let Some(former) = former {
            // A static member came back: what it had is its own again.
            let is_away = self.members.get(&former).is_some_and(|one| one.is_away);
            if !is_away {
                return Err(ResponseError::UnreleasedInstanceId);
            }
            if let Some(mut member) = self.members.remove(&former) {
                member.epoch = JOINS;
                member.previous_epoch = JOINS;
                member.deadline = now + SESSION;
                if let Some(target) = self.target.remove(&former) {
                    self.target.insert(beat.member_id.clone(), target);
                }
                self.members.insert(beat.member_id.clone(), member);
            }
            return Ok(true);
        }
        if self.members.len() >= MOST_MEMBERS {
            return Err(ResponseError::GroupMaxSizeReached);
        }
        let (Some(timeout), true) = (
            beat.rebalance_timeout,
            beat.names.is_some() || beat.regex.is_some(),
        ) else {
            return Err(ResponseError::InvalidRequest);
        };
        let member = Member {
            epoch: JOINS,
            previous_epoch: JOINS,
            state: State::Stable,
            instance_id: beat.instance_id.clone(),
            rack_id: beat.rack_id.clone(),
            client_id: beat.client_id.clone(),
            host: beat.host.clone(),
            names: BTreeSet::new(),
            regex: None,
            assignor: None,
            assigned: BTreeSet::new(),
            revoked: BTreeSet::new(),
            rebalance_timeout: timeout,
            share: None,
            deadline: now + SESSION,
            revocation_deadline: None,
            is_away: false,
        };
        self.members.insert(beat.member_id.clone(), member);
        Ok(true)
    }

    fn leave(&mut self, beat: &Heartbeat) -> Result<Beaten, ResponseError> {
        let member = self
            .members
            .get_mut(&beat.member_id)
            .ok_or(ResponseError::UnknownMemberId)?;
        member.check_instance(beat.instance_id.as_deref())?;
        match beat.epoch == LEAVES_FOR_A_WHILE && member.instance_id.is_some() {
            true => member.is_away = true,
            false => self.remove(&beat.member_id),
        }
        Ok(Beaten {
            member_id: beat.member_id.clone(),
            epoch: beat.epoch,
            assignment: None,
        })
    }

    fn remove(&mut self, id: &str) {
        self.members.remove(id);
        self.target.remove(id);
        self.epoch += 1;
    }

    /// Makes a new target, if members or topics are others than before.
    fn renew(&mut self, topics: &Arc<Topics>) {
        let is_same = |known: &Arc<Topics>| Arc::ptr_eq(known, topics);
        if self.epoch == self.target_epoch && self.listing.as_ref().is_some_and(is_same) {
            return;
        }
        self.listing = Some(Arc::clone(topics));
        let wanted: BTreeMap<String, BTreeSet<Uuid>> = self
            .members
            .iter()
            .map(|(id, member)| (id.clone(), member.wanted(topics)))
            .collect();
        let all: BTreeSet<Uuid> = wanted.values().flatten().copied().collect();
        let known: BTreeMap<Uuid, Vec<i32>> = all
            .into_iter()
            .filter_map(|id| Some((id, topics.by_id(id)?.partitions.clone())))
            .collect();
        if known != self.topics && self.epoch == self.target_epoch {
            self.epoch += 1;
        }
        if self.epoch == self.target_epoch {
            return;
        }
        self.target = self.assignor().assign(&known, &wanted, &self.target);
        self.target_epoch = self.epoch;
        self.topics = known;
    }

    /// Moves a member towards its target.
    fn reconcile(&mut self, id: &str, owned: Option<&BTreeSet<TopicPartition>>, now: Instant) {
        let target = self.target.get(id).cloned().unwrap_or_default();
        let of_others: BTreeSet<TopicPartition> = self
            .members
            .iter()
            .filter(|(other, _)| other.as_str() != id)
            .flat_map(|(_, member)| member.assigned.union(&member.revoked))
            .copied()
            .collect();
        let target_epoch = self.target_epoch;
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let has_given_back =
            owned.is_some_and(|owned| owned.is_disjoint(&member.revoked)) || member.epoch == JOINS;
        match member.state {
            State::Stable if member.epoch == target_epoch => return,
            State::Unrevoked if !has_given_back => return,
            _ => {}
        }
        let kept: BTreeSet<_> = member.assigned.intersection(&target).copied().collect();
        let revoked: BTreeSet<_> = member.assigned.difference(&target).copied().collect();
        let waits = target.difference(&kept).any(|one| of_others.contains(one));
        let new: Vec<_> = target
            .difference(&kept)
            .filter(|one| !of_others.contains(*one))
            .copied()
            .collect();
        let must_give_back =
            !revoked.is_empty() && owned.is_none_or(|owned| !owned.is_disjoint(&revoked));
        member.assigned = kept;
        if must_give_back && member.epoch != JOINS {
            member.state = State::Unrevoked;
            member.revoked = revoked;
            member.revocation_deadline = Some(now + member.rebalance_timeout);
            return;
        }
        member.revoked.clear();
        member.revocation_deadline = None;
        member.assigned.extend(new);
        member.state = if waits {
            State::Unreleased
        } else {
            State::Stable
        };
        if member.epoch != target_epoch {
            member.previous_epoch = member.epoch;
            member.epoch = target_epoch;
        }
    }

    /// Removes members that were silent, or kept what they had to give back, for too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        let silent: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| {
                member.deadline <= now
                    || member.revocation_deadline.is_some_and(|until| until <= now)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in silent {
            self.remove(&id);
        }
    }

    /// Refuses commits of clients that are not in the group, or not in its epoch.
    pub(crate) fn check(&self, id: &str, epoch: i32) -> Result<(), ResponseError> {
        if self.members.is_empty() && epoch < 0 {
            return Ok(());
        }
        let member = self.members.get(id).ok_or(ResponseError::UnknownMemberId)?;
        match member.epoch == epoch {
            true => Ok(()),
            false => Err(ResponseError::StaleMemberEpoch),
        }
    }
}

impl Member {
    fn check_instance(&self, instance: Option<&str>) -> Result<(), ResponseError> {
        match instance {
            Some(instance) if self.instance_id.as_deref() != Some(instance) => {
                Err(ResponseError::FencedInstanceId)
            }
            _ => Ok(()),
        }
    }

    /// A client may lag one epoch behind, if it missed an answer, and has nothing that is not its own.
    fn check_epoch(&self, beat: &Heartbeat) -> Result<(), ResponseError> {
        let has_own = || {
            let owned = beat.owned.as_ref();
            owned.is_some_and(|owned| owned.is_subset(&self.assigned))
        };
        let is_known = beat.epoch == JOINS
            || beat.epoch == self.epoch
            || (beat.epoch == self.previous_epoch && has_own());
        match is_known {
            true => Ok(()),
            false => Err(ResponseError::FencedMemberEpoch),
        }
    }

    /// Takes what a heartbeat says; returns whether the assignment has to be made anew.
    fn update(
        &mut self,
        beat: &Heartbeat,
        regex: Option<Option<Regex>>,
        assignor: Option<Assignor>,
    ) -> bool {
        let mut is_changed = false;
        if let Some(names) = beat.names.as_ref().filter(|names| **names != self.names) {
            self.names.clone_from(names);
            is_changed = true;
        }
        let text = |regex: &Option<Regex>| regex.as_ref().map(|one| one.as_str().to_owned());
        if let Some(regex) = regex.filter(|regex| text(regex) != text(&self.regex)) {
            self.regex = regex;
            is_changed = true;
        }
        if assignor.is_some() && assignor != self.assignor {
            self.assignor = assignor;
            is_changed = true;
        }
        if let Some(timeout) = beat.rebalance_timeout {
            self.rebalance_timeout = timeout;
        }
        self.client_id.clone_from(&beat.client_id);
        self.host.clone_from(&beat.host);
        is_changed
    }

    /// The ids of the topics that it wants. A topic without an id cannot be assigned.
    fn wanted(&self, topics: &Topics) -> BTreeSet<Uuid> {
        let named = self.names.iter().filter_map(|name| topics.by_name(name));
        let found = topics.all().iter().filter(|topic| {
            self.regex
                .as_ref()
                .is_some_and(|regex| regex.is_match(&topic.name))
        });
        named
            .chain(found)
            .map(|topic| topic.id)
            .filter(|id| !id.is_nil())
            .collect()
    }
}

/// Returns a pattern that has to match whole names; None: the client has none any more.
fn pattern(text: &str) -> Result<Option<Regex>, ResponseError> {
    match text.is_empty() {
        true => Ok(None),
        false => RegexBuilder::new(&format!("^(?:{text})$"))
            .size_limit(MOST_PATTERN)
            .build()
            .map(Some)
            .map_err(|_| ResponseError::InvalidRegularExpression),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::directory::Topic;
    use crate::base::memory::Memory;

    const ID: Uuid = Uuid::from_u128(7);

    fn topics(count: i32) -> Arc<Topics> {
        Arc::new(Topics::new(vec![Topic {
            name: "t".to_owned(),
            id: ID,
            partitions: (0..count).collect(),
            is_internal: false,
        }]))
    }

    fn joins(id: &str) -> Heartbeat {
        Heartbeat {
            rebalance_timeout: Some(Duration::from_secs(30)),
            names: Some(["t".to_owned()].into()),
            ..beats(id, 0, Some(&BTreeSet::new()))
        }
    }

    fn beats(id: &str, epoch: i32, owned: Option<&BTreeSet<TopicPartition>>) -> Heartbeat {
        Heartbeat {
            member_id: id.to_owned(),
            share: Memory::new(1 << 20).share(),
            epoch,
            instance_id: None,
            rack_id: None,
            client_id: String::new(),
            host: String::new(),
            rebalance_timeout: None,
            names: None,
            regex: None,
            assignor: None,
            owned: owned.cloned(),
        }
    }

    #[test]
    fn partitions_move_only_after_their_owner_gave_them_back() {
        let (topics, now) = (topics(4), Instant::now());
        let mut group = ConsumerGroup::default();
        let first = group.heartbeat(joins("a"), &topics, now).unwrap();
        let all = first.assignment.clone().unwrap();
        assert_eq!((all.len(), first.epoch, group.state()), (4, 1, "Stable"));

        let second = group.heartbeat(joins("b"), &topics, now).unwrap();
        assert_eq!(second.assignment, Some(BTreeSet::new()));
        assert_eq!((second.epoch, group.state()), (2, "Reconciling"));

        // The first one is told, and says that it has not given anything back yet.
        let told = group.heartbeat(beats("a", 1, None), &topics, now).unwrap();
        let left = told.assignment.clone().unwrap();
        assert_eq!((left.len(), told.epoch), (2, 1));
        let kept = group.heartbeat(beats("a", 1, Some(&all)), &topics, now);
        assert_eq!(kept.unwrap().epoch, 1);
        let waits = group.heartbeat(beats("b", 2, None), &topics, now).unwrap();
        assert_eq!(waits.assignment, None);

        let done = group.heartbeat(beats("a", 1, Some(&left)), &topics, now);
        assert_eq!(done.unwrap().epoch, 2);
        let gets = group.heartbeat(beats("b", 2, None), &topics, now).unwrap();
        let gets = gets.assignment.unwrap();
        assert!(gets.is_disjoint(&left) && gets.len() == 2);
        assert_eq!(group.state(), "Stable");
    }

    #[test]
    fn a_silent_member_loses_its_partitions_to_the_others() {
        let (topics, now) = (topics(2), Instant::now());
        let mut group = ConsumerGroup::default();
        group.heartbeat(joins("a"), &topics, now).unwrap();
        group
            .heartbeat(joins("b"), &topics, now + SESSION / 2)
            .unwrap();
        group.expire(now + SESSION);
        assert_eq!(group.members.keys().collect::<Vec<_>>(), ["b"]);
        let gets = group.heartbeat(beats("b", 2, None), &topics, now + SESSION);
        assert_eq!(gets.unwrap().assignment.unwrap().len(), 2);
        let gone = group.heartbeat(beats("a", 1, None), &topics, now + SESSION);
        assert_eq!(gone.unwrap_err(), ResponseError::UnknownMemberId);
    }

    #[test]
    fn a_member_that_keeps_what_it_must_give_back_is_out() {
        let (topics, now) = (topics(2), Instant::now());
        let mut group = ConsumerGroup::default();
        group.heartbeat(joins("a"), &topics, now).unwrap();
        group.heartbeat(joins("b"), &topics, now).unwrap();
        group.heartbeat(beats("a", 1, None), &topics, now).unwrap();
        let late = now + Duration::from_secs(31);
        group
            .members
            .values_mut()
            .for_each(|one| one.deadline = late + SESSION);
        group.expire(late);
        assert_eq!(group.members.keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn wrong_epochs_are_fenced() {
        let (topics, now) = (topics(2), Instant::now());
        let mut group = ConsumerGroup::default();
        group.heartbeat(joins("a"), &topics, now).unwrap();
        for epoch in [2, 99] {
            let wrong = group.heartbeat(beats("a", epoch, None), &topics, now);
            assert_eq!(wrong.unwrap_err(), ResponseError::FencedMemberEpoch);
        }
        let wrong = group.heartbeat(beats("a", -3, None), &topics, now);
        assert_eq!(wrong.unwrap_err(), ResponseError::InvalidRequest);
        assert_eq!(group.check("a", 1), Ok(()));
        assert_eq!(group.check("a", 0), Err(ResponseError::StaleMemberEpoch));
        assert_eq!(group.check("b", 1), Err(ResponseError::UnknownMemberId));
    }

    #[test]
    fn a_static_member_gets_its_partitions_back() {
        let (topics, now) = (topics(4), Instant::now());
        let mut group = ConsumerGroup::default();
        let with_instance = |id: &str| Heartbeat {
            instance_id: Some("i".to_owned()),
            ..joins(id)
        };
        group.heartbeat(with_instance("a"), &topics, now).unwrap();
        let twice = group.heartbeat(with_instance("b"), &topics, now);
        assert_eq!(twice.unwrap_err(), ResponseError::UnreleasedInstanceId);
        let away = Heartbeat {
            instance_id: Some("i".to_owned()),
            ..beats("a", -2, None)
        };
        group.heartbeat(away, &topics, now).unwrap();
        let back = group.heartbeat(with_instance("b"), &topics, now).unwrap();
        assert_eq!(back.assignment.unwrap().len(), 4);
    }

    #[test]
    fn topics_may_be_named_by_a_pattern() {
        let (topics, now) = (topics(3), Instant::now());
        let mut group = ConsumerGroup::default();
        let with = |text: &str| Heartbeat {
            names: Some(BTreeSet::new()),
            regex: Some(text.to_owned()),
            ..joins("a")
        };
        let found = group.heartbeat(with("t+"), &topics, now).unwrap();
        assert_eq!(found.assignment.unwrap().len(), 3);
        let mut other = ConsumerGroup::default();
        let wrong = other.heartbeat(with("("), &topics, now);
        assert_eq!(wrong.unwrap_err(), ResponseError::InvalidRegularExpression);
        assert!(other.members.is_empty());
    }

    #[test]
    fn partitions_that_appear_are_assigned() {
        let now = Instant::now();
        let mut group = ConsumerGroup::default();
        group.heartbeat(joins("a"), &topics(1), now).unwrap();
        let more = group
            .heartbeat(beats("a", 1, None), &topics(3), now)
            .unwrap();
        assert_eq!((more.epoch, more.assignment.unwrap().len()), (2, 3));
    }
}
