use std::{
    cell::{Cell, RefCell},
    num::NonZeroU16,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use proptest::prelude::*;

use super::*;
use crate::styled_line::{LinkTarget, Style};

/// A terminal that keeps all rows.
#[derive(Clone)]
struct Terminal {
    emulator: Rc<RefCell<vt100::Parser>>,
    size: Rc<Cell<TerminalSize>>,
    bytes: Rc<RefCell<Vec<u8>>>,
}

impl Terminal {
    fn new(columns: u16, rows: u16) -> Self {
        let emulator = vt100::Parser::new(count(rows), count(columns), 10_000);
        Self {
            emulator: Rc::new(RefCell::new(emulator)),
            size: Rc::new(Cell::new(TerminalSize { columns, rows })),
            bytes: Rc::default(),
        }
    }

    fn region(&self, most_lines: usize) -> LiveRegion<Self, impl FnMut() -> TerminalSize + use<>> {
        let size = Rc::clone(&self.size);
        LiveRegion::new(self.clone(), move || size.get(), most_lines)
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.emulator.borrow_mut().set_size(count(rows), count(columns));
        self.size.set(TerminalSize { columns, rows });
    }

    /// Changes the width as a terminal does that breaks lines anew: the cursor moves with its character. Nothing may have
    /// scrolled away before.
    fn rewrap(&self, columns: u16) {
        let TerminalSize { columns: before, rows } = self.size.get();
        let mut emulator = self.emulator.borrow_mut();
        let screen = emulator.screen();
        assert_eq!(screen.scrollback_len(), 0);
        let (cursor_row, cursor_column) = screen.cursor_position();
        let (mut lines, mut place) = (Vec::<String>::new(), (0, 0));
        for (at, row) in (0..rows).zip(screen.rows(0, before)) {
            match at > 0 && screen.row_wrapped(at - 1) {
                true => lines.last_mut().unwrap().push_str(&row),
                false => lines.push(row),
            }
            if at == cursor_row {
                let rows_before = (0..at).rev().take_while(|row| screen.row_wrapped(*row)).count();
                place = (lines.len() - 1, rows_before * usize::from(before) + usize::from(cursor_column));
            }
        }
        let last = lines.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(0).max(place.0);
        lines.truncate(last + 1);
        let mut rewrapped = vt100::Parser::new(count(rows), count(columns), 10_000);
        rewrapped.process(lines.join("\r\n").as_bytes());
        let above: usize =
            lines[..place.0].iter().map(|line| StyledLine::from(line.as_str()).rows(columns.into())).sum();
        let row = above + place.1 / usize::from(columns) - rewrapped.screen().scrollback_len();
        rewrapped.process(format!("\x1b[{};{}H", row + 1, place.1 % usize::from(columns) + 1).as_bytes());
        *emulator = rewrapped;
        self.size.set(TerminalSize { columns, rows });
    }

    /// The rows that have scrolled away and those on the screen, without blank ones at the end.
    fn rows(&self) -> Vec<String> {
        let mut emulator = self.emulator.borrow_mut();
        let screen = emulator.screen_mut();
        let columns = screen.size().1.get();
        let mut rows = Vec::new();
        for above in (1..=screen.scrollback_len()).rev() {
            screen.set_scrollback(above);
            rows.extend(screen.rows(0, columns).next());
        }
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, columns));
        while rows.last().is_some_and(|row| row.trim().is_empty()) {
            rows.pop();
        }
        rows
    }

    fn hides_cursor(&self) -> bool {
        self.emulator.borrow().screen().hide_cursor()
    }

    /// The row of the cursor, counted from the oldest row.
    fn cursor(&self) -> (usize, u16) {
        let emulator = self.emulator.borrow();
        let (row, column) = emulator.screen().cursor_position();
        (emulator.screen().scrollback_len() + usize::from(row), column)
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.emulator.borrow_mut().process(bytes);
        self.bytes.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn count(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn lines(texts: &[&str]) -> Vec<StyledLine> {
    texts.iter().map(|text| StyledLine::from(*text)).collect()
}

#[test]
fn region_is_redrawn_below_printed_lines() {
    for (columns, rows) in [(80, 24), (20, 4), (8, 3)] {
        let terminal = Terminal::new(columns, rows);
        let mut region = terminal.region(2);
        region.print_above(&lines(&["first"])).unwrap();
        region.set(lines(&["work 1", "busy"])).unwrap();
        assert_eq!(terminal.rows(), ["first", "work 1", "busy"]);
        region.set(lines(&["work 2"])).unwrap();
        assert_eq!(terminal.rows(), ["first", "work 2"]);
        region.print_above(&lines(&["second", "", "third"])).unwrap();
        assert_eq!(terminal.rows(), ["first", "second", "", "third", "work 2"]);
        region.update(&lines(&["fourth"]), lines(&["work 3", "busy"])).unwrap();
        assert_eq!(terminal.rows(), ["first", "second", "", "third", "fourth", "work 3", "busy"]);
        assert_eq!(terminal.cursor(), (5, 0));
        region.clear().unwrap();
        assert_eq!(terminal.rows(), ["first", "second", "", "third", "fourth"]);
        assert_eq!(terminal.cursor(), (5, 0));
    }
}

#[test]
fn region_leaves_one_row_and_shows_its_last_lines() {
    let terminal = Terminal::new(10, 3);
    let mut region = terminal.region(5);
    region.print_above(&lines(&["above"])).unwrap();
    region.set(lines(&["1", "2", "3", "4"])).unwrap();
    assert_eq!(terminal.rows(), ["above", "3", "4"]);
    let wide = Terminal::new(10, 20);
    let mut region = wide.region(3);
    region.set(lines(&["1", "2", "3", "4"])).unwrap();
    assert_eq!(wide.rows(), ["2", "3", "4"]);
}

#[test]
fn terminal_of_one_column_shows_marks_of_cut_lines() {
    let terminal = Terminal::new(1, 1);
    let mut region = terminal.region(4);
    region.set(lines(&["work", "busy"])).unwrap();
    assert_eq!(terminal.rows(), ["…"]);
    region.print_above(&lines(&["ab"])).unwrap();
    assert_eq!(terminal.rows(), ["a", "b", "…"]);
    region.clear().unwrap();
    assert_eq!(terminal.rows(), ["a", "b"]);
}

#[test]
fn region_lines_are_cut_by_display_width() {
    let terminal = Terminal::new(6, 5);
    let mut region = terminal.region(4);
    region
        .set(lines(&[
            "日本語です",
            "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}",
            "👩\u{200d}💻👩\u{200d}💻",
            "123456",
        ]))
        .unwrap();
    let rows = terminal.rows();
    assert_eq!(rows[0], "日本…");
    assert_eq!(rows[1], "e\u{301}".repeat(6));
    assert!(rows[2].ends_with('…'), "{rows:?}");
    assert_eq!(rows[3..], ["123456"]);
}

#[test]
fn final_line_that_is_too_long_is_not_cut() {
    let terminal = Terminal::new(4, 5);
    let mut region = terminal.region(1);
    region.set(lines(&["work"])).unwrap();
    region.print_above(&lines(&["abcdef", "wxyz", "1"])).unwrap();
    assert_eq!(terminal.rows(), ["abcd", "ef", "wxyz", "1", "work"]);
}

#[test]
fn resized_terminal_keeps_printed_lines_and_one_region() {
    for (columns, rows) in [(40, 12), (6, 12), (20, 3), (5, 4), (40, 30)] {
        let terminal = Terminal::new(20, 8);
        let mut region = terminal.region(3);
        region.update(&lines(&["1", "2", "3", "4"]), lines(&["downloading", "busy", "end"])).unwrap();
        terminal.resize(columns, rows);
        region.update(&lines(&["5"]), lines(&["downloading", "busy"])).unwrap();
        let first = if columns >= 11 {
            "downloading".to_owned()
        } else {
            format!("{}…", &"downloading"[..usize::from(columns) - 1])
        };
        assert_eq!(terminal.rows(), ["1", "2", "3", "4", "5", &first, "busy"], "{columns} × {rows}");
        terminal.resize(20, 8);
        region.set(lines(&["downloading"])).unwrap();
        assert_eq!(terminal.rows(), ["1", "2", "3", "4", "5", "downloading"], "{columns} × {rows}");
    }
}

#[test]
fn unchanged_lines_are_drawn_again_after_a_resize_only() {
    let terminal = Terminal::new(20, 8);
    let mut region = terminal.region(3);
    region.clear().unwrap();
    region.set(Vec::new()).unwrap();
    assert!(terminal.bytes.borrow().is_empty());
    region.set(lines(&["work"])).unwrap();
    let written = terminal.bytes.borrow().len();
    region.set(lines(&["work"])).unwrap();
    region.print_above(&[]).unwrap();
    assert_eq!(terminal.bytes.borrow().len(), written);
    terminal.resize(10, 8);
    region.set(lines(&["work"])).unwrap();
    assert!(terminal.bytes.borrow().len() > written);
}

#[test]
fn unknown_size_is_taken_as_that_of_a_vt100() {
    let terminal = Terminal::new(80, 24);
    terminal.size.set(TerminalSize { columns: 0, rows: 0 });
    let mut region = terminal.region(3);
    region.set(lines(&["a".repeat(81).as_str()])).unwrap();
    assert_eq!(terminal.rows(), [format!("{}…", "a".repeat(79))]);
}

#[test]
fn lines_of_other_code_stay_above_the_region() {
    let terminal = Terminal::new(20, 5);
    let mut region = terminal.region(3);
    region.set(lines(&["work", "busy"])).unwrap();
    terminal.clone().write_all(b"warning\r\n").unwrap();
    region.set(lines(&["work", "done"])).unwrap();
    assert_eq!(terminal.rows(), ["warning", "work", "done"]);
}

#[test]
fn cursor_is_visible_after_clear_drop_and_panic() {
    let terminal = Terminal::new(20, 5);
    let mut region = terminal.region(3);
    assert!(!terminal.hides_cursor());
    region.set(lines(&["work"])).unwrap();
    assert!(terminal.hides_cursor());
    region.clear().unwrap();
    assert!(!terminal.hides_cursor());
    region.set(lines(&["work"])).unwrap();
    drop(region);
    assert!(!terminal.hides_cursor());
    let mut region = terminal.region(3);
    let result = catch_unwind(AssertUnwindSafe(|| {
        region.set(lines(&["work", "busy"])).unwrap();
        let _region = region;
        std::panic::resume_unwind(Box::new("stop"));
    }));
    assert!(result.is_err() && !terminal.hides_cursor());
    assert!(terminal.rows().is_empty(), "{:?}", terminal.rows());
}

fn at(line: usize, column: usize) -> Option<RegionCursor> {
    Some(RegionCursor { line, column })
}

#[test]
fn cursor_is_shown_where_the_region_says() {
    let terminal = Terminal::new(20, 6);
    let mut region = terminal.region(4);
    region.update_with_cursor(&lines(&["above"]), lines(&["busy", "› text", "status"]), at(1, 6)).unwrap();
    assert_eq!((terminal.cursor(), terminal.hides_cursor()), ((2, 6), false));
    region.update_with_cursor(&lines(&["more"]), lines(&["› text", "status"]), at(0, 2)).unwrap();
    assert_eq!(terminal.rows(), ["above", "more", "› text", "status"]);
    assert_eq!((terminal.cursor(), terminal.hides_cursor()), ((2, 2), false));
    // The place alone has changed.
    region.update_with_cursor(&[], lines(&["› text", "status"]), at(0, 99)).unwrap();
    assert_eq!(terminal.cursor(), (2, 19));
    // The first line is not shown.
    region.update_with_cursor(&[], lines(&["1", "2", "3", "4", "5"]), at(0, 0)).unwrap();
    assert_eq!(terminal.rows(), ["above", "more", "2", "3", "4", "5"]);
    assert!(terminal.hides_cursor());
    region.update_with_cursor(&[], lines(&["1", "2"]), at(1, 1)).unwrap();
    terminal.resize(20, 4);
    region.update_with_cursor(&[], lines(&["1", "2"]), at(1, 1)).unwrap();
    drop(region);
    assert_eq!(terminal.rows(), ["above", "more"]);
    assert_eq!((terminal.cursor().1, terminal.hides_cursor()), (0, false));
}

#[test]
fn narrowed_terminal_that_rewraps_keeps_no_old_rows() {
    let live = ["⠋ ada calling a tool", "  · read notes.md", "› a draft of some length 日本", "status of the chat"];
    for (columns, column) in [(20, 2), (12, 27), (9, 18), (7, 0), (27, 27)] {
        let terminal = Terminal::new(40, 30);
        let mut region = terminal.region(8).rewrapping(true);
        let printed = lines(&["one", "an answer that is broken, too", "two"]);
        region.update_with_cursor(&printed, lines(&live), at(2, column)).unwrap();
        terminal.rewrap(columns);
        let above: Vec<_> = terminal.rows().into_iter().take_while(|row| !row.starts_with('⠋')).collect();
        assert!(above.last().is_some_and(|row| row == "two"), "{above:?}");
        region.update_with_cursor(&[], lines(&live), at(2, 0)).unwrap();
        let cut: Vec<_> = lines(&live).iter().map(|line| line.cut(columns.into()).to_string()).collect();
        assert_eq!(terminal.rows(), [above.clone(), cut].concat(), "{columns} columns, cursor at {column}");
        terminal.rewrap(columns - 2);
        drop(region);
        let shown = terminal.rows();
        assert!(shown.last().is_some_and(|row| row == "two") && !shown.concat().contains("ada"), "{shown:?}");
    }
}

#[test]
fn narrowed_terminal_that_cuts_keeps_printed_rows() {
    let terminal = Terminal::new(40, 12);
    let mut region = terminal.region(4);
    region.update_with_cursor(&lines(&["one", "two"]), lines(&["busy with work", "› a draft"]), at(1, 9)).unwrap();
    terminal.resize(6, 12);
    region.update_with_cursor(&[], lines(&["busy with work", "› a draft"]), at(1, 9)).unwrap();
    assert_eq!(terminal.rows(), ["one", "two", "busy …", "› a d…"]);
}

#[test]
fn notification_cannot_be_left_by_its_text() {
    let terminal = Terminal::new(20, 5);
    let mut region = terminal.region(3);
    region.set(lines(&["work"])).unwrap();
    terminal.bytes.borrow_mut().clear();
    region.notify("ada\x07\x1b]52;c;aGk=\nhas finished").unwrap();
    let written = String::from_utf8(terminal.bytes.take()).unwrap();
    assert_eq!(written, "\x1b]9;ada\\u{7}\\u{1b}]52;c;aGk= has finished\x1b\\\x07");
    assert_eq!(terminal.rows(), ["work"]);
}

#[test]
fn lost_terminal_is_an_error_and_no_panic() {
    struct LostTerminal;
    impl Write for LostTerminal {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut region = LiveRegion::new(LostTerminal, || UNKNOWN_SIZE, 3);
    for _ in 0..2 {
        let error = region.set(lines(&["work"])).and_then(|()| region.clear()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
    assert_eq!(region.print_above(&lines(&["a"])).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

/// Removes the control sequences that this crate writes.
fn without_own_sequences(written: &str) -> String {
    let mut text = written.replace("\r\n", "");
    for own in [
        ansi::BEGIN_UPDATE,
        ansi::END_UPDATE,
        ansi::HIDE_CURSOR,
        ansi::SHOW_CURSOR,
        ansi::NO_AUTO_WRAP,
        ansi::AUTO_WRAP,
        ansi::ERASE_BELOW,
        ansi::RESET_STYLE,
        ansi::END_LINK,
        "\x1b[1m",
        "\x1b]8;;https://a.example\x1b\\",
    ] {
        text = text.replace(own, "");
    }
    for rows in 1..10 {
        text = text.replace(&format!("\r\x1b[{rows}A"), "");
    }
    text.replace('\r', "")
}

proptest! {
    #[test]
    fn only_own_control_sequences_are_written(texts in proptest::collection::vec(any::<String>(), 1..6)) {
        let terminal = Terminal::new(30, 8);
        let mut region = terminal.region(4);
        for text in &texts {
            let mut line = StyledLine::styled(text, Style::new().bold());
            line.push_linked(text, Style::new(), LinkTarget::from_url("https://a.example").as_ref());
            region.update(std::slice::from_ref(&line), vec![line.clone(), line.clone()]).unwrap();
        }
        drop(region);
        let written = String::from_utf8(terminal.bytes.take()).unwrap();
        // A carriage return of a text would be spelled out.
        prop_assert!(!without_own_sequences(&written).contains(char::is_control));
    }

    /// The screen after any steps is that of a terminal on which the lines were printed once.
    #[test]
    fn screen_has_printed_lines_and_then_the_region(
        steps in prop::collection::vec(
            (
                prop::collection::vec("[a-z]{0,12}", 0..4),
                prop::collection::vec("[A-Z]{1,12}", 0..5),
                prop::option::of((0_usize..5, 0_usize..14)),
            ),
            1..12,
        ),
        columns in 1_u16..14,
        rows in 1_u16..8,
    ) {
        let terminal = Terminal::new(columns, rows);
        let mut region = terminal.region(3);
        let plain = Terminal::new(columns, rows);
        let mut shown = Vec::new();
        let mut cursor = None;
        for (above, live, place) in &steps {
            let lines = |texts: &[String]| texts.iter().map(|text| StyledLine::from(text.as_str())).collect::<Vec<_>>();
            cursor = place.and_then(|(line, column)| at(line, column));
            region.update_with_cursor(&lines(above), lines(live), cursor).unwrap();
            for line in above {
                plain.clone().write_all(format!("{line}\r\n").as_bytes()).unwrap();
            }
            let most = 3.min(usize::from(rows).saturating_sub(1).max(1));
            let visible = &live[live.len().saturating_sub(most)..];
            let hidden = live.len() - visible.len();
            cursor = cursor.filter(|place| (hidden..live.len()).contains(&place.line));
            cursor = cursor.map(|RegionCursor { line, column }| RegionCursor {
                line: line - hidden,
                column: column.min(usize::from(columns) - 1),
            });
            shown = lines(visible).iter().map(|line| line.cut(columns.into()).to_string()).collect();
        }
        let (start, _) = plain.cursor();
        let shown_is_empty = shown.is_empty();
        let mut expected = plain.rows();
        expected.resize(start, String::new());
        expected.append(&mut shown);
        let mut actual = terminal.rows();
        let length = expected.len().max(actual.len());
        expected.resize(length, String::new());
        actual.resize(length, String::new());
        prop_assert_eq!(actual, expected);
        let place = cursor.map_or((start, 0), |cursor| (start + cursor.line, cursor.column as u16));
        prop_assert_eq!(terminal.cursor(), place);
        prop_assert_eq!(terminal.hides_cursor(), cursor.is_none() && !shown_is_empty);
    }
}
