//! Plain requests: a destination, a due time in digits, optionally an ID, and no other native header
//! (punctual/contract/plain_requests.py).

use crate::home::digits;
use crate::row;
use crate::section::{Body, Headers};

const PREFIX: &[u8] = b"delay-";
const ID_BYTES: usize = 256;

/// The headers of a plain request.
pub struct PlainRequest<'a> {
    pub to: &'a str,
    pub due_ms: i64,
    pub id: Option<&'a str>,
    /// The number of the user's own headers.
    pub users: usize,
}

/// Return the request in a record's headers if it is plain.
pub fn read<'a>(headers: Headers<'a>) -> Option<PlainRequest<'a>> {
    let (mut to, mut at, mut id, mut users) = (None, None, None, 0);
    for (name, value) in headers {
        let said = match name {
            b"delay-to" => &mut to,
            b"delay-at" => &mut at,
            b"delay-id" => &mut id,
            _ if name.starts_with(PREFIX) || !name.is_ascii() => return None,
            _ => {
                users += 1;
                continue;
            }
        };
        if said.replace(value.unwrap_or_default()).is_some() {
            return None;
        }
    }
    let (to, at) = (std::str::from_utf8(to?).ok()?, at?);
    let id = match id {
        Some(raw) if raw.is_empty() || raw.len() > ID_BYTES => return None,
        Some(raw) => Some(std::str::from_utf8(raw).ok()?),
        None => None,
    };
    if to.is_empty() || to.contains('/') || !(12..=15).contains(&at.len()) {
        return None;
    }
    Some(PlainRequest { to, due_ms: digits(at)?, id, users })
}

impl PlainRequest<'_> {
    /// Write the row of a plain request; None if it is too large for a row.
    pub fn write(&self, out: &mut Vec<u8>, record: &Body, id: &str, source: &str, stamp_ms: i64) -> Option<()> {
        row::begin(out, id, self.to, [record.key, record.value], self.users)?;
        for (name, value) in record.headers.filter(|(name, _)| !name.starts_with(PREFIX)) {
            row::header(out, name, value)?;
        }
        row::end(out, source, stamp_ms)
    }
}
