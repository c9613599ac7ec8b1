//! The members of a group of the classic protocol, and the replies that their clients wait for.

use std::collections::HashMap;
use std::ops::Deref;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_channel::oneshot;
use kafka_protocol::ResponseError;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;

use crate::base::memory::Share;

/// The answer to a member's JoinGroup once all members have joined.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    pub(crate) generation: i32,
    pub(crate) protocol_type: StrBytes,
    pub(crate) protocol: Option<StrBytes>,
    pub(crate) leader: StrBytes,
    pub(crate) member_id: StrBytes,
    /// For the leader: all members with their metadata.
    pub(crate) members: Vec<(StrBytes, Option<StrBytes>, Bytes)>,
    /// True if the leader does not have to assign partitions, because it is a static member that rejoins (KIP-814).
    pub(crate) skip_assignment: bool,
}

/// The answer to a member's SyncGroup once the leader has assigned.
#[derive(Debug, Clone)]
pub(crate) struct Assigned {
    pub(crate) protocol_type: StrBytes,
    pub(crate) protocol: Option<StrBytes>,
    pub(crate) assignment: Bytes,
}

/// A member that joins. Texts and bytes are copies: the request itself is not kept.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) member_id: StrBytes,
    pub(crate) instance_id: Option<StrBytes>,
    pub(crate) client_id: StrBytes,
    pub(crate) host: StrBytes,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol_type: StrBytes,
    /// The names are unique.
    pub(crate) protocols: Vec<(StrBytes, Bytes)>,
    /// The memory of all fields above.
    pub(crate) share: Share,
    /// True if the client supports getting an id first (KIP-394).
    pub(crate) takes_id_first: bool,
    /// True if the client supports skipping the assignment (KIP-814).
    pub(crate) skips_assignment: bool,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) instance_id: Option<StrBytes>,
    pub(crate) client_id: StrBytes,
    pub(crate) host: StrBytes,
    pub(crate) protocols: Vec<(StrBytes, Bytes)>,
    pub(crate) assignment: Bytes,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) deadline: Instant,
    pub(super) joining: Option<oneshot::Sender<Result<Joined, ResponseError>>>,
    pub(super) syncing: Option<oneshot::Sender<Result<Assigned, ResponseError>>>,
    share: Share,
}

impl Member {
    pub(super) fn new(joining: Joining, now: Instant) -> Self {
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

    /// Keeps a copy of an assignment in place of the previous one. If there is not enough memory, the member gets an
    /// empty assignment, and must rejoin.
    pub(super) fn assign(&mut self, assignment: &[u8]) {
        self.share.give_back(self.assignment.len());
        self.assignment = match self.share.grow(assignment.len()) {
            true => Bytes::copy_from_slice(assignment),
            false => Bytes::new(),
        };
    }

    /// Returns true if the client waits for an answer, during which it sends no heartbeats.
    pub(super) fn is_waiting(&self) -> bool {
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

    /// Answers a waiting client with an error, because it is no longer a member.
    pub(super) fn fence(&mut self, error: ResponseError) {
        if let Some(joining) = self.joining.take() {
            let _ = joining.send(Err(error));
        }
        if let Some(syncing) = self.syncing.take() {
            let _ = syncing.send(Err(error));
        }
    }
}

/// The members by id, in the order in which they joined. Maps hold the number of members that support each protocol,
/// and the member of each instance id. Without these maps, each request would compare all members, and delay other
/// clients.
#[derive(Debug, Default)]
pub(crate) struct Members {
    all: IndexMap<StrBytes, Member>,
    knowing: HashMap<StrBytes, usize>,
    instances: HashMap<StrBytes, StrBytes>,
}

impl Deref for Members {
    type Target = IndexMap<StrBytes, Member>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Members {
    pub(super) fn insert(&mut self, id: StrBytes, member: Member) {
        self.remove(&id);
        self.count(&member.protocols);
        if let Some(instance) = &member.instance_id {
            self.instances.insert(instance.clone(), id.clone());
        }
        self.all.insert(id, member);
    }

    pub(super) fn remove(&mut self, id: &StrBytes) -> Option<Member> {
        let member = self.all.shift_remove(id)?;
        self.discount(&member.protocols);
        if let Some(instance) = &member.instance_id
            && self.instances.get(instance) == Some(id)
        {
            self.instances.remove(instance);
        }
        Some(member)
    }

    /// Stores the data of a member that rejoins.
    pub(super) fn update(&mut self, id: &StrBytes, joining: Joining, now: Instant) {
        let Some(member) = self.all.get_mut(id) else {
            return;
        };
        // The memory of its assignment moves to the new share.
        let assignment = std::mem::take(&mut member.assignment);
        let before = std::mem::replace(&mut member.protocols, joining.protocols);
        member.share = joining.share;
        member.assign(&assignment);
        member.session_timeout = joining.session_timeout;
        member.rebalance_timeout = joining.rebalance_timeout;
        member.deadline = now + member.session_timeout;
        let after = member.protocols.clone();
        self.discount(&before);
        self.count(&after);
    }

    pub(super) fn get_mut(&mut self, id: &StrBytes) -> Option<&mut Member> {
        self.all.get_mut(id)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.all.values_mut()
    }

    /// The member with an instance id.
    pub(super) fn of_instance(&self, instance: &StrBytes) -> Option<StrBytes> {
        self.instances.get(instance).cloned()
    }

    /// Returns true if all members except `but` support a protocol.
    pub(super) fn all_know(&self, protocol: &StrBytes, but: Option<&StrBytes>) -> bool {
        let knowing = self.knowing.get(protocol).copied().unwrap_or(0);
        let left_out = but.and_then(|id| self.all.get(id));
        let knows = |member: &Member| member.protocols.iter().any(|(name, _)| name == protocol);
        let (of_one, one) = left_out.map_or((0, 0), |member| (knows(member).into(), 1));
        knowing - of_one == self.all.len() - one
    }

    fn count(&mut self, protocols: &[(StrBytes, Bytes)]) {
        for (name, _) in protocols {
            *self.knowing.entry(name.clone()).or_default() += 1;
        }
    }

    fn discount(&mut self, protocols: &[(StrBytes, Bytes)]) {
        for (name, _) in protocols {
            if let Some(count) = self.knowing.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.knowing.remove(name);
                }
            }
        }
    }
}
