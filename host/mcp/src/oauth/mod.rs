//! OAuth logins at remote servers. `rmcp` is the state machine; all of its requests go through this crate's HTTP client,
//! and tokens are stored where no project can reach them.

mod authorization_response;
mod authorizer;
mod login;
mod loopback;
mod oauth_error;
mod oauth_http;
mod oauth_options;
mod scopes;
mod store;
mod token_manager;
mod tokens;

pub use self::{
    authorizer::Authorizer,
    login::{login, logout},
    loopback::LoopbackAuthorizer,
    oauth_options::{OAuthGrantType, OAuthOptions},
    store::TokenStore,
};
pub(super) use self::{
    oauth_error::OAuthError,
    token_manager::{OAuthAttempts, OAuthChallenge, TokenManager},
};

/// The log target under which `rmcp` logs the authorization codes of logins, at levels finer than warnings.
pub const LOG_OF_CODES: &str = "rmcp::transport::auth";
