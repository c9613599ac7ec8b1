//! The sessions of incremental fetches (KIP-227, `FetchSession` and `FetchManager` of Kafka).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use kafka_protocol::ResponseError;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::base::directory::MOST_OF_NAME;
use crate::base::memory::{Memory, Share};
use crate::base::sync::lock;

/// The memory of a partition in a session, with its topic's name. Longer names are not kept.
const OF_PARTITION: usize = 512;
/// The session epoch of a request that starts a session.
const INITIAL: i32 = 0;
/// The session epoch of a request that ends its session, or uses none.
const FINAL: i32 = -1;

/// A partition that is fetched. Since version 13, clients name the topic by its id alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) topic: StrBytes,
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
}

/// The part of a fetch request for one partition, and the offsets last sent for this partition.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) fetch_offset: i64,
    pub(crate) max_bytes: i32,
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
    told: Option<(i64, i64)>,
}

impl Wanted {
    fn new(request: &FetchPartition) -> Self {
        Self {
            fetch_offset: request.fetch_offset,
            max_bytes: request.partition_max_bytes,
            current_leader_epoch: request.current_leader_epoch,
            last_fetched_epoch: request.last_fetched_epoch,
            told: None,
        }
    }
}

type Partitions = IndexMap<Key, Wanted>;

/// The session of a client.
#[derive(Debug)]
pub(crate) struct Session {
    id: i32,
    uses_ids: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    epoch: i32,
    share: Share,
    partitions: Partitions,
}

/// The partitions that a request wants, with its session if it has one.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) wanted: Vec<(Key, Wanted)>,
    pub(crate) is_incremental: bool,
    session: Option<Arc<Session>>,
}

impl Fetching {
    /// The id for the response; 0 if there is no session.
    pub(crate) fn session_id(&self) -> i32 {
        self.session.as_ref().map_or(0, |session| session.id)
    }

    /// Records the high watermark and log start offset that the response states for partitions. The partitions in
    /// `with_records` come last in the next response, so that each partition gets its turn.
    pub(crate) fn tell(&self, told: &[(&Key, (i64, i64))], with_records: &[&Key]) {
        let Some(session) = self.session.as_ref().filter(|_| !told.is_empty()) else {
            return;
        };
        let mut state = lock(&session.state);
        for (key, values) in told {
            if let Some(wanted) = state.partitions.get_mut(*key) {
                wanted.told = Some(*values);
            }
        }
        // In one pass, because there may be ten thousand partitions, each with a few records.
        let with_records: HashSet<&Key> = with_records.iter().copied().collect();
        let (last, first): (Vec<_>, Vec<_>) = std::mem::take(&mut state.partitions)
            .into_iter()
            .partition(|(key, _)| with_records.contains(key));
        state.partitions = first.into_iter().chain(last).collect();
    }
}

impl Wanted {
    /// Returns true if the client knows these offsets from an earlier response.
    pub(crate) fn knows(&self, told: (i64, i64)) -> bool {
        self.told == Some(told)
    }
}

/// The sessions of all clients.
pub(crate) struct Sessions {
    most: usize,
    memory: Arc<Memory>,
    known: Mutex<HashMap<i32, Arc<Session>>>,
}

impl Sessions {
    pub(crate) fn new(most: usize, memory: &Arc<Memory>) -> Self {
        Self {
            most,
            memory: Arc::clone(memory),
            known: Mutex::default(),
        }
    }

    /// Returns the partitions that a request wants.
    pub(crate) fn fetching(
        &self,
        request: &FetchRequest,
        version: i16,
    ) -> Result<Fetching, ResponseError> {
        let uses_ids = version >= 13;
        let is_incremental = request.session_epoch != INITIAL && request.session_epoch != FINAL;
        let Asked { known, unknown } = asked(request);
        if !is_incremental {
            if request.session_id != 0 {
                lock(&self.known).remove(&request.session_id);
            }
            let partitions: Partitions = known.into_iter().collect();
            let mut wanted = pairs(&partitions);
            let wants_session = request.session_epoch == INITIAL && version >= 7;
            let session = match wants_session && !partitions.is_empty() && unknown.is_empty() {
                true => self.begin(partitions, uses_ids),
                false => None,
            };
            wanted.extend(unknown);
            return Ok(Fetching {
                wanted,
                is_incremental,
                session,
            });
        }
        let session = lock(&self.known)
            .get(&request.session_id)
            .map(Arc::clone)
            .ok_or(ResponseError::FetchSessionIdNotFound)?;
        if session.uses_ids != uses_ids {
            return Err(ResponseError::FetchSessionTopicIdError);
        }
        let mut state = lock(&session.state);
        if state.epoch != request.session_epoch {
            return Err(ResponseError::InvalidFetchSessionEpoch);
        }
        // The epoch after the greatest one is 1, because 0 begins a session.
        state.epoch = state.epoch.checked_add(1).unwrap_or(1);
        let new = known
            .iter()
            .filter(|(key, _)| !state.partitions.contains_key(key));
        let new: HashSet<&Key> = new.map(|(key, _)| key).collect();
        if !unknown.is_empty() || !state.share.grow(new.len() * OF_PARTITION) {
            // The client begins a new session, or fetches without one.
            lock(&self.known).remove(&request.session_id);
            return Err(ResponseError::FetchSessionIdNotFound);
        }
        for (key, mut wanted) in known {
            wanted.told = state.partitions.get(&key).and_then(|known| known.told);
            state.partitions.insert(key, wanted);
        }
        let forgotten = forgotten(request);
        if !forgotten.is_empty() {
            let before = state.partitions.len();
            // In one pass, because each removal moves all later elements.
            state.partitions.retain(|key, _| !forgotten.contains(key));
            let given_back = before - state.partitions.len();
            state.share.give_back(given_back * OF_PARTITION);
        }
        let wanted = pairs(&state.partitions);
        drop(state);
        Ok(Fetching {
            wanted,
            is_incremental,
            session: Some(session),
        })
    }

    fn begin(&self, partitions: Partitions, uses_ids: bool) -> Option<Arc<Session>> {
        let mut known = lock(&self.known);
        let share = self.memory.share();
        while known.len() >= self.most || !share.grow(partitions.len() * OF_PARTITION) {
            // Replace a session that no request is using. Its client must begin a new session.
            let idle = known
                .iter()
                .find(|(_, session)| Arc::strong_count(session) == 1)
                .map(|(id, _)| *id)?;
            known.remove(&idle);
        }
        let id = loop {
            // Random, so that ids of an earlier server are not mistaken for those of this one.
            let id = (Uuid::new_v4().as_u128() as i32) & i32::MAX;
            if id != 0 && !known.contains_key(&id) {
                break id;
            }
        };
        let session = Arc::new(Session {
            id,
            uses_ids,
            state: Mutex::new(State {
                epoch: 1,
                share,
                partitions,
            }),
        });
        known.insert(id, Arc::clone(&session));
        Some(session)
    }
}

/// The partitions that a request names.
struct Asked {
    known: Vec<(Key, Wanted)>,
    /// Partitions whose topic name is longer than the name of any topic. A request may have thousands of such
    /// partitions, each with a name of 32 KB, so they are neither kept nor compared.
    unknown: Vec<(Key, Wanted)>,
}

fn asked(request: &FetchRequest) -> Asked {
    let mut asked = Asked {
        known: Vec::new(),
        unknown: Vec::new(),
    };
    for topic in &request.topics {
        let (topic_name, into) = match topic.topic.len() <= MOST_OF_NAME {
            // A copy, so that the request itself is not kept.
            true => (topic.topic.to_string().into(), &mut asked.known),
            false => (topic.topic.0.clone(), &mut asked.unknown),
        };
        into.extend(topic.partitions.iter().map(|one| {
            let key = Key {
                topic: topic_name.clone(),
                topic_id: topic.topic_id,
                partition: one.partition,
            };
            (key, Wanted::new(one))
        }));
    }
    asked
}

fn forgotten(request: &FetchRequest) -> HashSet<Key> {
    let topics = request.forgotten_topics_data.iter();
    let topics = topics.filter(|topic| topic.topic.len() <= MOST_OF_NAME);
    topics
        .flat_map(|topic| {
            topic.partitions.iter().map(|partition| Key {
                topic: topic.topic.0.clone(),
                topic_id: topic.topic_id,
                partition: *partition,
            })
        })
        .collect()
}

fn pairs(partitions: &Partitions) -> Vec<(Key, Wanted)> {
    partitions
        .iter()
        .map(|(key, wanted)| (key.clone(), wanted.clone()))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use kafka_protocol::messages::TopicName;
    use kafka_protocol::messages::fetch_request::{FetchTopic, ForgottenTopic};

    fn request(id: i32, epoch: i32, partitions: i32) -> FetchRequest {
        let topic = FetchTopic::default()
            .with_topic(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(
                (0..partitions)
                    .map(|number| FetchPartition::default().with_partition(number))
                    .collect(),
            );
        FetchRequest::default()
            .with_session_id(id)
            .with_session_epoch(epoch)
            .with_topics(vec![topic])
    }

    #[test]
    fn a_session_goes_on_epoch_by_epoch() {
        let sessions = Sessions::new(10, &Memory::new(1 << 20));
        let first = sessions.fetching(&request(0, INITIAL, 2), 12).unwrap();
        let id = first.session_id();
        assert!(id > 0);
        let next = sessions.fetching(&request(id, 1, 0), 12).unwrap();
        assert_eq!((next.wanted.len(), next.is_incremental), (2, true));
        let again = sessions.fetching(&request(id, 1, 0), 12).unwrap_err();
        assert_eq!(again, ResponseError::InvalidFetchSessionEpoch);
        let with_ids = sessions.fetching(&request(id, 2, 0), 13).unwrap_err();
        assert_eq!(with_ids, ResponseError::FetchSessionTopicIdError);
        let unknown = sessions.fetching(&request(id + 1, 2, 0), 12).unwrap_err();
        assert_eq!(unknown, ResponseError::FetchSessionIdNotFound);
        let last = sessions.fetching(&request(id, FINAL, 2), 12).unwrap();
        assert_eq!(last.session_id(), 0);
        assert!(sessions.fetching(&request(id, 2, 0), 12).is_err());
    }

    #[test]
    fn sessions_take_a_bounded_amount_of_memory() {
        let memory = Memory::new(100 * OF_PARTITION);
        let sessions = Sessions::new(1000, &memory);
        for _ in 0..50 {
            assert!(
                sessions
                    .fetching(&request(0, INITIAL, 10), 12)
                    .unwrap()
                    .session_id()
                    > 0
            );
        }
        assert!(memory.used() <= 100 * OF_PARTITION);
        // More memory than is left: the client fetches without a session.
        let large = sessions.fetching(&request(0, INITIAL, 101), 12).unwrap();
        assert_eq!((large.session_id(), large.wanted.len()), (0, 101));
        let small = sessions.fetching(&request(0, INITIAL, 1), 12).unwrap();
        let grown = sessions.fetching(&request(small.session_id(), 1, 200), 12);
        assert_eq!(grown.unwrap_err(), ResponseError::FetchSessionIdNotFound);
    }

    #[test]
    fn a_session_gives_back_what_it_forgets_and_keeps_no_name_that_no_topic_has() {
        let memory = Memory::new(1 << 20);
        let sessions = Sessions::new(10, &memory);
        let id = sessions
            .fetching(&request(0, INITIAL, 100), 12)
            .unwrap()
            .session_id();
        assert_eq!(memory.used(), 100 * OF_PARTITION);
        // The same partition twice counts once.
        let mut more = request(id, 1, 0);
        let name = || TopicName(StrBytes::from_static_str("t"));
        let one = FetchPartition::default().with_partition(100);
        more.topics = vec![
            FetchTopic::default()
                .with_topic(name())
                .with_partitions(vec![one.clone(), one]),
        ];
        assert_eq!(sessions.fetching(&more, 12).unwrap().wanted.len(), 101);
        assert_eq!(memory.used(), 101 * OF_PARTITION);
        let forgotten = ForgottenTopic::default()
            .with_topic(name())
            .with_partitions((1..2000).collect());
        let less = request(id, 2, 0).with_forgotten_topics_data(vec![forgotten]);
        assert_eq!(sessions.fetching(&less, 12).unwrap().wanted.len(), 1);
        assert_eq!(memory.used(), OF_PARTITION);

        let mut long = request(0, INITIAL, 2);
        for topic in &mut long.topics {
            topic.topic = TopicName("x".repeat(MOST_OF_NAME + 1).into());
        }
        let fetching = sessions.fetching(&long, 12).unwrap();
        assert_eq!((fetching.session_id(), fetching.wanted.len()), (0, 2));
        assert_eq!(memory.used(), OF_PARTITION);
    }
}
