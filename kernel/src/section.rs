//! The records of a batch, version 2, after their decompression (org.apache.kafka.common.record.DefaultRecord).

use crate::reader::Reader;

/// What a record begins with, and where its key begins.
pub struct Head {
    pub offset: i64,
    pub timestamp: i64,
    pub body: usize,
}

/// A record's headers: names, and values that may be null.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    pub count: usize,
    left: Reader<'a>,
}

/// The rest of a record.
pub struct Body<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        let length = usize::try_from(self.left.varint()?).ok()?;
        Some((self.left.take(length)?, self.left.nullable()?))
    }
}

/// Read what follows a head; the headers only as they are asked for.
pub fn body(mut reader: Reader) -> Option<Body> {
    let (key, value) = (reader.nullable()?, reader.nullable()?);
    let count = usize::try_from(reader.varint()?).ok()?;
    Some(Body { key, value, headers: Headers { count, left: reader } })
}

/// Read all records of a section: None unless they are `count` and fill it.
pub fn heads(
    section: &[u8],
    count: usize,
    base_offset: i64,
    base_timestamp: i64,
    mut found: impl FnMut(Head) -> bool,
) -> Option<()> {
    let mut reader = Reader(section);
    for _ in 0..count {
        let length = usize::try_from(reader.varint()?).ok()?;
        let mut record = Reader(reader.take(length)?);
        record.varint()?; // attributes: there are none
        let timestamp = base_timestamp.checked_add(record.varint()?)?;
        let offset = base_offset.checked_add(record.varint()?)?;
        let at = section.len() - reader.0.len() - record.0.len();
        let mut headers = body(record)?.headers;
        for _ in 0..headers.count {
            headers.next()?;
        }
        if !headers.left.0.is_empty() || !found(Head { offset, timestamp, body: at }) {
            return None;
        }
    }
    reader.0.is_empty().then_some(())
}
