//! URLs as they may be shown: without user and password, path and query.
//!
//! Used wherever a webhook's URL is shown: answers, the log, messages to the operator. Many
//! services hand out URLs whose path is the secret; its replacement still distinguishes two of
//! them. It takes any text. Invariant: only the scheme and the host of the text are in the result.

use base::hex;
use sha2::{Digest, Sha256};

/// Replacement for a secret.
const HIDDEN: &str = "(hidden)";

/// Bytes of the hash of a path: enough to distinguish two, and no help in guessing the path.
const MARK_BYTES: usize = 3;

/// The URL without its secrets: `https://host:port/…1a2b3c`.
pub fn url(text: &str) -> String {
    let start = text.find("//").map_or(0, |at| at + 2);
    let (scheme, rest) = text.split_at(start);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let before_query = path.split(['?', '#']).next().unwrap_or_default();
    if before_query.contains('@') {
        // An unescaped slash in a password: it is unknown which part is the host.
        return format!("{scheme}{HIDDEN}");
    }
    let place = match place.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => place.to_owned(),
    };
    let path = match path {
        "" | "/" => path.to_owned(),
        path => format!("/…{}", hex::encode(&Sha256::digest(path)[..MARK_BYTES])),
    };
    format!("{scheme}{place}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_may_be_a_secret_is_left() {
        let mark = |path: &str| format!("/…{}", hex::encode(&Sha256::digest(path)[..3]));
        for (text, place, path) in [
            ("https://app.example", "https://app.example", ""),
            ("https://app.example/", "https://app.example/", ""),
            ("https://app.example/services/T0/B1/x", "https://app.example", "/services/T0/B1/x"),
            ("https://me:pw@app.example:8443/e", "https://(hidden)@app.example:8443", "/e"),
            ("https://me:p/w@x@app.example/e", "https://(hidden)", ""),
            ("https://app.example/a@s3cret", "https://(hidden)", ""),
            ("http://h/e?token=abc&shop=7", "http://h", "/e?token=abc&shop=7"),
            ("http://h#frag", "http://h", "#frag"),
            ("http://h?a=b@c", "http://h", "?a=b@c"),
            ("me:pw@h/e", "(hidden)@h", "/e"),
            ("", "", ""),
        ] {
            let path = if path.is_empty() { String::new() } else { mark(path) };
            assert_eq!(url(text), format!("{place}{path}"), "{text}");
        }
        assert_ne!(url("http://h/a"), url("http://h/b"), "they are told apart");
    }
}
