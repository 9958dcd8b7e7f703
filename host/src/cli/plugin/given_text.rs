//! Texts that an argument gives, or names: standard input, or a file.

use std::{
    io::{self, IsTerminal, Read},
    path::Path,
};

use crate::{
    cli::render::tell,
    error::{ErrorKind, Report, why_unreadable},
    files,
};

/// Returns the text of an argument: standard input for `-`, the content of a file for `@FILE`, otherwise the argument itself.
/// `what` names the text in messages, and `most` is its maximum in bytes.
///
/// # Errors
///
/// A [`Report`] if it cannot be read, or is too large or not text.
pub(super) fn argument_text(argument: &str, what: &str, most: usize) -> Result<String, Report> {
    match argument.strip_prefix('@') {
        Some(path) => file_text(Path::new(path), what, most),
        None if argument == "-" => file_text(Path::new("-"), what, most),
        None => Ok(argument.to_owned()),
    }
}

/// Returns the text of a file, or standard input for `-`.
///
/// # Errors
///
/// See [`argument_text`].
pub(super) fn file_text(path: &Path, what: &str, most: usize) -> Result<String, Report> {
    let (read, shown) = match path == Path::new("-") {
        true => {
            if io::stdin().is_terminal() {
                tell(&format!("reading {what} from standard input; end it with Ctrl-D\n"));
            }
            (read_bounded(io::stdin().lock(), most), "standard input".to_owned())
        }
        false => (files::open(path).and_then(|file| read_bounded(file, most)), path.display().to_string()),
    };
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    let bytes = read.map_err(|error| {
        let report = usage(format!("cannot read {what} from {shown}")).cause(why_unreadable(&error));
        report.hint("name a file that you can read, or `-` for standard input")
    })?;
    // Checked before decoding: a text that is too long was cut, perhaps within a character.
    if bytes.len() > most {
        return Err(usage(format!("{what} in {shown} exceed {most} bytes")).hint("shorten the text"));
    }
    String::from_utf8(bytes).map_err(|_| {
        usage(format!("{what} in {shown} are not UTF-8 text")).hint("convert the text to UTF-8, for example with iconv")
    })
}

/// Reads to the end, or at most one byte more than `most`.
fn read_bounded(from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_is_itself_or_the_content_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("args.json");
        std::fs::write(&file, "{\"a\": 1}").unwrap();
        let named = format!("@{}", file.display());
        assert_eq!(argument_text("{}", "the arguments", 5).unwrap(), "{}");
        assert_eq!(argument_text(&named, "the arguments", 8).unwrap(), "{\"a\": 1}");
        let refused = |argument: &str, most| argument_text(argument, "the arguments", most).unwrap_err().to_string();
        assert!(refused(&named, 7).contains("args.json exceed 7 bytes"), "{}", refused(&named, 7));
        assert!(refused("@nowhere.json", 7).ends_with("from nowhere.json: no such file or folder"));
        std::fs::write(&file, [0xff]).unwrap();
        assert!(refused(&named, 7).contains("are not UTF-8 text"));
    }
}
