//! Events as JSON (punctual/contract/events.py).

/// The fields of all events.
pub struct Event<'a> {
    pub event: &'static str,
    pub id: &'a str,
    pub at: i64,
    pub source: &'a str,
    pub due: i64,
    pub to: &'a str,
}

impl Event<'_> {
    /// Write the event, up to the closing brace.
    pub fn begin(&self, out: &mut Vec<u8>) {
        text(out, b"{\"event\":\"", self.event);
        text(out, b"\",\"id\":\"", self.id);
        integer(out, b"\",\"at\":", self.at);
        text(out, b",\"source\":\"", self.source);
        integer(out, b"\",\"due\":", self.due);
        text(out, b",\"to\":\"", self.to);
        out.push(b'"');
    }
}

/// Write `before`, and a number in digits.
pub fn integer(out: &mut Vec<u8>, before: &[u8], number: i64) {
    out.extend_from_slice(before);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Write `before`, and the escaped content of a JSON string without quotes.
pub fn text(out: &mut Vec<u8>, before: &[u8], text: &str) {
    out.extend_from_slice(before);
    let mut left = text.as_bytes();
    while let Some(place) = left.iter().position(|byte| matches!(byte, 0..=0x1F | b'"' | b'\\')) {
        out.extend_from_slice(&left[..place]);
        match left[place] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte @ (0x08..=0x0A | 0x0C | 0x0D) => out.extend_from_slice(&[b'\\', b"btn fr"[usize::from(byte - 8)]]),
            byte => {
                out.extend_from_slice(b"\\u00");
                out.extend([byte >> 4, byte & 0x0F].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            }
        }
        left = &left[place + 1..];
    }
    out.extend_from_slice(left);
}
