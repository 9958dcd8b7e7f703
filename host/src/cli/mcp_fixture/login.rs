//! Logs in at the authorization servers of the conformance suite, which consent at once.

use async_trait::async_trait;
use http::{Method, header};
use serde::Deserialize;
use url::Url;

use crate::{
    error::Fault,
    mcp::{Authorizer, OAuthGrantType, OAuthOptions, TokenStore},
    net::{HttpClient, HttpRequest, Secret},
};

/// The client credentials of a scenario.
#[derive(Default, Deserialize)]
pub struct ScenarioCredentials {
    client_id: Option<String>,
    client_secret: Option<String>,
    issuer: Option<String>,
}

/// The metadata URL that the suite expects; nothing is fetched from it.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// Returns the OAuth options for a scenario.
pub fn oauth(scenario: &str, credentials: ScenarioCredentials) -> Result<OAuthOptions, Fault> {
    let ScenarioCredentials { client_id, client_secret, issuer } = credentials;
    let by_itself = scenario == "auth/client-credentials-basic";
    Ok(OAuthOptions {
        grant: if by_itself { OAuthGrantType::Client } else { OAuthGrantType::Person },
        client_id,
        client_secret: client_secret.map(Secret::new),
        issuer,
        metadata_url: Some(Url::parse(METADATA).map_err(|error| Fault::other(error.to_string()))?),
        authorizer: Some(std::sync::Arc::new(RedirectFollower(HttpClient::new()?))),
        ..OAuthOptions::new(TokenStore::in_memory())
    })
}

/// Follows the redirect of a login without loading its target.
#[derive(Debug)]
struct RedirectFollower(HttpClient);

/// The redirect URL; nothing listens there.
const REDIRECT: &str = "http://127.0.0.1:3000/callback";

#[async_trait]
impl Authorizer for RedirectFollower {
    fn redirect(&self) -> Url {
        Url::parse(REDIRECT).expect("it is a URL")
    }

    async fn authorize(&self, url: &Url) -> Result<Url, Fault> {
        let answer = self.0.exchange(Method::GET, &HttpRequest::new(url.clone()), None).await?;
        let nowhere = || Fault::other(format!("the login leads nowhere: {}", answer.status()));
        let led = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok()).ok_or_else(nowhere)?;
        url.join(led).map_err(|error| Fault::other(error.to_string()))
    }
}
