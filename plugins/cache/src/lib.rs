//! A model middleware that answers a repeated request from a store without asking a model. Requests are equal if they
//! have the same conversation, tools, settings and model, by the digest that the host computes. Only complete replies are
//! stored, in the plugin's key-value store. The `kv` grant in the config decides which store that is, and so how long
//! replies last and who shares them.
//!
//! Params, with their defaults: `{"ttl": "", "max_entries": 1000}`. A reply older than `ttl` (such as `1h`) is not used;
//! without `ttl` replies last as long as the store. Beyond `max_entries` (1 to 10,000) the oldest replies are removed.
//!
//! A reply that has media or more than 1 MiB is not stored. A repeated question costs nothing but brings no new answer
//! either: to make an agent try again, say what was wrong.

use guest_kit::{Span, bad};
use serde::{Deserialize, Deserializer, de::IntoDeserializer};
use shelly_plugin::{
    Error, clock, config, debug, info, kv,
    model_middleware::{AfterDecision, BeforeDecision, ModelMiddleware, Pass, Sending},
    types::{Completion, RunContext, StopReason},
};

mod entry;

use entry::Entry;

shelly_plugin::export!(model_middleware: Cache);

/// The maximum size of a value in the store.
const MOST_BYTES: usize = 1 << 20;

/// The maximum length of a key in the store.
const MOST_KEY: usize = 512;

const MOST_ENTRIES: u64 = 10_000;

/// The number of old entries that are removed per new entry. After `max_entries` was lowered there may be many, and a
/// call has only one second.
const EVICTED_AT_ONCE: usize = 16;

/// The key of the counter of all entries ever stored.
const COUNTER: &str = "count";

struct Cache;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The maximum age of a reply; none: no limit.
    #[serde(deserialize_with = "span_or_nothing")]
    ttl: Option<Span>,
    /// The maximum number of stored replies.
    max_entries: u64,
}

impl Default for Params {
    fn default() -> Params {
        Params { ttl: None, max_entries: 1_000 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        if !(1..=MOST_ENTRIES).contains(&self.max_entries) {
            let entries = self.max_entries;
            return Err(bad(format_args!("`max_entries` is {entries}; use 1 to {MOST_ENTRIES}")));
        }
        if self.ttl.is_some_and(|ttl| ttl.0.is_zero()) {
            return Err(bad("`ttl` is 0, so no reply would be reused; leave it empty to keep replies"));
        }
        Ok(self)
    }

    fn is_fresh(&self, entry: &Entry, now: u64) -> bool {
        self.ttl.is_none_or(|ttl| now.saturating_sub(entry.at_ms) < ttl.millis())
    }
}

fn span_or_nothing<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Span>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    Span::deserialize(IntoDeserializer::<D::Error>::into_deserializer(text)).map(Some)
}

impl ModelMiddleware for Cache {
    fn before(_cx: RunContext, sending: Sending) -> Result<BeforeDecision, Error> {
        let params = config::<Params>()?.check()?;
        if let Some(entry) = find(&sending)?.filter(|entry| params.is_fresh(entry, clock::now())) {
            debug!("answered from an earlier reply of `{}`", sending.model);
            return Ok(BeforeDecision::Answer(entry.into_completion()));
        }
        Ok(BeforeDecision::Proceed(Pass { model: None, request: None, state: Vec::new() }))
    }

    fn after(
        _cx: RunContext,
        sending: Sending,
        reply: Result<Completion, Error>,
        _state: Vec<u8>,
    ) -> Result<AfterDecision, Error> {
        if let (Ok(completion), Some(key)) = (reply, key(&sending))
            && is_whole(&completion)
        {
            let params = config::<Params>()?.check()?;
            keep(&key, &completion, params.max_entries)?;
        }
        Ok(AfterDecision::Accept)
    }
}

/// Returns `true` if the reply is complete.
fn is_whole(completion: &Completion) -> bool {
    matches!(completion.stop, StopReason::EndTurn | StopReason::ToolCalls)
}

/// Returns the key of an entry; none if the model's name is too long for a key.
fn key(sending: &Sending) -> Option<String> {
    let key = format!("entry/{}/{}", sending.digest, sending.model);
    (key.len() <= MOST_KEY).then_some(key)
}

/// Returns the stored entry. An entry that cannot be read was written by another version and counts as missing.
fn find(sending: &Sending) -> Result<Option<Entry>, Error> {
    let Some(key) = key(sending) else { return Ok(None) };
    Ok(kv::get(&key)?.and_then(|entry| Entry::decode(&entry.value)))
}

/// Stores a reply and removes the oldest ones.
fn keep(key: &str, completion: &Completion, max_entries: u64) -> Result<(), Error> {
    let Some(mut entry) = Entry::of(completion, clock::now()) else { return Ok(()) };
    let number: u64 = kv::update(COUNTER, |count: Option<u64>| count.unwrap_or(0).saturating_add(1))?;
    entry.number = number;
    let bytes = entry.encode()?;
    if bytes.len() > MOST_BYTES {
        return Ok(());
    }
    // The order record is written first: an entry without one would never be removed.
    kv::put(&turn(number), &key)?;
    kv::set(key, &bytes)?;
    evict(number.saturating_sub(max_entries))
}

/// Removes the entries whose number is at most `last`.
fn evict(last: u64) -> Result<(), Error> {
    if last == 0 {
        return Ok(());
    }
    let turns = kv::keys("turn/", None)?;
    let bound = turn(last);
    let mut gone = 0;
    for old in turns.iter().take_while(|old| **old <= bound).take(EVICTED_AT_ONCE) {
        if let Some(key) = kv::read::<String>(old)? {
            let entry = kv::get(&key)?;
            // An entry that was stored again has a later order record as well, and stays.
            let is_its = |entry: &kv::Entry| Entry::decode(&entry.value).is_none_or(|entry| turn(entry.number) == *old);
            if let Some(entry) = entry.filter(is_its) {
                kv::compare_and_swap(&key, Some(entry.revision), None)?;
            }
        }
        kv::remove(old)?;
        gone += 1;
    }
    if gone > 1 {
        info!("{gone} old replies were removed");
    }
    Ok(())
}

/// Returns the key of the record that contains the key of the entry with this number. Records sort in the order of
/// storage.
fn turn(number: u64) -> String {
    format!("turn/{number:020}")
}

#[cfg(test)]
mod tests {
    use shelly_plugin::{Part, types::Usage};

    use super::*;

    fn completion(stop: StopReason) -> Completion {
        Completion {
            parts: vec![Part::Text("x".into())],
            stop,
            usage: Usage::default(),
            model: "m".into(),
            meta: Vec::new(),
        }
    }

    fn params(json: &str) -> Result<Params, String> {
        let params: Params = serde_json::from_str(json).map_err(|error| error.to_string())?;
        params.check().map_err(|error| error.message().to_owned())
    }

    #[test]
    fn cache_keeps_only_complete_replies() {
        for (stop, kept) in [
            (StopReason::EndTurn, true),
            (StopReason::ToolCalls, true),
            (StopReason::MaxTokens, false),
            (StopReason::StopSequence, false),
            (StopReason::Refusal, false),
            (StopReason::Other("odd".into()), false),
        ] {
            assert_eq!(is_whole(&completion(stop.clone())), kept, "{stop:?}");
        }
    }

    #[test]
    fn cached_reply_expires_after_its_ttl() {
        let entry = Entry::of(&completion(StopReason::EndTurn), 1_000).unwrap();
        for (json, now, fresh) in [
            ("{}", u64::MAX, true),
            (r#"{"ttl": ""}"#, u64::MAX, true),
            (r#"{"ttl": "1s"}"#, 1_999, true),
            (r#"{"ttl": "1s"}"#, 2_000, false),
            (r#"{"ttl": "1s"}"#, 0, true),
        ] {
            assert_eq!(params(json).unwrap().is_fresh(&entry, now), fresh, "{json} {now}");
        }
    }

    #[test]
    fn cache_keys_differ_by_request_and_model_and_sort_by_turn() {
        let sending =
            |digest: &str, model: &str| Sending { model: model.into(), digest: digest.into(), tokens: 1, attempt: 0 };
        assert_ne!(key(&sending("d", "a")), key(&sending("d", "b")));
        assert_ne!(key(&sending("d", "a")), key(&sending("e", "a")));
        assert_eq!(key(&sending(&"d".repeat(64), &"m".repeat(500))), None);
        assert!(turn(9) < turn(10) && turn(99) < turn(u64::MAX));
    }

    #[test]
    fn senseless_params_are_refused() {
        for (json, says) in [
            (r#"{"max_entries": 0}"#, "`max_entries` is 0"),
            (r#"{"max_entries": 10001}"#, "1 to 10000"),
            (r#"{"ttl": "0s"}"#, "`ttl` is 0"),
            (r#"{"ttl": "soon"}"#, "invalid duration"),
        ] {
            let error = params(json).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
