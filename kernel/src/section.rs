//! The records of a batch, version 2, after their decompression (org.apache.kafka.common.record.DefaultRecord).

use crate::reader::Reader;

/// The maximum headers of a record: punctual/batches.py explains it, and refuses batches that exceed it.
const MAX_HEADERS: usize = 1_000;

/// A record's headers: names, and values that may be null.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    pub count: usize,
    left: Reader<'a>,
}

/// A record from its key on.
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

/// Read a record from its key on; headers are read lazily.
pub fn body(mut reader: Reader) -> Option<Body> {
    let (key, value) = (reader.nullable()?, reader.nullable()?);
    let count = usize::try_from(reader.varint()?).ok()?;
    Some(Body { key, value, headers: Headers { count, left: reader } })
}

/// Read a section: call `found` with each record's offset and timestamp deltas, and the position of its key.
///
/// None unless exactly `count` records fill the section, or as soon as `found` returns None.
pub fn read(section: &[u8], count: usize, mut found: impl FnMut(i64, i64, usize) -> Option<()>) -> Option<()> {
    let mut reader = Reader(section);
    for _ in 0..count {
        let length = usize::try_from(reader.varint()?).ok()?;
        let mut record = Reader(reader.take(length)?);
        record.varint()?; // attributes, which are unused
        let (timestamp, offset) = (record.varint()?, record.varint()?);
        let begin = section.len() - reader.0.len() - record.0.len();
        let mut headers = body(record)?.headers;
        (headers.count <= MAX_HEADERS).then_some(())?;
        for _ in 0..headers.count {
            headers.next()?;
        }
        headers.left.0.is_empty().then_some(())?;
        found(offset, timestamp, begin)?;
    }
    reader.0.is_empty().then_some(())
}
