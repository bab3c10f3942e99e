//! Records as they come from a fetch: their parts are made when they are asked for.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::reader::Reader;
use crate::section::{self, Body};

#[pyclass(frozen, module = "punctual_kernel")]
pub struct Record {
    #[pyo3(get)]
    pub topic: Py<PyString>,
    #[pyo3(get)]
    pub partition: i32,
    #[pyo3(get)]
    pub offset: i64,
    #[pyo3(get)]
    pub timestamp: i64,
    section: Py<PyBytes>,
    body: usize,
}

impl Record {
    /// Return the record's parts. There is always something: its bytes have been read before.
    pub fn parts<'a>(&'a self, py: Python<'a>) -> Option<Body<'a>> {
        section::body(Reader(self.section.as_bytes(py).get(self.body..)?))
    }
}

#[pymethods]
impl Record {
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.parts(py)?.key.map(|key| PyBytes::new(py, key))
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.parts(py)?.value.map(|value| PyBytes::new(py, value))
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let found = PyList::empty(py);
        for (name, value) in self.parts(py).into_iter().flat_map(|parts| parts.headers) {
            let name = match std::str::from_utf8(name) {
                Ok(name) => PyString::new(py, name),
                Err(_) => {
                    PyString::from_encoded_object(&PyBytes::new(py, name), Some(c"utf-8"), Some(c"surrogateescape"))?
                }
            };
            found.append((name, value.map(|value| PyBytes::new(py, value))))?;
        }
        Ok(found)
    }
}

/// Return the records of a batch's section from an offset on. Raises ValueError if it has not `count` records.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "it is what the head of a batch says")]
pub fn unpack<'py>(
    topic: &Bound<'py, PyString>,
    partition: i32,
    records: &Bound<'py, PyBytes>,
    count: usize,
    base_offset: i64,
    base_timestamp: i64,
    append_ms: i64,
    from_offset: i64,
) -> PyResult<Bound<'py, PyList>> {
    let py = topic.py();
    let mut found = Vec::with_capacity(count.min(records.as_bytes().len()));
    let mut failed = None;
    let whole = section::heads(records.as_bytes(), count, base_offset, base_timestamp, |head| {
        if head.offset < from_offset {
            return true;
        }
        let record = Record {
            topic: topic.clone().unbind(),
            partition,
            offset: head.offset,
            timestamp: if append_ms == -1 { head.timestamp } else { append_ms },
            section: records.clone().unbind(),
            body: head.body,
        };
        match Bound::new(py, record) {
            Ok(record) => found.push(record),
            Err(error) => failed = Some(error),
        }
        failed.is_none()
    });
    match (failed, whole) {
        (Some(error), _) => Err(error),
        (None, None) => Err(PyValueError::new_err(format!("these bytes are not {count} whole records"))),
        (None, Some(())) => PyList::new(py, found),
    }
}
