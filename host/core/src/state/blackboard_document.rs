use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    blackboard::{BlackboardChange, BlackboardEntry, BlackboardState, checked},
    shared_board::BoardState,
    shown_name::shown_name,
    watched_value::StateChangeHook,
};
use crate::tool::ToolCallId;

/// A blackboard in a bucket.
#[derive(Serialize, Deserialize)]
struct BlackboardDocument {
    version: u32,
    revision: u64,
    /// The entries: revision and JSON of the value.
    entries: BTreeMap<String, (u64, String)>,
}

impl BoardState for BlackboardState {
    fn copy(&self) -> Self {
        let hook = StateChangeHook::default();
        Self { entries: self.entries.clone(), bytes: self.bytes, revision: self.revision, hook }
    }

    fn to_document(&self) -> Vec<u8> {
        let entry = |entry: &BlackboardEntry| (entry.revision, entry.value.get().to_owned());
        let entries = self.entries.iter().map(|(key, of)| (key.clone(), entry(of))).collect();
        // Numbers and text always serialize.
        serde_json::to_vec(&BlackboardDocument { version: 1, revision: self.revision, entries }).unwrap_or_default()
    }

    fn of_document(document: &[u8]) -> Result<Self, String> {
        let document: BlackboardDocument = serde_json::from_slice(document).map_err(|error| error.to_string())?;
        if document.version != 1 {
            return Err(format!("it has version {}, written by a newer shelly-host", document.version));
        }
        if document.revision > u64::MAX / 2 {
            return Err("its revision is beyond all changes".into());
        }
        let mut state = Self::default();
        for (key, (revision, value)) in document.entries {
            if !(1..=document.revision).contains(&revision) {
                return Err(format!("`{}` has an impossible revision", shown_name(&key).escape_debug()));
            }
            let value = RawValue::from_string(value).map_err(|error| error.to_string())?;
            let value = checked(&key, &*value).map_err(|error| error.to_string())?;
            state.put(&key, value).map_err(|error| error.to_string())?;
            if let Some(entry) = state.entries.get_mut(&key) {
                entry.revision = revision;
            }
        }
        state.revision = document.revision;
        Ok(state)
    }

    fn adopt(&mut self, newer: Self, author: Option<Arc<ToolCallId>>) {
        self.hook.author = author;
        let written = newer
            .entries
            .iter()
            .filter(|(key, entry)| self.entries.get(*key).is_none_or(|there| there.revision != entry.revision));
        let mut changes: BTreeMap<u64, (String, Option<String>)> =
            written.map(|(key, entry)| (entry.revision, (key.clone(), Some(entry.value.get().to_owned())))).collect();
        // The revisions of removals are among those that no entry has.
        let removed: Vec<_> = self.entries.keys().filter(|key| !newer.entries.contains_key(*key)).cloned().collect();
        let mut free = self.revision;
        for key in removed {
            free += 1;
            while changes.contains_key(&free) {
                free += 1;
            }
            changes.insert(free, (key, None));
        }
        for (revision, (key, value)) in changes {
            self.hook.tell(|| BlackboardChange { key, revision, value });
        }
        (self.entries, self.bytes, self.revision) = (newer.entries, newer.bytes, newer.revision);
    }
}
