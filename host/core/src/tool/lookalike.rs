/// Returns `true` if two different tool names are easily confused: a model that means one of them may call the other.
pub fn looks_like(name: &str, other: &str) -> bool {
    name != other && skeleton(name).eq(skeleton(other))
}

/// Returns a name with similar letters unified and word separators removed.
fn skeleton(name: &str) -> impl Iterator<Item = u8> {
    let mut bytes = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-')).peekable();
    std::iter::from_fn(move || {
        let byte = bytes.next()?;
        let pair = |after: u8, bytes: &mut std::iter::Peekable<_>| bytes.next_if_eq(&after).is_some();
        Some(match byte.to_ascii_lowercase() {
            b'0' => b'o',
            // In most fonts a capital `i`, a one and a small `l` are one stroke; a small `i` has its dot.
            b'1' => b'l',
            b'i' if byte == b'I' => b'l',
            b'5' => b's',
            b'r' if pair(b'n', &mut bytes) => b'm',
            b'v' if pair(b'v', &mut bytes) => b'w',
            byte => byte,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_tool_names_are_detected() {
        for (one, other, alike) in [
            ("read_file", "read-file", true),
            ("read_file", "readFile", true),
            ("read_file", "read_fi1e", true),
            ("read_file", "read_fiIe", true),
            ("list", "Iist", true),
            ("form", "forrn", true),
            ("write", "vvrite", true),
            ("log", "l0g", true),
            ("read_file", "read_file", false),
            ("read_file", "read_files", false),
            ("read_file", "write_file", false),
            ("list", "last", false),
            ("turn", "tune", false),
            ("get_1", "get_2", false),
        ] {
            assert_eq!(looks_like(one, other), alike, "{one} {other}");
            assert_eq!(looks_like(other, one), alike, "{other} {one}");
        }
    }
}
