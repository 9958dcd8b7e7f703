use std::{io::Read, path::Path, sync::Arc};

use super::marked_text;
use crate::{
    chat::{Media, MediaData, Part},
    error::{ErrorKind, Report, cut, legible, why_unreadable},
    files, limits,
};

/// A file that is attached to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachedFile {
    /// UTF-8 text, which becomes a part of the task's text, between marks.
    Text {
        /// The file's name.
        name: String,
        /// The content.
        text: String,
    },
    /// An image or a PDF. A model that takes none is told its name and size.
    Media(Media),
}

/// The reason why a content cannot be attached to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachedFileError {
    /// The content has more than this number of bytes.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// The content is in no format that a model can be given.
    #[error("the file is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image nor a PDF")]
    Unsupported,
}

impl AttachedFile {
    /// Returns the size of a file in bytes, without reading it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such file, or it is too large to be attached.
    pub fn size(path: &Path) -> Result<u64, Report> {
        // Opening checks that the file may be read, and that it is no pipe, which would block.
        let bytes = files::open(path).and_then(|file| file.metadata()).map_err(|error| unreadable(path, &error))?.len();
        match bytes > limits::ATTACHED_MEDIA_BYTES {
            true => Err(too_large(path, limits::ATTACHED_MEDIA_BYTES)),
            false => Ok(bytes),
        }
    }

    /// Returns the size of all files of one task in bytes, without reading them.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such file, or the files are too many or too large to be attached together.
    pub fn total_size(paths: &[impl AsRef<Path>]) -> Result<u64, Report> {
        if paths.len() > limits::TASK_ATTACHMENTS {
            let what = format!("{} attached files, the maximum is {}", paths.len(), limits::TASK_ATTACHMENTS);
            return Err(too_much(what));
        }
        let mut total = 0;
        for path in paths {
            total += Self::size(path.as_ref())?;
            if total > limits::TASK_ATTACHED_BYTES {
                return Err(too_much(format!(
                    "the attached files have more than {} bytes",
                    limits::TASK_ATTACHED_BYTES
                )));
            }
        }
        Ok(total)
    }

    /// Reads all files of one task.
    ///
    /// # Errors
    ///
    /// A [`Report`] if one of the files cannot be attached, or they cannot be attached together.
    pub fn read_all(paths: &[impl AsRef<Path>]) -> Result<Vec<Self>, Report> {
        Self::total_size(paths)?;
        paths.iter().map(|path| Self::read(path.as_ref())).collect()
    }

    /// Reads a file. Images and PDFs are recognized by their content, whatever their name is.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the file cannot be read, is too large, or is neither text nor an image nor a PDF.
    pub fn read(path: &Path) -> Result<Self, Report> {
        let mut bytes = Vec::new();
        let read = files::open(path)
            .and_then(|file| file.take(limits::ATTACHED_MEDIA_BYTES.saturating_add(1)).read_to_end(&mut bytes));
        read.map_err(|error| unreadable(path, &error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self::of_bytes(&name, bytes).map_err(|error| match error {
            AttachedFileError::TooLarge(most) => too_large(path, most),
            AttachedFileError::Unsupported => {
                cannot(path).cause(error).hint("convert the file to one of these formats")
            }
        })
    }

    /// Returns an image or a PDF with this content, by which it is recognized; `None` for any other content.
    pub fn media(name: Option<String>, bytes: Arc<[u8]>) -> Option<Self> {
        let media_type = media_type(&bytes)?.into();
        Some(Self::Media(Media { media_type, name, source: MediaData::Bytes(bytes) }))
    }

    /// Returns a file with this name and content. Images and PDFs are recognized by their content.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be attached.
    pub fn of_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, AttachedFileError> {
        let name = cut(&legible(name), limits::NAME_SHOWN_CHARS);
        let check = |bytes: usize, most: u64| match bytes as u64 > most {
            true => Err(AttachedFileError::TooLarge(most)),
            false => Ok(()),
        };
        check(bytes.len(), limits::ATTACHED_MEDIA_BYTES)?;
        if let Some(media_type) = media_type(&bytes) {
            let source = MediaData::Bytes(Arc::from(bytes));
            return Ok(Self::Media(Media { media_type: media_type.into(), name: Some(name), source }));
        }
        let text = String::from_utf8(bytes).map_err(|_| AttachedFileError::Unsupported)?;
        check(text.len(), limits::ATTACHED_TEXT_BYTES)?;
        match text.contains('\0') {
            true => Err(AttachedFileError::Unsupported),
            false => Ok(Self::Text { name, text }),
        }
    }

    /// Returns the size of the content in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text, .. } => text.len(),
            Self::Media(media) => media.bytes(),
        }
    }

    /// Adds the file to the parts of a message, or to its text.
    pub(super) fn add_to(self, parts: &mut Vec<Part>, text: &mut String) {
        match self {
            Self::Media(media) => parts.push(Part::Media(media)),
            Self::Text { name, text: content } => {
                let what_it_is = format!("is the content of the file `{name}`");
                text.push_str("\n\n");
                text.push_str(&marked_text("attached_file", &what_it_is, &content));
            }
        }
    }
}

/// Returns the media type of a file that begins with these bytes, if vendors take files of that type.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'%', b'P', b'D', b'F', b'-', ..] => "application/pdf",
        _ => return None,
    })
}

fn cannot(path: &Path) -> Report {
    Report::new(ErrorKind::Usage, format!("cannot attach {}", legible(&path.display().to_string())))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Report {
    cannot(path).cause(why_unreadable(error)).hint("correct the path, or the permissions of the file")
}

/// Reports files that cannot be attached to one task together.
fn too_much(what: String) -> Report {
    let hint = "attach less, split the task, or grant the agent the toolbox `filesystem`, with which it reads files";
    Report::new(ErrorKind::Usage, what).hint(hint)
}

fn too_large(path: &Path, most: u64) -> Report {
    let report = cannot(path).cause(format!("larger than {most} bytes"));
    report.hint("attach a part of it, or grant the agent a plugin that reads files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_files_are_bounded_together() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            path
        };
        let half = file("half", limits::TASK_ATTACHED_BYTES / 2);
        let (small, none) = (file("small", 1), folder.path().join("none"));
        assert_eq!(AttachedFile::total_size(&[&half, &half]), Ok(limits::TASK_ATTACHED_BYTES));
        let refused = |paths: &[&std::path::PathBuf]| AttachedFile::read_all(paths).unwrap_err();
        assert!(refused(&[&half, &half, &small]).message.ends_with("more than 67108864 bytes"));
        assert_eq!(
            refused(&vec![&small; limits::TASK_ATTACHMENTS + 1]).message,
            "101 attached files, the maximum is 100"
        );
        assert!(refused(&[&small, &none]).hint.is_some());
        assert_eq!(AttachedFile::total_size(&[] as &[&Path]), Ok(0));
    }

    #[test]
    fn attached_files_are_recognized_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(AttachedFile::size(&path), Ok(bytes.len() as u64));
            AttachedFile::read(&path)
        };
        for (bytes, media_type) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], "image/png"),
            (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
            (b"GIF89arest", "image/gif"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
            (b"%PDF-1.7\nrest", "application/pdf"),
        ] {
            let attached = read("a.txt", bytes).unwrap();
            let AttachedFile::Media(media) = &attached else { panic!("{attached:?}") };
            assert_eq!((media.media_type.as_str(), media.name.as_deref()), (media_type, Some("a.txt")));
            assert_eq!(attached.bytes(), bytes.len());
        }
        let text = read("b\u{202e}.png", "é\n".as_bytes()).unwrap();
        assert_eq!(text, AttachedFile::Text { name: "b\\u{202e}.png".into(), text: "é\n".into() });
        for bytes in [&b"\xff\xfe"[..], b"a\0b"] {
            let report = read("c.bin", bytes).unwrap_err();
            assert!(report.to_string().contains("c.bin: the file is neither UTF-8 text nor a PNG"), "{report}");
        }
    }

    #[test]
    fn missing_or_too_large_attachment_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.txt");
        let most = usize::try_from(limits::ATTACHED_TEXT_BYTES).unwrap();
        for (bytes, fits) in [(most, true), (most + 1, false)] {
            std::fs::write(&path, "a".repeat(bytes)).unwrap();
            assert_eq!(AttachedFile::read(&path).is_ok(), fits, "{bytes}");
        }
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(limits::ATTACHED_MEDIA_BYTES + 1).unwrap();
        for path in [path, folder.path().join("none"), folder.path().to_owned()] {
            let (size, read) = (AttachedFile::size(&path).unwrap_err(), AttachedFile::read(&path).unwrap_err());
            assert!(size.to_string().starts_with("cannot attach ") && size.hint.is_some(), "{size}");
            assert_eq!(size, read);
        }
    }
}
