//! One group: a state machine without a clock. Callers pass the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_channel::oneshot;
use kafka_protocol::ResponseError;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;

use crate::base::memory::Share;
use crate::groups::members::{Assigned, Joined, Joining, Member, Members};

/// The maximum number of members of a group.
const MOST_MEMBERS: usize = 1000;

/// The state of a group (`ClassicGroupState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl State {
    /// The state's name as clients show it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// An answer that may be sent later.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    Now(Result<T, ResponseError>),
    Later(oneshot::Receiver<Result<T, ResponseError>>),
}

/// The reason why a member cannot join, and the id that the server has assigned to the member, if any.
#[derive(Debug)]
pub(crate) struct NotJoined {
    pub(crate) error: ResponseError,
    pub(crate) member_id: Option<StrBytes>,
}

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) state: State,
    pub(crate) generation: i32,
    pub(crate) protocol_type: StrBytes,
    pub(crate) protocol: Option<StrBytes>,
    pub(crate) leader: Option<StrBytes>,
    pub(crate) members: Members,
    /// Ids given to members that have not rejoined with them yet.
    pending: HashMap<StrBytes, (Instant, Share)>,
    /// The time limit for the members of the last generation to join.
    rebalance_deadline: Option<Instant>,
}

impl Group {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Empty,
            generation: 0,
            protocol_type: StrBytes::new(),
            protocol: None,
            leader: None,
            members: Members::default(),
            pending: HashMap::new(),
            rebalance_deadline: None,
        }
    }

    /// Lets a member join. `new_id` is for a member without an id.
    pub(crate) fn join(
        &mut self,
        joining: Joining,
        new_id: StrBytes,
        now: Instant,
    ) -> Result<Answer<Joined>, NotJoined> {
        let refuse = |error| {
            Err(NotJoined {
                error,
                member_id: None,
            })
        };
        if joining.protocols.is_empty() || joining.protocol_type.is_empty() {
            return refuse(ResponseError::InconsistentGroupProtocol);
        }
        if !self.members.is_empty() && !self.accepts(&joining) {
            return refuse(ResponseError::InconsistentGroupProtocol);
        }
        if !joining.member_id.is_empty() {
            return self.rejoin(joining, now);
        }
        if self.members.len() + self.pending.len() >= MOST_MEMBERS {
            return refuse(ResponseError::GroupMaxSizeReached);
        }
        let former = joining
            .instance_id
            .as_ref()
            .and_then(|instance| self.members.of_instance(instance));
        if former.is_none() && joining.instance_id.is_none() && joining.takes_id_first {
            // It sends its protocols again.
            let sent = joining.protocols.iter();
            let sent = sent.map(|(name, metadata)| name.len() + metadata.len());
            joining.share.give_back(sent.sum());
            self.pending.insert(
                new_id.clone(),
                (now + joining.session_timeout, joining.share),
            );
            return Err(NotJoined {
                error: ResponseError::MemberIdRequired,
                member_id: Some(new_id),
            });
        }
        if let Some(former) = former {
            return Ok(self.replace(&former, joining, new_id, now));
        }
        Ok(self.add(joining, new_id, now))
    }

    fn rejoin(&mut self, joining: Joining, now: Instant) -> Result<Answer<Joined>, NotJoined> {
        let id = joining.member_id.clone();
        if self.pending.remove(&id).is_some() {
            return Ok(self.add(joining, id, now));
        }
        if let Some(instance) = &joining.instance_id {
            match self.members.of_instance(instance) {
                Some(known) if known != id => {
                    return Err(NotJoined {
                        error: ResponseError::FencedInstanceId,
                        member_id: None,
                    });
                }
                _ => {}
            }
        }
        let is_leader = self.leader.as_ref() == Some(&id);
        let Some(member) = self.members.get(&id) else {
            return Err(NotJoined {
                error: ResponseError::UnknownMemberId,
                member_id: None,
            });
        };
        let is_same = member.protocols == joining.protocols;
        self.members.update(&id, joining, now);
        match self.state {
            State::CompletingRebalance if is_same => Ok(Answer::Now(Ok(self.joined(&id)))),
            // A leader that rejoins wants to assign again.
            State::Stable if is_same && !is_leader => Ok(Answer::Now(Ok(self.joined(&id)))),
            _ => {
                let answer = self.wait_to_join(&id);
                self.prepare(now);
                Ok(answer)
            }
        }
    }

    fn add(&mut self, joining: Joining, id: StrBytes, now: Instant) -> Answer<Joined> {
        if self.members.is_empty() {
            self.protocol_type.clone_from(&joining.protocol_type);
        }
        self.members.insert(id.clone(), Member::new(joining, now));
        let answer = self.wait_to_join(&id);
        self.prepare(now);
        answer
    }

    /// Replaces a static member by one that rejoins with the same instance id (KIP-345).
    fn replace(
        &mut self,
        former: &StrBytes,
        joining: Joining,
        id: StrBytes,
        now: Instant,
    ) -> Answer<Joined> {
        let skips_assignment = joining.skips_assignment;
        let mut member = Member::new(joining, now);
        if let Some(mut old) = self.members.remove(former) {
            old.fence(ResponseError::FencedInstanceId);
            let is_same = old.protocols == member.protocols;
            member.assign(&old.assignment);
            self.members.insert(id.clone(), member);
            let former_leader = self.leader.clone();
            let was_leader = former_leader.as_ref() == Some(former);
            if was_leader {
                self.leader = Some(id.clone());
            }
            if self.state == State::Stable && is_same {
                let mut joined = self.joined(&id);
                if skips_assignment {
                    joined.skip_assignment = was_leader;
                } else {
                    // If another member is the leader, this one assigns nothing.
                    joined.members = Vec::new();
                    joined.leader = former_leader.unwrap_or_default();
                }
                return Answer::Now(Ok(joined));
            }
        } else {
            self.members.insert(id.clone(), member);
        }
        let answer = self.wait_to_join(&id);
        self.prepare(now);
        answer
    }

    fn accepts(&self, joining: &Joining) -> bool {
        let own = Some(&joining.member_id);
        joining.protocol_type == self.protocol_type
            && joining
                .protocols
                .iter()
                .any(|(name, _)| self.members.all_know(name, own))
    }

    fn wait_to_join(&mut self, id: &StrBytes) -> Answer<Joined> {
        let (sender, receiver) = oneshot::channel();
        if let Some(member) = self.members.get_mut(id) {
            member.joining = Some(sender);
        }
        Answer::Later(receiver)
    }

    /// Begins a rebalance, unless one is under way, and completes it if all members have joined.
    fn prepare(&mut self, now: Instant) {
        if self.state != State::PreparingRebalance {
            for member in self.members.values_mut() {
                member.assign(&[]);
                if let Some(syncing) = member.syncing.take() {
                    // The client may have disconnected.
                    let _ = syncing.send(Err(ResponseError::RebalanceInProgress));
                }
            }
            self.state = State::PreparingRebalance;
            let longest = self
                .members
                .values()
                .map(|member| member.rebalance_timeout)
                .max();
            self.rebalance_deadline = Some(now + longest.unwrap_or_default());
        }
        if self.members.values().all(|member| member.joining.is_some()) {
            self.complete(now);
        }
    }

    /// Completes a rebalance: members that have not joined are removed.
    fn complete(&mut self, now: Instant) {
        self.rebalance_deadline = None;
        // Static members stay until their session ends.
        let late = self.members.iter();
        let late: Vec<StrBytes> = late
            .filter(|(_, member)| member.joining.is_none() && member.instance_id.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in &late {
            self.members.remove(id);
        }
        if self.members.values().all(|member| member.joining.is_none()) && !self.members.is_empty()
        {
            // All members are static, and none has rejoined yet.
            self.rebalance_deadline = Some(now + Duration::from_secs(1));
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.state = State::Empty;
            (self.protocol, self.leader) = (None, None);
            return;
        }
        self.state = State::CompletingRebalance;
        self.protocol = self.chosen();
        let is_there = self.leader.as_ref().is_some_and(|leader| {
            self.members
                .get(leader)
                .is_some_and(|member| member.joining.is_some())
        });
        if !is_there {
            self.leader = self
                .members
                .iter()
                .find(|(_, member)| member.joining.is_some())
                .map(|(id, _)| id.clone());
        }
        let ids: Vec<StrBytes> = self.members.keys().cloned().collect();
        for id in ids {
            let joined = self.joined(&id);
            if let Some(member) = self.members.get_mut(&id) {
                member.deadline = now + member.session_timeout;
                if let Some(joining) = member.joining.take() {
                    let _ = joining.send(Ok(joined));
                }
            }
        }
    }

    /// The protocol that most members prefer, among those that all members support.
    fn chosen(&self) -> Option<StrBytes> {
        let mut votes: IndexMap<&StrBytes, usize> = IndexMap::new();
        for member in self.members.values() {
            let mut names = member.protocols.iter().map(|(name, _)| name);
            if let Some(name) = names.find(|name| self.members.all_know(name, None)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        votes
            .into_iter()
            .find(|(_, count)| *count == most)
            .map(|(name, _)| name.clone())
    }

    fn joined(&self, id: &StrBytes) -> Joined {
        let leader = self.leader.clone().unwrap_or_default();
        let members = match leader == *id {
            false => Vec::new(),
            true => self
                .members
                .iter()
                .map(|(id, member)| (id.clone(), member.instance_id.clone(), self.wishes(member)))
                .collect(),
        };
        Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader,
            member_id: id.clone(),
            members,
            skip_assignment: false,
        }
    }

    /// Returns the metadata that a member sent for the chosen protocol.
    pub(crate) fn wishes(&self, member: &Member) -> Bytes {
        member
            .protocols
            .iter()
            .find(|(name, _)| Some(name) == self.protocol.as_ref())
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    /// Stores the leader's assignment, or lets a member wait for it.
    pub(crate) fn sync(
        &mut self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
        generation: i32,
        mut assignments: HashMap<StrBytes, Bytes>,
        now: Instant,
    ) -> Answer<Assigned> {
        if let Err(error) = self.check(id, instance, Some(generation)) {
            return Answer::Now(Err(error));
        }
        self.touch(id, now);
        match self.state {
            State::Empty => Answer::Now(Err(ResponseError::UnknownMemberId)),
            State::PreparingRebalance => Answer::Now(Err(ResponseError::RebalanceInProgress)),
            State::Stable => Answer::Now(Ok(self.assigned(id))),
            State::CompletingRebalance if self.leader.as_ref() == Some(id) => {
                self.state = State::Stable;
                let ids: Vec<StrBytes> = self.members.keys().cloned().collect();
                for id in ids {
                    if let Some(member) = self.members.get_mut(&id) {
                        member.assign(&assignments.remove(&id).unwrap_or_default());
                    }
                    let answer = self.assigned(&id);
                    let syncing = self
                        .members
                        .get_mut(&id)
                        .and_then(|member| member.syncing.take());
                    if let Some(syncing) = syncing {
                        let _ = syncing.send(Ok(answer));
                    }
                }
                Answer::Now(Ok(self.assigned(id)))
            }
            State::CompletingRebalance => {
                let (sender, receiver) = oneshot::channel();
                if let Some(member) = self.members.get_mut(id) {
                    member.syncing = Some(sender);
                }
                Answer::Later(receiver)
            }
        }
    }

    fn assigned(&self, id: &StrBytes) -> Assigned {
        Assigned {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self
                .members
                .get(id)
                .map(|member| member.assignment.clone())
                .unwrap_or_default(),
        }
    }

    /// Records that a member is alive.
    pub(crate) fn heartbeat(
        &mut self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
        generation: i32,
        now: Instant,
    ) -> Result<(), ResponseError> {
        self.check(id, instance, Some(generation))?;
        self.touch(id, now);
        match self.state {
            State::PreparingRebalance => Err(ResponseError::RebalanceInProgress),
            State::Empty => Err(ResponseError::UnknownMemberId),
            State::CompletingRebalance | State::Stable => Ok(()),
        }
    }

    fn touch(&mut self, id: &StrBytes, now: Instant) {
        if let Some(member) = self.members.get_mut(id) {
            member.deadline = now + member.session_timeout;
        }
    }

    /// Refuses a member that is not in the group, or has another generation.
    pub(crate) fn check(
        &self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
        generation: Option<i32>,
    ) -> Result<(), ResponseError> {
        if let Some(instance) = instance {
            match self.members.of_instance(instance) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(known) if known != *id => return Err(ResponseError::FencedInstanceId),
                Some(_) => {}
            }
        }
        if !self.members.contains_key(id) {
            return Err(ResponseError::UnknownMemberId);
        }
        match generation.is_some_and(|generation| generation != self.generation) {
            true => Err(ResponseError::IllegalGeneration),
            false => Ok(()),
        }
    }

    /// Removes a member by its id, or a static member by its instance id.
    pub(crate) fn leave(
        &mut self,
        id: &StrBytes,
        instance: Option<&StrBytes>,
        now: Instant,
    ) -> Result<(), ResponseError> {
        let id = match instance.map(|instance| self.members.of_instance(instance)) {
            Some(None) => return Err(ResponseError::UnknownMemberId),
            Some(Some(known)) if !id.is_empty() && known != *id => {
                return Err(ResponseError::FencedInstanceId);
            }
            Some(Some(known)) => known,
            None => id.clone(),
        };
        if self.pending.remove(&id).is_some() {
            return Ok(());
        }
        if !self.members.contains_key(&id) {
            return Err(ResponseError::UnknownMemberId);
        }
        self.remove(&id, now);
        Ok(())
    }

    fn remove(&mut self, id: &StrBytes, now: Instant) {
        if let Some(mut member) = self.members.remove(id) {
            member.fence(ResponseError::UnknownMemberId);
        }
        if self.members.is_empty() {
            self.complete(now);
        } else {
            self.prepare(now);
        }
    }

    /// Removes members that were silent for too long, and completes a rebalance that took too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.pending.retain(|_, (deadline, _)| *deadline > now);
        let silent: Vec<StrBytes> = self
            .members
            .iter()
            .filter(|(_, member)| member.deadline <= now && !member.is_waiting())
            .map(|(id, _)| id.clone())
            .collect();
        for id in silent {
            self.remove(&id, now);
        }
        if self.state == State::PreparingRebalance
            && self
                .rebalance_deadline
                .is_some_and(|deadline| deadline <= now)
        {
            self.complete(now);
        }
    }

    /// Returns true if the group can be forgotten.
    pub(crate) fn is_gone(&self) -> bool {
        self.members.is_empty() && self.pending.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::base::memory::Memory;

    const SESSION: Duration = Duration::from_secs(10);
    const REBALANCE: Duration = Duration::from_secs(30);

    fn text(text: &str) -> StrBytes {
        text.to_owned().into()
    }

    fn joining(id: &str, instance: Option<&str>) -> Joining {
        Joining {
            member_id: text(id),
            instance_id: instance.map(text),
            client_id: "c".into(),
            host: "h".into(),
            session_timeout: SESSION,
            rebalance_timeout: REBALANCE,
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), Bytes::from_static(b"wishes"))],
            share: Memory::new(1 << 20).share(),
            takes_id_first: false,
            skips_assignment: true,
        }
    }

    type Waiting = oneshot::Receiver<Result<Joined, ResponseError>>;

    fn later(answer: Result<Answer<Joined>, NotJoined>) -> Waiting {
        match answer.unwrap() {
            Answer::Later(waiting) => waiting,
            Answer::Now(_) => panic!("it must wait"),
        }
    }

    fn now<T>(answer: Answer<T>) -> Result<T, ResponseError> {
        match answer {
            Answer::Now(found) => found,
            Answer::Later(_) => panic!("it must not wait"),
        }
    }

    /// A group with the members "a" and "b" that has an assignment.
    fn stable(at: Instant) -> Group {
        let mut group = Group::new();
        let mut first = later(group.join(joining("", None), text("a"), at));
        assert_eq!(first.try_recv().unwrap().unwrap().unwrap().generation, 1);
        let mut second = later(group.join(joining("", None), text("b"), at));
        assert!(second.try_recv().unwrap().is_none());
        let mut first = later(group.join(joining("a", None), StrBytes::new(), at));
        let (first, second) = (
            first.try_recv().unwrap().unwrap(),
            second.try_recv().unwrap().unwrap(),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!((first.generation, first.leader.as_str()), (2, "a"));
        assert_eq!((first.members.len(), second.members.len()), (2, 0));
        let waits = group.sync(&text("b"), None, 2, HashMap::new(), at);
        let assigned = ["a", "b"].map(|id| (text(id), Bytes::from(format!("of {id}"))));
        let own = now(group.sync(&text("a"), None, 2, assigned.into(), at)).unwrap();
        assert_eq!(own.assignment, "of a");
        let Answer::Later(mut waits) = waits else {
            panic!("it must wait for the leader")
        };
        assert_eq!(
            waits.try_recv().unwrap().unwrap().unwrap().assignment,
            "of b"
        );
        assert_eq!(group.state, State::Stable);
        group
    }

    #[test]
    fn members_join_are_assigned_and_send_heartbeats() {
        let at = Instant::now();
        let mut group = stable(at);
        assert_eq!(group.heartbeat(&text("a"), None, 2, at), Ok(()));
        let other = group.heartbeat(&text("a"), None, 1, at);
        assert_eq!(other, Err(ResponseError::IllegalGeneration));
        let other = group.heartbeat(&text("x"), None, 2, at);
        assert_eq!(other, Err(ResponseError::UnknownMemberId));
    }

    #[test]
    fn a_silent_member_is_out_and_the_others_join_again() {
        let at = Instant::now();
        let mut group = stable(at);
        let later_on = at + SESSION / 2;
        assert_eq!(group.heartbeat(&text("b"), None, 2, later_on), Ok(()));
        group.expire(at + SESSION);
        let told = group.heartbeat(&text("b"), None, 2, at + SESSION);
        assert_eq!(told, Err(ResponseError::RebalanceInProgress));
        let mut again = later(group.join(joining("b", None), StrBytes::new(), at + SESSION));
        let joined = again.try_recv().unwrap().unwrap().unwrap();
        assert_eq!((joined.generation, joined.leader.as_str()), (3, "b"));
    }

    #[test]
    fn a_member_that_does_not_join_in_time_holds_nobody_up_for_long() {
        let at = Instant::now();
        let mut group = stable(at);
        let mut waits = later(group.join(joining("", None), text("c"), at));
        assert_eq!(
            group.heartbeat(&text("a"), None, 2, at),
            Err(ResponseError::RebalanceInProgress)
        );
        group
            .members
            .values_mut()
            .for_each(|member| member.deadline = at + 2 * REBALANCE);
        group.expire(at + REBALANCE - Duration::from_millis(1));
        assert!(waits.try_recv().unwrap().is_none());
        group.expire(at + REBALANCE);
        let joined = waits.try_recv().unwrap().unwrap().unwrap();
        assert_eq!((joined.generation, joined.members.len()), (3, 1));
    }

    #[test]
    fn a_static_member_comes_back_without_a_rebalance() {
        let at = Instant::now();
        let mut group = Group::new();
        let mut first = later(group.join(joining("", Some("i")), text("a"), at));
        assert!(first.try_recv().unwrap().unwrap().is_ok());
        let assigned = HashMap::from([(text("a"), Bytes::from_static(b"all"))]);
        assert!(now(group.sync(&text("a"), Some(&text("i")), 1, assigned, at)).is_ok());
        let back = now(group.join(joining("", Some("i")), text("b"), at).unwrap()).unwrap();
        assert_eq!((back.generation, back.member_id.as_str()), (1, "b"));
        let own = now(group.sync(&text("b"), Some(&text("i")), 1, HashMap::new(), at)).unwrap();
        assert_eq!(own.assignment, "all");
        let former = group.heartbeat(&text("a"), Some(&text("i")), 1, at);
        assert_eq!(former, Err(ResponseError::FencedInstanceId));
    }

    #[test]
    fn a_member_that_leaves_is_out_at_once() {
        let at = Instant::now();
        let mut group = stable(at);
        assert_eq!(group.leave(&text("a"), None, at), Ok(()));
        assert_eq!(
            group.leave(&text("a"), None, at),
            Err(ResponseError::UnknownMemberId)
        );
        assert_eq!(group.leave(&text("b"), None, at), Ok(()));
        assert!(group.is_gone());
    }
}
