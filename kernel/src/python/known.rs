//! Caches of one call: values by name, and the ids so far.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustc_hash::FxHashSet;

/// A value for each of a few names; lookups of the same name in a row are fast.
pub struct Names<T> {
    places: HashMap<String, usize>,
    last: usize,
    found: Vec<(String, T)>,
}

impl<T> Names<T> {
    pub fn new() -> Self {
        Names { places: HashMap::new(), last: 0, found: Vec::new() }
    }

    /// Return the index of a name; `make` creates its value at the first call.
    pub fn place(&mut self, name: &str, make: impl FnOnce() -> PyResult<T>) -> PyResult<usize> {
        if self.found.get(self.last).is_none_or(|(known, _)| known != name) {
            self.last = self.places.get(name).copied().unwrap_or(self.found.len());
            if self.last == self.found.len() {
                self.found.push((name.to_owned(), make()?));
                self.places.insert(name.to_owned(), self.last);
            }
        }
        Ok(self.last)
    }

    /// Return the value of the name with this index.
    pub fn at(&self, place: usize) -> &T {
        &self.found[place].1
    }
}

/// The hashes of ids. Two ids with the same hash count as equal, which only ends a prefix early.
#[derive(Default)]
pub struct Ids {
    state: RandomState,
    seen: FxHashSet<u64>,
}

impl Ids {
    /// Add an id; false if it was there already.
    pub fn add(&mut self, id: &str) -> bool {
        self.seen.insert(self.state.hash_one(id))
    }
}

/// Return the key of an id's index entry (tables/row_writes.py).
pub fn id_key<'py>(py: Python<'py>, id: &str) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &[b"i", id.as_bytes()].concat())
}
