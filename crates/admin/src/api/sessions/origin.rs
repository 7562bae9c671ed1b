//! Whether a request with a cookie is one that the console made.
//!
//! A browser sends a cookie along with whatever any page asks of us, and says whose page it was:
//! `Sec-Fetch-Site` (Fetch Metadata) where it trusts the address, `Origin` (RFC 6454) otherwise.
//! It knows no sessions. Invariant: what changes something was made by a script of this very
//! origin, which alone can set a header of its own.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};

/// Header that the console's script puts into all its requests. A form cannot, and a script of
/// another origin would have to ask first (CORS), which is refused.
pub(crate) const OWN_HEADER: &str = "holdline-console";

/// Prefix of the cookie's name; the port follows, for a browser keeps the cookies of all servers of
/// one machine together.
const COOKIE_NAME: &str = "holdline_console";

/// Prefix of the name of a cookie that a browser gives back over TLS only (RFC 6265bis 4.1.3.2).
const HOST_PREFIX: &str = "__Host-";

/// Whether a page of ours asks.
pub(crate) fn is_own(method: &Method, headers: &HeaderMap) -> bool {
    let is_safe = matches!(*method, Method::GET | Method::HEAD);
    let site = text(headers, "sec-fetch-site");
    let is_here = match (site, text(headers, ORIGIN.as_str())) {
        (Some("same-origin"), _) => true,
        (Some("none"), _) => is_safe,
        (Some(_), _) => false,
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text(headers, HOST.as_str())
        }
        (None, None) => is_safe,
    };
    is_here && (is_safe || headers.contains_key(OWN_HEADER))
}

/// The value of the console's cookie, if one came: that with the prefix before one without it,
/// which a server of another name in this domain may have set.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = name(headers);
    let cookies = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        let bare = found.strip_prefix(HOST_PREFIX);
        (bare.unwrap_or(found) == name).then_some((bare.is_some(), value))
    });
    let first = pairs.next()?;
    let chosen = if first.0 { first } else { pairs.find(|(is_host, _)| *is_host).unwrap_or(first) };
    Some(chosen.1)
}

/// The line that has a browser keep a session (`Some`) or forget it.
pub(crate) fn set_cookie(headers: &HeaderMap, value: Option<(&str, u32)>) -> String {
    let is_tls = text(headers, ORIGIN.as_str()).is_some_and(|from| from.starts_with("https://"));
    let (prefix, secure) = if is_tls { (HOST_PREFIX, "; Secure") } else { ("", "") };
    let (value, age_s) = value.unwrap_or(("", 0));
    let name = name(headers);
    format!("{prefix}{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
}

fn name(headers: &HeaderMap) -> String {
    let host = text(headers, HOST.as_str()).unwrap_or("");
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_port { format!("{COOKIE_NAME}_{port}") } else { COOKIE_NAME.into() }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |&(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_what_a_script_of_the_same_origin_sends_may_change_anything() {
        let own = ("holdline-console", "1");
        let (host, here) = (("host", "h:7080"), ("origin", "http://h:7080"));
        let of = |site| ("sec-fetch-site", site);
        for (pairs, looks, changes) in [
            (vec![of("same-origin"), own], true, true),
            (vec![of("same-origin")], true, false),
            (vec![of("none"), own], true, false),
            (vec![of("same-site"), own, host, here], false, false),
            (vec![of("cross-site"), own, host, here], false, false),
            (vec![host, here, own], true, true),
            (vec![host, here], true, false),
            (vec![host, ("origin", "http://h:7081"), own], false, false),
            (vec![host, ("origin", "http://evil.example"), own], false, false),
            (vec![host, ("origin", "null"), own], false, false),
            (vec![here, own], false, false),
            (vec![host, own], true, false),
        ] {
            let headers = headers(&pairs);
            assert_eq!(is_own(&Method::GET, &headers), looks, "GET {pairs:?}");
            for method in [Method::POST, Method::PUT, Method::DELETE] {
                assert_eq!(is_own(&method, &headers), changes, "{method} {pairs:?}");
            }
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_port_and_kept_from_scripts_and_other_sites() {
        let host = ("host", "[::1]:7080");
        for (line, found) in [
            ("holdline_console_7080=a", Some("a")),
            ("x=y; __Host-holdline_console_7080=b; z", Some("b")),
            ("holdline_console_7080=a; __Host-holdline_console_7080=b", Some("b")),
            ("__Host-holdline_console_7080=b; holdline_console_7080=a", Some("b")),
            ("holdline_console_7081=a; holdline_console=c", None),
            ("", None),
        ] {
            assert_eq!(cookie(&headers(&[host, ("cookie", line)])), found, "{line}");
        }
        assert_eq!(cookie(&headers(&[("cookie", "holdline_console=c")])), Some("c"));
        let set = set_cookie(&headers(&[host]), Some(("v", 60)));
        let line = "holdline_console_7080=v; Path=/; Max-Age=60; HttpOnly; SameSite=Strict";
        assert_eq!(set, line);
        let tls = headers(&[("host", "ops.example"), ("origin", "https://ops.example")]);
        let line = "__Host-holdline_console=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure";
        assert_eq!(set_cookie(&tls, None), line);
    }
}
