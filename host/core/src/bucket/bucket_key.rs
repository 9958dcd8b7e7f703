use std::fmt::Write;

use super::BucketError;
use crate::{digest::Sha256Digest, limits};

/// Encodes a text as one part of a key: letters, digits, `_` and `-` stay, all other bytes become `=` and two hexadecimal
/// digits. Different texts have different parts.
pub fn bucket_key_part(text: &str) -> String {
    if text.is_empty() {
        return "=".into();
    }
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => part.push(byte.into()),
            // Writing to a string does not fail.
            _ => drop(write!(part, "={byte:02x}")),
        }
    }
    part
}

/// Returns the text of which [`bucket_key_part`] made this part; `None` if there is none.
pub fn text_of_key_part(part: &str) -> Option<String> {
    if part == "=" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'=' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        rest = after;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
    }
    let text = String::from_utf8(bytes).ok()?;
    // Foreign spellings of the same text are no keys of this program.
    (bucket_key_part(&text) == part).then_some(text)
}

/// Encodes a name as one short part of a key; a long name is replaced by its digest.
pub(crate) fn short_key_part(name: &str) -> String {
    let part = bucket_key_part(name);
    match part.len() <= limits::BUCKET_NAME_BYTES {
        true => part,
        // An encoded name has no `=` without two hexadecimal digits after it.
        false => format!("=sha256-{}", Sha256Digest::of(name).hex()),
    }
}

/// Checks that a key consists of parts between dots.
pub(super) fn check_key(key: &str) -> Result<(), BucketError> {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
    };
    match key.len() <= limits::BUCKET_KEY_BYTES && key.split('.').all(is_part) {
        true => Ok(()),
        false => Err(BucketError::BadKey { key: crate::error::cut(key, limits::NAME_SHOWN_CHARS) }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn key_part_is_read_as_it_was_written() {
        let texts = ["", "a", "A-b_9", "a.b", "=", "=61", "é\0", " ", "*", ">", "/"];
        let parts: HashSet<_> = texts.iter().map(|text| bucket_key_part(text)).collect();
        assert_eq!(parts.len(), texts.len());
        for text in texts {
            let part = bucket_key_part(text);
            assert!(check_key(&part).is_ok() && !part.contains('.'), "{part}");
            assert_eq!(text_of_key_part(&part).as_deref(), Some(text));
        }
        for foreign in ["=61", "=C3=A9", "=f", "=zz", "=ff", "a=", "=+1"] {
            assert_eq!(text_of_key_part(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn long_names_are_replaced_and_long_keys_refused() {
        let name = "n".repeat(limits::BUCKET_NAME_BYTES);
        assert_eq!(short_key_part(&name), name);
        assert!(short_key_part(&format!("{name}n")).starts_with("=sha256-"));
        let key = "k".repeat(limits::BUCKET_KEY_BYTES);
        assert!(check_key(&key).is_ok() && check_key(&format!("{key}k")).is_err());
        for key in ["", ".", "a.", ".a", "a..b", "a b", "a*", "ä", "a>"] {
            assert!(check_key(key).is_err(), "{key}");
        }
    }
}
