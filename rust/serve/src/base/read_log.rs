//! The log of reads: a line of JSON for each partition of a response.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::sync::lock;

/// A file to which lines are added.
pub(crate) struct ReadLog(Mutex<File>);

/// The client that reads.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// Host and port.
    pub(crate) address: String,
    /// The client's id, which the client chooses.
    pub(crate) client_id: String,
    /// The user, if the server requires a login.
    pub(crate) user: Option<String>,
}

/// One read of a partition.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// The requested offset.
    pub(crate) offset: i64,
    /// The bytes of the records.
    pub(crate) bytes: u64,
}

impl ReadLog {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Adds lines, before the records are sent.
    pub(crate) fn note(&self, client: &Client, reads: &[Read]) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_millis() as u64);
        let mut lines = Vec::new();
        for read in reads {
            let line = serde_json::json!({
                "timestamp": now,
                "client": client.address,
                "client_id": client.client_id,
                "user": client.user,
                "topic": read.topic,
                "partition": read.partition,
                "offset": read.offset,
                "bytes": read.bytes,
            });
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
        }
        // In one write, so that lines never mix.
        lock(&self.0).write_all(&lines)
    }
}
