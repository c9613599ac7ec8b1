//! What there is: versions, brokers, topics and their settings.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, BrokerId, DescribeClusterRequest,
    DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, MetadataRequest,
    MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::directory::{Refusal, Topic, Topics};
use crate::newest::IDS_IN_COMMITS;
use crate::partitions::Partitions;
use crate::server::Address;
use crate::settings::SETTINGS;
use crate::wire::APIS;

// The types of resources (`ConfigResource.Type`).
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
// Where a setting comes from (`DescribeConfigsResponse.ConfigSource`).
const OF_TOPIC: i8 = 1;
const OF_BROKER: i8 = 2;
const OF_ALL_BROKERS: i8 = 3;
const DEFAULT: i8 = 5;
/// The message of `InvalidRequest`, as a broker has it.
pub(crate) const INVALID: &str = "This most likely occurs because of a request being malformed by the client \
    library or the message was sent to an incompatible broker. See the broker logs for more details.";

// What a client may do, as bits (`AclOperation`): a directory is only read.
const READ: i32 = 1 << 3;
const DESCRIBE: i32 = 1 << 8;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ON_TOPICS: i32 = READ | DESCRIBE | DESCRIBE_CONFIGS;
const ON_CLUSTER: i32 = DESCRIBE | DESCRIBE_CONFIGS;
pub(crate) const ON_GROUPS: i32 = READ | DESCRIBE;
/// The most letters of a topic's name.
const MOST_LETTERS: usize = 249;
// `EndpointType`
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// The answer to a client that asks which requests there are. An error comes alone, but for that of an unknown version.
///
/// `have_ids`: every topic has an id. If not, a client is offered only those versions of commits that name topics.
pub(crate) fn api_versions(error: Option<ResponseError>, have_ids: bool) -> ApiVersionsResponse {
    let shown = APIS.iter().filter(|(api, _, _)| match error {
        None => true,
        Some(ResponseError::UnsupportedVersion) => *api == ApiKey::ApiVersions,
        Some(_) => false,
    });
    let api_keys = shown
        .map(|(api, first, last)| {
            let last = match api {
                ApiKey::OffsetCommit | ApiKey::OffsetFetch if !have_ids => IDS_IN_COMMITS - 1,
                _ => *last,
            };
            ApiVersion::default()
                .with_api_key(*api as i16)
                // Older clients of librdkafka look for this version, and a broker that has it no more names it (KIP-896).
                .with_min_version(if *api == ApiKey::Produce { 0 } else { *first })
                .with_max_version(last)
        })
        .collect();
    ApiVersionsResponse::default()
        .with_error_code(error.map_or(0, |error| error.code()))
        .with_api_keys(api_keys)
}

/// Whether a client names itself as clients do (KIP-511).
pub(crate) fn is_named_well(request: &ApiVersionsRequest, version: i16) -> bool {
    let is_well = |name: &str| {
        let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = name.as_bytes();
        is_end(bytes.first())
            && is_end(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
    };
    version < 3
        || is_well(&request.client_software_name) && is_well(&request.client_software_version)
}

/// The memory of the settings of a resource.
const OF_RESOURCE: usize = 16 << 10;

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
    let mut found = Vec::new();
    match wanted {
        None => {
            for topic in topics.all() {
                found.push(described(partitions, address, topic)?);
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
                    Some(topic) => described(partitions, address, topic)?,
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
        .with_node_id(BrokerId(address.node_id))
        .with_host(StrBytes::from_string(address.host.clone()))
        .with_port(address.port.into());
    let mut response = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_controller_id(BrokerId(address.node_id))
        .with_topics(found);
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = ON_CLUSTER;
    }
    Ok(match version {
        0 | 1 => response,
        _ => response.with_cluster_id(Some(StrBytes::from_string(partitions.cluster_id.clone()))),
    })
}

/// The error for a name that no topic has: some could have none.
fn not_there(name: &str) -> ResponseError {
    match illegal(name) {
        None => ResponseError::UnknownTopicOrPartition,
        Some(_) => ResponseError::InvalidTopicException,
    }
}

/// What is wrong with a topic's name, as a broker has it (`Topic.validate`).
fn illegal(name: &str) -> Option<String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name {
        "" => Some("the empty string is not allowed".to_owned()),
        "." | ".." => Some(format!("'{name}' is not allowed")),
        _ if name.len() > MOST_LETTERS => Some(format!(
            "the length of '{name}' is longer than the max allowed length {MOST_LETTERS}"
        )),
        _ if !name.bytes().all(is_legal) => Some(format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )),
        _ => None,
    }
}

fn described(
    partitions: &Partitions,
    address: &Address,
    topic: &Topic,
) -> Result<MetadataResponseTopic, Refusal> {
    let node = BrokerId(address.node_id);
    let epochs = partitions.directory().leader_epochs(&topic.name)?;
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
pub(crate) fn cluster(
    partitions: &Partitions,
    address: &Address,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse {
    let refused = |error: ResponseError, message: String| {
        DescribeClusterResponse::default()
            .with_error_code(error.code())
            .with_error_message(Some(StrBytes::from_string(message)))
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
        .with_broker_id(BrokerId(address.node_id))
        .with_host(StrBytes::from_string(address.host.clone()))
        .with_port(address.port.into());
    let mut response = DescribeClusterResponse::default()
        .with_cluster_id(StrBytes::from_string(partitions.cluster_id.clone()))
        .with_controller_id(BrokerId(address.node_id))
        .with_brokers(vec![broker]);
    if request.include_cluster_authorized_operations {
        response.cluster_authorized_operations = ON_CLUSTER;
    }
    response
}

/// Topics with their partitions, up to a number of these, and where to go on (KIP-966).
pub(crate) fn topic_partitions(
    partitions: &Partitions,
    address: &Address,
    request: &DescribeTopicPartitionsRequest,
) -> Result<DescribeTopicPartitionsResponse, Refusal> {
    let topics = partitions.directory().topics()?;
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
        .clamp(1, 2000);
    let node = BrokerId(address.node_id);
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
        let epochs = partitions.directory().leader_epochs(name)?;
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

/// The settings of topics, and those of brokers that were set in the metadata.
pub(crate) fn configs(
    partitions: &Partitions,
    address: &Address,
    request: &DescribeConfigsRequest,
) -> Result<DescribeConfigsResponse, Refusal> {
    let topics: Arc<Topics> = partitions.directory().topics()?;
    let node = address.node_id.to_string();
    let set = |kind, name: &str| partitions.directory().configs(kind, name);
    let mut results = Vec::new();
    let mut share = partitions.memory.share();
    let mut asked = BTreeSet::new();
    for resource in &request.resources {
        let name = resource.resource_name.as_str();
        // A broker answers once, too.
        if !asked.insert((resource.resource_type, name)) {
            continue;
        }
        let has_memory = share.grow(OF_RESOURCE);
        let found = match resource.resource_type {
            _ if !has_memory => Err((
                ResponseError::PolicyViolation,
                "too many resources for the memory of replies: ask for fewer at once".to_owned(),
            )),
            TOPIC if topics.by_name(name).is_some() => {
                let layers = [
                    (OF_TOPIC, set("topic", name)?),
                    (OF_BROKER, set("broker", &node)?),
                    (OF_ALL_BROKERS, set("broker", "")?),
                ];
                Ok(of_topic(&layers, request.include_synonyms))
            }
            TOPIC => Err((
                not_there(name),
                illegal(name)
                    .map(|why| format!("Topic name is invalid: {why}"))
                    .unwrap_or_default(),
            )),
            BROKER => match name.parse::<i32>() {
                _ if name.is_empty() => Ok(of_broker(set("broker", "")?, OF_ALL_BROKERS)),
                Ok(id) if id == address.node_id => {
                    let mut found = of_broker(set("broker", &node)?, OF_BROKER);
                    for more in of_broker(set("broker", "")?, OF_ALL_BROKERS) {
                        if found.iter().all(|one| one.name != more.name) {
                            found.push(more);
                        }
                    }
                    Ok(found)
                }
                Ok(id) => Err((
                    ResponseError::InvalidRequest,
                    format!(
                        "Unexpected broker id, expected {node} or empty string, but received {id}"
                    ),
                )),
                Err(_) => Err((
                    ResponseError::InvalidRequest,
                    format!("Broker id must be an integer, but it is: {name}"),
                )),
            },
            BROKER_LOGGER | CLIENT_METRICS | GROUP => Ok(Vec::new()),
            _ => Err((ResponseError::InvalidRequest, INVALID.to_owned())),
        };
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        results.push(match found {
            Ok(mut found) => {
                // No keys at all stand for all of them.
                let keys = resource.configuration_keys.as_deref();
                if let Some(keys) = keys.filter(|keys| !keys.is_empty()) {
                    found.retain(|one| keys.contains(&one.name));
                }
                result
                    .with_error_message(Some(StrBytes::new()))
                    .with_configs(found)
            }
            Err((error, message)) => result
                .with_error_code(error.code())
                .with_error_message(Some(StrBytes::from_string(message))),
        });
    }
    Ok(DescribeConfigsResponse::default().with_results(results))
}

/// Settings by name.
type Set = Vec<(String, String)>;

/// The settings of a topic: of each, the first layer that has it decides.
fn of_topic(layers: &[(i8, Set)], with_synonyms: bool) -> Vec<DescribeConfigsResourceResult> {
    let mut found = Vec::with_capacity(SETTINGS.len());
    for setting in SETTINGS {
        let mut synonyms = Vec::new();
        for (source, set) in layers {
            let name = match *source == OF_TOPIC {
                true => setting.name,
                false => setting.of_broker,
            };
            if let Some((name, value)) = set.iter().find(|(known, _)| known == name) {
                synonyms.push((name.as_str(), value.as_str(), *source));
            }
        }
        let (value, source) = match synonyms.first() {
            Some((_, value, source)) => (*value, *source),
            None => (setting.default, DEFAULT),
        };
        if !setting.synonym.0.is_empty() {
            synonyms.push((setting.synonym.0, setting.synonym.1, DEFAULT));
        }
        let described =
            described_setting(setting.name, value, source).with_config_type(setting.kind);
        found.push(match with_synonyms {
            false => described,
            true => described.with_synonyms(
                synonyms
                    .into_iter()
                    .map(|(name, value, source)| {
                        DescribeConfigsSynonym::default()
                            .with_name(StrBytes::from_string(name.to_owned()))
                            .with_value(Some(StrBytes::from_string(value.to_owned())))
                            .with_source(source)
                    })
                    .collect(),
            ),
        });
    }
    // Settings of later releases, and internal ones that were set nevertheless.
    let known = |name: &str| SETTINGS.iter().any(|setting| setting.name == name);
    for (name, value) in layers.first().map_or(&[][..], |(_, set)| set) {
        if !known(name) {
            found.push(described_setting(name, value, OF_TOPIC));
        }
    }
    found
}

fn of_broker(set: Set, source: i8) -> Vec<DescribeConfigsResourceResult> {
    set.into_iter()
        .map(|(name, value)| {
            let kind = SETTINGS.iter().find(|setting| setting.of_broker == name);
            described_setting(&name, &value, source)
                .with_config_type(kind.map_or(0, |setting| setting.kind))
        })
        .collect()
}

fn described_setting(name: &str, value: &str, source: i8) -> DescribeConfigsResourceResult {
    // Not `read_only`, which stands for settings that no broker changes while it runs: who copies topics leaves them out.
    DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_string(name.to_owned()))
        .with_value(Some(StrBytes::from_string(value.to_owned())))
        .with_config_source(source)
        .with_documentation(None)
}
