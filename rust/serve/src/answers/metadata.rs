//! The broker and the topics that clients see.

use std::collections::{BTreeSet, HashSet};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeClusterRequest, DescribeClusterResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::answers::call::{Answered, Call};
use crate::base::directory::{MOST_OF_NAME, Refusal, Topic};
use crate::protocol::operations::{ON_CLUSTER, ON_TOPICS};

/// The maximum number of partitions in a response that is continued (`max.request.partition.size.limit`).
const MOST_PARTITIONS: usize = 2000;
/// The memory of a partition in a response.
const OF_PARTITION: usize = 256;
// `EndpointType`
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers Metadata: the broker, which is this server, and the requested topics.
pub(super) fn metadata(
    call: &Call,
    request: &MetadataRequest,
) -> Result<MetadataResponse, Refusal> {
    let (server, version) = (&call.peer.server, call.version());
    let topics = call.directory().topics()?;
    // In version 0, an empty list asks for all.
    let wanted = request
        .topics
        .as_ref()
        .filter(|wanted| version > 0 || !wanted.is_empty());
    let mut found = Vec::new();
    match wanted {
        None => {
            for topic in topics.all() {
                found.push(described(call, topic)?);
            }
        }
        Some(wanted) => {
            let mut asked = HashSet::with_capacity(wanted.len());
            for one in wanted {
                // Each is described once.
                if !asked.insert((&one.name, one.topic_id)) {
                    continue;
                }
                let is_named = one.topic_id.is_nil();
                let known = match (&one.name, is_named) {
                    (Some(name), true) => topics.by_name(name),
                    _ => topics.by_id(one.topic_id),
                };
                found.push(match known {
                    Some(topic) => described(call, topic)?,
                    None => MetadataResponseTopic::default()
                        .with_error_code(match is_named {
                            true => {
                                not_there(one.name.as_ref().map_or("", |name| name.as_str())).code()
                            }
                            false => ResponseError::UnknownTopicId.code(),
                        })
                        .with_name(match (&one.name, version < 12) {
                            (None, true) => Some(TopicName(StrBytes::new())),
                            (name, _) => name.clone(),
                        })
                        .with_topic_id(one.topic_id),
                });
            }
        }
    }
    if request.include_topic_authorized_operations {
        for topic in &mut found {
            topic.topic_authorized_operations = ON_TOPICS;
        }
    }
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(server.node_id))
        .with_host(StrBytes::from_string(server.host.clone()))
        .with_port(server.port.into());
    let mut response = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_controller_id(BrokerId(server.node_id))
        .with_topics(found);
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = ON_CLUSTER;
    }
    Ok(match version {
        0 | 1 => response,
        _ => response.with_cluster_id(Some(StrBytes::from_string(
            call.partitions().cluster_id.clone(),
        ))),
    })
}

/// The error for a name that no topic has. Illegal names get another error.
pub(super) fn not_there(name: &str) -> ResponseError {
    match illegal(name) {
        None => ResponseError::UnknownTopicOrPartition,
        Some(_) => ResponseError::InvalidTopicException,
    }
}

/// Returns the reason why a topic's name is illegal, in a broker's words (`Topic.validate`).
pub(super) fn illegal(name: &str) -> Option<String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name {
        "" => Some("the empty string is not allowed".to_owned()),
        "." | ".." => Some(format!("'{name}' is not allowed")),
        _ if name.len() > MOST_OF_NAME => Some(format!(
            "the length of '{name}' is longer than the max allowed length {MOST_OF_NAME}"
        )),
        _ if !name.bytes().all(is_legal) => Some(format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )),
        _ => None,
    }
}

fn described(call: &Call, topic: &Topic) -> Result<MetadataResponseTopic, Refusal> {
    let node = BrokerId(call.peer.server.node_id);
    call.charge(topic.partitions.len() * OF_PARTITION)?;
    let epochs = call.directory().leader_epochs(&topic.name)?;
    let epochs = epochs.into_iter().chain(std::iter::repeat(-1));
    let found = topic
        .partitions
        .iter()
        .zip(epochs)
        .map(|(number, epoch)| {
            MetadataResponsePartition::default()
                .with_partition_index(*number)
                .with_leader_id(node)
                .with_leader_epoch(epoch)
                .with_replica_nodes(vec![node])
                .with_isr_nodes(vec![node])
        })
        .collect();
    Ok(MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(topic.name.clone()))))
        .with_topic_id(topic.id)
        .with_is_internal(topic.is_internal)
        .with_partitions(found))
}

/// The cluster: this server alone.
pub(super) fn cluster(
    call: &Call,
    request: &DescribeClusterRequest,
) -> Answered<DescribeClusterResponse> {
    let server = &call.peer.server;
    let refused = |error: ResponseError, message: String| {
        Ok(DescribeClusterResponse::default()
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_string(message))))
    };
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => {
            return refused(
                ResponseError::MismatchedEndpointType,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                    .to_owned(),
            );
        }
        other => {
            return refused(
                ResponseError::UnsupportedEndpointType,
                format!("Unsupported endpoint type {other}"),
            );
        }
    }
    let broker = DescribeClusterBroker::default()
        .with_broker_id(BrokerId(server.node_id))
        .with_host(StrBytes::from_string(server.host.clone()))
        .with_port(server.port.into());
    let mut response = DescribeClusterResponse::default()
        .with_cluster_id(StrBytes::from_string(call.partitions().cluster_id.clone()))
        .with_controller_id(BrokerId(server.node_id))
        .with_brokers(vec![broker]);
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = ON_CLUSTER;
    }
    Ok(response)
}

/// Answers DescribeTopicPartitions: topics up to a number of partitions, and the cursor for the next request (KIP-966).
pub(super) fn topic_partitions(
    call: &Call,
    request: &DescribeTopicPartitionsRequest,
) -> Result<DescribeTopicPartitionsResponse, Refusal> {
    let topics = call.directory().topics()?;
    let asks_for_all = request.topics.is_empty();
    let names: BTreeSet<&str> = match asks_for_all {
        true => topics
            .all()
            .iter()
            .map(|topic| topic.name.as_str())
            .collect(),
        false => request
            .topics
            .iter()
            .map(|topic| topic.name.as_str())
            .collect(),
    };
    let (first_name, first_partition) = match &request.cursor {
        Some(cursor) => (cursor.topic_name.as_str(), cursor.partition_index),
        None => ("", 0),
    };
    let is_outside = request.cursor.is_some() && !asks_for_all && !names.contains(first_name);
    call.charge(MOST_PARTITIONS * OF_PARTITION)?;
    let mut response = DescribeTopicPartitionsResponse::default();
    if is_outside || first_partition < 0 {
        response.topics = request
            .topics
            .iter()
            .map(|topic| without_partitions(&topic.name, ResponseError::InvalidRequest))
            .collect();
        return Ok(response);
    }
    let mut left = usize::try_from(request.response_partition_limit)
        .unwrap_or(0)
        .clamp(1, MOST_PARTITIONS);
    let node = BrokerId(call.peer.server.node_id);
    for name in names.range(first_name..) {
        let from = if *name == first_name {
            first_partition
        } else {
            0
        };
        if left == 0 {
            response.next_cursor = Some(cursor(name, 0));
            break;
        }
        let Some(topic) = topics.by_name(name) else {
            if !asks_for_all {
                let unknown = without_partitions(name, not_there(name));
                response
                    .topics
                    .push(unknown.with_topic_authorized_operations(ON_TOPICS));
            }
            continue;
        };
        let epochs = call.directory().leader_epochs(name)?;
        let all: Vec<(i32, i32)> = topic
            .partitions
            .iter()
            .copied()
            .zip(epochs.into_iter().chain(std::iter::repeat(-1)))
            .filter(|(number, _)| *number >= from)
            .collect();
        let shown = all.iter().take(left).map(|(number, epoch)| {
            DescribeTopicPartitionsResponsePartition::default()
                .with_partition_index(*number)
                .with_leader_id(node)
                .with_leader_epoch(*epoch)
                .with_replica_nodes(vec![node])
                .with_isr_nodes(vec![node])
                .with_eligible_leader_replicas(Some(Vec::new()))
                .with_last_known_elr(Some(Vec::new()))
        });
        response.topics.push(
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(TopicName(StrBytes::from_string(topic.name.clone()))))
                .with_topic_id(topic.id)
                .with_is_internal(topic.is_internal)
                .with_topic_authorized_operations(ON_TOPICS)
                .with_partitions(shown.collect()),
        );
        if let Some((next, _)) = all.get(left) {
            response.next_cursor = Some(cursor(name, *next));
            break;
        }
        left = left.saturating_sub(all.len());
    }
    Ok(response)
}

fn cursor(name: &str, partition: i32) -> Cursor {
    Cursor::default()
        .with_topic_name(TopicName(StrBytes::from_string(name.to_owned())))
        .with_partition_index(partition)
}

fn without_partitions(name: &str, error: ResponseError) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(error.code())
        .with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))))
}
