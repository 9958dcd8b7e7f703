use proptest::prelude::*;

use super::*;

fn scrubber(keys: &[&str]) -> Scrubber {
    let secrets: Vec<_> = keys.iter().map(Secret::new).collect();
    Scrubber::new(&secrets).unwrap()
}

/// Redacts pieces that end at these positions and returns the output after each piece.
fn in_pieces(scrubber: &Scrubber, bytes: &[u8], ends: &[usize]) -> Vec<Vec<u8>> {
    let mut ends: Vec<_> = ends.iter().map(|end| end % (bytes.len() + 1)).collect();
    ends.sort_unstable();
    let (mut scrub, mut at, mut clean) = (scrubber.stream(), 0, Vec::new());
    for end in ends {
        clean.push(scrub.push(&bytes[at..end]));
        at = end;
    }
    clean.push(scrub.push(&bytes[at..]));
    clean.push(scrub.finish());
    clean
}

/// Computes the expected result: every byte of a form is redacted, and overlapping matches are one.
fn expected(keys: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut blots = Vec::new();
    for form in keys.iter().flat_map(|key| Secret::new(key).forms()) {
        let found = (0..bytes.len()).filter(|at| {
            bytes.get(*at..at + form.len()).is_some_and(|part| part.eq_ignore_ascii_case(form.as_bytes()))
        });
        blots.extend(found.map(|at| (at, at + form.len())));
    }
    blots.sort_unstable();
    let (mut clean, mut at) = (Vec::new(), 0);
    for (start, end) in blots {
        if start >= at {
            clean.extend_from_slice(&bytes[at..start]);
            clean.extend_from_slice(BLOT);
        }
        at = at.max(end);
    }
    clean.extend_from_slice(&bytes[at..]);
    clean
}

#[test]
fn lines_are_handed_on_when_they_end() {
    let scrubber = scrubber(&["sk-secret"]);
    let mut scrub = scrubber.stream();
    for (piece, handed_on) in [
        ("data: 1\n\n", "data: 1\n\n"),
        ("key=s", ""),
        ("k-secret", ""),
        ("!\nsk-", "key=***!\n"),
        ("secre\n", "sk-secre\n"),
        ("sk-secret\nsk-secret", "***\n"),
    ] {
        assert_eq!(String::from_utf8(scrub.push(piece.as_bytes())).unwrap(), handed_on, "{piece}");
    }
    assert_eq!(scrub.finish(), b"***");
}

#[test]
fn a_long_line_is_handed_on_before_it_ends() {
    let scrubber = scrubber(&["sk-secret"]);
    let mut scrub = scrubber.stream();
    let line = [b'x'; limits::EGRESS_HELD_BYTES];
    assert_eq!(scrub.push(&line), b"");
    assert_eq!(scrub.push(b"sk-s"), b"xxxx");
    assert_eq!(scrub.push(b"ecret").len(), 5);
    assert_eq!(scrub.finish(), [&line[9..], b"***"].concat());
}

#[test]
fn the_longest_credential_is_found_in_its_longest_form() {
    for char in ["\u{1}", "\"", "\\", "ä", "€", "😀", "k"] {
        let secret =
            Secret::new("a".to_owned() + &char.repeat((limits::EGRESS_CREDENTIAL_BYTES - 2) / char.len()) + "b");
        let forms = secret.forms();
        let longest = forms.iter().max_by_key(|form| form.len()).unwrap();
        assert!(longest.len() <= limits::EGRESS_HELD_BYTES, "{char:?}: {}", longest.len());
        let (mut scrub, mut clean) = (Scrubber::of_forms([longest.clone()].into()).unwrap().stream(), Vec::new());
        for piece in [b"x".repeat(limits::EGRESS_HELD_BYTES).as_slice(), longest.as_bytes()].concat().chunks(4_000) {
            clean.extend(scrub.push(piece));
        }
        clean.extend(scrub.finish());
        assert!(clean.ends_with(b"x***"), "{char:?}");
    }
}

#[test]
fn overlapping_matches_are_redacted_as_one() {
    for (keys, text, expected) in [
        (&["abab"][..], "xababab-abab", "x***-***"),
        (&["abab"], "abababab", "***"),
        (&["1234", "3456"], "a123456b", "a***b"),
        (&["1234", "23"], "a1234b23", "a***b23"),
        (&["12345678", "3456"], "a345678-12345678", "a***78-***"),
        (&["user:pass", "pass"], "user:pass pass", "*** ***"),
        (&["abc", ""], "abc", "abc"),
        (&[], "abc", "abc"),
        (&["schlüssel"], "ü schlüssel ü", "ü *** ü"),
    ] {
        assert_eq!(scrubber(keys).text(text), expected, "{text}");
    }
}

#[test]
fn endless_match_takes_no_memory() {
    let scrubber = scrubber(&["aaaaaaaa"]);
    let (mut scrub, mut came) = (scrubber.stream(), 0);
    for _ in 0..1_000 {
        came += scrub.push(&[b'a'; 1_000]).len();
        assert!(scrub.held.len() <= limits::EGRESS_HELD_BYTES && scrub.blots.len() <= 1, "{}", scrub.held.len());
    }
    assert_eq!((came, scrub.finish().len()), (3, 0));
}

#[test]
fn nothing_of_a_key_is_in_its_debug() {
    assert_eq!(format!("{:?}", scrubber(&["sk-secret"])), "Scrubber(***)");
}

/// Texts of few letters, in which keys of the same letters are often found and overlap.
fn few_letters(most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof!["a", "b", "\"", "ab", "a\"b/", "ä"], 4..most).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn scrubber_output_does_not_depend_on_pieces(
        keys in proptest::collection::vec(few_letters(8), 1..4),
        parts in proptest::collection::vec((few_letters(9), 0..9_usize), 1..12),
        ends in proptest::collection::vec(any::<usize>(), 0..9),
    ) {
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        // Every form of a key, between other texts.
        let text: String = parts.iter().map(|(part, form)| {
            let forms = Secret::new(keys[part.len() % keys.len()]).forms();
            format!("{part}{}", forms[form % forms.len()])
        }).collect();
        let scrubber = scrubber(&keys);
        let whole = scrubber.text(&text);
        prop_assert_eq!(whole.as_bytes(), expected(&keys, text.as_bytes()));
        prop_assert_eq!(in_pieces(&scrubber, text.as_bytes(), &ends).concat(), whole.as_bytes());
    }

    #[test]
    fn scrubber_equals_secret_redaction_without_overlaps(
        words in proptest::collection::vec("[a-z]{0,9}", 1..9),
        ends in proptest::collection::vec(any::<usize>(), 0..9),
    ) {
        let secret = Secret::new("S3CR\"T/K€Y+");
        let forms = secret.forms();
        let text: String =
            words.iter().map(|word| format!("{word} {} ", forms[word.len() % forms.len()])).collect();
        let clean = in_pieces(&scrubber(&[secret.expose()]), text.as_bytes(), &ends).concat();
        prop_assert_eq!(String::from_utf8(clean).unwrap(), secret.blot(&text));
    }

    /// The output for data without a credential does not depend on the credential, even if a server echoes guesses.
    #[test]
    fn scrubber_output_does_not_depend_on_absent_credential(
        one in "[ -~]{4,60}",
        other in "[ -~]{4,200}",
        guesses in proptest::collection::vec((any::<bool>(), 0..60_usize, "[ -~\n]{0,5}"), 0..40),
        ends in proptest::collection::vec(any::<usize>(), 0..20),
    ) {
        let text: String = guesses.iter().map(|(of_one, length, more)| {
            let guessed = if *of_one { one.trim() } else { other.trim() };
            // Never the complete key.
            format!("{}{more}", &guessed[..*length.min(&guessed.len().saturating_sub(1))])
        }).collect();
        let (one, other) = (scrubber(&[&one]), scrubber(&[&other]));
        prop_assume!(!one.is_empty() && !other.is_empty() && one.text(&text) == text && other.text(&text) == text);
        prop_assert_eq!(in_pieces(&one, text.as_bytes(), &ends), in_pieces(&other, text.as_bytes(), &ends));
    }

    #[test]
    fn scrubber_passes_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), ends in proptest::collection::vec(any::<usize>(), 0..9)) {
        let clean = in_pieces(&scrubber(&["sk-secret-of-some-length"]), &bytes, &ends).concat();
        prop_assert_eq!(clean, bytes);
    }
}
