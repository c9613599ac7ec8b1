//! The settings that topics have, with Kafka's defaults, as a broker describes them.
//!
//! From `DescribeConfigs` of a broker of Kafka 4.4.

/// A setting of a topic.
pub(crate) struct Setting {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its type (`DescribeConfigsResponse.ConfigType`).
    pub(crate) kind: i8,
    /// Its default.
    pub(crate) default: &'static str,
    /// The setting of a broker that is the default of its topics; empty: there is none.
    pub(crate) of_broker: &'static str,
    /// The setting of a broker that Kafka's default comes from, and its value; empty: there is none.
    pub(crate) synonym: (&'static str, &'static str),
}

const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const INT: i8 = 3;
const LONG: i8 = 5;
const DOUBLE: i8 = 6;
const LIST: i8 = 7;

const fn setting(
    name: &'static str,
    kind: i8,
    default: &'static str,
    of_broker: &'static str,
    synonym: (&'static str, &'static str),
) -> Setting {
    Setting {
        name,
        kind,
        default,
        of_broker,
        synonym,
    }
}

/// All of them, by name.
pub(crate) const SETTINGS: &[Setting] = &[
    setting(
        "cleanup.policy",
        LIST,
        "delete",
        "log.cleanup.policy",
        ("log.cleanup.policy", "delete"),
    ),
    setting(
        "compression.gzip.level",
        INT,
        "-1",
        "compression.gzip.level",
        ("compression.gzip.level", "-1"),
    ),
    setting(
        "compression.lz4.level",
        INT,
        "9",
        "compression.lz4.level",
        ("compression.lz4.level", "9"),
    ),
    setting(
        "compression.type",
        STRING,
        "producer",
        "compression.type",
        ("compression.type", "producer"),
    ),
    setting(
        "compression.zstd.level",
        INT,
        "3",
        "compression.zstd.level",
        ("compression.zstd.level", "3"),
    ),
    setting(
        "delete.retention.ms",
        LONG,
        "86400000",
        "log.cleaner.delete.retention.ms",
        ("log.cleaner.delete.retention.ms", "86400000"),
    ),
    setting(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        "false",
        "",
        ("", ""),
    ),
    setting(
        "file.delete.delay.ms",
        LONG,
        "60000",
        "log.segment.delete.delay.ms",
        ("log.segment.delete.delay.ms", "60000"),
    ),
    setting(
        "flush.messages",
        LONG,
        "9223372036854775807",
        "log.flush.interval.messages",
        ("log.flush.interval.messages", "9223372036854775807"),
    ),
    setting(
        "flush.ms",
        LONG,
        "9223372036854775807",
        "log.flush.interval.ms",
        ("", ""),
    ),
    setting(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        "",
        ("", ""),
    ),
    setting(
        "index.interval.bytes",
        INT,
        "4096",
        "log.index.interval.bytes",
        ("log.index.interval.bytes", "4096"),
    ),
    setting(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        "",
        ("", ""),
    ),
    setting(
        "local.retention.bytes",
        LONG,
        "-2",
        "log.local.retention.bytes",
        ("log.local.retention.bytes", "-2"),
    ),
    setting(
        "local.retention.ms",
        LONG,
        "-2",
        "log.local.retention.ms",
        ("log.local.retention.ms", "-2"),
    ),
    setting(
        "max.compaction.lag.ms",
        LONG,
        "9223372036854775807",
        "log.cleaner.max.compaction.lag.ms",
        ("log.cleaner.max.compaction.lag.ms", "9223372036854775807"),
    ),
    setting(
        "max.decompressed.message.bytes",
        INT,
        "2147483639",
        "max.decompressed.message.bytes",
        ("max.decompressed.message.bytes", "2147483639"),
    ),
    setting(
        "max.message.bytes",
        INT,
        "1048588",
        "message.max.bytes",
        ("message.max.bytes", "1048588"),
    ),
    setting(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        "log.message.timestamp.after.max.ms",
        ("log.message.timestamp.after.max.ms", "3600000"),
    ),
    setting(
        "message.timestamp.before.max.ms",
        LONG,
        "9223372036854775807",
        "log.message.timestamp.before.max.ms",
        ("log.message.timestamp.before.max.ms", "9223372036854775807"),
    ),
    setting(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "log.message.timestamp.type",
        ("log.message.timestamp.type", "CreateTime"),
    ),
    setting(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        "log.cleaner.min.cleanable.ratio",
        ("log.cleaner.min.cleanable.ratio", "0.5"),
    ),
    setting(
        "min.compaction.lag.ms",
        LONG,
        "0",
        "log.cleaner.min.compaction.lag.ms",
        ("log.cleaner.min.compaction.lag.ms", "0"),
    ),
    setting(
        "min.insync.replicas",
        INT,
        "1",
        "min.insync.replicas",
        ("min.insync.replicas", "1"),
    ),
    setting(
        "preallocate",
        BOOLEAN,
        "false",
        "log.preallocate",
        ("log.preallocate", "false"),
    ),
    setting(
        "remote.copy.lag.bytes",
        LONG,
        "-1",
        "log.remote.copy.lag.bytes",
        ("log.remote.copy.lag.bytes", "-1"),
    ),
    setting(
        "remote.copy.lag.ms",
        LONG,
        "0",
        "log.remote.copy.lag.ms",
        ("log.remote.copy.lag.ms", "0"),
    ),
    setting("remote.log.copy.disable", BOOLEAN, "false", "", ("", "")),
    setting(
        "remote.log.delete.on.disable",
        BOOLEAN,
        "false",
        "",
        ("", ""),
    ),
    setting("remote.storage.enable", BOOLEAN, "false", "", ("", "")),
    setting(
        "retention.bytes",
        LONG,
        "-1",
        "log.retention.bytes",
        ("log.retention.bytes", "-1"),
    ),
    setting(
        "retention.ms",
        LONG,
        "604800000",
        "log.retention.ms",
        ("log.retention.hours", "168"),
    ),
    setting(
        "segment.bytes",
        INT,
        "1073741824",
        "log.segment.bytes",
        ("log.segment.bytes", "1073741824"),
    ),
    setting(
        "segment.index.bytes",
        INT,
        "10485760",
        "log.index.size.max.bytes",
        ("log.index.size.max.bytes", "10485760"),
    ),
    setting(
        "segment.jitter.ms",
        LONG,
        "0",
        "log.roll.jitter.ms",
        ("", ""),
    ),
    setting("segment.ms", LONG, "604800000", "log.roll.ms", ("", "")),
    setting(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "unclean.leader.election.enable",
        ("unclean.leader.election.enable", "false"),
    ),
];
