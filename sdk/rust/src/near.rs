//! Suggestions for a name that does not exist.

/// The maximum number of suggestions.
const MAX: usize = 3;

/// Returns at most three names that are similar to `wanted`, the most similar first.
pub fn names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let folded = wanted.to_lowercase();
    let mut near: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let distance = distance(&folded, &name.to_lowercase());
            let alike = stem(name).eq_ignore_ascii_case(stem(wanted)) || distance <= wanted.chars().count() / 3;
            alike.then_some((distance, name))
        })
        .collect();
    near.sort();
    near.into_iter().take(MAX).map(|(_, name)| name).collect()
}

/// Returns the name without its last dot and the rest.
fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

/// Returns the edit distance: the number of characters to add, remove or change to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        let there = ["README.md", "Cargo.toml", "Cargo.lock", "src", "notes.txt"];
        let cases: [(&str, &[&str]); 6] = [
            ("readme.md", &["README.md"]),
            ("README", &["README.md"]),
            ("README.txt", &["README.md"]),
            ("Cargo.tml", &["Cargo.toml", "Cargo.lock"]),
            ("note.txt", &["notes.txt"]),
            ("picture.png", &[]),
        ];
        for (wanted, expected) in cases {
            assert_eq!(names(wanted, there.into_iter()), expected, "for {wanted}");
        }
    }
}
