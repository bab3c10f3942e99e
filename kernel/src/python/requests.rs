//! Turns plain requests into rows.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySet, PyString, PyTuple};

use super::known::{Ids, Names, id_key};
use super::packed::Packed;
use super::records::Record;
use crate::event::Event;
use crate::home::home_partition;
use crate::plain_request;

/// The stamp of a message whose id is its source (tables/commands.py).
const UNKNOWN_MS: i64 = -1;
/// The bytes of a row in a step, in addition to its value.
const OVERHEAD: i64 = 32;

/// The constants of one partition of an input topic.
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

impl Rules {
    fn is_home_of(&self, id: &str) -> bool {
        home_partition(id.as_bytes(), &self.inputs, self.partitions) == Some(i64::from(self.partition))
    }

    fn are_for(&self, py: Python, record: &Record) -> bool {
        record.partition == self.partition && record.topic.bind(py).to_str().is_ok_and(|topic| topic == self.topic)
    }

    fn row_key(&self, due_ms: i64, offset: i64) -> [u8; 20] {
        let mut key = [0; 20];
        key[..8].copy_from_slice(&due_ms.to_be_bytes());
        key[8..16].copy_from_slice(&offset.to_be_bytes());
        key[16..].copy_from_slice(&self.crc.to_be_bytes());
        key
    }
}

type Bytes<'py> = Vec<Bound<'py, PyBytes>>;
type Found<'py> = (usize, i64, i64, Vec<Bound<'py, PyString>>, Bytes<'py>, Bytes<'py>, Bytes<'py>, Packed, Vec<String>);

/// Convert the longest prefix of plain requests in `records[begin:end]`. Return their number, the last stamp, the total
/// bytes, the ids, the ids' index keys, the rows' keys and values, the events, and the destinations. The prefix ends
/// when its rows have `room` bytes.
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
    let mut source = format!("{}-{}-", rules.topic, rules.partition);
    let prefix = source.len();
    let (mut names, mut known) = (Names::new(), Ids::default());
    let (mut ids, mut id_keys, mut row_keys, mut rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut row, mut events, mut size, mut tos) = (Vec::new(), Packed::new(), 0, Vec::new());
    let mut take = |record: &Record| {
        let offset = record.offset.checked_add(base).filter(|offset| *offset >= 0)?;
        let timely = (0..=latest_ms).contains(&record.timestamp) && rules.are_for(py, record);
        let body = record.body(py).filter(|_| timely)?;
        let asked = plain_request::read(body.headers).filter(|asked| asked.due_ms <= furthest_ms)?;
        let place = names.place(asked.to, || allowed.contains(asked.to)).ok()?;
        source.truncate(prefix);
        source.push_str(itoa::Buffer::new().format(offset));
        let id = asked.id.unwrap_or(&source);
        let own = id == source;
        (*names.at(place) && (own || rules.is_home_of(id))).then_some(())?;
        let latest_ms = stamp_ms.max(record.timestamp);
        row.clear();
        asked.write(&mut row, &body, id, &source, if own { UNKNOWN_MS } else { latest_ms })?;
        (row.len() <= rules.largest_row && known.add(id)).then_some(())?;
        if place == tos.len() {
            tos.push(asked.to.to_owned());
        }
        events.add(id.as_bytes(), |json| {
            Event { event: "accepted", id, at: now_ms, source: &source, due: asked.due_ms, to: asked.to }.begin(json);
            json.push(b'}');
        });
        row_keys.push(PyBytes::new(py, &rules.row_key(asked.due_ms, offset)));
        rows.push(PyBytes::new(py, &row));
        ids.push(PyString::new(py, id));
        id_keys.push(id_key(py, id));
        stamp_ms = latest_ms;
        size += row.len() as i64 + OVERHEAD;
        Some(size < room)
    };
    for index in begin..end.min(records.len()) {
        let record = records.get_item(index)?;
        let Ok(record) = record.cast_exact::<Record>() else { break };
        if take(record.get()) != Some(true) {
            break;
        }
    }
    Ok((ids.len(), stamp_ms, size, ids, id_keys, row_keys, rows, events, tos))
}

/// Return a Python tuple of two bytes objects.
pub fn pair<'py>(py: Python<'py>, first: &[u8], second: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    (PyBytes::new(py, first), PyBytes::new(py, second)).into_pyobject(py)
}
