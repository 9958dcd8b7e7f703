//! Tools for hashes and encodings. `hash` computes digests of texts and of files of granted folders, which are read piece
//! by piece. `encode` and `decode` support base64, base64url, base32, hex, percent encoding and HTML entities.
//!
//! Bounds: 4 GiB a file; the host bounds the time of a call. md5, sha1 and crc32 exist for comparison with digests that
//! others have computed: they protect only against accidents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints, fs::File};

mod digest;
mod forms;

use digest::{Algorithm, Hasher};
use forms::Form;

shelly_plugin::export!(tools: [Hash, Encode, Decode]);

/// The maximum size of a file in bytes.
const MAX_FILE: u64 = 4 << 30;

/// The number of bytes that are read at once.
const CHUNK: u64 = 1 << 20;

struct Hash;

#[derive(Deserialize, JsonSchema)]
struct HashArgs {
    /// The text, which is hashed as UTF-8. Either this or `path`.
    text: Option<String>,
    /// The file. Either this or `text`.
    path: Option<String>,
    /// sha256 if left out.
    algorithm: Option<Algorithm>,
}

#[derive(Serialize, Debug, PartialEq)]
struct Hashed {
    algorithm: Algorithm,
    hex: String,
    bytes: u64,
}

impl Tool for Hash {
    const NAME: &'static str = "hash";
    const DESCRIPTION: &'static str =
        "Computes the hash of a text or a file: sha256, sha512, sha1, md5, blake3, crc32.";
    const HINTS: ToolHints = ToolHints::all();
    type Args = HashArgs;

    fn call(args: HashArgs, call: &Call) -> Result<Reply, Error> {
        let algorithm = args.algorithm.unwrap_or_default();
        let hashed = match (&args.text, &args.path) {
            (Some(text), None) => of_text(text, algorithm),
            (None, Some(path)) => of_file(path, algorithm, call)?,
            _ => return Err(Error::Invalid("pass either `text` or `path`".to_owned())),
        };
        Reply::json(&hashed)
    }
}

fn of_text(text: &str, algorithm: Algorithm) -> Hashed {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(text.as_bytes());
    Hashed { algorithm, hex: hasher.hex(), bytes: text.len() as u64 }
}

fn of_file(path: &str, algorithm: Algorithm, call: &Call) -> Result<Hashed, Error> {
    let file = File::open(path)?;
    let size = file.metadata()?.size;
    let mut hasher = Hasher::new(algorithm);
    let mut bytes = 0;
    loop {
        let chunk = file.read_at(bytes, CHUNK)?;
        if chunk.is_empty() {
            return Ok(Hashed { algorithm, hex: hasher.hex(), bytes });
        }
        hasher.update(&chunk);
        bytes += chunk.len() as u64;
        if bytes > MAX_FILE {
            return Err(Error::TooLarge(format!("`{path}` has more than {MAX_FILE} bytes, which is the maximum")));
        }
        call.progress(bytes as f64, Some(size.max(bytes) as f64), None);
    }
}

struct Encode;

#[derive(Deserialize, JsonSchema)]
struct EncodeArgs {
    /// The text, which is encoded as UTF-8.
    text: String,
    /// The encoding.
    encoding: Form,
}

impl Tool for Encode {
    const NAME: &'static str = "encode";
    const DESCRIPTION: &'static str =
        "Encodes a text: base64, base64url (without padding), base32, hex, percent (for URLs), html (entities).";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = EncodeArgs;

    fn call(args: EncodeArgs, _call: &Call) -> Result<Reply, Error> {
        Ok(args.encoding.encode(&args.text).into())
    }
}

struct Decode;

#[derive(Deserialize, JsonSchema)]
struct DecodeArgs {
    /// The encoded text.
    text: String,
    /// The encoding.
    encoding: Form,
    /// True to return the bytes in hex, for bytes that are not text.
    as_hex: Option<bool>,
}

impl Tool for Decode {
    const NAME: &'static str = "decode";
    const DESCRIPTION: &'static str =
        "Decodes to a text: base64, base64url, base32 (each with or without padding), hex, percent, html.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = DecodeArgs;

    fn call(args: DecodeArgs, _call: &Call) -> Result<Reply, Error> {
        decode(&args).map(Reply::from)
    }
}

fn decode(args: &DecodeArgs) -> Result<String, Error> {
    let bytes = args.encoding.decode(&args.text).map_err(|cause| Error::Invalid(format!("`text`: {cause}")))?;
    if args.as_hex == Some(true) {
        return Ok(Form::Hex.encode(&bytes));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::Invalid(format!("the decoded bytes are not text: byte {at} is not UTF-8; set `as_hex`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str, encoding: Form) -> Result<String, Error> {
        decode(&DecodeArgs { text: text.into(), encoding, as_hex: None })
    }

    #[test]
    fn text_hashes_match_published_test_vectors() {
        // The digests are those of the authors of the algorithms, and of `sha256sum` and the like.
        for (algorithm, of_nothing, of_abc) in [
            (
                Algorithm::Sha256,
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (Algorithm::Sha1, "da39a3ee5e6b4b0d3255bfef95601890afd80709", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (Algorithm::Md5, "d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72"),
            (Algorithm::Crc32, "00000000", "352441c2"),
            (
                Algorithm::Blake3,
                "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
        ] {
            assert_eq!(of_text("", algorithm).hex, of_nothing, "{algorithm:?}");
            assert_eq!(of_text("abc", algorithm).hex, of_abc, "{algorithm:?}");
        }
        let long = of_text("abc", Algorithm::Sha512);
        assert!(long.hex.starts_with("ddaf35a193617abacc417349ae204131") && long.hex.len() == 128 && long.bytes == 3);
    }

    #[test]
    fn encodings_round_trip() {
        for (form, text, encoded) in [
            (Form::Base64, "a?~ü", "YT9+w7w="),
            (Form::Base64url, "a?~ü>", "YT9-w7w-"),
            (Form::Base32, "foob", "MZXW6YQ="),
            (Form::Hex, "ü\n", "c3bc0a"),
            (Form::Percent, "a b&c=ü/~", "a%20b%26c%3D%C3%BC%2F~"),
            (Form::Html, "<a href=\"x\">'&'</a>", "&lt;a href=&quot;x&quot;&gt;&#x27;&amp;&#x27;&lt;&#x2F;a&gt;"),
        ] {
            assert_eq!(form.encode(text), encoded, "{form:?}");
            assert_eq!(decoded(encoded, form).as_deref(), Ok(text), "{form:?}");
            assert_eq!((form.encode("").as_str(), decoded("", form).as_deref()), ("", Ok("")), "{form:?}");
        }
    }

    #[test]
    fn decoding_accepts_variants_of_other_encoders() {
        for (form, encoded, text) in [
            (Form::Base64, "YT9-\nw7w", "a?~ü"),
            (Form::Base64url, "YT9+w7w=", "a?~ü"),
            (Form::Base32, "mzxw 6yq", "foob"),
            (Form::Hex, "0xC3 BC", "ü"),
            (Form::Percent, "a+b%20c%zz", "a+b c%zz"),
            (Form::Html, "&nbsp;&euro;&#65;&unknown;", "\u{a0}€A&unknown;"),
        ] {
            assert_eq!(decoded(encoded, form).as_deref(), Ok(text), "{encoded}");
        }
    }

    #[test]
    fn invalid_encoding_is_refused_with_its_byte_position() {
        for (form, text, says) in [
            (Form::Base64, "YT*=", "at byte 2"),
            (Form::Base64, "Y", "at byte 0"),
            (Form::Base32, "M1", "at byte 1"),
            (Form::Hex, "c3b", "at byte 2"),
            (Form::Hex, "zz", "at byte 0"),
            (Form::Hex, "ff", "set `as_hex`"),
            (Form::Percent, "%ff", "byte 0 is not UTF-8"),
        ] {
            let told = decoded(text, form).unwrap_err();
            assert!(matches!(&told, Error::Invalid(message) if message.contains(says)), "{text}: {told:?}");
        }
        let hex = decode(&DecodeArgs { text: "/wA=".into(), encoding: Form::Base64, as_hex: Some(true) });
        assert_eq!(hex.as_deref(), Ok("ff00"));
    }
}
