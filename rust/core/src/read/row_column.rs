//! The columns of rows, as users name them: those of Spark's Kafka source, followed by the lineage of a row.

use crate::read::columns::Columns;

/// A column of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what its name says")]
pub enum RowColumn {
    Key,
    Value,
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    Headers,
    LeaderEpoch,
    BaseOffset,
    Position,
    Magic,
    Compression,
    ProducerId,
    ProducerEpoch,
    Sequence,
    IsTransactional,
}

impl RowColumn {
    /// All columns and their names, in order.
    pub const ALL: [(&'static str, Self); 17] = [
        ("key", Self::Key),
        ("value", Self::Value),
        ("topic", Self::Topic),
        ("partition", Self::Partition),
        ("offset", Self::Offset),
        ("timestamp", Self::Timestamp),
        ("timestampType", Self::TimestampType),
        ("headers", Self::Headers),
        ("leaderEpoch", Self::LeaderEpoch),
        ("baseOffset", Self::BaseOffset),
        ("position", Self::Position),
        ("magic", Self::Magic),
        ("compression", Self::Compression),
        ("producerId", Self::ProducerId),
        ("producerEpoch", Self::ProducerEpoch),
        ("sequence", Self::Sequence),
        ("isTransactional", Self::IsTransactional),
    ];

    /// The column with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, column)| column)
    }

    /// Empty decoded columns, from which the `wanted` columns are made.
    pub fn decoded(wanted: &[Self]) -> Columns {
        let wants = |column| wanted.contains(&column);
        let mut columns = Columns::default();
        columns.keys = wants(Self::Key).then(Default::default);
        columns.values = wants(Self::Value).then(Default::default);
        columns.headers = wants(Self::Headers).then(Default::default);
        columns.offsets = wants(Self::Offset).then(Default::default);
        columns.timestamps = wants(Self::Timestamp).then(Default::default);
        columns.sequences = wants(Self::Sequence).then(Default::default);
        columns
    }
}
