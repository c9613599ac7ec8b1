//! Rewriting segments: compaction, conversion, erasure, and the estimate of their gain.

/// Defines the methods of a rewrite of segments: its own methods, and the methods that all rewrites share.
macro_rules! segment_rewrite {
    ($class:ident, { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            fn feed(
                &mut self,
                py: Python<'_>,
                data: Bytes,
                position: u64,
                output: &mut SegmentOutput,
            ) -> PyResult<usize> {
                py.detach(|| self.0.feed(data.as_slice(), position, &mut output.0))
                    .or_raise()
            }

            fn finish(&mut self, py: Python<'_>, output: &mut SegmentOutput) -> PyResult<bool> {
                py.detach(|| self.0.finish(&mut output.0)).or_raise()
            }

            #[getter]
            fn needed(&self) -> usize {
                self.0.needed()
            }

            #[getter]
            fn is_full(&self) -> bool {
                self.0.is_full()
            }
        }
    };
}

pub(crate) mod compaction_rewrite;
pub(crate) mod compaction_scan;
pub(crate) mod erasure;
pub(crate) mod segment_conversion;
pub(crate) mod segment_output;
pub(crate) mod space_estimate;
