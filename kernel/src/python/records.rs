//! Records of a fetch; their Python objects are created lazily.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::reader::Reader;
use crate::section::{self, Body};

#[pyclass(frozen, get_all, module = "punctual_kernel")]
pub struct Record {
    pub topic: Py<PyString>,
    pub partition: i32,
    pub offset: i64,
    pub timestamp: i64,
    section: Py<PyBytes>,
    begin: usize,
}

impl Record {
    /// Return the record from its key on, which `unpack` has checked before.
    pub fn body<'a>(&'a self, py: Python<'a>) -> Option<Body<'a>> {
        section::body(Reader(self.section.as_bytes(py).get(self.begin..)?))
    }
}

type Header<'py> = (Bound<'py, PyString>, Option<Bound<'py, PyBytes>>);

#[pymethods]
impl Record {
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.body(py)?.key.map(|key| PyBytes::new(py, key))
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.body(py)?.value.map(|value| PyBytes::new(py, value))
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Header<'py>>> {
        let pairs = self.body(py).into_iter().flat_map(|body| body.headers);
        pairs.map(|(name, value)| Ok((text(py, name)?, value.map(|value| PyBytes::new(py, value))))).collect()
    }
}

/// Return a header's name; bytes that are not UTF-8 become surrogates (PEP 383).
fn text<'py>(py: Python<'py>, raw: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(raw) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => PyString::from_encoded_object(&PyBytes::new(py, raw), Some(c"utf-8"), Some(c"surrogateescape")),
    }
}

/// Return the records of a batch's section from an offset on. Raises ValueError unless it has `count` records.
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
) -> PyResult<Vec<Bound<'py, Record>>> {
    let mut found = Vec::with_capacity(count.min(records.as_bytes().len()));
    let whole = section::read(records.as_bytes(), count, |offset, timestamp, begin| {
        let (offset, timestamp) = (base_offset.checked_add(offset)?, base_timestamp.checked_add(timestamp)?);
        if offset >= from_offset {
            let timestamp = if append_ms == -1 { timestamp } else { append_ms };
            let (topic, section) = (topic.clone().unbind(), records.clone().unbind());
            let record = Record { topic, partition, offset, timestamp, section, begin };
            found.push(Bound::new(records.py(), record).ok()?);
        }
        Some(())
    });
    whole.ok_or_else(|| PyValueError::new_err(format!("these bytes are not {count} whole records")))?;
    Ok(found)
}
