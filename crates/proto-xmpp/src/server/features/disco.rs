//! Service discovery (XEP-0030): what the server and an account are and do.
//!
//! Features, identities and services are those of all [features](crate::server::feature); the
//! operator's own are in `advertised`. Nodes of an account are asked of the service, the node of
//! commands is that of `accounts`.

use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::server::Out;
use crate::server::feature::{
    self, Answer, DomainQuestion, DomainService, Feature, Offers, Question, Questions,
};
use crate::server::session::Session;
use crate::xml::text::escaped;

pub(crate) const DISCO_INFO: &str = "http://jabber.org/protocol/disco#info";
pub(in crate::server) const DISCO_ITEMS: &str = "http://jabber.org/protocol/disco#items";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        30,
        ("Service Discovery", "2.5.0"),
        "",
        "xmpp/test_talk.py::test_the_server_says_what_it_is_and_does",
    )],
    server: (&[DISCO_INFO, DISCO_ITEMS], "<identity category='server' type='im' name='Holdline'/>"),
    account: (&[DISCO_INFO, DISCO_ITEMS], "<identity category='account' type='registered'/>"),
    questions: &[
        Questions { domain: Some(info_elsewhere), ..Questions::of_devices(DISCO_INFO, info) },
        Questions { domain: Some(items_elsewhere), ..Questions::of_devices(DISCO_ITEMS, items) },
    ],
    ..Feature::NONE
};

fn info(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    let has_node = question.asked.attribute("node").is_some();
    if question.is_for_server && has_node && session.asks_of_commands(question, out) {
        return Ok(None);
    }
    if !question.is_for_server && has_node {
        return session.asks_own_nodes(question, out);
    }
    question.gets("query")?;
    if !question.is_for_server {
        return Ok(Some(account_info()));
    }
    let accounts = session.has(Session::ACCOUNTS);
    let advertised = session.listener.as_ref().map(|listener| &listener.advertised);
    let advertised = advertised.ok_or(StanzaFault::ServiceUnavailable)?;
    advertised.server_info(question.asked, accounts).map(Some)
}

fn items(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    if !question.is_for_server {
        return session.asks_own_nodes(question, out);
    }
    let has_node = question.asked.attribute("node").is_some();
    if has_node && session.asks_of_commands(question, out) {
        return Ok(None);
    }
    question.gets("query")?;
    if has_node {
        return Err(StanzaFault::ItemNotFound);
    }
    let domain = question.about.1.and_then(crate::jid::domain);
    let domain = domain.as_deref().unwrap_or(session.domain());
    Ok(Some(services_of(domain, question.file_bytes_max > 0, "")))
}

fn info_elsewhere(question: &DomainQuestion<'_, '_, '_>) -> Result<String, StanzaFault> {
    question.gets("query")?;
    question.advertised.server_info(question.asked, false)
}

fn items_elsewhere(question: &DomainQuestion<'_, '_, '_>) -> Result<String, StanzaFault> {
    question.gets("query")?;
    if question.asked.attribute("node").is_some() {
        return Err(StanzaFault::ItemNotFound);
    }
    let domains = question.domains;
    let own = question.to.as_deref().filter(|to| domains.is_own(to)).unwrap_or(&domains.own);
    let components = domains.components.iter();
    let more: String = components.map(|it| format!("<item jid='{it}'/>")).collect();
    Ok(services_of(own, question.takes_files, &more))
}

/// Items of a domain (XEP-0030 4.1): its services, and more.
fn services_of(domain: &str, files: bool, more: &str) -> String {
    let services = feature::services(Offers { files, ..Offers::default() });
    let items: String = services
        .map(|DomainService { prefix, name, .. }| {
            format!("<item jid='{prefix}{domain}' name='{name}'/>")
        })
        .collect();
    format!("<query xmlns='{DISCO_ITEMS}'>{items}{more}</query>")
}

/// Identities and features of an account (XEP-0030 3.1, XEP-0163 6.1).
pub(in crate::server) fn account_info() -> String {
    let (features, identities) = feature::of_account();
    disco_info(None, &identities, features, "")
}

/// Answer to disco#info (XEP-0030 3.1): identity, features, and further XML.
pub(in crate::server) fn disco_info<'a>(
    node: Option<&str>,
    identity: &str,
    features: impl IntoIterator<Item = &'a str>,
    more: &str,
) -> String {
    let node = node.map(|node| format!(" node='{}'", escaped(node))).unwrap_or_default();
    let features = features.into_iter().map(|feature| format!("<feature var='{feature}'/>"));
    let features: String = features.collect();
    format!("<query xmlns='{DISCO_INFO}'{node}>{identity}{features}{more}</query>")
}
