//! The answers to requests. None waits for a time, a thread or another client: a `Step` says what has to happen next.

pub(crate) mod apis;
pub(crate) mod call;
mod configs;
mod fetch;
mod groups;
mod login;
mod metadata;
mod offsets;
mod refused;
mod session;
mod settings;
pub(crate) mod shared;
