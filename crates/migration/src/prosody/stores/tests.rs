//! Folders of hosts as Prosody writes them.

use super::*;

/// Receiver that keeps its items.
#[derive(Default)]
struct Kept {
    host: String,
    items: Vec<(String, MovedWhat)>,
    left: Vec<(String, String)>,
}

impl Taking for Kept {
    fn host(&mut self, host: &str) {
        self.host = host.into();
    }

    fn take(&mut self, item: MovedItem) -> Result<(), String> {
        self.items.push((item.owner, item.what));
        Ok(())
    }

    fn leave(&mut self, place: String, why: String) {
        let place = place.rsplit('/').next().unwrap_or_default().to_owned();
        self.left.push((place, why));
    }
}

/// Items found in a folder of hosts with these files.
fn found(files: &[(&str, &str)]) -> Kept {
    let folder = tempfile::tempdir().expect("a folder");
    let host = folder.path().join("a%2eexample");
    std::fs::create_dir_all(host.join("accounts")).expect("made");
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("it has one")).expect("made");
        std::fs::write(file, text).expect("written");
    }
    let mut kept = Kept::default();
    walk(&host, &mut kept).expect("a host");
    assert_eq!(kept.host, "a.example");
    kept
}

#[test]
fn a_roster_and_a_block_list_are_read_item_by_item() {
    let kept = found(&[
        (
            "a%2eexample/roster/ann.dat",
            "return {\n\t[false] = { [\"version\"] = 3; [\"pending\"] = {} };\n\
             \t[\"bob@a.example\"] = { [\"subscription\"] = \"both\"; [\"name\"] = \"B\";\n\
             \t\t[\"groups\"] = { [\"Friends\"] = true; [\"Old\"] = false } };\n\
             \t[\"carl@b.example\"] = { subscription = \"none\", ask = \"subscribe\", \
             groups = {} };\n\
             \t[\"dave@b.example\"] = { subscription = \"to\", approved = true };\n};\n",
        ),
        (
            "a%2eexample/blocklist/ann.dat",
            "return { [false] = { created = 1 }; [\"mallory@b.example\"] = true;\n\
             \t[\"spam.example\"] = true };\n",
        ),
    ]);
    let contact = |jid: &str, sees, is_seen, asks| MovedContact {
        jid: jid.into(),
        sees,
        is_seen,
        asks,
        ..MovedContact::default()
    };
    let bob = MovedContact {
        name: "B".into(),
        groups: vec!["Friends".into()],
        ..contact("bob@a.example", true, true, false)
    };
    let of = |what| ("ann".to_owned(), what);
    assert_eq!(
        kept.items,
        [
            of(MovedWhat::Contact(bob)),
            of(MovedWhat::Contact(contact("carl@b.example", false, false, true))),
            of(MovedWhat::Contact(contact("dave@b.example", true, true, false))),
            of(MovedWhat::Blocked("mallory@b.example".into())),
            of(MovedWhat::Blocked("spam.example".into())),
        ]
    );
    assert_eq!(kept.left, []);
}

#[test]
fn messages_come_with_their_times_and_what_is_none_is_told() {
    let kept = found(&[(
        "a%2eexample/archive/ann.list",
        "item({\n\t[\"key\"] = \"x\";\n\t[\"when\"] = 1700000000.25;\n\t[\"name\"] = \
         \"message\";\n\t[\"attr\"] = { [\"to\"] = \"bob@a.example\"; [\"stamp\"] = \"s\"; \
         [\"http://www.w3.org/XML/1998/namespace\\1lang\"] = \"en\" };\n\t{ name = \"body\"; \
         attr = {}; \"a < b\" };\n\t{ name = \"x\"; attr = { xmlns = \"other\" }; { name = \"y\"; \
         attr = {} } };\n});\n\
         item({ name = \"message\"; attr = { stamp = \"2023-11-14T22:13:20Z\" } });\n\
         item({ name = \"message\"; attr = {} });\n\
         item({ name = \"iq\"; attr = {} });\n\
         item({ name = \"a b\" });\n",
    )]);
    let messages: Vec<_> = kept
        .items
        .iter()
        .map(|(owner, what)| match what {
            MovedWhat::Message(it) => (&**owner, it.at.clone(), it.stanza.write()),
            what => panic!("{what:?}"),
        })
        .collect();
    let first = "<message xmlns='jabber:client' to='bob@a.example' xml:lang='en'>\
                 <body>a &lt; b</body><x xmlns='other'><y/></x></message>";
    assert_eq!(
        messages,
        [
            ("ann", MovedTime::UnixMs(1_700_000_000_250), first.into()),
            (
                "ann",
                MovedTime::Stamp("2023-11-14T22:13:20Z".into()),
                "<message xmlns='jabber:client'/>".into()
            ),
        ]
    );
    let left: Vec<_> = kept.left.iter().map(|(place, why)| (&**place, &**why)).collect();
    assert_eq!(
        left,
        [
            ("ann.list: item 3", "it has no timestamp"),
            ("ann.list: item 4", "a stanza `iq`, not a message"),
            ("ann.list: item 5", "not a stanza"),
        ]
    );
}

#[test]
fn nodes_have_their_items_and_how_they_are() {
    let kept = found(&[
        (
            "a%2eexample/pep/ann.dat",
            "return { [\"urn:x\"] = { name = \"urn:x\"; config = { access_model = \"open\"; \
             max_items = 7 } } };",
        ),
        (
            "a%2eexample/pep_urn%3ax/ann.list",
            "item({ key = \"k\"; name = \"item\"; attr = { id = \"i\"; xmlns = \
             \"http://jabber.org/protocol/pubsub\" }; { name = \"x\"; attr = { xmlns = \"urn:x\" } \
             } });\nitem({ key = \"e\"; name = \"item\"; attr = {} });\n",
        ),
        (
            "a%2eexample/vcard/ann.dat",
            "return { name = \"vCard\"; attr = { xmlns = \
             \"vcard-temp\" }; { name = \"FN\"; attr = {}; \"Ann\" } };",
        ),
        ("a%2eexample/vcard/bob.dat", "return { };"),
        (
            "a%2eexample/private/ann.dat",
            "return { [\"k:urn:y\"] = { name = \"k\"; attr = { xmlns \
             = \"urn:y\" } }; [\"bent\"] = 7 };",
        ),
    ]);
    let written: Vec<_> = kept
        .items
        .iter()
        .map(|(_, what)| match what {
            MovedWhat::VCard(it) | MovedWhat::Private(it) => it.write(),
            MovedWhat::Node(node) => {
                let items = node.items.iter().map(|(id, it)| format!("{id} {}", it.write()));
                let items: Vec<_> = items.collect();
                format!("{} {:?} {:?} {items:?}", node.node, node.access, node.items_max)
            }
            what => panic!("{what:?}"),
        })
        .collect();
    assert_eq!(
        written,
        [
            "<vCard xmlns='vcard-temp'><FN>Ann</FN></vCard>",
            "<k xmlns='urn:y'/>",
            "urn:x Some(\"open\") Some(\"7\") [\"i <x xmlns='urn:x'/>\"]",
        ]
    );
    assert_eq!(kept.left.len(), 3, "{:?}", kept.left);
}

#[test]
fn rooms_of_services_below_the_host_come_with_who_is_in_them() {
    let kept = found(&[
        (
            "rooms%2ea%2eexample/config/lunch.dat",
            "return { [\"ann@a.example\"] = \"owner\"; [\"bob@a.example\"] = \"member\"; _jid = \
             \"lunch@rooms.a.example\"; _data = { name = \"Lunch\"; moderated = true; \
             description = \"At noon\"; members_only = true; hidden = \
             true; password = \"\" }; \
             _affiliation_data = {} };",
        ),
        (
            "rooms%2ea%2eexample/config/old.dat",
            "return { jid = \"old@rooms.a.example\"; _data = {}; _affiliations = { \
             [\"ann@a.example\"] = \"owner\" } };",
        ),
        (
            "rooms%2ea%2eexample/config/shut.dat",
            "return { _data = { password = \"sesame\" }; [\"ann@a.example\"] = \"owner\" };",
        ),
        ("rooms%2eb%2eexample/config/other.dat", "return { _data = {} };"),
        ("sub%2ea%2eexample/accounts/eve.dat", "return {};"),
        ("sub%2ea%2eexample/config/none.dat", "return { _data = {} };"),
    ]);
    let owner = || ("ann@a.example".to_owned(), "owner".to_owned());
    let lunch = MovedRoom {
        title: "Lunch".into(),
        description: "At noon".into(),
        is_moderated: true,
        affiliations: vec![owner(), ("bob@a.example".into(), "member".into())],
        ..MovedRoom::default()
    };
    let own = MovedRoom { is_public: true, affiliations: vec![owner()], ..MovedRoom::default() };
    let old = MovedRoom { is_open: true, ..own.clone() };
    let shut = MovedRoom { password: "sesame".into(), is_open: true, ..own };
    assert_eq!(
        kept.items,
        [
            ("lunch@rooms.a.example".into(), MovedWhat::Room(lunch)),
            ("old@rooms.a.example".into(), MovedWhat::Room(old)),
            ("shut@rooms.a.example".into(), MovedWhat::Room(shut)),
        ]
    );
}

#[test]
fn files_that_are_bent_are_told_and_hide_no_others() {
    let kept = found(&[
        ("a%2eexample/roster/ann.dat", "return os.exit()"),
        ("a%2eexample/roster/b%2.dat", "return {}"),
        ("a%2eexample/roster/carl.dat", "return { [\"x@y\"] = { subscription = \"to\" } }"),
        ("a%2eexample/archive/%zz.list", "item({})"),
    ]);
    assert_eq!((kept.items.len(), kept.left.len()), (1, 3), "{:?}", kept.left);
}
