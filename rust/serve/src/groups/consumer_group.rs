//! A group of the newer protocol (KIP-848): the server assigns partitions, and each member moves to its assignment on
//! its own.
//!
//! It works like `ConsumerGroup` and `CurrentAssignmentBuilder` of Kafka. It is a state machine without a clock:
//! callers pass the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;
use regex::bytes::RegexBuilder;
use uuid::Uuid;

use crate::base::directory::Topics;
use crate::base::memory::{Memory, Share};
use crate::groups::assignors::{Assignment, Assignor, TopicPartition, Wanted};

/// The maximum number of members of a group.
const MOST_MEMBERS: usize = 1000;
/// The maximum size in bytes of a pattern, and of its compiled form.
const MOST_OF_TEXT: usize = 1024;
const MOST_PATTERN: usize = 32 << 10;
/// The memory of a partition that is assigned.
const OF_ASSIGNED: usize = 128;
/// A silent member is removed after this time.
const SESSION: Duration = Duration::from_secs(15);
/// The interval between a member's heartbeats, in ms.
pub(crate) const HEARTBEAT_MS: i32 = 1000;
/// The member epoch of a member that joins.
const JOINS: i32 = 0;
/// The member epoch of a static member that leaves temporarily (KIP-345). A member that leaves for good sends -1.
const LEAVES_FOR_A_WHILE: i32 = -2;

/// The contents of a heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    pub(crate) member_id: StrBytes,
    /// The memory of the member's identity, and of its subscription.
    pub(crate) share: Share,
    pub(crate) share_of_wanted: Share,
    pub(crate) epoch: i32,
    pub(crate) instance_id: Option<StrBytes>,
    pub(crate) rack_id: Option<StrBytes>,
    pub(crate) client_id: StrBytes,
    pub(crate) host: StrBytes,
    /// None if unchanged.
    pub(crate) rebalance_timeout: Option<Duration>,
    /// None if unchanged.
    pub(crate) names: Option<BTreeSet<StrBytes>>,
    /// None if unchanged.
    pub(crate) pattern: Option<Option<Pattern>>,
    pub(crate) assignor: Option<StrBytes>,
    /// None if unchanged.
    pub(crate) owned: Option<BTreeSet<TopicPartition>>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Beaten {
    pub(crate) member_id: StrBytes,
    pub(crate) epoch: i32,
    /// None if unchanged.
    pub(crate) assignment: Option<BTreeSet<TopicPartition>>,
}

/// The state of a member on its way to the group's assignment (`MemberState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Stable,
    /// The member must first revoke partitions.
    Unrevoked,
    /// The member waits for partitions that other members must revoke first.
    Unreleased,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) epoch: i32,
    previous_epoch: i32,
    state: State,
    pub(crate) instance_id: Option<StrBytes>,
    pub(crate) rack_id: Option<StrBytes>,
    pub(crate) client_id: StrBytes,
    pub(crate) host: StrBytes,
    pub(crate) names: BTreeSet<StrBytes>,
    pub(crate) pattern: Option<Pattern>,
    assignor: Option<Assignor>,
    pub(crate) assigned: BTreeSet<TopicPartition>,
    revoked: BTreeSet<TopicPartition>,
    rebalance_timeout: Duration,
    share: Option<Share>,
    share_of_wanted: Option<Share>,
    deadline: Instant,
    /// The time limit to revoke partitions.
    revocation_deadline: Option<Instant>,
    /// The member left temporarily.
    is_away: bool,
}

/// A group.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {
    pub(crate) epoch: i32,
    pub(crate) target_epoch: i32,
    pub(crate) members: BTreeMap<StrBytes, Member>,
    pub(crate) target: Assignment,
    /// The topics that existed when the target was last checked.
    listing: Option<Arc<Topics>>,
    /// The topics for which the target was computed.
    topics: BTreeMap<Uuid, Vec<i32>>,
    /// The memory of these topics and of the target assignment.
    share: Option<Share>,
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

    /// Returns the pattern of a member if it was matched against other topics than the current ones.
    pub(crate) fn old_pattern(&self, id: &StrBytes, topics: &Arc<Topics>) -> Option<StrBytes> {
        let pattern = self.members.get(id)?.pattern.as_ref()?;
        (!Arc::ptr_eq(&pattern.listing, topics)).then(|| pattern.text.clone())
    }

    /// Handles a heartbeat.
    pub(crate) fn heartbeat(
        &mut self,
        beat: Heartbeat,
        topics: &Arc<Topics>,
        memory: &Arc<Memory>,
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
        let is_new = beat.epoch == JOINS && self.join(&beat, now)?;
        let group_epoch = self.epoch;
        let member = self
            .members
            .get_mut(&beat.member_id)
            .ok_or(ResponseError::UnknownMemberId)?;
        member.check_instance(beat.instance_id.as_ref())?;
        member.check_epoch(&beat)?;
        member.deadline = now + SESSION;
        member.is_away = false;
        let before = member.assigned.clone();
        let is_changed = member.update(&beat, assignor);
        member.share = Some(beat.share);
        if beat.names.is_some() || beat.pattern.is_some() {
            member.share_of_wanted = Some(beat.share_of_wanted);
        }
        if is_changed || is_new {
            self.epoch = group_epoch + 1;
        }
        self.renew(topics, memory)?;
        self.reconcile(&beat.member_id, beat.owned.as_ref(), now);
        let member = self
            .members
            .get(&beat.member_id)
            .ok_or(ResponseError::UnknownMemberId)?;
        // A client that sends its full state expects the full assignment.
        let is_full = beat.epoch == JOINS
            || (beat.owned.is_some() && beat.names.is_some() && beat.rebalance_timeout.is_some());
        let shows = is_full || member.assigned != before;
        Ok(Beaten {
            member_id: beat.member_id,
            epoch: member.epoch,
            assignment: shows.then(|| member.assigned.clone()),
        })
    }

    /// Adds a member, unless it exists; returns whether it was added.
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
            // A static member rejoined, and gets its previous state back.
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
            beat.names.is_some() || beat.pattern.is_some(),
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
            pattern: None,
            assignor: None,
            assigned: BTreeSet::new(),
            revoked: BTreeSet::new(),
            rebalance_timeout: timeout,
            share: None,
            share_of_wanted: None,
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
        member.check_instance(beat.instance_id.as_ref())?;
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

    fn remove(&mut self, id: &StrBytes) {
        self.members.remove(id);
        self.target.remove(id);
        self.epoch += 1;
    }

    /// Computes a new target, if members or topics have changed.
    fn renew(&mut self, topics: &Arc<Topics>, memory: &Arc<Memory>) -> Result<(), ResponseError> {
        let is_same = |known: &Arc<Topics>| Arc::ptr_eq(known, topics);
        if self.epoch == self.target_epoch && self.listing.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        let wanted: Wanted = self
            .members
            .iter()
            .map(|(id, member)| (id.clone(), member.wanted(topics)))
            .collect();
        let all: BTreeSet<Uuid> = wanted.values().flatten().copied().collect();
        let known: BTreeMap<Uuid, Vec<i32>> = all
            .into_iter()
            .filter_map(|id| Some((id, topics.by_id(id)?.partitions.clone())))
            .collect();
        let share = memory.share();
        if !share.grow(known.values().map(Vec::len).sum::<usize>() * OF_ASSIGNED) {
            return Err(ResponseError::CoordinatorNotAvailable);
        }
        self.share = Some(share);
        self.listing = Some(Arc::clone(topics));
        if known != self.topics && self.epoch == self.target_epoch {
            self.epoch += 1;
        }
        if self.epoch == self.target_epoch {
            return Ok(());
        }
        self.target = self.assignor().assign(&known, &wanted, &self.target);
        self.target_epoch = self.epoch;
        self.topics = known;
        Ok(())
    }

    /// Moves a member towards its target.
    fn reconcile(&mut self, id: &StrBytes, owned: Option<&BTreeSet<TopicPartition>>, now: Instant) {
        let target_epoch = self.target_epoch;
        let Some(member) = self.members.get(id) else {
            return;
        };
        let has_given_back =
            owned.is_some_and(|owned| owned.is_disjoint(&member.revoked)) || member.epoch == JOINS;
        match member.state {
            State::Stable if member.epoch == target_epoch => return,
            State::Unrevoked if !has_given_back => return,
            _ => {}
        }
        let target = self.target.get(id).cloned().unwrap_or_default();
        let of_others: BTreeSet<TopicPartition> = self
            .members
            .iter()
            .filter(|(other, _)| *other != id)
            .flat_map(|(_, member)| member.assigned.union(&member.revoked))
            .copied()
            .collect();
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
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

    /// Removes members that were silent for too long, or took too long to revoke partitions.
    pub(crate) fn expire(&mut self, now: Instant) {
        let silent: Vec<StrBytes> = self
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

    /// Refuses commits of clients that are not members of the group, or that have another member epoch.
    pub(crate) fn check(&self, id: &StrBytes, epoch: i32) -> Result<(), ResponseError> {
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
    fn check_instance(&self, instance: Option<&StrBytes>) -> Result<(), ResponseError> {
        match instance {
            Some(instance) if self.instance_id.as_ref() != Some(instance) => {
                Err(ResponseError::FencedInstanceId)
            }
            _ => Ok(()),
        }
    }

    /// Checks the member epoch of a heartbeat. A client that missed an answer may be one epoch behind if it owns only
    /// its assigned partitions.
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

    /// Stores the contents of a heartbeat; returns whether a new assignment is needed.
    fn update(&mut self, beat: &Heartbeat, assignor: Option<Assignor>) -> bool {
        let mut is_changed = false;
        if let Some(names) = beat.names.as_ref().filter(|names| **names != self.names) {
            self.names.clone_from(names);
            is_changed = true;
        }
        if let Some(pattern) = &beat.pattern {
            let of = |one: &Option<Pattern>| {
                let one = one.as_ref();
                one.map(|one| (one.text.clone(), one.matched.clone()))
            };
            is_changed |= of(pattern) != of(&self.pattern);
            self.pattern.clone_from(pattern);
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

    /// The ids of the topics that the member wants. A topic without an id cannot be assigned.
    fn wanted(&self, topics: &Topics) -> BTreeSet<Uuid> {
        let named = self.names.iter().filter_map(|name| topics.by_name(name));
        let matched = self.pattern.iter();
        let matched = matched.flat_map(|pattern| pattern.matched.iter().copied());
        named
            .map(|topic| topic.id)
            .chain(matched)
            .filter(|id| !id.is_nil())
            .collect()
    }
}

/// A pattern of a member, and the topics that match it. The topics are matched before any lock is acquired, because a
/// pattern of a hundred characters may take a millisecond per name.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) text: StrBytes,
    matched: BTreeSet<Uuid>,
    /// The topics that existed when the pattern was matched.
    listing: Arc<Topics>,
}

impl Pattern {
    /// Returns a pattern that must match whole names; None if the client has removed its pattern.
    ///
    /// # Errors
    ///
    /// The text is not a pattern, or is too large.
    pub(crate) fn new(
        text: &StrBytes,
        topics: &Arc<Topics>,
    ) -> Result<Option<Self>, ResponseError> {
        if text.is_empty() {
            return Ok(None);
        }
        if text.len() > MOST_OF_TEXT {
            return Err(ResponseError::InvalidRegularExpression);
        }
        // As on a broker (RE2), character classes are those of ASCII.
        let regex = RegexBuilder::new(&format!("^(?:{text})$"))
            .unicode(false)
            .size_limit(MOST_PATTERN)
            .build()
            .map_err(|_| ResponseError::InvalidRegularExpression)?;
        let found = topics.all().iter();
        let found = found.filter(|topic| regex.is_match(topic.name.as_bytes()));
        Ok(Some(Self {
            text: text.to_string().into(),
            matched: found.map(|topic| topic.id).collect(),
            listing: Arc::clone(topics),
        }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::directory::Topic;
    use crate::base::memory::Memory;

    const ID: Uuid = Uuid::from_u128(7);

    fn memory() -> Arc<Memory> {
        Memory::new(1 << 20)
    }

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
            names: Some(["t".into()].into()),
            ..beats(id, 0, Some(&BTreeSet::new()))
        }
    }

    fn beats(id: &str, epoch: i32, owned: Option<&BTreeSet<TopicPartition>>) -> Heartbeat {
        Heartbeat {
            member_id: id.to_owned().into(),
            share: memory().share(),
            share_of_wanted: memory().share(),
            epoch,
            instance_id: None,
            rack_id: None,
            client_id: StrBytes::new(),
            host: StrBytes::new(),
            rebalance_timeout: None,
            names: None,
            pattern: None,
            assignor: None,
            owned: owned.cloned(),
        }
    }

    #[test]
    fn partitions_move_only_after_their_owner_gave_them_back() {
        let (topics, now) = (topics(4), Instant::now());
        let mut group = ConsumerGroup::default();
        let first = group
            .heartbeat(joins("a"), &topics, &memory(), now)
            .unwrap();
        let all = first.assignment.clone().unwrap();
        assert_eq!((all.len(), first.epoch, group.state()), (4, 1, "Stable"));

        let second = group
            .heartbeat(joins("b"), &topics, &memory(), now)
            .unwrap();
        assert_eq!(second.assignment, Some(BTreeSet::new()));
        assert_eq!((second.epoch, group.state()), (2, "Reconciling"));

        // The first one is told, and says that it has not given anything back yet.
        let told = group
            .heartbeat(beats("a", 1, None), &topics, &memory(), now)
            .unwrap();
        let left = told.assignment.clone().unwrap();
        assert_eq!((left.len(), told.epoch), (2, 1));
        let kept = group.heartbeat(beats("a", 1, Some(&all)), &topics, &memory(), now);
        assert_eq!(kept.unwrap().epoch, 1);
        let waits = group
            .heartbeat(beats("b", 2, None), &topics, &memory(), now)
            .unwrap();
        assert_eq!(waits.assignment, None);

        let done = group.heartbeat(beats("a", 1, Some(&left)), &topics, &memory(), now);
        assert_eq!(done.unwrap().epoch, 2);
        let gets = group
            .heartbeat(beats("b", 2, None), &topics, &memory(), now)
            .unwrap();
        let gets = gets.assignment.unwrap();
        assert!(gets.is_disjoint(&left) && gets.len() == 2);
        assert_eq!(group.state(), "Stable");
    }

    #[test]
    fn a_silent_member_loses_its_partitions_to_the_others() {
        let (topics, now) = (topics(2), Instant::now());
        let mut group = ConsumerGroup::default();
        group
            .heartbeat(joins("a"), &topics, &memory(), now)
            .unwrap();
        group
            .heartbeat(joins("b"), &topics, &memory(), now + SESSION / 2)
            .unwrap();
        group.expire(now + SESSION);
        assert_eq!(
            group.members.keys().collect::<Vec<_>>(),
            [&StrBytes::from("b")]
        );
        let gets = group.heartbeat(beats("b", 2, None), &topics, &memory(), now + SESSION);
        assert_eq!(gets.unwrap().assignment.unwrap().len(), 2);
        let gone = group.heartbeat(beats("a", 1, None), &topics, &memory(), now + SESSION);
        assert_eq!(gone.unwrap_err(), ResponseError::UnknownMemberId);
    }

    #[test]
    fn a_member_that_keeps_what_it_must_give_back_is_out() {
        let (topics, now) = (topics(2), Instant::now());
        let mut group = ConsumerGroup::default();
        group
            .heartbeat(joins("a"), &topics, &memory(), now)
            .unwrap();
        group
            .heartbeat(joins("b"), &topics, &memory(), now)
            .unwrap();
        group
            .heartbeat(beats("a", 1, None), &topics, &memory(), now)
            .unwrap();
        let late = now + Duration::from_secs(31);
        group
            .members
            .values_mut()
            .for_each(|one| one.deadline = late + SESSION);
        group.expire(late);
        assert_eq!(
            group.members.keys().collect::<Vec<_>>(),
            [&StrBytes::from("b")]
        );
    }

    #[test]
    fn wrong_epochs_are_fenced() {
        let (topics, now) = (topics(2), Instant::now());
        let mut group = ConsumerGroup::default();
        group
            .heartbeat(joins("a"), &topics, &memory(), now)
            .unwrap();
        for epoch in [2, 99] {
            let wrong = group.heartbeat(beats("a", epoch, None), &topics, &memory(), now);
            assert_eq!(wrong.unwrap_err(), ResponseError::FencedMemberEpoch);
        }
        let wrong = group.heartbeat(beats("a", -3, None), &topics, &memory(), now);
        assert_eq!(wrong.unwrap_err(), ResponseError::InvalidRequest);
        assert_eq!(group.check(&"a".into(), 1), Ok(()));
        assert_eq!(
            group.check(&"a".into(), 0),
            Err(ResponseError::StaleMemberEpoch)
        );
        assert_eq!(
            group.check(&"b".into(), 1),
            Err(ResponseError::UnknownMemberId)
        );
    }

    #[test]
    fn a_static_member_gets_its_partitions_back() {
        let (topics, now) = (topics(4), Instant::now());
        let mut group = ConsumerGroup::default();
        let with_instance = |id: &str| Heartbeat {
            instance_id: Some("i".into()),
            ..joins(id)
        };
        group
            .heartbeat(with_instance("a"), &topics, &memory(), now)
            .unwrap();
        let twice = group.heartbeat(with_instance("b"), &topics, &memory(), now);
        assert_eq!(twice.unwrap_err(), ResponseError::UnreleasedInstanceId);
        let away = Heartbeat {
            instance_id: Some("i".into()),
            ..beats("a", -2, None)
        };
        group.heartbeat(away, &topics, &memory(), now).unwrap();
        let back = group
            .heartbeat(with_instance("b"), &topics, &memory(), now)
            .unwrap();
        assert_eq!(back.assignment.unwrap().len(), 4);
    }

    #[test]
    fn topics_may_be_named_by_a_pattern() {
        let (topics, now) = (topics(3), Instant::now());
        let mut group = ConsumerGroup::default();
        let with = |text: &str| Heartbeat {
            names: Some(BTreeSet::new()),
            pattern: Some(Pattern::new(&text.to_owned().into(), &topics).unwrap()),
            ..joins("a")
        };
        let found = group
            .heartbeat(with("t+"), &topics, &memory(), now)
            .unwrap();
        assert_eq!(found.assignment.unwrap().len(), 3);
        let long = "a".repeat(MOST_OF_TEXT + 1);
        for wrong in ["(", "(((a{9}){9}){9}){9}", &long] {
            let wrong = Pattern::new(&wrong.to_owned().into(), &topics);
            assert_eq!(wrong.unwrap_err(), ResponseError::InvalidRegularExpression);
        }
        // Other topics than before: the pattern is compared with them.
        let id = StrBytes::from("a");
        assert_eq!(group.old_pattern(&id, &topics), None);
        let more = self::topics(4);
        let text = group.old_pattern(&id, &more).unwrap();
        let again = Heartbeat {
            pattern: Some(Pattern::new(&text, &more).unwrap()),
            ..beats("a", 1, None)
        };
        let found = group.heartbeat(again, &more, &memory(), now).unwrap();
        assert_eq!((found.epoch, found.assignment.unwrap().len()), (2, 4));
    }

    #[test]
    fn partitions_that_appear_are_assigned() {
        let now = Instant::now();
        let mut group = ConsumerGroup::default();
        group
            .heartbeat(joins("a"), &topics(1), &memory(), now)
            .unwrap();
        let more = group
            .heartbeat(beats("a", 1, None), &topics(3), &memory(), now)
            .unwrap();
        assert_eq!((more.epoch, more.assignment.unwrap().len()), (2, 3));
    }
}
