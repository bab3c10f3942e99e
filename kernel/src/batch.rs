//! A record batch for a produce request, version 2, as aiokafka's DefaultRecordBatchBuilder makes it.

use crate::row::Row;

const HEADER: usize = 61;
const AFTER_LENGTH: usize = 12;
const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const TRANSACTIONAL: u16 = 0x10;

pub struct Batch {
    raw: Vec<u8>,
    record: Vec<u8>,
    limit: usize,
    transactional: bool,
    /// The timestamp of the first record, and the largest timestamp.
    times: Option<(i64, i64)>,
    pub count: usize,
}

impl Batch {
    pub fn new(limit: usize, transactional: bool) -> Self {
        Batch { raw: vec![0; HEADER], record: Vec::new(), limit, transactional, times: None, count: 0 }
    }

    /// Begin a record: its fields before the headers, and the number of headers that follow.
    pub fn begin(&mut self, timestamp_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>, headers: usize) {
        let first_ms = self.times.map_or(timestamp_ms, |(first_ms, _)| first_ms);
        let out = &mut self.record;
        out.clear();
        out.push(0); // attributes
        varint(out, timestamp_ms.wrapping_sub(first_ms));
        varint(out, self.count as i64);
        nullable(out, key);
        nullable(out, value);
        varint(out, headers as i64);
    }

    /// Add a header to the current record.
    pub fn header(&mut self, name: &[u8], value: Option<&[u8]>) {
        nullable(&mut self.record, Some(name));
        nullable(&mut self.record, value);
    }

    /// Finish the current record; false if it does not fit. The first record fits, whatever its size.
    pub fn end(&mut self, timestamp_ms: i64) -> bool {
        let before = self.raw.len();
        varint(&mut self.raw, self.record.len() as i64);
        // As in aiokafka's builder in C: a batch is always smaller than its limit.
        if self.times.is_some() && self.raw.len() + self.record.len() >= self.limit {
            self.raw.truncate(before);
            return false;
        }
        self.raw.extend_from_slice(&self.record);
        let (first_ms, largest_ms) = self.times.unwrap_or((timestamp_ms, timestamp_ms));
        self.times = Some((first_ms, largest_ms.max(timestamp_ms)));
        self.count += 1;
        true
    }

    /// Add a row's delivery (punctual/contract/native.py); false if it does not fit.
    pub fn deliver(&mut self, timestamp_ms: i64, due_ms: i64, row: &Row) -> bool {
        self.begin(timestamp_ms, row.key, row.value, row.headers.count + 3);
        for (name, value) in row.headers {
            self.header(name.as_bytes(), value);
        }
        self.header(b"delay-id", Some(row.id.as_bytes()));
        self.header(b"delay-due", Some(itoa::Buffer::new().format(due_ms).as_bytes()));
        self.header(b"delay-source", Some(row.source.as_bytes()));
        self.end(timestamp_ms)
    }

    /// Return the batch with a producer's numbers; None if it is too large for any batch.
    pub fn build(&mut self, producer_id: i64, epoch: i16, sequence: i32) -> Option<&[u8]> {
        let (first_ms, largest_ms) = self.times.unwrap_or((-1, -1));
        let length = i32::try_from(self.raw.len() - AFTER_LENGTH).ok()?;
        let count = i32::try_from(self.count).ok()?;
        let attributes = if self.transactional { TRANSACTIONAL } else { 0 };
        let (last, epochless, version) = ((count - 1).max(0), (-1_i32).to_be_bytes(), [2]);
        let fields: [&[u8]; 13] = [
            &[0; 8], // the base offset, which the broker sets
            &length.to_be_bytes(),
            &epochless,
            &version,
            &[0; 4], // the checksum
            &attributes.to_be_bytes(),
            &last.to_be_bytes(),
            &first_ms.to_be_bytes(),
            &largest_ms.to_be_bytes(),
            &producer_id.to_be_bytes(),
            &epoch.to_be_bytes(),
            &sequence.to_be_bytes(),
            &count.to_be_bytes(),
        ];
        self.raw[..HEADER].copy_from_slice(&fields.concat());
        let sum = crc32c::crc32c(&self.raw[ATTRIBUTES..]);
        self.raw[CRC..ATTRIBUTES].copy_from_slice(&sum.to_be_bytes());
        Some(&self.raw)
    }
}

fn nullable(out: &mut Vec<u8>, raw: Option<&[u8]>) {
    match raw {
        Some(raw) => {
            varint(out, raw.len() as i64);
            out.extend_from_slice(raw);
        }
        None => out.push(1),
    }
}

/// Write a number in zigzag encoding, seven bits per byte, the lowest first.
fn varint(out: &mut Vec<u8>, number: i64) {
    let mut left = (number << 1 ^ number >> 63) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
