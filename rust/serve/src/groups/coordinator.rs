//! The requests of groups and their answers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{
    DescribeGroupsRequest, DescribeGroupsResponse, GroupId, HeartbeatRequest, HeartbeatResponse,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest,
    ListGroupsResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::base::directory::{Commit, Directory, Refusal, Topics};
use crate::base::memory::{Memory, Share};
use crate::base::sync::lock;
use crate::groups::commits::{ByPartition, Commits, copied};
use crate::groups::consumer_group::ConsumerGroup;
use crate::groups::group::{Answer, Group, NotJoined, State};
use crate::groups::members::{Assigned, Joined, Joining};
use crate::protocol::operations::ON_GROUPS;

/// The maximum number of groups with members.
pub(super) const MOST_GROUPS: usize = 10_000;
/// The defaults of `group.min.session.timeout.ms` and `group.max.session.timeout.ms` on a broker.
const SESSION_MS: std::ops::RangeInclusive<i32> = 6_000..=1_800_000;
/// The maximum number of protocols of a member. Clients have two or three.
const MOST_PROTOCOLS: usize = 64;
/// The memory of a member, and of each of its protocols, besides the bytes that the member sent.
pub(super) const OF_MEMBER: usize = 1024;
const OF_PROTOCOL: usize = 256;
/// The memory of a group, or of a member, in a response, besides its texts.
pub(super) const OF_RESPONSE: usize = 512;
/// The maximum size of a group's id in bytes. The id is in each line of the file of commits. A broker accepts 32 KB.
pub(super) const MOST_OF_ID: usize = 1024;
/// The type of the protocol of consumers.
const CONSUMER: StrBytes = StrBytes::from_static_str("consumer");
/// The maximum size of the metadata of a commit, as a broker's `offset.metadata.max.bytes`.
const MOST_METADATA: usize = 4096;
/// All groups.
pub(crate) struct Coordinator {
    pub(super) memory: Arc<Memory>,
    groups: Mutex<HashMap<StrBytes, Group>>,
    pub(super) consumer_groups: Mutex<HashMap<StrBytes, ConsumerGroup>>,
    pub(crate) commits: Commits,
    ids: AtomicU64,
}

impl Coordinator {
    pub(crate) fn new(commits: Commits, memory: &Arc<Memory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            groups: Mutex::default(),
            consumer_groups: Mutex::default(),
            commits,
            ids: AtomicU64::new(0),
        }
    }

    /// Ends overdue rebalances, removes overdue members, and forgets groups without members.
    pub(crate) fn expire(&self, now: Instant) {
        lock(&self.groups).retain(|_, group| {
            group.expire(now);
            !group.is_gone()
        });
        lock(&self.consumer_groups).retain(|_, group| {
            group.expire(now);
            !group.members.is_empty()
        });
    }

    /// Returns true if a group has members of the classic protocol.
    pub(super) fn has_classic_members(&self, group: &StrBytes) -> bool {
        let groups = lock(&self.groups);
        groups.get(group).is_some_and(|group| !group.is_gone())
    }

    /// Calls `work` with a group that has members.
    fn known<T>(
        &self,
        group: &GroupId,
        work: impl FnOnce(&mut Group) -> Result<T, ResponseError>,
    ) -> Result<T, ResponseError> {
        check_id(group)?;
        match lock(&self.groups).get_mut(&**group) {
            Some(group) => work(group),
            None => Err(ResponseError::UnknownMemberId),
        }
    }

    fn new_id(&self, client_id: &str) -> StrBytes {
        // Random, so that ids of an earlier run are not mistaken for those of this one.
        let number = self.ids.fetch_add(1, Ordering::Relaxed);
        let unique = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), number);
        format!("{client_id}-{unique:016x}{number:08x}").into()
    }

    /// Adds a member to a group. `share` takes the memory of the reply, which is sent when all members have joined.
    pub(crate) fn join(
        &self,
        request: &JoinGroupRequest,
        version: i16,
        client_id: &StrBytes,
        host: &str,
        share: Arc<Share>,
    ) -> impl Future<Output = JoinGroupResponse> + Send + use<> {
        let begun = self.begin_to_join(request, version, client_id, host);
        let member_id = copied(&request.member_id);
        async move {
            let joined = match begun {
                Ok(Answer::Now(joined)) => joined,
                Ok(Answer::Later(joined)) => {
                    joined.await.unwrap_or(Err(ResponseError::UnknownMemberId))
                }
                Err(not) => return not_joined(not, version, member_id),
            };
            let joined = joined.and_then(|joined| {
                let members = joined.members.iter();
                let sizes = members.map(|(id, instance, metadata)| {
                    let instance = instance.as_ref().map_or(0, |instance| instance.len());
                    OF_RESPONSE + id.len() + instance + metadata.len()
                });
                match share.grow(sizes.sum()) {
                    true => Ok(joined),
                    false => Err(ResponseError::CoordinatorNotAvailable),
                }
            });
            match joined {
                Ok(joined) => join_response(joined, version),
                Err(error) => {
                    let not = NotJoined {
                        error,
                        member_id: None,
                    };
                    not_joined(not, version, member_id)
                }
            }
        }
    }

    fn begin_to_join(
        &self,
        request: &JoinGroupRequest,
        version: i16,
        client_id: &StrBytes,
        host: &str,
    ) -> Result<Answer<Joined>, NotJoined> {
        let refuse = |error| NotJoined {
            error,
            member_id: None,
        };
        check_id(&request.group_id).map_err(refuse)?;
        if !SESSION_MS.contains(&request.session_timeout_ms) {
            return Err(refuse(ResponseError::InvalidSessionTimeout));
        }
        if request.protocols.len() > MOST_PROTOCOLS {
            return Err(refuse(ResponseError::InconsistentGroupProtocol));
        }
        let rebalance_ms = match version {
            0 => request.session_timeout_ms,
            _ => request.rebalance_timeout_ms,
        };
        let share = self.memory.share();
        let instance_id = request.group_instance_id.as_ref();
        // Member ids begin with the client's id.
        let given = instance_id.map_or(client_id.len(), |id| 2 * id.len());
        let texts = [
            &request.group_id,
            &request.member_id,
            client_id,
            &request.protocol_type,
        ];
        let texts = texts.iter().map(|text| text.len()).sum::<usize>();
        let sent = request.protocols.iter();
        let sent = sent.map(|one| OF_PROTOCOL + 2 * one.name.len() + one.metadata.len());
        if !share.grow(OF_MEMBER + 2 * (given + texts) + sent.sum::<usize>()) {
            return Err(refuse(ResponseError::CoordinatorNotAvailable));
        }
        let mut names = HashSet::new();
        let unique = request.protocols.iter();
        let unique = unique.filter(|one| names.insert(&one.name));
        let joining = Joining {
            member_id: copied(&request.member_id),
            instance_id: instance_id.map(copied),
            client_id: copied(client_id),
            host: host.to_owned().into(),
            session_timeout: ms(request.session_timeout_ms),
            rebalance_timeout: ms(rebalance_ms.max(0)),
            protocol_type: copied(&request.protocol_type),
            protocols: unique
                .map(|one| (copied(&one.name), Bytes::copy_from_slice(&one.metadata)))
                .collect(),
            share,
            takes_id_first: version >= 4,
            skips_assignment: version >= 9,
        };
        if lock(&self.consumer_groups).contains_key(&*request.group_id) {
            return Err(refuse(ResponseError::InconsistentGroupProtocol));
        }
        let id = self.new_id(joining.instance_id.as_ref().unwrap_or(client_id));
        let mut groups = lock(&self.groups);
        let is_new = !groups.contains_key(&*request.group_id);
        if is_new && (!request.member_id.is_empty() || groups.len() >= MOST_GROUPS) {
            return Err(refuse(match request.member_id.is_empty() {
                true => ResponseError::CoordinatorNotAvailable,
                false => ResponseError::UnknownMemberId,
            }));
        }
        let group = groups
            .entry(copied(&request.group_id))
            .or_insert_with(Group::new);
        let begun = group.join(joining, id, Instant::now());
        if group.is_gone() {
            groups.remove(&*request.group_id);
        }
        begun
    }

    /// Stores the leader's assignment, or lets a member wait for it.
    pub(crate) fn sync(
        &self,
        request: &SyncGroupRequest,
        version: i16,
    ) -> impl Future<Output = SyncGroupResponse> + Send + use<> {
        let begun = self.begin_to_sync(request, version);
        async move {
            let found: Result<Assigned, ResponseError> = match begun {
                Ok(Answer::Now(found)) => found,
                Ok(Answer::Later(found)) => {
                    found.await.unwrap_or(Err(ResponseError::UnknownMemberId))
                }
                Err(error) => Err(error),
            };
            match found {
                Err(error) => SyncGroupResponse::default().with_error_code(error.code()),
                Ok(found) => {
                    let response = SyncGroupResponse::default().with_assignment(found.assignment);
                    match version >= 5 {
                        false => response,
                        true => response
                            .with_protocol_type(Some(found.protocol_type))
                            .with_protocol_name(found.protocol),
                    }
                }
            }
        }
    }

    fn begin_to_sync(
        &self,
        request: &SyncGroupRequest,
        version: i16,
    ) -> Result<Answer<Assigned>, ResponseError> {
        let is_missing = request.protocol_type.is_none() || request.protocol_name.is_none();
        if version >= 5 && is_missing {
            return Err(ResponseError::InconsistentGroupProtocol);
        }
        let assignments = request.assignments.iter();
        let assignments = assignments.map(|one| (one.member_id.clone(), one.assignment.clone()));
        let assignments = assignments.collect();
        self.known(&request.group_id, |group| {
            let differs = |wanted: &Option<StrBytes>, known: Option<&StrBytes>| {
                wanted.is_some() && wanted.as_ref() != known
            };
            if differs(&request.protocol_type, Some(&group.protocol_type))
                || differs(&request.protocol_name, group.protocol.as_ref())
            {
                return Err(ResponseError::InconsistentGroupProtocol);
            }
            Ok(group.sync(
                &request.member_id,
                request.group_instance_id.as_ref(),
                request.generation_id,
                assignments,
                Instant::now(),
            ))
        })
    }

    pub(crate) fn heartbeat(&self, request: &HeartbeatRequest) -> HeartbeatResponse {
        let answer = self.known(&request.group_id, |group| {
            group.heartbeat(
                &request.member_id,
                request.group_instance_id.as_ref(),
                request.generation_id,
                Instant::now(),
            )
        });
        HeartbeatResponse::default().with_error_code(code(answer))
    }

    pub(crate) fn leave(&self, request: &LeaveGroupRequest, version: i16) -> LeaveGroupResponse {
        let leave = |id: &StrBytes, instance: Option<&StrBytes>| {
            code(self.known(&request.group_id, |group| {
                group.leave(id, instance, Instant::now())
            }))
        };
        if version < 3 {
            return LeaveGroupResponse::default().with_error_code(leave(&request.member_id, None));
        }
        if let Err(error) = check_id(&request.group_id) {
            return LeaveGroupResponse::default().with_error_code(error.code());
        }
        let members = request.members.iter().map(|member| {
            MemberResponse::default()
                .with_member_id(member.member_id.clone())
                .with_group_instance_id(member.group_instance_id.clone())
                .with_error_code(leave(&member.member_id, member.group_instance_id.as_ref()))
        });
        LeaveGroupResponse::default().with_members(members.collect())
    }

    /// Commits offsets. This blocks. `share` is the memory of the request.
    pub(crate) fn commit(
        &self,
        directory: &dyn Directory,
        topics: &Topics,
        request: &OffsetCommitRequest,
        version: i16,
        share: &Share,
    ) -> Result<OffsetCommitResponse, Refusal> {
        let mut commits = ByPartition::new();
        let mut response: Vec<OffsetCommitResponseTopic> = request
            .topics
            .iter()
            .map(|topic| {
                let partitions = topic.partitions.iter().map(|one| {
                    let metadata = one.committed_metadata.clone().unwrap_or_default();
                    let error = match topics.check(&topic.name, one.partition_index) {
                        Err(refusal) => refusal.error.code(),
                        Ok(()) if is_too_long(&metadata) => {
                            ResponseError::OffsetMetadataTooLarge.code()
                        }
                        Ok(()) => {
                            let commit = Commit {
                                offset: one.committed_offset,
                                leader_epoch: one.committed_leader_epoch,
                                metadata,
                            };
                            // Of several commits for one partition, the last one counts.
                            commits.insert((topic.name.0.clone(), one.partition_index), commit);
                            0
                        }
                    };
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(one.partition_index)
                        .with_error_code(error)
                });
                OffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            })
            .collect();
        let protocol_type = self.commits.protocol_type(directory, &request.group_id)?;
        let kept = self
            .check_commit(request, version, protocol_type.is_some())
            .and_then(|protocol_type| {
                let group = &request.group_id;
                self.commits
                    .commit(directory, group, protocol_type, &commits, share)
                    .map_err(|refusal| {
                        directory.problem(&refusal.message);
                        refusal.error
                    })
            });
        if let Err(error) = kept {
            let partitions = response
                .iter_mut()
                .flat_map(|topic| topic.partitions.iter_mut());
            for one in partitions
                .filter(|one| one.error_code != ResponseError::UnknownTopicOrPartition.code())
            {
                one.error_code = error.code();
            }
        }
        Ok(OffsetCommitResponse::default().with_topics(response))
    }

    /// Checks that the client may commit for the group. Returns the type of the members' protocol, if the group has
    /// members.
    ///
    /// The rules are those of `OffsetMetadataManager.validateOffsetCommit`.
    fn check_commit(
        &self,
        request: &OffsetCommitRequest,
        version: i16,
        is_known: bool,
    ) -> Result<Option<StrBytes>, ResponseError> {
        if request.group_id.len() > MOST_OF_ID {
            return Err(ResponseError::InvalidGroupId);
        }
        let generation = request.generation_id_or_member_epoch;
        if let Some(group) = lock(&self.consumer_groups).get(&*request.group_id) {
            return group
                .check(&request.member_id, generation)
                .map(|()| Some(CONSUMER));
        }
        let instance = request.group_instance_id.as_ref();
        match lock(&self.groups).get(&*request.group_id) {
            Some(group) if !group.members.is_empty() => {
                if generation < 0 && request.member_id.is_empty() && instance.is_none() {
                    // Other clients may not commit for partitions that the group has assigned.
                    return Err(ResponseError::UnknownMemberId);
                }
                group.check(&request.member_id, instance, Some(generation))?;
                match group.state {
                    State::CompletingRebalance => Err(ResponseError::RebalanceInProgress),
                    _ => Ok(Some(group.protocol_type.clone())),
                }
            }
            _ if generation < 0 => Ok(None),
            Some(_) => Err(ResponseError::UnknownMemberId),
            None if is_known => Err(ResponseError::UnknownMemberId),
            None if version >= 9 => Err(ResponseError::GroupIdNotFound),
            None => Err(ResponseError::IllegalGeneration),
        }
    }

    /// Returns committed offsets. This blocks. `share` takes the memory of the reply.
    pub(crate) fn committed(
        &self,
        directory: &dyn Directory,
        request: &OffsetFetchRequest,
        version: i16,
        share: &Share,
    ) -> Result<OffsetFetchResponse, Refusal> {
        let find = |group: &GroupId, wanted| {
            let is_stable = request.require_stable;
            self.commits
                .of_group(directory, group, wanted, is_stable, share)
        };
        if version < 8 {
            let wanted = request.topics.as_ref().map(|topics| {
                topics
                    .iter()
                    .map(|topic| (topic.name.0.clone(), topic.partition_indexes.as_slice()))
                    .collect()
            });
            let topics = find(&request.group_id, wanted)?
                .into_iter()
                .map(|(name, partitions)| {
                    let partitions = partitions.into_iter().map(|(partition, commit, error)| {
                        let response = OffsetFetchResponsePartition::default()
                            .with_partition_index(partition)
                            .with_error_code(error)
                            .with_committed_offset(commit.offset)
                            .with_metadata(Some(commit.metadata));
                        match version < 5 {
                            true => response,
                            false => response.with_committed_leader_epoch(commit.leader_epoch),
                        }
                    });
                    OffsetFetchResponseTopic::default()
                        .with_name(name.into())
                        .with_partitions(partitions.collect())
                });
            return Ok(OffsetFetchResponse::default().with_topics(topics.collect()));
        }
        let mut groups = Vec::with_capacity(request.groups.len());
        let mut asked = HashSet::new();
        let unique = request.groups.iter();
        for group in unique.filter(|group| asked.insert(&group.group_id)) {
            let wanted = group.topics.as_ref().map(|topics| {
                topics
                    .iter()
                    .map(|topic| (topic.name.0.clone(), topic.partition_indexes.as_slice()))
                    .collect()
            });
            let topics = find(&group.group_id, wanted)?
                .into_iter()
                .map(|(name, partitions)| {
                    let partitions = partitions.into_iter().map(|(partition, commit, error)| {
                        OffsetFetchResponsePartitions::default()
                            .with_partition_index(partition)
                            .with_error_code(error)
                            .with_committed_offset(commit.offset)
                            .with_committed_leader_epoch(commit.leader_epoch)
                            .with_metadata(Some(commit.metadata))
                    });
                    OffsetFetchResponseTopics::default()
                        .with_name(name.into())
                        .with_partitions(partitions.collect())
                });
            groups.push(
                OffsetFetchResponseGroup::default()
                    .with_group_id(group.group_id.clone())
                    .with_topics(topics.collect()),
            );
        }
        Ok(OffsetFetchResponse::default().with_groups(groups))
    }

    /// Returns all groups. This blocks. `share` takes the memory of the reply.
    pub(crate) fn list(
        &self,
        directory: &dyn Directory,
        request: &ListGroupsRequest,
        version: i16,
        share: &Share,
    ) -> Result<ListGroupsResponse, Refusal> {
        let idle = self.commits.groups(directory, share)?;
        let mut live: Vec<GroupState> = lock(&self.groups).iter().map(classic_state).collect();
        live.extend(lock(&self.consumer_groups).iter().map(consumer_state));
        let sizes = live.iter();
        let sizes = sizes.map(|(name, of, ..)| OF_RESPONSE + name.len() + of.len());
        if !share.grow(sizes.sum()) {
            return Err(Refusal::no_memory());
        }
        let names: HashSet<StrBytes> = live.iter().map(|(name, ..)| name.clone()).collect();
        let idle = idle
            .into_iter()
            .filter(|(name, _)| !names.contains(name))
            .map(|(name, of)| (name, of, State::Empty.name(), "classic"));
        let (states, types) = (
            lower_case(&request.states_filter),
            lower_case(&request.types_filter),
        );
        let is_wanted = |filter: &HashSet<String>, name: &str| {
            filter.is_empty() || filter.contains(&name.to_ascii_lowercase())
        };
        let groups = live
            .into_iter()
            .chain(idle)
            .filter(|(_, _, state, _)| is_wanted(&states, state))
            .filter(|(_, _, _, kind)| is_wanted(&types, kind))
            .map(|(name, protocol_type, state, kind)| {
                let listed = ListedGroup::default()
                    .with_group_id(GroupId(name))
                    .with_protocol_type(protocol_type);
                match version {
                    ..4 => listed,
                    4 => listed.with_group_state(StrBytes::from_static_str(state)),
                    _ => listed
                        .with_group_state(StrBytes::from_static_str(state))
                        .with_group_type(StrBytes::from_static_str(kind)),
                }
            })
            .collect();
        Ok(ListGroupsResponse::default().with_groups(groups))
    }

    /// Returns groups with their members. This blocks. `share` takes the memory of the reply.
    pub(crate) fn describe(
        &self,
        directory: &dyn Directory,
        request: &DescribeGroupsRequest,
        version: i16,
        share: &Share,
    ) -> Result<DescribeGroupsResponse, Refusal> {
        let mut asked = HashSet::new();
        let unique = request.groups.iter().filter(|id| asked.insert(*id));
        let groups = unique.map(|id| {
            let described = DescribedGroup::default().with_group_id(id.clone());
            let described = match request.include_authorized_operations {
                false => described,
                true => described.with_authorized_operations(ON_GROUPS),
            };
            let live = lock(&self.groups);
            if let Some(group) = live.get(&**id).filter(|group| !group.members.is_empty()) {
                return described_live(described, group, version, share);
            }
            drop(live);
            if let Some(protocol_type) = self.commits.protocol_type(directory, id)? {
                return Ok(described
                    .with_group_state(StrBytes::from_static_str(State::Empty.name()))
                    .with_protocol_type(protocol_type));
            }
            let dead = described.with_group_state(StrBytes::from_static_str("Dead"));
            Ok(match version >= 6 {
                false => dead,
                true => dead
                    .with_error_code(ResponseError::GroupIdNotFound.code())
                    .with_error_message(Some(StrBytes::from_string(format!(
                        "Group {} not found.",
                        id.as_str()
                    )))),
            })
        });
        let groups = groups.collect::<Result<_, Refusal>>()?;
        Ok(DescribeGroupsResponse::default().with_groups(groups))
    }
}

/// A group's name, the type of its protocol, its state and its kind.
type GroupState = (StrBytes, StrBytes, &'static str, &'static str);

fn classic_state((name, group): (&StrBytes, &Group)) -> GroupState {
    (
        name.clone(),
        group.protocol_type.clone(),
        group.state.name(),
        "classic",
    )
}

fn consumer_state((name, group): (&StrBytes, &ConsumerGroup)) -> GroupState {
    (name.clone(), CONSUMER, group.state(), "consumer")
}

fn lower_case(filter: &[StrBytes]) -> HashSet<String> {
    filter
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect()
}

/// Describes a group that has members.
fn described_live(
    described: DescribedGroup,
    group: &Group,
    version: i16,
    share: &Share,
) -> Result<DescribedGroup, Refusal> {
    let members = group.members.iter().map(|(id, member)| {
        let metadata = match group.state {
            State::Stable => group.wishes(member),
            _ => Bytes::new(),
        };
        let instance = member.instance_id.as_ref().map_or(0, |id| id.len());
        let texts = id.len() + instance + member.client_id.len();
        if !share.grow(OF_RESPONSE + texts + metadata.len() + member.assignment.len()) {
            return Err(Refusal::no_memory());
        }
        let described = DescribedGroupMember::default()
            .with_member_id(id.clone())
            .with_client_id(member.client_id.clone())
            .with_client_host(StrBytes::from_string(format!("/{}", member.host)))
            .with_member_metadata(metadata)
            .with_member_assignment(member.assignment.clone());
        Ok(match version >= 4 {
            false => described,
            true => described.with_group_instance_id(member.instance_id.clone()),
        })
    });
    let members = members.collect::<Result<_, _>>()?;
    Ok(described
        .with_group_state(StrBytes::from_static_str(group.state.name()))
        .with_protocol_type(group.protocol_type.clone())
        .with_protocol_data(match (group.state, &group.protocol) {
            (State::Stable, Some(protocol)) => protocol.clone(),
            _ => StrBytes::new(),
        })
        .with_members(members))
}

fn not_joined(not: NotJoined, version: i16, member_id: StrBytes) -> JoinGroupResponse {
    let response = JoinGroupResponse::default()
        .with_error_code(not.error.code())
        .with_generation_id(-1)
        .with_member_id(not.member_id.unwrap_or(member_id));
    match version >= 7 {
        true => response.with_protocol_name(None),
        false => response.with_protocol_name(Some(StrBytes::new())),
    }
}

fn join_response(joined: Joined, version: i16) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|(id, instance, metadata)| {
        let member = JoinGroupResponseMember::default()
            .with_member_id(id)
            .with_metadata(metadata);
        match version >= 5 {
            false => member,
            true => member.with_group_instance_id(instance),
        }
    });
    let response = JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_name(joined.protocol)
        .with_leader(joined.leader)
        .with_member_id(joined.member_id)
        .with_members(members.collect());
    let response = match version >= 7 {
        false => response,
        true => response.with_protocol_type(Some(joined.protocol_type)),
    };
    match version >= 9 {
        false => response,
        true => response.with_skip_assignment(joined.skip_assignment),
    }
}

/// Returns true if the metadata of a commit are longer than a broker accepts. A broker counts Java's characters.
fn is_too_long(metadata: &str) -> bool {
    metadata.len() > MOST_METADATA && metadata.encode_utf16().count() > MOST_METADATA
}

fn check_id(group: &GroupId) -> Result<(), ResponseError> {
    match group.is_empty() || group.len() > MOST_OF_ID {
        true => Err(ResponseError::InvalidGroupId),
        false => Ok(()),
    }
}

fn code(answer: Result<(), ResponseError>) -> i16 {
    answer.err().map_or(0, |error| error.code())
}

pub(super) fn ms(count: i32) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or(0))
}
