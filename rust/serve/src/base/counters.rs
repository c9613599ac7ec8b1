//! The counters of a server.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use kafka_protocol::messages::ApiKey;

/// The number of API keys with a counter. The highest API key of Kafka 4.4 is 92.
const API_KEYS: usize = 128;

/// A counter that only grows, or a gauge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The name, without a prefix.
    pub name: &'static str,
    /// The description of the count.
    pub help: &'static str,
    /// True if the value may fall.
    pub is_gauge: bool,
    /// A label with its value.
    pub label: Option<(&'static str, String)>,
    /// The number.
    pub value: u64,
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    /// Connections above the limit.
    pub(crate) refused: AtomicU64,
    /// Connections that broke the protocol or a limit.
    pub(crate) broken: AtomicU64,
    /// Clients with a wrong password.
    pub(crate) not_authenticated: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) open: AtomicUsize,
    requests: Requests,
}

/// A counter for each API key.
#[derive(Debug)]
struct Requests([AtomicU64; API_KEYS]);

impl Default for Requests {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Requests {
    fn of(&self, api: ApiKey) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(api as i16).ok()?)
    }
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a request.
    pub(crate) fn request(&self, api: ApiKey) {
        if let Some(counter) = self.requests.of(api) {
            Self::add(counter, 1);
        }
    }

    /// Returns all counters, including the counters of the requests in `apis`.
    pub(crate) fn all(&self, memory: usize, apis: impl Iterator<Item = ApiKey>) -> Vec<Count> {
        let count = |name, help, counter: &AtomicU64| Count {
            name,
            help,
            is_gauge: false,
            label: None,
            value: counter.load(Ordering::Relaxed),
        };
        let gauge = |name, help, value: usize| Count {
            name,
            help,
            is_gauge: true,
            label: None,
            value: value as u64,
        };
        let mut all = vec![
            gauge(
                "connections",
                "Connections now.",
                self.open.load(Ordering::Relaxed),
            ),
            gauge(
                "memory_bytes",
                "Memory that requests and replies take now.",
                memory,
            ),
            count("connections_total", "Connections so far.", &self.accepted),
            count(
                "connections_refused_total",
                "Connections above the limit.",
                &self.refused,
            ),
            count(
                "connections_broken_total",
                "Connections that broke the protocol or a limit.",
                &self.broken,
            ),
            count(
                "authentications_failed_total",
                "Clients with a wrong user or password.",
                &self.not_authenticated,
            ),
            count(
                "sent_bytes_total",
                "Bytes that were sent.",
                &self.sent_bytes,
            ),
            count(
                "record_bytes_total",
                "Bytes of records that were sent.",
                &self.record_bytes,
            ),
        ];
        all.extend(apis.filter_map(|api| {
            let counter = self.requests.of(api)?;
            Some(Count {
                label: Some(("api", format!("{api:?}"))),
                ..count("requests_total", "Requests so far.", counter)
            })
        }));
        all
    }
}
