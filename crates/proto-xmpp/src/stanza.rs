//! Stanzas in general: from whom, to whom, which kind; answers and errors (RFC 6120 8).

use crate::fault::StanzaFault;
use crate::xml::scan::Element;
use crate::xml::text;

/// The namespace of conditions of errors (RFC 6120 8.3.2).
pub const STANZA_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";

/// Longest `id` that is given back, bytes. A stanza with a longer one is a bad request.
pub const ID_BYTES_MAX: usize = 1_024;

/// Addresses and id of an answer.
#[derive(Clone, Copy, Debug)]
pub struct StanzaReply<'a> {
    /// The stanza's name: `iq`, `message`, `presence`.
    pub name: &'a str,
    /// Address that was asked, as the asker wrote it.
    pub from: Option<&'a str>,
    /// The asker: a full JID; empty, of one that has none yet.
    pub to: &'a str,
    /// The asker's own id.
    pub id: Option<&'a str>,
}

impl StanzaReply<'_> {
    /// Writes the start tag of a stanza of this type; empty: of none.
    pub fn open(&self, kind: &str, out: &mut Vec<u8>) {
        out.push(b'<');
        out.extend_from_slice(self.name.as_bytes());
        put_attribute("type", Some(kind).filter(|kind| !kind.is_empty()), out);
        put_attribute("id", self.id, out);
        put_attribute("from", self.from, out);
        put_attribute("to", Some(self.to).filter(|to| !to.is_empty()), out);
        out.push(b'>');
    }

    /// Writes the end tag.
    pub fn close(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("</{}>", self.name).as_bytes());
    }

    /// Writes a stanza of this type, empty: of none, with this in it, which is XML.
    pub fn put(&self, kind: &str, inner: &str, out: &mut Vec<u8>) {
        self.open(kind, out);
        out.extend_from_slice(inner.as_bytes());
        self.close(out);
    }

    /// Writes an answer with this in it, which is XML.
    pub fn result(&self, inner: &str, out: &mut Vec<u8>) {
        self.put("result", inner, out);
    }

    /// Writes an error (RFC 6120 8.3).
    pub fn error(&self, fault: StanzaFault, told: &str, out: &mut Vec<u8>) {
        self.error_whole("", fault, (told, ""), out);
    }

    /// Writes an error with XML before it, of what it is about, and more in it beside a text for
    /// people, such as a condition of its own (RFC 6120 8.3.4).
    pub fn error_whole(
        &self,
        inner: &str,
        fault: StanzaFault,
        (told, more): (&str, &str),
        out: &mut Vec<u8>,
    ) {
        self.open("error", out);
        out.extend_from_slice(inner.as_bytes());
        out.extend_from_slice(condition(fault).as_bytes());
        if !told.is_empty() {
            let head = format!("<text xmlns='{STANZA_ERRORS}' xml:lang='en'>");
            out.extend_from_slice(head.as_bytes());
            text::put(told, out);
            out.extend_from_slice(b"</text>");
        }
        out.extend_from_slice(more.as_bytes());
        out.extend_from_slice(b"</error>");
        self.close(out);
    }
}

/// The beginning of an error, with its condition.
pub(crate) fn condition(fault: StanzaFault) -> String {
    let (kind, condition) = (fault.kind(), fault.name());
    format!("<error type='{kind}'><{condition} xmlns='{STANZA_ERRORS}'/>")
}

/// Writes an attribute, if it has a value.
pub fn put_attribute(name: &str, value: Option<&str>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        out.push(b' ');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"='");
        text::put_value(value, out);
        out.push(b'\'');
    }
}

/// The `type` of a stanza; empty: none.
pub fn kind<'a>(stanza: &Element<'_, 'a>) -> std::borrow::Cow<'a, str> {
    stanza.attribute("type").unwrap_or_default()
}

/// `YYYY-MM-DDThh:mm:ssZ` of a time in Unix milliseconds (XEP-0082 3.2).
pub fn timestamp(unix_ms: u64) -> String {
    let unix_s = unix_ms / 1_000;
    let (date, time) = (base::calendar::date(unix_s), base::calendar::hour(unix_s));
    format!("{date}T{time}:{:02}.{:03}Z", unix_s % 60, unix_ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;

    #[test]
    fn answers_are_xml_whatever_was_asked() {
        let reply =
            StanzaReply { name: "iq", from: Some("b@x/'&<"), to: "a@x/\"r\"", id: Some("1\n2") };
        let mut out = Vec::new();
        reply.error(StanzaFault::BadRequest, "no <b> here", &mut out);
        let scan = Scan::element(&out).expect("XML");
        let iq = scan.root();
        assert_eq!(iq.attribute("id").as_deref(), Some("1\n2"));
        assert_eq!(iq.attribute("from").as_deref(), Some("b@x/'&<"));
        assert_eq!((kind(&iq).as_ref(), iq.children().count()), ("error", 1));
        let error = iq.children().next().expect("it is there");
        assert_eq!(error.attribute("type").as_deref(), Some("modify"));
        assert!(error.child("bad-request", STANZA_ERRORS).is_some());
        let told = error.child("text", STANZA_ERRORS).map(|text| text.text().into_owned());
        assert_eq!(told.as_deref(), Some("no <b> here"));
        let reply = StanzaReply { from: None, id: None, ..reply };
        let mut out = Vec::new();
        reply.result("<x/>", &mut out);
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, "<iq type='result' to='a@x/&quot;r&quot;'><x/></iq>");
    }

    #[test]
    fn times_are_those_of_xep_0082() {
        assert_eq!(timestamp(1_700_000_000_007), "2023-11-14T22:13:20.007Z");
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
    }
}
