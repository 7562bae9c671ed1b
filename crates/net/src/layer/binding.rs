//! Channel bindings of TLS (RFC 5056): values that both ends of a connection compute alike and that
//! nobody in between can make the same on both sides.
//!
//! `tls-exporter` (RFC 9266) is derived from TLS 1.3's exporter secret. TLS 1.2 has none here: its
//! exporter is seeded with both randoms, and is only safe with an extended master secret
//! (RFC 7627); of an unbuffered connection rustls tells neither. `tls-server-end-point`
//! (RFC 5929 4) is a hash of the server's certificate, by the hash of its signature. No connection
//! is known here.

use ring::digest::{self, Algorithm};
use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384};
use rustls::crypto::tls13::OkmBlock;
use std::sync::Arc;
use x509_parser::asn1_rs::Oid;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::signature_algorithm::SignatureAlgorithm;

/// RFC 9266 2.
const LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// `tls-exporter` from the exporter secret of TLS 1.3 (RFC 8446 7.5), whose length is that of the
/// cipher suite's hash.
pub(super) fn exporter(secret: &[u8]) -> Option<[u8; 32]> {
    let suite = match secret.len() {
        32 => TLS13_AES_128_GCM_SHA256,
        48 => TLS13_AES_256_GCM_SHA384,
        _ => return None,
    };
    let SupportedCipherSuite::Tls13(suite) = suite else { return None };
    let empty = suite.common.hash_provider.hash(&[]);
    let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
    let (length, sizes) = label_sizes(secret.len(), LABEL, empty.as_ref());
    let derived =
        expander.expand_block(&[&length, &sizes[..1], PREFIX, LABEL, &sizes[1..], empty.as_ref()]);
    let expander = suite.hkdf_provider.expander_for_okm(&derived);
    let mut value = [0; 32];
    let (length, sizes) = label_sizes(value.len(), b"exporter", empty.as_ref());
    let info = [&length[..], &sizes[..1], PREFIX, b"exporter", &sizes[1..], empty.as_ref()];
    expander.expand_slice(&info, &mut value).ok()?;
    Some(value)
}

/// Prefix of every label (RFC 8446 7.1).
const PREFIX: &[u8] = b"tls13 ";

/// The lengths in an `HkdfLabel` (RFC 8446 7.1): of the output, and of label and context.
fn label_sizes(output: usize, label: &[u8], context: &[u8]) -> ([u8; 2], [u8; 2]) {
    let length = (output as u16).to_be_bytes();
    (length, [(PREFIX.len() + label.len()) as u8, context.len() as u8])
}

/// `tls-server-end-point` of a certificate (RFC 5929 4.1); `None` where it is not defined: the
/// certificate's signature has no hash of its own, or one that nobody uses.
pub(super) fn end_point(certificate: &[u8]) -> Option<Arc<[u8]>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let signature = &parsed.signature_algorithm;
    let hash = match SignatureAlgorithm::try_from(signature) {
        Ok(SignatureAlgorithm::RSASSA_PSS(with)) => hash_of(with.hash_algorithm_oid()),
        _ => hash_of(&signature.algorithm),
    }?;
    Some(digest::digest(hash, certificate).as_ref().into())
}

/// The hash that a certificate with this signature (or a signature with this hash) is bound by:
/// instead of MD5 and SHA-1 it is SHA-256.
fn hash_of(algorithm: &Oid<'_>) -> Option<&'static Algorithm> {
    match algorithm.to_id_string().as_str() {
        // MD5 and SHA-1 with RSA, SHA-1 with ECDSA, SHA-1.
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.3.14.3.2.26" => {
            Some(&digest::SHA256)
        }
        // RSA, ECDSA, and the hash alone (RFC 4055 5, RFC 5758 3.2).
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" | "2.16.840.1.101.3.4.2.1" => {
            Some(&digest::SHA256)
        }
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" | "2.16.840.1.101.3.4.2.2" => {
            Some(&digest::SHA384)
        }
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" | "2.16.840.1.101.3.4.2.3" => {
            Some(&digest::SHA512)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    /// How long the binding of a certificate with such a signature is, and that it is its hash.
    fn bound(with: &'static SignatureAlgorithm, hash: &'static Algorithm) {
        let key = KeyPair::generate_for(with).expect("a key");
        let made = CertificateParams::default().self_signed(&key).expect("made");
        let expected = digest::digest(hash, made.der());
        assert_eq!(end_point(made.der()).as_deref(), Some(expected.as_ref()));
    }

    #[test]
    fn an_end_point_is_the_hash_that_its_certificate_is_signed_with() {
        bound(&rcgen::PKCS_ECDSA_P256_SHA256, &digest::SHA256);
        bound(&rcgen::PKCS_ECDSA_P384_SHA384, &digest::SHA384);
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        let made = CertificateParams::default().self_signed(&key).expect("made");
        assert_eq!(end_point(made.der()), None, "Ed25519 has no hash of its own");
        assert_eq!(end_point(b"no certificate"), None);
    }

    #[test]
    fn what_is_weak_is_bound_by_sha_256() {
        let id = |parts: &[u64]| Oid::from(parts).expect("an identifier");
        let of = |parts: &[u64]| hash_of(&id(parts)).map(|hash| hash.output_len());
        let rsa = |last| of(&[1, 2, 840, 113_549, 1, 1, last]);
        assert_eq!([4, 5, 11].map(rsa), [Some(32); 3]);
        assert_eq!([12, 13, 14, 10].map(rsa), [Some(48), Some(64), None, None]);
        assert_eq!(of(&[1, 2, 840, 10_045, 4, 1]), Some(32));
        assert_eq!(of(&[1, 3, 14, 3, 2, 26]), Some(32));
    }

    #[test]
    fn an_exporter_needs_a_secret_of_a_hash_s_length() {
        assert!(exporter(&[7; 32]).is_some());
        assert!(exporter(&[7; 48]).is_some());
        assert_ne!(exporter(&[7; 32]), exporter(&[8; 32]));
        assert_eq!([0, 31, 33, 64].map(|length| exporter(&vec![7; length])), [None; 4]);
    }
}
