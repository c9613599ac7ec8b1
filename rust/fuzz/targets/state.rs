//! The fuzz target of a cluster's state: records of Kafka's own topics.

use brokerless_core::{InternalTopic, OffsetCommit, StateRecord};
use serde_json::Value;

const TOPICS: [InternalTopic; 5] = [
    InternalTopic::ConsumerOffsets,
    InternalTopic::TransactionState,
    InternalTopic::ShareGroupState,
    InternalTopic::RemoteLogMetadata,
    InternalTopic::ClusterMetadata,
];

/// A record: the number of its topic, the length of its key or 255 for none, the key, the value.
///
/// Key and value are valid JSON: objects if they are known, and text if not. The columns of offset commits equal their
/// JSON.
pub(super) fn state(data: &[u8]) {
    let [topic, length, rest @ ..] = data else {
        return;
    };
    let topic = TOPICS[usize::from(*topic) % TOPICS.len()];
    let (key, value) = match *length {
        255 => (None, rest),
        length => {
            let (key, value) = rest.split_at(usize::from(length).min(rest.len()));
            (Some(key), value)
        }
    };
    let value = (!value.is_empty()).then_some(value);
    let mut record = StateRecord::default();
    topic.decode(key, value, None, &mut record);
    let part = |json: &[u8], bytes: Option<&[u8]>, has_type: bool| {
        assert_eq!(json.is_empty(), bytes.is_none());
        let parsed = (!json.is_empty()).then(|| serde_json::from_slice::<Value>(json).unwrap());
        let is_known = record.unknown.is_none() && has_type;
        assert!(!is_known || !parsed.as_ref().is_some_and(Value::is_string));
        parsed.unwrap_or_default()
    };
    // Records that have their type in the value need no key.
    let has_type = !matches!(
        topic,
        InternalTopic::RemoteLogMetadata | InternalTopic::ClusterMetadata
    );
    let key_json = part(&record.key, key, has_type);
    let value_json = part(&record.value, value, true);
    if topic != InternalTopic::ConsumerOffsets {
        return;
    }
    let is_commit = record
        .name
        .is_some_and(|name| name.ends_with("OffsetCommit"));
    match OffsetCommit::decode(key, value) {
        Ok(None) => assert!(!is_commit),
        Err(_) => assert!(is_commit && record.unknown.is_some()),
        Ok(Some(commit)) => {
            assert!(is_commit && record.unknown.is_none());
            assert_eq!(key_json["group"], commit.group.as_ref());
            assert_eq!(key_json["topic"], commit.topic.as_ref());
            assert_eq!(key_json["partition"], commit.partition);
            assert_eq!(value_json.is_null(), commit.committed.is_none());
            if let Some(committed) = commit.committed {
                assert_eq!(value_json["offset"], committed.offset);
                assert_eq!(value_json["metadata"], committed.metadata.as_ref());
                assert_eq!(value_json["commitTimestamp"], committed.commit_timestamp);
            }
        }
    }
}
