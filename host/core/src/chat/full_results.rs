use std::sync::Arc;

use indexmap::IndexMap;

use crate::limits;

/// The full texts of results that the conversation holds only the beginning of, by call id, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct FullToolResults {
    texts: IndexMap<String, Arc<str>>,
    bytes: usize,
}

impl FullToolResults {
    pub fn add(&mut self, call: String, text: Arc<str>) {
        self.bytes += text.len();
        if let Some(before) = self.texts.shift_remove(&call) {
            self.bytes -= before.len();
        }
        self.texts.insert(call, text);
        while self.bytes > limits::KEPT_RESULTS_BYTES
            && let Some((_, oldest)) = self.texts.shift_remove_index(0)
        {
            self.bytes -= oldest.len();
        }
    }

    pub fn get(&self, call: &str) -> Option<&Arc<str>> {
        self.texts.get(call)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<str>)> {
        self.texts.iter().map(|(call, text)| (call.as_str(), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_full_results_are_dropped_beyond_the_limit() {
        let mut kept = FullToolResults::default();
        let half: Arc<str> = "x".repeat(limits::KEPT_RESULTS_BYTES / 2).into();
        for call in ["a", "b", "b", "c"] {
            kept.add(call.into(), Arc::clone(&half));
        }
        let calls: Vec<_> = kept.iter().map(|(call, _)| call).collect();
        assert_eq!(calls, ["b", "c"]);
        assert!(kept.get("a").is_none() && kept.bytes == limits::KEPT_RESULTS_BYTES);
    }
}
