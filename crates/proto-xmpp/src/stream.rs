//! Streams: their header, features, errors and end (RFC 6120 4).

use crate::fault::StreamFault;
use crate::jid;
use crate::sasl::{Mechanism, SASL};
use crate::stanza::STANZA_ERRORS;
use crate::xml::scan::{CLIENT, Element, STREAMS};
use crate::xml::text;
use model::chat::foreign::ForeignDomains;

/// The namespace of STARTTLS (RFC 6120 5.4.1).
pub const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
/// The namespace of resource binding (RFC 6120 7.4).
pub const BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
/// The namespace of sessions, which mean nothing any more (RFC 3921 3).
pub const SESSION: &str = "urn:ietf:params:xml:ns:xmpp-session";

/// The namespace of stream management (XEP-0198 14).
pub const SM: &str = "urn:xmpp:sm:3";
/// The namespace of logins that bring more (XEP-0388).
pub const SASL2: &str = "urn:xmpp:sasl:2";
/// The namespace of resources that are bound along with a login (XEP-0386).
pub const BIND2: &str = "urn:xmpp:bind:0";
/// The namespace of tokens by which a client comes back (XEP-0484).
pub const FAST: &str = "urn:xmpp:fast:0";
/// The namespace of clients that nobody looks at (XEP-0352 3).
pub const CSI: &str = "urn:xmpp:csi:0";
/// The namespace of what frames a stream in WebSockets (RFC 7395 3.3.2).
pub const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";

/// The namespace of the kinds of channel binding (XEP-0440 7).
const CHANNEL_BINDING: &str = "urn:xmpp:sasl-cb:0";

const STREAM_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-streams";

/// Element that says that stream management refuses a request (XEP-0198 3, 5), and how many stanzas
/// are handled, if that is known.
pub fn management_failed(condition: &str, handled: Option<u32>) -> String {
    let h = handled.map(|h| format!(" h='{h}'")).unwrap_or_default();
    format!("<failed xmlns='{SM}'{h}><{condition} xmlns='{STANZA_ERRORS}'/></failed>")
}

/// Looks at the header of a client's stream; the domain that it is for, one of these.
pub fn check(header: Element<'_, '_>, domains: &ForeignDomains) -> Result<Box<str>, StreamFault> {
    if header.namespace() != STREAMS {
        return Err(StreamFault::InvalidNamespace);
    }
    if header.name() != "stream" {
        return Err(StreamFault::BadFormat);
    }
    let declares = |name: &str| header.attribute(name);
    if declares("xmlns:stream").as_deref() != Some(STREAMS) {
        return Err(StreamFault::BadNamespacePrefix);
    }
    if declares("xmlns").as_deref() != Some(CLIENT) {
        return Err(StreamFault::InvalidNamespace);
    }
    check_address(header, domains)
}

/// Looks at what begins a stream in a WebSocket (RFC 7395 3.4).
pub fn check_open(
    open: Element<'_, '_>,
    domains: &ForeignDomains,
) -> Result<Box<str>, StreamFault> {
    match open.is("open", FRAMING) {
        true => check_address(open, domains),
        false => Err(StreamFault::InvalidNamespace),
    }
}

/// Checks the domain that a stream is for, and its version.
fn check_address(
    header: Element<'_, '_>,
    domains: &ForeignDomains,
) -> Result<Box<str>, StreamFault> {
    let to = header.attribute("to").and_then(|to| jid::domain(&to));
    let to = to.filter(|to| domains.is_own(to)).ok_or(StreamFault::HostUnknown)?;
    match is_versioned(&header) {
        true => Ok(to),
        false => Err(StreamFault::UnsupportedVersion),
    }
}

/// Whether a header is of XMPP 1.0 or above, with features (RFC 6120 4.7.5).
pub fn is_versioned(header: &Element<'_, '_>) -> bool {
    let version = header.attribute("version");
    let major = version.as_deref().and_then(|it| it.split_once('.')?.0.parse::<u32>().ok());
    major.is_some_and(|major| major >= 1)
}

/// Writes the header of the server's stream.
pub fn write_header(domain: &str, id: u64, out: &mut Vec<u8>) {
    let head = format!(
        "<?xml version='1.0'?><stream:stream xmlns='{CLIENT}' xmlns:stream='{STREAMS}' \
         id='{id:016x}' from='{domain}' version='1.0' xml:lang='en'>"
    );
    out.extend_from_slice(head.as_bytes());
}

/// Features offered before a login.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoginOffer {
    /// TLS may begin.
    pub tls: bool,
    /// Whether TLS must begin before anything else.
    pub tls_required: bool,
    /// Ways to log in.
    pub mechanisms: Vec<Mechanism>,
    /// Channel bindings that a login may use (XEP-0440 3).
    pub bindings: Vec<&'static str>,
    /// Further ways to log in, as XML.
    pub more: String,
}

/// Writes the features of a stream before the login (RFC 6120 4.3.2).
pub fn write_login_features(offer: &LoginOffer, out: &mut Vec<u8>) {
    let mut text = String::from("<stream:features>");
    match (offer.tls, offer.tls_required) {
        (true, true) => text += &format!("<starttls xmlns='{TLS}'><required/></starttls>"),
        (true, false) => text += &format!("<starttls xmlns='{TLS}'/>"),
        (false, _) => {}
    }
    if !offer.mechanisms.is_empty() {
        text += &format!("<mechanisms xmlns='{SASL}'>");
        for mechanism in &offer.mechanisms {
            text += &format!("<mechanism>{}</mechanism>", mechanism.name());
        }
        text += "</mechanisms>";
    }
    if !offer.bindings.is_empty() {
        text += &format!("<sasl-channel-binding xmlns='{CHANNEL_BINDING}'>");
        for binding in &offer.bindings {
            text += &format!("<channel-binding type='{binding}'/>");
        }
        text += "</sasl-channel-binding>";
    }
    text += &offer.more;
    text += "</stream:features>";
    out.extend_from_slice(text.as_bytes());
}

/// Writes the features behind it, with the server's capabilities as XML.
pub fn write_session_features(capabilities: &str, out: &mut Vec<u8>) {
    let text = format!(
        "<stream:features><bind xmlns='{BIND}'><required/></bind>\
         <session xmlns='{SESSION}'><optional/></session><sm xmlns='{SM}'/><csi xmlns='{CSI}'/>\
         <ver xmlns='urn:xmpp:features:rosterver'/><sub xmlns='urn:xmpp:features:pre-approval'/>\
         {capabilities}</stream:features>"
    );
    out.extend_from_slice(text.as_bytes());
}

/// Writes the end of a stream that does not have to end, and why (RFC 6120 4.9).
pub fn write_fault(fault: StreamFault, told: &str, out: &mut Vec<u8>) {
    write_fault_whole(fault, (told, ""), out);
}

/// As [`write_fault`], with a further condition as XML (RFC 6120 4.9.4).
pub fn write_fault_whole(fault: StreamFault, (told, more): (&str, &str), out: &mut Vec<u8>) {
    let condition = fault.name();
    let head = format!("<stream:error><{condition} xmlns='{STREAM_ERRORS}'/>");
    out.extend_from_slice(head.as_bytes());
    if !told.is_empty() {
        out.extend_from_slice(format!("<text xmlns='{STREAM_ERRORS}' xml:lang='en'>").as_bytes());
        text::put(told, out);
        out.extend_from_slice(b"</text>");
    }
    out.extend_from_slice(more.as_bytes());
    out.extend_from_slice(b"</stream:error></stream:stream>");
}

/// Writes that another server is to be used, `host:port`, and ends the stream (RFC 6120 4.9.3.19).
pub fn write_see_other(server: &str, out: &mut Vec<u8>) {
    let head = format!("<stream:error><see-other-host xmlns='{STREAM_ERRORS}'>");
    out.extend_from_slice(head.as_bytes());
    text::put(server, out);
    out.extend_from_slice(b"</see-other-host></stream:error></stream:stream>");
}

/// Writes the end of a stream.
pub fn write_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"</stream:stream>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;

    fn domains() -> ForeignDomains {
        let others = ["c.example".into()].into();
        ForeignDomains { own: "a.example".into(), others, ..ForeignDomains::default() }
    }

    fn header(attributes: &str) -> Result<String, StreamFault> {
        let text = format!("<stream:stream {attributes}>");
        check(Scan::header(text.as_bytes())?.root(), &domains()).map(String::from)
    }

    #[test]
    fn a_header_is_for_this_domain_and_of_this_version() {
        let namespaces = format!("xmlns='{CLIENT}' xmlns:stream='{STREAMS}'");
        let of = |more: &str| header(&format!("{namespaces} {more}"));
        assert_eq!(of("to='a.example' version='1.0'").as_deref(), Ok("a.example"));
        let other = of("to='C.Example.' version='2.7' xml:lang='de' from='x'");
        assert_eq!(other.as_deref(), Ok("c.example"));
        use StreamFault::*;
        assert_eq!(of("version='1.0'"), Err(HostUnknown));
        assert_eq!(of("to='b.example' version='1.0'"), Err(HostUnknown));
        assert_eq!(of("to='ann@a.example' version='1.0'"), Err(HostUnknown));
        for version in ["", "version='0.9'", "version='1'", "version='x.0'"] {
            assert_eq!(of(&format!("to='a.example' {version}")), Err(UnsupportedVersion));
        }
        let streams = format!("xmlns:stream='{STREAMS}'");
        assert_eq!(header(&format!("{streams} xmlns='jabber:server'")), Err(InvalidNamespace));
        assert_eq!(header(&streams), Err(InvalidNamespace));
        assert_eq!(header("xmlns:stream='x' xmlns='jabber:client'"), Err(InvalidNamespace));
        assert_eq!(header("xmlns='jabber:client'"), Err(BadNamespacePrefix));
        let other = format!("<x:stream xmlns:x='{STREAMS}' xmlns='{CLIENT}'>");
        let other = Scan::header(other.as_bytes()).expect("a tag");
        assert_eq!(check(other.root(), &domains()), Err(BadNamespacePrefix));
        let other = format!("<stream:flow {namespaces}>");
        let other = Scan::header(other.as_bytes()).expect("a tag");
        assert_eq!(check(other.root(), &domains()), Err(BadFormat));
    }

    #[test]
    fn what_is_written_is_xml() {
        let mut out = Vec::new();
        write_header("a.example", 7, &mut out);
        let text = String::from_utf8(out.clone()).expect("UTF-8");
        let scan = Scan::header(text.as_bytes()).expect("a header");
        assert_eq!(scan.root().attribute("id").as_deref(), Some("0000000000000007"));
        let offer = LoginOffer {
            tls: true,
            tls_required: false,
            mechanisms: crate::sasl::MECHANISMS.into(),
            bindings: vec!["tls-exporter"],
            more: String::new(),
        };
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            assert!(Scan::element(&out).is_ok(), "{}", String::from_utf8_lossy(&out));
            String::from_utf8(out).expect("UTF-8")
        };
        let features = written(&|out| write_login_features(&offer, out));
        assert_eq!(
            features,
            "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>\
             <mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>\
             EXTERNAL</mechanism><mechanism>SCRAM-SHA-256-PLUS</mechanism>\
             <mechanism>SCRAM-SHA-256</mechanism>\
             <mechanism>SCRAM-SHA-1-PLUS</mechanism><mechanism>SCRAM-SHA-1</mechanism>\
             <mechanism>PLAIN</mechanism><mechanism>ANONYMOUS</mechanism></mechanisms>\
             <sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'>\
             <channel-binding type='tls-exporter'/></sasl-channel-binding></stream:features>"
        );
        written(&|out| write_session_features("<c xmlns='x'/>", out));
        let mut out = Vec::new();
        write_fault(StreamFault::NotWellFormed, "a < b", &mut out);
        let end = out.len() - "</stream:stream>".len();
        assert!(Scan::element(&out[..end]).is_ok());
    }
}
