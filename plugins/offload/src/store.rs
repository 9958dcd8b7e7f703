//! The store of the texts: a record under the id of each, and the text in pieces.

use serde::{Deserialize, Serialize};
use shelly_plugin::{Error, kv, text};

/// The number of characters of a piece: below the 1 MiB of a value, however many bytes each character has.
const PIECE: usize = 200_000;

/// The maximum size of a call's id in bytes; keys have at most 512.
const MAX_ID: usize = 400;

/// The maximum number of texts of different calls with the same id, in a store that sessions share.
const MAX_ALIKE: u32 = 100;

/// The facts about a stored text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub characters: usize,
    digest: u64,
}

impl Record {
    fn of(text: &str) -> Record {
        // FNV-1a suffices to distinguish one text from another with the same id.
        let digest = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Record { characters: text.chars().count(), digest }
    }
}

fn record_key(id: &str) -> String {
    format!("offload/{id}")
}

fn piece_key(id: &str, piece: usize) -> String {
    // The number comes first, because an id may contain slashes and numbers.
    format!("offloaded/{piece}/{id}")
}

/// Stores a text and returns its id: the call's id, or one that begins with it if that is taken. Returns none if the
/// call's id is too long for a key. An equal text is stored only once.
pub(crate) fn keep(call: &str, text: &str) -> Result<Option<String>, Error> {
    if call.len() > MAX_ID {
        return Ok(None);
    }
    let record = Record::of(text);
    for n in 1..=MAX_ALIKE {
        let id = if n == 1 { call.to_owned() } else { format!("{call}~{n}") };
        if claim(&id, &record)? {
            return write(&id, text).map(|()| Some(id));
        }
    }
    Ok(None)
}

/// Returns `true` if the id was free, or already belongs to this text.
fn claim(id: &str, record: &Record) -> Result<bool, Error> {
    let key = record_key(id);
    let value = serde_json::to_vec(record).map_err(Error::other)?;
    Ok(kv::compare_and_swap(&key, None, Some(&value))? || kv::read::<Record>(&key)?.as_ref() == Some(record))
}

/// Writes the pieces. If there is no room for all, removes them again.
fn write(id: &str, text: &str) -> Result<(), Error> {
    for (at, piece) in pieces(text).enumerate() {
        if let Err(error) = kv::set(&piece_key(id, at), piece.as_bytes()) {
            let keys = (0..=at).map(|at| piece_key(id, at)).chain([record_key(id)]);
            keys.for_each(|key| drop(kv::remove(&key)));
            return Err(error);
        }
    }
    Ok(())
}

fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text::head(text, PIECE).len());
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Returns the facts about the text with this id.
pub(crate) fn find(id: &str) -> Result<Option<Record>, Error> {
    if id.is_empty() || id.len() > MAX_ID + 8 { Ok(None) } else { kv::read(&record_key(id)) }
}

/// Reads at most `most` characters of a text from `offset` on.
pub(crate) fn read(id: &str, offset: usize, most: usize) -> Result<String, Error> {
    page(offset, most, |piece| {
        let Some(entry) = kv::get(&piece_key(id, piece))? else { return Ok(None) };
        String::from_utf8(entry.value).map(Some).map_err(|_| Error::Other("the stored result is damaged".into()))
    })
}

fn page(offset: usize, most: usize, get: impl Fn(usize) -> Result<Option<String>, Error>) -> Result<String, Error> {
    let (mut piece, mut skip, mut left, mut page) = (offset / PIECE, offset % PIECE, most, String::new());
    while left > 0 {
        let Some(text) = get(piece)? else { break };
        let from = &text[text::head(&text, skip).len()..];
        let taken = text::head(from, left);
        page.push_str(taken);
        left -= taken.chars().count();
        (piece, skip) = (piece + 1, 0);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloaded_text_is_paged_across_its_pieces() {
        let text: String = (0..450_000_u32).map(|n| char::from_u32(0x4e00 + n % 1_000).unwrap()).collect();
        let kept: Vec<_> = pieces(&text).collect();
        assert_eq!(kept.iter().map(|piece| piece.chars().count()).collect::<Vec<_>>(), [200_000, 200_000, 50_000]);
        assert!(kept.iter().all(|piece| piece.len() <= 1 << 20));
        let get = |piece: usize| Ok(kept.get(piece).map(|piece| (*piece).to_owned()));
        for (offset, most) in [(0, 10), (199_999, 2), (200_000, 3), (100_000, 300_000), (449_998, 9), (450_000, 9)] {
            let expected: String = text.chars().skip(offset).take(most).collect();
            assert!(page(offset, most, get).unwrap() == expected, "{most} from {offset}");
        }
        assert_eq!(pieces("").count(), 0);
    }

    #[test]
    fn offload_keys_are_bounded_and_distinct() {
        let id = format!("{}~{MAX_ALIKE}", "x".repeat(MAX_ID));
        assert!(piece_key(&id, usize::MAX).len() <= 512 && record_key(&id).len() <= 512);
        assert_ne!(piece_key("1/a", 2), piece_key("a", 21));
        assert_ne!(Record::of("ab"), Record::of("ba"));
    }
}
