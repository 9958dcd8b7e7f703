use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
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
    /// Returns the run that a request with this key and body has started before, and `false`; or starts one, and returns
    /// `true`. The key of a run that could not begin, or is forgotten, is free again.
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
        if !(1..=limits::SERVE_KEY_BYTES).contains(&key.len()) || !key.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        {
            let most = limits::SERVE_KEY_BYTES;
            let title = format!("the idempotency key has not 1 to {most} printable ASCII characters");
            return Err(Problem::bad_request(title).mend("use a UUID"));
        }
        let body = Sha256Digest::of(body);
        // The lock is held until the run is in the list: a request that comes at the same time finds it.
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = keys.iter().position(|known| known.key == key) {
            match host.run(&keys[at].run) {
                Ok(run) if keys[at].body == body => return Ok((run, false)),
                Ok(_) => {
                    let title = "the idempotency key was used with another body";
                    return Err(Problem::new(StatusCode::CONFLICT, "conflict", title).mend("use a new key"));
                }
                Err(_) => drop(keys.remove(at)),
            }
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
