//! The rate of queries about other people and groups.

mod house;
#[path = "house/town.rs"]
mod town;

use chat::Settings;
use house::plain;
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::counters::ChatCounter;
use model::id::ShardId;
use model::limits::{ChatLimits, Limits};
use model::service::Service;
use std::sync::Arc;
use std::time::Duration;
use town::{Device, Told, Town};

const BURST: u32 = 3;

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn town() -> Town {
    let (reads_an_account_per_s, reads_an_account_burst) = (1, BURST);
    let chat =
        ChatLimits { reads_an_account_per_s, reads_an_account_burst, ..ChatLimits::default() };
    let limits = Arc::new(Limits { chat, ..Limits::default() });
    Town::of(2, |shard, shards| {
        let plain = plain::settings(ShardId(shard), shards);
        Settings { limits: limits.clone(), ..plain }
    })
}

/// Requests a vCard, which is such a query.
fn looks_at(town: &mut Town, by: Device, of: Option<&str>) -> Told {
    let (session, number) = (by.session, 7);
    let of = of.map(|of| Addressee::from(address(of)));
    let node: Box<str> = "vcard-temp".into();
    let wanted = ItemsWanted { space: NodeSpace::Kept, node, which: ItemsChosen::Last(9) };
    let ask = NodesAsk::Items([wanted].into());
    town.ask(by, ChatRequest::Nodes(Box::new(NodesRequest { session, number, of, ask })))
}

fn pings(town: &mut Town, by: Device, is_question: bool) -> Told {
    let handing = HandingTo {
        session: by.session,
        number: 8,
        to: Addressee::from(address("bob")),
        device: Some("desk".into()),
        xml: b"<iq/>".as_slice().into(),
        is_question,
        directed: None,
    };
    town.ask(by, ChatRequest::HandTo(Box::new(handing)))
}

fn lists_members(town: &mut Town, by: Device) -> Told {
    let group = Addressee::parse("g@conference.a.example").expect("right");
    let range = Box::new(MembersRange { group, version: 0, from: 0, count: 9, banned: false });
    town.ask(by, ChatRequest::Members { session: by.session, number: 9, range })
}

/// Whether the query was refused for its rate, whatever its result otherwise.
fn is_refused(told: &Told, by: Device) -> bool {
    let own = told.iter().filter(|(conn, _)| *conn == by.conn);
    let refused = own.map(|(_, delivery)| match delivery {
        ChatDelivery::Nodes(answer) => answer.result == Err(NodesFault::RateLimited),
        ChatDelivery::Failed { why, .. } => *why == ChatFault::RateLimited,
        _ => false,
    });
    let refused: Vec<bool> = refused.collect();
    assert_eq!(refused.len(), 1, "each is answered once: {told:?}");
    refused[0]
}

fn pass(town: &mut Town, seconds: u64) {
    for house in &mut town.0 {
        house.now.mono = house.now.mono + Duration::from_secs(seconds);
    }
}

#[test]
fn an_account_asks_about_others_as_fast_as_it_may_over_all_its_devices() {
    let mut town = town();
    let [desk, phone] = ["desk", "phone"].map(|device| town.device_of(address("ann"), device));
    let [bob, _] = ["bob", "carol"].map(|name| town.device_of(address(name), "desk"));
    for n in 0..BURST {
        let by = [desk, phone][n as usize % 2];
        let told = looks_at(&mut town, by, Some("bob"));
        assert!(!is_refused(&told, by), "{n}");
    }
    for by in [desk, phone] {
        let told = [
            looks_at(&mut town, by, Some("carol")),
            pings(&mut town, by, true),
            lists_members(&mut town, by),
        ];
        assert!(told.iter().all(|told| is_refused(told, by)), "{told:?}");
        // Queries of an account about itself have no rate, nor have its answers.
        let told = [
            looks_at(&mut town, by, None),
            looks_at(&mut town, by, Some("ann")),
            pings(&mut town, by, false),
        ];
        assert!(told.iter().all(|told| !is_refused(told, by)), "{told:?}");
    }
    let told = looks_at(&mut town, bob, Some("ann"));
    assert!(!is_refused(&told, bob), "nobody pays for another");
    let refused: u64 = town.0.iter().map(|it| it.fx.counters.of(ChatCounter::ReadsLimited)).sum();
    assert_eq!(refused, 6);
    pass(&mut town, 1);
    let told = [0, 1].map(|_| lists_members(&mut town, desk));
    assert_eq!(told.map(|told| is_refused(&told, desk)), [false, true]);
    town.0.iter().for_each(|house| house.chat.audit());
}
