//! `<body/>`, which is around everything (XEP-0124 5): how a request is read, how answers begin.
//!
//! The attributes are the client's session parameters; the stanzas in the body are passed on as
//! they came. Invariant: a payload is whole elements with nothing between them.

use crate::archive::is_number;
use crate::fault::StreamFault;
use crate::stanza::put_attribute;
use crate::xml::scan::{Element, Scan};

/// The namespace of `<body/>` (XEP-0124 19.1).
pub const HTTP_BIND: &str = "http://jabber.org/protocol/httpbind";
/// The namespace of what XMPP adds to it (XEP-0206 8.1).
const XBOSH: &str = "urn:xmpp:xbosh";

/// The largest number of a request (XEP-0124 14.1).
const RID_MAX: u64 = (1 << 53) - 1;

/// Longest key of a sequence (XEP-0124 15): a SHA-1 in hexadecimal.
const KEY_BYTES: usize = 40;

/// Terminal binding condition (XEP-0124 17.2): why there is no session, or none any longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoshFault {
    /// The request makes no sense.
    BadRequest,
    /// The request has no domain.
    ImproperAddressing,
    /// The request is for a domain that is not served.
    HostUnknown,
    /// The session does not exist, or the request has no place in it.
    ItemNotFound,
    /// The request exceeds a limit.
    PolicyViolation,
    /// The stream broke off.
    RemoteConnectionFailed,
    /// The stream ended with an error, which is in the answer.
    RemoteStreamError,
    /// The server goes down, or has no room.
    SystemShutdown,
    /// A defect of ours.
    InternalServerError,
}

impl BoshFault {
    /// The word on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            BoshFault::BadRequest => "bad-request",
            BoshFault::ImproperAddressing => "improper-addressing",
            BoshFault::HostUnknown => "host-unknown",
            BoshFault::ItemNotFound => "item-not-found",
            BoshFault::PolicyViolation => "policy-violation",
            BoshFault::RemoteConnectionFailed => "remote-connection-failed",
            BoshFault::RemoteStreamError => "remote-stream-error",
            BoshFault::SystemShutdown => "system-shutdown",
            BoshFault::InternalServerError => "internal-server-error",
        }
    }

    /// The whole answer to a request that has no session.
    pub fn answer(self) -> Vec<u8> {
        let condition = self.name();
        format!("<body xmlns='{HTTP_BIND}' type='terminate' condition='{condition}'/>").into_bytes()
    }
}

impl From<StreamFault> for BoshFault {
    fn from(fault: StreamFault) -> BoshFault {
        match fault {
            StreamFault::PolicyViolation => BoshFault::PolicyViolation,
            _ => BoshFault::BadRequest,
        }
    }
}

/// Content of one request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoshRequest {
    /// Its number.
    pub rid: u64,
    /// Its session; without one it begins one.
    pub sid: Option<Box<str>>,
    /// The domain that a session is for.
    pub to: Box<str>,
    /// The language of what the server says.
    pub lang: Option<Box<str>>,
    /// Seconds that the server may wait with an answer.
    pub wait_s: Option<u32>,
    /// Requests that the server may hold.
    pub hold: Option<u32>,
    /// Seconds for which the client wishes to be silent.
    pub pause_s: Option<u32>,
    /// The next of its sequence of keys.
    pub key: Option<Box<str>>,
    /// The first of another sequence.
    pub new_key: Option<Box<str>>,
    /// The session ends.
    pub ends: bool,
    /// The stream begins anew (XEP-0206 4).
    pub restarts: bool,
    /// Stanzas.
    pub payload: Vec<u8>,
}

impl BoshRequest {
    /// Reads the body of a request.
    pub fn read(bytes: &[u8]) -> Result<BoshRequest, BoshFault> {
        let scan = Scan::element(bytes.trim_ascii())?;
        let body = scan.root();
        if !body.is("body", HTTP_BIND) || !body.text().trim().is_empty() {
            return Err(BoshFault::BadRequest);
        }
        let words = |name: &str| body.attribute(name).map(|text| Box::<str>::from(&*text));
        let rid = number(&body, "rid")?.filter(|rid| (1..=RID_MAX).contains(rid));
        let seconds = |name: &str| {
            let found = number(&body, name)?;
            Ok::<_, BoshFault>(found.map(|many| u32::try_from(many).unwrap_or(u32::MAX)))
        };
        let keys = ["key", "newkey"].map(words);
        if keys.iter().flatten().any(|key| key.len() != KEY_BYTES) {
            return Err(BoshFault::ItemNotFound);
        }
        let [key, new_key] = keys;
        Ok(BoshRequest {
            rid: rid.ok_or(BoshFault::BadRequest)?,
            sid: words("sid"),
            to: words("to").unwrap_or_default(),
            lang: words("xml:lang"),
            wait_s: seconds("wait")?,
            hold: seconds("hold")?,
            pause_s: seconds("pause")?,
            key,
            new_key,
            ends: body.attribute("type").as_deref() == Some("terminate"),
            restarts: matches!(body.attribute("xmpp:restart").as_deref(), Some("true" | "1")),
            payload: body.children().flat_map(|child| child.whole().bytes()).collect(),
        })
    }
}

/// An attribute that is a number, if it is there.
fn number(body: &Element<'_, '_>, name: &str) -> Result<Option<u64>, BoshFault> {
    let Some(text) = body.attribute(name) else { return Ok(None) };
    match text.parse() {
        Ok(number) if is_number(&text) => Ok(Some(number)),
        _ => Err(BoshFault::BadRequest),
    }
}

/// Writes an answer with these attributes, in single quotes by then, around these stanzas.
pub(super) fn answer(attributes: &[(&str, String)], stanzas: &[u8]) -> Vec<u8> {
    let mut out = format!("<body xmlns='{HTTP_BIND}'").into_bytes();
    if attributes.iter().any(|(name, _)| name.starts_with("xmpp:")) {
        out.extend_from_slice(format!(" xmlns:xmpp='{XBOSH}'").as_bytes());
    }
    for (name, value) in attributes {
        put_attribute(name, Some(value), &mut out);
    }
    if stanzas.is_empty() {
        out.extend_from_slice(b"/>");
    } else {
        out.push(b'>');
        out.extend_from_slice(stanzas);
        out.extend_from_slice(b"</body>");
    }
    out
}
