//! Accounts of a NATS server, which see nothing of one another.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use nkeys::KeyPair;
use serde_json::{Value, json};

use crate::support::Place;

/// An operator with accounts, each of which may use JetStream.
pub struct NatsOperator {
    operator: KeyPair,
    system: KeyPair,
    accounts: Vec<KeyPair>,
}

impl NatsOperator {
    pub fn new(accounts: usize) -> Self {
        let accounts = (0..accounts).map(|_| KeyPair::new_account()).collect();
        Self { operator: KeyPair::new_operator(), system: KeyPair::new_account(), accounts }
    }

    /// Returns the lines of the server's config.
    pub fn config(&self) -> String {
        let system = self.system.public_key();
        let operator = json!({"type": "operator", "version": 2, "system_account": system});
        let operator = token(&self.operator, &self.operator, operator);
        let account = |account: &KeyPair, storage: i64| {
            let limits = json!({
                "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
                "leaf": -1, "mem_storage": storage, "disk_storage": storage, "streams": storage, "consumer": storage,
            });
            let claims = json!({"type": "account", "version": 2, "limits": limits});
            format!("    {}: {}\n", account.public_key(), token(&self.operator, account, claims))
        };
        let accounts: String = self.accounts.iter().map(|one| account(one, -1)).collect();
        let accounts = account(&self.system, 0) + &accounts;
        format!(
            "operator: {operator}\nsystem_account: {system}\nresolver: MEMORY\nresolver_preload: {{\n{accounts}}}\n"
        )
    }

    /// Writes the credentials file of a new user of an account, who may not publish at these subjects.
    pub fn user(&self, account: usize, place: &Place, file: &str, denied: &[&str]) {
        let user = KeyPair::new_user();
        let publish = if denied.is_empty() { json!({}) } else { json!({"deny": denied}) };
        let claims = json!({
            "type": "user", "version": 2, "pub": publish, "sub": {}, "subs": -1, "data": -1, "payload": -1,
        });
        let (token, seed) = (token(&self.accounts[account], &user, claims), user.seed().unwrap());
        let line = "-----";
        let text = format!(
            "{line}BEGIN NATS USER JWT{line}\n{token}\n{line}-END NATS USER JWT{line}-\n\n\
             {line}BEGIN USER NKEY SEED{line}\n{seed}\n{line}-END USER NKEY SEED{line}-\n"
        );
        place.file(file, text);
    }
}

/// Returns a JWT about a key, signed by another key.
fn token(issuer: &KeyPair, subject: &KeyPair, claims: Value) -> String {
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let (header, id) = (json!({"typ": "JWT", "alg": "ed25519-nkey"}), subject.public_key());
    let body = json!({
        "jti": id, "iat": 1_600_000_000, "iss": issuer.public_key(), "name": id, "sub": id, "nats": claims,
    });
    let signed = format!("{}.{}", encoded(&header), encoded(&body));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}
