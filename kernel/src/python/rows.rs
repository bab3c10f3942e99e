//! The destinations of due rows, and the counters of added and removed rows.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use rustc_hash::FxHashMap;

use super::known::{Names, id_key};
use crate::home::key_partition;
use crate::row::{self, Row};

/// The partition of a row without a key or a partition: any.
const SPREAD: i64 = -1;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const KEY: usize = 20;

type Group<'py> = (Bound<'py, PyString>, i64, Vec<Bound<'py, PyAny>>);

/// Return the number of plain rows in `rows[begin:]` before the first other row, and these rows by topic and partition.
#[pyfunction]
pub fn route<'py>(
    rows: &Bound<'py, PyList>,
    begin: usize,
    partitions: &Bound<'py, PyDict>,
) -> PyResult<(usize, Vec<Group<'py>>)> {
    let (mut names, mut places) = (Names::new(), FxHashMap::default());
    let mut groups: Vec<Group> = Vec::new();
    for index in begin..rows.len() {
        let item = rows.get_item(index)?;
        let (_, raw) = row_of(&item)?;
        let Some(row) = row::parse(raw.as_bytes()) else { return Ok((index - begin, groups)) };
        let name = names.place(row.to, || {
            let number = partitions.get_item(row.to)?.map_or(Ok(0), |number| number.extract::<i64>())?;
            Ok((PyString::new(rows.py(), row.to), number))
        })?;
        let (to, number) = names.at(name);
        let Some(partition) = partition_of(&row, *number) else { return Ok((index - begin, groups)) };
        let place = *places.entry((name, partition)).or_insert(groups.len());
        if place == groups.len() {
            groups.push((to.clone(), partition, Vec::new()));
        }
        groups[place].2.push(item);
    }
    Ok((rows.len().saturating_sub(begin), groups))
}

/// Return the partition that a row goes to; None if the topic has no partitions.
fn partition_of(row: &Row, partitions: i64) -> Option<i64> {
    (partitions > 0).then_some(())?;
    row.partition.or_else(|| row.key.map_or(Some(SPREAD), |key| key_partition(key, partitions)))
}

/// Return the key and the value of a row.
pub fn row_of<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let item = item.cast::<PyTuple>()?;
    Ok((item.get_item(0)?.cast_into()?, item.get_item(1)?.cast_into()?))
}

/// Return a plain row and its due time. Raises ValueError for any other row.
pub fn known<'a>(key: &[u8], raw: &'a [u8]) -> PyResult<(Row<'a>, i64)> {
    row::parse(raw).zip(due_of(key)).ok_or_else(|| PyValueError::new_err("this is no plain row"))
}

/// Return the due times of rows, each with the number of successive rows that have it; a time may occur again later.
/// Raises ValueError for a key that is not a row's.
#[pyfunction]
pub fn dues(rows: &Bound<'_, PyList>) -> PyResult<Vec<(i64, usize)>> {
    let due = |item| due_of(row_of(&item)?.0.as_bytes()).ok_or_else(|| PyValueError::new_err("this is no row's key"));
    let dues = rows.iter().map(due).collect::<PyResult<Vec<_>>>()?;
    Ok(dues.chunk_by(|one, next| one == next).map(|alike| (alike[0], alike.len())).collect())
}

/// Return the due time in a row's key (tables/keys.py).
pub fn due_of(key: &[u8]) -> Option<i64> {
    (key.len() == KEY).then_some(())?;
    Some(i64::from_be_bytes(*key.first_chunk()?)).filter(|due_ms| *due_ms >= 0)
}

type Counts<'py> = Vec<(Bound<'py, PyString>, i64, u64)>;

/// Return the index keys of plain rows' ids, and the number of rows per topic and minute, or hour from `near_end` on
/// (tables/counts.py). Raises ValueError for a row that is not plain.
#[pyfunction]
pub fn places<'py>(
    rows: &Bound<'py, PyDict>,
    near_end: &Bound<'py, PyBytes>,
) -> PyResult<(Vec<Bound<'py, PyBytes>>, Counts<'py>)> {
    let (py, near_end) = (rows.py(), near_end.as_bytes());
    let (mut names, mut counted, mut counts) = (Names::new(), FxHashMap::default(), Counts::new());
    let mut ids = Vec::with_capacity(rows.len());
    for (key, raw) in rows {
        let (key, raw) = (key.cast::<PyBytes>()?.as_bytes(), raw.cast::<PyBytes>()?.as_bytes());
        let (row, due_ms) = known(key, raw)?;
        let name = names.place(row.to, || Ok(PyString::new(py, row.to)))?;
        let unit = if key < near_end { due_ms / MINUTE_MS } else { -1 - due_ms / HOUR_MS };
        let place = *counted.entry((name, unit)).or_insert(counts.len());
        if place == counts.len() {
            counts.push((names.at(name).clone(), unit, 0));
        }
        counts[place].2 += 1;
        ids.push(id_key(py, row.id));
    }
    Ok((ids, counts))
}
