use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
};

/// The lines of a file, read one by one.
pub(super) struct BoundedLines {
    reader: BufReader<File>,
    most: usize,
    number: u64,
    at: u64,
}

/// A line of a file, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileLine {
    /// Its number, from 1.
    pub number: u64,
    /// The offset of its first byte.
    pub start: u64,
    /// Its content; at most one byte more than the bound.
    pub bytes: Vec<u8>,
    /// `true` if a line break follows.
    pub is_ended: bool,
    /// `true` if it has more bytes than the bound. Nothing can be read after such a line.
    pub is_too_long: bool,
}

impl BoundedLines {
    /// Reads lines of at most `most` bytes from the beginning of the file.
    pub fn new(file: File, most: usize) -> Self {
        Self { reader: BufReader::new(file), most, number: 0, at: 0 }
    }

    /// Returns the next line; `None` at the end of the file.
    pub fn next(&mut self) -> io::Result<Option<FileLine>> {
        let (start, mut bytes) = (self.at, Vec::new());
        let read = (&mut self.reader).take(self.most as u64 + 1).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.at += read as u64;
        self.number += 1;
        let is_ended = bytes.last() == Some(&b'\n');
        if is_ended {
            bytes.pop();
        }
        let is_too_long = !is_ended && bytes.len() > self.most;
        Ok(Some(FileLine { number: self.number, start, bytes, is_ended, is_too_long }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn lines_are_read_up_to_the_bound() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abcd\n\nab\r\nabcd").unwrap();
        file.rewind().unwrap();
        let mut lines = BoundedLines::new(file.try_clone().unwrap(), 4);
        let mut next = || lines.next().unwrap().map(|line| (line.number, line.start, line.bytes, line.is_ended));
        assert_eq!(next(), Some((1, 0, b"abcd".to_vec(), true)));
        assert_eq!(next(), Some((2, 5, vec![], true)));
        assert_eq!(next(), Some((3, 6, b"ab\r".to_vec(), true)));
        assert_eq!(next(), Some((4, 10, b"abcd".to_vec(), false)));
        assert_eq!(next(), None);
        file.rewind().unwrap();
        let line = BoundedLines::new(file, 3).next().unwrap().unwrap();
        assert!(line.is_too_long && line.bytes.len() == 4 && line.number == 1, "{line:?}");
    }
}
