//! The operations that a client may perform, as bits (`AclOperation`): only read operations.

const READ: i32 = 1 << 3;
const DESCRIBE: i32 = 1 << 8;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
pub(crate) const ON_TOPICS: i32 = READ | DESCRIBE | DESCRIBE_CONFIGS;
pub(crate) const ON_CLUSTER: i32 = DESCRIBE | DESCRIBE_CONFIGS;
pub(crate) const ON_GROUPS: i32 = READ | DESCRIBE;
