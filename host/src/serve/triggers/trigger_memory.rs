use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use crate::{files, limits, project::ProjectLayout};

/// The last times of triggers that make up for missed ones, kept in the project over restarts of the server.
pub(super) struct TriggerMemory {
    layout: ProjectLayout,
    entries: Mutex<BTreeMap<String, RememberedTime>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RememberedTime {
    /// The schedule, whose change makes the time worthless.
    schedule: String,
    /// In RFC 3339.
    last: String,
}

impl TriggerMemory {
    /// Reads the times of these triggers. A file that cannot be used counts as none: the worst is a time that is not made
    /// up for.
    pub fn read(layout: ProjectLayout, names: &[&str]) -> Self {
        let text = files::read(&layout.triggers(), &layout.local(), limits::TRIGGER_MEMORY_BYTES).unwrap_or_default();
        let mut entries: BTreeMap<String, RememberedTime> = serde_json::from_str(&text).unwrap_or_default();
        entries.retain(|name, _| names.contains(&name.as_str()));
        Self { layout, entries: Mutex::new(entries) }
    }

    /// Returns the last time of a trigger with this schedule.
    pub fn last(&self, name: &str, schedule: &str) -> Option<SystemTime> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get(name).filter(|known| known.schedule == schedule)?;
        humantime::parse_rfc3339(&known.last).ok()
    }

    /// Keeps the last time of a trigger. It blocks.
    ///
    /// # Errors
    ///
    /// The reason why the file cannot be written.
    pub fn keep(&self, name: &str, schedule: &str, last: SystemTime) -> Result<(), String> {
        let last = humantime::format_rfc3339_seconds(files::writable_date(last)).to_string();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.insert(name.to_owned(), RememberedTime { schedule: schedule.to_owned(), last });
        let json = serde_json::to_vec(&*entries).unwrap_or_default();
        if json.len() as u64 > limits::TRIGGER_MEMORY_BYTES {
            return Err(format!("it would have more than {} bytes", limits::TRIGGER_MEMORY_BYTES));
        }
        self.layout.make_local().map_err(|error| error.report().to_string())?;
        files::replace(&self.layout.triggers(), &json).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    #[test]
    fn last_time_outlasts_the_server_until_the_schedule_changes() {
        let root = tempfile::tempdir().unwrap();
        let memory = || TriggerMemory::read(ProjectLayout::new(root.path()), &["a", "b"]);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(memory().last("a", "0 3 * * * UTC"), None);
        memory().keep("a", "0 3 * * * UTC", time).unwrap();
        memory().keep("b", "0 4 * * * UTC", time + Duration::from_secs(1)).unwrap();
        assert_eq!(memory().last("a", "0 3 * * * UTC"), Some(time));
        assert_eq!(memory().last("a", "0 5 * * * UTC"), None);
        let path = ProjectLayout::new(root.path()).triggers();
        fs::write(&path, "damaged").unwrap();
        assert_eq!(memory().last("a", "0 3 * * * UTC"), None);
        fs::write(&path, " ".repeat(limits::TRIGGER_MEMORY_BYTES as usize + 1)).unwrap();
        assert_eq!(memory().last("a", "0 3 * * * UTC"), None);
        let long = "x".repeat(limits::TRIGGER_MEMORY_BYTES as usize);
        assert!(memory().keep("a", &long, time).unwrap_err().contains("more than 16384 bytes"));
    }
}
