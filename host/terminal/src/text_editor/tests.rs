use proptest::prelude::*;

use super::*;

fn shown(editor: &TextEditor, columns: usize, most_rows: usize) -> Vec<String> {
    // The cursor cell is bold, so that a test can find it.
    let EditorView { rows, cursor } = editor.view(columns, most_rows, Style::new(), Style::new().bold());
    let before = rows[cursor.line].spans().iter().take_while(|span| span.style() == Style::new());
    assert_eq!(before.map(|span| display_width(span.text())).sum::<usize>(), cursor.column, "{rows:?}");
    let mark = |line: &StyledLine| {
        let spans = line.spans().iter().map(|span| match span.style() == Style::new().bold() {
            true => format!("[{}]", span.text()),
            false => span.text().to_owned(),
        });
        spans.collect::<String>()
    };
    rows.iter().map(mark).collect()
}

#[test]
fn keys_edit_text_as_in_a_shell() {
    use CursorMotion::{Left, LineEnd, LineStart, Right, WordLeft, WordRight};
    let mut editor = TextEditor::new(1_000);
    editor.insert("let it be,\r\nlet it be");
    assert_eq!(shown(&editor, 40, 9), ["let it be,", "let it be[ ]"]);
    editor.remove(WordLeft);
    editor.remove(Left);
    assert_eq!(editor.text(), "let it be,\nlet it");
    editor.move_cursor(LineStart);
    editor.remove(WordRight);
    assert_eq!(shown(&editor, 40, 9), ["let it be,", "[ ]it"]);
    editor.restore_removed();
    assert_eq!(editor.text(), "let it be,\nlet it");
    editor.move_cursor(LineStart);
    assert!(!editor.move_cursor(LineStart));
    editor.move_cursor(Left);
    editor.remove(LineEnd);
    assert_eq!(editor.text(), "let it be,let it", "the line break");
    editor.remove(LineEnd);
    editor.remove(Right);
    assert_eq!(editor.take(), "let it be,");
    assert!(editor.is_empty());
}

#[test]
fn cursor_keeps_its_column_over_shorter_lines() {
    let mut editor = TextEditor::new(1_000);
    editor.insert("a long line\nb\n日本語 and more");
    assert!(editor.move_cursor(CursorMotion::Up));
    assert_eq!(editor.before_cursor(), "a long line\nb");
    assert!(editor.move_cursor(CursorMotion::Up));
    assert_eq!(editor.before_cursor(), "a long line");
    assert!(!editor.move_cursor(CursorMotion::Up));
    editor.move_cursor(CursorMotion::Left);
    editor.move_cursor(CursorMotion::Down);
    editor.move_cursor(CursorMotion::Down);
    assert!(editor.before_cursor().ends_with("日本語 and"), "{}", editor.before_cursor());
    assert!(!editor.move_cursor(CursorMotion::Down));
}

#[test]
fn text_never_exceeds_its_maximum() {
    let mut editor = TextEditor::new(8);
    assert!(editor.insert("12345"));
    assert!(!editor.insert("6789"));
    assert_eq!(editor.text(), "12345");
    editor.set("日本語");
    assert_eq!(editor.text(), "日本");
    assert!(!editor.replace_before_cursor(3, "too long") && editor.replace_before_cursor(3, "x"));
    assert_eq!(editor.text(), "日x");
}

#[test]
fn rows_are_broken_and_follow_the_cursor() {
    let mut editor = TextEditor::new(1_000);
    editor.insert("abcdefgh\n日本語");
    assert_eq!(shown(&editor, 4, 9), ["abcd", "efgh", "日本", "語[ ]"]);
    assert_eq!(shown(&editor, 4, 2), ["日本", "語[ ]"]);
    assert_eq!(shown(&editor, 6, 9), ["abcdef", "gh", "日本語", "[ ]"]);
    for _ in 0..4 {
        editor.move_cursor(CursorMotion::Left);
    }
    assert_eq!(shown(&editor, 9, 9), ["abcdefgh[ ]", "日本語"]);
    assert_eq!(shown(&editor, 4, 1), ["[ ]"], "the cursor stands behind a full row");
}

#[test]
fn pasted_control_sequences_are_left_out_or_spelled_out() {
    let mut editor = TextEditor::new(1_000);
    editor.insert("\x1b[2Jx\u{202e}y\u{9b}31m\rz");
    assert_eq!(editor.text(), "[2Jx\u{202e}y31m\nz");
    assert_eq!(shown(&editor, 40, 9), ["[2Jx\\u{202e}y31m", "z[ ]"]);
}

#[derive(Debug, Clone)]
enum EditorKey {
    Insert(String),
    Move(CursorMotion),
    Remove(CursorMotion),
    Restore,
    Clear,
}

fn motion() -> impl Strategy<Value = CursorMotion> {
    use CursorMotion::{Down, Left, LineEnd, LineStart, Right, Up, WordLeft, WordRight};
    prop::sample::select(vec![Left, Right, WordLeft, WordRight, LineStart, LineEnd, Up, Down])
}

fn key() -> impl Strategy<Value = EditorKey> {
    let text = prop::sample::select(vec![
        "a",
        "b c",
        "\n",
        "\r\n",
        "日本",
        "e\u{301}",
        "\u{301}",
        "👩\u{200d}💻",
        "\t",
        "\x1b[2J",
        "\u{202e}",
    ]);
    prop_oneof![
        4 => text.prop_map(|text| EditorKey::Insert(text.into())),
        3 => motion().prop_map(EditorKey::Move),
        2 => motion().prop_map(EditorKey::Remove),
        1 => Just(EditorKey::Restore),
        1 => Just(EditorKey::Clear),
    ]
}

proptest! {
    #[test]
    fn any_keys_leave_a_cursor_between_characters(
        keys in prop::collection::vec(key(), 0..60), columns in 0..12_usize, most_rows in 0..5_usize,
    ) {
        let mut editor = TextEditor::new(64);
        for key in keys {
            match key {
                EditorKey::Insert(text) => drop(editor.insert(&text)),
                EditorKey::Move(motion) => drop(editor.move_cursor(motion)),
                EditorKey::Remove(motion) => editor.remove(motion),
                EditorKey::Restore => editor.restore_removed(),
                EditorKey::Clear => editor.clear(),
            }
            let (text, at) = (editor.text().to_owned(), editor.before_cursor().len());
            prop_assert!(text.len() <= 64);
            let is_boundary = at == text.len() || text.grapheme_indices(true).any(|(start, _)| start == at);
            prop_assert!(is_boundary, "{at} in {text:?}");
            let rows = shown(&editor, columns, most_rows);
            prop_assert!(rows.len() <= most_rows.max(1));
            prop_assert_eq!(rows.iter().map(|row| row.matches('[').count()).sum::<usize>() >= 1, true, "{:?}", rows);
            let is_safe = |c: char| !c.is_control() && c != '\u{202e}';
            prop_assert!(rows.iter().all(|row| row.chars().all(is_safe)), "{:?}", rows);
        }
    }
}
