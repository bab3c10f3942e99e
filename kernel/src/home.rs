//! The partitions of keys and ids (punctual/contract/home.py).

const SEED: u32 = 0x9747_B28C;
const M: u32 = 0x5BD1_E995;

/// Return Kafka's hash of a key: org.apache.kafka.common.utils.Utils.murmur2.
fn murmur2(key: &[u8]) -> u32 {
    let mut hash = SEED ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(M);
        mixed = (mixed ^ mixed >> 24).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ mixed;
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| tail << 8 | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// Return the partition of a key; None without partitions.
pub fn key_partition(key: &[u8], partitions: i64) -> Option<i64> {
    i64::from(murmur2(key) & 0x7FFF_FFFF).checked_rem(partitions)
}

/// Return the home partition of an id: the one in its name if it names a record of an input, else its hash's.
pub fn home_partition(id: &[u8], inputs: &[Vec<u8>], partitions: i64) -> Option<i64> {
    named(id, inputs).filter(|home| *home < partitions).or_else(|| key_partition(id, partitions))
}

fn named(id: &[u8], inputs: &[Vec<u8>]) -> Option<i64> {
    let mut parts = id.rsplitn(3, |byte| *byte == b'-');
    let (offset, partition, topic) = (parts.next()?, parts.next()?, parts.next()?);
    if offset.is_empty() || !offset.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let home = digits(partition)?;
    inputs.iter().any(|input| input == topic).then_some(home)
}

/// Return the number in ASCII digits, None for any other text.
pub fn digits(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_i64, |number, byte| {
        if !byte.is_ascii_digit() {
            return None;
        }
        number.checked_mul(10)?.checked_add(i64::from(byte - b'0'))
    })
}
