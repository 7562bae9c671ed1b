//! Push (XEP-0357): what enables and disables it, and what is refused.

use super::foreign::{bound_among, bound_elsewhere};
use super::harness::*;
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
            "<iq type='set' id='y'><disable xmlns='urn:xmpp:push:0' jid='{service}'{node}/></iq>"
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
        assert!(side.take_words().is_empty(), "it is asked of nobody");
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
    let plain =
        "<iq type='set' id='x'><enable xmlns='urn:xmpp:push:0' jid='Push.Example.' node='n'/></iq>";
    for (stanza, options) in [
        (enable("push.example", "n", &[form_type, ("secret", "s&amp;")]), vec![secret]),
        (plain.into(), Vec::new()),
    ] {
        assert_eq!(says(&mut side, &stanza), "");
        let (number, asked) = wish(&mut side);
        let service = PushService::new("push.example", "n", options).expect("allowed");
        let (name, route) = (Some("push.example n".into()), PushRoute::Service(Box::new(service)));
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
    for (fields, fault) in [(&many[..], "policy-violation"), (&[("v", &long)], "policy-violation")]
    {
        let said = says(&mut side, &enable("push.example", "n", fields));
        assert!(said.contains(fault), "{said}");
        assert!(side.take_words().is_empty(), "it is asked of nobody");
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
    let PushWish::Register { route: PushRoute::Service(service), .. } = wish(&mut side).1 else {
        panic!("it is the component's")
    };
    assert_eq!(&*service.address, "push.a.example");
    let said = says(&mut side, &enable("push.b.example", "n", &[]));
    assert!(said.contains("remote-server-not-found"), "{said}");
    says(&mut side, &disable("push.b.example", ""));
    let service = Some("push.b.example".into());
    assert_eq!(wish(&mut side).1, PushWish::Disable { service, node: None });
}
