use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that are encoded in a path: all but those that never mean anything there.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Returns the name of an agent as one part of a path.
pub fn agent_segment(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

/// Returns the name that a part of a path stands for; `None` if it stands for none.
pub fn agent_of_segment(segment: &str) -> Option<String> {
    let name = percent_decode_str(segment).decode_utf8().ok()?;
    (!name.is_empty()).then(|| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_goes_through_a_path() {
        for (name, segment) in
            [("ada", "ada"), ("ada-2_b", "ada-2_b"), ("..", "%2E%2E"), ("a/b", "a%2Fb"), ("Zoë ?", "Zo%C3%AB%20%3F")]
        {
            assert_eq!(agent_segment(name), segment);
            assert_eq!(agent_of_segment(segment).as_deref(), Some(name));
        }
        assert_eq!((agent_of_segment(""), agent_of_segment("%ff")), (None, None));
    }
}
