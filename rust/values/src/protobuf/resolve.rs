//! The types of files, found by their names.

use std::collections::{HashMap, HashSet};

use crate::limits::{Error, Result};
use crate::protobuf::parse::{self, MOST_NAME, Presence};
use crate::protobuf::schema::{
    Enum, EnumId, Field, Form, Kind, Message, MessageId, ProtobufSchema, Shape,
};
use crate::protobuf::{descriptor, known};

impl ProtobufSchema {
    /// Parses a schema. `references` are the paths of imports and their texts.
    ///
    /// A text is a `.proto` file, or its descriptor in base64. The types of `google/protobuf/`, `google/type/` and
    /// `confluent/type/` are known. A missing file is no error if no field has a type of it: many files only declare
    /// options.
    pub fn parse(text: &str, references: &[(String, String)]) -> Result<Self> {
        let own = descriptor::bytes(text);
        let others: Vec<_> = references
            .iter()
            .map(|(_, text)| descriptor::bytes(text))
            .collect();
        let mut files = vec![parsed(text, own.as_deref())?];
        let (mut seen, mut at) = (HashSet::new(), 0);
        while let Some(file) = files.get(at) {
            let mut imported = Vec::new();
            for &path in &file.imports {
                let mut known = references.iter().zip(&others);
                let found = match known.find(|((name, _), _)| name == path) {
                    Some(((name, text), bytes)) => {
                        Some((name.as_str(), text.as_str(), bytes.as_deref()))
                    }
                    None => known::file(path).map(|(name, text)| (name, text, None)),
                };
                if let Some((name, text, bytes)) = found
                    && seen.insert(name)
                {
                    imported.push(
                        parsed(text, bytes)
                            .map_err(|error| Error::new(format!("{name}: {error}")))?,
                    );
                }
            }
            files.append(&mut imported);
            at += 1;
        }
        Resolver::default().resolve(&files)
    }
}

/// Reads a file: from its descriptor, where it has one.
fn parsed<'t>(text: &'t str, bytes: Option<&'t [u8]>) -> Result<parse::File<'t>> {
    bytes.map_or_else(|| parse::File::parse(text), parse::File::of_descriptor)
}

/// The number of a scope: a package, or a message with the types in it.
type ScopeId = usize;

/// The names in a package or message.
#[derive(Debug)]
struct Scope<'t> {
    parent: ScopeId,
    name: &'t str,
    items: HashMap<&'t str, Item>,
}

/// A type or package, by its name.
#[derive(Debug, Clone, Copy)]
enum Item {
    Package(ScopeId),
    Message(MessageId, ScopeId),
    Enum(EnumId),
}

/// The defaults that a file sets for its fields.
#[derive(Debug, Clone, Copy)]
struct Features {
    presence: Presence,
    is_delimited: bool,
}

/// A message of a file.
#[derive(Debug, Clone, Copy)]
struct Declared<'t> {
    message: &'t parse::Message<'t>,
    scope: ScopeId,
    features: Features,
}

/// Extensions of a file.
#[derive(Debug, Clone, Copy)]
struct Extending<'t> {
    extension: &'t parse::Extension<'t>,
    scope: ScopeId,
    features: Features,
}

/// The scope around all packages.
const ROOT: ScopeId = 0;

#[derive(Debug, Default)]
struct Resolver<'t> {
    scopes: Vec<Scope<'t>>,
    messages: Vec<Message>,
    enums: Vec<Enum>,
    /// The first messages, as they are declared. The entries of maps follow.
    declared: Vec<Declared<'t>>,
    extending: Vec<Extending<'t>>,
}

impl<'t> Resolver<'t> {
    fn resolve(mut self, files: &'t [parse::File<'t>]) -> Result<ProtobufSchema> {
        self.add_scope(ROOT, "");
        let mut roots = None;
        for file in files {
            let scope = self.package(&file.package)?;
            let features = Features {
                presence: file.presence,
                is_delimited: file.is_delimited,
            };
            let messages = self.declare(&file.body, scope, features);
            roots.get_or_insert(messages);
        }
        for id in 0..self.declared.len() {
            self.fields(id)?;
        }
        for one in std::mem::take(&mut self.extending) {
            self.extend(one)?;
        }
        self.check_maps();
        self.messages.iter_mut().try_for_each(Message::close)?;
        let mut named = HashMap::new();
        if self.messages.iter().any(|one| one.form == Form::Any) {
            for (id, one) in self.declared.iter().enumerate() {
                named.entry(self.path(one.scope)?).or_insert(id);
            }
        }
        let roots: Vec<MessageId> = roots.unwrap_or_default();
        let mut root_names = Vec::with_capacity(roots.len());
        for id in &roots {
            if let Some(one) = self.declared.get(*id) {
                root_names.push(self.path(one.scope)?);
            }
        }
        Ok(ProtobufSchema {
            messages: self.messages,
            enums: self.enums,
            roots,
            root_names,
            named,
            has_defaults: false,
            chosen: vec![0],
        })
    }

    fn add_scope(&mut self, parent: ScopeId, name: &'t str) -> ScopeId {
        self.scopes.push(Scope {
            parent,
            name,
            items: HashMap::new(),
        });
        self.scopes.len() - 1
    }

    /// Gives a name to an item. The first of two items with one name keeps it.
    fn add(&mut self, scope: ScopeId, name: &'t str, item: Item) {
        if let Some(scope) = self.scopes.get_mut(scope) {
            scope.items.entry(name).or_insert(item);
        }
    }

    fn item(&self, scope: ScopeId, name: &str) -> Option<Item> {
        self.scopes.get(scope)?.items.get(name).copied()
    }

    fn package(&mut self, package: &'t str) -> Result<ScopeId> {
        let mut scope = ROOT;
        for name in package.split('.').filter(|name| !name.is_empty()) {
            scope = match self.item(scope, name) {
                Some(Item::Package(inner)) => inner,
                Some(_) => {
                    return Err(Error::new(format!("the package {package} is also a type")));
                }
                None => {
                    let inner = self.add_scope(scope, name);
                    self.add(scope, name, Item::Package(inner));
                    inner
                }
            };
        }
        Ok(scope)
    }

    /// Gives numbers to the types of a file or message, and returns those that message indexes count.
    fn declare(
        &mut self,
        body: &'t parse::Body<'t>,
        scope: ScopeId,
        features: Features,
    ) -> Vec<MessageId> {
        let is_google = self.is_google(scope);
        for one in &body.enums {
            let mut values: Vec<_> = one.values.iter().collect();
            values.sort_by_key(|(_, number)| *number);
            self.enums.push(Enum {
                first: one.values.first().map_or(0, |(_, number)| *number),
                values: values
                    .into_iter()
                    .map(|&(name, number)| (number, name.to_owned()))
                    .collect(),
                is_null: is_google && one.name == "NullValue",
            });
            self.add(scope, one.name, Item::Enum(self.enums.len() - 1));
        }
        let mut counted = Vec::new();
        for message in &body.messages {
            let id = self.messages.len();
            let inner = self.add_scope(scope, message.name);
            self.add(scope, message.name, Item::Message(id, inner));
            let mut one = Message {
                name: message.name.into(),
                ..Message::default()
            };
            if is_google {
                one.form = form(message.name);
            }
            self.messages.push(one);
            self.declared.push(Declared {
                message,
                scope: inner,
                features,
            });
            let nested = self.declare(&message.body, inner, features);
            if let Some(message) = self.messages.get_mut(id) {
                message.nested = nested;
            }
            if !message.is_group {
                counted.push(id);
            }
        }
        self.extending
            .extend(body.extensions.iter().map(|extension| Extending {
                extension,
                scope,
                features,
            }));
        counted
    }

    /// True for the package of the known types with a JSON form of their own.
    fn is_google(&self, scope: ScopeId) -> bool {
        let name = |scope: ScopeId| self.scopes.get(scope).map(|one| (one.parent, one.name));
        let Some((outer, "protobuf")) = name(scope) else {
            return false;
        };
        name(outer) == Some((ROOT, "google"))
    }

    /// Adds the fields of a declared message.
    fn fields(&mut self, id: MessageId) -> Result<()> {
        let Some(&declared) = self.declared.get(id) else {
            return Ok(());
        };
        for field in &declared.message.fields {
            let field = self.field(field, declared.scope, declared.features)?;
            if let Some(message) = self.messages.get_mut(id) {
                message.push(field);
            }
        }
        Ok(())
    }

    /// Adds extensions to a message. Those of a missing message are skipped: it is one of the options.
    fn extend(&mut self, one: Extending<'t>) -> Result<()> {
        let Some(Item::Message(id, _)) = self.find(&one.extension.extended, one.scope) else {
            return Ok(());
        };
        let path = self.path(one.scope)?;
        for field in &one.extension.fields {
            let mut field = self.field(field, one.scope, one.features)?;
            let dot = if path.is_empty() { "" } else { "." };
            field.name = format!("[{path}{dot}{}]", field.name);
            // An extension has presence in all syntaxes.
            if field.shape == Shape::Implicit {
                field.shape = Shape::Optional;
            }
            if let Some(message) = self.messages.get_mut(id) {
                message.push(field);
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &'t parse::Field<'t>,
        scope: ScopeId,
        features: Features,
    ) -> Result<Field> {
        let mut name = field.name.to_owned();
        let kind = match &field.kind {
            parse::Kind::Named(kind) => self.kind(kind, &name, scope)?,
            parse::Kind::Group => {
                let kind = self.kind(&name, &name, scope)?;
                name.make_ascii_lowercase();
                kind
            }
            parse::Kind::Map { key, value } => {
                let mut entry = Message::default();
                for (name, kind, number) in [("key", key, 1), ("value", value, 2)] {
                    let kind = self.kind(kind, name, scope)?;
                    entry.push(Field {
                        name: name.to_owned(),
                        number,
                        kind,
                        shape: Shape::Optional,
                        oneof: None,
                        is_required: false,
                        is_group: false,
                    });
                }
                self.messages.push(entry);
                Kind::Message(self.messages.len() - 1)
            }
        };
        let is_message = matches!(kind, Kind::Message(_));
        let shape = match field.kind {
            parse::Kind::Map { .. } => Shape::Map,
            _ if field.is_repeated => match kind {
                Kind::Message(id) if self.is_entry(id) => Shape::Map,
                _ => Shape::Repeated,
            },
            _ => match field.presence.unwrap_or(features.presence) {
                Presence::Implicit if !is_message => Shape::Implicit,
                _ => Shape::Optional,
            },
        };
        Ok(Field {
            name,
            number: field.number,
            kind,
            shape,
            oneof: field.oneof,
            is_required: field.is_required,
            is_group: is_message
                && shape != Shape::Map
                && field.is_delimited.unwrap_or(features.is_delimited),
        })
    }

    fn is_entry(&self, id: MessageId) -> bool {
        self.declared
            .get(id)
            .is_some_and(|one| one.message.is_entry)
    }

    fn kind(&self, kind: &str, name: &str, scope: ScopeId) -> Result<Kind> {
        if let Some(kind) = Kind::scalar(kind) {
            return Ok(kind);
        }
        match self.find(kind, scope) {
            Some(Item::Message(id, _)) => Ok(Kind::Message(id)),
            Some(Item::Enum(id)) => Ok(Kind::Enum(id)),
            _ => Err(Error::new(format!(
                "the type {kind} of the field {name} is not defined"
            ))),
        }
    }

    /// Returns the type with a name: that of the innermost scope that has one.
    fn find(&self, name: &str, scope: ScopeId) -> Option<Item> {
        if let Some(full) = name.strip_prefix('.') {
            return self.within(full, ROOT);
        }
        let mut scope = scope;
        loop {
            let found = self.within(name, scope);
            if found.is_some() || scope == ROOT {
                return found;
            }
            scope = self.scopes.get(scope)?.parent;
        }
    }

    fn within(&self, name: &str, mut scope: ScopeId) -> Option<Item> {
        let (outer, last) = name.rsplit_once('.').unwrap_or(("", name));
        for part in outer.split('.').filter(|part| !part.is_empty()) {
            scope = match self.item(scope, part)? {
                Item::Package(inner) | Item::Message(_, inner) => inner,
                Item::Enum(_) => return None,
            };
        }
        self.item(scope, last)
            .filter(|item| !matches!(item, Item::Package(_)))
    }

    /// The full name of a scope.
    fn path(&self, mut scope: ScopeId) -> Result<String> {
        let mut names = Vec::new();
        while scope != ROOT
            && let Some(one) = self.scopes.get(scope)
        {
            names.push(one.name);
            scope = one.parent;
        }
        names.reverse();
        let path = names.join(".");
        if path.len() > MOST_NAME {
            return Err(parse::too_long());
        }
        Ok(path)
    }

    /// Turns maps whose entries lack a valid key or value into repeated messages.
    fn check_maps(&mut self) {
        let is_entry: Vec<_> = self
            .messages
            .iter()
            .map(|message| {
                message.entry().is_some_and(|(key, value)| {
                    let is_single =
                        |field: &Field| !matches!(field.shape, Shape::Repeated | Shape::Map);
                    key.kind.is_key() && is_single(key) && is_single(value)
                })
            })
            .collect();
        for field in self.messages.iter_mut().flat_map(|one| &mut one.fields) {
            if let (Shape::Map, Kind::Message(id)) = (field.shape, field.kind)
                && is_entry.get(id) != Some(&true)
            {
                field.shape = Shape::Repeated;
            }
        }
    }
}

/// The form of a known type of `google.protobuf`.
fn form(name: &str) -> Form {
    match name {
        "Timestamp" => Form::Timestamp,
        "Duration" => Form::Duration,
        "FieldMask" => Form::FieldMask,
        "Any" => Form::Any,
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value"
        | "UInt32Value" | "BoolValue" | "StringValue" | "BytesValue" | "Struct" | "Value"
        | "ListValue" => Form::Bare,
        _ => Form::Object,
    }
}
