//! The configs of topics and brokers.

use std::collections::BTreeSet;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::answers::call::Call;
use crate::answers::metadata::{illegal, not_there};
use crate::answers::refused::INVALID;
use crate::answers::settings::SETTINGS;
use crate::base::directory::Refusal;

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
/// The memory of the configs of a resource.
const OF_RESOURCE: usize = 16 << 10;

/// Answers DescribeConfigs: the configs of topics, and the dynamic configs of brokers in the metadata.
pub(super) fn configs(
    call: &Call,
    request: &DescribeConfigsRequest,
) -> Result<DescribeConfigsResponse, Refusal> {
    let topics = call.directory().topics()?;
    let node = call.peer.server.node_id.to_string();
    let set = |kind, name: &str| call.directory().configs(kind, name);
    let mut results = Vec::new();
    let mut asked = BTreeSet::new();
    for resource in &request.resources {
        let name = resource.resource_name.as_str();
        // A broker answers each resource once, too.
        if !asked.insert((resource.resource_type, name)) {
            continue;
        }
        let has_memory = call.share.grow(OF_RESOURCE);
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
                Ok(id) if id == call.peer.server.node_id => {
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
                // No keys stand for all keys.
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

/// Configs by name.
type Set = Vec<(String, String)>;

/// The configs of a topic. The first layer that has a config determines its value.
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
    // Configs of later releases, and internal ones that were set nevertheless.
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
    // Not `read_only`, which means that a config cannot change at runtime: tools that copy topics leave such configs
    // out.
    DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_string(name.to_owned()))
        .with_value(Some(StrBytes::from_string(value.to_owned())))
        .with_config_source(source)
        .with_documentation(None)
}
