//! Upload permissions: limits, and the daily quota, which survives a crash.

mod house;

use base::time::Now;
use chat::{ChatService, Effects, Settings};
use house::{House, plain};
use model::account::AccountAddress;
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{Limits, MediaLimits};
use model::media::{UploadSlot, UploadWish};
use model::ports::log::StoreError;
use model::ports::media::MediaStorage;
use model::service::Service;
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;

/// A storage whose URLs say what they were made of.
struct Told;

impl MediaStorage for Told {
    fn slot(&self, now_s: u64, account: u64, wish: &UploadWish) -> UploadSlot {
        UploadSlot {
            put_url: format!("put {} {}", wish.name, wish.bytes).into(),
            headers: vec![("Content-Type".into(), wish.media_type().into())],
            get_url: format!("get {account:x}").into(),
            put_until_s: now_s + 1,
            get_until_s: now_s + 2,
        }
    }
}

type Device = (ConnRef, SessionRef);

fn settings(storage: bool) -> Settings {
    let limits = Arc::new(Limits { media: few(), ..Limits::default() });
    let media = storage.then(|| Arc::new(Told) as Arc<dyn MediaStorage>);
    Settings { limits, media, ..plain::settings(ShardId(0), 1) }
}

fn few() -> MediaLimits {
    MediaLimits {
        file_bytes_max: 1_000,
        types: vec!["image/*".into()],
        files_a_day_max: 3,
        bytes_a_day_max: 1_500,
        ..MediaLimits::default()
    }
}

fn picture(bytes: u64) -> UploadWish {
    UploadWish { name: "cat.png".into(), media_type: "image/png".into(), bytes }
}

impl House {
    fn new(storage: bool) -> House {
        House::of(settings(storage))
    }

    /// Kills the process, and starts it again on its log.
    fn crash(&mut self) {
        (self.chat, self.fx) = (ChatService::new(settings(true)), Effects::default());
    }

    fn login(&mut self, name: &str) -> Device {
        let conn = self.conn(ShardId(0));
        let account = AccountAddress::parse(name, "a.example").expect("right");
        let login = plain::login(account, &format!("phone {}", conn.key().slot));
        match self.ask(conn, ChatRequest::Login(Box::new(login))).pop() {
            Some((_, ChatDelivery::LoggedIn(told))) => (conn, told.session),
            other => panic!("{other:?}"),
        }
    }

    fn upload(&mut self, (conn, session): Device, wish: UploadWish) -> Result<String, ChatFault> {
        let wish = Box::new(wish);
        let mut told = self.ask(conn, ChatRequest::Upload { session, number: 7, wish });
        assert_eq!(told.len(), 1, "{told:?}");
        answer(told.remove(0).1)
    }
}

fn answer(delivery: ChatDelivery) -> Result<String, ChatFault> {
    match delivery {
        ChatDelivery::Upload { number: 7, slot } => Ok(slot.put_url.into()),
        ChatDelivery::Failed { number: 7, why } => Err(why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_taken_is_refused_by_its_reason() {
    let mut house = House::new(true);
    let ann = house.login("ann");
    let wish = |name: &str, media_type: &str, bytes| UploadWish {
        name: name.into(),
        media_type: media_type.into(),
        bytes,
    };
    for (bad, why) in [
        (wish("../x", "image/png", 1), ChatFault::Invalid),
        (wish("", "image/png", 1), ChatFault::Invalid),
        (wish("x", "image", 1), ChatFault::Invalid),
        (wish("x", "image/png", 0), ChatFault::Invalid),
        (wish("x", "image/png", 1_001), ChatFault::TooLarge),
        (wish("x", "text/html", 1), ChatFault::TypeRefused),
        (wish("x", "", 1), ChatFault::TypeRefused),
    ] {
        assert_eq!(house.upload(ann, bad.clone()), Err(why), "{bad:?}");
    }
    assert_eq!(house.upload(ann, picture(1_000)).as_deref(), Ok("put cat.png 1000"));
}

#[test]
fn without_a_storage_nobody_uploads() {
    let mut house = House::new(false);
    let ann = house.login("ann");
    assert_eq!(house.upload(ann, picture(1)), Err(ChatFault::MediaOff));
}

#[test]
fn a_day_has_so_many_files_and_bytes_for_each_account_and_another_day_others() {
    let mut house = House::new(true);
    let (ann, bob) = (house.login("ann"), house.login("bob"));
    assert!(house.upload(ann, picture(1_000)).is_ok());
    assert_eq!(house.upload(ann, picture(501)), Err(ChatFault::UploadQuota), "too many bytes");
    assert!(house.upload(ann, picture(499)).is_ok(), "what was refused does not count");
    let tablet = house.login("ann");
    assert!(house.upload(tablet, picture(1)).is_ok());
    assert_eq!(house.upload(ann, picture(1)), Err(ChatFault::UploadQuota), "too many files");
    assert!(house.upload(bob, picture(1_000)).is_ok(), "another's day is another");
    house.now = Now::new(house.now.mono, house.now.wall_ms + DAY_MS);
    assert!(house.upload(ann, picture(1_000)).is_ok());
}

#[test]
fn a_crash_gives_no_account_its_day_anew() {
    let mut house = House::new(true);
    let ann = house.login("ann");
    assert!(house.upload(ann, picture(1_000)).is_ok());
    house.crash();
    let ann = house.login("ann");
    assert_eq!(house.upload(ann, picture(501)), Err(ChatFault::UploadQuota));
    assert!(house.upload(ann, picture(500)).is_ok());
}

#[test]
fn several_at_once_wait_for_each_other_and_none_is_given_twice() {
    let mut house = House::new(true);
    let (conn, session) = house.login("ann");
    for bytes in [400, 500, 600, 700, 1] {
        let wish = Box::new(picture(bytes));
        let request = ChatRequest::Upload { session, number: 7, wish };
        Service::request(&mut house.chat, house.now, conn, request, &mut house.fx);
    }
    let told: Vec<_> = house.rest().into_iter().map(|(_, told)| answer(told).is_ok()).collect();
    assert_eq!(told, [true, true, true, false, false], "1500 bytes, three files");
}

#[test]
fn a_line_that_is_full_and_a_log_that_fails_are_answered() {
    let mut house = House::new(true);
    let (conn, session) = house.login("ann");
    for _ in 0..17 {
        let wish = Box::new(picture(1));
        let request = ChatRequest::Upload { session, number: 7, wish };
        Service::request(&mut house.chat, house.now, conn, request, &mut house.fx);
    }
    let [(_, busy)] = &std::mem::take(&mut house.fx.deliveries)[..] else { panic!("one answer") };
    assert_eq!(answer(busy.clone()), Err(ChatFault::Busy));
    house.fails = Some(StoreError::Full);
    let told = house.rest();
    assert_eq!(told.len(), 16);
    for (_, delivery) in told {
        assert_eq!(answer(delivery), Err(ChatFault::StoreFull));
    }
    house.fails = None;
    assert!(house.upload((conn, session), picture(1)).is_ok(), "and it goes on");
}
