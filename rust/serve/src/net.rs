//! Sockets, threads and waiting: the only modules that use tokio.

mod connection;
#[cfg(feature = "loopback")]
pub(crate) mod loopback;
mod open;
mod send_file;
pub(crate) mod server;
mod socket;
mod steps;
