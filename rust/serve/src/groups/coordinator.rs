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
    OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::base::directory::{Commit, Directory, Refusal, Topics};
use crate::base::memory::{Memory, Share};
use crate::base::sync::lock;
use crate::groups::commits::{Commits, OF_COMMIT};
use crate::groups::consumer_group::ConsumerGroup;
use crate::groups::group::{Answer, Assigned, Group, Joined, Joining, NotJoined, State};
use crate::protocol::operations::ON_GROUPS;

/// The most groups with members.
pub(super) const MOST_GROUPS: usize = 10_000;
/// As `group.min.session.timeout.ms` and `group.max.session.timeout.ms` of a broker.
const SESSION_MS: std::ops::RangeInclusive<i32> = 6_000..=1_800_000;
/// The memory of a member, and of each protocol that it knows, besides what it sent.
pub(super) const OF_MEMBER: usize = 1024;
const OF_PROTOCOL: usize = 64;
/// As `offset.metadata.max.bytes` of a broker.
const MOST_METADATA: usize = 4096;
/// What is committed for the partitions of a topic, each with an error.
type OfTopic = (TopicName, Vec<(i32, Commit, i16)>);

/// All groups.
pub(crate) struct Coordinator {
    pub(super) memory: Arc<Memory>,
    groups: Mutex<HashMap<String, Group>>,
    pub(super) consumer_groups: Mutex<HashMap<String, ConsumerGroup>>,
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

    /// Ends what took too long, and forgets groups without members.
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

    /// Whether a group has members of the classic protocol.
    pub(super) fn has_classic_members(&self, group: &str) -> bool {
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
        match lock(&self.groups).get_mut(group.as_str()) {
            Some(group) => work(group),
            None => Err(ResponseError::UnknownMemberId),
        }
    }

    fn new_id(&self, client_id: &str) -> String {
        // Ids of an earlier run must not be mistaken for those of this one.
        let number = self.ids.fetch_add(1, Ordering::Relaxed);
        let unique = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), number);
        format!("{client_id}-{unique:016x}{number:08x}")
    }

    pub(crate) async fn join(
        &self,
        request: &JoinGroupRequest,
        version: i16,
        client_id: &str,
        host: &str,
    ) -> JoinGroupResponse {
        let refused = |not: NotJoined| {
            let response = JoinGroupResponse::default()
                .with_error_code(not.error.code())
                .with_generation_id(-1)
                .with_member_id(
                    not.member_id
                        .map_or_else(|| request.member_id.clone(), StrBytes::from_string),
                );
            match version >= 7 {
                true => response.with_protocol_name(None),
                false => response.with_protocol_name(Some(StrBytes::new())),
            }
        };
        let answer = match self.begin_to_join(request, version, client_id, host) {
            Ok(answer) => answer,
            Err(not) => return refused(not),
        };
        let joined = match answer {
            Answer::Now(joined) => joined,
            Answer::Later(joined) => joined.await.unwrap_or(Err(ResponseError::UnknownMemberId)),
        };
        match joined {
            Ok(joined) => join_response(joined, version),
            Err(error) => refused(NotJoined {
                error,
                member_id: None,
            }),
        }
    }

    fn begin_to_join(
        &self,
        request: &JoinGroupRequest,
        version: i16,
        client_id: &str,
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
        let rebalance_ms = match version {
            0 => request.session_timeout_ms,
            _ => request.rebalance_timeout_ms,
        };
        let mut share = self.memory.share();
        let sent = request.protocols.iter();
        let sent = sent.map(|one| OF_PROTOCOL + one.name.len() + one.metadata.len());
        if !share.grow(OF_MEMBER + sent.sum::<usize>()) {
            return Err(refuse(ResponseError::CoordinatorNotAvailable));
        }
        let joining = Joining {
            member_id: request.member_id.to_string(),
            instance_id: request.group_instance_id.as_ref().map(ToString::to_string),
            client_id: client_id.to_owned(),
            host: host.to_owned(),
            session_timeout: ms(request.session_timeout_ms),
            rebalance_timeout: ms(rebalance_ms.max(0)),
            protocol_type: request.protocol_type.to_string(),
            protocols: request
                .protocols
                .iter()
                // A copy: the request itself is not kept.
                .map(|one| (one.name.to_string(), Bytes::copy_from_slice(&one.metadata)))
                .collect(),
            share,
            takes_id_first: version >= 4,
            skips_assignment: version >= 9,
        };
        if lock(&self.consumer_groups).contains_key(request.group_id.as_str()) {
            return Err(refuse(ResponseError::InconsistentGroupProtocol));
        }
        let mut groups = lock(&self.groups);
        let is_new = !groups.contains_key(request.group_id.as_str());
        if is_new && (!request.member_id.is_empty() || groups.len() >= MOST_GROUPS) {
            return Err(refuse(match request.member_id.is_empty() {
                true => ResponseError::CoordinatorNotAvailable,
                false => ResponseError::UnknownMemberId,
            }));
        }
        let group = groups
            .entry(request.group_id.to_string())
            .or_insert_with(Group::new);
        let id = match &joining.instance_id {
            Some(instance) => self.new_id(instance),
            None => self.new_id(client_id),
        };
        group.join(joining, id, Instant::now())
    }

    pub(crate) async fn sync(&self, request: &SyncGroupRequest, version: i16) -> SyncGroupResponse {
        let is_missing = request.protocol_type.is_none() || request.protocol_name.is_none();
        if version >= 5 && is_missing {
            return SyncGroupResponse::default()
                .with_error_code(ResponseError::InconsistentGroupProtocol.code());
        }
        let begun = self.known(&request.group_id, |group| {
            let differs = |wanted: &Option<StrBytes>, known: Option<&str>| {
                wanted
                    .as_deref()
                    .is_some_and(|wanted| Some(wanted) != known)
            };
            if differs(&request.protocol_type, Some(&group.protocol_type))
                || differs(&request.protocol_name, group.protocol.as_deref())
            {
                return Err(ResponseError::InconsistentGroupProtocol);
            }
            let assignments = request
                .assignments
                .iter()
                .map(|one| (one.member_id.to_string(), one.assignment.clone()))
                .collect();
            Ok(group.sync(
                &request.member_id,
                request.group_instance_id.as_deref(),
                request.generation_id,
                assignments,
                Instant::now(),
            ))
        });
        let found: Result<Assigned, ResponseError> = match begun {
            Ok(Answer::Now(found)) => found,
            Ok(Answer::Later(found)) => found.await.unwrap_or(Err(ResponseError::UnknownMemberId)),
            Err(error) => Err(error),
        };
        match found {
            Err(error) => SyncGroupResponse::default().with_error_code(error.code()),
            Ok(found) => {
                let response = SyncGroupResponse::default().with_assignment(found.assignment);
                match version >= 5 {
                    false => response,
                    true => response
                        .with_protocol_type(Some(StrBytes::from_string(found.protocol_type)))
                        .with_protocol_name(found.protocol.map(StrBytes::from_string)),
                }
            }
        }
    }

    pub(crate) fn heartbeat(&self, request: &HeartbeatRequest) -> HeartbeatResponse {
        let answer = self.known(&request.group_id, |group| {
            group.heartbeat(
                &request.member_id,
                request.group_instance_id.as_deref(),
                request.generation_id,
                Instant::now(),
            )
        });
        HeartbeatResponse::default().with_error_code(code(answer))
    }

    pub(crate) fn leave(&self, request: &LeaveGroupRequest, version: i16) -> LeaveGroupResponse {
        let leave = |id: &str, instance: Option<&str>| {
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
                .with_error_code(leave(
                    &member.member_id,
                    member.group_instance_id.as_deref(),
                ))
        });
        LeaveGroupResponse::default().with_members(members.collect())
    }

    /// Keeps offsets. This blocks.
    pub(crate) fn commit(
        &self,
        directory: &dyn Directory,
        topics: &Topics,
        request: &OffsetCommitRequest,
        version: i16,
    ) -> Result<OffsetCommitResponse, Refusal> {
        let mut commits = Vec::new();
        let mut response: Vec<OffsetCommitResponseTopic> = request
            .topics
            .iter()
            .map(|topic| {
                let partitions = topic.partitions.iter().map(|one| {
                    let metadata = one.committed_metadata.as_deref().unwrap_or_default();
                    let error = match topics.check(&topic.name, one.partition_index) {
                        Err(refusal) => refusal.error.code(),
                        Ok(()) if metadata.len() > MOST_METADATA => {
                            ResponseError::OffsetMetadataTooLarge.code()
                        }
                        Ok(()) => {
                            let commit = Commit {
                                offset: one.committed_offset,
                                leader_epoch: one.committed_leader_epoch,
                                metadata: metadata.to_owned(),
                            };
                            commits.push((topic.name.to_string(), one.partition_index, commit));
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
        let is_known = self.commits.has(directory, &request.group_id)?;
        let kept = self
            .check_commit(request, version, is_known)
            .and_then(|protocol_type| {
                self.commits
                    .commit(directory, &request.group_id, protocol_type, commits)
                    .map_err(|refusal| refusal.error)
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

    /// Checks whose commit it is. Returns the type of the members' protocol, if the group has members.
    ///
    /// As `OffsetMetadataManager.validateOffsetCommit`.
    fn check_commit(
        &self,
        request: &OffsetCommitRequest,
        version: i16,
        is_known: bool,
    ) -> Result<Option<String>, ResponseError> {
        let generation = request.generation_id_or_member_epoch;
        if let Some(group) = lock(&self.consumer_groups).get(request.group_id.as_str()) {
            return group
                .check(&request.member_id, generation)
                .map(|()| Some("consumer".to_owned()));
        }
        let instance = request.group_instance_id.as_deref();
        match lock(&self.groups).get(request.group_id.as_str()) {
            Some(group) if !group.members.is_empty() => {
                if generation < 0 && request.member_id.is_empty() && instance.is_none() {
                    // Partitions that the group has assigned are not another client's to commit.
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

    /// Returns committed offsets. This blocks.
    pub(crate) fn committed(
        &self,
        directory: &dyn Directory,
        request: &OffsetFetchRequest,
        version: i16,
        memory: &Arc<Memory>,
    ) -> Result<OffsetFetchResponse, Refusal> {
        let mut share = memory.share();
        let mut find = |group: &GroupId, wanted| {
            let found = self.of_group(directory, group, wanted, request.require_stable)?;
            charge(&mut share, &found).map(|()| found)
        };
        if version < 8 {
            let wanted = request.topics.as_ref().map(|topics| {
                topics
                    .iter()
                    .map(|topic| (topic.name.clone(), topic.partition_indexes.clone()))
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
                            .with_metadata(Some(StrBytes::from_string(commit.metadata)));
                        match version < 5 {
                            true => response,
                            false => response.with_committed_leader_epoch(commit.leader_epoch),
                        }
                    });
                    OffsetFetchResponseTopic::default()
                        .with_name(name)
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
                    .map(|topic| (topic.name.clone(), topic.partition_indexes.clone()))
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
                            .with_metadata(Some(StrBytes::from_string(commit.metadata)))
                    });
                    OffsetFetchResponseTopics::default()
                        .with_name(name)
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

    fn of_group(
        &self,
        directory: &dyn Directory,
        group: &GroupId,
        wanted: Option<Vec<(TopicName, Vec<i32>)>>,
        requires_stable: bool,
    ) -> Result<Vec<OfTopic>, Refusal> {
        let (mut known, pending) = self.commits.of_group(directory, group)?;
        let checked = |place: &(String, i32), commit: Commit| match requires_stable
            && pending.contains(place)
        {
            true => (
                place.1,
                Commit::default(),
                ResponseError::UnstableOffsetCommit.code(),
            ),
            false => (place.1, commit, 0),
        };
        if let Some(wanted) = wanted {
            return Ok(wanted
                .into_iter()
                .map(|(name, partitions)| {
                    let found = partitions.into_iter().map(|partition| {
                        let place = (name.to_string(), partition);
                        let commit = known.remove(&place);
                        checked(&place, commit.unwrap_or_default())
                    });
                    let found = found.collect();
                    (name, found)
                })
                .collect());
        }
        let mut all: Vec<OfTopic> = Vec::new();
        for (place, commit) in known {
            let found = checked(&place, commit);
            match all.last_mut() {
                Some((last, partitions)) if last.as_str() == place.0 => partitions.push(found),
                _ => all.push((TopicName(StrBytes::from_string(place.0)), vec![found])),
            }
        }
        Ok(all)
    }

    /// Returns all groups. This blocks.
    pub(crate) fn list(
        &self,
        directory: &dyn Directory,
        request: &ListGroupsRequest,
        version: i16,
    ) -> Result<ListGroupsResponse, Refusal> {
        let idle = self.commits.groups(directory)?;
        let newer: Vec<(String, &'static str)> = lock(&self.consumer_groups)
            .iter()
            .map(|(name, group)| (name.clone(), group.state()))
            .collect();
        let live = lock(&self.groups);
        let is_live =
            |name: &String| live.contains_key(name) || newer.iter().any(|(other, _)| other == name);
        let consumer = || "consumer".to_owned();
        let states = live
            .iter()
            .map(|(name, group)| {
                let (of, state) = (group.protocol_type.clone(), group.state.name());
                (name.clone(), of, state, "classic")
            })
            .chain(
                newer
                    .iter()
                    .map(|(name, state)| (name.clone(), consumer(), *state, "consumer")),
            )
            .chain(
                idle.into_iter()
                    .filter(|(name, _)| !is_live(name))
                    .map(|(name, of)| (name, of, State::Empty.name(), "classic")),
            );
        let is_wanted = |filter: &[StrBytes], name: &str| {
            filter.is_empty()
                || filter
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        let groups = states
            .filter(|(_, _, state, _)| is_wanted(&request.states_filter, state))
            .filter(|(_, _, _, kind)| is_wanted(&request.types_filter, kind))
            .map(|(name, protocol_type, state, kind)| {
                let listed = ListedGroup::default()
                    .with_group_id(GroupId(StrBytes::from_string(name)))
                    .with_protocol_type(StrBytes::from_string(protocol_type));
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

    /// Returns groups with their members. This blocks.
    pub(crate) fn describe(
        &self,
        directory: &dyn Directory,
        request: &DescribeGroupsRequest,
        version: i16,
    ) -> Result<DescribeGroupsResponse, Refusal> {
        let idle = self.commits.groups(directory)?;
        let live = lock(&self.groups);
        let mut asked = HashSet::new();
        let unique = request.groups.iter().filter(|id| asked.insert(*id));
        let groups = unique.map(|id| {
            let described = DescribedGroup::default().with_group_id(id.clone());
            let described = match request.include_authorized_operations {
                false => described,
                true => described.with_authorized_operations(ON_GROUPS),
            };
            let live = live.get(id.as_str());
            match live.filter(|group| !group.members.is_empty()) {
                None if idle.contains_key(id.as_str()) => described
                    .with_group_state(StrBytes::from_static_str(State::Empty.name()))
                    .with_protocol_type(StrBytes::from_string(
                        idle.get(id.as_str()).cloned().unwrap_or_default(),
                    )),
                None => {
                    let dead = described.with_group_state(StrBytes::from_static_str("Dead"));
                    match version >= 6 {
                        false => dead,
                        true => dead
                            .with_error_code(ResponseError::GroupIdNotFound.code())
                            .with_error_message(Some(StrBytes::from_string(format!(
                                "Group {} not found.",
                                id.as_str()
                            )))),
                    }
                }
                Some(group) => {
                    let members = group.members.iter().map(|(id, member)| {
                        let described = DescribedGroupMember::default()
                            .with_member_id(StrBytes::from_string(id.clone()))
                            .with_client_id(StrBytes::from_string(member.client_id.clone()))
                            .with_client_host(StrBytes::from_string(format!("/{}", member.host)))
                            .with_member_metadata(match group.state {
                                State::Stable => group.wishes(member),
                                _ => bytes::Bytes::new(),
                            })
                            .with_member_assignment(member.assignment.clone());
                        match version >= 4 {
                            false => described,
                            true => described.with_group_instance_id(
                                member.instance_id.clone().map(StrBytes::from_string),
                            ),
                        }
                    });
                    described
                        .with_group_state(StrBytes::from_static_str(group.state.name()))
                        .with_protocol_type(StrBytes::from_string(group.protocol_type.clone()))
                        .with_protocol_data(match (group.state, &group.protocol) {
                            (State::Stable, Some(protocol)) => {
                                StrBytes::from_string(protocol.clone())
                            }
                            _ => StrBytes::new(),
                        })
                        .with_members(members.collect())
                }
            }
        });
        Ok(DescribeGroupsResponse::default().with_groups(groups.collect()))
    }
}

/// Takes memory for commits in a response, as they are found and as they are sent.
fn charge(share: &mut Share, found: &[OfTopic]) -> Result<(), Refusal> {
    let commits = found.iter().flat_map(|(_, partitions)| partitions);
    let sizes = commits.map(|(_, commit, _)| OF_COMMIT + 2 * commit.metadata.len());
    match share.grow(sizes.sum()) {
        true => Ok(()),
        false => Err(Refusal::new(
            ResponseError::PolicyViolation,
            "replies take all memory that they may take",
        )),
    }
}

fn join_response(joined: Joined, version: i16) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|(id, instance, metadata)| {
        let member = JoinGroupResponseMember::default()
            .with_member_id(StrBytes::from_string(id))
            .with_metadata(metadata);
        match version >= 5 {
            false => member,
            true => member.with_group_instance_id(instance.map(StrBytes::from_string)),
        }
    });
    let response = JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_name(joined.protocol.map(StrBytes::from_string))
        .with_leader(StrBytes::from_string(joined.leader))
        .with_member_id(StrBytes::from_string(joined.member_id))
        .with_members(members.collect());
    let response = match version >= 7 {
        false => response,
        true => response.with_protocol_type(Some(StrBytes::from_string(joined.protocol_type))),
    };
    match version >= 9 {
        false => response,
        true => response.with_skip_assignment(joined.skip_assignment),
    }
}

fn check_id(group: &GroupId) -> Result<(), ResponseError> {
    match group.is_empty() {
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
