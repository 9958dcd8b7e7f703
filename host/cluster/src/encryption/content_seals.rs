//! Seals values before they are stored, and opens them.

use std::fmt;

use bytes::Bytes;
use ring::aead::{Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce};
use shelly_core::{hex, limits};

use super::content_key::ContentKey;
use crate::{cluster_error::ClusterError, cluster_options::ClusterOptions, seal_error::SealError};

/// The beginning of a sealed value, which no text and no value of this program has, and the version of its form.
const MAGIC: [u8; 7] = [0xff, b's', b'e', b'a', b'l', 0xfe, 0x00];
const VERSION: u8 = 1;
/// The bytes of a key's id, and of the random part that makes each message's key another one.
const ID_BYTES: usize = 8;
const SALT_BYTES: usize = 24;
/// The bytes before the content.
const HEAD: usize = MAGIC.len() + 1 + ID_BYTES + SALT_BYTES;
/// The bytes after the content.
const TAG_BYTES: usize = 16;

/// The end of a sealed message, by which the next one names it.
pub(crate) type SealTag = [u8; TAG_BYTES];

/// The tag that the first message of a subject names, and one that follows plain messages.
pub(crate) const NO_TAG: SealTag = [0; TAG_BYTES];

/// Kinds of places. The same bytes at places of two kinds do not open at the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealKind {
    /// The entry of a session; the name is its key.
    Session,
    /// A message of a journal, of recorded events, or of an attachment; the name is the subject.
    Message,
    /// The entry of a run; the name is its id.
    Run,
    /// A value of a bucket of shared state; the name is the bucket and the key.
    State,
    /// An object; the name is its digest.
    Object,
    /// A command to a run; the name is the run's id.
    Command,
    /// The reply to a command; the position is the command's tag.
    Reply,
    /// A live event of a run.
    Event,
}

impl SealKind {
    fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Message => "message",
            Self::Run => "run",
            Self::State => "state",
            Self::Object => "object",
            Self::Command => "command",
            Self::Reply => "reply",
            Self::Event => "event",
        }
    }
}

/// The place of a value. A value opens at its own place alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SealPlace<'a> {
    pub kind: SealKind,
    pub name: &'a str,
    /// More about the place, such as the offset in a journal.
    pub position: &'a [u8],
}

impl<'a> SealPlace<'a> {
    /// Returns the place of a value that has none but its name.
    pub fn new(kind: SealKind, name: &'a str) -> Self {
        Self { kind, name, position: &[] }
    }

    /// Returns the words for this place in errors.
    fn what(&self) -> String {
        let name = self.name;
        match self.kind {
            SealKind::Session => format!("the entry of session {name}"),
            SealKind::Message => format!("a message of {name}"),
            SealKind::Run => format!("the entry of run {name}"),
            SealKind::State => format!("the value {name}"),
            SealKind::Object => format!("the object {name}"),
            SealKind::Command => format!("a command to run {name}"),
            SealKind::Reply => format!("the reply of run {name}"),
            SealKind::Event => format!("an event of run {name}"),
        }
    }
}

/// The keys of a host for the content of a namespace; none: content is plain.
pub(crate) struct ContentSeals {
    namespace: String,
    /// The first one seals, all open.
    keys: Vec<ContentKey>,
    accepts_plain: bool,
}

impl ContentSeals {
    /// Reads the keys that the options name.
    pub fn load(options: &ClusterOptions) -> Result<Self, ClusterError> {
        let namespace = options.namespace.clone();
        let Some(encryption) = &options.encryption else {
            return Ok(Self { namespace, keys: Vec::new(), accepts_plain: true });
        };
        if encryption.old_keys.len() >= limits::CLUSTER_KEYS {
            let reason = format!("there are more than {} keys", limits::CLUSTER_KEYS);
            return Err(ClusterError::KeyFile { path: encryption.key.display().to_string(), reason });
        }
        let paths = std::iter::once(&encryption.key).chain(&encryption.old_keys);
        let keys = paths.map(|path| ContentKey::read(path)).collect::<Result<_, _>>()?;
        Ok(Self { namespace, keys, accepts_plain: encryption.accept_plain })
    }

    /// Returns `true` if what is written is sealed.
    pub fn is_on(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Seals a value for its place; without a key it stays plain.
    ///
    /// Each message has a key of its own, derived from 192 random bits and the place. So no two messages share a nonce,
    /// however many there are.
    pub fn seal(&self, place: SealPlace<'_>, plain: Bytes) -> Result<Bytes, SealError> {
        let Some(key) = self.keys.first() else { return Ok(plain) };
        let failed = || SealError::Failed { what: place.what() };
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|_| failed())?;
        let message_key = self.message_key(key, place, &salt).ok_or_else(failed)?;
        let mut sealed = Vec::with_capacity(HEAD + plain.len() + TAG_BYTES);
        sealed.extend_from_slice(&MAGIC);
        sealed.push(VERSION);
        sealed.extend_from_slice(key.id_bytes());
        sealed.extend_from_slice(&salt);
        let aad = Aad::from([&sealed[..], place.position].concat());
        sealed.extend_from_slice(&plain);
        let tag =
            message_key.seal_in_place_separate_tag(only_nonce(), aad, &mut sealed[HEAD..]).map_err(|_| failed())?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed.into())
    }

    /// Opens a value that is sealed, or returns one that is plain if that is accepted.
    pub fn open(&self, place: SealPlace<'_>, value: &Bytes) -> Result<Bytes, SealError> {
        match Self::is_sealed(value) {
            true => self.open_sealed(place, value),
            false => self.check_plain(place).map(|()| value.clone()),
        }
    }

    /// Checks that plain content is accepted.
    pub fn check_plain(&self, place: SealPlace<'_>) -> Result<(), SealError> {
        match self.is_on() && !self.accepts_plain {
            true => Err(SealError::Plain { what: place.what() }),
            false => Ok(()),
        }
    }

    /// Opens a value that must be sealed.
    pub fn open_sealed(&self, place: SealPlace<'_>, value: &Bytes) -> Result<Bytes, SealError> {
        let changed = |key: &str| SealError::Changed { what: place.what(), key: key.to_owned() };
        let unknown = || changed("that it names");
        let version = *value.get(MAGIC.len()).filter(|_| Self::is_sealed(value)).ok_or_else(unknown)?;
        if version != VERSION {
            return Err(SealError::Newer { what: place.what(), version });
        }
        let (Some(head), Some(sealed)) = (value.get(..HEAD), value.get(HEAD..)) else { return Err(unknown()) };
        let (id, salt) = head[MAGIC.len() + 1..].split_at(ID_BYTES);
        let shown = hex::encode(id);
        let no_key = || SealError::NoKey { what: place.what(), key: shown.clone() };
        let key = self.keys.iter().find(|key| key.id_bytes() == id).ok_or_else(no_key)?;
        let message_key = self.message_key(key, place, salt).ok_or_else(|| changed(&shown))?;
        let aad = Aad::from([head, place.position].concat());
        let mut plain = sealed.to_vec();
        let opened = message_key.open_in_place(only_nonce(), aad, &mut plain).map_err(|_| changed(&shown))?;
        let length = opened.len();
        plain.truncate(length);
        Ok(plain.into())
    }

    /// Returns `true` if a value begins as a sealed one.
    pub fn is_sealed(value: &[u8]) -> bool {
        value.starts_with(&MAGIC)
    }

    /// Returns the tag of a message: that of a sealed one is different for each.
    pub fn tag_of(value: &[u8]) -> SealTag {
        let tag = value.last_chunk().filter(|_| Self::is_sealed(value));
        tag.copied().unwrap_or(NO_TAG)
    }

    /// Returns the names under which something may be that has this name in plain: the first is that of something new.
    /// Without a key that is the plain name. `scope` is where the name is known: elsewhere the same one has another form.
    pub fn hidden_names(&self, scope: &str, name: &str) -> Vec<String> {
        let (space, within) = (self.namespace.as_bytes(), scope.as_bytes());
        let lengths = [space, within].map(|part| part.len().to_be_bytes());
        let hidden = |key: &ContentKey| {
            key.hidden_name(&[&lengths[0], space, &lengths[1], within, name.as_bytes()]).map(hex::encode)
        };
        let plain = self.accepts_plain.then(|| name.to_owned());
        self.keys.iter().filter_map(hidden).chain(plain).collect()
    }

    /// Returns the bytes of a sealed value whose content has this many; without a key it stays as long as it is.
    pub fn sealed_bytes(&self, plain: usize) -> usize {
        if self.is_on() { HEAD + plain + TAG_BYTES } else { plain }
    }

    /// The maximum number of bytes by which a sealed value is longer than its content.
    pub const MORE_BYTES: usize = HEAD + TAG_BYTES;

    fn message_key(&self, key: &ContentKey, place: SealPlace<'_>, salt: &[u8]) -> Option<LessSafeKey> {
        let (word, space, name) = (place.kind.word().as_bytes(), self.namespace.as_bytes(), place.name.as_bytes());
        // Each part has its length before it: no two places have the same bytes.
        let lengths = [word, space, name].map(|part| part.len().to_be_bytes());
        key.message_key(&[&lengths[0], word, &lengths[1], space, &lengths[2], name, salt])
    }
}

/// Returns the nonce of the only message of a key.
fn only_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

impl fmt::Debug for ContentSeals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentSeals").field("keys", &self.keys).finish_non_exhaustive()
    }
}

const _: () = assert!(TAG_BYTES == MAX_TAG_LEN, "the tag of a message is whole");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cluster_options::ClusterEncryption;

    const PLACE: SealPlace<'static> = SealPlace { kind: SealKind::Message, name: "a.b", position: b"7" };

    fn seals(folder: &Path, names: &[&str], accept_plain: bool) -> ContentSeals {
        let paths: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
        for path in paths.iter().filter(|path| !path.exists()) {
            ContentKey::create(path).unwrap();
        }
        let encryption = ClusterEncryption { key: paths[0].clone(), old_keys: paths[1..].to_vec(), accept_plain };
        let options = ClusterOptions { encryption: Some(encryption), ..ClusterOptions::new("", "t") };
        ContentSeals::load(&options).unwrap()
    }

    fn plain() -> Bytes {
        Bytes::from_static(b"some secret")
    }

    #[test]
    fn sealed_value_opens_at_its_own_place_alone() {
        let folder = tempfile::tempdir().unwrap();
        let seals = seals(folder.path(), &["a"], false);
        let sealed = seals.seal(PLACE, plain()).unwrap();
        assert_eq!(seals.open(PLACE, &sealed), Ok(plain()));
        assert_eq!(sealed.len(), seals.sealed_bytes(plain().len()));
        assert!(!sealed.windows(plain().len()).any(|part| part == plain()));
        assert_ne!(seals.seal(PLACE, plain()).unwrap(), sealed, "no two are alike");
        let other = ContentSeals { namespace: "u".into(), keys: seals.keys.clone(), accepts_plain: false };
        for (of, place) in [
            (&seals, SealPlace { kind: SealKind::Run, ..PLACE }),
            (&seals, SealPlace { name: "a.c", ..PLACE }),
            (&seals, SealPlace { position: b"8", ..PLACE }),
            (&other, PLACE),
        ] {
            let refused = of.open(place, &sealed).unwrap_err();
            assert!(matches!(&refused, SealError::Changed { .. }), "{refused}");
        }
    }

    #[test]
    fn each_changed_byte_and_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let seals = seals(folder.path(), &["a"], false);
        let sealed = seals.seal(PLACE, plain()).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert!(seals.open(PLACE, &changed.into()).is_err(), "byte {at}");
            assert!(seals.open(PLACE, &sealed.slice(..at)).is_err(), "the first {at} bytes");
        }
        let newer = [&MAGIC[..], &[VERSION + 1]].concat();
        let refused = seals.open(PLACE, &newer.into()).unwrap_err();
        assert!(refused.to_string().contains("version 2"), "{refused}");
    }

    #[test]
    fn rotated_keys_open_what_older_ones_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let old = seals(folder.path(), &["a"], false);
        let rotated = seals(folder.path(), &["b", "a"], false);
        let only_new = seals(folder.path(), &["b"], false);
        let (by_old, by_rotated) = (old.seal(PLACE, plain()).unwrap(), rotated.seal(PLACE, plain()).unwrap());
        assert_eq!((rotated.open(PLACE, &by_old), only_new.open(PLACE, &by_rotated)), (Ok(plain()), Ok(plain())));
        for (of, value, key) in [(&only_new, &by_old, &old), (&old, &by_rotated, &only_new)] {
            let refused = of.open(PLACE, value).unwrap_err();
            assert!(refused.to_string().contains(&format!("the key {}, which", key.keys[0].id())), "{refused}");
        }
        assert_eq!(rotated.hidden_names("s", "n")[1..], old.hidden_names("s", "n")[..]);
        assert_ne!(old.hidden_names("s", "n"), old.hidden_names("t", "n"));
    }

    #[test]
    fn plain_value_is_refused_unless_that_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let refused = seals(folder.path(), &["a"], false).open(PLACE, &plain()).unwrap_err();
        assert_eq!(refused, SealError::Plain { what: "a message of a.b".into() });
        assert!(refused.mend().contains("accept_plain"));
        let accepting = seals(folder.path(), &["a"], true);
        assert_eq!(accepting.open(PLACE, &plain()), Ok(plain()));
        assert_eq!(accepting.hidden_names("s", "a.b")[1], "a.b");
        let none = ContentSeals::load(&ClusterOptions::new("", "t")).unwrap();
        assert_eq!((none.seal(PLACE, plain()), none.open(PLACE, &plain())), (Ok(plain()), Ok(plain())));
        assert_eq!((none.hidden_names("s", "a.b"), none.is_on()), (vec!["a.b".to_owned()], false));
        let sealed = accepting.seal(PLACE, plain()).unwrap();
        assert!(matches!(none.open(PLACE, &sealed), Err(SealError::NoKey { .. })));
        assert_eq!((ContentSeals::tag_of(&plain()), ContentSeals::tag_of(&sealed) == NO_TAG), (NO_TAG, false));
    }

    #[test]
    fn only_so_many_keys_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        ContentKey::create(&path).unwrap();
        let load = |count: usize| {
            let encryption =
                ClusterEncryption { key: path.clone(), old_keys: vec![path.clone(); count], accept_plain: false };
            let options = ClusterOptions { encryption: Some(encryption), ..ClusterOptions::new("", "t") };
            ContentSeals::load(&options).map(|seals| seals.keys.len())
        };
        assert_eq!(load(limits::CLUSTER_KEYS - 1), Ok(limits::CLUSTER_KEYS));
        assert!(load(limits::CLUSTER_KEYS).unwrap_err().to_string().contains("more than 8 keys"));
    }
}
