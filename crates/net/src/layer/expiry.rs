//! When certificates, authorities of clients and lists of revoked certificates expire.
//!
//! Of a file with a chain the certificate counts that expires first, for with it the chain is over.
//! It reads files and no clock.

use super::tls::TlsFiles;
use base::words;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use std::path::{Path, PathBuf};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

words! {
    /// Kind of what expires.
    #[derive(PartialOrd, Ord)]
    pub enum ExpiryKind {
        /// A certificate of the server, with its chain.
        Certificate = "certificate",
        /// An authority whose client certificates are believed.
        ClientCa = "client_ca",
        /// A list of revoked certificates: when the next one is due.
        RevocationList = "revocation_list",
    }
}

/// When a file's contents expire.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Expiry {
    /// Unix second at which it is over.
    pub until_s: i64,
    /// Its kind.
    pub kind: ExpiryKind,
    /// The file.
    pub file: PathBuf,
    /// Its subject, or the issuer of a list.
    pub subject: String,
}

/// Of all files of a listener's TLS; the first to expire comes first. An unreadable file is left
/// out: its user reports it.
pub fn of_files(files: &TlsFiles) -> Vec<Expiry> {
    let others = files.others.iter().map(|(certificate, _)| certificate);
    let own = [&files.certificate].into_iter().chain(others);
    let mut all: Vec<Expiry> =
        own.filter_map(|file| of_certificates(file, ExpiryKind::Certificate)).collect();
    let authorities = files.client_ca.iter();
    all.extend(authorities.filter_map(|file| of_certificates(file, ExpiryKind::ClientCa)));
    all.extend(files.revoked.iter().filter_map(|file| of_lists(file)));
    all.sort();
    all
}

fn of_certificates(file: &Path, kind: ExpiryKind) -> Option<Expiry> {
    let read = CertificateDer::pem_file_iter(file).ok()?.filter_map(Result::ok);
    let each = read.filter_map(|der| {
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let until_s = parsed.validity().not_after.timestamp();
        Some(Expiry { until_s, kind, file: file.into(), subject: parsed.subject().to_string() })
    });
    each.min()
}

fn of_lists(file: &Path) -> Option<Expiry> {
    let read = CertificateRevocationListDer::pem_file_iter(file).ok()?.filter_map(Result::ok);
    let each = read.filter_map(|der| {
        let (_, parsed) = CertificateRevocationList::from_der(&der).ok()?;
        let until_s = parsed.next_update()?.timestamp();
        let (kind, subject) = (ExpiryKind::RevocationList, parsed.issuer().to_string());
        Some(Expiry { until_s, kind, file: file.into(), subject })
    });
    each.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str, year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").pem()
    }

    #[test]
    fn the_first_of_a_chain_to_expire_counts_and_files_are_in_the_order_of_their_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("it is written");
            path
        };
        let chain = certificate("a.example", 2041) + &certificate("between", 2039);
        let other = certificate("b.example", 2038);
        let files = TlsFiles {
            certificate: put("a.pem", chain),
            key: "none".into(),
            others: vec![(put("b.pem", other), "none".into())],
            client_ca: Some(put("ca.pem", certificate("authority", 2040))),
            revoked: Some(put("broken.pem", "nothing".into())),
            only_1_3: false,
        };
        let all = of_files(&files);
        let told = all.iter().map(|it| (it.kind.name(), &*it.subject, it.until_s));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                ("certificate", "CN=b.example", 2_145_916_800),
                ("certificate", "CN=between", 2_177_452_800),
                ("client_ca", "CN=authority", 2_208_988_800),
            ]
        );
    }
}
