//! The size of a JSON text in memory, before it is parsed.

use memchr::{memchr, memchr2};

/// Returns an upper bound of the number of values in a JSON text: one, and one for each comma, list and object outside of
/// strings. Each value takes about a hundred bytes once it is parsed, although it may be only two bytes long.
pub fn count_json_values(json: &[u8]) -> usize {
    let (mut count, mut rest) = (1, json);
    loop {
        let (plain, string) = match memchr(b'"', rest) {
            Some(quote) => (&rest[..quote], Some(&rest[quote + 1..])),
            None => (rest, None),
        };
        count += plain.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
        let Some(mut string) = string else { return count };
        rest = loop {
            match memchr2(b'"', b'\\', string) {
                Some(at) if string[at] == b'\\' => string = string.get(at + 2..).unwrap_or_default(),
                Some(at) => break &string[at + 1..],
                None => return count,
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (json, count) in [("1", 1), ("[1,2]", 3), (r#"{"a,[":"\",,","b":[{}]}"#, 5), (r#"["\\",",,"#, 3), ("\"", 1)]
        {
            assert_eq!(count_json_values(json.as_bytes()), count, "{json}");
        }
    }
}
