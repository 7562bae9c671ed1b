//! Settings of whoever uses Redis, and what is made of them.
//!
//! Files are read elsewhere: here certificates are bytes. The provider of cryptography is named
//! for each configuration: a process may have several, and then has no default.

use crate::traffic::Traffic;
use crate::url::{Credentials, HostPort, RedisUrl, parse};
use model::ports::presence::directory::DirectoryError;
use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::fmt;
use std::sync::Arc;

/// Settings of the directory: how to reach Redis, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where and what it is, as [`parse`](crate::parse) takes it.
    pub url: String,
    /// Prefix of all keys.
    pub prefix: String,
    /// Where this node says that its API is reached, for other nodes; empty: it does not say.
    pub address: String,
    /// Within which a call ends, milliseconds; from 1. Calls over many buckets or keys are made of
    /// pieces, each with this limit ([`Redis`](crate::Redis)).
    pub timeout_ms: u32,
    /// For URLs that ask for TLS.
    pub tls: RedisTls,
}

/// Certificates, PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// The authorities whose word is taken for the server's certificate. Needed with TLS.
    pub ca: Option<Vec<u8>>,
    /// The certificate to show, with its chain, where the server asks for one.
    pub certificate: Option<Vec<u8>>,
    /// Its key.
    pub key: Option<Vec<u8>>,
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|_| "…");
        let (certificate, key) = (told(&self.certificate), told(&self.key));
        let mut out = f.debug_struct("Tls");
        out.field("ca", &told(&self.ca)).field("certificate", &certificate);
        out.field("key", &key).finish()
    }
}

/// Parameters by which connections are made.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) trust: Trust,
    pub(crate) account: Credentials,
    pub(crate) db: u16,
    pub(crate) timeout_ms: u32,
    /// Of all connections together.
    pub(crate) traffic: Arc<Traffic>,
}

impl Access {
    /// The target, and how to get in.
    pub(crate) fn of(settings: &Settings) -> Result<(RedisUrl, Access), String> {
        let target = parse(&settings.url)?;
        if settings.timeout_ms == 0 {
            return Err("the time limit must not be 0".into());
        }
        let trust = if target.tls { Trust::of(&settings.tls)? } else { Trust(None) };
        let (account, timeout_ms) = (target.account.clone(), settings.timeout_ms);
        let (db, traffic) = (target.db, Arc::default());
        let access = Access { trust, account, db, timeout_ms, traffic };
        Ok((target, access))
    }
}

/// Authorities to trust; `None`: connections are not encrypted.
#[derive(Clone)]
pub(crate) struct Trust(Option<Arc<ClientConfig>>);

impl Trust {
    fn of(tls: &RedisTls) -> Result<Trust, String> {
        let ca = tls.ca.as_deref().ok_or(
            "`rediss` needs CA certificates (`ca`), such as the system's bundle, \
             /etc/ssl/certs/ca-certificates.crt",
        )?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates("ca", ca)? {
            // A bundle of a system may hold one that is too old to be understood.
            let _ = roots.add(certificate);
        }
        if roots.is_empty() {
            return Err("`ca` has no usable certificate".into());
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let config = match (&tls.certificate, &tls.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(chain), Some(key)) => {
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| format!("`key` is not a private key: {error}"))?;
                let chain = certificates("certificate", chain)?;
                let own = builder.with_client_auth_cert(chain, key);
                own.map_err(|error| format!("`certificate` and `key`: {error}"))?
            }
            _ => return Err("`certificate` and `key` must be set together".into()),
        };
        Ok(Trust(Some(Arc::new(config))))
    }

    /// A session with a server, where connections are encrypted.
    pub(crate) fn session(
        &self,
        place: &HostPort,
    ) -> Result<Option<ClientConnection>, DirectoryError> {
        let Some(config) = &self.0 else { return Ok(None) };
        let refused = |why: String| DirectoryError::Unreachable(format!("{place}: {why}"));
        let name = ServerName::try_from(place.host.to_string());
        let name = name.map_err(|error| refused(error.to_string()))?;
        let session = ClientConnection::new(config.clone(), name);
        session.map(Some).map_err(|error| refused(error.to_string()))
    }
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| {
        format!(
            "`{what}` is not a PEM file with certificates: \
                                           {error}"
        )
    })?;
    if all.is_empty() { Err(format!("`{what}` has no certificate")) } else { Ok(all) }
}
