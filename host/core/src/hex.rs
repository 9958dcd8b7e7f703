//! Hexadecimal digits.

use base16ct::{lower, mixed};

/// Returns the lower-case digits of bytes.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    lower::encode_string(bytes.as_ref())
}

/// Returns the `N` bytes that `2 * N` digits of either case spell; `None` for any other text.
pub fn decode<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let decoded = mixed::decode(digits, &mut bytes).ok()?.len();
    (decoded == N).then_some(bytes)
}

/// Returns the `N` bytes that `2 * N` lower-case digits spell; `None` for any other text. For formats in which the same
/// bytes always have the same text.
pub fn decode_lower<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let decoded = lower::decode(digits, &mut bytes).ok()?.len();
    (decoded == N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_the_exact_length_are_decoded() {
        assert_eq!(encode([0, 0x1f, 0xe9]), "001fe9");
        assert_eq!((decode("1FE9"), decode_lower("1fe9")), (Some([0x1f, 0xe9]), Some([0x1f, 0xe9])));
        assert_eq!(decode_lower::<2>("1FE9"), None);
        for wrong in ["", "1f", "1fe", "1fe9a", "1fe9aa", "1fg9", "+1e9", "é9"] {
            assert_eq!((decode::<2>(wrong), decode_lower::<2>(wrong)), (None, None), "{wrong}");
        }
    }
}
