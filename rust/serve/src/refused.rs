//! Requests that would change something: a directory is only read.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    InitProducerIdResponse, ProduceRequest, ProduceResponse,
};
use kafka_protocol::protocol::StrBytes;

/// The error that clients show with its message, and do not try again.
const ERROR: ResponseError = ResponseError::PolicyViolation;
const MESSAGE: StrBytes = StrBytes::from_static_str(
    "read-only: brokerless serves a directory, and changes nothing in it",
);

pub(crate) fn produce(request: &ProduceRequest, version: i16) -> ProduceResponse {
    let responses = request.topic_data.iter().map(|topic| {
        let partitions = topic.partition_data.iter().map(|one| {
            let response = PartitionProduceResponse::default()
                .with_index(one.index)
                .with_error_code(ERROR.code())
                .with_base_offset(-1);
            match version < 8 {
                true => response,
                false => response.with_error_message(Some(MESSAGE)),
            }
        });
        TopicProduceResponse::default()
            .with_name(topic.name.clone())
            .with_topic_id(topic.topic_id)
            .with_partition_responses(partitions.collect())
    });
    ProduceResponse::default().with_responses(responses.collect())
}

/// An idempotent producer asks for an id first. This error ends it.
pub(crate) fn init_producer_id() -> InitProducerIdResponse {
    InitProducerIdResponse::default()
        .with_error_code(ResponseError::ClusterAuthorizationFailed.code())
}

pub(crate) fn create_topics(request: &CreateTopicsRequest) -> CreateTopicsResponse {
    let topics = request.topics.iter().map(|topic| {
        CreatableTopicResult::default()
            .with_name(topic.name.clone())
            .with_error_code(ERROR.code())
            .with_error_message(Some(MESSAGE))
    });
    CreateTopicsResponse::default().with_topics(topics.collect())
}

pub(crate) fn delete_topics(request: &DeleteTopicsRequest, version: i16) -> DeleteTopicsResponse {
    let refused = |name, topic_id| {
        let response = DeletableTopicResult::default()
            .with_name(name)
            .with_error_code(ERROR.code());
        match version {
            ..5 => response,
            5 => response.with_error_message(Some(MESSAGE)),
            _ => response
                .with_topic_id(topic_id)
                .with_error_message(Some(MESSAGE)),
        }
    };
    let responses = match version < 6 {
        true => request
            .topic_names
            .iter()
            .map(|name| refused(Some(name.clone()), uuid::Uuid::nil()))
            .collect(),
        false => request
            .topics
            .iter()
            .map(|topic| refused(topic.name.clone(), topic.topic_id))
            .collect(),
    };
    DeleteTopicsResponse::default().with_responses(responses)
}
