//! The nesting depth of JSON text, measured before it is parsed.

/// Replaces each list and object that is nested deeper than `most` levels with `null`. Returns `None` if brackets or
/// strings are not closed. Looks at each byte once, whatever the nesting.
pub(super) fn prune(json: &[u8], most: usize) -> Option<Vec<u8>> {
    let (mut pruned, mut depth, mut rest) = (Vec::with_capacity(json.len()), 0_usize, json);
    while let Some((&byte, after)) = rest.split_first() {
        let taken = 1 + if byte == b'"' { string_end(after)? } else { 0 };
        if matches!(byte, b'[' | b'{') {
            depth += 1;
            if depth == most + 1 {
                pruned.extend_from_slice(b"null");
            }
        }
        if depth <= most {
            pruned.extend_from_slice(&rest[..taken]);
        }
        if matches!(byte, b']' | b'}') {
            depth = depth.checked_sub(1)?;
        }
        rest = &rest[taken..];
    }
    (depth == 0).then_some(pruned)
}

/// Returns `true` if lists and objects are nested more than `most` levels deep. A string that is not closed ends the text.
pub(super) fn is_deeper(json: &[u8], most: usize) -> bool {
    let (mut depth, mut rest) = (0_usize, json);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = string_end(after).map_or(&[], |end| &after[end..]),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

/// Returns the length of a string after its opening quote, the closing quote included.
fn string_end(after: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', after.get(at..)?)?;
        match after[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_values_become_null_and_others_stay() {
        for (json, most, expected) in [
            ("[1,[2],{\"a\":[3]}]", 1, Some("[1,null,null]")),
            ("[1,[2],{\"a\":[3]}]", 2, Some("[1,[2],{\"a\":null}]")),
            ("[1,[2],{\"a\":[3]}]", 3, Some("[1,[2],{\"a\":[3]}]")),
            ("[[[]],[[\"]\"]]]", 2, Some("[[null],[null]]")),
            (r#"["\"[[[", "\\",[ ]]"#, 1, Some(r#"["\"[[[", "\\",null]"#)),
            ("7", 0, Some("7")),
            ("[]", 0, Some("null")),
            ("[", 1, None),
            ("]", 1, None),
            ("\"a", 1, None),
            ("\"a\\", 1, None),
        ] {
            let pruned = prune(json.as_bytes(), most);
            let shown = pruned.as_deref().map(|bytes| str::from_utf8(bytes).unwrap());
            assert_eq!(shown, expected, "{json} {most}");
            if let Some(shown) = shown {
                assert_eq!(is_deeper(json.as_bytes(), most), shown != json, "{json} {most}");
            }
        }
    }
}
