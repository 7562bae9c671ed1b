//! Certificates for 127.0.0.1 and `localhost`, made on the spot: an authority, a server's, and a
//! client's.

use super::write_once;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::path::{Path, PathBuf};

/// PEM of an authority, and of what it has signed: certificate and key.
#[derive(Clone)]
pub struct Certificates {
    /// The authority's certificate.
    pub authority: String,
    /// The server's.
    pub server: (String, String),
    /// A client's.
    pub client: (String, String),
}

impl Certificates {
    /// Makes new ones.
    pub fn make() -> Certificates {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A name of its own: otherwise what it signs looks as if signed by itself.
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let signed = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new(names).expect("names");
            let certificate = params.signed_by(&key, &issuer).expect("signed");
            (certificate.pem(), key.serialize_pem())
        };
        let (server, client) = (signed(&["127.0.0.1", "localhost"]), signed(&["holdline"]));
        Certificates { authority: issuer.pem(), server, client }
    }

    /// Writes what a server needs into its folder, and says where the authority's is.
    pub(super) fn write(&self, folder: &Path) -> PathBuf {
        write_once(folder, "server.pem", &self.server.0);
        write_once(folder, "server.key", &self.server.1);
        write_once(folder, "authority.pem", &self.authority);
        folder.join("authority.pem")
    }
}
