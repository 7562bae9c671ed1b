//! Certificates, and when they expire.

use schemars::JsonSchema;
use serde::Serialize;

/// The server's certificates.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CertificateList {
    /// Certificates in use, the first to expire first.
    pub(crate) certificates: Vec<CertificateStatus>,
}

/// A file with certificates, as it is in use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct CertificateStatus {
    /// `certificate`: the server's own. `client_ca`: an authority whose client certificates are
    /// believed. `revocation_list`: certificates of clients that are not.
    pub kind: &'static str,
    /// The file.
    pub file: String,
    /// Of a chain, the subject of the certificate that expires first; of a list, its issuer.
    pub subject: String,
    /// Listeners that use it.
    pub listeners: Vec<String>,
    /// Unix millisecond at which it expires; of a list, at which the next one is due.
    pub expires_ms: u64,
    /// Whole days until then; negative once it has expired.
    pub days_left: i64,
    /// `valid`; `expiring`: within 30 days; `expired`.
    #[schemars(extend("enum" = ["valid", "expiring", "expired"]))]
    pub state: &'static str,
}

impl CertificateStatus {
    /// That it expires soon or has expired, in words for an operator; `None`: it is valid.
    pub fn warning(&self) -> Option<String> {
        let CertificateStatus { kind, file, subject, days_left, .. } = self;
        let kind = kind.replace('_', " ");
        match self.state {
            "expired" => {
                Some(format!("{file}: the {kind} of {subject} has expired: renew it, then reload"))
            }
            "expiring" => Some(format!(
                "{file}: the {kind} of {subject} expires in {days_left} days: renew it, then reload"
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expires_is_warned_of_in_words() {
        let told = |state, days_left| {
            let (kind, file, subject) = ("client_ca", "ca.pem".to_owned(), "CN=ca".to_owned());
            let (listeners, expires_ms) = (Vec::new(), 0);
            let it =
                CertificateStatus { kind, file, subject, listeners, expires_ms, days_left, state };
            it.warning()
        };
        assert_eq!(told("valid", 31), None);
        let soon = told("expiring", 7).expect("it is worth a word");
        assert_eq!(soon, "ca.pem: the client ca of CN=ca expires in 7 days: renew it, then reload");
        let over = told("expired", -1).expect("it is worth a word");
        assert_eq!(over, "ca.pem: the client ca of CN=ca has expired: renew it, then reload");
    }
}
