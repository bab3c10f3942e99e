//! Rows that are due, and where they go; rows that come or go, and where they count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::known::Names;
use crate::home::key_partition;
use crate::row::{self, Row};

/// What stands for a partition that nothing chooses.
const SPREAD: i64 = -1;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const KEY: usize = 20;

type Group<'py> = (Bound<'py, PyString>, i64, Bound<'py, PyList>);

/// Return how many of `rows[begin:]` are usual up to the first that is not, and these by topic and partition.
#[pyfunction]
pub fn route<'py>(
    rows: &Bound<'py, PyList>,
    begin: usize,
    partitions: &Bound<'py, PyDict>,
) -> PyResult<(usize, Vec<Group<'py>>)> {
    let py = rows.py();
    let mut names = Names::new();
    let mut places = HashMap::new();
    let mut groups: Vec<(usize, i64, Vec<Bound<'py, PyAny>>)> = Vec::new();
    let (mut taken, mut last) = (0, usize::MAX);
    for index in begin..rows.len() {
        let item = rows.get_item(index)?;
        let Ok((_, raw)) = row_of(&item) else { break };
        let Some(row) = row::parse(raw.as_bytes()) else { break };
        let name = names.place(row.to, || {
            let number = partitions.get_item(row.to)?.map_or(Ok(0), |number| number.extract::<i64>())?;
            Ok((PyString::new(py, row.to), number))
        })?;
        let Some(partition) = partition_of(&row, names.found[name].1) else { break };
        if groups.get(last).is_none_or(|group| (group.0, group.1) != (name, partition)) {
            last = *places.entry((name, partition)).or_insert(groups.len());
            if last == groups.len() {
                groups.push((name, partition, Vec::new()));
            }
        }
        groups[last].2.push(item);
        taken += 1;
    }
    let groups = groups
        .into_iter()
        .map(|(name, partition, rows)| Ok((names.found[name].0.clone(), partition, PyList::new(py, rows)?)));
    Ok((taken, groups.collect::<PyResult<_>>()?))
}

/// Return a row's partition of so many; None of none.
fn partition_of(row: &Row, partitions: i64) -> Option<i64> {
    if partitions <= 0 {
        return None;
    }
    match (row.partition, row.key) {
        (Some(partition), _) => Some(partition),
        (None, Some(key)) => key_partition(key, partitions),
        (None, None) => Some(SPREAD),
    }
}

/// Return the key and the value of a row.
pub fn row_of<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let item = item.cast::<PyTuple>()?;
    Ok((item.get_item(0)?.cast_into()?, item.get_item(1)?.cast_into()?))
}

/// Return the due time in a row's key (tables/keys.py).
pub fn due_of(key: &[u8]) -> Option<i64> {
    if key.len() != KEY {
        return None;
    }
    i64::try_from(u64::from_be_bytes(*key.first_chunk()?)).ok()
}

/// Return the keys of the ids of usual rows, and how many rows go to each topic by minute, and by hour where that is
/// as far as anybody counts (tables/counts.py). Raises ValueError for a row that is not usual.
#[pyfunction]
pub fn places<'py>(
    rows: &Bound<'py, PyDict>,
    near_end: &Bound<'py, PyBytes>,
) -> PyResult<(Bound<'py, PyList>, Vec<(Bound<'py, PyString>, i64, u64)>)> {
    let py = rows.py();
    let mut names = Names::new();
    let mut counted = HashMap::new();
    let mut counts: Vec<(usize, i64, u64)> = Vec::new();
    let mut ids = Vec::with_capacity(rows.len());
    let mut id_key = Vec::new();
    for (key, raw) in rows {
        let (key, raw) = (key.cast::<PyBytes>()?.as_bytes(), raw.cast::<PyBytes>()?.as_bytes());
        let (Some(row), Some(due_ms)) = (row::parse(raw), due_of(key)) else {
            return Err(PyValueError::new_err("this is no usual row"));
        };
        let name = names.place(row.to, || Ok(PyString::new(py, row.to)))?;
        let unit = if key < near_end.as_bytes() { due_ms / MINUTE_MS } else { -1 - due_ms / HOUR_MS };
        match counted.entry((name, unit)) {
            Entry::Vacant(place) => {
                place.insert(counts.len());
                counts.push((name, unit, 1));
            }
            Entry::Occupied(place) => counts[*place.get()].2 += 1,
        }
        id_key.clear();
        id_key.push(b'i');
        id_key.extend_from_slice(row.id.as_bytes());
        ids.push(PyBytes::new(py, &id_key));
    }
    let counts = counts.into_iter().map(|(name, unit, number)| (names.found[name].clone(), unit, number));
    Ok((PyList::new(py, ids)?, counts.collect()))
}
