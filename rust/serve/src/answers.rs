//! The answers to requests. No answer waits for a time, a thread or another client. It returns a `Step` that describes
//! the next action.

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
