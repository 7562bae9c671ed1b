//! Where a domain's XMPP is found by browsers: host-meta (RFC 6415, XEP-0156).
//!
//! The answer is the same for everybody and says what the listener has. Invariant: what comes from
//! a request is written only if it is a plain host and port.

use crate::answer::BoshListener;

/// How the path of both forms begins.
pub(crate) const PATH: &str = "/.well-known/host-meta";

/// The answer to a request that names this host: its media type and text. `None`: the path is
/// unknown, or the host cannot be used in an address.
pub(crate) fn answer(
    path: &str,
    (listener, url): (&BoshListener, &str),
    (host, encrypted): (&str, bool),
) -> Option<(&'static str, String)> {
    let base = match url {
        "" if is_plain(host) => {
            format!("{}://{host}", if encrypted { "https" } else { "http" })
        }
        "" => return None,
        url => url.trim_end_matches('/').to_owned(),
    };
    let mut links = Vec::new();
    if !listener.path.is_empty() {
        links.push(("urn:xmpp:alt-connections:xbosh", format!("{base}{}", listener.path)));
    }
    if let Some(path) = &listener.web_socket {
        // https becomes wss, http ws.
        let rest = base.strip_prefix("http").unwrap_or(&base);
        links.push(("urn:xmpp:alt-connections:websocket", format!("ws{rest}{path}")));
    }
    let each = |write: fn(&(&str, String)) -> String, between: &str| {
        links.iter().map(write).collect::<Vec<_>>().join(between)
    };
    match path.strip_prefix(PATH)? {
        "" => {
            let links = each(|(rel, href)| format!("<Link rel='{rel}' href='{href}'/>"), "");
            let text = format!(
                "<?xml version='1.0' encoding='utf-8'?>\
                 <XRD xmlns='http://docs.oasis-open.org/ns/xri/xrd-1.0'>{links}</XRD>"
            );
            Some(("application/xrd+xml", text))
        }
        ".json" => {
            let links = each(|(rel, href)| format!(r#"{{"rel":"{rel}","href":"{href}"}}"#), ",");
            Some(("application/json", format!(r#"{{"links":[{links}]}}"#)))
        }
        _ => None,
    }
}

/// Whether this can stand in an address as it is.
fn is_plain(host: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
    (1..=255).contains(&host.len()) && host.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_says_what_it_has() {
        let both = BoshListener {
            path: "/http-bind".into(),
            web_socket: Some("/xmpp-websocket".into()),
            ..BoshListener::default()
        };
        let told = |path: &str, url: &str, host: &str| answer(path, (&both, url), (host, true));
        let (kind, text) = told(PATH, "", "a.example:7443").expect("it is there");
        assert_eq!(kind, "application/xrd+xml");
        assert!(text.ends_with(
            "<Link rel='urn:xmpp:alt-connections:xbosh' href='https://a.example:7443/http-bind'/>\
             <Link rel='urn:xmpp:alt-connections:websocket' \
             href='wss://a.example:7443/xmpp-websocket'/></XRD>"
        ), "{text}");
        let json = told("/.well-known/host-meta.json", "http://b.example/", "x").expect("there").1;
        assert_eq!(
            json,
            concat!(
                r#"{"links":[{"rel":"urn:xmpp:alt-connections:xbosh","#,
                r#""href":"http://b.example/http-bind"},"#,
                r#"{"rel":"urn:xmpp:alt-connections:websocket","#,
                r#""href":"ws://b.example/xmpp-websocket"}]}"#
            )
        );
        assert_eq!(told("/.well-known/host-meta.xml", "", "a"), None);
        for host in ["", "a'b", "a<b", "a/b", "a b", "a\"", "é", &"a".repeat(256)] {
            assert_eq!(told(PATH, "", host), None, "{host}");
        }
        let none = BoshListener::default();
        let text = answer(PATH, (&none, ""), ("a", false)).expect("it is there").1;
        assert!(text.ends_with("xrd-1.0'></XRD>"), "{text}");
    }
}
