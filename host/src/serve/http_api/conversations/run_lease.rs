use std::sync::Arc;

use crate::serve::hosted_runs::{HostedRun, RunHost, RunHostError, RunRequest};

/// A run for one client, which is cancelled when the client goes: nobody else would read its answer.
pub struct RunLease(Arc<HostedRun>);

impl RunLease {
    /// Starts a run, and waits until it has begun.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if the run could not begin.
    pub async fn start(host: &RunHost, request: RunRequest) -> Result<Self, RunHostError> {
        host.check_session(&request.target).await?;
        let lease = Self(host.begin(request)?);
        lease.0.begun().await?;
        Ok(lease)
    }

    /// Returns the run.
    pub fn run(&self) -> &Arc<HostedRun> {
        &self.0
    }
}

impl Drop for RunLease {
    fn drop(&mut self) {
        if !self.0.state().has_ended() {
            self.0.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::hosted_runs::{
        HostedRunState,
        testing::{SilentHost, request},
    };

    #[tokio::test]
    async fn run_is_cancelled_when_its_client_goes() {
        let silent = SilentHost::new(1).await;
        let lease = RunLease::start(&silent.host, request("hi")).await.unwrap();
        let run = Arc::clone(lease.run());
        assert_eq!(run.state(), HostedRunState::Running);
        drop(lease);
        assert_eq!(run.finished().await.state(), HostedRunState::Cancelled);
    }
}
