//! The file format of a store: [`MAGIC`], then records in sequence; the newest record of a key is valid.
//!
//! | bytes | content of a record |
//! |---|---|
//! | 4 | the length of the body |
//! | 8 | the revision |
//! | 4 | CRC-32 of these twelve bytes |
//! | 4 | CRC-32 of the body |
//! | 2 | the length of the key; the highest bit is set in the record of a removal |
//! | … | the key, the value |
//!
//! All numbers are little-endian. A record without a key states the newest revision at the time when the file was rewritten.

use std::io::{self, Read};

use crate::limits;

pub const MAGIC: &[u8; 16] = b"shelly-kv 1\n\0\0\0\0";
/// The bytes of a record before its body.
pub const HEAD: usize = 20;
const REMOVED: u16 = 1 << 15;
const MOST_BODY: usize = 2 + limits::KV_KEY_BYTES + limits::KV_VALUE_BYTES;

/// Encodes a record; without a value, a removal.
pub fn encode(revision: u64, key: &str, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = Vec::with_capacity(2 + key.len() + value.map_or(0, <[u8]>::len));
    let flag = if value.is_none() { REMOVED } else { 0 };
    // The key length fits: keys are short.
    body.extend_from_slice(&(key.len() as u16 | flag).to_le_bytes());
    body.extend_from_slice(key.as_bytes());
    body.extend_from_slice(value.unwrap_or_default());
    let mut record = Vec::with_capacity(HEAD + body.len());
    record.extend_from_slice(&(body.len() as u32).to_le_bytes());
    record.extend_from_slice(&revision.to_le_bytes());
    let crc = crc32fast::hash(&record);
    record.extend_from_slice(&crc.to_le_bytes());
    record.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    record.extend_from_slice(&body);
    record
}

/// A decoded record.
#[derive(Debug, PartialEq, Eq)]
pub struct KvRecord {
    pub revision: u64,
    /// The key; empty in the record of the newest revision.
    pub key: String,
    /// The value; `None`: the key is removed.
    pub value: Option<Vec<u8>>,
    /// The total length of the record in bytes.
    pub len: u64,
}

/// The result of reading the next record.
#[derive(Debug, PartialEq, Eq)]
pub enum NextKvRecord {
    Record(KvRecord),
    /// The end of the file.
    End,
    /// An incomplete record, or the zeros that a file system puts in its place: a write that was never acknowledged.
    Torn,
    /// Damage that no interrupted write explains.
    Damaged(&'static str),
}

/// Reads the next record; `left` is the number of remaining bytes.
pub fn next(from: &mut impl Read, left: u64) -> io::Result<NextKvRecord> {
    if left == 0 {
        return Ok(NextKvRecord::End);
    }
    if left < HEAD as u64 {
        return Ok(NextKvRecord::Torn);
    }
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if crc32fast::hash(&head[..12]) != number(12) {
        // After a power loss a file can be longer than its written content.
        return Ok(match left <= (HEAD + MOST_BODY) as u64 && head == [0; HEAD] && is_zero(from)? {
            true => NextKvRecord::Torn,
            false => NextKvRecord::Damaged("checksum mismatch in the head of a record"),
        });
    }
    let (len, revision) = (number(0) as usize, u64::from(number(4)) | u64::from(number(8)) << 32);
    if !(2..=MOST_BODY).contains(&len) {
        return Ok(NextKvRecord::Damaged("invalid length of a record"));
    }
    let whole = (HEAD + len) as u64;
    if left < whole {
        return Ok(NextKvRecord::Torn);
    }
    let mut body = vec![0; len];
    from.read_exact(&mut body)?;
    if crc32fast::hash(&body) != number(16) {
        return Ok(match left == whole {
            true => NextKvRecord::Torn,
            false => NextKvRecord::Damaged("checksum mismatch in the body of a record"),
        });
    }
    Ok(decode(revision, &body, whole)
        .map_or(NextKvRecord::Damaged("invalid content of a record"), NextKvRecord::Record))
}

fn decode(revision: u64, body: &[u8], len: u64) -> Option<KvRecord> {
    let (first, rest) = body.split_first_chunk::<2>()?;
    let first = u16::from_le_bytes(*first);
    let (key, value) = rest.split_at_checked(usize::from(first & !REMOVED))?;
    let key = String::from_utf8(key.to_vec()).ok().filter(|key| key.len() <= limits::KV_KEY_BYTES)?;
    let value = (first & REMOVED == 0).then(|| value.to_vec());
    Some(KvRecord { revision, key, value, len })
}

fn is_zero(from: &mut impl Read) -> io::Result<bool> {
    let mut rest = Vec::new();
    from.take((HEAD + MOST_BODY) as u64).read_to_end(&mut rest)?;
    Ok(rest.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> NextKvRecord {
        next(&mut &bytes[..], bytes.len() as u64).unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let long = vec![7; limits::KV_VALUE_BYTES];
        for (key, value) in [("k", Some(&b"v"[..])), ("é\0", Some(b"")), ("k", None), ("", None), ("k", Some(&long))] {
            let bytes = encode(1 << 40, key, value);
            let (key, value) = (key.to_owned(), value.map(<[u8]>::to_vec));
            assert_eq!(
                read(&bytes),
                NextKvRecord::Record(KvRecord { revision: 1 << 40, key, value, len: bytes.len() as u64 })
            );
        }
    }

    #[test]
    fn torn_kv_record_is_distinguished_from_damage() {
        let (one, two) = (encode(1, "key", Some(b"value")), encode(2, "key", None));
        assert_eq!(read(&[]), NextKvRecord::End);
        for cut in 1..one.len() {
            assert_eq!(read(&one[..cut]), NextKvRecord::Torn, "{cut}");
        }
        assert_eq!(read(&vec![0; one.len()]), NextKvRecord::Torn, "a file that grew and was not written");
        assert!(matches!(read(&vec![0; 2 << 20]), NextKvRecord::Damaged(_)), "no record is so long");
        for at in 0..one.len() {
            let mut bytes = [one.clone(), two.clone()].concat();
            bytes[at] ^= 1;
            assert!(matches!(read(&bytes), NextKvRecord::Damaged(_)), "{at}");
        }
        let mut last = one.clone();
        *last.last_mut().unwrap() ^= 1;
        assert_eq!(read(&last), NextKvRecord::Torn, "the end of a write that was never answered");
    }
}
