//! Integers that JSON may write with a fraction or an exponent, parsed without rounding.

/// Returns the integer that a JSON number is, exactly: `12`, `3.0` and `1e3` are integers. Returns `None` if the number is
/// none, or has more digits than `i128`.
pub fn whole(number: &str) -> Option<i128> {
    if let Ok(integer) = number.parse() {
        return Some(integer);
    }
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or((1, mantissa), |mantissa| (-1, mantissa));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [integer, fraction].concat();
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // The number is `significant` times ten to the power of `zeros`.
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let fraction = i64::try_from(fraction.len()).ok()?;
    let zeros = exponent.parse::<i64>().ok()?.checked_add(dropped)?.checked_sub(fraction)?;
    let factor = 10_i128.checked_pow(u32::try_from(zeros).ok()?)?;
    significant.parse::<i128>().ok()?.checked_mul(factor)?.checked_mul(sign)
}

/// Returns `true` for an integer of at most 20 decimal digits, which is how a string gives a 64-bit integer.
pub fn is_decimal(digits: &str) -> bool {
    let digits = digits.strip_prefix('-').unwrap_or(digits);
    (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_json_number_is_parsed_without_rounding() {
        for (number, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0e5", Some(0)),
            ("0e99", Some(0)),
            ("12", Some(12)),
            ("3.0", Some(3)),
            ("-3.00", Some(-3)),
            ("1e3", Some(1_000)),
            ("1E+3", Some(1_000)),
            ("120e-1", Some(12)),
            ("1.25e2", Some(125)),
            ("9007199254740993.0", Some(9_007_199_254_740_993)),
            ("1.8446744073709551615e19", Some(u64::MAX.into())),
            ("-9.223372036854775808e18", Some(i64::MIN.into())),
            ("18446744073709551616", Some(i128::from(u64::MAX) + 1)),
            ("1.5", None),
            ("1e-1", None),
            ("125e-1", None),
            ("1e39", None),
            ("1e99999999999", None),
            ("1e99999999999999999999", None),
            ("1e-99999999999999999999", None),
        ] {
            assert_eq!(whole(number), expected, "{number}");
        }
    }
}
