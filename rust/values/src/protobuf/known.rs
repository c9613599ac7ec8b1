//! The files that a registry knows without a reference (`ProtobufSchema.KNOWN_DEPENDENCIES` of Confluent's): the names
//! and numbers of their types and fields.

/// Returns the name and the text of the group of files that a path is in. The files of a group are one text.
///
/// A file that only declares options, such as `confluent/meta.proto`, is not needed to decode a body.
pub(super) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    let (folder, name) = path.rsplit_once('/')?;
    Some(match (folder, name) {
        ("google/protobuf", "descriptor.proto") => (
            "google/protobuf/descriptor.proto",
            include_str!("known/descriptor.proto"),
        ),
        ("google/protobuf", "api.proto" | "source_context.proto" | "type.proto") => (
            "google/protobuf/{api,source_context,type}.proto",
            include_str!("known/api.proto"),
        ),
        ("google/protobuf", _) => (
            "google/protobuf/*.proto",
            include_str!("known/common.proto"),
        ),
        ("google/type", _) => ("google/type/*.proto", include_str!("known/type.proto")),
        ("confluent/type", _) => (
            "confluent/type/*.proto",
            include_str!("known/confluent.proto"),
        ),
        _ => return None,
    })
}
