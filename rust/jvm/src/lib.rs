//! The native half of the Spark source: a task of the Python planner, decoded to columns in memory that Spark reads.
//!
//! Java knows Spark, this crate knows files and columns, and the core knows bytes. `seam` is the only unsafe file.

mod column;
mod error;
mod file;
mod narrow;
mod reader;
pub mod seam;
mod task;

pub use error::TaskError;
pub use narrow::narrow;
pub use reader::TaskReader;
