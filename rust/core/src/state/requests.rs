//! Requests, as the message definitions in its jars describe them.
//!
//! Made by `tools/messages --requests` from the jars of Kafka 2.8.2, 3.2.3, 3.4.1, 3.9.2, 4.0.2, 4.1.0, 4.4.0. Do not edit:
//! run it again.

use crate::state::schema::Kind::{Array, Bool, Bytes, Int16, Int32, Int64, Int8, String, Struct, Uuid};
use crate::state::schema::{Field, NONE, Schema, between, field, schema, since};

pub(crate) static PRODUCE_REQUEST: Schema = schema("ProduceRequest", between(3, 13), since(9), &[
    field("transactionalId", String, since(3)).nullable(since(3)),
    field("acks", Int16, since(0)),
    field("timeoutMs", Int32, since(0)),
    field("topicData", Array(&Struct(&[
        field("name", String, between(0, 12)),
        field("topicId", Uuid, since(13)),
        field("partitionData", Array(&Struct(&[
            field("index", Int32, since(0)),
            field("records", Bytes, since(0)).nullable(since(0)),
        ])), since(0)),
    ])), since(0)),
]);

pub(crate) static FETCH_REQUEST: Schema = schema("FetchRequest", between(4, 18), since(12), &[
    field("clusterId", String, since(12)).nullable(since(12)).tagged(0, since(12), "null"),
    field("replicaId", Int32, between(0, 14)),
    field("replicaState", Struct(&[
        field("replicaId", Int32, since(15)),
        field("replicaEpoch", Int64, since(15)),
    ]), since(15)).tagged(1, since(15), "{\"replicaId\":-1,\"replicaEpoch\":-1}"),
    field("maxWaitMs", Int32, since(0)),
    field("minBytes", Int32, since(0)),
    field("maxBytes", Int32, since(3)),
    field("isolationLevel", Int8, since(4)),
    field("sessionId", Int32, since(7)),
    field("sessionEpoch", Int32, since(7)),
    field("topics", Array(&Struct(&[
        field("topic", String, between(0, 12)),
        field("topicId", Uuid, since(13)),
        field("partitions", Array(&Struct(&[
            field("partition", Int32, since(0)),
            field("currentLeaderEpoch", Int32, since(9)),
            field("fetchOffset", Int64, since(0)),
            field("lastFetchedEpoch", Int32, since(12)),
            field("logStartOffset", Int64, since(5)),
            field("partitionMaxBytes", Int32, since(0)),
            field("replicaDirectoryId", Uuid, since(17)).tagged(0, since(17), "\"AAAAAAAAAAAAAAAAAAAAAA\""),
            field("highWatermark", Int64, since(18)).tagged(1, since(18), "9223372036854775807"),
        ])), since(0)),
    ])), since(0)),
    field("forgottenTopicsData", Array(&Struct(&[
        field("topic", String, between(7, 12)),
        field("topicId", Uuid, since(13)),
        field("partitions", Array(&Int32), since(7)),
    ])), since(7)),
    field("rackId", String, since(11)),
]);

pub(crate) static LIST_OFFSETS_REQUEST: Schema = schema("ListOffsetsRequest", between(1, 11), since(6), &[
    field("replicaId", Int32, since(0)),
    field("isolationLevel", Int8, since(2)),
    field("topics", Array(&Struct(&[
        field("name", String, since(0)),
        field("partitions", Array(&Struct(&[
            field("partitionIndex", Int32, since(0)),
            field("currentLeaderEpoch", Int32, since(4)),
            field("timestamp", Int64, since(0)),
        ])), since(0)),
    ])), since(0)),
    field("timeoutMs", Int32, since(10)),
]);

pub(crate) static METADATA_REQUEST: Schema = schema("MetadataRequest", between(0, 13), since(9), &[
    field("topics", Array(&Struct(&[
        field("topicId", Uuid, since(10)),
        field("name", String, since(0)).nullable(since(10)),
    ])), since(0)).nullable(since(1)),
    field("allowAutoTopicCreation", Bool, since(4)),
    field("includeClusterAuthorizedOperations", Bool, between(8, 10)),
    field("includeTopicAuthorizedOperations", Bool, since(8)),
]);

pub(crate) static OFFSET_COMMIT_REQUEST: Schema = schema("OffsetCommitRequest", between(2, 10), since(8), &[
    field("groupId", String, since(0)),
    field("generationIdOrMemberEpoch", Int32, since(1)),
    field("memberId", String, since(1)),
    field("groupInstanceId", String, since(7)).nullable(since(7)),
    field("retentionTimeMs", Int64, between(2, 4)),
    field("topics", Array(&Struct(&[
        field("name", String, between(0, 9)),
        field("topicId", Uuid, since(10)),
        field("partitions", Array(&Struct(&[
            field("partitionIndex", Int32, since(0)),
            field("committedOffset", Int64, since(0)),
            field("committedLeaderEpoch", Int32, since(6)),
            field("committedMetadata", String, since(0)).nullable(since(0)),
        ])), since(0)),
    ])), since(0)),
]);

pub(crate) static OFFSET_FETCH_REQUEST: Schema = schema("OffsetFetchRequest", between(1, 10), since(6), &[
    field("groupId", String, between(0, 7)),
    field("topics", Array(&Struct(&[
        field("name", String, between(0, 7)),
        field("partitionIndexes", Array(&Int32), between(0, 7)),
    ])), between(0, 7)).nullable(between(2, 7)),
    field("groups", Array(&Struct(&[
        field("groupId", String, since(8)),
        field("memberId", String, since(9)).nullable(since(9)),
        field("memberEpoch", Int32, since(9)),
        field("topics", Array(&Struct(&[
            field("name", String, between(8, 9)),
            field("topicId", Uuid, since(10)),
            field("partitionIndexes", Array(&Int32), since(8)),
        ])), since(8)).nullable(since(8)),
    ])), since(8)),
    field("requireStable", Bool, since(7)),
]);

pub(crate) static FIND_COORDINATOR_REQUEST: Schema = schema("FindCoordinatorRequest", between(0, 6), since(3), &[
    field("key", String, between(0, 3)),
    field("keyType", Int8, since(1)),
    field("coordinatorKeys", Array(&String), since(4)),
]);

pub(crate) static JOIN_GROUP_REQUEST: Schema = schema("JoinGroupRequest", between(0, 9), since(6), &[
    field("groupId", String, since(0)),
    field("sessionTimeoutMs", Int32, since(0)),
    field("rebalanceTimeoutMs", Int32, since(1)),
    field("memberId", String, since(0)),
    field("groupInstanceId", String, since(5)).nullable(since(5)),
    field("protocolType", String, since(0)),
    field("protocols", Array(&Struct(&[
        field("name", String, since(0)),
        field("metadata", Bytes, since(0)),
    ])), since(0)),
    field("reason", String, since(8)).nullable(since(8)),
]);

pub(crate) static HEARTBEAT_REQUEST: Schema = schema("HeartbeatRequest", between(0, 4), since(4), &[
    field("groupId", String, since(0)),
    field("generationId", Int32, since(0)),
    field("memberId", String, since(0)),
    field("groupInstanceId", String, since(3)).nullable(since(3)),
]);

pub(crate) static LEAVE_GROUP_REQUEST: Schema = schema("LeaveGroupRequest", between(0, 5), since(4), &[
    field("groupId", String, since(0)),
    field("memberId", String, between(0, 2)),
    field("members", Array(&Struct(&[
        field("memberId", String, since(3)),
        field("groupInstanceId", String, since(3)).nullable(since(3)),
        field("reason", String, since(5)).nullable(since(5)),
    ])), since(3)),
]);

pub(crate) static SYNC_GROUP_REQUEST: Schema = schema("SyncGroupRequest", between(0, 5), since(4), &[
    field("groupId", String, since(0)),
    field("generationId", Int32, since(0)),
    field("memberId", String, since(0)),
    field("groupInstanceId", String, since(3)).nullable(since(3)),
    field("protocolType", String, since(5)).nullable(since(5)),
    field("protocolName", String, since(5)).nullable(since(5)),
    field("assignments", Array(&Struct(&[
        field("memberId", String, since(0)),
        field("assignment", Bytes, since(0)),
    ])), since(0)),
]);

pub(crate) static DESCRIBE_GROUPS_REQUEST: Schema = schema("DescribeGroupsRequest", between(0, 6), since(5), &[
    field("groups", Array(&String), since(0)),
    field("includeAuthorizedOperations", Bool, since(3)),
]);

pub(crate) static LIST_GROUPS_REQUEST: Schema = schema("ListGroupsRequest", between(0, 5), since(3), &[
    field("statesFilter", Array(&String), since(4)),
    field("typesFilter", Array(&String), since(5)),
]);

pub(crate) static SASL_HANDSHAKE_REQUEST: Schema = schema("SaslHandshakeRequest", between(0, 1), NONE, &[
    field("mechanism", String, since(0)),
]);

pub(crate) static API_VERSIONS_REQUEST: Schema = schema("ApiVersionsRequest", between(0, 5), since(3), &[
    field("clientSoftwareName", String, since(3)),
    field("clientSoftwareVersion", String, since(3)),
    field("clusterId", String, since(5)).nullable(since(5)),
    field("nodeId", Int32, since(5)),
]);

const CREATE_TOPICS_REQUEST_CREATABLE_TOPIC_CREATABLE_TOPIC_CONFIG_FIELDS: &[Field] = &[
    field("name", String, since(0)),
    field("value", String, since(0)).nullable(since(0)),
];

pub(crate) static CREATE_TOPICS_REQUEST: Schema = schema("CreateTopicsRequest", between(2, 7), since(5), &[
    field("topics", Array(&Struct(&[
        field("name", String, since(0)),
        field("numPartitions", Int32, since(0)),
        field("replicationFactor", Int16, since(0)),
        field("assignments", Array(&Struct(&[
            field("partitionIndex", Int32, since(0)),
            field("brokerIds", Array(&Int32), since(0)),
        ])), since(0)),
        field("configs", Array(&Struct(CREATE_TOPICS_REQUEST_CREATABLE_TOPIC_CREATABLE_TOPIC_CONFIG_FIELDS)), since(0)),
    ])), since(0)),
    field("timeoutMs", Int32, since(0)),
    field("validateOnly", Bool, since(1)),
]);

pub(crate) static DELETE_TOPICS_REQUEST: Schema = schema("DeleteTopicsRequest", between(1, 6), since(4), &[
    field("topics", Array(&Struct(&[
        field("name", String, since(6)).nullable(since(6)),
        field("topicId", Uuid, since(6)),
    ])), since(6)),
    field("topicNames", Array(&String), between(0, 5)),
    field("timeoutMs", Int32, since(0)),
]);

pub(crate) static DELETE_RECORDS_REQUEST: Schema = schema("DeleteRecordsRequest", between(0, 2), since(2), &[
    field("topics", Array(&Struct(&[
        field("name", String, since(0)),
        field("partitions", Array(&Struct(&[
            field("partitionIndex", Int32, since(0)),
            field("offset", Int64, since(0)),
        ])), since(0)),
    ])), since(0)),
    field("timeoutMs", Int32, since(0)),
]);

pub(crate) static INIT_PRODUCER_ID_REQUEST: Schema = schema("InitProducerIdRequest", between(0, 6), since(2), &[
    field("transactionalId", String, since(0)).nullable(since(0)),
    field("transactionTimeoutMs", Int32, since(0)),
    field("producerId", Int64, since(3)),
    field("producerEpoch", Int16, since(3)),
    field("enable2Pc", Bool, since(6)),
    field("keepPreparedTxn", Bool, since(6)),
]);

pub(crate) static OFFSET_FOR_LEADER_EPOCH_REQUEST: Schema = schema("OffsetForLeaderEpochRequest", between(2, 4), since(4), &[
    field("replicaId", Int32, since(3)),
    field("topics", Array(&Struct(&[
        field("topic", String, since(0)),
        field("partitions", Array(&Struct(&[
            field("partition", Int32, since(0)),
            field("currentLeaderEpoch", Int32, since(2)),
            field("leaderEpoch", Int32, since(0)),
        ])), since(0)),
    ])), since(0)),
]);

const ADD_PARTITIONS_TO_TXN_REQUEST_ADD_PARTITIONS_TO_TXN_TRANSACTION_ADD_PARTITIONS_TO_TXN_TOPIC_FIELDS: &[Field] = &[
    field("name", String, since(0)),
    field("partitions", Array(&Int32), since(0)),
];

pub(crate) static ADD_PARTITIONS_TO_TXN_REQUEST: Schema = schema("AddPartitionsToTxnRequest", between(0, 5), since(3), &[
    field("transactions", Array(&Struct(&[
        field("transactionalId", String, since(4)),
        field("producerId", Int64, since(4)),
        field("producerEpoch", Int16, since(4)),
        field("verifyOnly", Bool, since(4)),
        field("topics", Array(&Struct(ADD_PARTITIONS_TO_TXN_REQUEST_ADD_PARTITIONS_TO_TXN_TRANSACTION_ADD_PARTITIONS_TO_TXN_TOPIC_FIELDS)), since(4)),
    ])), since(4)),
    field("v3AndBelowTransactionalId", String, between(0, 3)),
    field("v3AndBelowProducerId", Int64, between(0, 3)),
    field("v3AndBelowProducerEpoch", Int16, between(0, 3)),
    field("v3AndBelowTopics", Array(&Struct(ADD_PARTITIONS_TO_TXN_REQUEST_ADD_PARTITIONS_TO_TXN_TRANSACTION_ADD_PARTITIONS_TO_TXN_TOPIC_FIELDS)), between(0, 3)),
]);

pub(crate) static ADD_OFFSETS_TO_TXN_REQUEST: Schema = schema("AddOffsetsToTxnRequest", between(0, 4), since(3), &[
    field("transactionalId", String, since(0)),
    field("producerId", Int64, since(0)),
    field("producerEpoch", Int16, since(0)),
    field("groupId", String, since(0)),
]);

pub(crate) static END_TXN_REQUEST: Schema = schema("EndTxnRequest", between(0, 5), since(3), &[
    field("transactionalId", String, since(0)),
    field("producerId", Int64, since(0)),
    field("producerEpoch", Int16, since(0)),
    field("committed", Bool, since(0)),
]);

pub(crate) static TXN_OFFSET_COMMIT_REQUEST: Schema = schema("TxnOffsetCommitRequest", between(0, 6), since(3), &[
    field("transactionalId", String, since(0)),
    field("groupId", String, since(0)),
    field("producerId", Int64, since(0)),
    field("producerEpoch", Int16, since(0)),
    field("generationIdOrMemberEpoch", Int32, since(3)),
    field("memberId", String, since(3)),
    field("groupInstanceId", String, since(3)).nullable(since(3)),
    field("topics", Array(&Struct(&[
        field("name", String, between(0, 5)),
        field("topicId", Uuid, since(6)),
        field("partitions", Array(&Struct(&[
            field("partitionIndex", Int32, since(0)),
            field("committedOffset", Int64, since(0)),
            field("committedLeaderEpoch", Int32, since(2)),
            field("committedMetadata", String, since(0)).nullable(since(0)),
        ])), since(0)),
    ])), since(0)),
]);

pub(crate) static CREATE_ACLS_REQUEST: Schema = schema("CreateAclsRequest", between(1, 3), since(2), &[
    field("creations", Array(&Struct(&[
        field("resourceType", Int8, since(0)),
        field("resourceName", String, since(0)),
        field("resourcePatternType", Int8, since(1)),
        field("principal", String, since(0)),
        field("host", String, since(0)),
        field("operation", Int8, since(0)),
        field("permissionType", Int8, since(0)),
    ])), since(0)),
]);

pub(crate) static DELETE_ACLS_REQUEST: Schema = schema("DeleteAclsRequest", between(1, 3), since(2), &[
    field("filters", Array(&Struct(&[
        field("resourceTypeFilter", Int8, since(0)),
        field("resourceNameFilter", String, since(0)).nullable(since(0)),
        field("patternTypeFilter", Int8, since(1)),
        field("principalFilter", String, since(0)).nullable(since(0)),
        field("hostFilter", String, since(0)).nullable(since(0)),
        field("operation", Int8, since(0)),
        field("permissionType", Int8, since(0)),
    ])), since(0)),
]);

pub(crate) static DESCRIBE_CONFIGS_REQUEST: Schema = schema("DescribeConfigsRequest", between(1, 4), since(4), &[
    field("resources", Array(&Struct(&[
        field("resourceType", Int8, since(0)),
        field("resourceName", String, since(0)),
        field("configurationKeys", Array(&String), since(0)).nullable(since(0)),
    ])), since(0)),
    field("includeSynonyms", Bool, since(1)),
    field("includeDocumentation", Bool, since(3)),
]);

pub(crate) static ALTER_CONFIGS_REQUEST: Schema = schema("AlterConfigsRequest", between(0, 2), since(2), &[
    field("resources", Array(&Struct(&[
        field("resourceType", Int8, since(0)),
        field("resourceName", String, since(0)),
        field("configs", Array(&Struct(CREATE_TOPICS_REQUEST_CREATABLE_TOPIC_CREATABLE_TOPIC_CONFIG_FIELDS)), since(0)),
    ])), since(0)),
    field("validateOnly", Bool, since(0)),
]);

pub(crate) static SASL_AUTHENTICATE_REQUEST: Schema = schema("SaslAuthenticateRequest", between(0, 2), since(2), &[
    field("authBytes", Bytes, since(0)),
]);

pub(crate) static CREATE_PARTITIONS_REQUEST: Schema = schema("CreatePartitionsRequest", between(0, 3), since(2), &[
    field("topics", Array(&Struct(&[
        field("name", String, since(0)),
        field("count", Int32, since(0)),
        field("assignments", Array(&Struct(&[
            field("brokerIds", Array(&Int32), since(0)),
        ])), since(0)).nullable(since(0)),
    ])), since(0)),
    field("timeoutMs", Int32, since(0)),
    field("validateOnly", Bool, since(0)),
]);

pub(crate) static DELETE_GROUPS_REQUEST: Schema = schema("DeleteGroupsRequest", between(0, 3), since(2), &[
    field("groupsNames", Array(&String), since(0)),
]);

pub(crate) static INCREMENTAL_ALTER_CONFIGS_REQUEST: Schema = schema("IncrementalAlterConfigsRequest", between(0, 1), since(1), &[
    field("resources", Array(&Struct(&[
        field("resourceType", Int8, since(0)),
        field("resourceName", String, since(0)),
        field("configs", Array(&Struct(&[
            field("name", String, since(0)),
            field("configOperation", Int8, since(0)),
            field("value", String, since(0)).nullable(since(0)),
        ])), since(0)),
    ])), since(0)),
    field("validateOnly", Bool, since(0)),
]);

pub(crate) static OFFSET_DELETE_REQUEST: Schema = schema("OffsetDeleteRequest", between(0, 0), NONE, &[
    field("groupId", String, since(0)),
    field("topics", Array(&Struct(&[
        field("name", String, since(0)),
        field("partitions", Array(&Struct(&[
            field("partitionIndex", Int32, since(0)),
        ])), since(0)),
    ])), since(0)),
]);

pub(crate) static DESCRIBE_CLUSTER_REQUEST: Schema = schema("DescribeClusterRequest", between(0, 2), since(0), &[
    field("includeClusterAuthorizedOperations", Bool, since(0)),
    field("endpointType", Int8, since(1)),
    field("includeFencedBrokers", Bool, since(2)),
]);

pub(crate) static CONSUMER_GROUP_HEARTBEAT_REQUEST: Schema = schema("ConsumerGroupHeartbeatRequest", between(0, 1), since(0), &[
    field("groupId", String, since(0)),
    field("memberId", String, since(0)),
    field("memberEpoch", Int32, since(0)),
    field("instanceId", String, since(0)).nullable(since(0)),
    field("rackId", String, since(0)).nullable(since(0)),
    field("rebalanceTimeoutMs", Int32, since(0)),
    field("subscribedTopicNames", Array(&String), since(0)).nullable(since(0)),
    field("subscribedTopicRegex", String, since(1)).nullable(since(1)),
    field("serverAssignor", String, since(0)).nullable(since(0)),
    field("topicPartitions", Array(&Struct(&[
        field("topicId", Uuid, since(0)),
        field("partitions", Array(&Int32), since(0)),
    ])), since(0)).nullable(since(0)),
]);

pub(crate) static CONSUMER_GROUP_DESCRIBE_REQUEST: Schema = schema("ConsumerGroupDescribeRequest", between(0, 1), since(0), &[
    field("groupIds", Array(&String), since(0)),
    field("includeAuthorizedOperations", Bool, since(0)),
]);

pub(crate) static DESCRIBE_TOPIC_PARTITIONS_REQUEST: Schema = schema("DescribeTopicPartitionsRequest", between(0, 0), since(0), &[
    field("topics", Array(&Struct(&[
        field("name", String, since(0)),
    ])), since(0)),
    field("responsePartitionLimit", Int32, since(0)),
    field("cursor", Struct(&[
        field("topicName", String, since(0)),
        field("partitionIndex", Int32, since(0)),
    ]), since(0)).nullable(since(0)),
]);


/// By API key, the requests that a server of a directory understands.
pub(crate) static REQUESTS: &[(i16, &Schema)] = &[
    (0, &PRODUCE_REQUEST),
    (1, &FETCH_REQUEST),
    (2, &LIST_OFFSETS_REQUEST),
    (3, &METADATA_REQUEST),
    (8, &OFFSET_COMMIT_REQUEST),
    (9, &OFFSET_FETCH_REQUEST),
    (10, &FIND_COORDINATOR_REQUEST),
    (11, &JOIN_GROUP_REQUEST),
    (12, &HEARTBEAT_REQUEST),
    (13, &LEAVE_GROUP_REQUEST),
    (14, &SYNC_GROUP_REQUEST),
    (15, &DESCRIBE_GROUPS_REQUEST),
    (16, &LIST_GROUPS_REQUEST),
    (17, &SASL_HANDSHAKE_REQUEST),
    (18, &API_VERSIONS_REQUEST),
    (19, &CREATE_TOPICS_REQUEST),
    (20, &DELETE_TOPICS_REQUEST),
    (21, &DELETE_RECORDS_REQUEST),
    (22, &INIT_PRODUCER_ID_REQUEST),
    (23, &OFFSET_FOR_LEADER_EPOCH_REQUEST),
    (24, &ADD_PARTITIONS_TO_TXN_REQUEST),
    (25, &ADD_OFFSETS_TO_TXN_REQUEST),
    (26, &END_TXN_REQUEST),
    (28, &TXN_OFFSET_COMMIT_REQUEST),
    (30, &CREATE_ACLS_REQUEST),
    (31, &DELETE_ACLS_REQUEST),
    (32, &DESCRIBE_CONFIGS_REQUEST),
    (33, &ALTER_CONFIGS_REQUEST),
    (36, &SASL_AUTHENTICATE_REQUEST),
    (37, &CREATE_PARTITIONS_REQUEST),
    (42, &DELETE_GROUPS_REQUEST),
    (44, &INCREMENTAL_ALTER_CONFIGS_REQUEST),
    (47, &OFFSET_DELETE_REQUEST),
    (60, &DESCRIBE_CLUSTER_REQUEST),
    (68, &CONSUMER_GROUP_HEARTBEAT_REQUEST),
    (69, &CONSUMER_GROUP_DESCRIBE_REQUEST),
    (75, &DESCRIBE_TOPIC_PARTITIONS_REQUEST),
];
