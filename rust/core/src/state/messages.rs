//! The records of Kafka's own topics, as the message definitions in its jars describe them.
//!
//! Made by `tools/messages` from the jars of Kafka 2.8.2, 3.2.3, 3.4.1, 3.9.2, 4.0.2, 4.1.0, 4.4.0. Do not edit:
//! run it again.

use crate::state::schema::Kind::{Array, Bool, Bytes, Float64, Int16, Int32, Int64, Int8, String, Struct, Uint16, Uuid};
use crate::state::schema::{Field, Keyed, NONE, Schema, between, field, schema, since};

const REGISTER_BROKER_RECORD_BROKER_ENDPOINT_FIELDS: &[Field] = &[
    field("name", String, since(0)),
    field("host", String, since(0)),
    field("port", Uint16, since(0)),
    field("securityProtocol", Int16, since(0)),
];

const REGISTER_BROKER_RECORD_BROKER_FEATURE_FIELDS: &[Field] = &[
    field("name", String, since(0)),
    field("minSupportedVersion", Int16, since(0)),
    field("maxSupportedVersion", Int16, since(0)),
];

pub(crate) static REGISTER_BROKER_RECORD: Schema = schema("RegisterBrokerRecord", between(0, 4), since(0), &[
    field("brokerId", Int32, since(0)),
    field("isMigratingZkBroker", Bool, since(2)),
    field("incarnationId", Uuid, since(0)),
    field("brokerEpoch", Int64, since(0)),
    field("endPoints", Array(&Struct(REGISTER_BROKER_RECORD_BROKER_ENDPOINT_FIELDS)), since(0)),
    field("features", Array(&Struct(REGISTER_BROKER_RECORD_BROKER_FEATURE_FIELDS)), since(0)),
    field("rack", String, since(0)).nullable(since(0)),
    field("fenced", Bool, since(0)),
    field("inControlledShutdown", Bool, since(1)),
    field("logDirs", Array(&Uuid), since(3)).tagged(0, since(3), "[]"),
    field("cordonedLogDirs", Array(&Uuid), since(4)).nullable(since(4)).tagged(1, since(4), "null"),
]);

const UNREGISTER_BROKER_RECORD_FIELDS: &[Field] = &[
    field("brokerId", Int32, since(0)),
    field("brokerEpoch", Int64, since(0)),
];

pub(crate) static UNREGISTER_BROKER_RECORD: Schema = schema("UnregisterBrokerRecord", between(0, 0), since(0), UNREGISTER_BROKER_RECORD_FIELDS);

const TOPIC_RECORD_FIELDS: &[Field] = &[
    field("name", String, since(0)),
    field("topicId", Uuid, since(0)),
];

pub(crate) static TOPIC_RECORD: Schema = schema("TopicRecord", between(0, 0), since(0), TOPIC_RECORD_FIELDS);

pub(crate) static PARTITION_RECORD: Schema = schema("PartitionRecord", between(0, 2), since(0), &[
    field("partitionId", Int32, since(0)),
    field("topicId", Uuid, since(0)),
    field("replicas", Array(&Int32), since(0)),
    field("isr", Array(&Int32), since(0)),
    field("removingReplicas", Array(&Int32), since(0)),
    field("addingReplicas", Array(&Int32), since(0)),
    field("leader", Int32, since(0)),
    field("leaderRecoveryState", Int8, since(0)).tagged(0, since(0), "0"),
    field("leaderEpoch", Int32, since(0)),
    field("partitionEpoch", Int32, since(0)),
    field("directories", Array(&Uuid), since(1)),
    field("eligibleLeaderReplicas", Array(&Int32), since(2)).nullable(since(2)).tagged(1, since(2), "null"),
    field("lastKnownElr", Array(&Int32), since(2)).nullable(since(2)).tagged(2, since(2), "null"),
]);

pub(crate) static CONFIG_RECORD: Schema = schema("ConfigRecord", between(0, 0), since(0), &[
    field("resourceType", Int8, since(0)),
    field("resourceName", String, since(0)),
    field("name", String, since(0)),
    field("value", String, since(0)).nullable(since(0)),
]);

pub(crate) static PARTITION_CHANGE_RECORD: Schema = schema("PartitionChangeRecord", between(0, 2), since(0), &[
    field("partitionId", Int32, since(0)),
    field("topicId", Uuid, since(0)),
    field("isr", Array(&Int32), since(0)).nullable(since(0)).tagged(0, since(0), "null"),
    field("leader", Int32, since(0)).tagged(1, since(0), "-2"),
    field("replicas", Array(&Int32), since(0)).nullable(since(0)).tagged(2, since(0), "null"),
    field("removingReplicas", Array(&Int32), since(0)).nullable(since(0)).tagged(3, since(0), "null"),
    field("addingReplicas", Array(&Int32), since(0)).nullable(since(0)).tagged(4, since(0), "null"),
    field("leaderRecoveryState", Int8, since(0)).tagged(5, since(0), "-1"),
    field("directories", Array(&Uuid), since(1)).nullable(since(1)).tagged(8, since(1), "null"),
    field("eligibleLeaderReplicas", Array(&Int32), since(2)).nullable(since(2)).tagged(6, since(2), "null"),
    field("lastKnownElr", Array(&Int32), since(2)).nullable(since(2)).tagged(7, since(2), "null"),
]);

pub(crate) static ACCESS_CONTROL_RECORD: Schema = schema("AccessControlRecord", between(0, 0), since(0), &[
    field("resourceType", Int8, since(0)),
    field("resourceName", String, since(0)).nullable(since(0)),
    field("patternType", Int8, since(0)),
    field("principal", String, since(0)),
    field("host", String, since(0)),
    field("operation", Int8, since(0)),
    field("permissionType", Int8, since(0)),
]);

const FENCE_BROKER_RECORD_FIELDS: &[Field] = &[
    field("id", Int32, since(0)),
    field("epoch", Int64, since(0)),
];

pub(crate) static FENCE_BROKER_RECORD: Schema = schema("FenceBrokerRecord", between(0, 0), since(0), FENCE_BROKER_RECORD_FIELDS);

pub(crate) static UNFENCE_BROKER_RECORD: Schema = schema("UnfenceBrokerRecord", between(0, 0), since(0), FENCE_BROKER_RECORD_FIELDS);

const REMOVE_TOPIC_RECORD_FIELDS: &[Field] = &[
    field("topicId", Uuid, since(0)),
];

pub(crate) static REMOVE_TOPIC_RECORD: Schema = schema("RemoveTopicRecord", between(0, 0), since(0), REMOVE_TOPIC_RECORD_FIELDS);

pub(crate) static DELEGATION_TOKEN_RECORD: Schema = schema("DelegationTokenRecord", between(0, 0), since(0), &[
    field("owner", String, since(0)),
    field("requester", String, since(0)),
    field("renewers", Array(&String), since(0)),
    field("issueTimestamp", Int64, since(0)),
    field("maxTimestamp", Int64, since(0)),
    field("expirationTimestamp", Int64, since(0)),
    field("tokenId", String, since(0)),
]);

pub(crate) static USER_SCRAM_CREDENTIAL_RECORD: Schema = schema("UserScramCredentialRecord", between(0, 0), since(0), &[
    field("name", String, since(0)),
    field("mechanism", Int8, since(0)),
    field("salt", Bytes, since(0)),
    field("storedKey", Bytes, since(0)),
    field("serverKey", Bytes, since(0)),
    field("iterations", Int32, since(0)),
]);

pub(crate) static FEATURE_LEVEL_RECORD: Schema = schema("FeatureLevelRecord", between(0, 0), since(0), &[
    field("name", String, since(0)),
    field("featureLevel", Int16, since(0)),
]);

const CLIENT_QUOTA_RECORD_FIELDS: &[Field] = &[
    field("entity", Array(&Struct(&[
        field("entityType", String, since(0)),
        field("entityName", String, since(0)).nullable(since(0)),
    ])), since(0)),
    field("key", String, since(0)),
    field("value", Float64, since(0)),
    field("remove", Bool, since(0)),
];

pub(crate) static CLIENT_QUOTA_RECORD: Schema = schema("ClientQuotaRecord", between(0, 0), since(0), CLIENT_QUOTA_RECORD_FIELDS);

pub(crate) static PRODUCER_IDS_RECORD: Schema = schema("ProducerIdsRecord", between(0, 0), since(0), &[
    field("brokerId", Int32, since(0)),
    field("brokerEpoch", Int64, since(0)),
    field("nextProducerId", Int64, since(0)),
]);

pub(crate) static REMOVE_FEATURE_LEVEL_RECORD: Schema = schema("RemoveFeatureLevelRecord", between(0, 0), since(0), &[
    field("name", String, since(0)),
]);

pub(crate) static BROKER_REGISTRATION_CHANGE_RECORD: Schema = schema("BrokerRegistrationChangeRecord", between(0, 3), since(0), &[
    field("brokerId", Int32, since(0)),
    field("brokerEpoch", Int64, since(0)),
    field("fenced", Int8, since(0)).tagged(0, since(0), "0"),
    field("inControlledShutdown", Int8, since(1)).tagged(1, since(1), "0"),
    field("logDirs", Array(&Uuid), since(2)).tagged(2, since(2), "[]"),
    field("cordonedLogDirs", Array(&Uuid), since(3)).nullable(since(3)).tagged(3, since(3), "null"),
]);

pub(crate) static ACCESS_CONTROL_ENTRY_RECORD: Schema = schema("AccessControlEntryRecord", between(0, 0), since(0), &[
    field("id", Uuid, since(0)),
    field("resourceType", Int8, since(0)),
    field("resourceName", String, since(0)),
    field("patternType", Int8, since(0)),
    field("principal", String, since(0)),
    field("host", String, since(0)),
    field("operation", Int8, since(0)),
    field("permissionType", Int8, since(0)),
]);

pub(crate) static REMOVE_ACCESS_CONTROL_ENTRY_RECORD: Schema = schema("RemoveAccessControlEntryRecord", between(0, 0), since(0), &[
    field("id", Uuid, since(0)),
]);

const NO_OP_RECORD_FIELDS: &[Field] = &[

];

pub(crate) static NO_OP_RECORD: Schema = schema("NoOpRecord", between(0, 0), since(0), NO_OP_RECORD_FIELDS);

pub(crate) static ZK_MIGRATION_STATE_RECORD: Schema = schema("ZkMigrationStateRecord", between(0, 0), since(0), &[
    field("zkMigrationState", Int8, since(0)),
]);

pub(crate) static REMOVE_USER_SCRAM_CREDENTIAL_RECORD: Schema = schema("RemoveUserScramCredentialRecord", between(0, 0), since(0), &[
    field("name", String, since(0)),
    field("mechanism", Int8, since(0)),
]);

pub(crate) static BEGIN_TRANSACTION_RECORD: Schema = schema("BeginTransactionRecord", between(0, 0), since(0), &[
    field("name", String, since(0)).nullable(since(0)).tagged(0, since(0), "null"),
]);

pub(crate) static END_TRANSACTION_RECORD: Schema = schema("EndTransactionRecord", between(0, 0), since(0), NO_OP_RECORD_FIELDS);

pub(crate) static ABORT_TRANSACTION_RECORD: Schema = schema("AbortTransactionRecord", between(0, 0), since(0), &[
    field("reason", String, since(0)).nullable(since(0)).tagged(0, since(0), "null"),
]);

pub(crate) static REMOVE_DELEGATION_TOKEN_RECORD: Schema = schema("RemoveDelegationTokenRecord", between(0, 0), since(0), &[
    field("tokenId", String, since(0)),
]);

pub(crate) static REGISTER_CONTROLLER_RECORD: Schema = schema("RegisterControllerRecord", between(0, 0), since(0), &[
    field("controllerId", Int32, since(0)),
    field("incarnationId", Uuid, since(0)),
    field("zkMigrationReady", Bool, since(0)),
    field("endPoints", Array(&Struct(REGISTER_BROKER_RECORD_BROKER_ENDPOINT_FIELDS)), since(0)),
    field("features", Array(&Struct(REGISTER_BROKER_RECORD_BROKER_FEATURE_FIELDS)), since(0)),
]);

pub(crate) static CLEAR_ELR_RECORD: Schema = schema("ClearElrRecord", between(0, 0), since(0), &[
    field("topicName", String, since(0)),
]);

pub(crate) static UNREGISTER_CONTROLLER_RECORD: Schema = schema("UnregisterControllerRecord", between(0, 0), since(0), &[
    field("controllerId", Int32, since(0)),
]);

pub(crate) static REGISTER_BROKER_RECORD_2_8: Schema = schema("RegisterBrokerRecord", between(0, 0), NONE, &[
    field("brokerId", Int32, since(0)),
    field("incarnationId", Uuid, since(0)),
    field("brokerEpoch", Int64, since(0)),
    field("endPoints", Array(&Struct(REGISTER_BROKER_RECORD_BROKER_ENDPOINT_FIELDS)), since(0)),
    field("features", Array(&Struct(REGISTER_BROKER_RECORD_BROKER_FEATURE_FIELDS)), since(0)),
    field("rack", String, since(0)).nullable(since(0)),
]);

pub(crate) static UNREGISTER_BROKER_RECORD_2_8: Schema = schema("UnregisterBrokerRecord", between(0, 0), NONE, UNREGISTER_BROKER_RECORD_FIELDS);

pub(crate) static TOPIC_RECORD_2_8: Schema = schema("TopicRecord", between(0, 0), NONE, TOPIC_RECORD_FIELDS);

pub(crate) static PARTITION_RECORD_2_8: Schema = schema("PartitionRecord", between(0, 0), NONE, &[
    field("partitionId", Int32, since(0)),
    field("topicId", Uuid, since(0)),
    field("replicas", Array(&Int32), since(0)),
    field("isr", Array(&Int32), since(0)),
    field("removingReplicas", Array(&Int32), since(0)).nullable(since(0)),
    field("addingReplicas", Array(&Int32), since(0)).nullable(since(0)),
    field("leader", Int32, since(0)),
    field("leaderEpoch", Int32, since(0)),
    field("partitionEpoch", Int32, since(0)),
]);

pub(crate) static CONFIG_RECORD_2_8: Schema = schema("ConfigRecord", between(0, 0), NONE, &[
    field("resourceType", Int8, since(0)),
    field("resourceName", String, since(0)),
    field("name", String, since(0)),
    field("value", String, since(0)),
]);

pub(crate) static PARTITION_CHANGE_RECORD_2_8: Schema = schema("PartitionChangeRecord", between(0, 0), since(0), &[
    field("partitionId", Int32, since(0)),
    field("topicId", Uuid, since(0)),
    field("isr", Array(&Int32), since(0)).nullable(since(0)).tagged(0, since(0), "null"),
    field("leader", Int32, since(0)).tagged(1, since(0), "-2"),
]);

pub(crate) static FENCE_BROKER_RECORD_2_8: Schema = schema("FenceBrokerRecord", between(0, 0), NONE, FENCE_BROKER_RECORD_FIELDS);

pub(crate) static UNFENCE_BROKER_RECORD_2_8: Schema = schema("UnfenceBrokerRecord", between(0, 0), NONE, FENCE_BROKER_RECORD_FIELDS);

pub(crate) static REMOVE_TOPIC_RECORD_2_8: Schema = schema("RemoveTopicRecord", between(0, 0), NONE, REMOVE_TOPIC_RECORD_FIELDS);

pub(crate) static DELEGATION_TOKEN_RECORD_2_8: Schema = schema("DelegationTokenRecord", between(0, 0), NONE, &[
    field("owner", String, since(0)),
    field("renewers", Array(&String), since(0)),
    field("issueTimestamp", Int64, since(0)),
    field("maxTimestamp", Int64, since(0)),
    field("expirationTimestamp", Int64, since(0)),
    field("tokenId", String, since(0)),
]);

pub(crate) static USER_SCRAM_CREDENTIAL_RECORD_2_8: Schema = schema("UserScramCredentialRecord", between(0, 0), NONE, &[
    field("name", String, since(0)),
    field("credentialInfos", Array(&Struct(&[
        field("mechanism", Int8, since(0)),
        field("salt", Bytes, since(0)),
        field("saltedPassword", Bytes, since(0)),
        field("iterations", Int32, since(0)),
    ])), since(0)),
]);

pub(crate) static FEATURE_LEVEL_RECORD_2_8: Schema = schema("FeatureLevelRecord", between(0, 0), NONE, &[
    field("name", String, since(0)),
    field("minFeatureLevel", Int16, since(0)),
    field("maxFeatureLevel", Int16, since(0)),
]);

pub(crate) static QUOTA_RECORD: Schema = schema("QuotaRecord", between(0, 0), NONE, CLIENT_QUOTA_RECORD_FIELDS);

const REMOTE_LOG_SEGMENT_METADATA_RECORD_REMOTE_LOG_SEGMENT_ID_ENTRY_TOPIC_ID_PARTITION_ENTRY_FIELDS: &[Field] = &[
    field("name", String, since(0)),
    field("id", Uuid, since(0)),
    field("partition", Int32, since(0)),
];

const REMOTE_LOG_SEGMENT_METADATA_RECORD_REMOTE_LOG_SEGMENT_ID_ENTRY_FIELDS: &[Field] = &[
    field("topicIdPartition", Struct(REMOTE_LOG_SEGMENT_METADATA_RECORD_REMOTE_LOG_SEGMENT_ID_ENTRY_TOPIC_ID_PARTITION_ENTRY_FIELDS), since(0)),
    field("id", Uuid, since(0)),
];

const REMOTE_LOG_SEGMENT_METADATA_RECORD_SEGMENT_LEADER_EPOCH_ENTRY_FIELDS: &[Field] = &[
    field("leaderEpoch", Int32, since(0)),
    field("offset", Int64, since(0)),
];

pub(crate) static REMOTE_LOG_SEGMENT_METADATA_RECORD: Schema = schema("RemoteLogSegmentMetadataRecord", between(0, 0), since(0), &[
    field("remoteLogSegmentId", Struct(REMOTE_LOG_SEGMENT_METADATA_RECORD_REMOTE_LOG_SEGMENT_ID_ENTRY_FIELDS), since(0)),
    field("startOffset", Int64, since(0)),
    field("endOffset", Int64, since(0)),
    field("brokerId", Int32, since(0)),
    field("maxTimestampMs", Int64, since(0)),
    field("eventTimestampMs", Int64, since(0)),
    field("segmentLeaderEpochs", Array(&Struct(REMOTE_LOG_SEGMENT_METADATA_RECORD_SEGMENT_LEADER_EPOCH_ENTRY_FIELDS)), since(0)),
    field("segmentSizeInBytes", Int32, since(0)),
    field("customMetadata", Bytes, since(0)).nullable(since(0)),
    field("remoteLogSegmentState", Int8, since(0)),
    field("txnIndexEmpty", Bool, since(0)).tagged(0, since(0), "false"),
]);

pub(crate) static REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD: Schema = schema("RemoteLogSegmentMetadataUpdateRecord", between(0, 0), since(0), &[
    field("remoteLogSegmentId", Struct(REMOTE_LOG_SEGMENT_METADATA_RECORD_REMOTE_LOG_SEGMENT_ID_ENTRY_FIELDS), since(0)),
    field("brokerId", Int32, since(0)),
    field("eventTimestampMs", Int64, since(0)),
    field("customMetadata", Bytes, since(0)).nullable(since(0)),
    field("remoteLogSegmentState", Int8, since(0)),
]);

pub(crate) static REMOTE_PARTITION_DELETE_METADATA_RECORD: Schema = schema("RemotePartitionDeleteMetadataRecord", between(0, 0), since(0), &[
    field("topicIdPartition", Struct(REMOTE_LOG_SEGMENT_METADATA_RECORD_REMOTE_LOG_SEGMENT_ID_ENTRY_TOPIC_ID_PARTITION_ENTRY_FIELDS), since(0)),
    field("brokerId", Int32, since(0)),
    field("eventTimestampMs", Int64, since(0)),
    field("remotePartitionDeleteState", Int8, since(0)),
]);

pub(crate) static REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD: Schema = schema("RemoteLogSegmentMetadataSnapshotRecord", between(0, 0), since(0), &[
    field("segmentId", Uuid, since(0)),
    field("startOffset", Int64, since(0)),
    field("endOffset", Int64, since(0)),
    field("brokerId", Int32, since(0)),
    field("maxTimestampMs", Int64, since(0)),
    field("eventTimestampMs", Int64, since(0)),
    field("segmentLeaderEpochs", Array(&Struct(REMOTE_LOG_SEGMENT_METADATA_RECORD_SEGMENT_LEADER_EPOCH_ENTRY_FIELDS)), since(0)),
    field("segmentSizeInBytes", Int32, since(0)),
    field("customMetadata", Bytes, since(0)).nullable(since(0)),
    field("remoteLogSegmentState", Int8, since(0)),
    field("txnIndexEmpty", Bool, since(0)).tagged(0, since(0), "false"),
]);

const LEGACY_OFFSET_COMMIT_KEY_FIELDS: &[Field] = &[
    field("group", String, between(0, 0)),
    field("topic", String, between(0, 0)),
    field("partition", Int32, between(0, 0)),
];

pub(crate) static LEGACY_OFFSET_COMMIT_KEY: Schema = schema("LegacyOffsetCommitKey", between(0, 0), NONE, LEGACY_OFFSET_COMMIT_KEY_FIELDS);

pub(crate) static LEGACY_OFFSET_COMMIT_VALUE: Schema = schema("LegacyOffsetCommitValue", between(0, 0), NONE, &[
    field("offset", Int64, between(0, 0)),
    field("metadata", String, between(0, 0)),
    field("commitTimestamp", Int64, between(0, 0)),
]);

pub(crate) static OFFSET_COMMIT_VALUE: Schema = schema("OffsetCommitValue", between(0, 4), since(4), &[
    field("offset", Int64, since(0)),
    field("leaderEpoch", Int32, since(3)),
    field("metadata", String, since(0)),
    field("commitTimestamp", Int64, since(0)),
    field("expireTimestamp", Int64, between(1, 1)),
    field("topicId", Uuid, since(4)).tagged(0, since(4), "\"AAAAAAAAAAAAAAAAAAAAAA\""),
]);

pub(crate) static OFFSET_COMMIT_KEY: Schema = schema("OffsetCommitKey", between(0, 0), NONE, LEGACY_OFFSET_COMMIT_KEY_FIELDS);

pub(crate) static GROUP_METADATA_KEY: Schema = schema("GroupMetadataKey", between(0, 0), NONE, &[
    field("group", String, between(0, 0)),
]);

pub(crate) static GROUP_METADATA_VALUE: Schema = schema("GroupMetadataValue", between(0, 4), since(4), &[
    field("protocolType", String, since(0)),
    field("generation", Int32, since(0)),
    field("protocol", String, since(0)).nullable(since(0)),
    field("leader", String, since(0)).nullable(since(0)),
    field("currentStateTimestamp", Int64, since(2)),
    field("members", Array(&Struct(&[
        field("memberId", String, since(0)),
        field("groupInstanceId", String, since(3)).nullable(since(3)),
        field("clientId", String, since(0)),
        field("clientHost", String, since(0)),
        field("rebalanceTimeout", Int32, since(1)),
        field("sessionTimeout", Int32, since(0)),
        field("subscription", Bytes, since(0)),
        field("assignment", Bytes, since(0)),
    ])), since(0)),
]);

const CONSUMER_GROUP_METADATA_KEY_FIELDS: &[Field] = &[
    field("groupId", String, between(0, 0)),
];

pub(crate) static CONSUMER_GROUP_METADATA_KEY: Schema = schema("ConsumerGroupMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

pub(crate) static CONSUMER_GROUP_METADATA_VALUE: Schema = schema("ConsumerGroupMetadataValue", between(0, 0), since(0), &[
    field("epoch", Int32, since(0)),
    field("metadataHash", Int64, since(0)).tagged(0, since(0), "0"),
]);

pub(crate) static CONSUMER_GROUP_PARTITION_METADATA_KEY: Schema = schema("ConsumerGroupPartitionMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

const CONSUMER_GROUP_PARTITION_METADATA_VALUE_FIELDS: &[Field] = &[
    field("topics", Array(&Struct(&[
        field("topicId", Uuid, since(0)),
        field("topicName", String, since(0)),
        field("numPartitions", Int32, since(0)),
        field("partitionMetadata", Array(&Struct(&[
            field("partition", Int32, since(0)),
            field("racks", Array(&String), since(0)),
        ])), since(0)),
    ])), since(0)),
];

pub(crate) static CONSUMER_GROUP_PARTITION_METADATA_VALUE: Schema = schema("ConsumerGroupPartitionMetadataValue", between(0, 0), since(0), CONSUMER_GROUP_PARTITION_METADATA_VALUE_FIELDS);

const CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS: &[Field] = &[
    field("groupId", String, between(0, 0)),
    field("memberId", String, between(0, 0)),
];

pub(crate) static CONSUMER_GROUP_MEMBER_METADATA_KEY: Schema = schema("ConsumerGroupMemberMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

pub(crate) static CONSUMER_GROUP_MEMBER_METADATA_VALUE: Schema = schema("ConsumerGroupMemberMetadataValue", between(0, 0), since(0), &[
    field("instanceId", String, since(0)).nullable(since(0)),
    field("rackId", String, since(0)).nullable(since(0)),
    field("clientId", String, since(0)),
    field("clientHost", String, since(0)),
    field("subscribedTopicNames", Array(&String), since(0)),
    field("subscribedTopicRegex", String, since(0)).nullable(since(0)),
    field("rebalanceTimeoutMs", Int32, since(0)),
    field("serverAssignor", String, since(0)).nullable(since(0)),
    field("classicMemberMetadata", Struct(&[
        field("sessionTimeoutMs", Int32, since(0)),
        field("supportedProtocols", Array(&Struct(&[
            field("name", String, since(0)),
            field("metadata", Bytes, since(0)),
        ])), since(0)),
    ]), since(0)).nullable(since(0)).tagged(0, since(0), "{\"sessionTimeoutMs\":0,\"supportedProtocols\":[]}"),
]);

pub(crate) static CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Schema = schema("ConsumerGroupTargetAssignmentMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

const CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE_FIELDS: &[Field] = &[
    field("assignmentEpoch", Int32, since(0)),
    field("assignmentTimestamp", Int64, since(0)).tagged(0, since(0), "0"),
];

pub(crate) static CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE: Schema = schema("ConsumerGroupTargetAssignmentMetadataValue", between(0, 0), since(0), CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE_FIELDS);

pub(crate) static CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Schema = schema("ConsumerGroupTargetAssignmentMemberKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

const CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TOPIC_PARTITION_FIELDS: &[Field] = &[
    field("topicId", Uuid, since(0)),
    field("partitions", Array(&Int32), since(0)),
];

const CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_FIELDS: &[Field] = &[
    field("topicPartitions", Array(&Struct(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TOPIC_PARTITION_FIELDS)), since(0)),
];

pub(crate) static CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE: Schema = schema("ConsumerGroupTargetAssignmentMemberValue", between(0, 0), since(0), CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_FIELDS);

pub(crate) static CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Schema = schema("ConsumerGroupCurrentMemberAssignmentKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

const CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS_FIELDS: &[Field] = &[
    field("topicId", Uuid, since(0)),
    field("partitions", Array(&Int32), since(0)),
    field("assignmentEpochs", Array(&Int32), since(0)).nullable(since(0)).tagged(0, since(0), "[]"),
];

pub(crate) static CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE: Schema = schema("ConsumerGroupCurrentMemberAssignmentValue", between(0, 0), since(0), &[
    field("memberEpoch", Int32, since(0)),
    field("previousMemberEpoch", Int32, since(0)),
    field("state", Int8, since(0)),
    field("assignedPartitions", Array(&Struct(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS_FIELDS)), since(0)),
    field("partitionsPendingRevocation", Array(&Struct(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TOPIC_PARTITIONS_FIELDS)), since(0)),
]);

pub(crate) static SHARE_GROUP_PARTITION_METADATA_KEY: Schema = schema("ShareGroupPartitionMetadataKey", between(9, 9), NONE, &[
    field("groupId", String, between(9, 9)),
]);

pub(crate) static SHARE_GROUP_PARTITION_METADATA_VALUE: Schema = schema("ShareGroupPartitionMetadataValue", between(0, 0), since(0), CONSUMER_GROUP_PARTITION_METADATA_VALUE_FIELDS);

pub(crate) static SHARE_GROUP_MEMBER_METADATA_KEY: Schema = schema("ShareGroupMemberMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

pub(crate) static SHARE_GROUP_MEMBER_METADATA_VALUE: Schema = schema("ShareGroupMemberMetadataValue", between(0, 0), since(0), &[
    field("rackId", String, since(0)).nullable(since(0)),
    field("clientId", String, since(0)),
    field("clientHost", String, since(0)),
    field("subscribedTopicNames", Array(&String), since(0)),
]);

pub(crate) static SHARE_GROUP_METADATA_KEY: Schema = schema("ShareGroupMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

pub(crate) static SHARE_GROUP_METADATA_VALUE: Schema = schema("ShareGroupMetadataValue", between(0, 0), since(0), &[
    field("epoch", Int32, since(0)),
    field("metadataHash", Int64, since(0)),
]);

pub(crate) static SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Schema = schema("ShareGroupTargetAssignmentMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

pub(crate) static SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE: Schema = schema("ShareGroupTargetAssignmentMetadataValue", between(0, 0), since(0), CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE_FIELDS);

pub(crate) static SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Schema = schema("ShareGroupTargetAssignmentMemberKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

pub(crate) static SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE: Schema = schema("ShareGroupTargetAssignmentMemberValue", between(0, 0), since(0), CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_FIELDS);

pub(crate) static SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Schema = schema("ShareGroupCurrentMemberAssignmentKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

pub(crate) static SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE: Schema = schema("ShareGroupCurrentMemberAssignmentValue", between(0, 0), since(0), &[
    field("memberEpoch", Int32, since(0)),
    field("previousMemberEpoch", Int32, since(0)),
    field("state", Int8, since(0)),
    field("assignedPartitions", Array(&Struct(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TOPIC_PARTITION_FIELDS)), since(0)),
]);

pub(crate) static SHARE_GROUP_STATE_PARTITION_METADATA_KEY: Schema = schema("ShareGroupStatePartitionMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

const SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_PARTITIONS_INFO_FIELDS: &[Field] = &[
    field("topicId", Uuid, since(0)),
    field("topicName", String, since(0)),
    field("partitions", Array(&Int32), since(0)),
];

pub(crate) static SHARE_GROUP_STATE_PARTITION_METADATA_VALUE: Schema = schema("ShareGroupStatePartitionMetadataValue", between(0, 0), since(0), &[
    field("initializingTopics", Array(&Struct(SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_PARTITIONS_INFO_FIELDS)), since(0)),
    field("initializedTopics", Array(&Struct(SHARE_GROUP_STATE_PARTITION_METADATA_VALUE_TOPIC_PARTITIONS_INFO_FIELDS)), since(0)),
    field("deletingTopics", Array(&Struct(&[
        field("topicId", Uuid, since(0)),
        field("topicName", String, since(0)),
    ])), since(0)),
]);

pub(crate) static CONSUMER_GROUP_REGULAR_EXPRESSION_KEY: Schema = schema("ConsumerGroupRegularExpressionKey", between(0, 0), NONE, &[
    field("groupId", String, between(0, 0)),
    field("regularExpression", String, between(0, 0)),
]);

pub(crate) static CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE: Schema = schema("ConsumerGroupRegularExpressionValue", between(0, 0), since(0), &[
    field("topics", Array(&String), since(0)),
    field("version", Int64, since(0)),
    field("timestamp", Int64, since(0)),
]);

pub(crate) static STREAMS_GROUP_METADATA_KEY: Schema = schema("StreamsGroupMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

const STREAMS_GROUP_METADATA_VALUE_LAST_ASSIGNMENT_CONFIG_FIELDS: &[Field] = &[
    field("key", String, since(0)),
    field("value", String, since(0)),
];

pub(crate) static STREAMS_GROUP_METADATA_VALUE: Schema = schema("StreamsGroupMetadataValue", between(0, 0), since(0), &[
    field("epoch", Int32, since(0)),
    field("metadataHash", Int64, since(0)),
    field("validatedTopologyEpoch", Int32, since(0)).tagged(0, since(0), "-1"),
    field("lastAssignmentConfigs", Array(&Struct(STREAMS_GROUP_METADATA_VALUE_LAST_ASSIGNMENT_CONFIG_FIELDS)), since(0)).nullable(since(0)).tagged(1, since(0), "[]"),
    field("storedDescriptionTopologyEpoch", Int32, since(0)).tagged(2, since(0), "-1"),
    field("failedDescriptionTopologyEpoch", Int32, since(0)).tagged(3, since(0), "-1"),
]);

pub(crate) static STREAMS_GROUP_MEMBER_METADATA_KEY: Schema = schema("StreamsGroupMemberMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

pub(crate) static STREAMS_GROUP_MEMBER_METADATA_VALUE: Schema = schema("StreamsGroupMemberMetadataValue", between(0, 0), since(0), &[
    field("instanceId", String, since(0)).nullable(since(0)),
    field("rackId", String, since(0)).nullable(since(0)),
    field("clientId", String, since(0)),
    field("clientHost", String, since(0)),
    field("rebalanceTimeoutMs", Int32, since(0)),
    field("topologyEpoch", Int32, since(0)),
    field("processId", String, since(0)),
    field("userEndpoint", Struct(&[
        field("host", String, since(0)),
        field("port", Uint16, since(0)),
    ]), since(0)).nullable(since(0)),
    field("clientTags", Array(&Struct(STREAMS_GROUP_METADATA_VALUE_LAST_ASSIGNMENT_CONFIG_FIELDS)), since(0)),
]);

pub(crate) static STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY: Schema = schema("StreamsGroupTargetAssignmentMetadataKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

pub(crate) static STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE: Schema = schema("StreamsGroupTargetAssignmentMetadataValue", between(0, 0), since(0), CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE_FIELDS);

pub(crate) static STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY: Schema = schema("StreamsGroupTargetAssignmentMemberKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

const STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS_FIELDS: &[Field] = &[
    field("subtopologyId", String, since(0)),
    field("partitions", Array(&Int32), since(0)),
];

pub(crate) static STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE: Schema = schema("StreamsGroupTargetAssignmentMemberValue", between(0, 0), since(0), &[
    field("activeTasks", Array(&Struct(STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS_FIELDS)), since(0)),
    field("standbyTasks", Array(&Struct(STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS_FIELDS)), since(0)),
    field("warmupTasks", Array(&Struct(STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE_TASK_IDS_FIELDS)), since(0)),
]);

pub(crate) static STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY: Schema = schema("StreamsGroupCurrentMemberAssignmentKey", between(0, 0), NONE, CONSUMER_GROUP_MEMBER_METADATA_KEY_FIELDS);

const STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS_FIELDS: &[Field] = &[
    field("subtopologyId", String, since(0)),
    field("partitions", Array(&Int32), since(0)),
    field("assignmentEpochs", Array(&Int32), since(0)).nullable(since(0)).tagged(0, since(0), "[]"),
];

pub(crate) static STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE: Schema = schema("StreamsGroupCurrentMemberAssignmentValue", between(0, 0), since(0), &[
    field("memberEpoch", Int32, since(0)),
    field("previousMemberEpoch", Int32, since(0)),
    field("state", Int8, since(0)),
    field("activeTasks", Array(&Struct(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS_FIELDS)), since(0)),
    field("standbyTasks", Array(&Struct(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS_FIELDS)), since(0)),
    field("warmupTasks", Array(&Struct(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS_FIELDS)), since(0)),
    field("activeTasksPendingRevocation", Array(&Struct(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS_FIELDS)), since(0)),
    field("standbyTasksPendingRevocation", Array(&Struct(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS_FIELDS)), since(0)),
    field("warmupTasksPendingRevocation", Array(&Struct(STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE_TASK_IDS_FIELDS)), since(0)),
]);

pub(crate) static STREAMS_GROUP_TOPOLOGY_KEY: Schema = schema("StreamsGroupTopologyKey", between(0, 0), NONE, CONSUMER_GROUP_METADATA_KEY_FIELDS);

const STREAMS_GROUP_TOPOLOGY_VALUE_SUBTOPOLOGY_TOPIC_INFO_FIELDS: &[Field] = &[
    field("name", String, since(0)),
    field("partitions", Int32, since(0)),
    field("replicationFactor", Int16, since(0)),
    field("topicConfigs", Array(&Struct(STREAMS_GROUP_METADATA_VALUE_LAST_ASSIGNMENT_CONFIG_FIELDS)), since(0)),
];

pub(crate) static STREAMS_GROUP_TOPOLOGY_VALUE: Schema = schema("StreamsGroupTopologyValue", between(0, 0), since(0), &[
    field("epoch", Int32, since(0)),
    field("subtopologies", Array(&Struct(&[
        field("subtopologyId", String, since(0)),
        field("sourceTopics", Array(&String), since(0)),
        field("sourceTopicRegex", Array(&String), since(0)),
        field("stateChangelogTopics", Array(&Struct(STREAMS_GROUP_TOPOLOGY_VALUE_SUBTOPOLOGY_TOPIC_INFO_FIELDS)), since(0)),
        field("repartitionSinkTopics", Array(&String), since(0)),
        field("repartitionSourceTopics", Array(&Struct(STREAMS_GROUP_TOPOLOGY_VALUE_SUBTOPOLOGY_TOPIC_INFO_FIELDS)), since(0)),
        field("copartitionGroups", Array(&Struct(&[
            field("sourceTopics", Array(&Int16), since(0)),
            field("sourceTopicRegex", Array(&Int16), since(0)),
            field("repartitionSourceTopics", Array(&Int16), since(0)),
        ])), since(0)),
    ])), since(0)),
]);

pub(crate) static TRANSACTION_LOG_KEY: Schema = schema("TransactionLogKey", between(0, 0), NONE, &[
    field("transactionalId", String, between(0, 0)),
]);

pub(crate) static TRANSACTION_LOG_VALUE: Schema = schema("TransactionLogValue", between(0, 1), since(1), &[
    field("producerId", Int64, since(0)),
    field("previousProducerId", Int64, since(1)).tagged(0, since(1), "-1"),
    field("nextProducerId", Int64, since(1)).tagged(1, since(1), "-1"),
    field("producerEpoch", Int16, since(0)),
    field("nextProducerEpoch", Int16, since(1)).tagged(3, since(1), "-1"),
    field("transactionTimeoutMs", Int32, since(0)),
    field("transactionStatus", Int8, since(0)),
    field("transactionPartitions", Array(&Struct(&[
        field("topic", String, since(0)),
        field("partitionIds", Array(&Int32), since(0)),
    ])), since(0)).nullable(since(0)),
    field("transactionLastUpdateTimestampMs", Int64, since(0)),
    field("transactionStartTimestampMs", Int64, since(0)),
    field("clientTransactionVersion", Int16, since(1)).tagged(2, since(1), "0"),
]);

const SHARE_SNAPSHOT_KEY_FIELDS: &[Field] = &[
    field("groupId", String, between(0, 0)),
    field("topicId", Uuid, between(0, 0)),
    field("partition", Int32, between(0, 0)),
];

pub(crate) static SHARE_SNAPSHOT_KEY: Schema = schema("ShareSnapshotKey", between(0, 0), NONE, SHARE_SNAPSHOT_KEY_FIELDS);

const SHARE_SNAPSHOT_VALUE_STATE_BATCH_FIELDS: &[Field] = &[
    field("firstOffset", Int64, since(0)),
    field("lastOffset", Int64, since(0)),
    field("deliveryState", Int8, since(0)),
    field("deliveryCount", Int16, since(0)),
];

pub(crate) static SHARE_SNAPSHOT_VALUE: Schema = schema("ShareSnapshotValue", between(0, 0), since(0), &[
    field("snapshotEpoch", Int32, since(0)),
    field("stateEpoch", Int32, since(0)),
    field("leaderEpoch", Int32, since(0)),
    field("startOffset", Int64, since(0)),
    field("deliveryCompleteCount", Int32, since(0)).tagged(0, since(0), "-1"),
    field("createTimestamp", Int64, since(0)),
    field("writeTimestamp", Int64, since(0)),
    field("stateBatches", Array(&Struct(SHARE_SNAPSHOT_VALUE_STATE_BATCH_FIELDS)), since(0)),
]);

pub(crate) static SHARE_UPDATE_KEY: Schema = schema("ShareUpdateKey", between(0, 0), NONE, SHARE_SNAPSHOT_KEY_FIELDS);

pub(crate) static SHARE_UPDATE_VALUE: Schema = schema("ShareUpdateValue", between(0, 0), since(0), &[
    field("snapshotEpoch", Int32, since(0)),
    field("leaderEpoch", Int32, since(0)),
    field("startOffset", Int64, since(0)),
    field("deliveryCompleteCount", Int32, since(0)).tagged(0, since(0), "-1"),
    field("stateBatches", Array(&Struct(SHARE_SNAPSHOT_VALUE_STATE_BATCH_FIELDS)), since(0)),
]);

pub(crate) static CONSUMER_PROTOCOL_ASSIGNMENT: Schema = schema("ConsumerProtocolAssignment", between(0, 3), NONE, &[
    field("assignedPartitions", Array(&Struct(&[
        field("topic", String, since(0)),
        field("partitions", Array(&Int32), since(0)),
    ])), since(0)),
    field("userData", Bytes, since(0)).nullable(since(0)),
]);

pub(crate) static CONSUMER_PROTOCOL_SUBSCRIPTION: Schema = schema("ConsumerProtocolSubscription", between(0, 3), NONE, &[
    field("topics", Array(&String), since(0)),
    field("userData", Bytes, since(0)).nullable(since(0)),
    field("ownedPartitions", Array(&Struct(&[
        field("topic", String, since(1)),
        field("partitions", Array(&Int32), since(1)),
    ])), since(1)),
    field("generationId", Int32, since(2)),
    field("rackId", String, since(3)).nullable(since(3)),
]);

const LEADER_CHANGE_MESSAGE_VOTER_FIELDS: &[Field] = &[
    field("voterId", Int32, since(0)),
    field("voterDirectoryId", Uuid, since(1)),
];

pub(crate) static LEADER_CHANGE_MESSAGE: Schema = schema("LeaderChangeMessage", between(0, 1), since(0), &[
    field("version", Int16, since(0)),
    field("leaderId", Int32, since(0)),
    field("voters", Array(&Struct(LEADER_CHANGE_MESSAGE_VOTER_FIELDS)), since(0)),
    field("grantingVoters", Array(&Struct(LEADER_CHANGE_MESSAGE_VOTER_FIELDS)), since(0)),
]);

pub(crate) static SNAPSHOT_HEADER_RECORD: Schema = schema("SnapshotHeaderRecord", between(0, 0), since(0), &[
    field("version", Int16, since(0)),
    field("lastContainedLogTimestamp", Int64, since(0)),
]);

pub(crate) static SNAPSHOT_FOOTER_RECORD: Schema = schema("SnapshotFooterRecord", between(0, 0), since(0), &[
    field("version", Int16, since(0)),
]);

pub(crate) static KRAFT_VERSION_RECORD: Schema = schema("KRaftVersionRecord", between(0, 0), since(0), &[
    field("version", Int16, since(0)),
    field("kRaftVersion", Int16, since(0)),
]);

pub(crate) static VOTERS_RECORD: Schema = schema("VotersRecord", between(0, 0), since(0), &[
    field("version", Int16, since(0)),
    field("voters", Array(&Struct(&[
        field("voterId", Int32, since(0)),
        field("voterDirectoryId", Uuid, since(0)),
        field("endpoints", Array(&Struct(&[
            field("name", String, since(0)),
            field("host", String, since(0)),
            field("port", Uint16, since(0)),
        ])), since(0)),
        field("kRaftVersionFeature", Struct(&[
            field("minSupportedVersion", Int16, since(0)),
            field("maxSupportedVersion", Int16, since(0)),
        ]), since(0)),
    ])), since(0)),
]);


/// By type, the records of `__cluster_metadata`.
pub(crate) static CLUSTER_METADATA: &[(u32, &[&Schema])] = &[
    (0, &[&REGISTER_BROKER_RECORD]),
    (1, &[&UNREGISTER_BROKER_RECORD]),
    (2, &[&TOPIC_RECORD]),
    (3, &[&PARTITION_RECORD]),
    (4, &[&CONFIG_RECORD]),
    (5, &[&PARTITION_CHANGE_RECORD]),
    (6, &[&ACCESS_CONTROL_RECORD]),
    (7, &[&FENCE_BROKER_RECORD]),
    (8, &[&UNFENCE_BROKER_RECORD]),
    (9, &[&REMOVE_TOPIC_RECORD]),
    (10, &[&DELEGATION_TOKEN_RECORD]),
    (11, &[&USER_SCRAM_CREDENTIAL_RECORD]),
    (12, &[&FEATURE_LEVEL_RECORD]),
    (14, &[&CLIENT_QUOTA_RECORD]),
    (15, &[&PRODUCER_IDS_RECORD]),
    (16, &[&REMOVE_FEATURE_LEVEL_RECORD]),
    (17, &[&BROKER_REGISTRATION_CHANGE_RECORD]),
    (18, &[&ACCESS_CONTROL_ENTRY_RECORD]),
    (19, &[&REMOVE_ACCESS_CONTROL_ENTRY_RECORD]),
    (20, &[&NO_OP_RECORD]),
    (21, &[&ZK_MIGRATION_STATE_RECORD]),
    (22, &[&REMOVE_USER_SCRAM_CREDENTIAL_RECORD]),
    (23, &[&BEGIN_TRANSACTION_RECORD]),
    (24, &[&END_TRANSACTION_RECORD]),
    (25, &[&ABORT_TRANSACTION_RECORD]),
    (26, &[&REMOVE_DELEGATION_TOKEN_RECORD]),
    (27, &[&REGISTER_CONTROLLER_RECORD]),
    (28, &[&CLEAR_ELR_RECORD]),
    (29, &[&UNREGISTER_CONTROLLER_RECORD]),
];

/// By type, the records of `__cluster_metadata` in Kafka 2.8, in frames of version 0.
pub(crate) static CLUSTER_METADATA_2_8: &[(u32, &[&Schema])] = &[
    (0, &[&REGISTER_BROKER_RECORD_2_8]),
    (1, &[&UNREGISTER_BROKER_RECORD_2_8]),
    (2, &[&TOPIC_RECORD_2_8]),
    (3, &[&PARTITION_RECORD_2_8]),
    (4, &[&CONFIG_RECORD_2_8]),
    (5, &[&PARTITION_CHANGE_RECORD_2_8]),
    (6, &[&ACCESS_CONTROL_RECORD]),
    (7, &[&FENCE_BROKER_RECORD_2_8]),
    (8, &[&UNFENCE_BROKER_RECORD_2_8]),
    (9, &[&REMOVE_TOPIC_RECORD_2_8]),
    (10, &[&DELEGATION_TOKEN_RECORD_2_8]),
    (11, &[&USER_SCRAM_CREDENTIAL_RECORD_2_8]),
    (12, &[&FEATURE_LEVEL_RECORD_2_8]),
    (14, &[&QUOTA_RECORD]),
];

/// By type, the records of `__remote_log_metadata`.
pub(crate) static REMOTE_LOG_METADATA: &[(u32, &[&Schema])] = &[
    (0, &[&REMOTE_LOG_SEGMENT_METADATA_RECORD]),
    (1, &[&REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD]),
    (2, &[&REMOTE_PARTITION_DELETE_METADATA_RECORD]),
    (3, &[&REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD]),
];

/// By type, the records of `__consumer_offsets`.
pub(crate) static CONSUMER_OFFSETS: &[Keyed] = &[
    Keyed::new(0, &LEGACY_OFFSET_COMMIT_KEY, &[&LEGACY_OFFSET_COMMIT_VALUE, &OFFSET_COMMIT_VALUE]),
    Keyed::new(1, &OFFSET_COMMIT_KEY, &[&OFFSET_COMMIT_VALUE]),
    Keyed::new(2, &GROUP_METADATA_KEY, &[&GROUP_METADATA_VALUE]),
    Keyed::new(3, &CONSUMER_GROUP_METADATA_KEY, &[&CONSUMER_GROUP_METADATA_VALUE]),
    Keyed::new(4, &CONSUMER_GROUP_PARTITION_METADATA_KEY, &[&CONSUMER_GROUP_PARTITION_METADATA_VALUE]),
    Keyed::new(5, &CONSUMER_GROUP_MEMBER_METADATA_KEY, &[&CONSUMER_GROUP_MEMBER_METADATA_VALUE]),
    Keyed::new(6, &CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY, &[&CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE]),
    Keyed::new(7, &CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY, &[&CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE]),
    Keyed::new(8, &CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY, &[&CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE]),
    Keyed::new(9, &SHARE_GROUP_PARTITION_METADATA_KEY, &[&SHARE_GROUP_PARTITION_METADATA_VALUE]),
    Keyed::new(10, &SHARE_GROUP_MEMBER_METADATA_KEY, &[&SHARE_GROUP_MEMBER_METADATA_VALUE]),
    Keyed::new(11, &SHARE_GROUP_METADATA_KEY, &[&SHARE_GROUP_METADATA_VALUE]),
    Keyed::new(12, &SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY, &[&SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE]),
    Keyed::new(13, &SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY, &[&SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE]),
    Keyed::new(14, &SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY, &[&SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE]),
    Keyed::new(15, &SHARE_GROUP_STATE_PARTITION_METADATA_KEY, &[&SHARE_GROUP_STATE_PARTITION_METADATA_VALUE]),
    Keyed::new(16, &CONSUMER_GROUP_REGULAR_EXPRESSION_KEY, &[&CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE]),
    Keyed::new(17, &STREAMS_GROUP_METADATA_KEY, &[&STREAMS_GROUP_METADATA_VALUE]),
    Keyed::new(19, &STREAMS_GROUP_MEMBER_METADATA_KEY, &[&STREAMS_GROUP_MEMBER_METADATA_VALUE]),
    Keyed::new(20, &STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY, &[&STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE]),
    Keyed::new(21, &STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY, &[&STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE]),
    Keyed::new(22, &STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY, &[&STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE]),
    Keyed::new(23, &STREAMS_GROUP_TOPOLOGY_KEY, &[&STREAMS_GROUP_TOPOLOGY_VALUE]),
];

/// By type, the records of `__transaction_state`.
pub(crate) static TRANSACTION_STATE: &[Keyed] = &[
    Keyed::new(0, &TRANSACTION_LOG_KEY, &[&TRANSACTION_LOG_VALUE]),
];

/// By type, the records of `__share_group_state`.
pub(crate) static SHARE_GROUP_STATE: &[Keyed] = &[
    Keyed::new(0, &SHARE_SNAPSHOT_KEY, &[&SHARE_SNAPSHOT_VALUE]),
    Keyed::new(1, &SHARE_UPDATE_KEY, &[&SHARE_UPDATE_VALUE]),
];

/// Messages that other records hold as bytes.
pub(crate) static EMBEDDED: &[&Schema] = &[
    &CONSUMER_PROTOCOL_ASSIGNMENT,
    &CONSUMER_PROTOCOL_SUBSCRIPTION,
];
