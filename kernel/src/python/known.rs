//! What is known of names in one call, and ids that came in it.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use pyo3::prelude::*;

/// Something for each of a few names, which mostly come many times in a row.
pub struct Names<T> {
    places: HashMap<String, usize>,
    last: (String, usize),
    pub found: Vec<T>,
}

impl<T> Names<T> {
    pub fn new() -> Self {
        Names { places: HashMap::new(), last: (String::new(), usize::MAX), found: Vec::new() }
    }

    /// Return the place of a name in `found`, which has what is made of it at first.
    pub fn place(&mut self, name: &str, make: impl FnOnce() -> PyResult<T>) -> PyResult<usize> {
        if self.last.1 != usize::MAX && self.last.0 == name {
            return Ok(self.last.1);
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.found.push(make()?);
                self.places.insert(name.to_owned(), self.found.len() - 1);
                self.found.len() - 1
            }
        };
        self.last.0.clear();
        self.last.0.push_str(name);
        self.last.1 = place;
        Ok(place)
    }
}

/// Ids by their hashes: two that share one look the same, which only ends a prefix early.
#[derive(Default)]
pub struct Ids {
    state: RandomState,
    seen: HashSet<u64, BuildHasherDefault<Itself>>,
}

impl Ids {
    /// Remember an id; false if it was there.
    pub fn add(&mut self, id: &str) -> bool {
        self.seen.insert(self.state.hash_one(id))
    }
}

/// The hash of what is a hash already.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, raw: &[u8]) {
        self.0 = raw.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
