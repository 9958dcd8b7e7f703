//! Personal data: e-mail addresses and payment card numbers.

/// The maximum number of characters before the `@` (RFC 5321).
const MAX_LOCAL: usize = 64;

/// The maximum number of characters of a domain (RFC 1035).
const MAX_DOMAIN: usize = 255;

/// The number of digits of the longest card number.
const MAX_DIGITS: usize = 19;

/// Returns the length in bytes of the e-mail address at the beginning of `text`.
pub(super) fn email(text: &str) -> Option<usize> {
    let local = first(text, MAX_LOCAL, |c| c.is_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-'));
    let rest = text[local.len()..].strip_prefix('@').filter(|_| !local.is_empty())?;
    let domain =
        first(rest, MAX_DOMAIN, |c| c.is_alphanumeric() || matches!(c, '.' | '-')).trim_end_matches(['.', '-']);
    let (name, top) = domain.rsplit_once('.')?;
    let is_top = top.chars().count() >= 2 && top.chars().all(char::is_alphabetic);
    (is_top && name.split('.').all(|label| !label.is_empty())).then_some(local.len() + 1 + domain.len())
}

/// Returns the longest prefix of at most `most` characters that satisfy `is`.
fn first(text: &str, most: usize, is: impl Fn(char) -> bool) -> &str {
    let end = text.char_indices().enumerate().find(|(count, (_, c))| *count == most || !is(*c));
    end.map_or(text, |(_, (end, _))| &text[..end])
}

/// Returns the length in bytes of the card number at the beginning of `text`: a number of a known brand and of that
/// brand's length, with a correct check digit. Digits may be separated by single spaces or dashes.
pub(super) fn card(text: &str) -> Option<usize> {
    let mut digits = Vec::new();
    let mut found = None;
    let mut bytes = text.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'0'..=b'9' => {
                if digits.len() == MAX_DIGITS {
                    break;
                }
                digits.push(byte - b'0');
                let next = bytes.peek().map(|(_, next)| *next);
                if !next.is_some_and(|next| next.is_ascii_alphanumeric()) && is_card(&digits) {
                    found = Some(at + 1);
                }
            }
            b' ' | b'-' if !digits.is_empty() && bytes.peek().is_some_and(|(_, next)| next.is_ascii_digit()) => {}
            _ => break,
        }
    }
    found
}

fn is_card(digits: &[u8]) -> bool {
    let Some(head) = digits.first_chunk::<4>() else { return false };
    let head = head.iter().fold(0, |number, digit| number * 10 + u32::from(*digit));
    let lengths: &[usize] = match head {
        // Visa.
        4000..=4999 => &[13, 16, 19],
        // Mastercard.
        5100..=5599 | 2221..=2720 => &[16],
        // American Express.
        3400..=3499 | 3700..=3799 => &[15],
        // Diners Club.
        3000..=3059 | 3600..=3699 | 3800..=3999 => &[14],
        // JCB.
        3528..=3589 => &[16],
        // Discover, UnionPay, Maestro.
        6000..=6999 => &[16, 17, 18, 19],
        _ => return false,
    };
    lengths.contains(&digits.len()) && luhn(digits)
}

/// Checks the Luhn sum: with every second digit from the end doubled, the sum of the digits is a multiple of ten.
fn luhn(digits: &[u8]) -> bool {
    let value = |(place, digit): (usize, &u8)| match place % 2 {
        0 => u32::from(*digit),
        _ => u32::from(digit * 2 / 10 + digit * 2 % 10),
    };
    digits.iter().rev().enumerate().map(value).sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn email_addresses_are_found_whole() {
        for (text, found) in [
            ("ann@example.com", Some("ann@example.com")),
            ("ann.b+c_d%e-f@mail.example.co.uk, and", Some("ann.b+c_d%e-f@mail.example.co.uk")),
            ("ann@example.com.", Some("ann@example.com")),
            ("jürgen@münchen.de!", Some("jürgen@münchen.de")),
            ("@example.com", None),
            ("ann@localhost", None),
            ("ann@1.2.3.4", None),
            ("ann@.com", None),
            ("ann@a..com", None),
            ("ann@x.c", None),
            ("ann at example.com", None),
            ("", None),
        ] {
            assert_eq!(email(text).map(|length| &text[..length]), found, "{text}");
        }
        assert_eq!(email(&format!("{}@example.com", "a".repeat(65))), None);
        assert_eq!(email(&format!("{}@example.com", "a".repeat(64))), Some(76));
    }

    #[test]
    fn cards_are_found_by_brand_length_and_check_digit() {
        for (text, found) in [
            ("4111111111111111", Some("4111111111111111")),
            ("4111 1111 1111 1111 12/27", Some("4111 1111 1111 1111")),
            ("5555-5555-5555-4444.", Some("5555-5555-5555-4444")),
            ("2223003122003222", Some("2223003122003222")),
            ("378282246310005,", Some("378282246310005")),
            ("30569309025904", Some("30569309025904")),
            ("3530111333300000", Some("3530111333300000")),
            ("6011111111111117", Some("6011111111111117")),
            ("4222222222222", Some("4222222222222")),
            // A wrong check digit, a time in milliseconds, a wrong length, letters after it, two spaces, a space before
            // it.
            ("4111111111111112", None),
            ("1700000000000", None),
            ("411111111111111", None),
            ("4111111111111111a", None),
            ("4111  1111 1111 1111", None),
            (" 4111111111111111", None),
            ("-4111111111111111", None),
            ("41111111111111110000000000", None),
            ("", None),
        ] {
            assert_eq!(card(text).map(|length| &text[..length]), found, "{text}");
        }
    }
}
