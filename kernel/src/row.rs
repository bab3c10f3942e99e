//! Rows: a version byte, and an entry's fields as a msgpack array (tables/entry.py).

use crate::reader::Reader;

const VERSION: u8 = 4;
const FIELDS: usize = 21;
const NIL: u8 = 0xC0;

/// A usual row: one that waits for its first delivery to a topic of our own cluster, whose commands are none.
pub struct Row<'a> {
    pub id: &'a str,
    pub to: &'a str,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Pairs<'a>,
    pub source: &'a str,
    pub partition: Option<i64>,
    pub dedupe_ms: Option<i64>,
    pub stamp_ms: i64,
    pub asked_by: Option<&'a str>,
    pub moved: bool,
}

/// The user's own headers.
#[derive(Clone, Copy)]
pub struct Pairs<'a> {
    pub count: usize,
    left: Reader<'a>,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        if self.left.array()? != 2 {
            return None;
        }
        Some((self.left.text()?, self.left.blob()?))
    }
}

/// Return the row of a value if it is a usual one.
pub fn parse(raw: &[u8]) -> Option<Row<'_>> {
    let mut reader = Reader(raw);
    if reader.byte()? != VERSION || reader.array()? != FIELDS {
        return None;
    }
    let (id, to, key, value) = (reader.text()?, reader.text()?, reader.blob()?, reader.blob()?);
    let count = reader.array()?;
    let headers = Pairs { count, left: reader };
    let mut walked = headers;
    for _ in 0..count {
        walked.next()?;
    }
    reader = walked.left;
    let source = reader.text()?;
    let partition = reader.optional(Reader::int)?;
    for _ in ["cluster", "max_late_ms", "if_late"] {
        reader.nil()?;
    }
    let dedupe_ms = reader.optional(Reader::int)?;
    reader.optional(Reader::text)?; // on_failure
    if reader.int()? != 0 || reader.array()? != 0 {
        return None; // attempts, commands
    }
    reader.nil()?; // url
    let stamp_ms = reader.int()?;
    let asked_by = reader.optional(Reader::text)?;
    let moved = reader.optional(Reader::order)?.is_some();
    reader.optional(Reader::bound)?;
    for _ in ["next_try_ms", "series"] {
        reader.nil()?;
    }
    let usual = reader.0.is_empty() && partition.is_none_or(|number| number >= 0) && !to.contains('/');
    usual.then_some(Row { id, to, key, value, headers, source, partition, dedupe_ms, stamp_ms, asked_by, moved })
}

impl<'a> Reader<'a> {
    fn nil(&mut self) -> Option<()> {
        (self.byte()? == NIL).then_some(())
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.0.first() == Some(&NIL) {
            return self.nil().map(|()| None);
        }
        read(self).map(Some)
    }

    fn array(&mut self) -> Option<usize> {
        match self.byte()? {
            head @ 0x90..=0x9F => Some(usize::from(head & 0x0F)),
            0xDC => self.length::<2>(),
            0xDD => self.length::<4>(),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = match self.byte()? {
            head @ 0xA0..=0xBF => usize::from(head & 0x1F),
            0xD9 => self.length::<1>()?,
            0xDA => self.length::<2>()?,
            0xDB => self.length::<4>()?,
            _ => return None,
        };
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn blob(&mut self) -> Option<Option<&'a [u8]>> {
        let length = match self.byte()? {
            NIL => return Some(None),
            0xC4 => self.length::<1>()?,
            0xC5 => self.length::<2>()?,
            0xC6 => self.length::<4>()?,
            _ => return None,
        };
        self.take(length).map(Some)
    }

    fn int(&mut self) -> Option<i64> {
        match self.byte()? {
            head @ (0..=0x7F | 0xE0..) => Some(i64::from(head as i8)),
            0xCC => self.long::<1>().map(|number| number as i64),
            0xCD => self.long::<2>().map(|number| number as i64),
            0xCE => self.long::<4>().map(|number| number as i64),
            0xCF => i64::try_from(self.long::<8>()?).ok(),
            0xD0 => self.long::<1>().map(|number| i64::from(number as i8)),
            0xD1 => self.long::<2>().map(|number| i64::from(number as i16)),
            0xD2 => self.long::<4>().map(|number| i64::from(number as i32)),
            0xD3 => self.long::<8>().map(|number| number as i64),
            _ => None,
        }
    }

    fn order(&mut self) -> Option<()> {
        if self.array()? != 2 {
            return None;
        }
        self.int()?;
        self.text().map(|_| ())
    }

    fn bound(&mut self) -> Option<()> {
        if self.array()? != 4 {
            return None;
        }
        self.int()?;
        self.optional(Self::int)?;
        self.optional(Self::order)?;
        self.optional(Self::int).map(|_| ())
    }

    fn length<const N: usize>(&mut self) -> Option<usize> {
        usize::try_from(self.long::<N>()?).ok()
    }
}

/// Begin a row: its fields up to the headers, and how many of these follow. None if something is too long for one.
pub fn begin(
    out: &mut Vec<u8>,
    id: &str,
    to: &str,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: usize,
) -> Option<()> {
    out.extend_from_slice(&[VERSION, 0xDC, 0, FIELDS as u8]);
    text(out, id.as_bytes())?;
    text(out, to.as_bytes())?;
    blob(out, key)?;
    blob(out, value)?;
    sized(out, headers, &[(16, 0x90)], [None, Some(0xDC), Some(0xDD)])
}

/// Add a header.
pub fn header(out: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) -> Option<()> {
    out.push(0x92);
    text(out, name)?;
    blob(out, value)
}

/// End a row: its source, no policies, no attempts, no commands, its stamp.
pub fn end(out: &mut Vec<u8>, source: &str, stamp_ms: i64) -> Option<()> {
    text(out, source.as_bytes())?;
    out.extend_from_slice(&[NIL, NIL, NIL, NIL, NIL, NIL, 0, 0x90, NIL]);
    match stamp_ms {
        -32..=0x7F => out.push(stamp_ms as u8),
        0x80..=0xFF => out.extend_from_slice(&[0xCC, stamp_ms as u8]),
        0x100..=0xFFFF => number(out, 0xCD, &(stamp_ms as u16).to_be_bytes()),
        0x1_0000..=0xFFFF_FFFF => number(out, 0xCE, &(stamp_ms as u32).to_be_bytes()),
        0x1_0000_0000.. => number(out, 0xCF, &stamp_ms.to_be_bytes()),
        _ => return None,
    }
    out.extend_from_slice(&[NIL, NIL, NIL, NIL, NIL]);
    Some(())
}

fn text(out: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    sized(out, text.len(), &[(32, 0xA0)], [Some(0xD9), Some(0xDA), Some(0xDB)])?;
    out.extend_from_slice(text);
    Some(())
}

fn blob(out: &mut Vec<u8>, blob: Option<&[u8]>) -> Option<()> {
    let Some(blob) = blob else {
        out.push(NIL);
        return Some(());
    };
    sized(out, blob.len(), &[], [Some(0xC4), Some(0xC5), Some(0xC6)])?;
    out.extend_from_slice(blob);
    Some(())
}

/// Write a length in as few bytes as its kind allows: in the `fixed` byte itself, or behind one of the `heads`.
fn sized(out: &mut Vec<u8>, length: usize, fixed: &[(usize, u8)], heads: [Option<u8>; 3]) -> Option<()> {
    if let Some((_, head)) = fixed.iter().find(|(limit, _)| length < *limit) {
        out.push(head | length as u8);
    } else if let (Some(head), Ok(length)) = (heads[0], u8::try_from(length)) {
        out.extend_from_slice(&[head, length]);
    } else if let (Some(head), Ok(length)) = (heads[1], u16::try_from(length)) {
        number(out, head, &length.to_be_bytes());
    } else {
        number(out, heads[2]?, &u32::try_from(length).ok()?.to_be_bytes());
    }
    Some(())
}

fn number(out: &mut Vec<u8>, head: u8, raw: &[u8]) {
    out.push(head);
    out.extend_from_slice(raw);
}
