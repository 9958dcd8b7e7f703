//! Detection of a file's type by its bytes.

/// The type of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// UTF-8 text.
    Text,
    /// Media that a model can be shown, by its media type.
    Media(&'static str),
    /// Text that is not UTF-8, with the position of its first wrong byte and the line of that byte, from 1.
    OtherText { at: usize, line: usize },
    /// Any other content, described in words.
    Binary(&'static str),
}

/// The known types of files: offset, magic bytes, and type.
const KNOWN: &[(usize, &[u8], Holds)] = &[
    (0, b"\x89PNG\r\n\x1a\n", Holds::Media("image/png")),
    (0, b"\xff\xd8\xff", Holds::Media("image/jpeg")),
    (0, b"GIF87a", Holds::Media("image/gif")),
    (0, b"GIF89a", Holds::Media("image/gif")),
    (8, b"WEBPVP8", Holds::Media("image/webp")),
    (0, b"%PDF-", Holds::Media("application/pdf")),
    (8, b"WAVE", Holds::Binary("a WAV sound")),
    (8, b"AVI ", Holds::Binary("an AVI video")),
    (4, b"ftyp", Holds::Binary("an MP4 video or a picture of that family")),
    (0, b"OggS", Holds::Binary("an Ogg sound or video")),
    (0, b"ID3", Holds::Binary("an MP3 sound")),
    (0, b"fLaC", Holds::Binary("a FLAC sound")),
    (0, b"\x1aE\xdf\xa3", Holds::Binary("a Matroska video")),
    (0, b"II*\0", Holds::Binary("a TIFF picture")),
    (0, b"MM\0*", Holds::Binary("a TIFF picture")),
    (0, b"\0\0\x01\0", Holds::Binary("an icon")),
    (0, b"PK\x03\x04", Holds::Binary("a ZIP archive, or an office document or package of that format")),
    (0, b"PK\x05\x06", Holds::Binary("an empty ZIP archive")),
    (0, b"\x1f\x8b", Holds::Binary("gzip data")),
    (0, b"BZh", Holds::Binary("bzip2 data")),
    (0, b"\xfd7zXZ\0", Holds::Binary("xz data")),
    (0, b"\x28\xb5\x2f\xfd", Holds::Binary("Zstandard data")),
    (0, b"7z\xbc\xaf\x27\x1c", Holds::Binary("a 7z archive")),
    (0, b"Rar!\x1a\x07", Holds::Binary("a RAR archive")),
    (257, b"ustar", Holds::Binary("a tar archive")),
    (0, b"\x7fELF", Holds::Binary("an ELF program or library")),
    (0, b"\xcf\xfa\xed\xfe", Holds::Binary("a Mach-O program or library")),
    (0, b"\xca\xfe\xba\xbe", Holds::Binary("a Java class or a Mach-O program")),
    (0, b"\0asm", Holds::Binary("a WebAssembly module or component")),
    (0, b"SQLite format 3\0", Holds::Binary("an SQLite database")),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Holds::Binary("an office document of the old format")),
    (0, b"wOFF", Holds::Binary("a web font")),
    (0, b"wOF2", Holds::Binary("a web font")),
    (0, b"\0\x01\0\0\0", Holds::Binary("a font")),
];

/// The known types whose magic bytes may also begin a text. A file is a text if it is UTF-8 without a zero byte.
const ONLY_IF_NO_TEXT: &[(usize, &[u8], Holds)] = &[
    (0, b"MZ", Holds::Binary("a Windows program or library")),
    (0, b"BM", Holds::Binary("a BMP picture")),
    (0, b"\xff\xfe", Holds::Binary("UTF-16 text, which must be converted to UTF-8 first")),
    (0, b"\xfe\xff", Holds::Binary("UTF-16 text, which must be converted to UTF-8 first")),
];

/// Determines the type of a file from its first bytes. The last character may be cut.
pub(crate) fn begins(bytes: &[u8]) -> Holds {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => holds(&bytes[..error.valid_up_to()]),
        _ => holds(bytes),
    }
}

/// Determines the type of a file from all of its bytes.
pub(crate) fn holds(bytes: &[u8]) -> Holds {
    // A text may begin with magic bytes (`ID3 tags are …`) and is still a text. A PDF may be pure ASCII and is not a
    // text.
    let has_zero = bytes.contains(&0);
    let not_utf8 = std::str::from_utf8(bytes).err();
    match known(bytes, KNOWN) {
        Some(media @ Holds::Media(_)) => return media,
        Some(binary) if has_zero || not_utf8.is_some() => return binary,
        _ => {}
    }
    let Some(error) = not_utf8.filter(|_| !has_zero) else {
        return match has_zero {
            true => known(bytes, ONLY_IF_NO_TEXT).unwrap_or(Holds::Binary("a binary file")),
            false => Holds::Text,
        };
    };
    let at = error.valid_up_to();
    let odd = bytes.iter().filter(|byte| **byte < 0x20 && !byte.is_ascii_whitespace() && **byte != 0x1b).count();
    match known(bytes, ONLY_IF_NO_TEXT) {
        Some(binary) => binary,
        // Text has few control characters, whatever its encoding.
        None if odd * 100 > bytes.len() => Holds::Binary("a binary file"),
        None => Holds::OtherText { at, line: 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count() },
    }
}

fn known(bytes: &[u8], table: &'static [(usize, &[u8], Holds)]) -> Option<Holds> {
    let found = table.iter().find(|(at, magic, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    found.map(|(_, _, holds)| *holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_types_are_detected_from_content() {
        let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
        let cases: [(&[u8], Holds); 20] = [
            (b"", Holds::Text),
            (b"plain\n", Holds::Text),
            ("\u{feff}Ünï\r\n".as_bytes(), Holds::Text),
            (b"\x1b[31mred\x1b[0m", Holds::Text),
            (b"BMW is a make of cars", Holds::Text),
            (b"ID3 tags are found in sounds", Holds::Text),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", Holds::Text),
            (b"\x89PNG\r\n\x1a\n\0\0", Holds::Media("image/png")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Holds::Media("image/webp")),
            (b"%PDF-1.7\n", Holds::Media("application/pdf")),
            (b"ID3\x04\0", Holds::Binary("an MP3 sound")),
            (b"BM\x10\0\0", Holds::Binary("a BMP picture")),
            (b"\x7fELF\x02\x01", Holds::Text),
            (b"\x7fELF\x02\x01\0", Holds::Binary("an ELF program or library")),
            (b"PK\x03\x04\x14\0", Holds::Binary("a ZIP archive, or an office document or package of that format")),
            (b"\xff\xfeh\0i\0", Holds::Binary("UTF-16 text, which must be converted to UTF-8 first")),
            (b"text with a \0 in it", Holds::Binary("a binary file")),
            (b"gr\xfc\xdf\ne", Holds::OtherText { at: 2, line: 1 }),
            (b"a\nb\nna\xefve", Holds::OtherText { at: 6, line: 3 }),
            (b"\x01\x02\x03\xff\x04", Holds::Binary("a binary file")),
        ];
        for (bytes, expected) in cases {
            assert_eq!(holds(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(begins("BM ü".as_bytes().split_last().unwrap().1), Holds::Text);
        assert_eq!(begins(b"BM\xc3\x28"), Holds::Binary("a BMP picture"));
        assert_eq!(holds(&tar), Holds::Binary("a tar archive"));
    }
}
