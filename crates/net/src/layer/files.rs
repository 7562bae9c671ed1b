//! Files that a listener gives to browsers: a page, and what belongs to it.
//!
//! The files are few, small, in memory and the same for every client; this module does not know
//! their content. A connection gets one file and is closed by the browser (`Connection: close`),
//! within the time that it has to open. Invariant: an answer fits into the queue of a peer that has
//! not logged in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// Most bytes of one file: with its head and TLS, less than may wait for a peer before it has
/// logged in (64 KiB).
pub const FILE_BYTES_MAX: usize = 56 * 1024;

/// The policy of a page: it may run, show and reach only what its own origin serves (Content
/// Security Policy 3).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self'{also}; connect-src 'self'{also}; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// A file that a listener gives to browsers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticFile {
    path: &'static str,
    media_type: &'static str,
    body: &'static [u8],
    /// Its validator, in quotes (RFC 9110 8.8.3).
    tag: String,
    /// Scheme and host of others that it may show pictures of and reach, a blank before each.
    also: Box<str>,
}

impl StaticFile {
    /// One of at most [`FILE_BYTES_MAX`] bytes.
    pub fn new(path: &'static str, media_type: &'static str, body: &'static [u8]) -> StaticFile {
        assert!(body.len() <= FILE_BYTES_MAX, "{path} is too large to be given at once");
        let tag = format!("\"{}\"", STANDARD.encode(&Sha1::digest(body)[..12]));
        StaticFile { path, media_type, body, tag, also: Box::default() }
    }

    /// The file with leave to show pictures of these origins, and to connect to them.
    pub fn reaching(self, origins: &[String]) -> StaticFile {
        let also: String = origins.iter().map(|origin| format!(" {origin}")).collect();
        StaticFile { also: also.into(), ..self }
    }

    /// The path at which it is.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The whole answer to a request for it. `known`: the `If-None-Match` of the request.
    fn answer(&self, method: &str, known: &str) -> Vec<u8> {
        let is_known = known.split(',').map(str::trim).any(|tag| {
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag // RFC 9110 13.1.2
        });
        let (status, body): (_, &[u8]) = match method {
            "GET" | "HEAD" if is_known => ("304 Not Modified", &[]),
            "GET" => ("200 OK", self.body),
            "HEAD" => ("200 OK", &[]),
            _ => ("405 Method Not Allowed", b"GET and HEAD\n"),
        };
        let about = match status {
            "304 Not Modified" => format!("ETag: {}\r\nCache-Control: no-cache\r\n", self.tag),
            "200 OK" => format!(
                "ETag: {}\r\nCache-Control: no-cache\r\nContent-Type: {}\r\n\
                 Content-Length: {}\r\n",
                self.tag,
                self.media_type,
                self.body.len()
            ),
            _ => format!(
                "Allow: GET, HEAD\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n",
                body.len()
            ),
        };
        let policy = POLICY.replace("{also}", &self.also);
        let head = format!(
            "HTTP/1.1 {status}\r\n{about}Content-Security-Policy: {policy}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }
}

/// The file's path and the whole answer to a request for it; `None`: no file is there.
pub(super) fn answer(
    files: &[StaticFile],
    path: &str,
    method: &str,
    known: &str,
) -> Option<(&'static str, Vec<u8>)> {
    let file = files.iter().find(|file| file.path == path)?;
    Some((file.path, file.answer(method, known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> [StaticFile; 2] {
        let page = StaticFile::new("/page", "text/html", b"<p>one");
        [page, StaticFile::new("/page/a.js", "text/javascript", b"let a;")]
    }

    fn answered(method: &str, path: &str, known: &str) -> Option<(String, String)> {
        let whole = String::from_utf8(answer(&files(), path, method, known)?.1).expect("text");
        let (head, body) = whole.split_once("\r\n\r\n").expect("a head");
        Some((head.to_owned(), body.to_owned()))
    }

    #[test]
    fn a_file_is_given_whole_and_may_do_little() {
        let (head, body) = answered("GET", "/page", "").expect("it is there");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        for line in [
            "Content-Type: text/html",
            "Content-Length: 6",
            "Cache-Control: no-cache",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ] {
            assert!(head.contains(&format!("\r\n{line}")), "{line} in {head}");
        }
        assert!(head.contains("\r\nContent-Security-Policy: default-src 'none'; "), "{head}");
        assert_eq!(body, "<p>one");
        assert_eq!(answered("GET", "/page/a.js", "").expect("it is there").1, "let a;");
    }

    #[test]
    fn what_a_file_may_reach_beside_its_own_is_said() {
        let policy = |file: StaticFile| String::from_utf8(file.answer("HEAD", "")).expect("text");
        let [page, _] = files();
        assert!(policy(page.clone()).contains("img-src 'self'; connect-src 'self'; "));
        let told = policy(page.reaching(&["https://a.example".into(), "http://b:1".into()]));
        let also = "img-src 'self' https://a.example http://b:1; \
                    connect-src 'self' https://a.example http://b:1; base-uri";
        assert!(told.contains(also), "{told}");
    }

    #[test]
    fn a_head_has_no_body_and_says_how_long_it_would_be() {
        let (head, body) = answered("HEAD", "/page", "").expect("it is there");
        assert!(head.contains("200 OK") && head.contains("Content-Length: 6"), "{head}");
        assert_eq!(body, "");
    }

    #[test]
    fn who_has_it_already_is_told_so() {
        let [page, other] = files();
        assert_ne!(page.tag, other.tag, "each has its own");
        for known in [page.tag.clone(), format!("\"x\", W/{}", page.tag), "*".to_owned()] {
            let (head, body) = answered("GET", "/page", &known).expect("it is there");
            assert!(head.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{head}");
            assert!(head.contains(&page.tag) && !head.contains("Content-Length"), "{head}");
            assert_eq!(body, "");
        }
        for known in ["", "\"x\"", &other.tag] {
            assert!(answered("GET", "/page", known).expect("there").0.contains("200 OK"));
        }
    }

    #[test]
    fn other_methods_and_paths_are_refused() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
            let (head, body) = answered(method, "/page", "").expect("the path is there");
            assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
            assert!(head.contains("\r\nAllow: GET, HEAD"), "{head}");
            assert_eq!(body, "GET and HEAD\n");
        }
        for path in ["", "/", "/page/", "/Page", "/page/b.js", "/page/../page", "/pag%65"] {
            assert_eq!(answered("GET", path, ""), None, "{path}");
        }
    }

    #[test]
    #[should_panic(expected = "too large")]
    fn a_file_that_does_not_fit_is_a_defect_of_ours() {
        static LARGE: [u8; FILE_BYTES_MAX + 1] = [0; FILE_BYTES_MAX + 1];
        StaticFile::new("/large", "text/plain", &LARGE);
    }
}
