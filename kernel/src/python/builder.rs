//! Record batches for produce requests.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::packed::Packed;
use super::rows::{known, row_of};
use crate::batch::Batch;

/// Builds one batch; the first record fits, whatever its size.
#[pyclass(module = "punctual_kernel")]
pub struct Builder {
    batch: Batch,
}

#[pymethods]
impl Builder {
    #[new]
    fn new(limit: usize, transactional: bool) -> Self {
        Builder { batch: Batch::new(limit, transactional) }
    }

    #[getter]
    fn count(&self) -> usize {
        self.batch.count
    }

    /// Add a record; False if it does not fit.
    fn append(
        &mut self,
        timestamp_ms: i64,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        headers: &Bound<'_, PyList>,
    ) -> PyResult<bool> {
        self.batch.begin(timestamp_ms, nullable(key)?, nullable(value)?, headers.len());
        for header in headers {
            let header = header.cast::<PyTuple>()?;
            let (name, value) = (header.get_item(0)?, header.get_item(1)?);
            self.batch.header(name.cast::<PyString>()?.to_str()?.as_bytes(), nullable(&value)?);
        }
        Ok(self.batch.end(timestamp_ms))
    }

    /// Add records of only a key and a value, after the first `skipped`, as far as they fit; return their number.
    #[pyo3(signature = (timestamp_ms, records, skipped = 0))]
    fn extend<'py>(
        slf: &Bound<'py, Self>,
        timestamp_ms: i64,
        records: &Bound<'py, PyAny>,
        skipped: usize,
    ) -> PyResult<usize> {
        let first = slf.try_borrow()?.batch.count;
        if let Ok(packed) = records.cast_exact::<Packed>() {
            let (batch, packed) = (&mut slf.try_borrow_mut()?.batch, packed.get());
            let mut index = skipped;
            while let Some((key, value)) = packed.get(index) {
                batch.begin(timestamp_ms, Some(key), Some(value), 0);
                if !batch.end(timestamp_ms) {
                    break;
                }
                index += 1;
            }
            return Ok(batch.count - first);
        }
        for record in records.try_iter()?.skip(skipped) {
            let record = record?;
            let record = record.cast::<PyTuple>()?;
            let (key, value) = (record.get_item(0)?, record.get_item(1)?);
            let (key, value) = (nullable(&key)?, nullable(&value)?);
            // Borrowed per record, because the iterator of `records` may read this builder.
            let batch = &mut slf.try_borrow_mut()?.batch;
            batch.begin(timestamp_ms, key, value, 0);
            if !batch.end(timestamp_ms) {
                break;
            }
        }
        Ok(slf.try_borrow()?.batch.count - first)
    }

    /// Add the deliveries of plain rows as far as they fit; return their number, and the total bytes of their ids.
    /// Raises ValueError for a row that is not plain.
    fn deliver(&mut self, timestamp_ms: i64, rows: &Bound<'_, PyList>, begin: usize) -> PyResult<(usize, usize)> {
        let (first, mut id_bytes) = (self.batch.count, 0);
        for index in begin..rows.len() {
            let (key, raw) = row_of(&rows.get_item(index)?)?;
            let (row, due_ms) = known(key.as_bytes(), raw.as_bytes())?;
            if !self.batch.deliver(timestamp_ms, due_ms, &row) {
                break;
            }
            id_bytes += row.id.len();
        }
        Ok((self.batch.count - first, id_bytes))
    }

    /// Return the batch's bytes, with an idempotent producer's numbers.
    fn build<'py>(
        &mut self,
        py: Python<'py>,
        producer_id: i64,
        epoch: i16,
        sequence: i32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        match self.batch.build(producer_id, epoch, sequence) {
            Some(raw) => Ok(PyBytes::new(py, raw)),
            None => Err(PyOverflowError::new_err("no batch has more than 2 GiB")),
        }
    }
}

/// Return the bytes of a Python object, or None for None.
fn nullable<'a>(item: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a [u8]>> {
    if item.is_none() { Ok(None) } else { Ok(Some(item.cast::<PyBytes>()?.as_bytes())) }
}
