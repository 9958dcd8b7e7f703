//! The page of a trace: one HTML file that shows it in a browser, with all of its data.

use std::{
    io::{self, Seek, SeekFrom, Write},
    mem,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};

use super::{TraceError, lines::TraceLines};
use shelly_core::limits;

/// The page, without data.
const PAGE: &str = include_str!("../../trace-page/dist/trace.html");
/// The place of the data in the page.
const DATA: &str = "<!--shelly-data-->";
/// The columns in which a number is written that is known only when all data is.
const COLUMNS: usize = 10;

/// Writes a page with a trace. The page reads its data from blocks of compressed lines, in order; what precedes them says
/// how many there are.
///
/// # Errors
///
/// [`TraceError`] if the session cannot be read or `out` cannot be written.
pub fn write_page(lines: TraceLines, out: &mut (impl Write + Seek)) -> Result<(), TraceError> {
    write_up_to(limits::TRACE_PAGE_BYTES, lines, out)
}

/// Writes a page with at most `most` bytes of lines.
pub(crate) fn write_up_to(most: u64, lines: TraceLines, out: &mut (impl Write + Seek)) -> Result<(), TraceError> {
    let (before, after) = PAGE.split_once(DATA).unwrap_or((PAGE, ""));
    out.write_all(before.as_bytes())?;
    let header = lines.header();
    let (title, session) = (in_script(&header.title), in_script(&header.id));
    write!(out, "<script type=\"application/json\" id=\"shelly-trace\">")?;
    write!(out, "{{\"version\":1,\"title\":{title},\"session\":{session},")?;
    let counts_at = out.stream_position()?;
    write_counts(out, 0, 0)?;
    writeln!(out, "}}</script>")?;
    let mut blocks = BlockWriter { out: &mut *out, block: Vec::new(), blocks: 0 };
    let (mut count, mut bytes) = (0, 0);
    for line in lines {
        let line = line?;
        bytes += line.len() as u64 + 1;
        if bytes > most {
            blocks.add(&left_out(count, most))?;
            count += 1;
            break;
        }
        blocks.add(&line)?;
        count += 1;
    }
    let blocks = blocks.finish()?;
    out.write_all(after.as_bytes())?;
    let end = out.stream_position()?;
    out.seek(SeekFrom::Start(counts_at))?;
    write_counts(out, blocks, count)?;
    out.seek(SeekFrom::Start(end))?;
    out.flush()?;
    Ok(())
}

fn write_counts(out: &mut impl Write, blocks: u64, lines: u64) -> io::Result<()> {
    write!(out, "\"chunks\":{blocks:COLUMNS$},\"lines\":{lines:COLUMNS$}")
}

/// Returns a line that says that the lines after the first `count` are left out.
fn left_out(count: u64, most: u64) -> String {
    let message =
        format!("the page ends here: it would have more than {most} bytes; print all lines with --format jsonl");
    serde_json::json!({ "sequence": count + 1, "event": "warning", "message": message }).to_string()
}

/// Returns a text as JSON within a script: its end, and the beginning of a comment, cannot be in it.
fn in_script(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('<', "\\u003c")
}

struct BlockWriter<'a, W> {
    out: &'a mut W,
    block: Vec<u8>,
    blocks: u64,
}

impl<W: Write> BlockWriter<'_, W> {
    fn add(&mut self, line: &str) -> io::Result<()> {
        self.block.extend_from_slice(line.as_bytes());
        self.block.push(b'\n');
        match self.block.len() >= limits::TRACE_BLOCK_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
        compressed.write_all(&mem::take(&mut self.block))?;
        let text = STANDARD.encode(compressed.finish()?);
        let number = self.blocks;
        self.blocks += 1;
        writeln!(self.out, "<script type=\"application/json+gzip-base64\" data-chunk=\"{number}\">{text}</script>")
    }

    /// Writes the rest, and returns the number of blocks.
    fn finish(mut self) -> io::Result<u64> {
        if !self.block.is_empty() {
            self.write()?;
        }
        Ok(self.blocks)
    }
}
