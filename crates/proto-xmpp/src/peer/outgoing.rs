//! A stream that is begun here, to another domain.
//!
//! ```text
//! header ─► features ─► starttls ─► header ─► features ─┬─ EXTERNAL ─► success, features ─► ready
//!                                                       └─ db:result, our key ─► valid ─► ready
//! ```
//! Whether somebody is of that domain may be asked on it as soon as TLS stands, if it has to.
//! Invariant: nothing is written on it for others before it is ready.

use super::counting::Saying;
use super::wire::{check_header, dialback_domains, write_dialback, write_header};
use super::{Around, DialbackProof, DomainPair, Next, Out, PeerEnd, PeerProfile, PeerWord};
use crate::fault::StreamFault;
use crate::sasl::{self, SASL};
use crate::stream::{SM, TLS};
use crate::xml::scan::{DIALBACK, Element, SERVER, STREAMS};
use base::time::{Instant, Now};
use model::close::CloseReason;
use std::collections::VecDeque;
use std::time::Duration;

/// Keys that are asked about on one stream. Beyond, nobody waits for the answer about the oldest.
const ASKED_MAX: usize = 1_024;

/// A stream that is begun here.
pub(super) struct OutgoingStream {
    pair: DomainPair,
    /// The id that the other server has given it.
    id: Box<str>,
    stage: Stage,
    /// Keys that are asked about; behind them those that were asked, with until when somebody
    /// waits for the answer.
    proofs: VecDeque<DialbackProof>,
    asked: VecDeque<(Instant, DialbackProof)>,
    /// EXTERNAL was refused.
    has_failed: bool,
    /// The other server counts what it has, if it is asked to.
    may_count: bool,
    saying: Saying,
    /// When it is woken for that.
    wakes: Option<Instant>,
    /// Whether anything was written since the last look.
    has_said: bool,
    /// How many times it was looked at.
    looks: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The other server's header, or its features.
    Header,
    /// Its answer to STARTTLS.
    Tls,
    /// Its answer to our certificate.
    Proving,
    /// Its new features behind that.
    Proved,
    /// Its answer to our key.
    Showing,
    Ready,
}

impl OutgoingStream {
    pub(super) fn new(pair: DomainPair) -> OutgoingStream {
        let (proofs, asked) = Default::default();
        let (id, stage) = ("".into(), Stage::Header);
        let (has_failed, may_count, has_said, looks) = Default::default();
        let (saying, wakes) = Default::default();
        OutgoingStream {
            pair,
            id,
            stage,
            proofs,
            asked,
            has_failed,
            may_count,
            saying,
            wakes,
            has_said,
            looks,
        }
    }

    /// Notes that so many stanzas were written.
    pub(super) fn says(&mut self, count: u32, (now, profile): (Now, &PeerProfile), out: &mut Out) {
        self.has_said = true;
        self.saying.writes(count, (now, profile.acknowledged_ms_max), out.bytes());
        self.is_to_wake(out);
    }

    /// Asks to be woken when the answer is due, unless it is woken before that.
    fn is_to_wake(&mut self, out: &mut Out) {
        let is_new = |due: &Instant| self.wakes.is_none_or(|wakes| *due < wakes);
        if let Some(due) = self.saying.due().filter(is_new) {
            self.wakes = Some(due);
            out.wake(due);
        }
    }

    /// Ends the stream if the other server has not acknowledged for too long.
    pub(super) fn passes(&mut self, now: Now, out: &mut Out) -> Result<(), PeerEnd> {
        self.wakes = self.wakes.filter(|wakes| *wakes > now.mono);
        if !self.saying.passes(now, out.bytes()) {
            return Err(StreamFault::ConnectionTimeout.into());
        }
        self.is_to_wake(out);
        Ok(())
    }

    /// The other server is to count.
    fn counts(&mut self, out: &mut Out) {
        if let Some(from) = self.saying.begins(out.bytes()) {
            out.say(PeerWord::Counts(self.pair.clone(), Some(from)));
        }
    }

    /// Handles silence of so many seconds, which is normal on a stream of ours. Returns the
    /// milliseconds for which it goes on, if something was written.
    pub(super) fn goes_on(&mut self, idle_s: u32) -> Option<u32> {
        self.looks += 1;
        let ms = idle_s.saturating_mul(1_000).saturating_mul(self.looks + 1);
        std::mem::take(&mut self.has_said).then_some(ms)
    }

    /// Domain that it is from, and domain that it leads to.
    pub(super) fn pair(&self) -> &DomainPair {
        &self.pair
    }

    pub(super) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    pub(super) fn opened(&mut self, _: &Around<'_>, out: &mut Out) {
        self.stage = Stage::Header;
        self.begins(out);
    }

    fn begins(&self, out: &mut Out) {
        let whom = (Some(&*self.pair.own), Some(&*self.pair.peer), None);
        write_header(SERVER, whom, true, out.bytes());
    }

    fn is_taken(&mut self, out: &mut Out) {
        self.stage = Stage::Ready;
        out.say(PeerWord::Ready(self.pair.clone()));
        if self.may_count {
            self.counts(out);
        }
    }

    pub(super) fn header(
        &mut self,
        header: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<(), PeerEnd> {
        let is_new = check_header(header)?;
        self.id = header.attribute("id").unwrap_or_default().into();
        if !is_new && self.stage == Stage::Header {
            // A server from before XMPP 1.0 has no features, and no TLS.
            self.shows(around, out)?;
        }
        if !is_new && self.stage == Stage::Proved {
            self.is_taken(out);
        }
        Ok(())
    }

    pub(super) fn element(
        &mut self,
        element: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<Next, PeerEnd> {
        match (element.name(), element.namespace(), self.stage) {
            ("features", STREAMS, Stage::Header) => self.features(element, around, out)?,
            ("proceed", TLS, Stage::Tls) => return Ok(Next::Tls),
            ("failure", TLS, Stage::Tls) => return Err(PeerEnd::Quiet(CloseReason::TlsFailed)),
            ("success", SASL, Stage::Proving) => {
                self.stage = Stage::Proved;
                self.begins(out);
                return Ok(Next::Anew);
            }
            ("features", STREAMS, Stage::Proved) => {
                self.may_count = element.child("sm", SM).is_some();
                self.is_taken(out);
            }
            ("failure", SASL, Stage::Proving) => {
                self.has_failed = true;
                self.shows(around, out)?;
            }
            ("result", DIALBACK, Stage::Showing) => {
                if element.attribute("type").as_deref() != Some("valid") {
                    return Err(PeerEnd::Quiet(CloseReason::AuthFailed));
                }
                self.is_taken(out);
            }
            ("verify", DIALBACK, _) => self.verified(element, out),
            ("failed", SM, Stage::Ready) => {
                self.saying.is_refused();
                out.say(PeerWord::Counts(self.pair.clone(), None));
            }
            ("a", SM, Stage::Ready) => self.hears(element, around, out)?,
            // What a server says on a stream of ours is of nobody.
            _ => {}
        }
        Ok(Next::Goes)
    }

    /// The other server says how much of what was said it has.
    fn hears(
        &mut self,
        answer: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<(), PeerEnd> {
        if !self.saying.is_counted() {
            return Ok(());
        }
        let how = (around.now, around.profile.acknowledged_ms_max);
        let Some(taken) = self.saying.hears(answer, how, out.bytes()) else {
            return Err(StreamFault::UndefinedCondition.into());
        };
        self.is_to_wake(out);
        out.say(PeerWord::Acknowledged(self.pair.clone(), taken));
        Ok(())
    }

    fn features(
        &mut self,
        features: &Element<'_, '_>,
        around: &Around<'_>,
        out: &mut Out,
    ) -> Result<(), PeerEnd> {
        self.may_count = features.child("sm", SM).is_some();
        if around.link.tls.is_none() {
            if features.child("starttls", TLS).is_some() && around.link.may_start_tls {
                out.bytes().extend_from_slice(format!("<starttls xmlns='{TLS}'/>").as_bytes());
                self.stage = Stage::Tls;
                return Ok(());
            }
            if around.profile.requires_tls {
                return Err(PeerEnd::Fault(StreamFault::PolicyViolation));
            }
        }
        let mechanisms = features.child("mechanisms", SASL);
        let mut mechanisms = mechanisms.into_iter().flat_map(|all| all.children());
        let takes_ours = mechanisms.any(|it| it.text().trim() == "EXTERNAL");
        let is_certified = around.profile.certified.contains(&self.pair.own);
        if takes_ours && is_certified && !self.has_failed {
            let own = sasl::encoded(self.pair.own.as_bytes());
            let auth = format!("<auth xmlns='{SASL}' mechanism='EXTERNAL'>{own}</auth>");
            out.bytes().extend_from_slice(auth.as_bytes());
            self.stage = Stage::Proving;
            return Ok(());
        }
        self.shows(around, out)
    }

    /// Shows our key (XEP-0220 2.1.1), and asks what was to be asked.
    fn shows(&mut self, around: &Around<'_>, out: &mut Out) -> Result<(), PeerEnd> {
        let profile = around.profile;
        if profile.requires_tls && around.link.tls.is_none() {
            return Err(PeerEnd::Fault(StreamFault::PolicyViolation));
        }
        self.stage = Stage::Showing;
        let DomainPair { own, peer } = &self.pair;
        let key = profile.secret.key(peer, own, &self.id);
        write_dialback("result", (own, peer, None), None, &key, out.bytes());
        for proof in std::mem::take(&mut self.proofs) {
            self.verify(proof, (around.now, profile), out);
        }
        Ok(())
    }

    /// Asks the other server whether it issued a key that a peer presented (XEP-0220 2.1.2).
    pub(super) fn verify(
        &mut self,
        proof: DialbackProof,
        (now, profile): (Now, &PeerProfile),
        out: &mut Out,
    ) {
        if !matches!(self.stage, Stage::Showing | Stage::Ready) {
            if self.proofs.len() >= ASKED_MAX {
                self.proofs.pop_front();
            }
            return self.proofs.push_back(proof);
        }
        // Whoever showed one has been told by then that nobody could say.
        while let Some((until, _)) = self.asked.front()
            && (*until <= now.mono || self.asked.len() >= ASKED_MAX)
        {
            self.asked.pop_front();
        }
        let whom = (&*self.pair.own, &*self.pair.peer, Some(&*proof.id));
        let key = crate::xml::text::escaped(&proof.key);
        write_dialback("verify", whom, None, &key, out.bytes());
        let until = now.after(Duration::from_millis(profile.begin_ms_max.into()));
        self.asked.push_back((until, proof));
    }

    fn verified(&mut self, verify: &Element<'_, '_>, out: &mut Out) {
        let is_of = dialback_domains(verify).is_some_and(|(from, _)| from == self.pair.peer);
        let id = verify.attribute("id").unwrap_or_default();
        let at = self.asked.iter().position(|(_, proof)| *proof.id == *id && is_of);
        let Some((_, proof)) = at.and_then(|at| self.asked.remove(at)) else { return };
        let is_right = verify.attribute("type").as_deref() == Some("valid");
        out.say(PeerWord::Verified(Box::new(proof), is_right));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::tests::profile;
    use base::hash::HashKey;
    use model::link::{Link, Protocol};

    /// A server that never answers has only so much of ours.
    #[test]
    fn keys_that_nobody_answers_for_are_forgotten() {
        let profile = PeerProfile { begin_ms_max: 10_000, ..(*profile(false)).clone() };
        let pair = DomainPair { own: "a.example".into(), peer: "b.example".into() };
        let proof = |at: usize| {
            let (pair, id) = (pair.clone(), at.to_string().into());
            DialbackProof { pair, id, key: "k".into() }
        };
        let mut stream = OutgoingStream::new(pair.clone());
        let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
        (0..ASKED_MAX + 5)
            .for_each(|at| stream.verify(proof(at), (Now::default(), &profile), &mut out));
        assert_eq!((stream.proofs.len(), stream.asked.len()), (ASKED_MAX, 0));
        let link = Link::loopback(Protocol::Xmpp);
        let around = Around { profile: &profile, now: Now::default(), link: &link };
        assert!(stream.shows(&around, &mut out).is_ok());
        stream.verify(proof(9_999), (Now::default(), &profile), &mut out);
        assert_eq!((stream.proofs.len(), stream.asked.len()), (0, ASKED_MAX));
        assert_eq!(stream.asked.front().map(|(_, proof)| &*proof.id), Some("6"));
        let mono = Now::default().after(Duration::from_millis(10_000));
        let later = Now { mono, ..Now::default() };
        stream.verify(proof(1), (later, &profile), &mut out);
        assert_eq!(stream.asked.len(), 1, "the others were told that nobody could say");
    }
}
