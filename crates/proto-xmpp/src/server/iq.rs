//! Questions of a bound device, and their answers (RFC 6120 8.2.3).
//!
//! A question goes by its address: to another domain or a device it is handed on, rooms and the
//! service of files have modules of their own. One to the server or to the own account is answered
//! by the [feature](super::feature) of its namespace, and so is one of another domain. Any other
//! question, to any address, is answered `service-unavailable`: the answer does not reveal who
//! exists or is online.

use super::Out;
use super::archive::is_asked;
use super::feature::{self, DeviceAnswers, DomainQuestion, Offers, Question};
use super::features::Advertised;
pub(crate) use super::features::disco::DISCO_INFO;
pub(super) use super::features::disco::{DISCO_ITEMS, disco_info};
pub(super) use super::features::ping::PING;
use super::messages::SentAs;
use super::nodes::is_of_nodes;
use super::session::Session;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind};
use crate::xml::scan::Element;
use base::time::Now;
use model::chat::foreign::ForeignDomains;

/// Address that a question is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Server,
    Account,
    Another,
}

impl Session {
    /// A question or an answer; a file has at most so many bytes, and without a storage none.
    pub(super) fn iq(
        &mut self,
        now: Now,
        file_bytes_max: u64,
        iq: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let (id, to, kind) = (iq.attribute("id"), iq.attribute("to"), kind(iq));
        if matches!(&*kind, "result" | "error") {
            return self.passes_answer(now, iq, out);
        }
        let id = id.as_deref().filter(|id| (1..=ID_BYTES_MAX).contains(&id.len()));
        let about = (id, to.as_deref());
        let mut children = iq.children();
        let is_set = *kind == *"set";
        let (Some(_), Some(asked), None, true) =
            (id, children.next(), children.next(), is_set || *kind == *"get")
        else {
            return self.refuse("iq", about, StanzaFault::BadRequest, out);
        };
        if self.asks_elsewhere(iq, Some(&asked), out) {
            return;
        }
        let to = to.as_deref().map(Jid::parse);
        let mut service = None;
        let whom = match to {
            Some(None) => return self.refuse("iq", about, StanzaFault::JidMalformed, out),
            Some(Some(jid)) if self.asks_device(iq, (&jid, SentAs::Iq), out) => return,
            Some(Some(jid)) if self.is_of_rooms(&jid) => {
                return self.asks_of_rooms(now, (&jid, &asked), (is_set, about), (iq, out));
            }
            Some(Some(jid)) if self.is_live(&jid) => {
                return self.asks_of_live((&jid, &asked), (is_set, about), out);
            }
            Some(Some(jid)) => {
                let (whom, fault) = self.whom(&jid);
                if whom == Asked::Another {
                    service = self.service_at(&jid, file_bytes_max > 0);
                }
                match whom {
                    Asked::Another if service.is_some() => Asked::Server,
                    Asked::Another
                        if (is_asked(&asked) || is_set && feature::is_of_lists(&asked))
                            && self.is_neighbour(&jid) =>
                    {
                        return self.refuse("iq", about, StanzaFault::Forbidden, out);
                    }
                    Asked::Another
                        if is_of_nodes(&asked)
                            && self.is_neighbour(&jid)
                            && jid.resource.is_none() =>
                    {
                        let of = jid.account.as_ref().map(|account| account.as_str());
                        return self.asks_of_nodes(now, (of, &asked), (is_set, about), out);
                    }
                    Asked::Another => return self.refuse("iq", about, fault, out),
                    whom => whom,
                }
            }
            None => Asked::Account,
        };
        let is_for_server = whom == Asked::Server;
        let question =
            Question { now, asked: &asked, is_set, is_for_server, about, file_bytes_max };
        let of_namespace = || feature::questions(asked.namespace()).map(|it| it.device);
        let answer = match service.or_else(of_namespace) {
            Some(device) => device(self, &question, out),
            None => Err(StanzaFault::ServiceUnavailable),
        };
        match answer {
            Ok(Some(inner)) => self.answers(about, &inner, out),
            Ok(None) => {}
            Err(fault) => self.refuse("iq", about, fault, out),
        }
    }

    /// The service whose address this is, among those that a feature answers for.
    fn service_at(&self, jid: &Jid, files: bool) -> Option<DeviceAnswers> {
        if jid.account.is_some() {
            return None;
        }
        let mut services = feature::services(Offers { files, ..Offers::default() });
        services.find_map(|it| it.device.filter(|_| self.is_at(jid, it.prefix)))
    }

    /// An answer is for another domain, for a device here, or for the server.
    fn passes_answer(&mut self, now: Now, iq: &Element<'_, '_>, out: &mut Out) {
        let is_result = *kind(iq) == *"result";
        if self.answers_occupant(now, iq, out) {
            return;
        }
        let jid = iq.attribute("to").and_then(|to| Jid::parse(&to));
        if !self.asks_elsewhere(iq, None, out)
            && !jid.is_some_and(|jid| self.asks_device(iq, (&jid, SentAs::Quiet), out))
        {
            self.hears_answer(iq, is_result, out);
        }
    }

    /// Answers a question of this id, to this one, by what is XML.
    pub(super) fn answers(
        &mut self,
        (id, from): (Option<&str>, Option<&str>),
        inner: &str,
        out: &mut Out,
    ) {
        let reply = StanzaReply { name: "iq", from, to: self.jid(), id };
        reply.result(inner, out.bytes());
        self.counts_sent(out);
    }

    fn whom(&self, jid: &Jid) -> (Asked, StanzaFault) {
        let whom = match &jid.account {
            None if self.is_here(&jid.domain) => Asked::Server,
            Some(account) if account.as_str() == self.account() => Asked::Account,
            _ => Asked::Another,
        };
        (whom, self.nobody_at(&jid.domain))
    }

    /// Whether this would be another account here (there may be none).
    fn is_neighbour(&self, jid: &Jid) -> bool {
        jid.account.is_some() && self.is_here(&jid.domain)
    }
}

/// Content of the answer to a question of another domain, or about the domains of this one: from
/// the time, whether files can be sent here, the other domains, and the server's features.
pub fn answer_for_domain(
    iq: &Element<'_, '_>,
    asked: &Element<'_, '_>,
    (now, takes_files, domains, advertised): (Now, bool, &ForeignDomains, &Advertised),
) -> Result<String, StanzaFault> {
    if *kind(iq) != *"get" {
        return Err(StanzaFault::ServiceUnavailable);
    }
    let Some(domain) = feature::questions(asked.namespace()).and_then(|it| it.domain) else {
        return Err(StanzaFault::ServiceUnavailable);
    };
    let to = iq.attribute("to").and_then(|to| crate::jid::domain(&to));
    domain(&DomainQuestion { now, asked, to, takes_files, domains, advertised })
}
