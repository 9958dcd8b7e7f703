use std::fmt;

use async_trait::async_trait;
use url::Url;

use shelly_core::error::Fault;

/// Takes a person to a login page, and waits for the result.
#[async_trait]
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Returns the redirect URL, which never changes.
    fn redirect(&self) -> Url;

    /// Takes a person to this address and waits for the end of the login. Returns the redirect URL with the query that the
    /// authorization server added.
    ///
    /// # Errors
    ///
    /// A [`Fault`] that says why the login was not completed.
    async fn authorize(&self, url: &Url) -> Result<Url, Fault>;
}
