use std::time::SystemTime;

use crate::hex;

/// Returns the id of a run, or of something else that begins now: the prefix, the time in milliseconds, and random digits.
pub fn new_id(prefix: &str) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut random = [0; 8];
    // Without random bytes the time alone is the id.
    let _ = getrandom::fill(&mut random);
    format!("{prefix}-{:x}-{}", since.as_millis(), hex::encode(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_moment_differ() {
        let ids = [new_id("run"), new_id("run")];
        assert_ne!(ids[0], ids[1]);
        let parts: Vec<_> = ids[0].split('-').collect();
        assert_eq!((parts[0], parts[2].len(), parts.len()), ("run", 16, 3));
        assert!(u128::from_str_radix(parts[1], 16).is_ok_and(|millis| millis > 1_700_000_000_000), "{}", ids[0]);
    }
}
