use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    chat::{Media, MediaData},
    limits,
    task::AttachedFile,
};

/// Returns a file whose content is base64, or a `data:` URL of it.
///
/// # Errors
///
/// The reason why it cannot be attached.
pub fn encoded_file(name: &str, content: &str) -> Result<AttachedFile, String> {
    let digits = match content.strip_prefix("data:").map(|rest| rest.split_once(',')) {
        None => content,
        Some(Some((kind, digits))) if kind.ends_with(";base64") => digits,
        Some(_) => return Err("the `data:` URL has no content in base64".into()),
    };
    let bytes = STANDARD.decode(digits.trim()).map_err(|error| format!("the content is not base64: {error}"))?;
    AttachedFile::of_bytes(name, bytes).map_err(|error| error.to_string())
}

/// Returns an image that a client names by a `data:` URL or an address. The host never fetches the address: the vendor
/// of the model does, if it takes one.
///
/// # Errors
///
/// The reason why it cannot be attached.
pub fn image(name: &str, url: &str) -> Result<AttachedFile, String> {
    if url.starts_with("data:") {
        return match encoded_file(name, url)? {
            media @ AttachedFile::Media(_) => Ok(media),
            AttachedFile::Text { .. } => Err("the content is neither a PNG, JPEG, GIF or WebP image nor a PDF".into()),
        };
    }
    if !url.starts_with("https://") {
        return Err("an image is a `data:` URL or an address with https://".into());
    }
    if url.len() > limits::SERVE_IMAGE_ADDRESS_BYTES {
        return Err(format!("the address has more than {} bytes", limits::SERVE_IMAGE_ADDRESS_BYTES));
    }
    let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let known = [(".png", "image/png"), (".gif", "image/gif"), (".webp", "image/webp")];
    let media_type = known.iter().find(|(ending, _)| path.ends_with(ending)).map_or("image/jpeg", |(_, kind)| *kind);
    let source = MediaData::Url(url.to_owned());
    Ok(AttachedFile::Media(Media { media_type: media_type.into(), name: Some(name.to_owned()), source }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &str = "iVBORw0KGgo=";

    #[test]
    fn encoded_content_is_recognized() {
        for (content, expected) in [
            (PNG.to_owned(), Ok(Some("image/png"))),
            (format!("data:image/jpeg;base64,{PNG}"), Ok(Some("image/png"))),
            ("data:text/plain;base64,aGk=".into(), Ok(None)),
            ("aGk=".into(), Ok(None)),
            ("data:text/plain,hi".into(), Err("the `data:` URL has no content")),
            ("data:".into(), Err("the `data:` URL has no content")),
            ("%%".into(), Err("the content is not base64")),
            (STANDARD.encode([0, 255]), Err("the file is neither UTF-8 text")),
        ] {
            match (encoded_file("a", &content), expected) {
                (Ok(AttachedFile::Media(media)), Ok(Some(kind))) => assert_eq!(media.media_type, kind, "{content}"),
                (Ok(AttachedFile::Text { name, text }), Ok(None)) => assert_eq!((&*name, &*text), ("a", "hi")),
                (Err(why), Err(begins)) => assert!(why.starts_with(begins), "{content}: {why}"),
                (file, _) => panic!("{content}: {file:?}"),
            }
        }
    }

    #[test]
    fn image_is_content_or_an_address() {
        let address = |url: &str| match image("i", url).unwrap() {
            AttachedFile::Media(Media { media_type, source: MediaData::Url(there), .. }) => {
                assert_eq!(there, url);
                media_type
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(address("https://example.com/a.PNG?size=2"), "image/png");
        assert_eq!(address("https://example.com/a"), "image/jpeg");
        assert!(image("i", &format!("data:image/png;base64,{PNG}")).is_ok());
        let long = format!("https://example.com/{}", "a".repeat(limits::SERVE_IMAGE_ADDRESS_BYTES));
        for wrong in ["http://example.com/a.png", "file:///etc/passwd", "a.png", "data:text/plain;base64,aGk=", &long] {
            assert!(image("i", wrong).is_err(), "{}", &wrong[..20.min(wrong.len())]);
        }
    }
}
