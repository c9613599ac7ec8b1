//! The requests of the newer group protocol (KIP-848) and their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment as DescribedAssignment, DescribedGroup, Member as DescribedMember,
    TopicPartitions as DescribedTopicPartitions,
};
use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::base::directory::{Directory, Refusal, Topics};
use crate::base::memory::Share;
use crate::base::sync::lock;
use crate::groups::assignors::{Assignment as Targets, TopicPartition};
use crate::groups::commits::copied;
use crate::groups::consumer_group::{
    Beaten, ConsumerGroup, HEARTBEAT_MS, Heartbeat, Member, Pattern,
};
use crate::groups::coordinator::{
    Coordinator, MOST_GROUPS, MOST_OF_ID, OF_MEMBER, OF_RESPONSE, ms,
};

/// The memory of the name of a topic that a member wants, in addition to its characters.
const OF_NAME: usize = 64;
/// The memory of the id of a topic that matches a pattern.
const OF_MATCHED: usize = 48;
/// The memory of a partition in a response.
const OF_PARTITION: usize = 32;
/// The type of a member that uses the newer protocol. During an upgrade, a member may use the classic protocol.
const NEWER: i8 = 1;

impl Coordinator {
    /// Handles a heartbeat. This blocks.
    pub(crate) fn consumer_heartbeat(
        &self,
        directory: &dyn Directory,
        request: &ConsumerGroupHeartbeatRequest,
        version: i16,
        client_id: &StrBytes,
        host: &str,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let topics = directory.topics()?;
        let answer = self.take(&topics, request, version, client_id, host);
        let response = ConsumerGroupHeartbeatResponse::default();
        Ok(match answer {
            Err(error) => response
                .with_error_code(error.code())
                .with_error_message(Some(StrBytes::from_string(error.to_string()))),
            Ok(beaten) => response
                .with_member_id(Some(beaten.member_id))
                .with_member_epoch(beaten.epoch)
                .with_heartbeat_interval_ms(HEARTBEAT_MS)
                .with_assignment(beaten.assignment.map(|assigned| {
                    let topics = by_topic(&assigned).into_iter().map(|(topic, partitions)| {
                        TopicPartitions::default()
                            .with_topic_id(topic)
                            .with_partitions(partitions)
                    });
                    Assignment::default().with_topic_partitions(topics.collect())
                })),
        })
    }

    fn take(
        &self,
        topics: &Arc<Topics>,
        request: &ConsumerGroupHeartbeatRequest,
        version: i16,
        client_id: &StrBytes,
        host: &str,
    ) -> Result<Beaten, ResponseError> {
        if request.group_id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        if request.group_id.len() > MOST_OF_ID {
            return Err(ResponseError::InvalidGroupId);
        }
        let member_id = match (request.member_id.is_empty(), request.member_epoch, version) {
            // Since version 1, clients have ids of their own.
            (true, 0, 0) => Uuid::new_v4().to_string().into(),
            (true, ..) => return Err(ResponseError::InvalidRequest),
            (false, ..) => copied(&request.member_id),
        };
        let text = |field: &Option<StrBytes>| field.as_ref().map(copied);
        let pattern = match &request.subscribed_topic_regex {
            Some(text) => Some(text.clone()),
            None => {
                let groups = lock(&self.consumer_groups);
                let group = groups.get(&*request.group_id);
                group.and_then(|group| group.old_pattern(&member_id, topics))
            }
        };
        let (share, share_of_wanted) = (self.memory.share(), self.memory.share());
        let texts = [
            request.instance_id.as_ref(),
            request.rack_id.as_ref(),
            Some(client_id),
            Some(&member_id),
            Some(&request.group_id),
        ];
        let texts = texts.into_iter().flatten().map(|text| 2 * text.len());
        let names = request.subscribed_topic_names.iter().flatten();
        let names = names.map(|name| OF_NAME + name.len());
        let matched = pattern.as_ref().map_or(0, |_| topics.all().len());
        if !share.grow(OF_MEMBER + texts.sum::<usize>())
            || !share_of_wanted.grow(OF_MEMBER + names.sum::<usize>() + OF_MATCHED * matched)
        {
            return Err(ResponseError::CoordinatorNotAvailable);
        }
        let beat = Heartbeat {
            member_id,
            share,
            share_of_wanted,
            epoch: request.member_epoch,
            instance_id: text(&request.instance_id),
            rack_id: text(&request.rack_id),
            client_id: copied(client_id),
            host: host.to_owned().into(),
            rebalance_timeout: (request.rebalance_timeout_ms >= 0)
                .then(|| ms(request.rebalance_timeout_ms)),
            names: request
                .subscribed_topic_names
                .as_ref()
                .map(|names| names.iter().map(|name| copied(name)).collect()),
            pattern: match pattern {
                None => None,
                Some(text) => Some(Pattern::new(&text, topics)?),
            },
            assignor: text(&request.server_assignor),
            owned: request.topic_partitions.as_ref().map(|topics| {
                let all = topics.iter().flat_map(|topic| {
                    let numbers = topic.partitions.iter();
                    numbers.map(|number| (topic.topic_id, *number))
                });
                all.collect()
            }),
        };
        if self.has_classic_members(&request.group_id) {
            return Err(ResponseError::GroupIdNotFound);
        }
        let mut groups = lock(&self.consumer_groups);
        if !groups.contains_key(&*request.group_id) {
            if beat.epoch != 0 {
                // The group was forgotten with its last member. Clients rejoin only after this error.
                return Err(ResponseError::UnknownMemberId);
            }
            if groups.len() >= MOST_GROUPS {
                return Err(ResponseError::CoordinatorNotAvailable);
            }
        }
        let group = groups.entry(copied(&request.group_id)).or_default();
        let answer = group.heartbeat(beat, topics, &self.memory, Instant::now());
        if group.members.is_empty() {
            groups.remove(&*request.group_id);
        }
        answer
    }

    /// Returns groups of this protocol. This blocks. `share` takes the memory of the reply.
    pub(crate) fn consumer_describe(
        &self,
        directory: &dyn Directory,
        request: &ConsumerGroupDescribeRequest,
        version: i16,
        share: &Share,
    ) -> Result<ConsumerGroupDescribeResponse, Refusal> {
        let topics = directory.topics()?;
        let names: BTreeMap<Uuid, &str> = topics
            .all()
            .iter()
            .map(|topic| (topic.id, topic.name.as_str()))
            .collect();
        let mut asked = BTreeSet::new();
        let unique = request
            .group_ids
            .iter()
            .filter(|id| asked.insert(id.as_str()));
        let described = unique.map(|id| {
            let response = DescribedGroup::default().with_group_id(id.clone());
            match lock(&self.consumer_groups).get(&**id) {
                Some(group) => {
                    let sizes = group
                        .members
                        .iter()
                        .map(|(id, member)| size(id, member, &group.target));
                    match share.grow(sizes.sum()) {
                        true => Ok(of_group(response, group, &names, version)),
                        false => Err(Refusal::no_memory()),
                    }
                }
                None => Ok(response
                    .with_error_code(ResponseError::GroupIdNotFound.code())
                    .with_error_message(Some(StrBytes::from_string(format!(
                        "Group {} is not a consumer group.",
                        id.as_str()
                    ))))),
            }
        });
        let described = described.collect::<Result<_, _>>()?;
        Ok(ConsumerGroupDescribeResponse::default().with_groups(described))
    }
}

/// The memory of a member in a response.
fn size(id: &StrBytes, member: &Member, target: &Targets) -> usize {
    let names = member.names.iter().map(|name| OF_NAME + 2 * name.len());
    let partitions = member.assigned.len() + target.get(id).map_or(0, BTreeSet::len);
    // At worst, each partition repeats its topic's id and name.
    OF_RESPONSE
        + 2 * id.len()
        + 2 * member.client_id.len()
        + names.sum::<usize>()
        + OF_PARTITION * partitions
}

fn of_group(
    response: DescribedGroup,
    group: &ConsumerGroup,
    names: &BTreeMap<Uuid, &str>,
    version: i16,
) -> DescribedGroup {
    let nothing = BTreeSet::new();
    let members = group.members.iter().map(|(id, member)| {
        let target = group.target.get(id).unwrap_or(&nothing);
        of_member(id, member, target, names, version)
    });
    response
        .with_group_state(StrBytes::from_static_str(group.state()))
        .with_group_epoch(group.epoch)
        .with_assignment_epoch(group.target_epoch)
        .with_assignor_name(StrBytes::from_static_str(group.assignor().name()))
        .with_members(members.collect())
}

fn of_member(
    id: &StrBytes,
    member: &Member,
    target: &BTreeSet<TopicPartition>,
    names: &BTreeMap<Uuid, &str>,
    version: i16,
) -> DescribedMember {
    let named = |name: &str| TopicName(StrBytes::from_string(name.to_owned()));
    let assignment = |assigned: &BTreeSet<TopicPartition>| {
        let topics = by_topic(assigned).into_iter().map(|(topic, partitions)| {
            DescribedTopicPartitions::default()
                .with_topic_id(topic)
                .with_topic_name(named(names.get(&topic).copied().unwrap_or_default()))
                .with_partitions(partitions)
        });
        DescribedAssignment::default().with_topic_partitions(topics.collect())
    };
    let pattern = member.pattern.as_ref();
    let pattern = pattern.map(|pattern| pattern.text.clone());
    let described = DescribedMember::default()
        .with_member_id(id.clone())
        .with_instance_id(member.instance_id.clone())
        .with_rack_id(member.rack_id.clone())
        .with_member_epoch(member.epoch)
        .with_client_id(member.client_id.clone())
        .with_client_host(StrBytes::from_string(format!("/{}", member.host)))
        .with_subscribed_topic_names(member.names.iter().cloned().map(TopicName).collect())
        .with_subscribed_topic_regex(pattern)
        .with_assignment(assignment(&member.assigned))
        .with_target_assignment(assignment(target));
    match version >= 1 {
        true => described.with_member_type(NEWER),
        false => described,
    }
}

fn by_topic(assigned: &BTreeSet<TopicPartition>) -> BTreeMap<Uuid, Vec<i32>> {
    let mut found: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in assigned {
        found.entry(*topic).or_default().push(*partition);
    }
    found
}
