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
use crate::base::sync::lock;
use crate::groups::assignors::TopicPartition;
use crate::groups::consumer_group::{
    Beaten, ConsumerGroup, HEARTBEAT_MS, Heartbeat, MOST_PATTERN, Member,
};
use crate::groups::coordinator::{Coordinator, MOST_GROUPS, OF_MEMBER, ms};

/// The memory of a topic's name that a member wants, besides its letters.
const OF_NAME: usize = 64;
/// Members are of the newer protocol, not classic ones on their way to it.
const NEWER: i8 = 1;

impl Coordinator {
    /// Takes a heartbeat. This blocks.
    pub(crate) fn consumer_heartbeat(
        &self,
        directory: &dyn Directory,
        request: &ConsumerGroupHeartbeatRequest,
        version: i16,
        client_id: &str,
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
                .with_member_id(Some(StrBytes::from_string(beaten.member_id)))
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
        client_id: &str,
        host: &str,
    ) -> Result<Beaten, ResponseError> {
        if request.group_id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        let member_id = match (request.member_id.is_empty(), request.member_epoch, version) {
            // Since version 1, clients have ids of their own.
            (true, 0, 0) => Uuid::new_v4().to_string(),
            (true, ..) => return Err(ResponseError::InvalidRequest),
            (false, ..) => request.member_id.to_string(),
        };
        let mut share = self.memory.share();
        let names = request.subscribed_topic_names.iter().flatten();
        let names = names.map(|name| OF_NAME + name.len());
        let pattern = match &request.subscribed_topic_regex {
            Some(text) if !text.is_empty() => MOST_PATTERN,
            _ => 0,
        };
        if !share.grow(OF_MEMBER + names.sum::<usize>() + pattern) {
            return Err(ResponseError::CoordinatorNotAvailable);
        }
        let text = |field: &Option<StrBytes>| field.as_ref().map(ToString::to_string);
        let beat = Heartbeat {
            member_id,
            share,
            epoch: request.member_epoch,
            instance_id: text(&request.instance_id),
            rack_id: text(&request.rack_id),
            client_id: client_id.to_owned(),
            host: host.to_owned(),
            rebalance_timeout: (request.rebalance_timeout_ms >= 0)
                .then(|| ms(request.rebalance_timeout_ms)),
            names: request
                .subscribed_topic_names
                .as_ref()
                .map(|names| names.iter().map(|name| name.to_string()).collect()),
            regex: text(&request.subscribed_topic_regex),
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
        if !groups.contains_key(request.group_id.as_str()) {
            if beat.epoch != 0 {
                // The group was forgotten with its last member. Clients join again after this error only.
                return Err(ResponseError::UnknownMemberId);
            }
            if groups.len() >= MOST_GROUPS {
                return Err(ResponseError::CoordinatorNotAvailable);
            }
        }
        let group = groups.entry(request.group_id.to_string()).or_default();
        let answer = group.heartbeat(beat, topics, Instant::now());
        if group.members.is_empty() {
            groups.remove(request.group_id.as_str());
        }
        answer
    }

    /// Returns groups of this protocol. This blocks.
    pub(crate) fn consumer_describe(
        &self,
        directory: &dyn Directory,
        request: &ConsumerGroupDescribeRequest,
        version: i16,
    ) -> Result<ConsumerGroupDescribeResponse, Refusal> {
        let topics = directory.topics()?;
        let names: BTreeMap<Uuid, &str> = topics
            .all()
            .iter()
            .map(|topic| (topic.id, topic.name.as_str()))
            .collect();
        let groups = lock(&self.consumer_groups);
        let mut asked = BTreeSet::new();
        let unique = request
            .group_ids
            .iter()
            .filter(|id| asked.insert(id.as_str()));
        let described = unique.map(|id| {
            let response = DescribedGroup::default().with_group_id(id.clone());
            match groups.get(id.as_str()) {
                Some(group) => of_group(response, group, &names, version),
                None => response
                    .with_error_code(ResponseError::GroupIdNotFound.code())
                    .with_error_message(Some(StrBytes::from_string(format!(
                        "Group {} is not a consumer group.",
                        id.as_str()
                    )))),
            }
        });
        Ok(ConsumerGroupDescribeResponse::default().with_groups(described.collect()))
    }
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
    id: &str,
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
    let text = |field: &Option<String>| field.clone().map(StrBytes::from_string);
    let regex = member.regex.as_ref().map(|regex| {
        let whole = regex.as_str();
        let inner = whole
            .strip_prefix("^(?:")
            .and_then(|rest| rest.strip_suffix(")$"));
        StrBytes::from_string(inner.unwrap_or(whole).to_owned())
    });
    let described = DescribedMember::default()
        .with_member_id(StrBytes::from_string(id.to_owned()))
        .with_instance_id(text(&member.instance_id))
        .with_rack_id(text(&member.rack_id))
        .with_member_epoch(member.epoch)
        .with_client_id(StrBytes::from_string(member.client_id.clone()))
        .with_client_host(StrBytes::from_string(format!("/{}", member.host)))
        .with_subscribed_topic_names(member.names.iter().map(|name| named(name)).collect())
        .with_subscribed_topic_regex(regex)
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
