//! pyarrow arrays, read through their buffers and checked against the sizes of pyarrow's memory.
//!
//! The Arrow C data interface does not carry the sizes of most buffers. An import through this interface must either
//! trust the offsets, which may be wrong in a file, or check all offsets and strings. That check takes as long as
//! encoding.

use std::ops::Range;

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::base::buffer::{self, Pyarrow};

/// The two parts of a dictionary array, as pyarrow names them.
pub(crate) const INDICES: &str = "indices";
pub(crate) const DICTIONARY: &str = "dictionary";

/// An array and its children.
pub(crate) struct Array {
    /// The type as pyarrow prints it: `binary`, `timestamp[ms, tz=UTC]`.
    pub(crate) type_name: String,
    /// The range of rows in the buffers that belong to the array.
    pub(crate) rows: Range<usize>,
    /// True if the first buffer is the bitmap of nulls.
    has_bitmap: bool,
    /// The array's own buffers. A buffer that pyarrow does not have is empty.
    buffers: Vec<Buffer>,
    /// The values of a list, without a name; the fields of a struct; or the two parts of a dictionary array.
    children: Vec<(String, Array)>,
}

impl Array {
    /// Borrows several arrays together, in order.
    pub(crate) fn import<'py>(
        py: Python<'py>,
        arrays: impl IntoIterator<Item = Bound<'py, PyAny>>,
    ) -> PyResult<impl Iterator<Item = Self>> {
        let mut buffers = Vec::new();
        let mut outlines = Vec::new();
        for array in arrays {
            outlines.push(Self::outline(array, &mut buffers)?);
        }
        let mut borrowed = buffer::borrow(py, buffers)?.into_iter();
        outlines
            .iter_mut()
            .for_each(|array| array.fill(&mut borrowed));
        Ok(outlines.into_iter())
    }

    /// Reads an array without its buffers, which are appended to `buffers`.
    fn outline<'py>(
        mut array: Bound<'py, PyAny>,
        buffers: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let py = array.py();
        let pyarrow = Pyarrow::get(py)?;
        buffer::check_class(&array, &pyarrow.array)?;
        if array.is_instance(pyarrow.extension_array.bind(py))? {
            array = array.getattr(intern!(py, "storage"))?;
        }
        let data_type = array.getattr(intern!(py, "type"))?;
        let type_name = data_type.str()?.to_str()?.to_owned();
        // pyarrow lists the buffers of children after the array's own.
        let own = match type_name.split_once('<') {
            Some(("list" | "large_list" | "map", _)) => 2,
            Some(("list_view" | "large_list_view", _)) => 3,
            Some(("struct", _)) => 1,
            Some(("dictionary", _)) => 0,
            _ => usize::MAX,
        };
        let found = array.call_method0(intern!(py, "buffers"))?;
        let empty = pyarrow.empty.bind(py);
        let before = buffers.len();
        let mut has_bitmap = false;
        for (index, buffer) in found.cast::<PyList>()?.iter().take(own).enumerate() {
            has_bitmap |= index == 0 && !buffer.is_none();
            buffers.push(match buffer.is_none() {
                true => empty.clone(),
                false => buffer,
            });
        }
        let own_buffers = vec![Buffer::default(); buffers.len() - before];
        let mut children = Vec::new();
        if own < usize::MAX {
            // Checks lengths: pyarrow aborts the process for a child with a negative one.
            array.call_method0(intern!(py, "validate"))?;
        }
        if own == 0 {
            for name in [INDICES, DICTIONARY] {
                let part = array.getattr(name)?;
                children.push((name.to_owned(), Self::outline(part, buffers)?));
            }
        } else if matches!(own, 2 | 3) {
            let values = array.getattr(intern!(py, "values"))?;
            children.push((String::new(), Self::outline(values, buffers)?));
        } else if own == 1 {
            for (index, field) in data_type.try_iter()?.enumerate() {
                let name = field?.getattr(intern!(py, "name"))?.extract()?;
                let values = array.call_method1(intern!(py, "field"), (index,))?;
                children.push((name, Self::outline(values, buffers)?));
            }
        }
        let first: usize = array.getattr(intern!(py, "offset"))?.extract()?;
        Ok(Self {
            type_name,
            rows: first..first.saturating_add(array.len()?),
            has_bitmap,
            buffers: own_buffers,
            children,
        })
    }

    fn fill(&mut self, borrowed: &mut impl Iterator<Item = Buffer>) {
        for buffer in &mut self.buffers {
            *buffer = borrowed.next().unwrap_or_default();
        }
        for (_, child) in &mut self.children {
            child.fill(borrowed);
        }
    }

    /// The values of a list, from the first of their buffers on.
    pub(crate) fn values(&self) -> Option<&Self> {
        self.field("")
    }

    /// The first field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let mut named = self.children.iter().filter(|(found, _)| found == name);
        named.next().map(|(_, child)| child)
    }

    /// The nulls of the array. This function counts them, because the null count of a file is not trusted.
    pub(crate) fn nulls(&self) -> PyResult<Nulls> {
        if !self.has_bitmap {
            return Ok(Nulls::default());
        }
        let bits = self.bytes(0);
        if bits.len() < self.rows.end.div_ceil(8) {
            return Err(self.ends_early(bits.len() * 8, self.rows.end));
        }
        let count = self.rows.len() - bits.count_set_bits_offset(self.rows.start, self.rows.len());
        Ok(Nulls {
            bits: (count > 0).then_some(bits),
            first: self.rows.start,
            count,
        })
    }

    /// The bytes of a buffer.
    pub(crate) fn bytes(&self, index: usize) -> Buffer {
        self.buffers.get(index).cloned().unwrap_or_default()
    }

    /// The bytes of all buffers after the one at `index`.
    pub(crate) fn bytes_behind(&self, index: usize) -> Vec<Buffer> {
        self.buffers.iter().skip(index + 1).cloned().collect()
    }

    /// A buffer as numbers, from the array's first value on, with `more` after its last.
    pub(crate) fn numbers<T: ArrowNativeType>(
        &self,
        index: usize,
        more: usize,
    ) -> PyResult<ScalarBuffer<T>> {
        let size = size_of::<T>();
        let mut buffer = self.bytes(index);
        let (there, wanted) = (buffer.len() / size, self.rows.end.saturating_add(more));
        if self.rows.is_empty() {
            return Ok(ScalarBuffer::from(Vec::new()));
        }
        if there < wanted {
            return Err(self.ends_early(there, wanted));
        }
        let first = self.rows.start;
        buffer = buffer.slice_with_length(first * size, (wanted - first) * size);
        if buffer.as_ptr().align_offset(align_of::<T>()) != 0 {
            buffer = Buffer::from_slice_ref(buffer.as_slice());
        }
        Ok(ScalarBuffer::new(buffer, 0, wanted - first))
    }

    /// The values of an array with `size` bytes each.
    pub(crate) fn fixed(&self, size: usize) -> PyResult<Buffer> {
        let buffer = self.bytes(1);
        let end = self.rows.end.saturating_mul(size);
        if buffer.len() < end {
            return Err(self.ends_early(buffer.len() / size.max(1), self.rows.end));
        }
        let start = self.rows.start.saturating_mul(size).min(end);
        Ok(buffer.slice_with_length(start, end - start))
    }

    #[cold]
    fn ends_early(&self, there: usize, wanted: usize) -> PyErr {
        PyValueError::new_err(format!(
            "an array of {} is damaged: a buffer ends after {there} values, not {wanted}",
            self.type_name
        ))
    }
}

/// The nulls of an array; none by default.
#[derive(Default)]
pub(crate) struct Nulls {
    /// A bitmap with a bit set for each value that is not null; None if no value is null.
    bits: Option<Buffer>,
    first: usize,
    pub(crate) count: usize,
}

impl Nulls {
    pub(crate) fn any(&self) -> bool {
        self.bits.is_some()
    }

    /// The nulls as an Arrow bitmap for `rows` rows, without a copy.
    pub(crate) fn buffer(&self, rows: usize) -> Option<NullBuffer> {
        let bits = self.bits.clone()?;
        Some(NullBuffer::new(BooleanBuffer::new(bits, self.first, rows)))
    }

    #[inline]
    pub(crate) fn has(&self, row: usize) -> bool {
        let Some(bits) = &self.bits else {
            return false;
        };
        let bit = self.first.wrapping_add(row);
        let byte = bits.as_slice().get(bit / 8).copied().unwrap_or_default();
        byte >> (bit % 8) & 1 == 0
    }
}
