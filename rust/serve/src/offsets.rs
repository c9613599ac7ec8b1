//! Offsets: by a timestamp, at both ends, and at the end of a leader epoch.

use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
};

use crate::directory::{Partition, Refusal};
use crate::fetch::existing;
use crate::partitions::Partitions;

// The timestamps that stand for others (`ListOffsetsRequest`).
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

struct Found {
    offset: i64,
    timestamp: i64,
    epoch: i32,
}

const NONE: Found = Found {
    offset: -1,
    timestamp: -1,
    epoch: -1,
};

/// The answer to a request for offsets.
pub(crate) fn list_offsets(
    partitions: &Partitions,
    request: &ListOffsetsRequest,
    version: i16,
) -> Result<ListOffsetsResponse, Refusal> {
    let topics = partitions.directory().topics()?;
    let is_committed = request.isolation_level == 1 || partitions.shown.only_committed;
    let of_topic = |topic: &kafka_protocol::messages::list_offsets_request::ListOffsetsTopic| {
        let found = topic
            .partitions
            .iter()
            .map(|one| {
                let answer = existing(&topics, &topic.name, one.partition_index)
                    .and_then(|()| partitions.get(&topic.name, one.partition_index))
                    .and_then(|found| {
                        found.check_epoch(one.current_leader_epoch)?;
                        let place = (topic.name.as_str(), one.partition_index);
                        offset(partitions, &found, place, one.timestamp, is_committed)
                    });
                let (error, found) = match answer {
                    Ok(found) => (0, found),
                    Err(refusal) => (refusal.error.code(), NONE),
                };
                let response = ListOffsetsPartitionResponse::default()
                    .with_partition_index(one.partition_index)
                    .with_error_code(error)
                    .with_offset(found.offset)
                    .with_timestamp(found.timestamp);
                match version < 4 {
                    true => response,
                    false => response.with_leader_epoch(found.epoch),
                }
            })
            .collect();
        ListOffsetsTopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(found)
    };
    Ok(ListOffsetsResponse::default().with_topics(request.topics.iter().map(of_topic).collect()))
}

fn offset(
    partitions: &Partitions,
    partition: &Partition,
    (topic, number): (&str, i32),
    timestamp: i64,
    is_committed: bool,
) -> Result<Found, Refusal> {
    let at = |offset: i64| Found {
        offset,
        timestamp: -1,
        epoch: epoch_at(partition, offset),
    };
    Ok(match timestamp {
        LATEST => at(partition.visible_end(is_committed)),
        EARLIEST => at(partition.log_start_offset),
        _ => {
            let end = partition.visible_end(is_committed);
            partitions
                .directory()
                .offset_for_time(topic, number, timestamp, end)?
                .map_or(NONE, |found| Found {
                    offset: found.offset,
                    timestamp: found.timestamp,
                    epoch: found.leader_epoch,
                })
        }
    })
}

fn epoch_at(partition: &Partition, offset: i64) -> i32 {
    let place = partition
        .epochs
        .partition_point(|(_, start)| *start <= offset);
    place
        .checked_sub(1)
        .and_then(|before| partition.epochs.get(before))
        .map_or(-1, |(epoch, _)| *epoch)
}

/// The answer to a request for the ends of leader epochs (KIP-320).
pub(crate) fn ends_of_epochs(
    partitions: &Partitions,
    request: &OffsetForLeaderEpochRequest,
) -> Result<OffsetForLeaderEpochResponse, Refusal> {
    let topics = partitions.directory().topics()?;
    let found = request.topics.iter().map(|topic| {
        let found = topic.partitions.iter().map(|one| {
            let answer = existing(&topics, &topic.topic, one.partition)
                .and_then(|()| partitions.get(&topic.topic, one.partition))
                .and_then(|found| {
                    found.check_epoch(one.current_leader_epoch)?;
                    Ok(found.end_of_epoch(one.leader_epoch))
                });
            let response = EpochEndOffset::default().with_partition(one.partition);
            match answer {
                Ok((epoch, end)) => response.with_leader_epoch(epoch).with_end_offset(end),
                Err(refusal) => response.with_error_code(refusal.error.code()),
            }
        });
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(found.collect())
    });
    Ok(OffsetForLeaderEpochResponse::default().with_topics(found.collect()))
}
