//! The open connections, whose number is limited in total and per address.
//!
//! When no place is free, a new connection gets the place of a connection that has sent no request yet, or has not
//! logged in. So thousands of silent connections do not lock out other clients.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::base::options::Limits;
use crate::base::sync::lock;

/// All open connections.
#[derive(Clone)]
pub(super) struct OpenConnections {
    most: usize,
    most_of_address: usize,
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    /// The connections that have a place, each with the signal to release it.
    places: HashMap<u64, Arc<Notify>>,
    of_address: HashMap<IpAddr, usize>,
    /// Connections that have neither logged in nor received an answer, the oldest first.
    silent: BTreeMap<u64, IpAddr>,
    next: u64,
}

/// An open connection, until it is dropped.
pub(super) struct OpenConnection {
    connections: OpenConnections,
    number: u64,
    address: IpAddr,
    is_replaced: Arc<Notify>,
}

impl OpenConnections {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            most: limits.connections,
            most_of_address: limits.connections_of_address,
            all: Arc::default(),
        }
    }

    /// Returns a place for a new connection; None if no place is free, and no silent connection can release one.
    pub(super) fn open(&self, address: IpAddr) -> Option<OpenConnection> {
        let mut all = lock(&self.all);
        let of_address = all.of_address.get(&address).copied().unwrap_or(0);
        if of_address >= self.most_of_address {
            // A new connection never replaces one of another address.
            let mut silent = all.silent.iter();
            let own = silent.find(|(_, other)| **other == address);
            let own = own.map(|(number, _)| *number)?;
            all.replace(own, address);
        } else if all.places.len() >= self.most {
            let (oldest, other) = all.silent.first_key_value()?;
            let (oldest, other) = (*oldest, *other);
            all.replace(oldest, other);
        }
        *all.of_address.entry(address).or_default() += 1;
        let (number, is_replaced) = (all.next, Arc::new(Notify::new()));
        all.next += 1;
        all.places.insert(number, Arc::clone(&is_replaced));
        all.silent.insert(number, address);
        Some(OpenConnection {
            connections: self.clone(),
            number,
            address,
            is_replaced,
        })
    }
}

impl All {
    fn replace(&mut self, number: u64, address: IpAddr) {
        if let Some(is_replaced) = self.free(number, address) {
            is_replaced.notify_one();
        }
    }

    fn free(&mut self, number: u64, address: IpAddr) -> Option<Arc<Notify>> {
        self.silent.remove(&number);
        let place = self.places.remove(&number)?;
        if let Some(count) = self.of_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&address);
            }
        }
        Some(place)
    }
}

impl OpenConnection {
    /// Records that the client has sent a request, and has logged in if it must: the connection keeps its place.
    pub(super) fn keep(&self) {
        lock(&self.connections.all).silent.remove(&self.number);
    }

    /// Waits until the connection has to release its place.
    pub(super) async fn replaced(&self) {
        self.is_replaced.notified().await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        // A replaced connection no longer has a place.
        lock(&self.connections.all).free(self.number, self.address);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn connections(connections: usize, connections_of_address: usize) -> OpenConnections {
        OpenConnections::new(&Limits {
            connections,
            connections_of_address,
            ..Limits::default()
        })
    }

    fn address(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    fn is_replaced(connection: &OpenConnection) -> bool {
        let all = lock(&connection.connections.all);
        !all.places.contains_key(&connection.number)
    }

    #[test]
    fn silent_connections_give_their_places_up_the_oldest_first() {
        let connections = connections(2, 2);
        let first = connections.open(address(1)).unwrap();
        let second = connections.open(address(2)).unwrap();
        second.keep();
        let third = connections.open(address(3)).unwrap();
        assert!(is_replaced(&first) && !is_replaced(&second));
        third.keep();
        assert!(connections.open(address(4)).is_none());
        drop((first, second));
        assert!(connections.open(address(4)).is_some());
        drop(third);
        assert!(lock(&connections.all).places.is_empty());
        assert!(lock(&connections.all).of_address.is_empty());
    }

    #[test]
    fn an_address_takes_no_place_of_another_one() {
        let connections = connections(10, 2);
        let other = connections.open(address(1)).unwrap();
        let own = [(); 2].map(|()| connections.open(address(2)).unwrap());
        own[1].keep();
        let third = connections.open(address(2)).unwrap();
        assert!(is_replaced(&own[0]) && !is_replaced(&own[1]) && !is_replaced(&other));
        third.keep();
        assert!(connections.open(address(2)).is_none());
        assert!(connections.open(address(1)).is_some());
    }
}
