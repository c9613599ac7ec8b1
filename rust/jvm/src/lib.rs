//! The native half of the Spark source and sink. It decodes the tasks of the Python planner to columns in memory that
//! Spark reads. It encodes Spark's rows as the parts of a write.
//!
//! The Java code handles Spark, this crate handles files and columns, and the core handles bytes. `seam` is the only
//! file with unsafe code.

mod column;
mod criteria;
mod decoding;
mod error;
mod file;
mod narrow;
mod part_writer;
mod reader;
mod row_fields;
pub mod seam;
mod task;
mod unsafe_rows;
mod write_task;

pub use error::TaskError;
pub use narrow::narrow;
pub use part_writer::PartWriter;
pub use reader::TaskReader;
