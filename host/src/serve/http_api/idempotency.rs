use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::StatusCode;

use super::problem::Problem;
use crate::{
    digest::Sha256Digest,
    limits,
    serve::hosted_runs::{HostedRun, RunHost, RunHostError},
};

/// The runs that were started by requests with a key, the newest [`limits::SERVE_KEYS`].
#[derive(Default)]
pub(super) struct IdempotencyKeys(Mutex<VecDeque<KeyedRun>>);

struct KeyedRun {
    key: String,
    /// The digest of the body with which the key was used.
    body: Sha256Digest,
    run: Arc<str>,
}

impl IdempotencyKeys {
    /// Returns the run that a request with this key and body has started before.
    ///
    /// # Errors
    ///
    /// A [`Problem`] if the key is no key or was used with another body.
    pub fn find(&self, (key, body): (&str, &[u8]), host: &RunHost) -> Result<Option<Arc<HostedRun>>, Box<Problem>> {
        check(key)?;
        find(&mut self.keys(), (key, &Sha256Digest::of(body)), host)
    }

    /// Returns the run that a request with this key and body has started before, and `false`; or starts one, and returns
    /// `true`. The key of a run that could not begin, or is forgotten, is free again. `begin` must not wait for anything: all
    /// requests with a key wait for it.
    ///
    /// # Errors
    ///
    /// A [`Problem`] if the key is no key or was used with another body, or no run can be started.
    pub fn begin(
        &self,
        (key, body): (&str, &[u8]),
        host: &RunHost,
        begin: impl FnOnce() -> Result<Arc<HostedRun>, RunHostError>,
    ) -> Result<(Arc<HostedRun>, bool), Box<Problem>> {
        check(key)?;
        let body = Sha256Digest::of(body);
        // The lock is held until the run is in the list: a request that comes at the same time finds it.
        let mut keys = self.keys();
        if let Some(run) = find(&mut keys, (key, &body), host)? {
            return Ok((run, false));
        }
        let run = begin()?;
        keys.push_back(KeyedRun { key: key.to_owned(), body, run: Arc::clone(run.id()) });
        if keys.len() > limits::SERVE_KEYS {
            keys.pop_front();
        }
        Ok((run, true))
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.keys().len()
    }

    fn keys(&self) -> MutexGuard<'_, VecDeque<KeyedRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks the form of a key.
fn check(key: &str) -> Result<(), Box<Problem>> {
    let most = limits::SERVE_KEY_BYTES;
    if (1..=most).contains(&key.len()) && key.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Ok(());
    }
    let title = format!("the idempotency key has not 1 to {most} printable ASCII characters");
    Err(Problem::bad_request(title).mend("use a UUID"))
}

/// Returns the run of a key, if it is remembered; forgets the key otherwise.
fn find(
    keys: &mut VecDeque<KeyedRun>,
    (key, body): (&str, &Sha256Digest),
    host: &RunHost,
) -> Result<Option<Arc<HostedRun>>, Box<Problem>> {
    let Some(at) = keys.iter().position(|known| known.key == key) else { return Ok(None) };
    match host.run(&keys[at].run) {
        Ok(run) if keys[at].body == *body => Ok(Some(run)),
        Ok(_) => {
            let title = "the idempotency key was used with another body";
            Err(Problem::new(StatusCode::CONFLICT, "conflict", title).mend("use a new key"))
        }
        Err(_) => {
            keys.remove(at);
            Ok(None)
        }
    }
}
