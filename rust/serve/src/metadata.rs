//! What there is: versions, brokers, topics and their settings.

use std::collections::BTreeSet;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, BrokerId, DescribeClusterResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::directory::{Refusal, Topic, Topics};
use crate::partitions::Partitions;
use crate::server::Address;
use crate::wire::APIS;

/// The type of a resource, a topic (`ConfigResource.Type`).
const TOPIC: i8 = 2;
/// `DYNAMIC_TOPIC_CONFIG` of `DescribeConfigsResponse.ConfigSource`.
const OF_TOPIC: i8 = 1;

/// The answer to a client that asks which requests there are.
pub(crate) fn api_versions(error: i16) -> ApiVersionsResponse {
    let api_keys = APIS
        .iter()
        .map(|(api, first, last)| {
            ApiVersion::default()
                .with_api_key(*api as i16)
                .with_min_version(*first)
                .with_max_version(*last)
        })
        .collect();
    ApiVersionsResponse::default()
        .with_error_code(error)
        .with_api_keys(api_keys)
}

/// The broker, which is this server, and the topics that are asked for.
pub(crate) fn metadata(
    partitions: &Partitions,
    address: &Address,
    request: &MetadataRequest,
    version: i16,
) -> Result<MetadataResponse, Refusal> {
    let topics = partitions.directory().topics()?;
    // In version 0, an empty list asks for all.
    let wanted = request
        .topics
        .as_ref()
        .filter(|wanted| version > 0 || !wanted.is_empty());
    let found = match wanted {
        None => topics
            .all()
            .iter()
            .map(|topic| described(partitions, address, topic))
            .collect(),
        Some(wanted) => wanted
            .iter()
            .map(|one| {
                let is_named = one.topic_id.is_nil();
                let known = match (&one.name, is_named) {
                    (Some(name), true) => topics.by_name(name),
                    _ => topics.by_id(one.topic_id),
                };
                match known {
                    Some(topic) => described(partitions, address, topic),
                    None => MetadataResponseTopic::default()
                        .with_error_code(match is_named {
                            true => ResponseError::UnknownTopicOrPartition.code(),
                            false => ResponseError::UnknownTopicId.code(),
                        })
                        .with_name(match (&one.name, version < 12) {
                            (None, true) => Some(TopicName(StrBytes::new())),
                            (name, _) => name.clone(),
                        })
                        .with_topic_id(one.topic_id),
                }
            })
            .collect(),
    };
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(address.node_id))
        .with_host(StrBytes::from_string(address.host.clone()))
        .with_port(address.port.into());
    let response = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_controller_id(BrokerId(address.node_id))
        .with_topics(found);
    Ok(match version {
        0 | 1 => response,
        _ => response.with_cluster_id(Some(StrBytes::from_string(
            partitions.directory().cluster_id(),
        ))),
    })
}

fn described(partitions: &Partitions, address: &Address, topic: &Topic) -> MetadataResponseTopic {
    let node = BrokerId(address.node_id);
    let found = topic
        .partitions
        .iter()
        .map(|number| {
            MetadataResponsePartition::default()
                .with_partition_index(*number)
                .with_leader_id(node)
                .with_leader_epoch(epoch(partitions, topic, *number))
                .with_replica_nodes(vec![node])
                .with_isr_nodes(vec![node])
        })
        .collect();
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(topic.name.clone()))))
        .with_topic_id(topic.id)
        .with_is_internal(topic.is_internal)
        .with_partitions(found)
}

/// The leader epoch of a partition that was read before. To read all for a list of topics would take seconds.
fn epoch(_: &Partitions, _: &Topic, _: i32) -> i32 {
    -1
}

/// The cluster: this server alone.
pub(crate) fn cluster(partitions: &Partitions, address: &Address) -> DescribeClusterResponse {
    let broker = DescribeClusterBroker::default()
        .with_broker_id(BrokerId(address.node_id))
        .with_host(StrBytes::from_string(address.host.clone()))
        .with_port(address.port.into());
    DescribeClusterResponse::default()
        .with_cluster_id(StrBytes::from_string(partitions.directory().cluster_id()))
        .with_controller_id(BrokerId(address.node_id))
        .with_brokers(vec![broker])
}

/// Topics with their partitions, up to a number of these, and where to go on (KIP-966).
pub(crate) fn topic_partitions(
    partitions: &Partitions,
    address: &Address,
    request: &DescribeTopicPartitionsRequest,
) -> Result<DescribeTopicPartitionsResponse, Refusal> {
    let topics = partitions.directory().topics()?;
    let names: BTreeSet<&str> = match request.topics.is_empty() {
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
    let mut left = usize::try_from(request.response_partition_limit)
        .unwrap_or(0)
        .clamp(1, 2000);
    let mut response = DescribeTopicPartitionsResponse::default();
    let node = BrokerId(address.node_id);
    for name in names.range(first_name..) {
        let from = if *name == first_name {
            first_partition
        } else {
            0
        };
        if left == 0 {
            response.next_cursor = Some(cursor(name, from));
            break;
        }
        let Some(topic) = topics.by_name(name) else {
            response.topics.push(unknown(name));
            continue;
        };
        let all: Vec<i32> = topic
            .partitions
            .iter()
            .copied()
            .filter(|number| *number >= from)
            .collect();
        let shown = all.iter().take(left).map(|number| {
            DescribeTopicPartitionsResponsePartition::default()
                .with_partition_index(*number)
                .with_leader_id(node)
                .with_leader_epoch(epoch(partitions, topic, *number))
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
                .with_partitions(shown.collect()),
        );
        if let Some(next) = all.get(left) {
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

fn unknown(name: &str) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(ResponseError::UnknownTopicOrPartition.code())
        .with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))))
}

/// The own settings of topics. The directory knows no settings of its broker.
pub(crate) fn configs(
    partitions: &Partitions,
    request: &DescribeConfigsRequest,
) -> Result<DescribeConfigsResponse, Refusal> {
    let topics: std::sync::Arc<Topics> = partitions.directory().topics()?;
    let mut results = Vec::with_capacity(request.resources.len());
    for resource in &request.resources {
        let mut result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
            .with_error_message(None);
        if resource.resource_type == TOPIC {
            if topics.by_name(&resource.resource_name).is_none() {
                result.error_code = ResponseError::UnknownTopicOrPartition.code();
                result.error_message = Some(StrBytes::from_static_str(
                    "there is no such topic in the directory",
                ));
            } else {
                let known = partitions.directory().configs(&resource.resource_name)?;
                result.configs = known
                    .into_iter()
                    .filter(|(name, _)| match &resource.configuration_keys {
                        Some(keys) => keys.iter().any(|key| key.as_str() == name),
                        None => true,
                    })
                    .map(|(name, value)| {
                        DescribeConfigsResourceResult::default()
                            .with_name(StrBytes::from_string(name))
                            .with_value(Some(StrBytes::from_string(value)))
                            .with_read_only(true)
                            .with_config_source(OF_TOPIC)
                    })
                    .collect();
            }
        }
        results.push(result);
    }
    Ok(DescribeConfigsResponse::default().with_results(results))
}
