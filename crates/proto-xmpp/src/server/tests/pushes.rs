//! Push (XEP-0357): what enables and disables it, and what is refused.

use super::harness::*;
use model::chat::{ChatDelivery, ChatFault, ChatRequest, PushRoute, PushWish};

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
    for (node, name) in [(" node='n1'", "n1"), ("", "")] {
        let disable = format!(
            "<iq type='set' id='y'><disable xmlns='urn:xmpp:push:0' jid='{service}'{node}/></iq>"
        );
        assert_eq!(says(&mut side, &disable), "");
        let (number, asked) = wish(&mut side);
        assert_eq!(asked, PushWish::Remove { name: Some(name.into()) });
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
