//! Stanzas of devices to devices of local accounts: their receivers, the answers to their senders,
//! and notices that a device is gone; on one shard, and on two.

mod house;
#[path = "house/town.rs"]
mod town;

use chat::Settings;
use house::plain;
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::close::CloseReason;
use model::id::{ConnRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::service::Service;
use std::sync::Arc;
use town::{Device, Told, Town};

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn settings(shard: u16, shards: u16) -> Settings {
    let chat = ChatLimits { directed_a_session_max: 2, ..ChatLimits::default() };
    let limits = Arc::new(Limits { chat, ..Limits::default() });
    Settings { limits, ..plain::settings(ShardId(shard), shards) }
}

impl Town {
    fn new(shards: u16) -> Town {
        Town::of(shards, settings)
    }

    fn device(&mut self, name: &str, resource: &str) -> Device {
        self.device_of(address(name), resource)
    }

    fn hands(&mut self, by: Device, to: (&str, Option<&str>), xml: &str) -> Told {
        self.hands_directed(by, to, (xml, None))
    }

    fn hands_directed(
        &mut self,
        by: Device,
        (to, device): (&str, Option<&str>),
        (xml, directed): (&str, Option<DirectedPresence>),
    ) -> Told {
        let handing = HandingTo {
            session: by.session,
            number: 5,
            to: Addressee::from(address(to)),
            device: device.map(Box::from),
            xml: xml.as_bytes().into(),
            is_question: xml.starts_with("<iq"),
            directed,
        };
        self.ask(by, ChatRequest::HandTo(Box::new(handing)))
    }
}

/// The stanzas that devices got, and the answers to their senders.
fn seen(told: &Told) -> Vec<(ConnRef, String)> {
    let text = |delivery: &ChatDelivery| match delivery {
        ChatDelivery::Stanza(xml) => String::from_utf8(xml.to_vec()).expect("UTF-8"),
        ChatDelivery::Done { number: 5 } => "done".into(),
        ChatDelivery::Failed { number: 5, why } => format!("{why:?}"),
        other => format!("{other:?}"),
    };
    let mut seen: Vec<_> = told.iter().map(|(conn, it)| (*conn, text(it))).collect();
    seen.sort_by_key(|(conn, _)| conn.bits());
    seen
}

/// Towns with Ann and an account of each shard.
fn towns() -> impl Iterator<Item = (Town, Device, Vec<&'static str>)> {
    [1, 2].into_iter().map(|shards| {
        let mut town = Town::new(shards);
        let ann = town.device("ann", "desk");
        (town, ann, vec!["bob", "carol", "dave", "eve"])
    })
}

#[test]
fn a_stanza_reaches_the_device_that_it_is_for_or_all_that_are_there() {
    for (mut town, ann, others) in towns() {
        let mut shards = std::collections::BTreeSet::new();
        let count = town.0.len();
        for name in others {
            let [desk, phone] = ["desk", "phone"].map(|device| town.device(name, device));
            shards.insert(desk.shard);
            let sorted = |mut it: Vec<(ConnRef, String)>| {
                it.sort_by_key(|(conn, _)| conn.bits());
                it
            };
            let one = town.hands(ann, (name, Some("phone")), "<iq/>");
            let expected = vec![(ann.conn, "done".into()), (phone.conn, "<iq/>".into())];
            assert_eq!(seen(&one), sorted(expected), "{name}");
            let all = town.hands(ann, (name, None), "<message/>");
            let both = [desk, phone].map(|it| (it.conn, "<message/>".to_owned()));
            let mut expected = both.to_vec();
            expected.push((ann.conn, "done".into()));
            assert_eq!(seen(&all), sorted(expected), "{name}");
            for device in [Some("tablet"), Some("")] {
                let told = town.hands(ann, (name, device), "<iq/>");
                assert_eq!(seen(&told), [(ann.conn, "UnknownAccount".into())]);
            }
        }
        assert_eq!(shards.len(), count, "each shard has somebody");
        let told = town.hands(ann, ("nobody", Some("desk")), "<iq/>");
        assert_eq!(seen(&told), [(ann.conn, "UnknownAccount".into())]);
    }
}

#[test]
fn a_message_for_all_devices_waits_for_presences_that_came_before_it() {
    for (mut town, ann, others) in towns() {
        for name in others {
            let desk = town.device(name, "desk");
            town.people(desk, PeopleAsk::Present(None));
            // The log has not answered yet when the device is available and the message comes.
            let wish = ContactWish {
                contact: Addressee::from(address("ann")),
                order: ContactOrder::Set { name: "Ann".into(), groups: Box::default() },
            };
            let asks = [PeopleAsk::Wish(Box::new(wish)), PeopleAsk::Present(Some(Box::default()))];
            for ask in asks {
                let asked = PeopleRequest { session: desk.session, number: 9, ask };
                let request = ChatRequest::People(Box::new(asked));
                let house = &mut town.0[desk.shard];
                Service::request(&mut house.chat, house.now, desk.conn, request, &mut house.fx);
            }
            let told = town.hands(ann, (name, None), "<message/>");
            let stanzas = told.iter().filter_map(|(conn, it)| match it {
                ChatDelivery::Stanza(xml) => Some((*conn, &**xml)),
                _ => None,
            });
            let expected = [(desk.conn, b"<message/>".as_slice())];
            assert_eq!(stanzas.collect::<Vec<_>>(), expected, "{name}");
        }
    }
}

#[test]
fn whether_a_device_is_there_can_be_asked_and_it_is_told_nothing() {
    for (mut town, ann, others) in towns() {
        for name in others {
            town.device(name, "phone");
            let told = town.hands(ann, (name, Some("phone")), "");
            assert_eq!(seen(&told), [(ann.conn, "done".into())], "{name}");
            let told = town.hands(ann, (name, Some("tablet")), "");
            assert_eq!(seen(&told), [(ann.conn, "UnknownAccount".into())], "{name}");
        }
    }
}

#[test]
fn neither_who_blocks_nor_who_is_blocked_is_reached() {
    for (mut town, ann, others) in towns() {
        for name in others {
            let other = town.device(name, "desk");
            let block = |whom: &str| {
                let contact = Addressee::from(address(whom));
                PeopleAsk::Wish(Box::new(ContactWish { contact, order: ContactOrder::Block }))
            };
            town.people(ann, block(name));
            let told = town.hands(ann, (name, Some("desk")), "<iq/>");
            assert_eq!(seen(&told), [(ann.conn, "Blocked".into())]);
            let told = town.hands(other, ("ann", Some("desk")), "<iq/>");
            assert_eq!(seen(&told), [(other.conn, "UnknownAccount".into())]);
        }
    }
}

#[test]
fn whoever_was_told_in_particular_is_told_that_the_device_is_gone() {
    for (mut town, ann, others) in towns() {
        let all: Vec<Device> = others.iter().map(|name| town.device(name, "desk")).collect();
        let bye = |name: &str| DirectedPresence::There(format!("<bye {name}/>").as_bytes().into());
        let says = |town: &mut Town, name, directed| {
            let told = town.hands_directed(ann, (name, Some("desk")), ("<here/>", Some(directed)));
            let shown = seen(&told).into_iter().filter(|(conn, _)| *conn != ann.conn);
            shown.map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(says(&mut town, "bob", bye("bob")), ["<here/>"]);
        assert_eq!(says(&mut town, "carol", bye("carol")), ["<here/>"]);
        // Beyond the limit the oldest receiver learns that the device is gone.
        let mut told = says(&mut town, "dave", bye("dave"));
        told.sort();
        assert_eq!(told, ["<bye bob/>", "<here/>"]);
        assert_eq!(says(&mut town, "carol", DirectedPresence::Gone), ["<here/>"]);
        let told = town.people(ann, PeopleAsk::Present(None));
        let shown: Vec<_> = seen(&told).into_iter().filter(|it| it.1.starts_with("<bye")).collect();
        assert_eq!(shown, [(all[2].conn, "<bye dave/>".to_owned())]);
        says(&mut town, "eve", bye("eve"));
        let (session, reason) = (ann.session, CloseReason::PeerClosed);
        let told = town.ask(ann, ChatRequest::Closed { session, reason });
        assert_eq!(seen(&told), [(all[3].conn, "<bye eve/>".to_owned())]);
    }
}

fn of_priority(priority: i8) -> PeopleAsk {
    PeopleAsk::Present(Some(Box::new(Availability { priority, ..Availability::default() })))
}

#[test]
fn a_message_for_the_account_reaches_no_device_of_negative_priority_and_presence_does() {
    for (mut town, ann, others) in towns() {
        for name in others {
            let [desk, phone] = ["desk", "phone"].map(|device| town.device(name, device));
            town.people(phone, of_priority(-1));
            let shown = |town: &mut Town, to, xml: &str| {
                let told = town.hands(ann, to, xml);
                let all = seen(&told).into_iter().filter(|(_, text)| text == xml);
                all.map(|(conn, _)| conn).collect::<Vec<_>>()
            };
            assert_eq!(shown(&mut town, (name, None), "<message/>"), [desk.conn], "{name}");
            assert_eq!(shown(&mut town, (name, None), "<presence/>").len(), 2);
            assert_eq!(shown(&mut town, (name, Some("phone")), "<message/>"), [phone.conn]);
        }
    }
}

/// Ann's device sends a message that names a device; returns the devices that get it, and by which
/// delivery.
fn given(town: &mut Town, by: Device, (to, extra): (&str, &str)) -> Vec<(ConnRef, &'static str)> {
    let content =
        Content { kind: Content::STANZA, extra: extra.as_bytes().into(), ..Content::text("x") };
    let id = ClientMessageId(std::array::from_fn(|at| (at + extra.len()) as u8));
    let (to, client_id) = (Addressee::from(address(to)), id);
    let message = Box::new(NewMessage { to, client_id, content });
    let told = town.ask(by, ChatRequest::Send { session: by.session, number: 7, message });
    let word = |delivery: &ChatDelivery| match delivery {
        ChatDelivery::Message { .. } => Some("message"),
        ChatDelivery::ForDevice(..) => Some("for the device"),
        _ => None,
    };
    told.iter().filter_map(|(conn, it)| Some((*conn, word(it)?))).collect()
}

#[test]
fn a_message_that_names_a_device_of_negative_priority_is_given_to_it() {
    for (mut town, ann, others) in towns() {
        for name in others {
            let phone = town.device(name, "phone");
            town.people(phone, of_priority(-1));
            let named = |town: &mut Town, extra| {
                let all = given(town, ann, (name, extra)).into_iter();
                all.filter(|(_, word)| *word == "for the device").collect::<Vec<_>>()
            };
            let to_phone = "<message id=\"1\" to='phone' type=\"chat\"></message>";
            assert_eq!(named(&mut town, to_phone), [(phone.conn, "for the device")], "{name}");
            let unnamed = "<message to='phone'></message>";
            assert_eq!(named(&mut town, unnamed).len(), 1);
            for other in ["<message id=\"1\" to='desk'></message>", "<message id=\"12\"></message>"]
            {
                assert_eq!(named(&mut town, other), [], "{other}");
            }
            town.people(phone, of_priority(0));
            let again = "<message id=\"again\" to='phone'></message>";
            assert_eq!(named(&mut town, again), [], "it follows its inbox");
        }
    }
}

#[test]
fn what_an_account_says_to_itself_comes_to_the_device_that_says_it_too() {
    for (mut town, ann, _) in towns() {
        let phone = town.device("ann", "phone");
        let mut heard = given(&mut town, ann, ("ann", "<message id=\"1\"></message>"));
        heard.sort_by_key(|(conn, _)| conn.bits());
        assert_eq!(heard, [(ann.conn, "message"), (phone.conn, "message")]);
    }
}

#[test]
fn a_wish_to_see_somebody_whom_there_is_not_is_taken_as_one_to_somebody_who_does_not_answer() {
    for (mut town, ann, _) in towns() {
        town.device("bob", "desk");
        let wish = |name: &str, order: ContactOrder| {
            let contact = Addressee::from(address(name));
            PeopleAsk::Wish(Box::new(ContactWish { contact, order }))
        };
        for verb in [SubscriptionVerb::Subscribe, SubscriptionVerb::Subscribed] {
            let heard = |town: &mut Town, name: &str| {
                let told = town.people(ann, wish(name, ContactOrder::Say(verb, "hi".into())));
                let own = told.into_iter().filter(|(conn, _)| *conn == ann.conn);
                let text = own.map(|(_, it)| format!("{it:?}").replace(name, "NAME"));
                let text = text.collect::<Vec<_>>().join("; ");
                let (before, rest) = text.split_once("version: ").expect("the list changes");
                let rest = rest.trim_start_matches(|it: char| it.is_ascii_digit());
                format!("{before}{rest}")
            };
            assert_eq!(heard(&mut town, "bob"), heard(&mut town, "nix"), "{verb:?}");
        }
        // A later account of the name is not affected by earlier messages.
        let nix = town.device("nix", "desk");
        let told = town
            .people(ann, wish("nix", ContactOrder::Say(SubscriptionVerb::Subscribe, "".into())));
        let asks = |change: &ContactChange| change.said == Some(SubscriptionVerb::Subscribe);
        let is_asked =
            |it: &ChatDelivery| matches!(it, ChatDelivery::Contact(change) if asks(change));
        assert!(told.iter().any(|(conn, it)| *conn == nix.conn && is_asked(it)), "{told:?}");
    }
}
