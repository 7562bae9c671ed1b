//! JSON Web Tokens that we sign (RFC 7515): ES256 and RS256, by `ring`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

/// A private key that signs tokens.
pub(super) struct EcKey(EcdsaKeyPair);

impl EcKey {
    /// A key on P-256, from PEM (PKCS #8); an error says what is wrong.
    pub fn read(pem: &[u8]) -> Result<EcKey, String> {
        let wrong = "holds no private key of P-256 as PKCS #8 PEM; make one by \
                     `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`";
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| wrong)?;
        let (kind, der) = (&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der());
        let key = EcdsaKeyPair::from_pkcs8(kind, der, &SystemRandom::new()).map_err(|_| wrong)?;
        Ok(EcKey(key))
    }

    /// The public key, an uncompressed point.
    pub fn public(&self) -> &[u8] {
        use ring::signature::KeyPair;
        self.0.public_key().as_ref()
    }

    /// A signed token. `more` is merged into its header.
    pub fn sign(&self, more: &Value, claims: &Value) -> Option<String> {
        let signed = unsigned("ES256", more, claims);
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// A private key of RSA that signs tokens.
pub(super) struct RsaKey(RsaKeyPair);

impl RsaKey {
    /// A key from PEM (PKCS #8); an error says what is wrong.
    pub fn read(pem: &[u8]) -> Result<RsaKey, String> {
        let wrong = "is no private key of RSA (2048 bits or more) as PKCS #8 PEM";
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|_| wrong)?;
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|_| wrong)?;
        Ok(RsaKey(key))
    }

    /// A signed token. `more` is merged into its header.
    pub fn sign(&self, more: &Value, claims: &Value) -> Option<String> {
        let signed = unsigned("RS256", more, claims);
        let mut signature = vec![0; self.0.public().modulus_len()];
        let random = SystemRandom::new();
        self.0.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Header and claims, encoded.
fn unsigned(algorithm: &str, more: &Value, claims: &Value) -> String {
    let mut header = json!({"typ": "JWT", "alg": algorithm});
    if let (Some(header), Some(more)) = (header.as_object_mut(), more.as_object()) {
        header.extend(more.clone());
    }
    let of = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", of(&header), of(claims))
}
