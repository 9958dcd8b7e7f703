use std::{
    collections::VecDeque,
    io,
    path::PathBuf,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{
    digest::Sha256Digest,
    error::{ErrorKind, Report, legible},
    files::{self, FileReadError},
    limits,
    project::ProjectLayout,
    trigger::VerifiedDelivery,
};

/// The newest [`limits::TRIGGER_DELIVERIES`] webhooks of a trigger, none older than [`limits::TRIGGER_DELIVERY_TIME`]. They
/// are kept in a file of the project, so that one that comes again after a restart of the server is known.
pub(super) struct DeliveryLog {
    layout: ProjectLayout,
    trigger: String,
    deliveries: VecDeque<LoggedDelivery>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoggedDelivery {
    digest: Sha256Digest,
    /// The digest of the sender's id, which may be long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Sha256Digest>,
    /// The seconds since 1970.
    time: u64,
    /// The run that it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Arc<str>>,
    /// `true` as long as its firing waits. One that still waits when the server ends has started nothing: its sender may
    /// repeat it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    waits: bool,
}

/// The file of the webhooks of a trigger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeliveryFile {
    /// The name of the trigger: on some systems two names that differ only in case have one file.
    trigger: String,
    deliveries: VecDeque<LoggedDelivery>,
}

/// The outcome of a webhook that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    /// The webhook has started this run.
    Started(Arc<str>),
    /// The firing waits.
    Waits,
    /// The webhook has started nothing, and never will.
    Skipped,
}

impl DeliveryLog {
    /// Reads the webhooks of a trigger. Those whose firing still waited when the server ended are left out.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is a file that cannot be used: without it, webhooks that have come before would be taken again.
    pub fn read(layout: ProjectLayout, trigger: &str, now: SystemTime) -> Result<Self, Report> {
        let mut log = Self { layout, trigger: trigger.to_owned(), deliveries: VecDeque::new() };
        let path = log.path();
        log.deliveries = log.in_file().map_err(|why| {
            let message = format!("cannot read the webhooks that the trigger `{trigger}` has taken ({})", path.display());
            Report::new(ErrorKind::Usage, message).cause(why).hint(
                "restore the file; or remove it, after changing the secret of the trigger: whoever has seen a webhook could \
                 send it again",
            )
        })?;
        log.deliveries.retain(|known| !known.waits);
        log.forget_old(now);
        Ok(log)
    }

    /// Returns the run of a delivery that has come before, by its id or by its bytes: an id that nobody has signed could be
    /// changed.
    pub fn find(&self, delivery: &VerifiedDelivery) -> Option<Option<Arc<str>>> {
        let id = delivery.id.as_ref().map(Sha256Digest::of);
        let is_same = |known: &&LoggedDelivery| known.digest == delivery.digest || id.is_some() && known.id == id;
        self.deliveries.iter().find(is_same).map(|known| known.run.clone())
    }

    /// Adds a delivery, which is known from now on. It blocks.
    ///
    /// # Errors
    ///
    /// The reason why it is not in the file.
    pub fn add(
        &mut self,
        delivery: &VerifiedDelivery,
        outcome: DeliveryOutcome,
        now: SystemTime,
    ) -> Result<(), String> {
        let (run, waits) = match outcome {
            DeliveryOutcome::Started(run) => (Some(run), false),
            DeliveryOutcome::Waits => (None, true),
            DeliveryOutcome::Skipped => (None, false),
        };
        let (digest, id) = (delivery.digest, delivery.id.as_ref().map(Sha256Digest::of));
        self.deliveries.push_back(LoggedDelivery { digest, id, time: seconds(now), run, waits });
        self.forget_old(now);
        self.write(now)
    }

    /// Records the end of the wait of a delivery: the run that it has started, or `None` if it has started none, after which
    /// its sender may repeat it. It blocks.
    ///
    /// # Errors
    ///
    /// The reason why it is not in the file.
    pub fn end_wait(&mut self, digest: &Sha256Digest, run: Option<Arc<str>>, now: SystemTime) -> Result<(), String> {
        let Some(at) = self.deliveries.iter().position(|known| known.waits && known.digest == *digest) else {
            return Ok(());
        };
        match run {
            Some(run) => (self.deliveries[at].run, self.deliveries[at].waits) = (Some(run), false),
            None => drop(self.deliveries.remove(at)),
        }
        self.write(now)
    }

    /// Forgets those that are too old, and the oldest if there are too many.
    fn forget_old(&mut self, now: SystemTime) {
        let oldest = seconds(now).saturating_sub(limits::TRIGGER_DELIVERY_TIME.as_secs());
        self.deliveries.retain(|known| known.time >= oldest);
        while self.deliveries.len() > limits::TRIGGER_DELIVERIES {
            self.deliveries.pop_front();
        }
    }

    /// Writes the file. What another server of the project has added to it meanwhile is taken over, except what waits there:
    /// that server has it in memory, or has ended.
    fn write(&mut self, now: SystemTime) -> Result<(), String> {
        self.layout.make_deliveries().map_err(|error| error.report().to_string())?;
        let _lock = files::lock_folder(&self.layout.deliveries()).map_err(|error| error.to_string())?;
        for other in self.in_file()? {
            let is_known = self.deliveries.iter().any(|known| known.digest == other.digest);
            if !is_known && !other.waits {
                self.deliveries.push_back(other);
            }
        }
        self.deliveries.make_contiguous().sort_by_key(|known| known.time);
        self.forget_old(now);
        let file = DeliveryFile { trigger: self.trigger.clone(), deliveries: self.deliveries.clone() };
        let json = serde_json::to_vec(&file).unwrap_or_default();
        if json.len() as u64 > limits::TRIGGER_DELIVERY_FILE_BYTES {
            return Err(format!("it would have more than {} bytes", limits::TRIGGER_DELIVERY_FILE_BYTES));
        }
        files::replace(&self.path(), &json).map_err(|error| error.to_string())
    }

    /// Reads what the file has now; nothing if there is none.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be used.
    fn in_file(&self) -> Result<VecDeque<LoggedDelivery>, String> {
        let text = match files::read(&self.path(), &self.layout.local(), limits::TRIGGER_DELIVERY_FILE_BYTES) {
            Ok(text) => text,
            Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(VecDeque::new()),
            Err(error) => return Err(error.to_string()),
        };
        let DeliveryFile { trigger, deliveries } =
            serde_json::from_str(&text).map_err(|error| format!("its content is not what was written: {error}"))?;
        match trigger == self.trigger {
            true => Ok(deliveries),
            false => Err(format!("it belongs to the trigger `{}`", legible(&trigger))),
        }
    }

    fn path(&self) -> PathBuf {
        self.layout.deliveries().join(format!("{}.json", self.trigger))
    }
}

/// Returns the seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use super::*;

    fn delivery(id: Option<&str>, body: &str) -> VerifiedDelivery {
        VerifiedDelivery { id: id.map(str::to_owned), digest: Sha256Digest::of(body), event: None }
    }

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000 + second)
    }

    fn read(root: &Path, trigger: &str, second: u64) -> Result<DeliveryLog, Report> {
        DeliveryLog::read(ProjectLayout::new(root), trigger, at(second))
    }

    /// Fills a log as far as it goes. To add so many one by one would take long.
    fn fill(log: &mut DeliveryLog, second: u64) {
        for n in 0..limits::TRIGGER_DELIVERIES {
            let digest = Sha256Digest::of(n.to_string());
            let run = Some("run-19ec3a3b0a0-ffffffff".into());
            log.deliveries.push_back(LoggedDelivery {
                digest,
                id: Some(digest),
                time: 1_800_000_000 + second,
                run,
                waits: true,
            });
        }
    }

    #[test]
    fn repeated_delivery_is_found_by_id_or_bytes() {
        let root = tempfile::tempdir().unwrap();
        let mut log = read(root.path(), "a", 0).unwrap();
        let run = DeliveryOutcome::Started("run-1".into());
        log.add(&delivery(Some("a"), "one"), run, at(0)).unwrap();
        log.add(&delivery(None, "two"), DeliveryOutcome::Skipped, at(0)).unwrap();
        // A server that was started again knows the same.
        for log in [log, read(root.path(), "a", 1).unwrap()] {
            for (known, expected) in [
                (delivery(Some("a"), "other"), Some(Some("run-1"))),
                (delivery(Some("b"), "one"), Some(Some("run-1"))),
                (delivery(None, "two"), Some(None)),
                (delivery(None, "three"), None),
                (delivery(Some("b"), "three"), None),
            ] {
                assert_eq!(log.find(&known).as_ref().map(Option::as_deref), expected, "{known:?}");
            }
        }
    }

    #[test]
    fn old_deliveries_are_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let mut log = read(root.path(), "a", 0).unwrap();
        let one = delivery(None, "one");
        log.add(&one, DeliveryOutcome::Skipped, at(0)).unwrap();
        let time = limits::TRIGGER_DELIVERY_TIME.as_secs();
        assert!(read(root.path(), "a", time).unwrap().find(&one).is_some());
        assert!(read(root.path(), "a", time + 1).unwrap().find(&one).is_none());
        fill(&mut log, 1);
        let last = delivery(None, "last");
        log.add(&last, DeliveryOutcome::Waits, at(2)).unwrap();
        assert_eq!(log.deliveries.len(), limits::TRIGGER_DELIVERIES);
        assert!(log.find(&one).is_none() && log.find(&last).is_some());
        let bytes = fs::metadata(log.path()).unwrap().len();
        assert!(bytes > limits::TRIGGER_DELIVERY_FILE_BYTES / 3, "the bound is about the bytes of a full log: {bytes}");
    }

    #[test]
    fn delivery_that_still_waits_at_the_end_may_come_again() {
        let root = tempfile::tempdir().unwrap();
        let mut log = read(root.path(), "a", 0).unwrap();
        let [begun, given_up, waits] = ["one", "two", "three"].map(|body| delivery(None, body));
        for delivery in [&begun, &given_up, &waits] {
            log.add(delivery, DeliveryOutcome::Waits, at(0)).unwrap();
            assert_eq!(log.find(delivery), Some(None));
        }
        log.end_wait(&begun.digest, Some("run-1".into()), at(1)).unwrap();
        log.end_wait(&given_up.digest, None, at(1)).unwrap();
        assert!(log.find(&given_up).is_none() && log.find(&waits).is_some());
        let mut again = read(root.path(), "a", 2).unwrap();
        assert_eq!(again.find(&begun).unwrap().as_deref(), Some("run-1"));
        again.add(&delivery(None, "four"), DeliveryOutcome::Skipped, at(2)).unwrap();
        for log in [again, read(root.path(), "a", 3).unwrap()] {
            assert!(log.find(&given_up).is_none() && log.find(&waits).is_none());
        }
    }

    #[test]
    fn servers_of_one_project_keep_what_the_other_has_taken() {
        let root = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (read(root.path(), "a", 0).unwrap(), read(root.path(), "a", 0).unwrap());
        one.add(&delivery(None, "one"), DeliveryOutcome::Skipped, at(1)).unwrap();
        other.add(&delivery(None, "two"), DeliveryOutcome::Skipped, at(2)).unwrap();
        let log = read(root.path(), "a", 3).unwrap();
        assert!(log.find(&delivery(None, "one")).is_some() && log.find(&delivery(None, "two")).is_some());
    }

    #[test]
    fn unusable_file_is_named_and_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let mut log = read(root.path(), "a", 0).unwrap();
        log.add(&delivery(None, "one"), DeliveryOutcome::Skipped, at(0)).unwrap();
        let (path, whole) = (log.path(), fs::read_to_string(log.path()).unwrap());
        let long = " ".repeat(limits::TRIGGER_DELIVERY_FILE_BYTES as usize);
        for (text, why) in [
            (whole[..whole.len() / 2].to_owned(), "its content is not what was written"),
            (String::new(), "its content is not what was written"),
            (whole.replace(r#""trigger":"a""#, r#""trigger":"A""#), "it belongs to the trigger `A`"),
            (whole.clone() + &long, "larger than 524288 bytes"),
        ] {
            fs::write(&path, &text).unwrap();
            let report = read(root.path(), "a", 0).err().unwrap();
            assert!(report.message.contains("a.json") && report.to_string().contains(why), "{report}");
            assert!(report.hint.unwrap().contains("changing the secret"));
            let kept = log.add(&delivery(None, "two"), DeliveryOutcome::Skipped, at(0));
            assert!(kept.unwrap_err().contains(why) && fs::read_to_string(&path).unwrap() == text);
        }
        fs::remove_file(&path).unwrap();
        assert!(read(root.path(), "a", 0).unwrap().find(&delivery(None, "one")).is_none());
    }
}
