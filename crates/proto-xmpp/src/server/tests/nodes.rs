//! Nodes of accounts, as stanzas: requests to the service, and its answers.

use super::harness::*;
use crate::xml::scan::Scan;
use model::chat::*;

const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";

/// The request to the service for a stanza.
fn asks(side: &mut Side, stanza: &str) -> NodesRequest {
    assert_eq!(says(side, stanza), "", "{stanza}");
    let mut words = words(side);
    match words.pop() {
        Some(ChatRequest::Nodes(request)) if words.is_empty() => *request,
        other => panic!("{other:?} of {stanza}"),
    }
}

fn answers(side: &mut Side, number: u32, result: Result<NodesFound, NodesFault>) -> String {
    told(side, ChatDelivery::Nodes(Box::new(NodesAnswer { number, result })))
}

fn set(inner: &str) -> String {
    format!("<iq type='set' id='1'><pubsub xmlns='{PUBSUB}'>{inner}</pubsub></iq>")
}

fn get(inner: &str) -> String {
    format!("<iq type='get' id='1'><pubsub xmlns='{PUBSUB}'>{inner}</pubsub></iq>")
}

fn item(id: &str, payload: &str) -> NodeItem {
    NodeItem { id: id.into(), payload: payload.as_bytes().into() }
}

fn items(items: &[(&str, &str)]) -> Result<NodeItems, NodesFault> {
    let items: Vec<_> = items.iter().map(|(id, payload)| item(id, payload).into()).collect();
    Ok(NodeItems { total: items.len() as u32, items, index: 0 })
}

fn change(ask: NodesAsk) -> Vec<NodeChange> {
    match ask {
        NodesAsk::Change(changes) => changes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_publication_goes_to_the_service_whole_and_is_answered_by_its_id() {
    let mut side = available();
    let form = "<publish-options><x xmlns='jabber:x:data' type='submit'>\
        <field var='pubsub#access_model'><value>open</value></field>\
        <field var='pubsub#max_items'><value>max</value></field></x></publish-options>";
    let item = "<publish node='n&amp;'><item id='i'><x xmlns='urn:x'>&lt;</x></item></publish>";
    let asked = asks(&mut side, &set(&format!("{item}{form}")));
    assert_eq!(asked.of, None);
    let change = change(asked.ask).remove(0);
    assert_eq!((&*change.node, &*change.publish[0].id), ("n&", "i"));
    assert_eq!(&*change.publish[0].payload, b"<x xmlns='urn:x'>&lt;</x>");
    let options = change.options.expect("there are some");
    assert_eq!((options.access, options.items_max), (Some(NodeAccess::Open), Some(u32::MAX)));
    let answer = answers(&mut side, asked.number, Ok(NodesFound::Done(["i".into()].into())));
    assert!(answer.contains("<publish node='n&amp;'><item id='i'/></publish>"), "{answer}");
    // One without an id is given one, and no two the same.
    let item = set("<publish node='n'><item><x xmlns='urn:x'/></item></publish>");
    let ids = [0, 1].map(|_| {
        let asked = asks(&mut side, &item);
        answers(&mut side, asked.number, Ok(NodesFound::Done(Box::default())));
        self::change(asked.ask).remove(0).publish.remove(0).id
    });
    assert!(!ids[0].is_empty() && ids[0] != ids[1]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anybody_is_asked() {
    let mut side = available();
    let x = "<x xmlns='urn:x'/>";
    for (stanza, condition) in [
        (set("<publish node='n'/>"), "bad-request"),
        (set(&format!("<publish><item>{x}</item></publish>")), "bad-request"),
        (set(&format!("<publish node='n'><item>{x}{x}</item></publish>")), "bad-request"),
        (set("<publish node='n'><item><x/></item></publish>"), "bad-request"),
        (set("<retract node='n'/>"), "bad-request"),
        (set("<create/>"), "not-acceptable"),
        (set("<subscribe node='n' jid='bob@a.example'/>"), "bad-request"),
        (set("<other/>"), "feature-not-implemented"),
        (set(""), "bad-request"),
        (get("<items/>"), "bad-request"),
        (get("<items node='n' max_items='many'/>"), "bad-request"),
        (get("<items node='n'><item/></items>"), "bad-request"),
        (get("<affiliations/>"), "feature-not-implemented"),
        (get("<x/>").replace(PUBSUB, OWNER), "feature-not-implemented"),
        ("<iq type='set' id='1'><query xmlns='jabber:iq:private'><x/></query></iq>".into(),
            "not-acceptable"),
        ("<iq type='set' id='1'><vCard xmlns='vcard-temp'><PHOTO><BINVAL>?</BINVAL></PHOTO></vCard>\
          </iq>".into(), "bad-request"),
        ("<iq type='set' id='1' to='bob@a.example'><vCard xmlns='vcard-temp'/></iq>".into(),
            "forbidden"),
    ] {
        let answer = says(&mut side, &stanza);
        assert!(answer.contains(&format!("<{condition} ")), "{stanza}: {answer}");
        assert!(words(&mut side).is_empty(), "{stanza}");
    }
    let stanza = get("<items node='n'/>").replace("id=", "to='bob@b.example' id=");
    assert!(says(&mut side, &stanza).contains("type='error'"));
    assert!(words(&mut side).is_empty());
}

#[test]
fn faults_of_the_service_are_the_documents_conditions() {
    let mut side = available();
    for &fault in NodesFault::ALL {
        let stanza = get("<items node='n'/>").replace("id=", "to='bob@a.example' id=");
        let asked = asks(&mut side, &stanza);
        assert_eq!(asked.of.as_ref().map(|of| of.as_str()), Some("bob@a.example"));
        let answer = answers(&mut side, asked.number, Err(fault));
        let scan = Scan::element(answer.as_bytes()).expect("XML");
        assert_eq!(scan.root().attribute("from").as_deref(), Some("bob@a.example"));
        let own = match fault {
            NodesFault::OtherConfig => "precondition-not-met",
            NodesFault::NotSubscribed => "presence-subscription-required",
            NodesFault::NotInGroup => "not-in-roster-group",
            NodesFault::NotMember => "closed-node",
            NodesFault::TooLarge => "payload-too-big",
            NodesFault::NoSubscription => "not-subscribed",
            _ => "",
        };
        assert!(answer.contains(own), "{fault:?}: {answer}");
    }
    let unknown = |side: &mut Side, stanza: &str| {
        let asked = asks(side, stanza);
        answers(side, asked.number, Err(NodesFault::UnknownAccount))
    };
    let info = "<iq type='get' id='1' to='bob@a.example'>\
        <query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    assert!(unknown(&mut side, info).contains("service-unavailable"));
    let card = "<iq type='get' id='1' to='bob@a.example'><vCard xmlns='vcard-temp'/></iq>";
    assert!(unknown(&mut side, card).contains("item-not-found"));
}

#[test]
fn a_vcard_has_the_avatar_as_its_photo_and_sets_it() {
    let mut side = available();
    let asked = asks(&mut side, "<iq type='get' id='1'><vCard xmlns='vcard-temp'/></iq>");
    let id = "ce587dfc0d9f9dbf5e7b9dbd8eca2f1a0d2a2c11";
    let metadata = format!(
        "<metadata xmlns='urn:xmpp:avatar:metadata'><info id='{id}' bytes='3' type='image/png'/>\
        </metadata>"
    );
    let found = [
        items(&[("current", "<vCard xmlns='vcard-temp'><FN>Ann</FN></vCard>")]),
        items(&[(id, &metadata)]),
        items(&[(id, "<data xmlns='urn:xmpp:avatar:data'>cGlj</data>")]),
    ];
    let answer = answers(&mut side, asked.number, Ok(NodesFound::Items(found.into())));
    let photo = "<FN>Ann</FN><PHOTO><TYPE>image/png</TYPE><BINVAL>cGlj</BINVAL></PHOTO></vCard>";
    assert!(answer.contains(photo), "{answer}");
    let whole = "<iq type='set' id='2'><vCard xmlns='vcard-temp'><FN>Ann</FN><PHOTO>\
        <TYPE>image/png</TYPE><BINVAL>cG\nlj</BINVAL></PHOTO></vCard></iq>";
    let changes = change(asks(&mut side, whole).ask);
    let nodes: Vec<&str> = changes.iter().map(|change| &*change.node).collect();
    assert_eq!(nodes, ["vcard-temp", "urn:xmpp:avatar:data", "urn:xmpp:avatar:metadata"]);
    assert_eq!(&*changes[0].publish[0].payload, b"<vCard xmlns='vcard-temp'><FN>Ann</FN></vCard>");
    // SHA-1 of "pic".
    assert_eq!(&*changes[1].publish[0].id, "95c732d9dbf4789ca20ad584b185f7e1266811b8");
    assert_eq!(changes[2].badge.as_deref(), Some(&*changes[1].publish[0].id));
}

#[test]
fn bookmarks_are_the_same_in_both_forms() {
    let mut side = available();
    let old = |inner: &str| {
        format!(
            "<iq type='set' id='1'><query xmlns='jabber:iq:private'>\
            <storage xmlns='storage:bookmarks'>{inner}</storage></query></iq>"
        )
    };
    let stay = "<conference xmlns='urn:xmpp:bookmarks:1' name='Stay' autojoin='false'/>";
    let change = "<conference xmlns='urn:xmpp:bookmarks:1' name='Old'>\
        <extensions><e xmlns='urn:e'/></extensions></conference>";
    let wanted = "<conference jid='a@r.example' name='Stay'/>\
        <conference jid='b@r.example' name='New' autojoin='1'><nick>N</nick></conference>";
    let asked = asks(&mut side, &old(wanted));
    let found = [
        items(&[("a@r.example", stay), ("b@r.example", change), ("c@r.example", stay)]),
        Err(NodesFault::UnknownNode),
    ];
    let found = NodesFound::Items(found.into());
    assert_eq!(answers(&mut side, asked.number, Ok(found)), "", "it goes on");
    let Some(ChatRequest::Nodes(second)) = words(&mut side).pop() else { panic!("no second") };
    let changes = self::change(second.ask);
    assert_eq!(changes[0].retract, ["c@r.example".into()]);
    let published = &changes[0].publish;
    assert_eq!((published.len(), &*published[0].id), (1, "b@r.example"));
    let payload = String::from_utf8_lossy(&published[0].payload);
    assert_eq!(
        payload,
        "<conference xmlns='urn:xmpp:bookmarks:1' name='New' autojoin='true'><nick>N</nick>\
        <extensions><e xmlns='urn:e'/></extensions></conference>"
    );
    assert!(
        answers(&mut side, second.number, Ok(NodesFound::Done(Box::default())))
            .contains("type='result'")
    );
    // Rooms of gateways have names that no account has here; what cannot be shown stays.
    let asked = asks(&mut side, &old("<conference jid='#c%irc@g.example' name='Stay'/>"));
    let found = [items(&[("a@r.example", stay), ("no room", stay)]), Err(NodesFault::UnknownNode)];
    assert_eq!(answers(&mut side, asked.number, Ok(NodesFound::Items(found.into()))), "");
    let Some(ChatRequest::Nodes(second)) = words(&mut side).pop() else { panic!("no second") };
    let changes = self::change(second.ask);
    assert_eq!(changes[0].retract, ["a@r.example".into()]);
    assert_eq!(&*changes[0].publish[0].id, "#c%irc@g.example");
    answers(&mut side, second.number, Ok(NodesFound::Done(Box::default())));
    let asked = asks(&mut side, &old("").replace("'set'", "'get'"));
    let found = [items(&[("a@r.example", stay)]), Err(NodesFault::UnknownNode)];
    let answer = answers(&mut side, asked.number, Ok(NodesFound::Items(found.into())));
    let one = "<conference jid='a@r.example' name='Stay' autojoin='false'></conference>";
    assert!(answer.contains(one), "{answer}");
}

#[test]
fn what_happens_to_nodes_is_told_as_headlines() {
    let mut side = available();
    let node: Box<str> = "n".into();
    let events = [
        NodeEvent::Published(item("i", "<x xmlns='urn:x'/>").into()),
        NodeEvent::Named("i".into()),
        NodeEvent::Retracted("i".into()),
        NodeEvent::Purged,
        NodeEvent::Deleted,
    ];
    let inner = [
        "<items node='n'><item id='i'><x xmlns='urn:x'/></item></items>",
        "<items node='n'><item id='i'/></items>",
        "<items node='n'><retract id='i'/></items>",
        "<purge node='n'/>",
        "<delete node='n'/>",
    ];
    for (event, inner) in events.into_iter().zip(inner) {
        let news = NodeNews { from: address("bob"), node: node.clone(), events: [event].into() };
        let said = told(&mut side, ChatDelivery::NodeNews(Box::new(news)));
        assert!(said.contains("from='bob@a.example'") && said.contains("type='headline'"));
        assert!(said.contains(&format!("#event'>{inner}</event>")), "{said}");
    }
}

#[test]
fn a_device_is_asked_what_it_is_and_its_hash_is_held_against_that() {
    let mut side = bound();
    let ver = "QgayPKawpkPSDYmwT/WM94uAlu0=";
    says(
        &mut side,
        &format!(
            "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:x' \
            ver='{ver}'/><x xmlns='vcard-temp:x:update'><photo>forged</photo></x></presence>"
        ),
    );
    let all = side.take_words_as::<ChatRequest>();
    let profile = format!("urn:x#{ver}");
    let said = all.iter().find_map(|word| match word {
        ChatRequest::Profile(request) => Some(request.said.clone()),
        _ => None,
    });
    assert_eq!(said, Some(ProfileSaid::Has(profile.as_str().into())));
    let present = all.iter().find_map(|word| match word {
        ChatRequest::People(asked) => match &asked.ask {
            PeopleAsk::Present(Some(how)) => Some(how.clone()),
            _ => None,
        },
        _ => None,
    });
    let present = present.expect("it is there");
    assert!(!String::from_utf8_lossy(&present.extra).contains("forged"));
    assert_eq!(present.badge.as_deref(), Some(""));
    let question =
        told(&mut side, ChatDelivery::ProfileWanted { profile: profile.as_str().into() });
    assert!(question.contains(&format!("node='{profile}'")), "{question}");
    let answer = |features: &str| {
        format!(
            "<iq type='result' to='a.example' id='caps:{profile}'>\
            <query xmlns='http://jabber.org/protocol/disco#info' node='{profile}'>\
            <identity category='client' name='Exodus 0.9.1' type='pc'/>\
            <feature var='http://jabber.org/protocol/caps'/>\
            <feature var='http://jabber.org/protocol/disco#info'/>\
            <feature var='http://jabber.org/protocol/disco#items'/>\
            <feature var='http://jabber.org/protocol/muc'/>{features}</query></iq>"
        )
    };
    for (features, nodes, proved) in
        [("", Vec::new(), true), ("<feature var='n+notify'/>", vec!["n".into()], false)]
    {
        says(&mut side, &answer(features));
        let said = match words(&mut side).pop() {
            Some(ChatRequest::Profile(request)) => request.said,
            other => panic!("{other:?}"),
        };
        let interests = Some(nodes.into());
        let profile = profile.as_str().into();
        assert_eq!(said, ProfileSaid::Is { profile, interests, is_proved: proved });
    }
    says(&mut side, &answer("").replace("'result'", "'error'"));
    let Some(ChatRequest::Profile(request)) = words(&mut side).pop() else { panic!("nothing") };
    assert!(matches!(request.said, ProfileSaid::Is { interests: None, is_proved: false, .. }));
}

#[test]
fn the_avatar_goes_with_the_presence_of_others() {
    let mut side = available();
    let mut shown = |badge: Option<&str>| {
        let availability = Availability { badge: badge.map(Box::from), ..Availability::default() };
        told(
            &mut side,
            ChatDelivery::Presence(Box::new(Presence {
                from: address("bob"),
                device: Some("phone".into()),
                availability: Some(availability.into()),
            })),
        )
    };
    assert!(shown(Some("cafe")).contains("<photo>cafe</photo>"));
    assert!(shown(Some("")).contains("<x xmlns='vcard-temp:x:update'><photo/></x>"));
    assert!(!shown(None).contains("vcard-temp"));
}
