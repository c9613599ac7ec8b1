//! `OffsetIndex` and `TimeIndex`: the contents of a `.index` and a `.timeindex` file.

use std::sync::Arc;

use arrow_array::{Int32Array, Int64Array};
use pyo3::prelude::*;

use crate::base::buffer::Bytes;
use crate::base::error::OrRaise as _;
use crate::base::table::table;

/// Defines the class of an index: the fields of its entries, and its own methods. Entries are searched by the first
/// field.
macro_rules! index {
    ($class:ident, $key:ident, $value:ident: $integer:ty as $array:ty, { $($own:tt)* }) => {
        #[pyclass(module = "brokerless._native", frozen)]
        #[derive(Debug)]
        pub(crate) struct $class(pub(crate) brokerless_core::$class);

        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (data, base_offset, raw=false))]
            fn new(py: Python<'_>, data: Bytes, base_offset: i64, raw: bool) -> Self {
                Self(py.detach(|| brokerless_core::$class::new(data.as_slice(), base_offset, raw)))
            }

            fn __len__(&self) -> usize {
                self.0.len()
            }

            #[getter]
            fn last_offset(&self) -> i64 {
                self.0.last_entry().offset
            }

            fn lookup(&self, $key: i64) -> (i64, $integer) {
                let found = self.0.lookup($key);
                (found.$key, found.$value)
            }

            fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                let keys = Int64Array::from_iter_values(self.0.entries().map(|entry| entry.$key));
                let values = <$array>::from_iter_values(self.0.entries().map(|entry| entry.$value));
                table(
                    py,
                    vec![
                        (stringify!($key), Arc::new(keys)),
                        (stringify!($value), Arc::new(values)),
                    ],
                )
            }

            fn length_below(&self, offset: i64) -> usize {
                self.0.length_below(offset)
            }

            fn sanity_check(&self) -> PyResult<()> {
                self.0.sanity_check().or_raise()
            }

            $($own)*
        }
    };
}

index!(OffsetIndex, offset, position: i32 as Int32Array, {
    fn upper_bound(&self, position: i64, size: i64) -> Option<i64> {
        self.0.upper_bound(position, size)
    }
});

index!(TimeIndex, timestamp, offset: i64 as Int64Array, {
    #[getter]
    fn last_entry(&self) -> (i64, i64) {
        let last = self.0.last_entry();
        (last.timestamp, last.offset)
    }
});
