//! One group: a state machine without a clock. Callers pass the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_channel::oneshot;
use kafka_protocol::ResponseError;
use kafka_protocol::indexmap::IndexMap;

use crate::base::memory::Share;

/// The most members of a group.
const MOST_MEMBERS: usize = 1000;

/// Where a group stands (`ClassicGroupState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl State {
    /// The name that clients show.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// What a member learns when all have joined.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: String,
    pub(crate) member_id: String,
    /// For the leader, all members with their wishes.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
    /// Whether the leader has nothing to assign: a static one that came back (KIP-814).
    pub(crate) skip_assignment: bool,
}

/// What a member learns when the leader has assigned.
#[derive(Debug, Clone)]
pub(crate) struct Assigned {
    pub(crate) protocol_type: String,
    pub(crate) protocol: Option<String>,
    pub(crate) assignment: Bytes,
}

/// A member that joins.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) host: String,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Vec<(String, Bytes)>,
    /// The memory of what it sent.
    pub(crate) share: Share,
    /// Whether the client understands that it gets an id first (KIP-394).
    pub(crate) takes_id_first: bool,
    /// Whether the client understands that it has nothing to assign (KIP-814).
    pub(crate) skips_assignment: bool,
}

/// An answer that may come later.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    Now(Result<T, ResponseError>),
    Later(oneshot::Receiver<Result<T, ResponseError>>),
}

/// Why a member cannot join. The id is one that it was given.
#[derive(Debug)]
pub(crate) struct NotJoined {
    pub(crate) error: ResponseError,
    pub(crate) member_id: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) host: String,
    pub(crate) protocols: Vec<(String, Bytes)>,
    pub(crate) assignment: Bytes,
    session_timeout: Duration,
    rebalance_timeout: Duration,
    share: Share,
    deadline: Instant,
    joining: Option<oneshot::Sender<Result<Joined, ResponseError>>>,
    syncing: Option<oneshot::Sender<Result<Assigned, ResponseError>>>,
}

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) state: State,
    pub(crate) generation: i32,
    pub(crate) protocol_type: String,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: Option<String>,
    pub(crate) members: IndexMap<String, Member>,
    /// Ids that were given to members that have not come back yet.
    pending: HashMap<String, (Instant, Share)>,
    /// Until when the members of the last generation may join.
    rebalance_deadline: Option<Instant>,
}

impl Group {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Empty,
            generation: 0,
            protocol_type: String::new(),
            protocol: None,
            leader: None,
            members: IndexMap::new(),
            pending: HashMap::new(),
            rebalance_deadline: None,
        }
    }

    /// Lets a member join. `new_id` is for a member that has none.
    pub(crate) fn join(
        &mut self,
        joining: Joining,
        new_id: String,
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
            .and_then(|instance| self.member_of(instance));
        if former.is_none() && joining.instance_id.is_none() && joining.takes_id_first {
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
            match self.member_of(instance) {
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
        let Some(member) = self.members.get_mut(&id) else {
            return Err(NotJoined {
                error: ResponseError::UnknownMemberId,
                member_id: None,
            });
        };
        let is_same = member.protocols == joining.protocols;
        member.update(joining, now);
        match self.state {
            State::CompletingRebalance if is_same => Ok(Answer::Now(Ok(self.joined(&id)))),
            // A leader that joins again wants to assign again.
            State::Stable if is_same && !is_leader => Ok(Answer::Now(Ok(self.joined(&id)))),
            _ => {
                let answer = self.wait_to_join(&id);
                self.prepare(now);
                Ok(answer)
            }
        }
    }

    fn add(&mut self, joining: Joining, id: String, now: Instant) -> Answer<Joined> {
        if self.members.is_empty() {
            self.protocol_type.clone_from(&joining.protocol_type);
        }
        self.members.insert(id.clone(), Member::new(joining, now));
        let answer = self.wait_to_join(&id);
        self.prepare(now);
        answer
    }

    /// Replaces a static member by the one that came back with the same instance id (KIP-345).
    fn replace(
        &mut self,
        former: &str,
        joining: Joining,
        id: String,
        now: Instant,
    ) -> Answer<Joined> {
        let skips_assignment = joining.skips_assignment;
        let mut member = Member::new(joining, now);
        if let Some(mut old) = self.members.shift_remove(former) {
            old.fence(ResponseError::FencedInstanceId);
            let is_same = old.protocols == member.protocols;
            member.assignment = old.assignment;
            self.members.insert(id.clone(), member);
            let former_leader = self.leader.clone();
            let was_leader = former_leader.as_deref() == Some(former);
            if was_leader {
                self.leader = Some(id.clone());
            }
            if self.state == State::Stable && is_same {
                let mut joined = self.joined(&id);
                if skips_assignment {
                    joined.skip_assignment = was_leader;
                } else {
                    // A leader that is another member assigns nothing.
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
        joining.protocol_type == self.protocol_type
            && joining.protocols.iter().any(|(name, _)| {
                self.members.iter().all(|(id, member)| {
                    *id == joining.member_id
                        || member.protocols.iter().any(|(known, _)| known == name)
                })
            })
    }

    fn member_of(&self, instance: &str) -> Option<String> {
        self.members
            .iter()
            .find(|(_, member)| member.instance_id.as_deref() == Some(instance))
            .map(|(id, _)| id.clone())
    }

    fn wait_to_join(&mut self, id: &str) -> Answer<Joined> {
        let (sender, receiver) = oneshot::channel();
        if let Some(member) = self.members.get_mut(id) {
            member.joining = Some(sender);
        }
        Answer::Later(receiver)
    }

    /// Begins a rebalance, unless one has begun, and ends it if all have joined.
    fn prepare(&mut self, now: Instant) {
        if self.state != State::PreparingRebalance {
            for member in self.members.values_mut() {
                member.assignment = Bytes::new();
                if let Some(syncing) = member.syncing.take() {
                    // The client may be gone.
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

    /// Ends a rebalance: who has not joined is out.
    fn complete(&mut self, now: Instant) {
        self.rebalance_deadline = None;
        // Static members stay until their session ends.
        self.members
            .retain(|_, member| member.joining.is_some() || member.instance_id.is_some());
        if self.members.values().all(|member| member.joining.is_none()) && !self.members.is_empty()
        {
            // All of them are static, and none came back yet.
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
        let ids: Vec<String> = self.members.keys().cloned().collect();
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

    /// The protocol that most members like best, of those that all of them know.
    fn chosen(&self) -> Option<String> {
        let mut votes: IndexMap<&str, usize> = IndexMap::new();
        for member in self.members.values() {
            let known = member
                .protocols
                .iter()
                .map(|(name, _)| name.as_str())
                .find(|name| {
                    self.members
                        .values()
                        .all(|other| other.protocols.iter().any(|(known, _)| known == name))
                });
            if let Some(name) = known {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        votes
            .into_iter()
            .find(|(_, count)| *count == most)
            .map(|(name, _)| name.to_owned())
    }

    fn joined(&self, id: &str) -> Joined {
        let leader = self.leader.clone().unwrap_or_default();
        let members = match leader == id {
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
            member_id: id.to_owned(),
            members,
            skip_assignment: false,
        }
    }

    /// What a member wrote for the chosen protocol.
    pub(crate) fn wishes(&self, member: &Member) -> Bytes {
        member
            .protocols
            .iter()
            .find(|(name, _)| Some(name) == self.protocol.as_ref())
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    /// Takes the leader's assignment, or lets a member wait for it.
    pub(crate) fn sync(
        &mut self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        assignments: Vec<(String, Bytes)>,
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
            State::CompletingRebalance if self.leader.as_deref() == Some(id) => {
                let mut assigned: HashMap<String, Bytes> = assignments.into_iter().collect();
                self.state = State::Stable;
                let ids: Vec<String> = self.members.keys().cloned().collect();
                for id in ids {
                    if let Some(member) = self.members.get_mut(&id) {
                        let assignment = assigned.remove(&id).unwrap_or_default();
                        // Without memory, the member gets nothing, and joins again.
                        member.assignment = match member.share.grow(assignment.len()) {
                            true => Bytes::copy_from_slice(&assignment),
                            false => Bytes::new(),
                        };
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

    fn assigned(&self, id: &str) -> Assigned {
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

    /// Notes that a member lives.
    pub(crate) fn heartbeat(
        &mut self,
        id: &str,
        instance: Option<&str>,
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

    fn touch(&mut self, id: &str, now: Instant) {
        if let Some(member) = self.members.get_mut(id) {
            member.deadline = now + member.session_timeout;
        }
    }

    /// Refuses a member that is not in the group, or not in its generation.
    pub(crate) fn check(
        &self,
        id: &str,
        instance: Option<&str>,
        generation: Option<i32>,
    ) -> Result<(), ResponseError> {
        if let Some(instance) = instance {
            match self.member_of(instance) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(known) if known != id => return Err(ResponseError::FencedInstanceId),
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

    /// Removes a member, by its id or as a static one by its instance id.
    pub(crate) fn leave(
        &mut self,
        id: &str,
        instance: Option<&str>,
        now: Instant,
    ) -> Result<(), ResponseError> {
        let id = match instance.map(|instance| self.member_of(instance)) {
            Some(None) => return Err(ResponseError::UnknownMemberId),
            Some(Some(known)) if !id.is_empty() && known != id => {
                return Err(ResponseError::FencedInstanceId);
            }
            Some(Some(known)) => known,
            None => id.to_owned(),
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

    fn remove(&mut self, id: &str, now: Instant) {
        if let Some(mut member) = self.members.shift_remove(id) {
            member.fence(ResponseError::UnknownMemberId);
        }
        if self.members.is_empty() {
            self.complete(now);
        } else {
            self.prepare(now);
        }
    }

    /// Removes members that were silent too long, and ends a rebalance that took too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.pending.retain(|_, (deadline, _)| *deadline > now);
        let silent: Vec<String> = self
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

    /// Whether nothing of the group has to be remembered.
    pub(crate) fn is_gone(&self) -> bool {
        self.members.is_empty() && self.pending.is_empty()
    }
}

impl Member {
    fn new(joining: Joining, now: Instant) -> Self {
        Self {
            deadline: now + joining.session_timeout,
            instance_id: joining.instance_id,
            client_id: joining.client_id,
            host: joining.host,
            protocols: joining.protocols,
            session_timeout: joining.session_timeout,
            rebalance_timeout: joining.rebalance_timeout,
            share: joining.share,
            assignment: Bytes::new(),
            joining: None,
            syncing: None,
        }
    }

    fn update(&mut self, joining: Joining, now: Instant) {
        self.protocols = joining.protocols;
        self.share = joining.share;
        self.session_timeout = joining.session_timeout;
        self.rebalance_timeout = joining.rebalance_timeout;
        self.deadline = now + self.session_timeout;
    }

    /// Whether a client waits for an answer: it sends no heartbeats meanwhile.
    fn is_waiting(&self) -> bool {
        let joins = self
            .joining
            .as_ref()
            .is_some_and(|joining| !joining.is_canceled());
        joins
            || self
                .syncing
                .as_ref()
                .is_some_and(|syncing| !syncing.is_canceled())
    }

    /// Tells a client that waits that it is a member no longer.
    fn fence(&mut self, error: ResponseError) {
        if let Some(joining) = self.joining.take() {
            let _ = joining.send(Err(error));
        }
        if let Some(syncing) = self.syncing.take() {
            let _ = syncing.send(Err(error));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::base::memory::Memory;

    const SESSION: Duration = Duration::from_secs(10);
    const REBALANCE: Duration = Duration::from_secs(30);

    fn joining(id: &str, instance: Option<&str>) -> Joining {
        Joining {
            member_id: id.to_owned(),
            instance_id: instance.map(str::to_owned),
            client_id: "c".to_owned(),
            host: "h".to_owned(),
            session_timeout: SESSION,
            rebalance_timeout: REBALANCE,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), Bytes::from_static(b"wishes"))],
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

    /// A group of "a" and "b" that has an assignment.
    fn stable(at: Instant) -> Group {
        let mut group = Group::new();
        let mut first = later(group.join(joining("", None), "a".to_owned(), at));
        assert_eq!(first.try_recv().unwrap().unwrap().unwrap().generation, 1);
        let mut second = later(group.join(joining("", None), "b".to_owned(), at));
        assert!(second.try_recv().unwrap().is_none());
        let mut first = later(group.join(joining("a", None), String::new(), at));
        let (first, second) = (
            first.try_recv().unwrap().unwrap(),
            second.try_recv().unwrap().unwrap(),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!((first.generation, first.leader.as_str()), (2, "a"));
        assert_eq!((first.members.len(), second.members.len()), (2, 0));
        let waits = group.sync("b", None, 2, Vec::new(), at);
        let assigned = ["a", "b"].map(|id| (id.to_owned(), Bytes::from(format!("of {id}"))));
        let own = now(group.sync("a", None, 2, assigned.into(), at)).unwrap();
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
        assert_eq!(group.heartbeat("a", None, 2, at), Ok(()));
        let other = group.heartbeat("a", None, 1, at);
        assert_eq!(other, Err(ResponseError::IllegalGeneration));
        let other = group.heartbeat("x", None, 2, at);
        assert_eq!(other, Err(ResponseError::UnknownMemberId));
    }

    #[test]
    fn a_silent_member_is_out_and_the_others_join_again() {
        let at = Instant::now();
        let mut group = stable(at);
        let later_on = at + SESSION / 2;
        assert_eq!(group.heartbeat("b", None, 2, later_on), Ok(()));
        group.expire(at + SESSION);
        let told = group.heartbeat("b", None, 2, at + SESSION);
        assert_eq!(told, Err(ResponseError::RebalanceInProgress));
        let mut again = later(group.join(joining("b", None), String::new(), at + SESSION));
        let joined = again.try_recv().unwrap().unwrap().unwrap();
        assert_eq!((joined.generation, joined.leader.as_str()), (3, "b"));
    }

    #[test]
    fn a_member_that_does_not_join_in_time_holds_nobody_up_for_long() {
        let at = Instant::now();
        let mut group = stable(at);
        let mut waits = later(group.join(joining("", None), "c".to_owned(), at));
        assert_eq!(
            group.heartbeat("a", None, 2, at),
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
        let mut first = later(group.join(joining("", Some("i")), "a".to_owned(), at));
        assert!(first.try_recv().unwrap().unwrap().is_ok());
        let assigned = vec![("a".to_owned(), Bytes::from_static(b"all"))];
        assert!(now(group.sync("a", Some("i"), 1, assigned, at)).is_ok());
        let back = now(group
            .join(joining("", Some("i")), "b".to_owned(), at)
            .unwrap())
        .unwrap();
        assert_eq!((back.generation, back.member_id.as_str()), (1, "b"));
        let own = now(group.sync("b", Some("i"), 1, Vec::new(), at)).unwrap();
        assert_eq!(own.assignment, "all");
        let former = group.heartbeat("a", Some("i"), 1, at);
        assert_eq!(former, Err(ResponseError::FencedInstanceId));
    }

    #[test]
    fn a_member_that_leaves_is_out_at_once() {
        let at = Instant::now();
        let mut group = stable(at);
        assert_eq!(group.leave("a", None, at), Ok(()));
        assert_eq!(
            group.leave("a", None, at),
            Err(ResponseError::UnknownMemberId)
        );
        assert_eq!(group.leave("b", None, at), Ok(()));
        assert!(group.is_gone());
    }
}
