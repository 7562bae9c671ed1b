//! Certificates of a server: which one is shown to whom.
//!
//! A client names the host that it wants before anything is encrypted (SNI, RFC 6066 3). It is
//! shown the certificate that has this name, else one with a wildcard in place of its first label
//! (RFC 6125 6.4.3), else the usual one, as a client that names nobody is. Of two certificates with
//! one name the first is shown.

use crate::layer::tls::{TlsError, wrong};
use crate::layer::{aside, binding};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The usual certificate, and those of other names.
#[derive(Debug)]
pub(super) struct CertificateChoice {
    usual: Shown,
    /// By names in lower case; `*.` begins a wildcard.
    named: HashMap<Box<str>, Shown>,
}

/// A certificate that is shown, and what binds a login to it.
#[derive(Clone, Debug)]
struct Shown {
    certified: Arc<CertifiedKey>,
    end_point: Option<Arc<[u8]>>,
}

impl Shown {
    fn new(certified: &Arc<CertifiedKey>) -> Shown {
        let end_point = certified.cert.first().and_then(|own| binding::end_point(own));
        Shown { certified: certified.clone(), end_point }
    }
}

/// A certificate with its chain and its key. `Err`: why they are none.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, rustls::Error> {
    let signing = provider.key_provider.load_private_key(key)?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(certified))
        }
        Err(error) => Err(error),
    }
}

/// A certificate with its chain, and its key.
pub(super) fn pair(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = read(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| wrong(key, unreadable("private key", &error)))?;
    certified(chain, secret, provider).map_err(|error| {
        let what = match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("certificate and key ({}) do not match", key.display())
            }
            rustls::Error::InvalidCertificate(_) => {
                "the certificate cannot be used: it must be an X.509 certificate of version 3"
                    .into()
            }
            error => format!("the key ({}) cannot be used: {error}", key.display()),
        };
        wrong(certificate, what)
    })
}

/// All certificates of a PEM file; at least one.
pub(super) fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if chain.is_empty() => Err(wrong(path, "no PEM certificate found".into())),
        Ok(chain) => Ok(chain),
        Err(error) => Err(wrong(path, unreadable("certificate", &error))),
    }
}

/// Why a PEM file of this cannot be read.
fn unreadable(what: &str, error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => format!("cannot read the {what}: {error}"),
        error => format!("no readable PEM {what}: {error}"),
    }
}

impl CertificateChoice {
    /// Shows `usual` to whom none of the `others` is for.
    pub(super) fn new(usual: Arc<CertifiedKey>, others: &[Arc<CertifiedKey>]) -> CertificateChoice {
        let mut named = HashMap::new();
        for certified in std::iter::once(&usual).chain(others) {
            let shown = Shown::new(certified);
            for name in names(certified) {
                named.entry(name).or_insert_with(|| shown.clone());
            }
        }
        CertificateChoice { usual: Shown::new(&usual), named }
    }

    fn of(&self, name: Option<&str>) -> &Shown {
        let Some(name) = name else { return &self.usual };
        let name = name.to_ascii_lowercase();
        let wildcard = || {
            let (_, rest) = name.split_once('.')?;
            self.named.get(format!("*.{rest}").as_str())
        };
        self.named.get(name.as_str()).or_else(wildcard).unwrap_or(&self.usual)
    }
}

impl ResolvesServerCert for CertificateChoice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.of(hello.server_name());
        aside::chosen(hello.server_name(), shown.end_point.clone());
        Some(shown.certified.clone())
    }
}

/// DNS names of a certificate, in lower case.
fn names(certified: &CertifiedKey) -> Vec<Box<str>> {
    let Ok((_, parsed)) = X509Certificate::from_der(&certified.cert[0]) else { return Vec::new() };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let dns = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase().into()),
        _ => None,
    });
    dns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::ring;

    fn made(names: &[&str]) -> Arc<CertifiedKey> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        certified(vec![made.cert.into()], key, &ring::default_provider()).expect("they fit")
    }

    #[test]
    fn a_name_is_shown_its_certificate_or_that_of_its_wildcard_or_the_usual_one() {
        let [usual, shop, wild, later] = [
            made(&["main.example"]),
            made(&["shop.example", "A.wild.example"]),
            made(&["*.wild.example"]),
            made(&["shop.example"]),
        ];
        let choice = CertificateChoice::new(usual.clone(), &[shop.clone(), wild.clone(), later]);
        for (name, expected) in [
            (None, &usual),
            (Some("main.example"), &usual),
            (Some("shop.example"), &shop),
            (Some("SHOP.Example"), &shop),
            (Some("a.wild.example"), &shop),
            (Some("b.wild.example"), &wild),
            (Some("wild.example"), &usual),
            (Some("b.c.wild.example"), &usual),
            (Some("example"), &usual),
            (Some("*.wild.example"), &wild),
        ] {
            assert!(Arc::ptr_eq(&choice.of(name).certified, expected), "{name:?}");
        }
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let [one, other] = [1, 2].map(|_| {
            rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).expect("made")
        });
        let key = PrivateKeyDer::try_from(other.signing_key.serialize_der()).expect("a key");
        let made = certified(vec![one.cert.into()], key, &ring::default_provider());
        assert!(matches!(made, Err(rustls::Error::InconsistentKeys(_))), "{made:?}");
    }
}
