//! Push (XEP-0357): devices that are to be woken while they are away.
//!
//! ```text
//! <enable jid='push.DOMAIN' node='NAME'> <x type='submit'> app, token │ product, device, code
//! <enable jid='push.example' node='NODE'> (<x type='submit'> whatever the service wants)
//! <disable jid='…' node='…'/>                                          without a node: all
//! ```
//! A registration with Holdline's own service has the node for its name, and says in its options by
//! which way the device is reached (docs/push.md); a form without a token has the node for one. Of
//! a service elsewhere, which another server or a component has, node and form are kept for it.
//! A device is of the account that registered it last, unless the form says that it is shared.

use super::What;
use crate::claims::Xep;
use crate::fault::StanzaFault;
use crate::forms::{FORMS, fields};
use crate::jid::Jid;
use crate::peer::pushes::PUSH;
use crate::server::Out;
use crate::server::feature::{Answer, Feature, Question, Questions};
use crate::server::session::Session;
use crate::xml::scan::Element;
use model::chat::{ChatRequest, PUSH_NAME_BYTES_MAX, PushRoute, PushService, PushWish};

/// Prefix of the push service's address, before the domain.
const SERVICE: &str = "push.";

/// The option of a registration with a service elsewhere by which other accounts keep theirs of the
/// same node. It is said to this server and not handed on.
const SHARED: &str = "holdline#shared";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[Xep::complete(
        357,
        ("Push Notifications", "0.4.1"),
        "by external services, the operator's gateway and MIOP",
        "xmpp/test_push.py::\
         test_a_phone_that_is_away_is_told_by_its_own_apps_service_and_of_nothing_more",
    )],
    account: (&[PUSH], ""),
    questions: &[Questions::of_devices(PUSH, answer)],
    ..Feature::NONE
};

fn answer(session: &mut Session, question: &Question<'_, '_, '_>, out: &mut Out) -> Answer {
    question.for_account()?;
    let wish = match (question.asked.name(), question.is_set) {
        ("enable", true) => session.enables(question.asked)?,
        ("disable", true) => session.disables(question.asked)?,
        _ => return Err(StanzaFault::ServiceUnavailable),
    };
    let number = session.asks((What::Order, question.about), 1);
    out.say(ChatRequest::Push { session: session.session, number, wish: Box::new(wish) });
    Ok(None)
}

/// Publish options of a push service: names and values.
type ServiceOptions = Vec<(Box<str>, Box<str>)>;

/// The options of a registration.
#[derive(Default)]
struct Options {
    app: Option<Box<str>>,
    token: Option<Box<str>>,
    product: Option<Box<str>>,
    device: Option<Box<str>>,
    code: Option<Box<str>>,
    shared: bool,
}

impl Session {
    /// A device is to be woken (5).
    fn enables(&self, asked: &Element<'_, '_>) -> Result<PushWish, StanzaFault> {
        let elsewhere = self.service_of(asked)?;
        let node = node_of(asked)?.ok_or(StanzaFault::BadRequest)?;
        if let Some(address) = elsewhere {
            let mut options =
                asked.child("x", FORMS).map_or(Ok(Vec::new()), |form| options(&form))?;
            let before = options.len();
            options.retain(|(name, value)| &**name != SHARED || !is_true(value));
            let shared = options.len() < before;
            let service = PushService::new(&address, &node, options);
            let service = Box::new(service.ok_or(StanzaFault::PolicyViolation)?);
            let (name, route) = (Some(service.name()), PushRoute::Service(service));
            return Ok(PushWish::Register { name, route, code: None, shared });
        }
        let form = asked.child("x", FORMS).ok_or(StanzaFault::NotAcceptable)?;
        let Options { app, token, product, device, code, shared } = Options::of(&form)?;
        let route = match (app, product, device) {
            (Some(app), None, None) => PushRoute::gateway(&app, &token.unwrap_or(node.clone())),
            (None, Some(product), Some(device)) if token.is_none() => {
                PushRoute::miop(&product, &device)
            }
            _ => None,
        };
        let route = route.ok_or(StanzaFault::NotAcceptable)?;
        let is_gateway = matches!(route, PushRoute::Gateway { .. });
        if is_gateway && code.is_some() {
            return Err(StanzaFault::NotAcceptable);
        }
        Ok(PushWish::Register { name: Some(node), route, code, shared })
    }

    /// Disables push (6) for a node; without one, for all.
    fn disables(&self, asked: &Element<'_, '_>) -> Result<PushWish, StanzaFault> {
        let node = node_of(asked)?;
        let jid = jid_of(asked)?;
        // What was enabled while a domain was reached can be disabled when it is not.
        let service = (!self.is_own_service(&jid)).then(|| jid.text().into());
        Ok(PushWish::Disable { service, node })
    }

    /// The address of the push service, if it is one elsewhere that can be reached; none: it is the
    /// one that is here.
    fn service_of(&self, asked: &Element<'_, '_>) -> Result<Option<String>, StanzaFault> {
        let jid = jid_of(asked)?;
        let is_reached = self.domains().is_some_and(|it| it.is_foreign(&jid.domain));
        match (self.is_own_service(&jid), is_reached) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(jid.text())),
            (false, false) => Err(StanzaFault::RemoteServerNotFound),
        }
    }

    /// Whether a push service is the one that is here. A component may have its name.
    fn is_own_service(&self, jid: &Jid) -> bool {
        let is_component = self.domains().is_some_and(|it| it.is_component(&jid.domain));
        jid.account.is_none() && self.is_at(jid, SERVICE) && !is_component
    }
}

/// Whether a field that is true or not says so (XEP-0004 3.3).
fn is_true(value: &str) -> bool {
    matches!(value, "1" | "true")
}

fn jid_of(asked: &Element<'_, '_>) -> Result<Jid, StanzaFault> {
    let jid = asked.attribute("jid").ok_or(StanzaFault::BadRequest)?;
    Jid::parse(&jid).ok_or(StanzaFault::JidMalformed)
}

/// Publish options in a form, for a push service elsewhere.
fn options(form: &Element<'_, '_>) -> Result<ServiceOptions, StanzaFault> {
    if form.attribute("type").is_some_and(|kind| kind != "submit") {
        return Err(StanzaFault::BadRequest);
    }
    let mut options = Vec::new();
    for (name, values) in fields(form) {
        let name = name.unwrap_or_default();
        if name != "FORM_TYPE" {
            options.extend(values.into_iter().map(|value| (name.clone().into(), value.into())));
        }
    }
    Ok(options)
}

/// The node that a stanza names; one without any bytes is none.
fn node_of(asked: &Element<'_, '_>) -> Result<Option<Box<str>>, StanzaFault> {
    let node = asked.attribute("node").filter(|node| !node.is_empty());
    if node.as_ref().is_some_and(|node| node.len() > PUSH_NAME_BYTES_MAX) {
        return Err(StanzaFault::PolicyViolation);
    }
    Ok(node.map(|node| node.into()))
}

impl Options {
    /// Reads a form. Unknown fields are ignored, for they are for others (XEP-0060 7.1.5).
    fn of(form: &Element<'_, '_>) -> Result<Options, StanzaFault> {
        if form.attribute("type").as_deref() != Some("submit") {
            return Err(StanzaFault::BadRequest);
        }
        let mut options = Options::default();
        for (name, values) in fields(form) {
            let Some(value) = values.into_iter().next() else { continue };
            let value = Some(value.into());
            match &*name.unwrap_or_default() {
                "app" => options.app = value,
                "token" => options.token = value,
                "product" => options.product = value,
                "device" => options.device = value,
                "code" => options.code = value,
                "shared" => options.shared = value.is_some_and(|value| is_true(&value)),
                _ => {}
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use crate::server::tests::foreign::{bound_among, bound_elsewhere};
    use crate::server::tests::harness::*;
    use model::chat::foreign::ForeignDomains;
    use model::chat::{
        ChatDelivery, ChatFault, ChatRequest, PUSH_OPTIONS_MAX, PushRoute, PushService, PushWish,
    };
    use std::sync::Arc;

    fn enable(jid: &str, node: &str, fields: &[(&str, &str)]) -> String {
        let field = |(name, value): &(&str, &str)| {
            format!("<field var='{name}'><value>{value}</value></field>")
        };
        let fields: String = fields.iter().map(field).collect();
        format!(
            "<iq type='set' id='x'><enable xmlns='urn:xmpp:push:0' jid='{jid}' node='{node}'>\
             <x xmlns='jabber:x:data' type='submit'>{fields}</x></enable></iq>"
        )
    }

    fn wish(side: &mut Side) -> (u32, PushWish) {
        match side.take_words_as::<ChatRequest>().pop() {
            Some(ChatRequest::Push { number, wish, .. }) => (number, *wish),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_device_is_registered_under_its_node_and_taken_back() {
        let mut side = bound();
        let service = "push.a.example".to_owned();
        let gateway = PushRoute::gateway("chat", "n1").expect("allowed");
        let miop = PushRoute::miop("shop", "phone").expect("allowed");
        let register = |route: &PushRoute, code: Option<&str>| PushWish::Register {
            name: Some("n1".into()),
            route: route.clone(),
            code: code.map(Box::from),
            shared: false,
        };
        let options = ("FORM_TYPE", "http://jabber.org/protocol/pubsub#publish-options");
        let of_miop = [options, ("product", "shop"), ("device", "phone")];
        let with_code = [&of_miop[..], &[("code", "abcd2345")]].concat();
        for (fields, expected) in [
            (&[options, ("app", "chat")][..], register(&gateway, None)),
            (&[("app", "chat"), ("token", "n1")], register(&gateway, None)),
            (&of_miop, register(&miop, None)),
            (&with_code, register(&miop, Some("abcd2345"))),
        ] {
            assert_eq!(says(&mut side, &enable(&service, "n1", fields)), "");
            let (number, asked) = wish(&mut side);
            assert_eq!(asked, expected);
            let done = told(&mut side, ChatDelivery::Done { number });
            assert!(done.contains("type='result'") && done.contains("id='x'"), "{done}");
        }
        for (node, name) in [(" node='n1'", Some("n1")), ("", None)] {
            let disable = format!(
                "<iq type='set' id='y'><disable xmlns='urn:xmpp:push:0' jid='{service}'{node}/>\
                 </iq>"
            );
            assert_eq!(says(&mut side, &disable), "");
            let (number, asked) = wish(&mut side);
            assert_eq!(asked, PushWish::Disable { service: None, node: name.map(Box::from) });
            assert!(told(&mut side, ChatDelivery::Done { number }).contains("type='result'"));
        }
    }

    #[test]
    fn what_cannot_be_registered_is_refused_with_its_reason() {
        let mut side = bound();
        let service = "push.a.example".to_owned();
        let long = "n".repeat(257);
        let app = [("app", "chat")];
        for (stanza, fault) in [
            (enable("push.elsewhere.example", "n", &app), "remote-server-not-found"),
            (enable("a.example", "n", &app), "remote-server-not-found"),
            (enable(&format!("ann@{service}"), "n", &app), "remote-server-not-found"),
            (enable("@", "n", &app), "jid-malformed"),
            (enable(&service, "", &app), "bad-request"),
            (enable(&service, &long, &app), "policy-violation"),
            (enable(&service, "n", &[]), "not-acceptable"),
            (enable(&service, "n", &[("app", "chat"), ("device", "d")]), "not-acceptable"),
            (enable(&service, "n", &[("app", "chat"), ("code", "c")]), "not-acceptable"),
            (enable(&service, "n", &[("product", "shop")]), "not-acceptable"),
            (
                format!(
                    "<iq type='set' id='x'><enable xmlns='urn:xmpp:push:0' jid='{service}' \
                     node='n'/></iq>"
                ),
                "not-acceptable",
            ),
            ("<iq type='set' id='x'><disable xmlns='urn:xmpp:push:0'/></iq>".into(), "bad-request"),
        ] {
            let said = says(&mut side, &stanza);
            assert!(said.contains(fault), "{stanza}: {said}");
            assert!(side.take_words().is_empty(), "no request is made");
        }
        for (why, fault) in [
            (ChatFault::PushFull, "policy-violation"),
            (ChatFault::NoGateway, "feature-not-implemented"),
            (ChatFault::UnknownDevice, "item-not-found"),
            (ChatFault::BadCode, "not-acceptable"),
        ] {
            says(&mut side, &enable(&service, "n", &app));
            let (number, _) = wish(&mut side);
            let said = told(&mut side, ChatDelivery::Failed { number, why });
            assert!(said.contains(fault), "{why:?}: {said}");
        }
        says(&mut side, &enable(&service, "n", &[("product", "shop"), ("device", "d")]));
        let (number, _) = wish(&mut side);
        let said = told(&mut side, ChatDelivery::PushCode { number });
        assert!(said.contains("not-acceptable"), "the code is wanted: {said}");
    }

    fn disable(jid: &str, node: &str) -> String {
        format!("<iq type='set' id='y'><disable xmlns='urn:xmpp:push:0' jid='{jid}'{node}/></iq>")
    }

    #[test]
    fn a_service_elsewhere_has_node_and_form_kept_for_it() {
        let mut side = bound_elsewhere();
        let form_type = ("FORM_TYPE", "http://jabber.org/protocol/pubsub#publish-options");
        let secret = ("secret".into(), "s&amp;".replace("&amp;", "&").into());
        let plain = "<iq type='set' id='x'><enable xmlns='urn:xmpp:push:0' jid='Push.Example.' \
            node='n'/></iq>";
        for (stanza, options) in [
            (enable("push.example", "n", &[form_type, ("secret", "s&amp;")]), vec![secret]),
            (plain.into(), Vec::new()),
        ] {
            assert_eq!(says(&mut side, &stanza), "");
            let (number, asked) = wish(&mut side);
            let service = PushService::new("push.example", "n", options).expect("allowed");
            let (name, route) =
                (Some("push.example n".into()), PushRoute::Service(Box::new(service)));
            assert_eq!(asked, PushWish::Register { name, route, code: None, shared: false });
            assert!(told(&mut side, ChatDelivery::Done { number }).contains("type='result'"));
        }
        for (node, told_of) in [(" node='n'", Some("n")), ("", None)] {
            assert_eq!(says(&mut side, &disable("push.example", node)), "");
            let (service, node) = (Some("push.example".into()), told_of.map(Box::from));
            assert_eq!(wish(&mut side).1, PushWish::Disable { service, node });
        }
        let many = vec![("v", "1"); PUSH_OPTIONS_MAX + 1];
        let long = "x".repeat(2_100);
        for (fields, fault) in
            [(&many[..], "policy-violation"), (&[("v", &long)], "policy-violation")]
        {
            let said = says(&mut side, &enable("push.example", "n", fields));
            assert!(said.contains(fault), "{said}");
            assert!(side.take_words().is_empty(), "no request is made");
        }
    }

    #[test]
    fn a_component_may_have_the_name_of_the_own_service() {
        let of = |components: &[&str]| ForeignDomains {
            own: "a.example".into(),
            components: components.iter().map(|it| Box::from(*it)).collect(),
            ..ForeignDomains::default()
        };
        let mut side = bound_among(Arc::new(of(&["push.a.example"])));
        says(&mut side, &enable("push.a.example", "n", &[]));
        let PushWish::Register { route: PushRoute::Service(service), .. } = wish(&mut side).1
        else {
            panic!("it is the component's")
        };
        assert_eq!(&*service.address, "push.a.example");
        let said = says(&mut side, &enable("push.b.example", "n", &[]));
        assert!(said.contains("remote-server-not-found"), "{said}");
        says(&mut side, &disable("push.b.example", ""));
        let service = Some("push.b.example".into());
        assert_eq!(wish(&mut side).1, PushWish::Disable { service, node: None });
    }
}
