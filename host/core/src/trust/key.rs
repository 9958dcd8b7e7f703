use std::{fmt, io, path::PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::TrustError;
use crate::{
    error::without_number,
    files::{self, FileReadError},
    hex, limits,
};

/// A person's secret key, in a file that no project can reach. A text with its mark was made by this person. Clones use the
/// same file.
#[derive(Debug, Clone, Default)]
pub struct UserKey {
    /// `None`: nothing can be marked.
    path: Option<PathBuf>,
}

type UserKeyBytes = [u8; limits::OWN_KEY_BYTES];

impl UserKey {
    /// Returns the key in this file, which is created when the first text is marked.
    pub fn new(path: Option<PathBuf>) -> Self {
        Self { path }
    }

    /// Returns `true` if the key has a path.
    pub fn has_place(&self) -> bool {
        self.path.is_some()
    }

    /// Returns the mark of this text: HMAC-SHA-256 under the key, as `hmac-sha256:` and 64 hexadecimal digits. `what` names
    /// the kind of the text, so that a mark of one kind is not valid for another.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: the key has no path, or cannot be read or created.
    pub fn mark(&self, what: &str, text: &[u8]) -> Result<String, TrustError> {
        let key = match self.read()? {
            Some(key) => key,
            None => self.make()?,
        };
        let code = mark_mac(&key, what, text).finalize().into_bytes();
        Ok(format!("{MARK_PREFIX}{}", hex::encode(code)))
    }

    /// Returns `true` if this is the mark of the text. Without a key no mark is valid.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: the key cannot be read.
    pub fn has_marked(&self, what: &str, text: &[u8], given: &str) -> Result<bool, TrustError> {
        let Some(key) = self.read()? else { return Ok(false) };
        let code = given.strip_prefix(MARK_PREFIX).and_then(hex::decode_lower::<32>);
        Ok(code.is_some_and(|code| mark_mac(&key, what, text).verify_slice(&code).is_ok()))
    }

    /// Returns a key for one purpose, derived from the person's key; `None` if there is none yet. Not for embedders: only
    /// the crates below `host/` call it.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: the key cannot be read.
    #[doc(hidden)]
    pub fn derived(&self, purpose: &str) -> Result<Option<DerivedKey>, TrustError> {
        Ok(self.read()?.map(|key| DerivedKey::new(&key, purpose)))
    }

    /// Returns a key for one purpose, and creates the person's key if there is none yet.
    ///
    /// # Errors
    ///
    /// The errors of [`UserKey::mark`].
    #[doc(hidden)]
    pub fn derived_or_made(&self, purpose: &str) -> Result<DerivedKey, TrustError> {
        let key = match self.read()? {
            Some(key) => key,
            None => self.make()?,
        };
        Ok(DerivedKey::new(&key, purpose))
    }

    fn read(&self) -> Result<Option<UserKeyBytes>, TrustError> {
        let Some(path) = &self.path else { return Ok(None) };
        let unusable = |reason: String| TrustError::Key { path: path.clone(), reason };
        let folder = files::folder_of(path);
        let text = match files::read(path, folder, limits::OWN_KEY_FILE_BYTES) {
            Ok(text) => text,
            Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        };
        let key = hex::decode(text.trim_end())
            .ok_or_else(|| unusable("the file does not have 64 hexadecimal digits".into()))?;
        Ok(Some(key))
    }

    /// Creates the key. If several callers do so at once, all get the same one.
    fn make(&self) -> Result<UserKeyBytes, TrustError> {
        let Some(path) = &self.path else { return Err(TrustError::NoPlace) };
        let unusable = |reason: String| TrustError::Key { path: path.clone(), reason };
        let mut key = UserKeyBytes::default();
        getrandom::fill(&mut key).map_err(|error| unusable(error.to_string()))?;
        let made = files::create_private_folders(files::folder_of(path))
            .and_then(|()| files::create(path, format!("{}\n", hex::encode(key)).as_bytes()));
        match made {
            Ok(true) => Ok(key),
            Ok(false) => self.read()?.ok_or_else(|| unusable("the file was removed while it was being created".into())),
            Err(error) => Err(unusable(without_number(&error.to_string()))),
        }
    }
}

/// A key for one purpose, derived from a person's key, which it does not reveal.
#[derive(Clone)]
pub struct DerivedKey(HmacSha256);

impl DerivedKey {
    fn new(key: &UserKeyBytes, purpose: &str) -> Self {
        Self(new_mac(&feed(new_mac(key), &[b"derived", purpose.as_bytes()]).finalize().into_bytes()))
    }

    /// Returns the authentication code of these parts, one after the other.
    pub fn code(&self, parts: &[&[u8]]) -> [u8; 32] {
        feed(self.0.clone(), parts).finalize().into_bytes().into()
    }
}

impl fmt::Debug for DerivedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DerivedKey(***)")
    }
}

type HmacSha256 = Hmac<Sha256>;

/// The beginning of each mark.
const MARK_PREFIX: &str = "hmac-sha256:";

/// Returns the code of the mark of a text, not yet finalized.
fn mark_mac(key: &UserKeyBytes, what: &str, text: &[u8]) -> HmacSha256 {
    let length = (what.len() as u64).to_le_bytes();
    feed(new_mac(key), &[&length, what.as_bytes(), text])
}

fn new_mac(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("a key of any length is valid")
}

fn feed(mut mac: HmacSha256, parts: &[&[u8]]) -> HmacSha256 {
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn hmac_matches_rfc_4231() {
        for (key, text, digest) in [
            (vec![0x0b; 20], &b"Hi There"[..], "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (vec![0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            let hmac = |key: &[u8], parts: &[&[u8]]| feed(new_mac(key), parts).finalize().into_bytes();
            assert_eq!(hex::encode(hmac(&key, &[text])), digest);
            let (first, second) = text.split_at(3);
            assert_eq!(hex::encode(hmac(&key, &[first, second])), digest, "in two parts");
        }
    }

    #[test]
    fn mark_of_an_earlier_release_stays_valid() {
        let (_home, key, path) = key();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n").unwrap();
        let mark = "hmac-sha256:fdf8831d3b9a9080debe3174ae20580ec801650287abfb3a30b6af2a59549b21";
        assert!(key.has_marked("kind", b"text", mark).unwrap());
        assert_eq!(key.mark("kind", b"text").unwrap(), mark);
        let code = hex::decode("991bbe86ad58f96fd3f81c3b92ec75a69fc57715f4a1b8f69a8ebf41b94a6756").unwrap();
        let derived = key.derived("purpose").unwrap().unwrap();
        assert_eq!(derived.code(&[b"te", b"xt"]), code);
        assert!(!key.has_marked("kind", b"text", &mark.to_uppercase()).unwrap(), "a mark has one spelling");
    }

    fn key() -> (tempfile::TempDir, UserKey, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state/own.key");
        (home, UserKey::new(Some(path.clone())), path)
    }

    #[test]
    fn mark_is_valid_only_under_its_key_and_kind() {
        let (_home, key, path) = key();
        assert!(!key.has_marked("a", b"text", "").unwrap() && !path.exists(), "to look makes nothing");
        let mark = key.mark("a", b"text").unwrap();
        assert!(key.has_marked("a", b"text", &mark).unwrap());
        assert_eq!(key.mark("a", b"text").unwrap(), mark);
        for (what, text, given) in
            [("a", "texT", &*mark), ("at", "ext", &mark), ("a", "text", &mark[..70]), ("a", "text", "")]
        {
            assert!(!key.has_marked(what, text.as_bytes(), given).unwrap(), "{what} {text}");
        }
        let (_other_home, other, _) = self::key();
        other.mark("b", b"").unwrap();
        assert!(!other.has_marked("a", b"text", &mark).unwrap());
        let nowhere = UserKey::new(None);
        assert!(!nowhere.has_place() && !nowhere.has_marked("a", b"text", &mark).unwrap());
        assert!(matches!(nowhere.mark("a", b"text"), Err(TrustError::NoPlace)));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::remove_file(&path).unwrap();
        assert!(!key.has_marked("a", b"text", &mark).unwrap());
        assert_ne!(key.mark("a", b"text").unwrap(), mark, "a new key");
    }

    #[test]
    fn derived_keys_differ_by_purpose_and_person() {
        let (_home, key, path) = key();
        assert!(key.derived("a").unwrap().is_none() && !path.exists(), "to look makes nothing");
        let code = |key: &UserKey, purpose: &str| key.derived_or_made(purpose).unwrap().code(&[b"te", b"xt"]);
        let first = code(&key, "a");
        assert_eq!(key.derived("a").unwrap().unwrap().code(&[b"text"]), first);
        let (_other_home, other, _) = self::key();
        for another in [code(&key, "b"), code(&other, "a"), key.derived("a").unwrap().unwrap().code(&[b"texT"])] {
            assert_ne!(another, first);
        }
        assert!(matches!(UserKey::new(None).derived_or_made("a"), Err(TrustError::NoPlace)));
        assert_eq!(format!("{:?}", key.derived("a").unwrap().unwrap()), "DerivedKey(***)");
    }

    #[test]
    fn invalid_key_file_is_reported_and_left_unchanged() {
        let (_home, key, path) = key();
        key.mark("a", b"").unwrap();
        let long = "0".repeat(limits::OWN_KEY_FILE_BYTES as usize + 1);
        for text in ["", "0", &"g".repeat(64), &"é".repeat(32), &long] {
            fs::write(&path, text).unwrap();
            for error in [key.mark("a", b"").unwrap_err(), key.has_marked("a", b"", "").unwrap_err()] {
                let report = error.report();
                assert!(report.to_string().contains("own.key") && report.hint.is_some(), "{report}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn concurrent_key_creation_yields_one_key() {
        let (_home, key, _) = key();
        let marks: Vec<_> = std::thread::scope(|scope| {
            let mark = || key.mark("a", b"text").unwrap();
            let all: Vec<_> = (0..16).map(|_| scope.spawn(mark)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(marks.iter().all(|mark| *mark == marks[0]), "{marks:?}");
    }
}
