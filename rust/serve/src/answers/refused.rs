//! Requests that would change data. They are refused, because a directory is only read.

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
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AlterConfigsRequest, AlterConfigsResponse, CreateAclsRequest, CreateAclsResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteAclsRequest, DeleteAclsResponse, DeleteGroupsRequest, DeleteGroupsResponse,
    DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    EndTxnResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    InitProducerIdResponse, OffsetCommitResponse, OffsetDeleteResponse, ProduceRequest,
    ProduceResponse, TxnOffsetCommitRequest, alter_configs_response,
    incremental_alter_configs_response,
};
use kafka_protocol::protocol::{HeaderVersion, StrBytes};

use crate::answers::call::{Answered, Call};
use crate::base::directory::{MOST_OF_NAME, Topics};
use crate::protocol::versions_4_4::{
    IDS_IN_COMMITS, IDS_IN_TXN_COMMITS, WHY_NOT_DELETED, body_with_names, delete_groups_reply,
    id_of,
};
use crate::protocol::wire::{ProtocolError, Reply, Request, encode};

/// The error that clients show with its message and do not retry.
const ERROR: ResponseError = ResponseError::PolicyViolation;
/// The error that ends a transactional producer, without an abort or a retry.
const NO_TRANSACTIONS: ResponseError = ResponseError::TransactionalIdAuthorizationFailed;
pub(super) const READ_ONLY: StrBytes = StrBytes::from_static_str(
    "read-only: brokerless serves a directory, and changes nothing in it",
);
/// The message of a broker for `InvalidRequest`.
pub(super) const INVALID: &str = "This most likely occurs because of a request being malformed by the client \
    library or the message was sent to an incompatible broker. See the broker logs for more details.";

pub(super) fn produce(call: &Call, request: &ProduceRequest) -> Answered<ProduceResponse> {
    report(call, request);
    if request.acks == 0 {
        // Such a client reads no response. A broker closes the connection, so that it notices.
        let text = "records without a wish for an answer";
        return Err(ProtocolError::Bytes(text.to_owned()));
    }
    let responses = request.topic_data.iter().map(|topic| {
        let partitions = topic.partition_data.iter().map(|one| {
            let response = PartitionProduceResponse::default()
                .with_index(one.index)
                .with_error_code(ERROR.code())
                .with_base_offset(-1);
            match call.version() < 8 {
                true => response,
                false => response.with_error_message(Some(READ_ONLY)),
            }
        });
        TopicProduceResponse::default()
            .with_name(topic.name.clone())
            .with_topic_id(topic.topic_id)
            .with_partition_responses(partitions.collect())
    });
    Ok(ProduceResponse::default().with_responses(responses.collect()))
}

/// Reports the first topic to which a client tries to produce. Later versions give only its id.
fn report(call: &Call, request: &ProduceRequest) {
    let first = request.topic_data.first();
    let id = first.map(|topic| topic.topic_id).unwrap_or_default();
    let known = call.directory().topics();
    let by_id = known.as_ref().ok().and_then(|known| known.by_id(id));
    let given = first.map_or("", |topic| topic.name.as_str());
    let name = by_id.map_or(given, |topic| topic.name.as_str());
    call.directory().refused(match name.len() {
        0..=MOST_OF_NAME => name,
        // No topic can have this name, and the directory remembers what it has reported.
        _ => "",
    });
}

/// Answers InitProducerId, which an idempotent producer sends first, with an error that ends the producer.
pub(super) fn init_producer_id(call: &Call) -> Answered {
    call.directory().refused("");
    let error = ResponseError::ClusterAuthorizationFailed;
    let response = InitProducerIdResponse::default().with_error_code(error.code());
    call.request.reply(&response)
}

pub(super) fn create_topics(
    _: &Call,
    request: &CreateTopicsRequest,
) -> Answered<CreateTopicsResponse> {
    let topics = request.topics.iter().map(|topic| {
        CreatableTopicResult::default()
            .with_name(topic.name.clone())
            .with_error_code(ERROR.code())
            .with_error_message(Some(READ_ONLY))
    });
    Ok(CreateTopicsResponse::default().with_topics(topics.collect()))
}

pub(super) fn delete_topics(
    call: &Call,
    request: &DeleteTopicsRequest,
) -> Answered<DeleteTopicsResponse> {
    let version = call.version();
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
    Ok(DeleteTopicsResponse::default().with_responses(responses))
}

/// The maximum size of a request that is refused with a message for each resource in it. The limit exists because an
/// empty name of one byte would get an answer of 75 bytes.
const MOST_BYTES: usize = 1 << 17;

/// Closes the connection of a client whose request for changes is too long.
pub(super) fn check_size(request: &Request) -> Result<(), ProtocolError> {
    match request.body.len() {
        ..=MOST_BYTES => Ok(()),
        length => Err(ProtocolError::Bytes(format!(
            "{:?} of {length} bytes, which is above {MOST_BYTES}: the directory is only read",
            request.api
        ))),
    }
}

pub(super) fn alter_configs(
    _: &Call,
    request: &AlterConfigsRequest,
) -> Answered<AlterConfigsResponse> {
    let responses = request.resources.iter().map(|one| {
        alter_configs_response::AlterConfigsResourceResponse::default()
            .with_resource_type(one.resource_type)
            .with_resource_name(one.resource_name.clone())
            .with_error_code(ERROR.code())
            .with_error_message(Some(READ_ONLY))
    });
    Ok(AlterConfigsResponse::default().with_responses(responses.collect()))
}

pub(super) fn alter_configs_by_increments(
    _: &Call,
    request: &IncrementalAlterConfigsRequest,
) -> Answered<IncrementalAlterConfigsResponse> {
    let responses = request.resources.iter().map(|one| {
        incremental_alter_configs_response::AlterConfigsResourceResponse::default()
            .with_resource_type(one.resource_type)
            .with_resource_name(one.resource_name.clone())
            .with_error_code(ERROR.code())
            .with_error_message(Some(READ_ONLY))
    });
    Ok(IncrementalAlterConfigsResponse::default().with_responses(responses.collect()))
}

pub(super) fn create_partitions(
    _: &Call,
    request: &CreatePartitionsRequest,
) -> Answered<CreatePartitionsResponse> {
    let results = request.topics.iter().map(|topic| {
        CreatePartitionsTopicResult::default()
            .with_name(topic.name.clone())
            .with_error_code(ERROR.code())
            .with_error_message(Some(READ_ONLY))
    });
    Ok(CreatePartitionsResponse::default().with_results(results.collect()))
}

pub(super) fn delete_records(
    _: &Call,
    request: &DeleteRecordsRequest,
) -> Answered<DeleteRecordsResponse> {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|one| {
            DeleteRecordsPartitionResult::default()
                .with_partition_index(one.partition_index)
                .with_low_watermark(-1)
                .with_error_code(ERROR.code())
        });
        DeleteRecordsTopicResult::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    Ok(DeleteRecordsResponse::default().with_topics(topics.collect()))
}

pub(super) fn delete_groups(call: &Call) -> Answered {
    let groups = call.request.body::<DeleteGroupsRequest>()?.groups_names;
    if call.version() >= WHY_NOT_DELETED {
        return delete_groups_reply(&call.request, &groups, ERROR, &READ_ONLY);
    }
    let results = groups.into_iter().map(|group| {
        DeletableGroupResult::default()
            .with_group_id(group)
            .with_error_code(ERROR.code())
    });
    let response = DeleteGroupsResponse::default().with_results(results.collect());
    call.request.reply(&response)
}

pub(super) fn delete_offsets(call: &Call) -> Answered {
    let response = OffsetDeleteResponse::default().with_error_code(ERROR.code());
    call.request.reply(&response)
}

pub(super) fn create_acls(_: &Call, request: &CreateAclsRequest) -> Answered<CreateAclsResponse> {
    let result = AclCreationResult::default()
        .with_error_code(ERROR.code())
        .with_error_message(Some(READ_ONLY));
    let results = vec![result; request.creations.len()];
    Ok(CreateAclsResponse::default().with_results(results))
}

pub(super) fn delete_acls(_: &Call, request: &DeleteAclsRequest) -> Answered<DeleteAclsResponse> {
    let result = DeleteAclsFilterResult::default()
        .with_error_code(ERROR.code())
        .with_error_message(Some(READ_ONLY));
    let results = vec![result; request.filters.len()];
    Ok(DeleteAclsResponse::default().with_filter_results(results))
}

pub(super) fn add_offsets(call: &Call) -> Answered {
    let response = AddOffsetsToTxnResponse::default().with_error_code(NO_TRANSACTIONS.code());
    call.request.reply(&response)
}

pub(super) fn end_transaction(call: &Call) -> Answered {
    let response = EndTxnResponse::default().with_error_code(NO_TRANSACTIONS.code());
    call.request.reply(&response)
}

pub(super) fn commit_in_transaction(call: &Call) -> Answered {
    // Each partition gets the same error, whether or not its topic exists.
    let topics = Topics::default();
    let request: TxnOffsetCommitRequest = body_with_names(&call.request, &topics)?;
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|one| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(one.partition_index)
                .with_error_code(NO_TRANSACTIONS.code())
        });
        let (id, _) = id_of(&topics, &topic.name).unwrap_or_default();
        OffsetCommitResponseTopic::default()
            .with_name(topic.name)
            .with_topic_id(id)
            .with_partitions(partitions.collect())
    });
    let response = OffsetCommitResponse::default().with_topics(topics.collect());
    // These versions of OffsetCommit have the same fields in their responses, and the crate knows the one with ids.
    let version = match call.version() {
        ..3 => 7,
        3..IDS_IN_TXN_COMMITS => IDS_IN_COMMITS - 1,
        _ => IDS_IN_COMMITS,
    };
    let header_version = OffsetCommitResponse::header_version(version);
    let mut reply = Reply::new(header_version, call.request.correlation_id)?;
    encode(&response, version, reply.buffer())?;
    Ok(reply)
}

pub(super) fn add_partitions(
    call: &Call,
    request: &AddPartitionsToTxnRequest,
) -> Answered<AddPartitionsToTxnResponse> {
    let refused = |topics: &[AddPartitionsToTxnTopic]| {
        let topics = topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|number| {
                AddPartitionsToTxnPartitionResult::default()
                    .with_partition_index(*number)
                    .with_partition_error_code(NO_TRANSACTIONS.code())
            });
            AddPartitionsToTxnTopicResult::default()
                .with_name(topic.name.clone())
                .with_results_by_partition(partitions.collect())
        });
        topics.collect::<Vec<AddPartitionsToTxnTopicResult>>()
    };
    let response = AddPartitionsToTxnResponse::default();
    if call.version() < 4 {
        let results = refused(&request.v3_and_below_topics);
        return Ok(response.with_results_by_topic_v3_and_below(results));
    }
    let results = request.transactions.iter().map(|transaction| {
        AddPartitionsToTxnResult::default()
            .with_transactional_id(transaction.transactional_id.clone())
            .with_topic_results(refused(&transaction.topics))
    });
    Ok(response.with_results_by_transaction(results.collect()))
}
