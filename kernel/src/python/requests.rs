//! Usual requests become rows.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySet, PyString, PyTuple};

use super::known::{Ids, Names};
use super::records::Record;
use crate::event::Event;
use crate::home::home_partition;
use crate::{row, usual};

/// The stamp of a message whose id is its source (tables/orders.py).
const UNKNOWN_MS: i64 = -1;
/// What a row takes of a step beside its value.
const OVERHEAD: i64 = 32;

/// What does not change for an input topic of one partition.
#[pyclass(frozen, module = "punctual_kernel")]
pub struct Rules {
    topic: String,
    partition: i32,
    crc: u32,
    inputs: Vec<Vec<u8>>,
    partitions: i64,
    largest_row: usize,
}

#[pymethods]
impl Rules {
    #[new]
    fn new(topic: String, partition: i32, crc: u32, inputs: Vec<String>, partitions: i64, largest_row: usize) -> Self {
        let inputs = inputs.into_iter().filter(|input| input.is_ascii()).map(String::into_bytes).collect();
        Rules { topic, partition, crc, inputs, partitions, largest_row }
    }
}

type Lists<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>);
type Found<'py> = (usize, i64, Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>, i64);

/// What has been made of records so far.
struct Made<'py> {
    ids: Vec<Bound<'py, PyString>>,
    id_keys: Vec<Bound<'py, PyBytes>>,
    rows: Vec<Bound<'py, PyTuple>>,
    events: Vec<Bound<'py, PyTuple>>,
}

impl<'py> Made<'py> {
    fn lists(self, py: Python<'py>) -> PyResult<Lists<'py>> {
        Ok((
            PyList::new(py, self.ids)?,
            PyList::new(py, self.id_keys)?,
            PyList::new(py, self.rows)?,
            PyList::new(py, self.events)?,
        ))
    }
}

/// What a call may do, and what it writes into.
struct Reading<'a, 'py> {
    rules: &'a Rules,
    allowed: &'a Bound<'py, PySet>,
    base: i64,
    latest_ms: i64,
    furthest_ms: i64,
    now_ms: i64,
    topic: Option<Py<PyString>>,
    names: Names<bool>,
    ids: Ids,
    /// The source, of which every record has another offset.
    source: String,
    prefix: usize,
    row: Vec<u8>,
    event: Vec<u8>,
    id_key: Vec<u8>,
}

/// Return what the longest prefix of usual requests among `records[begin:end]` becomes: how many these are, the stamp
/// of the last, their ids, the ids' keys, rows, events, and the size of it all. It ends where that reaches `room`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a call for each record of these would be dearer than what it does")]
pub fn requests<'py>(
    rules: &Bound<'py, Rules>,
    records: &Bound<'py, PyList>,
    begin: usize,
    end: usize,
    base: i64,
    allowed: &Bound<'py, PySet>,
    mut stamp_ms: i64,
    latest_ms: i64,
    furthest_ms: i64,
    now_ms: i64,
    room: i64,
) -> PyResult<Found<'py>> {
    let (py, rules) = (rules.py(), rules.get());
    let source = format!("{}-{}-", rules.topic, rules.partition);
    let mut reading = Reading {
        rules,
        allowed,
        base,
        latest_ms,
        furthest_ms,
        now_ms,
        topic: None,
        names: Names::new(),
        ids: Ids::default(),
        prefix: source.len(),
        source,
        row: Vec::new(),
        event: Vec::new(),
        id_key: Vec::new(),
    };
    let mut made = Made { ids: Vec::new(), id_keys: Vec::new(), rows: Vec::new(), events: Vec::new() };
    let mut size = 0;
    for index in begin..end.min(records.len()) {
        let record = records.get_item(index)?;
        let Ok(record) = record.cast_exact::<Record>() else { break };
        if !reading.take(py, record.get(), stamp_ms, &mut made)? {
            break;
        }
        stamp_ms = stamp_ms.max(record.get().timestamp);
        size += reading.row.len() as i64 + OVERHEAD;
        if size >= room {
            break;
        }
    }
    let taken = made.rows.len();
    let (ids, id_keys, rows, events) = made.lists(py)?;
    Ok((taken, stamp_ms, ids, id_keys, rows, events, size))
}

impl<'py> Reading<'_, 'py> {
    /// Make a row of a record; false if it is no usual request.
    fn take(&mut self, py: Python<'py>, record: &Record, stamp_ms: i64, made: &mut Made<'py>) -> PyResult<bool> {
        let Some(offset) = record.offset.checked_add(self.base).filter(|offset| *offset >= 0) else { return Ok(false) };
        if !(0..=self.latest_ms).contains(&record.timestamp) || !self.is_of_topic(py, record)? {
            return Ok(false);
        }
        let Some(parts) = record.parts(py) else { return Ok(false) };
        let Some(asked) = usual::read(parts.headers) else { return Ok(false) };
        if asked.due_ms > self.furthest_ms {
            return Ok(false);
        }
        let place = self.names.place(asked.to, || self.allowed.contains(asked.to))?;
        if !self.names.found[place] {
            return Ok(false);
        }
        self.source.truncate(self.prefix);
        self.source.push_str(itoa::Buffer::new().format(offset));
        let id = asked.id.unwrap_or(&self.source);
        let own = id == self.source;
        let rules = self.rules;
        if !own && home_partition(id.as_bytes(), &rules.inputs, rules.partitions) != Some(i64::from(rules.partition)) {
            return Ok(false);
        }
        let stamp_ms = if own { UNKNOWN_MS } else { stamp_ms.max(record.timestamp) };
        self.row.clear();
        let row = &mut self.row;
        let written = row::begin(row, id, asked.to, parts.key, parts.value, asked.users)
            .and_then(|()| {
                let mut users = parts.headers.filter(|(name, _)| usual::is_users(name));
                users.try_for_each(|(name, value)| row::header(row, name, value))
            })
            .and_then(|()| row::end(row, &self.source, stamp_ms));
        if written.is_none() || row.len() > rules.largest_row || !self.ids.add(id) {
            return Ok(false);
        }
        let mut key = [0; 20];
        key[..8].copy_from_slice(&asked.due_ms.to_be_bytes());
        key[8..16].copy_from_slice(&offset.to_be_bytes());
        key[16..].copy_from_slice(&rules.crc.to_be_bytes());
        self.event.clear();
        let (due, to, source) = (asked.due_ms, asked.to, self.source.as_str());
        Event { event: "accepted", id, at: self.now_ms, source, due, to }.begin(&mut self.event);
        self.event.push(b'}');
        self.id_key.clear();
        self.id_key.push(b'i');
        self.id_key.extend_from_slice(id.as_bytes());
        made.ids.push(PyString::new(py, id));
        made.id_keys.push(PyBytes::new(py, &self.id_key));
        made.rows.push(pair(py, &key, row)?);
        made.events.push(pair(py, id.as_bytes(), &self.event)?);
        Ok(true)
    }

    /// Whether a record is of the input that the rules are for: mostly the very object says so.
    fn is_of_topic(&mut self, py: Python<'py>, record: &Record) -> PyResult<bool> {
        if record.partition != self.rules.partition {
            return Ok(false);
        }
        if self.topic.as_ref().is_some_and(|topic| topic.is(&record.topic)) {
            return Ok(true);
        }
        let same = record.topic.bind(py).to_str().is_ok_and(|topic| topic == self.rules.topic);
        if same {
            self.topic = Some(record.topic.clone_ref(py));
        }
        Ok(same)
    }
}

/// Return a tuple of bytes.
pub fn pair<'py>(py: Python<'py>, first: &[u8], second: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    (PyBytes::new(py, first), PyBytes::new(py, second)).into_pyobject(py)
}
