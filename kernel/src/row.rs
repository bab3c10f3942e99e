//! Rows: a version byte, and an entry's fields as a msgpack array (tables/entry.py).

use crate::reader::Reader;

const VERSION: u8 = 4;
const FIELDS: usize = 21;
const NIL: u8 = 0xC0;

/// How msgpack writes a length: lengths under `below` are in the first byte, others follow one of the other bytes.
struct Kind {
    fixed: u8,
    below: usize,
    tiny: Option<u8>,
    short: u8,
    long: u8,
}

const TEXT: Kind = Kind { fixed: 0xA0, below: 32, tiny: Some(0xD9), short: 0xDA, long: 0xDB };
const BLOB: Kind = Kind { fixed: 0, below: 0, tiny: Some(0xC4), short: 0xC5, long: 0xC6 };
const ARRAY: Kind = Kind { fixed: 0x90, below: 16, tiny: None, short: 0xDC, long: 0xDD };

/// A plain row: it waits for its first delivery, to a topic of our own cluster, and has no commands.
pub struct Row<'a> {
    pub id: &'a str,
    pub to: &'a str,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
    pub source: &'a str,
    pub partition: Option<i64>,
    pub dedupe_ms: Option<i64>,
    pub stamp_ms: i64,
    pub asked_by: Option<&'a str>,
    pub moved: bool,
}

/// The user's own headers.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    pub count: usize,
    left: Reader<'a>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        self.left.array_of(2)?;
        Some((self.left.text()?, self.left.blob()?))
    }
}

/// Return the row in a value if it is plain.
pub fn parse(raw: &[u8]) -> Option<Row<'_>> {
    let mut reader = Reader(raw);
    (reader.byte()? == VERSION).then_some(())?;
    reader.array_of(FIELDS)?;
    let (id, to, key, value) = (reader.text()?, reader.text()?, reader.blob()?, reader.blob()?);
    let headers = Headers { count: reader.length(&ARRAY)?, left: reader };
    let mut walked = headers;
    for _ in 0..headers.count {
        walked.next()?;
    }
    reader = walked.left;
    let (source, partition) = (reader.text()?, reader.optional(Reader::int)?);
    reader.nils(3)?; // cluster, max_late_ms, if_late
    let dedupe_ms = reader.optional(Reader::int)?;
    reader.optional(Reader::text)?; // on_failure
    (reader.int()? == 0).then_some(())?; // attempts
    reader.array_of(0)?; // commands
    reader.nils(1)?; // url
    let (stamp_ms, asked_by) = (reader.int()?, reader.optional(Reader::text)?);
    let moved = reader.optional(Reader::order)?.is_some();
    reader.optional(Reader::bound)?;
    reader.nils(2)?; // next_try_ms, series
    let plain = reader.0.is_empty() && partition.is_none_or(|number| number >= 0) && !to.contains('/');
    plain.then_some(Row { id, to, key, value, headers, source, partition, dedupe_ms, stamp_ms, asked_by, moved })
}

impl<'a> Reader<'a> {
    fn nils(&mut self, count: usize) -> Option<()> {
        self.take(count)?.iter().all(|byte| *byte == NIL).then_some(())
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.0.first() == Some(&NIL) { self.nils(1).map(|()| None) } else { read(self).map(Some) }
    }

    fn length(&mut self, kind: &Kind) -> Option<usize> {
        let head = self.byte()?;
        if let Some(length) = head.checked_sub(kind.fixed).map(usize::from).filter(|length| *length < kind.below) {
            return Some(length);
        }
        let length = match head {
            _ if Some(head) == kind.tiny => self.long::<1>()?,
            _ if head == kind.short => self.long::<2>()?,
            _ if head == kind.long => self.long::<4>()?,
            _ => return None,
        };
        usize::try_from(length).ok()
    }

    fn array_of(&mut self, count: usize) -> Option<()> {
        (self.length(&ARRAY)? == count).then_some(())
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.length(&TEXT)?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn blob(&mut self) -> Option<Option<&'a [u8]>> {
        self.optional(|reader| {
            let length = reader.length(&BLOB)?;
            reader.take(length)
        })
    }

    /// Read a number; a number below -32 is not plain.
    fn int(&mut self) -> Option<i64> {
        match self.byte()? {
            head @ (0..=0x7F | 0xE0..) => Some(i64::from(head as i8)),
            0xCC => self.long::<1>()?.try_into().ok(),
            0xCD => self.long::<2>()?.try_into().ok(),
            0xCE => self.long::<4>()?.try_into().ok(),
            0xCF => self.long::<8>()?.try_into().ok(),
            _ => None,
        }
    }

    fn order(&mut self) -> Option<()> {
        self.array_of(2)?;
        self.int()?;
        self.text().map(|_| ())
    }

    fn bound(&mut self) -> Option<()> {
        self.array_of(4)?;
        self.int()?;
        self.optional(Self::int)?;
        self.optional(Self::order)?;
        self.optional(Self::int).map(|_| ())
    }
}

/// Begin a row: its fields up to the headers, and the number of headers. None if a part is too long for msgpack.
pub fn begin(out: &mut Vec<u8>, id: &str, to: &str, content: [Option<&[u8]>; 2], headers: usize) -> Option<()> {
    out.push(VERSION);
    write_length(out, FIELDS, &ARRAY)?;
    write(out, id.as_bytes(), &TEXT)?;
    write(out, to.as_bytes(), &TEXT)?;
    for raw in content {
        write_blob(out, raw)?;
    }
    write_length(out, headers, &ARRAY)
}

/// Add a header.
pub fn header(out: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) -> Option<()> {
    write_length(out, 2, &ARRAY)?;
    write(out, name, &TEXT)?;
    write_blob(out, value)
}

/// End a row: its source and stamp, without policies, attempts and commands.
pub fn end(out: &mut Vec<u8>, source: &str, stamp_ms: i64) -> Option<()> {
    write(out, source.as_bytes(), &TEXT)?;
    out.extend_from_slice(&[NIL, NIL, NIL, NIL, NIL, NIL, 0, 0x90, NIL]);
    let raw = stamp_ms.to_be_bytes();
    match stamp_ms {
        -32..=0x7F => out.push(raw[7]),
        0x80..=0xFF => out.extend_from_slice(&[0xCC, raw[7]]),
        0x100..=0xFFFF => out.extend_from_slice(&[0xCD, raw[6], raw[7]]),
        0x1_0000..=0xFFFF_FFFF => out.extend_from_slice(&[0xCE, raw[4], raw[5], raw[6], raw[7]]),
        _ if stamp_ms < 0 => return None,
        _ => {
            out.push(0xCF);
            out.extend_from_slice(&raw);
        }
    }
    out.extend_from_slice(&[NIL; 5]);
    Some(())
}

fn write_blob(out: &mut Vec<u8>, raw: Option<&[u8]>) -> Option<()> {
    if let Some(raw) = raw {
        return write(out, raw, &BLOB);
    }
    out.push(NIL);
    Some(())
}

fn write(out: &mut Vec<u8>, raw: &[u8], kind: &Kind) -> Option<()> {
    write_length(out, raw.len(), kind)?;
    out.extend_from_slice(raw);
    Some(())
}

fn write_length(out: &mut Vec<u8>, length: usize, kind: &Kind) -> Option<()> {
    let raw = u32::try_from(length).ok()?.to_be_bytes();
    match (length, kind.tiny) {
        _ if length < kind.below => out.push(kind.fixed | raw[3]),
        (..=0xFF, Some(head)) => out.extend_from_slice(&[head, raw[3]]),
        (..=0xFFFF, _) => out.extend_from_slice(&[kind.short, raw[2], raw[3]]),
        _ => out.extend_from_slice(&[kind.long, raw[0], raw[1], raw[2], raw[3]]),
    }
    Some(())
}
