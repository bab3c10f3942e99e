//! The events of delivered plain rows.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::known::Ids;
use super::packed::Packed;
use super::rows::due_of;
use crate::event::{self, Event};
use crate::row;

type Found<'py> = (usize, Vec<Bound<'py, PyString>>, Vec<Bound<'py, PyAny>>, Packed);

/// Return the number of plain rows in `rows[begin:end]` before the first other row, and their ids, values and events.
/// `rows` are keys; `first` is the offset at which the first of `rows` was delivered.
///
/// A row that must be remembered after its delivery is not plain here: it was replaced or moved, or has a dedupe window
/// of its own. Nor is a row whose claim is decoded already instead of bytes.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a call for each row of these would be dearer than what it does")]
pub fn delivered<'py>(
    rows: &Bound<'py, PyList>,
    begin: usize,
    end: usize,
    first: i64,
    claims: &Bound<'py, PyDict>,
    r#where: &str,
    now_ms: i64,
    sent_ms: i64,
    watermark_ms: i64,
) -> PyResult<Found<'py>> {
    let py = rows.py();
    let mut place = Vec::new();
    event::text(&mut place, b",\"delivered\":\"", r#where);
    place.push(b'-');
    let (mut ids, mut raws) = (Vec::new(), Vec::new());
    let (mut seen, mut events) = (Ids::default(), Packed::new());
    for index in begin..end.min(rows.len()) {
        let (key, offset) = (rows.get_item(index)?, first.wrapping_add(index as i64));
        let Some(claim) = claims.get_item(&key)? else { break };
        let Ok(raw) = claim.cast_exact::<PyBytes>() else { break };
        let Some((row, due)) = row::parse(raw.as_bytes()).zip(due_of(key.cast::<PyBytes>()?.as_bytes())) else { break };
        let Some(late) = sent_ms.checked_sub(due) else { break };
        let kept = row.dedupe_ms.is_some() || row.asked_by.is_some() || row.moved;
        if kept || row.stamp_ms >= watermark_ms || !seen.add(row.id) {
            break;
        }
        events.add(row.id.as_bytes(), |json| {
            Event { event: "delivered", id: row.id, at: now_ms, source: row.source, due, to: row.to }.begin(json);
            event::integer(json, b",\"late\":", late);
            event::integer(json, &place, offset);
            json.extend_from_slice(b"\"}");
        });
        ids.push(PyString::new(py, row.id));
        raws.push(claim);
    }
    Ok((ids.len(), ids, raws, events))
}
