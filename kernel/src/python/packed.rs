//! Records of only a key and a value, which Python passes on and rarely reads.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::requests::pair;

/// Keys and values in one buffer, as a sequence of tuples.
#[pyclass(frozen, module = "punctual_kernel")]
pub struct Packed {
    raw: Vec<u8>,
    /// The ends of each key and its value; the next key begins at the end of the value.
    ends: Vec<(usize, usize)>,
}

impl Packed {
    pub fn new() -> Self {
        Packed { raw: Vec::new(), ends: Vec::new() }
    }

    /// Add a record: its key, and a function that writes its value.
    pub fn add(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.raw.extend_from_slice(key);
        let end = self.raw.len();
        write(&mut self.raw);
        self.ends.push((end, self.raw.len()));
    }

    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let begin = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).map(|(_, end)| *end))?;
        let (middle, end) = *self.ends.get(index)?;
        Some((self.raw.get(begin..middle)?, self.raw.get(middle..end)?))
    }
}

#[pymethods]
impl Packed {
    fn __len__(&self) -> usize {
        self.ends.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
        let (key, value) = self.get(index).ok_or_else(|| PyIndexError::new_err("there are fewer records"))?;
        pair(py, key, value)
    }
}
