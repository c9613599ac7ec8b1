//! The configs of topics with Kafka's defaults, as a broker describes them.
//!
//! From `DescribeConfigs` of a broker of Kafka 4.4.

/// A config of a topic.
pub(super) struct Setting {
    /// Its name.
    pub(super) name: &'static str,
    /// Its type (`DescribeConfigsResponse.ConfigType`).
    pub(super) kind: i8,
    /// Its default.
    pub(super) default: &'static str,
    /// The broker config that is the default for topics; empty without one.
    pub(super) of_broker: &'static str,
    /// The broker config from which Kafka's default comes, and its value; empty without one.
    pub(super) synonym: (&'static str, &'static str),
}

const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const INT: i8 = 3;
const LONG: i8 = 5;
const DOUBLE: i8 = 6;
const LIST: i8 = 7;

/// A topic config whose default comes from a broker config.
const fn setting(
    name: &'static str,
    kind: i8,
    default: &'static str,
    of_broker: &'static str,
) -> Setting {
    Setting {
        name,
        kind,
        default,
        of_broker,
        synonym: (of_broker, default),
    }
}

impl Setting {
    const fn synonym(mut self, name: &'static str, value: &'static str) -> Self {
        self.synonym = (name, value);
        self
    }
}

/// All topic configs, by name.
// One row each: rustfmt would make six lines of it.
#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    setting("cleanup.policy", LIST, "delete", "log.cleanup.policy"),
    setting("compression.gzip.level", INT, "-1", "compression.gzip.level"),
    setting("compression.lz4.level", INT, "9", "compression.lz4.level"),
    setting("compression.type", STRING, "producer", "compression.type"),
    setting("compression.zstd.level", INT, "3", "compression.zstd.level"),
    setting("delete.retention.ms", LONG, "86400000", "log.cleaner.delete.retention.ms"),
    setting("errors.deadletterqueue.group.enable", BOOLEAN, "false", ""),
    setting("file.delete.delay.ms", LONG, "60000", "log.segment.delete.delay.ms"),
    setting("flush.messages", LONG, "9223372036854775807", "log.flush.interval.messages"),
    setting("flush.ms", LONG, "9223372036854775807", "log.flush.interval.ms").synonym("", ""),
    setting("follower.replication.throttled.replicas", LIST, "", ""),
    setting("index.interval.bytes", INT, "4096", "log.index.interval.bytes"),
    setting("leader.replication.throttled.replicas", LIST, "", ""),
    setting("local.retention.bytes", LONG, "-2", "log.local.retention.bytes"),
    setting("local.retention.ms", LONG, "-2", "log.local.retention.ms"),
    setting("max.compaction.lag.ms", LONG, "9223372036854775807", "log.cleaner.max.compaction.lag.ms"),
    setting("max.decompressed.message.bytes", INT, "2147483639", "max.decompressed.message.bytes"),
    setting("max.message.bytes", INT, "1048588", "message.max.bytes"),
    setting("message.timestamp.after.max.ms", LONG, "3600000", "log.message.timestamp.after.max.ms"),
    setting("message.timestamp.before.max.ms", LONG, "9223372036854775807", "log.message.timestamp.before.max.ms"),
    setting("message.timestamp.type", STRING, "CreateTime", "log.message.timestamp.type"),
    setting("min.cleanable.dirty.ratio", DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio"),
    setting("min.compaction.lag.ms", LONG, "0", "log.cleaner.min.compaction.lag.ms"),
    setting("min.insync.replicas", INT, "1", "min.insync.replicas"),
    setting("preallocate", BOOLEAN, "false", "log.preallocate"),
    setting("remote.copy.lag.bytes", LONG, "-1", "log.remote.copy.lag.bytes"),
    setting("remote.copy.lag.ms", LONG, "0", "log.remote.copy.lag.ms"),
    setting("remote.log.copy.disable", BOOLEAN, "false", ""),
    setting("remote.log.delete.on.disable", BOOLEAN, "false", ""),
    setting("remote.storage.enable", BOOLEAN, "false", ""),
    setting("retention.bytes", LONG, "-1", "log.retention.bytes"),
    setting("retention.ms", LONG, "604800000", "log.retention.ms").synonym("log.retention.hours", "168"),
    setting("segment.bytes", INT, "1073741824", "log.segment.bytes"),
    setting("segment.index.bytes", INT, "10485760", "log.index.size.max.bytes"),
    setting("segment.jitter.ms", LONG, "0", "log.roll.jitter.ms").synonym("", ""),
    setting("segment.ms", LONG, "604800000", "log.roll.ms").synonym("", ""),
    setting("unclean.leader.election.enable", BOOLEAN, "false", "unclean.leader.election.enable"),
];
