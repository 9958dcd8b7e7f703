use std::{collections::VecDeque, sync::Arc};

use crate::{digest::Sha256Digest, limits, trigger::VerifiedDelivery};

/// The newest [`limits::TRIGGER_DELIVERIES`] webhooks of a trigger.
#[derive(Default)]
pub(super) struct DeliveryLog(VecDeque<LoggedDelivery>);

struct LoggedDelivery {
    id: Option<String>,
    digest: Sha256Digest,
    run: Option<Arc<str>>,
}

impl DeliveryLog {
    /// Returns the run of a delivery that has come before, by its id or by its bytes: an id that nobody has signed could be
    /// changed.
    pub fn find(&self, delivery: &VerifiedDelivery) -> Option<Option<Arc<str>>> {
        let is_same =
            |known: &&LoggedDelivery| known.digest == delivery.digest || known.id.is_some() && known.id == delivery.id;
        self.0.iter().find(is_same).map(|known| known.run.clone())
    }

    /// Adds a delivery, with the run that it has started. The oldest is forgotten if there are too many.
    pub fn add(&mut self, delivery: VerifiedDelivery, run: Option<Arc<str>>) {
        let VerifiedDelivery { id, digest, event: _ } = delivery;
        if self.0.len() == limits::TRIGGER_DELIVERIES {
            self.0.pop_front();
        }
        self.0.push_back(LoggedDelivery { id, digest, run });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(id: Option<&str>, body: &str) -> VerifiedDelivery {
        VerifiedDelivery { id: id.map(str::to_owned), digest: Sha256Digest::of(body), event: None }
    }

    #[test]
    fn repeated_delivery_is_found_by_id_or_bytes() {
        let mut log = DeliveryLog::default();
        log.add(delivery(Some("a"), "one"), Some("run-1".into()));
        log.add(delivery(None, "two"), None);
        for (known, expected) in [
            (delivery(Some("a"), "other"), Some(Some("run-1"))),
            (delivery(Some("b"), "one"), Some(Some("run-1"))),
            (delivery(None, "two"), Some(None)),
            (delivery(None, "three"), None),
            (delivery(Some("b"), "three"), None),
        ] {
            assert_eq!(log.find(&known).as_ref().map(Option::as_deref), expected, "{known:?}");
        }
        for n in 0..limits::TRIGGER_DELIVERIES {
            log.add(delivery(None, &n.to_string()), None);
        }
        assert_eq!((log.find(&delivery(Some("a"), "one")), log.0.len()), (None, limits::TRIGGER_DELIVERIES));
    }
}
