//! Features and contacts that the operator configures, beside those that the server always
//! advertises (XEP-0030 3.1).
//!
//! How its operator is reached (XEP-0157) and services elsewhere are a matter of settings, and with
//! them what the server says that it does; so its capabilities (XEP-0115, XEP-0390) are made once,
//! of whatever it says. Invariant: the features sent under the name of a capability have that
//! name's hash.

use super::capabilities::Capabilities;
use super::disco::disco_info;
use super::services::ExternalService;
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, field};
use crate::server::feature::Feature;
use crate::server::feature::{self, Offers};
use crate::xml::scan::Element;

/// The form of what there is to know of a server (XEP-0157 3, XEP-0128).
const SERVER_INFO: &str = "http://jabber.org/network/serverinfo";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        157,
        ("Contact Addresses for XMPP Services", "1.0"),
        "also `status-addresses`; the same for all domains of the server",
        "xmpp/test_server.py::test_it_says_how_its_operator_is_reached",
    )],
    ..Feature::NONE
};

/// Where somebody of those who run the server is reached (XEP-0157).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerContact {
    /// Purpose of the contact: "abuse", "admin" and their like.
    pub role: &'static str,
    /// Addresses, as URIs.
    pub addresses: Vec<Box<str>>,
}

/// Features and contacts that the operator configures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advertised {
    contacts: Box<[ServerContact]>,
    services: Box<[ExternalService]>,
    /// Without and with what it does for accounts.
    capabilities: [Option<Capabilities>; 2],
}

impl Default for Advertised {
    fn default() -> Advertised {
        Advertised::new(Vec::new(), Vec::new())
    }
}

impl Advertised {
    /// Makes features from these contacts and services.
    pub fn new(contacts: Vec<ServerContact>, services: Vec<ExternalService>) -> Advertised {
        let (contacts, services) = (contacts.into(), services.into());
        let mut advertised = Advertised { contacts, services, capabilities: [None, None] };
        let of = |registers| Capabilities::of(&advertised.info(None, registers));
        advertised.capabilities = [false, true].map(of);
        advertised
    }

    /// Capabilities that are sent with a stream's features (XEP-0115 6.3, XEP-0390 3.5), as XML.
    /// `registers`: with what it does for accounts.
    pub(in crate::server) fn stream_capabilities(&self, registers: bool) -> &str {
        self.capabilities[usize::from(registers)].as_ref().map_or("", |it| &it.elements)
    }

    /// Services that the operator names.
    pub(super) fn services(&self) -> &[ExternalService] {
        &self.services
    }

    /// The server's answer to disco#info, also under the names of its capabilities.
    pub(super) fn server_info(
        &self,
        asked: &Element<'_, '_>,
        registers: bool,
    ) -> Result<String, StanzaFault> {
        let Some(node) = asked.attribute("node") else { return Ok(self.info(None, registers)) };
        let mut both = self.capabilities.iter().zip([false, true]);
        let found = both.find(|(it, _)| it.as_ref().is_some_and(|it| it.is_at(&node)));
        let (_, registers) = found.ok_or(StanzaFault::ItemNotFound)?;
        Ok(self.info(Some(&node), registers))
    }

    fn info(&self, node: Option<&str>, registers: bool) -> String {
        let services = !self.services.is_empty();
        let offers = Offers { accounts: registers, services, ..Offers::default() };
        let (features, identities) = feature::of_server(offers);
        disco_info(node, &identities, features, &self.form())
    }

    /// The addresses as a form; without any there is none.
    fn form(&self) -> String {
        let named = self.contacts.iter().filter(|contact| !contact.addresses.is_empty());
        let fields = named.map(|ServerContact { role, addresses }| {
            let addresses: Vec<&str> = addresses.iter().map(|address| &**address).collect();
            field(&format!("{role}-addresses"), "list-multi", &addresses)
        });
        let fields: String = fields.collect();
        if fields.is_empty() {
            return fields;
        }
        let head = field("FORM_TYPE", "hidden", &[SERVER_INFO]);
        format!("<x xmlns='{FORMS}' type='result'>{head}{fields}</x>")
    }
}

#[cfg(test)]
mod tests {
    use super::super::services::ServiceCredentials;
    use super::*;
    use crate::server::DISCO_INFO;
    use crate::server::XmppListener;
    use crate::server::tests::harness::*;
    use crate::xml::scan::Scan;
    use base::time::{Instant, Now};
    use model::chat::ChatDelivery;
    use model::chat::foreign::ForeignDomains;
    use std::sync::Arc;

    const SERVICES: &str = "urn:xmpp:extdisco:2";

    /// A bound device of a server that says this of itself, with what its stream began with.
    fn bound_at(advertised: Advertised) -> (Side, String) {
        let listener = XmppListener {
            bind_ms_max: 10_000,
            domains: domains(false),
            scram_sha_256: false,
            scram_sha_1: false,
            plain: true,
            certificates: false,
            guests: false,
            fast: true,
            registration: model::ports::users::Registration::Off,
            advertised: Arc::new(advertised),
        };
        let mut side = at(listener, encrypted());
        says(&mut side, HEADER);
        says(&mut side, &auth("PLAIN", "\0ann\0secret"));
        told(&mut side, yes());
        let begins = says(&mut side, HEADER);
        says(&mut side, BIND);
        told(&mut side, ChatDelivery::Bound { device: "desk".into() });
        (side, begins)
    }

    fn relay() -> ExternalService {
        ExternalService {
            kind: "stun".into(),
            host: "stun.a.example".into(),
            port: Some(3_478),
            transport: "udp",
            credentials: ServiceCredentials::Open,
        }
    }

    fn get(to: &str, inner: &str) -> String {
        format!("<iq type='get' id='1' to='{to}'>{inner}</iq>")
    }

    #[test]
    fn services_are_found_and_told_by_the_server_alone() {
        let (mut side, _) = bound_at(Advertised::new(Vec::new(), vec![relay()]));
        let info = says(&mut side, &get("a.example", &format!("<query xmlns='{DISCO_INFO}'/>")));
        assert!(info.contains(&format!("<feature var='{SERVICES}'/>")), "{info}");
        let services = format!("<services xmlns='{SERVICES}'/>");
        let said = says(&mut side, &get("a.example", &services));
        assert_eq!(
            said,
            format!(
                "<iq type='result' id='1' from='a.example' to='ann@a.example/desk'>\
                 <services xmlns='{SERVICES}'><service type='stun' host='stun.a.example' \
                 port='3478' transport='udp'/></services></iq>"
            )
        );
        assert!(says(&mut side, &get("m.example", &services)).contains("<service "));
        let set = get("a.example", &services).replace("'get'", "'set'");
        for other in [set, get("ann@a.example", &services), get("bob@a.example", &services)] {
            let said = says(&mut side, &other);
            assert!(said.contains("<service-unavailable"), "{other}: {said}");
        }
        let (mut side, _) = bound_at(Advertised::default());
        let info = says(&mut side, &get("a.example", &format!("<query xmlns='{DISCO_INFO}'/>")));
        assert!(!info.contains(SERVICES), "{info}");
        let said = says(&mut side, &get("a.example", &services));
        assert!(said.contains("<service-unavailable"), "{said}");
    }

    #[test]
    fn capabilities_are_those_of_what_is_said() {
        let mut seen = Vec::new();
        for advertised in [
            Advertised::default(),
            Advertised::new(Vec::new(), vec![relay()]),
            Advertised::new(contacts(), Vec::new()),
            Advertised::new(contacts(), vec![relay()]),
        ] {
            let (mut side, begins) = bound_at(advertised);
            let at = begins.find(" ver='").expect("capabilities") + " ver='".len();
            let version = begins[at..].split('\'').next().expect("a value").to_owned();
            let node = format!("urn:x-holdline:server#{version}");
            let asked = format!("<query xmlns='{DISCO_INFO}' node='{node}'/>");
            let said = says(&mut side, &get("a.example", &asked));
            let scan = Scan::element(said.as_bytes()).expect("XML");
            let query = scan.root().child("query", DISCO_INFO).expect("told");
            assert!(super::super::capabilities::proves(&query, &node), "{said}");
            let other = asked.replace(&version, "x");
            let said = says(&mut side, &get("a.example", &other));
            assert!(said.contains("<item-not-found"), "{said}");
            assert!(!seen.contains(&version), "it is another one");
            seen.push(version);
        }
    }

    fn contacts() -> Vec<ServerContact> {
        let of = |role, addresses: &[&str]| {
            let addresses = addresses.iter().map(|it| Box::from(*it)).collect();
            ServerContact { role, addresses }
        };
        vec![
            of("abuse", &["mailto:abuse@a.example", "xmpp:abuse@a.example?message&x"]),
            of("admin", &[]),
            of("status", &["https://status.a.example/"]),
        ]
    }

    #[test]
    fn how_its_operator_is_reached_is_a_form_of_what_the_server_is() {
        let (mut side, _) = bound_at(Advertised::new(contacts(), Vec::new()));
        let info = says(&mut side, &get("a.example", &format!("<query xmlns='{DISCO_INFO}'/>")));
        let form = "<x xmlns='jabber:x:data' type='result'>\
            <field var='FORM_TYPE' type='hidden'>\
            <value>http://jabber.org/network/serverinfo</value></field>\
            <field var='abuse-addresses' type='list-multi'>\
            <value>mailto:abuse@a.example</value>\
            <value>xmpp:abuse@a.example?message&amp;x</value></field>\
            <field var='status-addresses' type='list-multi'>\
            <value>https://status.a.example/</value></field></x></query>";
        assert!(info.contains(form), "{info}");
        let (mut side, _) = bound_at(Advertised::default());
        let info = says(&mut side, &get("a.example", &format!("<query xmlns='{DISCO_INFO}'/>")));
        assert!(!info.contains("<x "), "{info}");
    }

    #[test]
    fn other_domains_are_told_what_the_server_is_but_of_no_services() {
        let advertised = Advertised::new(Vec::new(), vec![relay()]);
        let domains = ForeignDomains { own: "a.example".into(), ..ForeignDomains::default() };
        let answer = |inner: &str, advertised: &Advertised| {
            let iq = get("a.example", inner);
            let scan = Scan::element(iq.as_bytes()).expect("XML");
            let asked = scan.root().children().next().expect("a question");
            let about = (Now::new(Instant::from_nanos(1), 1), false, &domains, advertised);
            crate::server::answer_for_domain(&scan.root(), &asked, about)
        };
        let info = answer(&format!("<query xmlns='{DISCO_INFO}'/>"), &advertised);
        assert!(info.is_ok_and(|info| info.contains(SERVICES)));
        let uptime = answer("<query xmlns='jabber:iq:last'/>", &advertised);
        assert!(uptime.is_ok_and(|uptime| uptime.contains(" seconds='0'")));
        let services = format!("<services xmlns='{SERVICES}'/>");
        assert_eq!(answer(&services, &advertised), Err(StanzaFault::Forbidden));
        let none = answer(&services, &Advertised::default());
        assert_eq!(none, Err(StanzaFault::ServiceUnavailable));
    }
}
