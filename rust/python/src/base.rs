//! Arguments, results and errors of Python, and files that the core reads.

pub(crate) mod arrays;
pub(crate) mod borrowed_array;
pub(crate) mod buffer;
pub(crate) mod columns;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod table;
