use proptest::prelude::*;

use super::*;

fn scrubber(keys: &[&str]) -> Scrubber {
    let secrets: Vec<_> = keys.iter().map(Secret::new).collect();
    Scrubber::new(&secrets).unwrap()
}

/// In pieces that end at these places, with what was handed on after each piece.
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

/// What is part of a form is blotted out; places that overlap are one.
fn expected(keys: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut blots = Vec::new();
    for form in keys.iter().flat_map(|key| Secret::new(key).forms()) {
        let found = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(form.as_bytes()));
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
fn what_could_begin_a_credential_is_held_back_and_nothing_else() {
    let scrubber = scrubber(&["sk-secret", "abcabcx"]);
    let mut scrub = scrubber.stream();
    for (piece, handed_on) in [
        ("data: 1\n\n", "data: 1\n\n"),
        ("key=s", "key="),
        ("k-secre", ""),
        ("x", "sk-secrex"),
        ("sk-", ""),
        ("secret", "***"),
        ("!", "!"),
        ("abcabc", ""),
        ("a", "abc"),
        ("bcx", "***"),
        ("s", ""),
    ] {
        assert_eq!(String::from_utf8(scrub.push(piece.as_bytes())).unwrap(), handed_on, "{piece}");
    }
    assert_eq!(scrub.finish(), b"s");
}

#[test]
fn what_overlaps_is_blotted_out_as_one() {
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
fn a_blot_that_never_ends_takes_no_memory() {
    let scrubber = scrubber(&["aaaaaaaa"]);
    let (mut scrub, mut came) = (scrubber.stream(), 0);
    for _ in 0..1_000 {
        came += scrub.push(&[b'a'; 1_000]).len();
        assert!(scrub.held.len() < 8 && scrub.blots.len() <= 1, "{}", scrub.held.len());
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
    fn pieces_make_no_difference(
        keys in proptest::collection::vec(few_letters(8), 1..4),
        parts in proptest::collection::vec((few_letters(9), 0..9_usize), 1..12),
        ends in proptest::collection::vec(any::<usize>(), 0..9),
    ) {
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        // Between other texts, every form of a key.
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
    fn where_nothing_overlaps_it_is_what_a_secret_blots_out(
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

    #[test]
    fn all_bytes_pass(bytes in proptest::collection::vec(any::<u8>(), 0..300), ends in proptest::collection::vec(any::<usize>(), 0..9)) {
        let clean = in_pieces(&scrubber(&["sk-secret-of-some-length"]), &bytes, &ends).concat();
        prop_assert_eq!(clean, bytes);
    }
}
