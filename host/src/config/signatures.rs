//! The key `plugin_signatures`: who must have signed installed plugins.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    error::{ErrorKind, Report},
    packages::{SignaturePolicy, SigningKey},
};

/// Rules for the signatures of installed plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PluginSignaturesConfig {
    /// The keys of which one must have signed each plugin that is installed; empty: no plugin need be signed.
    pub require: Vec<SigningKeyConfig>,
}

/// A key that signs plugins.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SigningKeyConfig {
    /// The name of its owner, for messages.
    pub name: String,
    /// The public key of minisign, which begins with `RW`.
    pub key: String,
}

impl PluginSignaturesConfig {
    /// Returns the rule.
    ///
    /// # Errors
    ///
    /// A [`Report`] for a key that is not one of minisign.
    pub fn policy(&self) -> Result<SignaturePolicy, Report> {
        let keys = self.require.iter().map(|one| {
            SigningKey::parse(&one.name, &one.key).map_err(|why| {
                let message = format!("plugin_signatures.require.{}: the key cannot be used", one.name.escape_debug());
                Report::new(ErrorKind::Usage, message)
                    .cause(why)
                    .hint("write the second line of minisign.pub: 56 letters and digits that begin with RW")
            })
        });
        keys.collect::<Result<Vec<_>, _>>().map(SignaturePolicy::new)
    }
}
