//! A stream that another server has begun.
//!
//! ```text
//!   header ─► features ─► starttls ─► header ─► features ─┬─ auth EXTERNAL, by certificate ─► anew
//!                                                         ├─ db:result ─► asked elsewhere ─► valid
//!                                                         └─ db:verify ─► answered at once
//!   stanzas of the domains that were shown ─►
//! ```
//! Invariant: a domain is shown by a certificate that was verified, or by its own server's word.

use super::counting::Taking;
use super::wire::{
    DIALBACK_FEATURE, check_header, dialback_domains, new_id, sender, write_dialback, write_header,
};
use super::{
    Around, DialbackProof, DomainPair, Next, Out, PeerEnd, PeerProfile, PeerWord, StreamPlace,
    certificate,
};
use crate::fault::{StanzaFault, StreamFault};
use crate::jid;
use crate::sasl::{self, SASL, SaslFailure};
use crate::stanza::condition;
use crate::stream::{self, LoginOffer, SM, TLS};
use crate::xml::scan::{DIALBACK, Element, SERVER};
use model::link::Source;

/// Domains that one stream may show, and keys that may be asked about at once.
const DOMAINS_MAX: usize = 16;

/// Longest key of dialback that is asked about, bytes: those of XEP-0185 have 64.
const KEY_BYTES_MAX: usize = 256;

/// A stream that another server has begun.
#[derive(Default)]
pub(super) struct IncomingStream {
    /// Number by which its owner tells it from others.
    number: u64,
    /// The domain that its header names.
    says: Option<Box<str>>,
    id: String,
    is_new: bool,
    has_answered: bool,
    shown: Vec<Box<str>>,
    /// Domains whose servers are asked.
    asked: Vec<DomainPair>,
    taking: Taking,
}

impl IncomingStream {
    pub(super) fn new(number: u64) -> IncomingStream {
        IncomingStream { number, ..IncomingStream::default() }
    }

    pub(super) fn is_shown(&self) -> bool {
        !self.shown.is_empty()
    }

    pub(super) fn opened(&mut self, _: &Around<'_>, _: &mut Out) {}

    pub(super) fn header(
        &mut self,
        header: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<(), PeerEnd> {
        let domain = |name: &str| header.attribute(name).and_then(|text| jid::domain(&text));
        (self.says, self.id) = (domain("from"), new_id(out));
        let is_new = check_header(header);
        self.is_new = is_new == Ok(true);
        let (profile, to) = (around.profile, domain("to"));
        let is_ours = to.as_ref().is_none_or(|to| profile.is_ours(to));
        let own = to.as_ref().filter(|_| is_ours).unwrap_or(&profile.domains.own);
        let whom = (Some(&**own), self.says.as_deref(), Some(&*self.id));
        write_header(SERVER, whom, self.is_new, out.bytes());
        self.has_answered = true;
        is_new?;
        if !is_ours {
            return Err(StreamFault::HostUnknown.into());
        }
        if self.is_new {
            self.write_features(around, out);
        }
        Ok(())
    }

    /// Where nothing was said yet a header stands before the error (RFC 6120 4.9.1.2).
    pub(super) fn open_to_end(&self, profile: &PeerProfile, out: &mut Out) {
        if !self.has_answered {
            let own = (Some(&*profile.domains.own), None, None);
            write_header(SERVER, own, true, out.bytes());
        }
    }

    fn write_features(&self, around: &Around<'_>, out: &mut Out) {
        // Behind dialback there are no features: it is asked for when a domain is shown.
        let mut more = format!("<sm xmlns='{SM}'/>");
        if self.may_prove(around) {
            more += &format!("<mechanisms xmlns='{SASL}'><mechanism>EXTERNAL</mechanism>");
            more += "</mechanisms>";
        }
        if self.may_dial_back(around) {
            more += &format!("<dialback xmlns='{DIALBACK_FEATURE}'><errors/></dialback>");
        }
        let tls = around.link.tls.is_none() && around.link.may_start_tls;
        let tls_required = around.profile.requires_tls;
        let offer = LoginOffer { tls, tls_required, more, ..LoginOffer::default() };
        stream::write_login_features(&offer, out.bytes());
    }

    /// Whether it may show its domain by its certificate.
    fn may_prove(&self, around: &Around<'_>) -> bool {
        let says = self.says.as_ref().filter(|says| !self.shown.contains(*says));
        says.is_some_and(|says| {
            around.profile.may_be(says) && certificate::is_of(around.link, says)
        })
    }

    fn may_dial_back(&self, around: &Around<'_>) -> bool {
        let profile = around.profile;
        !profile.requires_certificates && (around.link.tls.is_some() || !profile.requires_tls)
    }

    pub(super) fn element(
        &mut self,
        element: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<Next, PeerEnd> {
        match (element.name(), element.namespace()) {
            ("starttls", TLS) if around.link.may_start_tls => {
                out.bytes().extend_from_slice(format!("<proceed xmlns='{TLS}'/>").as_bytes());
                return Ok(Next::Tls);
            }
            ("auth", SASL) => return self.proves(element, around, out),
            ("result", DIALBACK) => self.shows(element, around, out)?,
            ("verify", DIALBACK) => verifies(element, around.profile, out)?,
            ("enable", SM) if self.is_shown() => self.taking.begins(out.bytes()),
            ("enable", SM) => self.taking.refuses(out.bytes()),
            ("r", SM) => self.taking.is_asked(out.bytes()),
            ("a", SM) => {} // nothing was said
            _ => {
                let from = sender(element)?;
                if !self.is_shown() {
                    return Err(StreamFault::NotAuthorized.into());
                }
                if !self.shown.contains(&from) {
                    return Err(StreamFault::InvalidFrom.into());
                }
                let to = element.attribute("to").and_then(|to| jid::domain_of(&to));
                if !to.is_some_and(|to| around.profile.is_ours(&to)) {
                    return Err(StreamFault::HostUnknown.into());
                }
                let stream = self.number;
                let place = self.taking.comes().map(|seq| StreamPlace { stream, seq });
                let xml = element.whole().as_bytes().into();
                out.say(PeerWord::Stanza { from, xml, place });
            }
        }
        Ok(Next::Goes)
    }

    /// By its certificate (XEP-0178 3).
    fn proves(
        &mut self,
        auth: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<Next, PeerEnd> {
        let failed = |failure: SaslFailure, out: &mut Out| {
            let text = format!("<failure xmlns='{SASL}'><{}/></failure>", failure.name());
            out.bytes().extend_from_slice(text.as_bytes());
            Ok(Next::Goes)
        };
        if auth.attribute("mechanism").as_deref() != Some("EXTERNAL") || !self.may_prove(around) {
            return failed(SaslFailure::InvalidMechanism, out);
        }
        let data = sasl::decoded(auth.text().trim());
        let wanted = data.ok().and_then(|data| String::from_utf8(data).ok());
        let Some(wanted) = wanted else { return failed(SaslFailure::IncorrectEncoding, out) };
        let says = self.says.clone().unwrap_or_default();
        if !wanted.is_empty() && jid::domain(&wanted).as_ref() != Some(&says) {
            return failed(SaslFailure::InvalidAuthzid, out);
        }
        self.has_room()?;
        self.shown.push(says);
        out.bytes().extend_from_slice(format!("<success xmlns='{SASL}'/>").as_bytes());
        Ok(Next::Anew)
    }

    /// Whether it may show one domain more.
    fn has_room(&self) -> Result<(), PeerEnd> {
        match self.shown.len() + self.asked.len() < DOMAINS_MAX {
            true => Ok(()),
            false => Err(PeerEnd::Fault(StreamFault::PolicyViolation)),
        }
    }

    /// By a key (XEP-0220 2.1.1).
    fn shows(
        &mut self,
        result: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<(), PeerEnd> {
        let Some((from, to)) = dialback_domains(result) else {
            return Err(StreamFault::ImproperAddressing.into());
        };
        if !self.may_dial_back(around) {
            return Err(PeerEnd::Fault(StreamFault::PolicyViolation));
        }
        if !around.profile.is_ours(&to) || around.profile.is_ours(&from) {
            refuse(&from, &to, StanzaFault::ItemNotFound, out);
            return Ok(());
        }
        self.has_room()?;
        let pair = DomainPair { own: to, peer: from };
        if self.asked.contains(&pair) {
            return Err(PeerEnd::Fault(StreamFault::PolicyViolation));
        }
        if !around.profile.may_be(&pair.peer) {
            refuse(&pair.peer, &pair.own, StanzaFault::NotAllowed, out);
            return Ok(());
        }
        let key = result.text();
        let key = key.trim();
        if key.len() > KEY_BYTES_MAX {
            refuse(&pair.peer, &pair.own, StanzaFault::NotAcceptable, out);
            return Ok(());
        }
        self.asked.push(pair.clone());
        let (id, key) = (self.id.as_str().into(), key.into());
        let proof = Box::new(DialbackProof { pair, id, key });
        let source = Source::of(around.link.peer.ip());
        out.say(PeerWord::Shows { proof, number: self.number, source });
        Ok(())
    }

    /// All that came up to a place is taken.
    pub(super) fn is_taken(&mut self, upto: u64, out: &mut Out) {
        self.taking.is_taken(upto, out.bytes());
    }

    /// The stream ends in peace.
    pub(super) fn ends(&self, out: &mut Out) {
        self.taking.ends(out.bytes());
    }

    /// The servers of a domain have said whether somebody is of it.
    pub(super) fn answer(&mut self, pair: &DomainPair, is_right: Option<bool>, out: &mut Out) {
        let Some(at) = self.asked.iter().position(|asked| asked == pair) else { return };
        let DomainPair { own, peer } = self.asked.remove(at);
        let whom = (&*own, &*peer, None);
        match is_right {
            Some(true) => write_dialback("result", whom, Some("valid"), "", out.bytes()),
            Some(false) => write_dialback("result", whom, Some("invalid"), "", out.bytes()),
            None => refuse(&peer, &own, StanzaFault::RemoteServerTimeout, out),
        }
        if is_right == Some(true) && !self.shown.contains(&peer) {
            self.shown.push(peer);
        }
    }
}

/// Another server asks whether a key is one of ours (XEP-0220 2.1.3).
fn verifies(verify: &Element<'_, '_>, profile: &PeerProfile, out: &mut Out) -> Result<(), PeerEnd> {
    let id = verify.attribute("id");
    let (Some((from, to)), Some(id)) = (dialback_domains(verify), id) else {
        return Err(StreamFault::ImproperAddressing.into());
    };
    let is_ours = profile.is_ours(&to);
    let is_right = is_ours && profile.secret.is_key(&verify.text(), (&from, &to), &id);
    let kind = if is_right { "valid" } else { "invalid" };
    write_dialback("verify", (&to, &from, Some(&id)), Some(kind), "", out.bytes());
    Ok(())
}

/// Says why a domain could not be shown (XEP-0220 2.4).
fn refuse(from: &str, to: &str, fault: StanzaFault, out: &mut Out) {
    let inner = format!("{}</error>", condition(fault));
    write_dialback("result", (to, from, None), Some("error"), &inner, out.bytes());
}
