//! A client and a server talk, over a link that splits and merges as the seed says; behind the
//! server is a broker that sends everything back to whom it came from.

use model::close::CloseReason;
use model::link::{Link, Protocol};
use model::service::{Delivery, Request};
use model::session::{
    AckStep, Connected, Denial, Denied, Outgoing, Routed, SessionDelivery as Down,
    SessionRequest as Up,
};
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use proto_mqtt::client::{Client, ClientOrder, Formula, MqttEvent, Profile, publication};
use proto_mqtt::codec::block::Block;
use proto_mqtt::codec::property::Property;
use proto_mqtt::codec::{ReasonCode, Version};
use proto_mqtt::server::{self, Server};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Pair, PairSide};

const SEEDS: u64 = 20;
const SESSION: model::id::SessionRef = model::id::SessionRef::from_bits(5);

type Conversation = Pair<Client, Server>;

/// Answers everything, and sends messages back.
#[derive(Default)]
struct Echo {
    next_id: u16,
    next_message: u64,
    /// Words of the end, as they came.
    ends: Vec<Up>,
    /// Steps of deliveries, as they came.
    steps: Vec<AckStep>,
}

impl Echo {
    fn hear(&mut self, word: Up) -> Vec<Down> {
        match word {
            Up::Connect(connect) => vec![Down::Connected(Box::new(Connected {
                session: SESSION,
                present: !connect.clean_start,
                assigned: None,
                keep_alive_s: connect.keep_alive_s,
                expiry_s: connect.expiry_s,
                receive_max: 10,
                response_information: None,
                method: None,
                is_bridge: false,
            }))],
            Up::Publish { id, message, .. } => {
                let qos = message.qos;
                let taken = Down::Taken { id, qos, result: Ok(Routed::Matched) };
                let back = Down::Publish(self.outgoing(message));
                if qos == Qos::AtMostOnce { vec![back] } else { vec![taken, back] }
            }
            Up::Release { id, .. } => vec![Down::Completed { id, unknown: false }],
            Up::Acked { id, step, .. } => {
                self.steps.push(step);
                let release = Down::Release { id, unknown: false };
                if step == AckStep::Pubrec(false) { vec![release] } else { Vec::new() }
            }
            Up::Subscribe(subscribe) => {
                let results = subscribe.wishes.iter().map(|wish| Ok(wish.qos)).collect();
                vec![Down::Subscribed { id: subscribe.id, results }]
            }
            Up::Unsubscribe(unsubscribe) => {
                let results = unsubscribe.filters.iter().map(|_| Ok(true)).collect();
                vec![Down::Unsubscribed { id: unsubscribe.id, results }]
            }
            other => {
                self.ends.push(other);
                Vec::new()
            }
        }
    }

    fn outgoing(&mut self, mut message: Arc<Publication>) -> Outgoing {
        self.next_message += 1;
        let own = Arc::get_mut(&mut message).expect("it is shared with nobody yet");
        own.id = self.next_message;
        let qos = message.qos;
        let id = if qos == Qos::AtMostOnce { 0 } else { self.next_id + 1 };
        self.next_id = self.next_id.max(id);
        let shared = self.next_message.is_multiple_of(2);
        let (again, retain, subscription_ids) = (false, false, None);
        Outgoing { message, id, qos, again, retain, shared, subscription_ids }
    }
}

/// Moves bytes and words until nobody has more to say.
fn talk(pair: &mut Conversation, echo: &mut Echo) {
    loop {
        pair.settle();
        let words = pair.b.take_words();
        if words.is_empty() {
            break;
        }
        for word in words {
            let Request::Topics(word) = word else { panic!("{word:?} is not the broker's") };
            for answer in echo.hear(word) {
                pair.tell_b(Delivery::Topics(answer));
            }
        }
    }
}

fn begin(version: Version, seed: u64, echo: &mut Echo) -> Conversation {
    let profile = Profile { alias_max: 4, ..Profile::new(version, Formula::new("c%i")) };
    let client = PairSide::new(Client::new(Arc::new(profile), 7), Link::loopback(Protocol::Mqtt));
    let server = Server::new(server::ListenerProfile::strict(5_000));
    let mut pair = Pair::new(client, PairSide::new(server, Link::loopback(Protocol::Mqtt)), seed);
    pair.open();
    talk(&mut pair, echo);
    let seen = pair.a.take_words();
    assert!(matches!(seen[..], [MqttEvent::Connected(_)]), "{version:?}: {seen:?}");
    assert_eq!((pair.b.homes.len(), pair.b.silence_ms), (1, 90_000));
    pair
}

fn messages() -> Vec<Arc<Publication>> {
    let block = Block::of(&[Property::ContentType("t"), Property::UserProperty(("a", "b"))]);
    let block = block.expect("short");
    let mut all = Vec::new();
    for length in [0, 1, 300, 3_000] {
        for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let mut message =
                publication(0, "some/topic", block.properties(), &vec![qos as u8; length]);
            message.qos = qos;
            all.push(Arc::new(message));
        }
    }
    all
}

#[test]
fn messages_of_every_size_and_qos_come_back_as_they_went() {
    for (version, seed) in Version::ALL.into_iter().flat_map(|v| (0..SEEDS).map(move |s| (v, s))) {
        let mut echo = Echo::default();
        let mut pair = begin(version, seed, &mut echo);
        let filter = "some/#".into();
        let (no_local, retain_as_published) = (false, false);
        let retain_handling = RetainHandling::Send;
        let qos = Qos::ExactlyOnce;
        let wish =
            SubscriptionOptions { filter, qos, no_local, retain_as_published, retain_handling };
        let properties = Block::default();
        pair.tell_a(ClientOrder::Subscribe { token: 1, wishes: vec![wish], properties });
        talk(&mut pair, &mut echo);
        let reasons = vec![ReasonCode::GrantedQos2];
        assert_eq!(pair.a.take_words(), [MqttEvent::Subscribed { token: 1, reasons }]);
        let sent = messages();
        for (token, message) in sent.iter().enumerate() {
            pair.tell_a(ClientOrder::Publish { token: token as u32, message: message.clone() });
        }
        talk(&mut pair, &mut echo);
        let seen = pair.a.take_words();
        let mut came: Vec<_> = seen
            .iter()
            .filter_map(|event| match event {
                MqttEvent::Message { message, .. } => Some(message.clone()),
                _ => None,
            })
            .collect();
        let published = |event: &&MqttEvent| {
            matches!(event, MqttEvent::Published { result: Ok(ReasonCode::Success), .. })
        };
        assert_eq!(seen.iter().filter(published).count(), sent.len(), "{version:?} {seed}");
        assert_eq!(came.len(), sent.len(), "{version:?} {seed}: once each");
        for message in &sent {
            let same = |other: &Arc<Publication>| {
                let properties =
                    version != Version::V5 || other.properties() == message.properties();
                (other.topic(), other.payload(), other.qos)
                    == (message.topic(), message.payload(), message.qos)
                    && properties
            };
            let at = came.iter().position(same).expect("it came back");
            came.remove(at);
        }
        assert_eq!(echo.steps.len(), 4 + 2 * 4, "one PUBACK, or PUBREC and PUBCOMP, each");
        let (reason, properties) = (ReasonCode::Success, Block::default());
        pair.tell_a(ClientOrder::Disconnect { reason, properties });
        talk(&mut pair, &mut echo);
        assert_eq!(pair.b.ended, Some(CloseReason::Unbound));
        let [Up::Leave { with_will: false, .. }, Up::Closed { .. }] = echo.ends[..] else {
            panic!("{:?}", echo.ends)
        };
    }
}

#[test]
fn a_client_that_is_alive_is_not_silent_and_one_that_is_taken_over_hears_why() {
    for version in Version::ALL {
        let mut echo = Echo::default();
        let mut pair = begin(version, 1, &mut echo);
        for _ in 0..40 {
            pair.pass(Duration::from_secs(10));
            talk(&mut pair, &mut echo);
        }
        assert_eq!((pair.a.ended, pair.b.ended), (None, None), "it pings");
        pair.a.take_words();
        let denied = Denied::of(Denial::TakenOver, CloseReason::Replaced);
        pair.tell_b(Delivery::Topics(Down::End(Box::new(denied))));
        pair.settle();
        assert_eq!(pair.b.ended, Some(CloseReason::Replaced));
        let told = pair.a.take_words().into_iter().any(|event| {
            matches!(event, MqttEvent::Disconnected(farewell)
                if farewell.reason == ReasonCode::SessionTakenOver)
        });
        assert_eq!(told, version == Version::V5);
    }
}
