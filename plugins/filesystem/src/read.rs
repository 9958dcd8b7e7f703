//! Tools that read files.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{
    Call, Content, Error, Reply, Tool, ToolHints,
    fs::{self, File, Kind},
    types::{Media, Source},
};

use crate::{
    Halt, READS, answer, inside, invalid,
    lines::Window,
    sniff::{Holds, begins, holds},
    there,
};

/// The maximum size of a file that is read as a whole: 10 MiB.
const WHOLE: u64 = 10 << 20;

/// The maximum size of a picture or document in a result: the contract's 8 MiB.
const MEDIA: usize = 8 << 20;

/// The number of bytes of a file that are searched for lines and counted: 512 MiB, a few seconds.
const SCANNED: u64 = 512 << 20;

/// The number of bytes that are read at once: as many as the host returns at once.
const CHUNK: u64 = 64 << 10;

/// The number of lines that are shown by default.
const LINES: u64 = 100;

pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadArgs {
    /// The file.
    path: String,
}

impl Tool for Read {
    const NAME: &'static str = "fs_read";
    const DESCRIPTION: &'static str = "Reads a file (at most 10 MiB): returns its text unchanged. Shows pictures \
                                       (PNG, JPEG, GIF, WebP) and PDFs. Read a part of a long file with fs_read_lines.";
    const HINTS: ToolHints = READS;
    type Args = ReadArgs;

    fn call(args: ReadArgs, _call: &Call) -> Result<Reply, Error> {
        answer(inside(&args.path).and_then(|path| read(&path)))
    }
}

fn read(path: &str) -> Result<Reply, Halt> {
    let bytes = file(path, WHOLE, "read a part of it with fs_read_lines")?;
    Ok(content(path, bytes)?.into())
}

/// Reads all bytes of an existing file.
pub(crate) fn file(path: &str, most: u64, otherwise: &str) -> Result<Vec<u8>, Halt> {
    match there(path)?.kind {
        Kind::File => {}
        Kind::Folder => return Err(invalid(format!("`{path}` is a folder; fs_list shows its entries"))),
        Kind::Link | Kind::Other => return Err(invalid(format!("`{path}` is neither a file nor a folder"))),
    }
    let read = fs::read(path, most).map_err(|error| match error {
        Error::TooLarge(cause) => Error::TooLarge(format!("{cause}; {otherwise}")),
        error => error,
    });
    Ok(read?)
}

/// Converts the bytes of a file to the content that the model is shown.
fn content(path: &str, bytes: Vec<u8>) -> Result<Content, Halt> {
    match holds(&bytes) {
        Holds::Media(_) if bytes.len() > MEDIA => Err(Halt::Failed(Error::TooLarge(format!(
            "`{path}` has {} bytes, the maximum to show is {MEDIA}",
            bytes.len()
        )))),
        Holds::Media(media_type) => {
            let name = path.rsplit('/').next().map(str::to_owned);
            Ok(Content::Media(Media { media_type: media_type.into(), name, source: Source::Bytes(bytes) }))
        }
        _ => Ok(Content::Text(text(path, bytes)?)),
    }
}

/// Returns the text of a file, or an error if it contains none.
pub(crate) fn text(path: &str, bytes: Vec<u8>) -> Result<String, Halt> {
    let count = bytes.len();
    match holds(&bytes) {
        Holds::Text => String::from_utf8(bytes).map_err(|error| invalid(format!("`{path}`: {error}"))),
        Holds::Media(what) => Err(invalid(format!("`{path}` is not text but {what} ({count} bytes)"))),
        Holds::Binary(what) => Err(invalid(format!("`{path}` is not text but {what} ({count} bytes)"))),
        Holds::OtherText { at, line } => Err(invalid(format!(
            "`{path}` is text, but not UTF-8: byte {at}, in line {line}, is invalid; fs_read_lines shows such bytes \
             as \u{fffd}"
        ))),
    }
}

pub(crate) struct ReadLines;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadLinesArgs {
    /// The file.
    path: String,
    /// The first line to read, counted from 1; 1 if left out.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// The number of lines to read; 100 if left out.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for ReadLines {
    const NAME: &'static str = "fs_read_lines";
    const DESCRIPTION: &'static str =
        "Reads lines of a text file, each after its number and a tab. Also returns how many lines the file has.";
    const HINTS: ToolHints = READS;
    type Args = ReadLinesArgs;

    fn call(args: ReadLinesArgs, _call: &Call) -> Result<Reply, Error> {
        answer(read_lines(&args))
    }
}

fn read_lines(args: &ReadLinesArgs) -> Result<Reply, Halt> {
    let path = inside(&args.path)?;
    let mut window = Window::new(args.offset.unwrap_or(1), args.limit.unwrap_or(LINES)).map_err(invalid)?;
    there(&path)?;
    let file = File::open(&path)?;
    let mut read = 0;
    while read < SCANNED {
        let chunk = file.read_at(read, CHUNK)?;
        if chunk.is_empty() {
            return Ok(window.finish(&path, true).map_err(invalid)?.into());
        }
        if read == 0
            && let Holds::Binary(what) | Holds::Media(what) = begins(&chunk)
        {
            return Err(invalid(format!("`{path}` is not text but {what}")));
        }
        read += chunk.len() as u64;
        window.take(&chunk);
    }
    Ok(window.finish(&path, false).map_err(invalid)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        match content("a/b", bytes.to_vec()) {
            Err(Halt::Failed(error)) => error.message().to_owned(),
            shown => panic!("{shown:?}"),
        }
    }

    #[test]
    fn read_returns_text_and_images() {
        for text in ["", "a\r\nb", "\u{feff}x", "日本\n"] {
            assert_eq!(content("a", text.into()).unwrap(), Content::Text(text.into()));
        }
        let png = b"\x89PNG\r\n\x1a\n\0".to_vec();
        let shown =
            Media { media_type: "image/png".into(), name: Some("x.png".into()), source: Source::Bytes(png.clone()) };
        assert_eq!(content("a/x.png", png).unwrap(), Content::Media(shown));
    }

    #[test]
    fn read_of_a_binary_is_refused_with_its_type() {
        assert_eq!(refused(b"\x7fELF\0"), "`a/b` is not text but an ELF program or library (5 bytes)");
        assert!(refused(b"ok\ngr\xfcn").starts_with("`a/b` is text, but not UTF-8: byte 5, in line 2, is invalid"));
        let mut large = b"%PDF-1.4".to_vec();
        large.resize(MEDIA + 1, b' ');
        assert_eq!(refused(&large), "`a/b` has 8388609 bytes, the maximum to show is 8388608");
    }
}
