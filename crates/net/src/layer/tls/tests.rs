//! Handshakes that fail, and files that cannot be used.

use super::*;
use crate::detail::Detail;
use crate::layer::Flow;
use model::close::CloseReason;
use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use rustls::SupportedProtocolVersion;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use tempfile::TempDir;

/// An authority, a server's certificate by it, and a client's by another one.
struct Papers {
    folder: TempDir,
}

impl Papers {
    fn made() -> Papers {
        let papers = Papers { folder: tempfile::tempdir().expect("a folder") };
        for (authority, name) in [("ca", "server"), ("other-ca", "client")] {
            let key = || KeyPair::generate().expect("a key");
            let params = |name: &str| {
                let mut params = CertificateParams::new(vec![name.into()]).expect("a name");
                params.distinguished_name.push(DnType::CommonName, name);
                params
            };
            let (mut root, root_key) = (params(authority), key());
            root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            papers.write(authority, &root.self_signed(&root_key).expect("made").pem());
            let own = key();
            let made = params(name).signed_by(&own, &Issuer::new(root, root_key)).expect("signed");
            papers.write(name, &made.pem());
            papers.write(&format!("{name}-key"), &own.serialize_pem());
        }
        papers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.path("server"),
            key: self.path("server-key"),
            others: Vec::new(),
            client_ca: Some(self.path("ca")),
            revoked: None,
            only_1_3: false,
        }
    }

    fn client(&self, version: &'static SupportedProtocolVersion, shows: bool) -> TlsSession {
        let read =
            |name: &str| CertificateDer::from_pem_file(self.path(name)).expect("it is there");
        let mut roots = RootCertStore::empty();
        roots.add(read("ca")).expect("an authority");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("a version")
            .with_root_certificates(roots);
        let key = PrivateKeyDer::from_pem_file(self.path("client-key")).expect("a key");
        let config = match shows {
            true => config.with_client_auth_cert(vec![read("client")], key).expect("they fit"),
            false => config.with_no_client_auth(),
        };
        let name = ServerName::try_from("server").expect("a name");
        TlsSession::client(&ClientTls::new(Arc::new(config), name)).expect("it begins")
    }
}

/// Has both talk until the server fails; why, and what the client makes of that.
fn fails(server: &TlsServer, mut client: TlsSession) -> (Detail, Result<Flow, Detail>) {
    let mut server = TlsSession::server(server).expect("it begins");
    let (mut plain, mut said) = (Vec::new(), Vec::new());
    client.receive(&[], &mut plain, &mut said).expect("it says hello");
    for _ in 0..9 {
        let mut answer = Vec::new();
        let heard = server.receive(&said, &mut plain, &mut answer);
        said.clear();
        let told = client.receive(&answer, &mut plain, &mut said);
        if heard.is_err() {
            return (server.detail(), told.map_err(|_| client.detail()));
        }
    }
    panic!("they agreed");
}

#[test]
fn a_client_hears_by_an_alert_why_its_handshake_failed() {
    let papers = Papers::made();
    let server = |files| TlsServer::of(files, ClientCertificates::Required, &[]).expect("good");
    let usual = server(papers.files());
    // RFC 8446 6.2; in TLS 1.2 rustls says the same, or the word that was there for it.
    for (version, none) in [(&TLS13, 116), (&TLS12, 40)] {
        let (why, told) = fails(&usual, papers.client(version, false));
        assert_eq!(why, Detail::Certificate("none shown"), "{version:?}");
        let alerts = [Err(Detail::Alert(116)), Err(Detail::Alert(none))];
        assert!(alerts.contains(&told), "{version:?}: {told:?}");
        let (why, told) = fails(&usual, papers.client(version, true));
        assert_eq!(why, Detail::Certificate("unknown issuer"), "{version:?}");
        assert_eq!(told, Err(Detail::Alert(48)), "{version:?}");
    }
    let newest = server(TlsFiles { only_1_3: true, ..papers.files() });
    let (why, told) = fails(&newest, papers.client(&TLS12, false));
    assert_eq!((why, told), (Detail::Tls("incompatible"), Err(Detail::Alert(70))));
}

#[test]
fn what_is_no_tls_is_answered_by_an_alert_at_most_and_ends() {
    let papers = Papers::made();
    let server = TlsServer::of(papers.files(), ClientCertificates::Off, &[]).expect("good");
    let mut hello = Vec::new();
    papers.client(&TLS13, false).receive(&[], &mut Vec::new(), &mut hello).expect("it begins");
    for at in 0..hello.len().min(64) {
        let mut bent = hello.clone();
        bent[at] ^= 0x55;
        let mut session = TlsSession::server(&server).expect("it begins");
        let mut out = Vec::new();
        if session.receive(&bent, &mut Vec::new(), &mut out) == Err(CloseReason::TlsFailed) {
            assert!(out.is_empty() || out[0] == 21, "byte {at}: an alert (RFC 8446 5.1): {out:?}");
        }
    }
}

#[test]
fn a_revocation_list_that_cannot_be_used_is_named_itself() {
    let papers = Papers::made();
    let of = |text: &str| {
        papers.write("revoked", text);
        let files = TlsFiles { revoked: Some(papers.path("revoked")), ..papers.files() };
        let told = TlsServer::of(files, ClientCertificates::Optional, &[]).err();
        told.expect("it cannot be used").to_string()
    };
    let broken = "-----BEGIN X509 CRL-----\nAAECAwQF\n-----END X509 CRL-----\n";
    let not_base64 = "-----BEGIN X509 CRL-----\n???\n-----END X509 CRL-----\n";
    for (text, words) in [
        (broken, "invalid revocation list"),
        (not_base64, "no readable PEM revocation list"),
        ("", "no PEM revocation list"),
        ("\u{1}\u{2}DER", "no PEM revocation list"),
    ] {
        let told = of(text);
        assert!(told.contains("/revoked: ") && told.contains(words), "{told}");
    }
}
