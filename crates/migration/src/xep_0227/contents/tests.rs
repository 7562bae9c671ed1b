//! Files of XEP-0227 with more than accounts.

use super::*;

/// Receiver that keeps its items, as text.
#[derive(Default)]
struct Kept {
    items: Vec<String>,
    left: Vec<String>,
}

impl Taking for Kept {
    fn host(&mut self, host: &str) {
        self.items.push(format!("host {host}"));
    }

    fn take(&mut self, item: MovedItem) -> Result<(), String> {
        let what = match item.what {
            MovedWhat::VCard(it) | MovedWhat::Private(it) => it.write(),
            MovedWhat::Message(it) => {
                format!("{:?} {:?} {} {}", it.at, it.id, it.is_waiting, it.stanza.write())
            }
            MovedWhat::Node(node) => {
                let items = node.items.iter().map(|(id, it)| format!(" {id}={}", it.write()));
                let items: String = items.collect();
                format!("{} {:?} {:?}{items}", node.node, node.access, node.items_max)
            }
            what => format!("{what:?}"),
        };
        self.items.push(format!("{}: {what}", item.owner));
        Ok(())
    }

    fn leave(&mut self, place: String, why: String) {
        self.left.push(format!("{place}: {why}"));
    }
}

fn walked(users: &str) -> Result<Kept, String> {
    let file = format!(
        "<server-data xmlns='urn:xmpp:pie:0'><host jid='a.example'>{users}</host></server-data>"
    );
    let mut kept = Kept::default();
    walk(vec![("f".into(), file.as_bytes())], None, &mut kept).map(|()| kept)
}

#[test]
fn everything_of_a_user_comes_as_it_stands_there() {
    let kept = walked(
        "<user name='ann' password='x'>\
         <query xmlns='jabber:iq:roster'><item jid='b@c' name='B&amp;' subscription='from' \
         ask='subscribe'><group>G&#65;</group></item></query>\
         <vCard xmlns='vcard-temp'><FN><![CDATA[<Ann>]]></FN></vCard>\
         <query xmlns='jabber:iq:private'><k xmlns='urn:k'/><l xmlns='urn:l'/></query>\
         <q:blocklist xmlns:q='urn:xmpp:blocking'><q:item jid='m@c'/></q:blocklist>\
         <pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><configure node='n'>\
         <x xmlns='jabber:x:data'><field var='pubsub#access_model'><value>open</value></field>\
         </x></configure></pubsub>\
         <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'><item id='1'>\
         <p xmlns='urn:p'/></item></items></pubsub>\
         <archive xmlns='urn:xmpp:pie:0#mam'><result xmlns='urn:xmpp:mam:2' id='9'><forwarded \
         xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='T'/><message \
         xmlns='jabber:client' to='b@c'><body>hi</body></message></forwarded></result>\
         <result xmlns='urn:xmpp:mam:2'/></archive>\
         <offline-messages><message xmlns='jabber:client' from='b@c'><delay \
         xmlns='urn:xmpp:delay' stamp='U'/></message></offline-messages>\
         <other xmlns='urn:o'><query xmlns='jabber:iq:roster'><item jid='no@c'/></query></other>\
         </user>",
    );
    let kept = kept.expect("a file");
    let contact = MovedContact {
        jid: "b@c".into(),
        name: "B&".into(),
        groups: vec!["GA".into()],
        sees: false,
        is_seen: true,
        asks: true,
    };
    assert_eq!(
        kept.items,
        [
            "host a.example".to_owned(),
            format!("ann: {:?}", MovedWhat::Contact(contact)),
            "ann: <vCard xmlns='vcard-temp'><FN>&lt;Ann&gt;</FN></vCard>".into(),
            "ann: <k xmlns='urn:k'/>".into(),
            "ann: <l xmlns='urn:l'/>".into(),
            "ann: Blocked(\"m@c\")".into(),
            "ann: Stamp(\"T\") Some(\"9\") false <message xmlns='jabber:client' to='b@c'>\
             <body>hi</body></message>"
                .into(),
            "ann: Stamp(\"U\") None true <message xmlns='jabber:client' from='b@c'><delay \
             xmlns='urn:xmpp:delay' stamp='U'/></message>"
                .into(),
            "ann: n Some(\"open\") None 1=<p xmlns='urn:p'/>".into(),
        ]
    );
    assert_eq!(kept.left, ["f:1: ann: not a message with a timestamp"]);
}

#[test]
fn who_is_denied_by_the_list_of_privacy_in_force_is_blocked() {
    let kept = walked(
        "<user name='ann'><query xmlns='jabber:iq:privacy'><default name='l'/><list name='other'>\
         <item type='jid' value='no@c' action='deny'/></list><list name='l'><item type='jid' \
         value='m@c' action='deny'/><item type='jid' value='ok@c' action='allow'/><item \
         action='deny'/></list></query></user>",
    );
    assert_eq!(kept.expect("a file").items[1..], ["ann: Blocked(\"m@c\")"]);
}

#[test]
fn a_part_that_is_too_large_is_told_and_the_next_is_read() {
    let long = "x".repeat(1 << 20);
    let texts: String = (0..40).map(|_| format!("<FN>{long}</FN>")).collect();
    let kept = walked(&format!(
        "<user name='ann'><vCard xmlns='vcard-temp'>{texts}</vCard></user><user name='bob'>\
         <vCard xmlns='vcard-temp'/></user>"
    ));
    let kept = kept.expect("a file");
    assert_eq!(kept.items[1..], ["bob: <vCard xmlns='vcard-temp'/>"]);
    assert!(kept.left[0].contains("`vCard` has more than"), "{:?}", kept.left);
}

#[test]
fn a_file_that_ends_too_early_or_means_more_than_it_says_is_refused() {
    let deep = "<a>".repeat(DEPTH_MAX + 1);
    for (users, why) in [
        ("<user name='ann'><vCard xmlns='vcard-temp'>", "ill-formed"),
        ("<user name='ann'><vCard xmlns='vcard-temp'>&lol;</vCard></user>", "undefined reference"),
        (&*format!("<user name='ann'><vCard xmlns='vcard-temp'>{deep}"), "nested elements"),
    ] {
        assert!(walked(users).is_err_and(|told| told.contains(why)), "{users}");
    }
    let mut kept = Kept::default();
    let file = b"<!DOCTYPE x><server-data xmlns='urn:xmpp:pie:0'/>";
    assert!(walk(vec![("f".into(), &file[..])], None, &mut kept).is_err());
    let file = b"<server-data xmlns='urn:xmpp:pie:0'><host jid='b'><user name='a'/></host>\
                 </server-data>";
    let walked = walk(vec![("f".into(), &file[..])], Some("c"), &mut kept);
    assert!(walked.is_err_and(|told| told.contains("the file has b")));
}
