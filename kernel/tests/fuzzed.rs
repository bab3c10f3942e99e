//! For any bytes, no reader panics, and each result is valid.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::batch::Batch;
use crate::home::{home_partition, key_partition};
use crate::reader::Reader;
use crate::{event, plain_request, row, section};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..200)
}

fn nullable() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(prop_oneof![bytes(), (250_usize..70_000).prop_map(|length| vec![7; length])])
}

fn written(to: &str, id: &str, content: [&Option<Vec<u8>>; 2], headers: &[(String, Option<Vec<u8>>)]) -> Vec<u8> {
    let mut out = Vec::new();
    row::begin(&mut out, id, to, content.map(Option::as_deref), headers.len()).unwrap();
    for (name, value) in headers {
        row::header(&mut out, name.as_bytes(), value.as_deref()).unwrap();
    }
    row::end(&mut out, "in-0-1", 1_767_225_600_000).unwrap();
    out
}

/// Read bytes with all readers.
fn read_all(raw: &[u8], count: usize) {
    let _ = section::read(raw, count, |_, _, begin| {
        let body = section::body(Reader(&raw[begin..])).unwrap();
        let asked = plain_request::read(body.headers);
        if let Some(asked) = asked {
            asked.write(&mut Vec::new(), &body, "id", "source", 0).unwrap();
        }
        Some(())
    });
    if let Some(body) = section::body(Reader(raw)) {
        body.headers.for_each(drop);
        let _ = plain_request::read(body.headers);
    }
    if let Some(row) = row::parse(raw) {
        assert_eq!(row.headers.count, row.headers.count());
        assert!(Batch::new(0, false).deliver(0, i64::MAX, &row));
    }
    let _ = (key_partition(raw, 0), home_partition(raw, &[b"in".to_vec()], 4));
    event::text(&mut Vec::new(), b"", &String::from_utf8_lossy(raw));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(raw in bytes(), count in 0_usize..5) {
        read_all(&raw, count);
        read_all(&[&[4, 0xDC, 0, 21], &raw[..]].concat(), count);
    }

    #[test]
    fn a_row_is_read_as_it_was_written_and_garbled_without_a_panic(
        to in "[a-z]{1,40}", id in ".{0,80}", key in nullable(), value in nullable(),
        headers in vec((".{0,40}", nullable()), 0..20), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut raw = written(&to, &id, [&key, &value], &headers);
        let row = row::parse(&raw).unwrap();
        prop_assert_eq!((row.to, row.id, row.source), (&*to, &*id, "in-0-1"));
        prop_assert_eq!((row.key, row.value), (key.as_deref(), value.as_deref()));
        let read: Vec<_> = row.headers.map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect();
        prop_assert_eq!(read, headers);
        let place = place.index(raw.len());
        read_all(&raw[..place], 1);
        raw[place] = byte;
        read_all(&raw, 1);
    }

    #[test]
    fn a_batch_has_the_records_that_were_put_into_it(
        records in vec((any::<u32>(), nullable(), nullable()), 1..5), place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut batch = Batch::new(usize::MAX, true);
        for (timestamp, key, value) in &records {
            batch.begin(i64::from(*timestamp), key.as_deref(), value.as_deref(), 1);
            batch.header(b"delay-to", Some(b"orders"));
            prop_assert!(batch.end(i64::from(*timestamp)));
        }
        let mut raw = batch.build(1, 2, 3).unwrap()[61..].to_vec();
        let mut read = Vec::new();
        let whole = section::read(&raw, records.len(), |offset, timestamp, begin| {
            let body = section::body(Reader(&raw[begin..]))?;
            let content = (body.key.map(<[u8]>::to_vec), body.value.map(<[u8]>::to_vec));
            read.push((offset, timestamp + i64::from(records[0].0), content));
            Some(())
        });
        prop_assert_eq!(whole, Some(()));
        let expected = records.iter().zip(0..).map(|((time, key, value), offset)| {
            (offset, i64::from(*time), (key.clone(), value.clone()))
        });
        prop_assert_eq!(read, expected.collect::<Vec<_>>());
        let place = place.index(raw.len());
        raw[place] = byte;
        read_all(&raw, records.len());
    }
}
