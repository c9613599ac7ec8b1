//! Fuzz target of the requests that clients send to a server.

use std::sync::Arc;

use brokerless_serve::{
    Bytes, Commit, Directory, KnownGroup, Limits, Loopback, Options, Partition, PartitionLookup,
    RecordView, Refusal, ResponseError, TimedOffset, Topic, Topics, Uuid,
};

/// A directory of two topics, whose segments cannot be read.
struct TwoTopics;

impl Directory for TwoTopics {
    fn cluster_id(&self) -> String {
        "cluster".to_owned()
    }

    fn topics(&self) -> Result<Arc<Topics>, Refusal> {
        let topic = |name: &str, id: u128| Topic {
            name: name.to_owned(),
            id: Uuid::from_u128(id),
            partitions: vec![0, 1],
            is_internal: false,
        };
        Ok(Arc::new(Topics::new(vec![topic("t", 1), topic("u", 2)])))
    }

    fn partition(&self, _: &str, _: i32, _: Option<u64>) -> Result<PartitionLookup, Refusal> {
        let partition = Partition {
            path: "/nowhere".to_owned(),
            base_offsets: vec![0],
            high_watermark: 10,
            last_stable_offset: 5,
            epochs: vec![(0, 0), (2, 5)],
            ..Partition::default()
        };
        Ok(PartitionLookup {
            partition: Some(partition),
            own: Vec::new(),
            shared: Vec::new(),
        })
    }

    fn offset_for_time(
        &self,
        _: &str,
        _: i32,
        timestamp: i64,
        _: i64,
    ) -> Result<Option<TimedOffset>, Refusal> {
        Ok((timestamp < 100).then_some(TimedOffset {
            offset: 1,
            timestamp,
            leader_epoch: 0,
        }))
    }

    fn commits(&self) -> Result<Vec<(String, String, i32, Commit)>, Refusal> {
        Ok(vec![("g".to_owned(), "t".to_owned(), 0, Commit::default())])
    }

    fn leader_epochs(&self, _: &str) -> Result<Vec<i32>, Refusal> {
        Ok(vec![2, -1])
    }

    fn groups(&self) -> Result<Vec<KnownGroup>, Refusal> {
        Ok(vec![KnownGroup {
            name: "g".to_owned(),
            protocol_type: "consumer".to_owned(),
            pending: vec![("t".to_owned(), 1)],
        }])
    }

    fn configs(&self, _: &str, _: &str) -> Result<Vec<(String, String)>, Refusal> {
        Ok(vec![("retention.ms".to_owned(), "1".to_owned())])
    }

    fn size(&self, _: &str) -> Result<u64, Refusal> {
        Err(Refusal::new(
            ResponseError::KafkaStorageError,
            "no such file",
        ))
    }

    fn read(&self, _: &str, _: u64, _: usize) -> Result<Bytes, Refusal> {
        Err(Refusal::new(
            ResponseError::KafkaStorageError,
            "no such file",
        ))
    }
}

/// Successive requests of one client, each preceded by its length in two bytes. Three bits of the first byte determine
/// whether the server requires a password.
pub(crate) fn requests(data: &[u8]) {
    let Some((first, mut rest)) = data.split_first() else {
        return;
    };
    let options = Options {
        listen: String::new(),
        node_id: 1,
        advertised: None,
        commits: None,
        tls: None,
        users: (first & 7 == 1).then(|| vec![("ann".to_owned(), "secret".to_owned())]),
        read_log: None,
        view: RecordView::default(),
        limits: Limits::default(),
    };
    let mut client = Loopback::new(Arc::new(TwoTopics), options).unwrap();
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (frame, behind) = behind.split_at(length);
        client.answer(frame);
        rest = behind;
    }
}
