//! The schema of a message in Kafka's own format (KIP-482), as its message definition describes it.

/// A range of message versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Versions {
    first: i16,
    last: i16,
}

impl Versions {
    /// Returns whether the range has a version.
    #[inline]
    pub(crate) const fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }
}

/// No version.
pub(crate) const NONE: Versions = Versions { first: 1, last: 0 };

/// All versions from `first`.
pub(crate) const fn since(first: i16) -> Versions {
    Versions {
        first,
        last: i16::MAX,
    }
}

/// The versions from `first` to `last`, both included.
pub(crate) const fn between(first: i16, last: i16) -> Versions {
    Versions { first, last }
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// One byte. All but 0 are true.
    Bool,
    /// A signed byte.
    Int8,
    /// A big-endian int16.
    Int16,
    /// A big-endian uint16.
    Uint16,
    /// A big-endian int32.
    Int32,
    /// A big-endian int64.
    Int64,
    /// A big-endian double.
    Float64,
    /// 16 bytes.
    Uuid,
    /// UTF-8 after its length.
    String,
    /// Bytes after their length.
    Bytes,
    /// Elements after their number.
    Array(&'static Kind),
    /// Fields one after the other.
    Struct(&'static [Field]),
}

/// A field of a message or a struct.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// The name in Kafka's JSON.
    pub(crate) name: &'static str,
    /// The type.
    pub(crate) kind: Kind,
    /// The message versions that have the field.
    pub(crate) versions: Versions,
    /// The versions in which it may be null.
    pub(crate) nullable: Versions,
    /// The versions in which the field is tagged, and so optional.
    pub(crate) tagged: Versions,
    /// The tag.
    pub(crate) tag: u32,
    /// Its default value, as JSON. Kafka's JSON also leaves out fields with this value.
    pub(crate) default: &'static str,
}

impl Field {
    pub(crate) const fn nullable(mut self, versions: Versions) -> Self {
        self.nullable = versions;
        self
    }

    pub(crate) const fn tagged(
        mut self,
        tag: u32,
        versions: Versions,
        default: &'static str,
    ) -> Self {
        (self.tag, self.tagged, self.default) = (tag, versions, default);
        self
    }

    /// Returns whether every message of a version has the field, untagged.
    #[inline]
    pub(crate) const fn is_in_order(&self, version: i16) -> bool {
        self.versions.contains(version) && !self.tagged.contains(version)
    }
}

/// A field that is never null, and has no tag.
pub(crate) const fn field(name: &'static str, kind: Kind, versions: Versions) -> Field {
    Field {
        name,
        kind,
        versions,
        nullable: NONE,
        tagged: NONE,
        tag: 0,
        default: "",
    }
}

/// A kind of message.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The name of its definition.
    pub(crate) name: &'static str,
    /// The versions that exist.
    pub(crate) versions: Versions,
    /// The versions with compact lengths and tagged fields.
    pub(crate) flexible: Versions,
    /// The fields, in the order of their bytes.
    pub(crate) fields: &'static [Field],
}

/// Creates a schema from the message definition of this name.
pub(crate) const fn schema(
    name: &'static str,
    versions: Versions,
    flexible: Versions,
    fields: &'static [Field],
) -> Schema {
    Schema {
        name,
        versions,
        flexible,
        fields,
    }
}

/// A record whose key and value are messages.
#[derive(Debug)]
pub(crate) struct Keyed {
    /// The number in front of the key.
    pub(crate) kind: i16,
    /// The schema of the key. It has only one version: the number in front of the key up to Kafka 4.0, and later 0.
    pub(crate) key: &'static Schema,
    /// The schemas of the value. The first one that has the value's version describes it.
    pub(crate) values: &'static [&'static Schema],
}

impl Keyed {
    pub(crate) const fn new(
        kind: i16,
        key: &'static Schema,
        values: &'static [&'static Schema],
    ) -> Self {
        Self { kind, key, values }
    }

    /// The version of the key.
    pub(crate) const fn key_version(&self) -> i16 {
        self.key.versions.last
    }
}
