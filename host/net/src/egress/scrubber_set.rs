use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use super::{credential::Credential, scrub::Scrubber};
use shelly_core::limits;

/// The scrubbers of one `Egress`: for all of its credentials, and for those that a server may know.
#[derive(Default)]
pub(super) struct ScrubberSet {
    all: Scrubber,
    of_some: Mutex<HashMap<BTreeSet<usize>, Scrubber>>,
}

impl ScrubberSet {
    /// Creates the scrubbers for these credentials; `None` if the patterns are too large to search for.
    pub fn new(credentials: &[Arc<Credential>]) -> Option<Self> {
        let secrets = credentials.iter().flat_map(|credential| &credential.secrets);
        Some(Self { all: Scrubber::new(secrets)?, of_some: Mutex::default() })
    }

    /// Returns the scrubber for all credentials, used for what people see.
    pub fn all(&self) -> &Scrubber {
        &self.all
    }

    /// Returns the scrubber for the credentials at these indices, used for what the plugin sees. `credentials` are those
    /// that the set was created for. A search for a credential that the server never received could reveal something about
    /// it to the plugin.
    pub fn of(&self, credentials: &[Arc<Credential>], places: &BTreeSet<usize>) -> Scrubber {
        if places.is_empty() {
            return Scrubber::default();
        }
        let mut of_some = self.of_some.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scrubber) = of_some.get(places) {
            return scrubber.clone();
        }
        let secrets = places.iter().filter_map(|place| credentials.get(*place)).flat_map(|one| &one.secrets);
        // The search for all of them was built, so one for some of them can be.
        let scrubber = Scrubber::new(secrets).unwrap_or_else(|| self.all.clone());
        if of_some.len() == limits::EGRESS_SEARCHES {
            of_some.clear();
        }
        of_some.insert(places.clone(), scrubber.clone());
        scrubber
    }
}
