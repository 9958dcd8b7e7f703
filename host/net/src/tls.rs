//! The certificates that the process trusts: the operating system's root certificates, or those of `SSL_CERT_FILE` and
//! `SSL_CERT_DIR`.

use std::sync::{Arc, OnceLock};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::status;
use shelly_core::{error::Fault, limits};

/// The TLS trust of the process. Read once, because that takes longer than many a request.
pub(super) struct TlsTrust {
    /// The TLS settings for HTTP/2 and HTTP/1.1.
    pub tls: ClientConfig,
    /// The reason why no server's certificate can be verified, if so.
    pub no_roots: Option<String>,
}

impl TlsTrust {
    /// Returns the trust of the process.
    ///
    /// # Errors
    ///
    /// [`Fault::Other`] if TLS cannot be set up.
    pub fn of_process() -> Result<&'static Self, Fault> {
        static TRUST: OnceLock<Result<TlsTrust, Fault>> = OnceLock::new();
        TRUST.get_or_init(Self::read).as_ref().map_err(Clone::clone)
    }

    fn read() -> Result<Self, Fault> {
        // Fails only if a provider is installed already, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
        let failed = |error: Error| Fault::other(format!("TLS cannot be set up: {}", shown(&error)));
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
        let (mut tls, no_roots) = match rustls_platform_verifier::Verifier::new(provider) {
            Ok(verifier) => {
                let verifier =
                    Arc::new(NamedCertificates { inner: Arc::new(verifier), named: certificates_of_process });
                (builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth(), None)
            }
            // Unencrypted servers remain usable.
            Err(error) => {
                let tls = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
                (tls, Some(shown(&error)))
            }
        };
        tls.alpn_protocols = vec![b"h2".into(), b"http/1.1".into()];
        Ok(Self { tls, no_roots })
    }
}

/// A verifier that also accepts a server's own certificate if that very certificate is trusted. A certificate made by
/// `openssl req -x509` is both that of an authority and that of a server, and the inner verifier never accepts it as the
/// latter.
#[derive(Debug)]
struct NamedCertificates {
    inner: Arc<dyn ServerCertVerifier>,
    /// Returns all trusted certificates; only called in this case.
    named: fn() -> &'static [CertificateDer<'static>],
}

impl ServerCertVerifier for NamedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The inner verifier has checked the dates before this error, but not the name.
            Err(Error::InvalidCertificate(why))
                if is_of_authority(&why) && (self.named)().iter().any(|named| named == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Returns `true` if a server was refused because its certificate is marked as that of an authority.
fn is_of_authority(why: &CertificateError) -> bool {
    matches!(why, CertificateError::Other(why) if why.0.to_string().contains("CaUsedAsEndEntity"))
}

/// Returns the certificates that the platform's verifier has read; empty where the system itself verifies.
fn certificates_of_process() -> &'static [CertificateDer<'static>] {
    #[cfg(all(unix, not(target_vendor = "apple"), not(target_os = "android")))]
    {
        static CERTIFICATES: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
        CERTIFICATES.get_or_init(|| rustls_native_certs::load_native_certs().certs)
    }
    #[cfg(not(all(unix, not(target_vendor = "apple"), not(target_os = "android"))))]
    &[]
}

/// Explains in plain words why a certificate is not accepted.
pub(super) fn why_refused(why: &CertificateError) -> String {
    match why {
        why if is_of_authority(why) => "it is self-signed and not trusted by this machine".into(),
        CertificateError::UnknownIssuer => "it is not signed by an authority that this machine trusts".into(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; check the clock of this machine".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name".into()
        }
        CertificateError::Revoked => "it was revoked".into(),
        why => shown(why),
    }
}

fn shown(error: &impl ToString) -> String {
    status::shown(&error.to_string(), &[], limits::ERROR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a self-signed certificate of `localhost`, valid from 2020 to 2099.
    fn certificate() -> CertificateDer<'static> {
        static CERTIFICATE: OnceLock<CertificateDer<'static>> = OnceLock::new();
        let make = || {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2099, 12, 31);
            params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        CERTIFICATE.get_or_init(make).clone()
    }

    /// Returns the verdict for a server of this name.
    fn verdict(named: fn() -> &'static [CertificateDer<'static>], name: &str, year: u64) -> Result<(), String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let inner = rustls_platform_verifier::Verifier::new_with_extra_roots([certificate()], provider).unwrap();
        let verifier = NamedCertificates { inner: Arc::new(inner), named };
        let (name, now) = (ServerName::try_from(name.to_owned()).unwrap(), (year - 1970) * 31_556_952);
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
        let verified = verifier.verify_server_cert(&certificate(), &[], &name, &[], now);
        verified.map(drop).map_err(|error| match error {
            Error::InvalidCertificate(why) => why_refused(&why),
            error => error.to_string(),
        })
    }

    #[test]
    fn self_signed_certificate_is_accepted_if_it_is_named() {
        static NAMED: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
        let named: fn() -> &'static [CertificateDer<'static>] = || NAMED.get_or_init(|| vec![certificate()]);
        assert_eq!(verdict(named, "localhost", 2030), Ok(()));
        for (named, name, year, why) in [
            ((|| &[]) as fn() -> &'static [CertificateDer<'static>], "localhost", 2030, "it is self-signed"),
            (named, "elsewhere.example", 2030, "it is for another name"),
            (named, "localhost", 2010, "it is not valid yet"),
            (named, "localhost", 2990, "it has expired"),
        ] {
            let verdict = verdict(named, name, year).unwrap_err();
            assert!(verdict.starts_with(why), "{why}: {verdict}");
        }
    }
}
