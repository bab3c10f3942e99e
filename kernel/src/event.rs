//! Events as JSON (app/steps/events.py).

/// What all events say.
pub struct Event<'a> {
    pub event: &'static str,
    pub id: &'a str,
    pub at: i64,
    pub source: &'a str,
    pub due: i64,
    pub to: &'a str,
}

impl Event<'_> {
    /// Write it, up to the closing brace.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"event\":\"");
        out.extend_from_slice(self.event.as_bytes());
        out.extend_from_slice(b"\",\"id\":\"");
        text(out, self.id);
        out.extend_from_slice(b"\",\"at\":");
        integer(out, self.at);
        out.extend_from_slice(b",\"source\":\"");
        text(out, self.source);
        out.extend_from_slice(b"\",\"due\":");
        integer(out, self.due);
        out.extend_from_slice(b",\"to\":\"");
        text(out, self.to);
        out.push(b'"');
    }
}

/// Write a number in digits.
pub fn integer(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Write what stands between the quotes of a JSON string.
pub fn text(out: &mut Vec<u8>, text: &str) {
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
