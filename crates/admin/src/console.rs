//! The console: the files of `clients/console` that the API gives to browsers.
//!
//! The files are embedded in the binary as they are in the repository: few, small and the same for
//! all users; all figures come from the API. Invariant: a page may run, show and reach only what
//! its own origin serves.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use base::hex;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// Content Security Policy of the page (CSP 3). No text of it becomes markup (Trusted Types).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

/// A file of the console.
pub(crate) struct ConsoleFile {
    name: &'static str,
    media_type: &'static str,
    body: &'static [u8],
    /// Its validator, in quotes (RFC 9110 8.8.3).
    tag: String,
}

macro_rules! files {
    ($($name:literal $media_type:ident)+) => {
        vec![$(ConsoleFile::new(
            $name,
            $media_type,
            include_bytes!(concat!("../../../clients/console/", $name)),
        ),)+]
    };
}

static FILES: LazyLock<Vec<ConsoleFile>> = LazyLock::new(|| {
    files! {
        "index.html" HTML
        "console.css" STYLE
        "icon.svg" ICON
        "access.js" SCRIPT
        "alarms.js" SCRIPT
        "api.js" SCRIPT
        "bans.js" SCRIPT
        "certificates.js" SCRIPT
        "chart.js" SCRIPT
        "clients.js" SCRIPT
        "cluster.js" SCRIPT
        "configuration.js" SCRIPT
        "conversations.js" SCRIPT
        "disconnections.js" SCRIPT
        "console.js" SCRIPT
        "dom.js" SCRIPT
        "events.js" SCRIPT
        "forms.js" SCRIPT
        "log.js" SCRIPT
        "overview.js" SCRIPT
        "products.js" SCRIPT
        "push.js" SCRIPT
        "pushes.js" SCRIPT
        "reasons.js" SCRIPT
        "reference.js" SCRIPT
        "rooms.js" SCRIPT
        "services.js" SCRIPT
        "show.js" SCRIPT
        "slow.js" SCRIPT
        "talkers.js" SCRIPT
        "texts.js" SCRIPT
        "topics.js" SCRIPT
        "trace.js" SCRIPT
        "zh.js" SCRIPT
    }
});

/// The page itself.
pub(crate) fn page() -> &'static ConsoleFile {
    &FILES[0]
}

/// The file with this name.
pub(crate) fn file(name: &str) -> Option<&'static ConsoleFile> {
    FILES.iter().find(|file| file.name == name)
}

impl ConsoleFile {
    fn new(name: &'static str, media_type: &'static str, body: &'static [u8]) -> ConsoleFile {
        let tag = format!("\"{}\"", hex::encode(&Sha256::digest(body)[..12]));
        ConsoleFile { name, media_type, body, tag }
    }

    /// The answer to a request with these headers.
    pub(crate) fn answer(&'static self, asked: &HeaderMap) -> Response {
        let about: [(HeaderName, &str); 6] = [
            (ETAG, &self.tag),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ];
        match self.is_known(asked) {
            true => (StatusCode::NOT_MODIFIED, about).into_response(),
            false => (about, [(CONTENT_TYPE, self.media_type)], self.body).into_response(),
        }
    }

    /// Whether the browser has it already (RFC 9110 13.1.2).
    fn is_known(&self, asked: &HeaderMap) -> bool {
        let known = asked.get_all(IF_NONE_MATCH).into_iter().filter_map(|tags| tags.to_str().ok());
        let mut tags = known.flat_map(|tags| tags.split(',')).map(str::trim);
        tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_of_the_console_is_given_and_no_other() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/console");
        let entries = std::fs::read_dir(folder).expect("it is in the repository");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.into_string().expect("text"));
        let served = |name: &String| {
            ["html", "css", "svg", "js"].iter().any(|end| name.ends_with(&format!(".{end}")))
        };
        let mut there: Vec<String> = names.filter(served).collect();
        let mut given: Vec<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        there.sort();
        given.sort();
        assert_eq!(given, there);
    }

    #[test]
    fn all_of_it_is_small() {
        let bytes: usize = FILES.iter().map(|file| file.body.len()).sum();
        assert!(bytes < 320 * 1024, "{bytes} bytes");
    }
}
