//! Signatures of webhooks: HMAC-SHA-256 with a secret that the sender has too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::{digest::Sha256Digest, hex, limits};

/// The way in which a sender signs its webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookScheme {
    /// The body is signed, in `X-Hub-Signature-256`: by GitHub.
    Github,
    /// An id, a time and the body are signed, in `webhook-signature`: by the Standard Webhooks specification.
    Standard,
    /// The body is signed, in a header of the sender's own.
    Header {
        /// The name of the header.
        name: String,
        /// The text before the code.
        prefix: String,
        /// The form of the code.
        encoding: CodeEncoding,
        /// The header with an id that a repeated delivery has again.
        delivery: Option<String>,
    },
}

/// The form of an authentication code in a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeEncoding {
    /// Hexadecimal digits.
    Hex,
    /// Base64.
    Base64,
}

/// The reason why a secret cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSecretError {
    /// The secret is too short to keep others out.
    #[error("the secret has less than {} bytes", limits::SERVE_TOKEN_BYTES)]
    Short,
    /// The secret of the Standard Webhooks is `whsec_` and base64.
    #[error("the secret is not `whsec_` and base64")]
    Encoding,
}

/// The reason why a webhook is refused. It does not help to guess a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebhookRefusal {
    /// A header that the scheme needs is missing, or has another form.
    #[error("the webhook is not signed as the trigger expects")]
    Unsigned,
    /// The signature is that of another secret or another body.
    #[error("the signature is wrong")]
    Signature,
    /// The webhook was signed too long ago, or by another clock.
    #[error(
        "the webhook was signed more than {} minutes ago, or by a clock that is ahead",
        limits::TRIGGER_TOLERANCE.as_secs() / 60
    )]
    Time,
}

/// The headers of a webhook, by their names in lower case.
pub type WebhookHead<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A webhook whose signature is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedDelivery {
    /// The id that a repeated delivery has again, if the sender gives one.
    pub id: Option<String>,
    /// The digest of what was signed: the same bytes again are a repetition, whatever their id is.
    pub digest: Sha256Digest,
    /// The kind of event, if the sender names it in the head.
    pub event: Option<String>,
}

/// Verifies the webhooks of one trigger.
#[derive(Clone)]
pub struct WebhookVerifier {
    scheme: WebhookScheme,
    mac: Hmac<Sha256>,
}

impl WebhookVerifier {
    /// Creates a verifier with the secret of the sender.
    ///
    /// # Errors
    ///
    /// [`WebhookSecretError`].
    pub fn new(scheme: WebhookScheme, secret: &str) -> Result<Self, WebhookSecretError> {
        let key = match scheme {
            WebhookScheme::Standard => {
                let digits = secret.strip_prefix("whsec_").ok_or(WebhookSecretError::Encoding)?;
                STANDARD.decode(digits).map_err(|_| WebhookSecretError::Encoding)?
            }
            _ => secret.as_bytes().to_vec(),
        };
        if key.len() < limits::SERVE_TOKEN_BYTES {
            return Err(WebhookSecretError::Short);
        }
        let mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length is valid");
        Ok(Self { scheme, mac })
    }

    /// Checks that the headers have a signature in the form of the scheme. A webhook without one needs no reading.
    ///
    /// # Errors
    ///
    /// [`WebhookRefusal::Unsigned`].
    pub fn check_head(&self, header: WebhookHead<'_>) -> Result<(), WebhookRefusal> {
        match &self.scheme {
            WebhookScheme::Github => {
                code_in(&required(header, "x-hub-signature-256")?, "sha256=", CodeEncoding::Hex).map(|_| ())
            }
            WebhookScheme::Standard => ["webhook-id", "webhook-timestamp", "webhook-signature"]
                .into_iter()
                .try_for_each(|name| required(header, name).map(drop)),
            WebhookScheme::Header { name, prefix, encoding, .. } => {
                code_in(&required(header, name)?, prefix, *encoding).map(|_| ())
            }
        }
    }

    /// Verifies a webhook in a time that does not depend on where its signature is wrong.
    ///
    /// # Errors
    ///
    /// [`WebhookRefusal`].
    pub fn verify(
        &self,
        header: WebhookHead<'_>,
        body: &[u8],
        now: SystemTime,
    ) -> Result<VerifiedDelivery, WebhookRefusal> {
        match &self.scheme {
            WebhookScheme::Github => {
                let code = code_in(&required(header, "x-hub-signature-256")?, "sha256=", CodeEncoding::Hex)?;
                self.check(&[body], &[code])?;
                let (id, event) = (header("x-github-delivery"), header("x-github-event"));
                Ok(VerifiedDelivery { id, digest: Sha256Digest::of(body), event })
            }
            WebhookScheme::Standard => {
                let [id, time, codes] = [
                    required(header, "webhook-id")?,
                    required(header, "webhook-timestamp")?,
                    required(header, "webhook-signature")?,
                ];
                let codes = codes.split_whitespace().filter_map(|code| code_in(code, "v1,", CodeEncoding::Base64).ok());
                let codes: Vec<_> = codes.take(limits::TRIGGER_SIGNATURES).collect();
                let head = format!("{id}.{time}.");
                self.check(&[head.as_bytes(), body], &codes)?;
                // Only now is it known who has said it.
                check_time(&time, now)?;
                Ok(VerifiedDelivery {
                    id: Some(id),
                    digest: Sha256Digest::of([head.as_bytes(), body].concat()),
                    event: None,
                })
            }
            WebhookScheme::Header { name, prefix, encoding, delivery } => {
                let code = code_in(&required(header, name)?, prefix, *encoding)?;
                self.check(&[body], &[code])?;
                let id = delivery.as_deref().and_then(header);
                Ok(VerifiedDelivery { id, digest: Sha256Digest::of(body), event: None })
            }
        }
    }

    /// Checks that one of the codes is that of these parts, one after the other.
    fn check(&self, parts: &[&[u8]], codes: &[[u8; 32]]) -> Result<(), WebhookRefusal> {
        let mut mac = self.mac.clone();
        parts.iter().for_each(|part| mac.update(part));
        let is_right = |code: &[u8; 32]| mac.clone().verify_slice(code).is_ok();
        match codes.iter().any(is_right) {
            true => Ok(()),
            false if codes.is_empty() => Err(WebhookRefusal::Unsigned),
            false => Err(WebhookRefusal::Signature),
        }
    }
}

fn required(header: WebhookHead<'_>, name: &str) -> Result<String, WebhookRefusal> {
    header(name).filter(|value| !value.is_empty()).ok_or(WebhookRefusal::Unsigned)
}

fn code_in(text: &str, prefix: &str, encoding: CodeEncoding) -> Result<[u8; 32], WebhookRefusal> {
    let code = text.trim().strip_prefix(prefix).ok_or(WebhookRefusal::Unsigned)?;
    let code = match encoding {
        CodeEncoding::Hex => hex::decode(code),
        CodeEncoding::Base64 => STANDARD.decode(code).ok().and_then(|code| code.try_into().ok()),
    };
    code.ok_or(WebhookRefusal::Unsigned)
}

/// Checks the time of a signature, in seconds since 1970.
fn check_time(time: &str, now: SystemTime) -> Result<(), WebhookRefusal> {
    let seconds: u64 = time.parse().map_err(|_| WebhookRefusal::Unsigned)?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    match now.abs_diff(Duration::from_secs(seconds)) <= limits::TRIGGER_TOLERANCE {
        true => Ok(()),
        false => Err(WebhookRefusal::Time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "It's a Secret to Everybody";

    fn head<'a>(headers: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn verify(
        verifier: &WebhookVerifier,
        headers: &[(&str, &str)],
        body: &str,
        seconds: u64,
    ) -> Result<VerifiedDelivery, WebhookRefusal> {
        verifier.verify(&head(headers), body.as_bytes(), UNIX_EPOCH + Duration::from_secs(seconds))
    }

    #[test]
    fn github_webhook_is_verified() {
        let verifier = WebhookVerifier::new(WebhookScheme::Github, SECRET).unwrap();
        // From the documentation of GitHub.
        let code = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let headers = [("x-hub-signature-256", code), ("x-github-delivery", "d-1"), ("x-github-event", "issues")];
        let verified = verify(&verifier, &headers, "Hello, World!", 0).unwrap();
        assert_eq!((verified.id.as_deref(), verified.event.as_deref()), (Some("d-1"), Some("issues")));
        assert_eq!(verify(&verifier, &headers, "Hello, World?", 0), Err(WebhookRefusal::Signature));
        for wrong in ["", "sha256=", "sha1=757107", "sha256=zz", &code[7..], &code[..code.len() - 2]] {
            let refused = verify(&verifier, &[("x-hub-signature-256", wrong)], "Hello, World!", 0);
            assert_eq!(refused, Err(WebhookRefusal::Unsigned), "{wrong}");
        }
        assert_eq!(verify(&verifier, &[], "Hello, World!", 0), Err(WebhookRefusal::Unsigned));
        assert_eq!(verifier.check_head(&head(&headers)), Ok(()));
        let none: &[(&str, &str)] = &[];
        for unsigned in [none, &[("x-hub-signature-256", "sha256=zz")]] {
            assert_eq!(verifier.check_head(&head(unsigned)), Err(WebhookRefusal::Unsigned), "{unsigned:?}");
        }
        let other = WebhookVerifier::new(WebhookScheme::Github, "another secret of someone").unwrap();
        assert_eq!(verify(&other, &headers, "Hello, World!", 0), Err(WebhookRefusal::Signature));
    }

    #[test]
    fn standard_webhook_is_verified_within_its_time() {
        // From the test vectors of the specification.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let verifier = WebhookVerifier::new(WebhookScheme::Standard, secret).unwrap();
        let (body, seconds) = (r#"{"test": 2432232314}"#, 1_614_265_330);
        let code = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let with = |codes: &str, at: u64, time: &str| {
            let headers = [
                ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
                ("webhook-timestamp", time),
                ("webhook-signature", codes),
            ];
            verify(&verifier, &headers, body, at)
        };
        let time = seconds.to_string();
        assert_eq!(with(code, seconds, &time).unwrap().id.unwrap(), "msg_p5jXN8AQM9LWM0D4loKWxJek");
        let tolerance = limits::TRIGGER_TOLERANCE.as_secs();
        for at in [seconds + tolerance, seconds - tolerance] {
            assert!(with(code, at, &time).is_ok(), "{at}");
        }
        for at in [seconds + tolerance + 1, seconds - tolerance - 1, 0] {
            assert_eq!(with(code, at, &time), Err(WebhookRefusal::Time), "{at}");
        }
        let signed = [("webhook-id", "m"), ("webhook-timestamp", "0"), ("webhook-signature", code)];
        assert_eq!(verifier.check_head(&head(&signed)), Ok(()));
        assert_eq!(verifier.check_head(&head(&signed[..2])), Err(WebhookRefusal::Unsigned));
        // The time is signed too.
        let later = (seconds + 1).to_string();
        assert_eq!(with(code, seconds, &later), Err(WebhookRefusal::Signature));
        let other = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        assert!(with(&format!("v2,x {other} {code}"), seconds, &time).is_ok(), "the secret has just changed");
        let many = format!("{other} ").repeat(limits::TRIGGER_SIGNATURES);
        assert_eq!(with(&format!("{many}{code}"), seconds, &time), Err(WebhookRefusal::Signature));
        assert_eq!(with("v1a,x", seconds, &time), Err(WebhookRefusal::Unsigned));
    }

    #[test]
    fn webhook_with_a_header_of_its_own_is_verified() {
        let scheme = |encoding, prefix: &str| WebhookScheme::Header {
            name: "x-signature".into(),
            prefix: prefix.into(),
            encoding,
            delivery: Some("x-id".into()),
        };
        let code = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let verifier = WebhookVerifier::new(scheme(CodeEncoding::Hex, ""), SECRET).unwrap();
        let verified = verify(&verifier, &[("x-signature", code), ("x-id", "7")], "Hello, World!", 0).unwrap();
        assert_eq!(verified.id.as_deref(), Some("7"));
        assert_eq!(verifier.check_head(&head(&[("x-signature", code)])), Ok(()));
        assert_eq!(verifier.check_head(&head(&[("x-id", "7")])), Err(WebhookRefusal::Unsigned));
        let base64 = format!("hmac {}", STANDARD.encode(hex::decode::<32>(code).unwrap()));
        let verifier = WebhookVerifier::new(scheme(CodeEncoding::Base64, "hmac "), SECRET).unwrap();
        assert_eq!(verify(&verifier, &[("x-signature", &*base64)], "Hello, World!", 0).unwrap().id, None);
        assert_eq!(verify(&verifier, &[("x-signature", code)], "Hello, World!", 0), Err(WebhookRefusal::Unsigned));
    }

    #[test]
    fn unusable_secret_is_refused() {
        for (scheme, secret, error) in [
            (WebhookScheme::Github, "", WebhookSecretError::Short),
            (WebhookScheme::Github, "fifteen-bytes-x", WebhookSecretError::Short),
            (WebhookScheme::Standard, "whsec_AAAA", WebhookSecretError::Short),
            (WebhookScheme::Standard, "whsec_%", WebhookSecretError::Encoding),
            (WebhookScheme::Standard, "a secret without the prefix", WebhookSecretError::Encoding),
        ] {
            assert_eq!(WebhookVerifier::new(scheme, secret).err(), Some(error), "{secret}");
        }
    }
}
