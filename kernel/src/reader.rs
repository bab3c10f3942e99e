//! Reads bytes from the front. Every read is checked, and returns None for unexpected bytes.

#[derive(Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, left) = self.0.split_first()?;
        self.0 = left;
        Some(*first)
    }

    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    /// Read a big-endian number of `N` bytes.
    pub fn long<const N: usize>(&mut self) -> Option<u64> {
        let (taken, left) = self.0.split_first_chunk::<N>()?;
        self.0 = left;
        Some(taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Read a number in the encoding of Kafka's records: zigzag, seven bits per byte, the lowest first.
    pub fn varint(&mut self) -> Option<i64> {
        let mut raw = 0;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(self.byte()?);
            if shift == 63 && byte > 1 {
                return None;
            }
            raw |= (byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some((raw >> 1) as i64 ^ -((raw & 1) as i64));
            }
        }
        None
    }

    /// Read a length and its bytes; the inner None is null.
    pub fn nullable(&mut self) -> Option<Option<&'a [u8]>> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Some(None),
        }
    }
}
