//! Requests that would change something: a directory is only read.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AlterConfigsRequest, AlterConfigsResponse, ApiKey, CreateAclsRequest, CreateAclsResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteAclsRequest, DeleteAclsResponse, DeleteGroupsRequest, DeleteGroupsResponse,
    DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    EndTxnResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    InitProducerIdResponse, OffsetDeleteResponse, ProduceRequest, ProduceResponse,
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, alter_configs_response,
    incremental_alter_configs_response,
};
use kafka_protocol::protocol::StrBytes;

use crate::newest;
use crate::wire::{Broken, Reply, Request};

/// The error that clients show with its message, and do not try again.
const ERROR: ResponseError = ResponseError::PolicyViolation;
/// The error that ends a transactional producer: it does not abort, and does not try again.
const NO_TRANSACTIONS: ResponseError = ResponseError::TransactionalIdAuthorizationFailed;
pub(crate) const READ_ONLY: StrBytes = StrBytes::from_static_str(
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
                false => response.with_error_message(Some(READ_ONLY)),
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
            .with_error_message(Some(READ_ONLY))
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
            5 => response.with_error_message(Some(READ_ONLY)),
            _ => response
                .with_topic_id(topic_id)
                .with_error_message(Some(READ_ONLY)),
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

/// The most bytes of a request that is refused with a message for each thing that it names: an empty name of a byte
/// would have an answer of 75 bytes.
const MOST_BYTES: usize = 1 << 17;

/// Closes the connection of a client that wants too much to be changed.
pub(crate) fn check_size(request: &Request) -> Result<(), Broken> {
    match request.body_bytes().len() {
        ..=MOST_BYTES => Ok(()),
        length => Err(Broken::Bytes(format!(
            "{:?} of {length} bytes, which is above {MOST_BYTES}: the directory is only read",
            request.api
        ))),
    }
}

/// Returns the reply to any other request that would change something.
pub(crate) fn reply(request: &Request) -> Result<Reply, Broken> {
    check_size(request)?;
    match request.api {
        ApiKey::AlterConfigs => {
            let body: AlterConfigsRequest = request.body()?;
            let responses = body.resources.into_iter().map(|one| {
                alter_configs_response::AlterConfigsResourceResponse::default()
                    .with_resource_type(one.resource_type)
                    .with_resource_name(one.resource_name)
                    .with_error_code(ERROR.code())
                    .with_error_message(Some(READ_ONLY))
            });
            request.reply(&AlterConfigsResponse::default().with_responses(responses.collect()))
        }
        ApiKey::IncrementalAlterConfigs => {
            let body: IncrementalAlterConfigsRequest = request.body()?;
            let responses = body.resources.into_iter().map(|one| {
                incremental_alter_configs_response::AlterConfigsResourceResponse::default()
                    .with_resource_type(one.resource_type)
                    .with_resource_name(one.resource_name)
                    .with_error_code(ERROR.code())
                    .with_error_message(Some(READ_ONLY))
            });
            let response = IncrementalAlterConfigsResponse::default();
            request.reply(&response.with_responses(responses.collect()))
        }
        ApiKey::CreatePartitions => {
            let body: CreatePartitionsRequest = request.body()?;
            let results = body.topics.into_iter().map(|topic| {
                CreatePartitionsTopicResult::default()
                    .with_name(topic.name)
                    .with_error_code(ERROR.code())
                    .with_error_message(Some(READ_ONLY))
            });
            request.reply(&CreatePartitionsResponse::default().with_results(results.collect()))
        }
        ApiKey::DeleteRecords => {
            let body: DeleteRecordsRequest = request.body()?;
            let topics = body.topics.into_iter().map(|topic| {
                let partitions = topic.partitions.into_iter().map(|one| {
                    DeleteRecordsPartitionResult::default()
                        .with_partition_index(one.partition_index)
                        .with_low_watermark(-1)
                        .with_error_code(ERROR.code())
                });
                DeleteRecordsTopicResult::default()
                    .with_name(topic.name)
                    .with_partitions(partitions.collect())
            });
            request.reply(&DeleteRecordsResponse::default().with_topics(topics.collect()))
        }
        ApiKey::DeleteGroups => {
            let body: DeleteGroupsRequest = request.body()?;
            let results = body.groups_names.into_iter().map(|group| {
                DeletableGroupResult::default()
                    .with_group_id(group)
                    .with_error_code(ERROR.code())
            });
            let response = DeleteGroupsResponse::default().with_results(results.collect());
            match request.version < newest::WHY_NOT_DELETED {
                true => request.reply(&response),
                false => newest::delete_groups_reply(request, response, &READ_ONLY),
            }
        }
        ApiKey::OffsetDelete => {
            request.reply(&OffsetDeleteResponse::default().with_error_code(ERROR.code()))
        }
        ApiKey::CreateAcls => {
            let body: CreateAclsRequest = request.body()?;
            let result = AclCreationResult::default()
                .with_error_code(ERROR.code())
                .with_error_message(Some(READ_ONLY));
            let results = vec![result; body.creations.len()];
            request.reply(&CreateAclsResponse::default().with_results(results))
        }
        ApiKey::DeleteAcls => {
            let body: DeleteAclsRequest = request.body()?;
            let result = DeleteAclsFilterResult::default()
                .with_error_code(ERROR.code())
                .with_error_message(Some(READ_ONLY));
            let results = vec![result; body.filters.len()];
            request.reply(&DeleteAclsResponse::default().with_filter_results(results))
        }
        ApiKey::AddPartitionsToTxn => {
            let body: AddPartitionsToTxnRequest = request.body()?;
            request.reply(&add_partitions(body, request.version))
        }
        ApiKey::AddOffsetsToTxn => request
            .reply(&AddOffsetsToTxnResponse::default().with_error_code(NO_TRANSACTIONS.code())),
        ApiKey::EndTxn => {
            request.reply(&EndTxnResponse::default().with_error_code(NO_TRANSACTIONS.code()))
        }
        ApiKey::TxnOffsetCommit if request.version >= newest::IDS_IN_TXN_COMMITS => {
            newest::txn_offset_commit_reply(request, NO_TRANSACTIONS)
        }
        ApiKey::TxnOffsetCommit => {
            let body: TxnOffsetCommitRequest = request.body()?;
            let topics = body.topics.into_iter().map(|topic| {
                let partitions = topic.partitions.into_iter().map(|one| {
                    TxnOffsetCommitResponsePartition::default()
                        .with_partition_index(one.partition_index)
                        .with_error_code(NO_TRANSACTIONS.code())
                });
                TxnOffsetCommitResponseTopic::default()
                    .with_name(topic.name)
                    .with_partitions(partitions.collect())
            });
            request.reply(&TxnOffsetCommitResponse::default().with_topics(topics.collect()))
        }
        other => Err(Broken::Bytes(format!("no answer to {other:?}"))),
    }
}

fn add_partitions(body: AddPartitionsToTxnRequest, version: i16) -> AddPartitionsToTxnResponse {
    let refused = |topics: Vec<AddPartitionsToTxnTopic>| -> Vec<AddPartitionsToTxnTopicResult> {
        let topics = topics.into_iter().map(|topic| {
            let partitions = topic.partitions.into_iter().map(|number| {
                AddPartitionsToTxnPartitionResult::default()
                    .with_partition_index(number)
                    .with_partition_error_code(NO_TRANSACTIONS.code())
            });
            AddPartitionsToTxnTopicResult::default()
                .with_name(topic.name)
                .with_results_by_partition(partitions.collect())
        });
        topics.collect()
    };
    if version < 4 {
        return AddPartitionsToTxnResponse::default()
            .with_results_by_topic_v3_and_below(refused(body.v3_and_below_topics));
    }
    let results = body.transactions.into_iter().map(|transaction| {
        AddPartitionsToTxnResult::default()
            .with_transactional_id(transaction.transactional_id)
            .with_topic_results(refused(transaction.topics))
    });
    AddPartitionsToTxnResponse::default().with_results_by_transaction(results.collect())
}
