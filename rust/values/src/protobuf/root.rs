//! The message of a schema that values are.

use crate::limits::{Error, Result};
use crate::protobuf::schema::{MessageId, ProtobufSchema};

/// The most names of messages that an error shows.
const MOST_SHOWN: usize = 20;

impl ProtobufSchema {
    /// Returns a schema whose values are the message with a full name, and not the first one.
    pub fn with_message(mut self, name: &str) -> Result<Self> {
        self.root()?;
        self.chosen = self.indexes_of(name).ok_or_else(|| {
            let known = self.message_names();
            Error::new(format!(
                "no message {name} is in the schema, which has {known}"
            ))
        })?;
        Ok(self)
    }

    /// The indexes of the message with a full name.
    fn indexes_of(&self, name: &str) -> Option<Vec<usize>> {
        let within = |outer: &String| {
            let inner = name.strip_prefix(outer.as_str())?;
            (inner.is_empty() || inner.starts_with('.')).then_some(inner)
        };
        let mut roots = self.root_names.iter().enumerate();
        let (root, inner) = roots.find_map(|(at, outer)| Some((at, within(outer)?)))?;
        let mut indexes = vec![root];
        for name in inner.split('.').skip(1) {
            let outer = self.messages.get(self.message_at(&indexes)?)?;
            let is_named =
                |id: &MessageId| self.messages.get(*id).is_some_and(|one| *one.name == *name);
            indexes.push(outer.nested.iter().position(is_named)?);
        }
        Some(indexes)
    }

    /// The full names of the messages, each before those in it. A long list is cut.
    fn message_names(&self) -> String {
        let roots = self
            .root_names
            .iter()
            .cloned()
            .zip(self.roots.iter().copied());
        let mut waiting: Vec<_> = roots.take(MOST_SHOWN).collect();
        waiting.reverse();
        let mut shown = Vec::new();
        while shown.len() < MOST_SHOWN
            && let Some((name, id)) = waiting.pop()
        {
            let nested = self.messages.get(id).map_or(&[][..], |one| &one.nested);
            for &id in nested.iter().take(MOST_SHOWN).rev() {
                let inner = self.messages.get(id).map_or("", |one| &one.name);
                waiting.push((format!("{name}.{inner}"), id));
            }
            shown.push(name);
        }
        if shown.len() == MOST_SHOWN {
            shown.push("perhaps more".to_owned());
        }
        shown.join(", ")
    }

    /// The message with these indexes.
    fn message_at(&self, indexes: &[usize]) -> Option<MessageId> {
        let mut level = &self.roots;
        let mut id = None;
        for &index in indexes {
            id = level.get(index).copied();
            level = &self.messages.get(id?)?.nested;
        }
        id
    }

    /// The message that values are: the first one, unless another one was chosen.
    pub(super) fn root(&self) -> Result<MessageId> {
        let chosen = self.message_at(&self.chosen);
        chosen.ok_or_else(|| Error::new("the schema has no message"))
    }

    /// The full name of this message.
    pub(super) fn root_full_name(&self) -> Option<String> {
        let mut name = self.root_names.get(*self.chosen.first()?)?.clone();
        for length in 2..=self.chosen.len() {
            let id = self.message_at(self.chosen.get(..length)?)?;
            name = format!("{name}.{}", self.messages.get(id)?.name);
        }
        Some(name)
    }

    /// The message with a full name.
    pub(super) fn named_message(&self, name: &str) -> Option<MessageId> {
        self.message_at(&self.indexes_of(name)?)
    }

    /// The full name of a message that is in no other one.
    pub(super) fn root_name(&self, id: MessageId) -> Option<&str> {
        let at = self.roots.iter().position(|&one| one == id)?;
        self.root_names.get(at).map(String::as_str)
    }
}
