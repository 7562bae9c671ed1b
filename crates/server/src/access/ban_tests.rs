//! Bans of the book: stored, in force at logins, and made by rules.

use super::ban_book::BanSettings;
use super::tests::{Place, question, settings};
use super::*;
use crate::config::{AccessSection, BansSection};
use model::ports::bans::{Ban, BanCause, BanFault, BanOrder, BanSubject};
use model::ports::log::{Done, StoreError};

fn order(kind: &str, value: &str) -> BanOrder {
    let subject = BanSubject::parse(kind, value).expect("a subject");
    let (cause, note, by) = (BanCause::Operator, "why".into(), "ops".into());
    BanOrder { subject, cause, note, by, for_s: 3_600 }
}

fn with_bans(section: BansSection) -> Settings {
    let bans = BanSettings { section, proxies: Vec::new() };
    Settings { bans, ..settings(AccessSection::default()) }
}

fn is_banned(place: &Place, user: &str) -> bool {
    let answer = place.ask(question(user, "wrong"));
    matches!(answer, Admission::Refused(Denial::Banned))
}

#[test]
fn whoever_is_banned_is_refused_until_the_ban_is_lifted() {
    let place = Place::new(with_bans(BansSection::default()));
    let bans = place.entrance.bans();
    for (kind, value) in [("address", "10.0.0.0/8"), ("client", "d7"), ("user", "ann")] {
        assert!(!is_banned(&place, "ann"), "{kind}");
        let ban = bans.put(order(kind, value)).expect("there is room");
        assert_eq!((ban.subject.kind(), &*ban.by, ban.until_s - ban.made_s), (kind, "ops", 3_600));
        assert!(is_banned(&place, "ann"), "{kind}");
        assert_eq!(bans.list().iter().map(|ban| ban.refused).collect::<Vec<_>>(), [1]);
        assert_eq!(bans.remove(&ban.subject, "ops"), Ok(true));
        assert_eq!(bans.remove(&ban.subject, "ops"), Ok(false));
    }
    bans.put(order("user", "bob")).expect("there is room");
    assert!(is_banned(&place, "bob") && !is_banned(&place, "ann"));
    let phone = Question { protocol: "xmpp", ..question("ann", "wrong") };
    bans.put(order("client", "d7")).expect("there is room");
    let answer = place.ask(phone);
    assert!(matches!(answer, Admission::Refused(Denial::BadCredentials)), "{answer:?}");
}

#[test]
fn bans_are_there_after_a_restart_and_one_that_is_not_stored_does_not_hold() {
    let place = Place::new(with_bans(BansSection::default()));
    let bans = place.entrance.bans();
    for (kind, value) in [("address", "2001:db8::/32"), ("user", "eve \u{e9}"), ("client", "gone")]
    {
        bans.put(order(kind, value)).expect("there is room");
    }
    bans.remove(&order("client", "gone").subject, "ops").expect("the log takes it");
    let other =
        Place::over(with_bans(BansSection::default()), Ok(Done::Written), place.rows.clone());
    let (before, after) = (bans.list(), other.entrance.bans().list());
    assert_eq!((before.len(), &after), (2, &before));
    assert!(!other.entrance.restore_ban(&[0, 0, b'x'], b"{}"));
    let failed = Place::with_log(with_bans(BansSection::default()), Err(StoreError::Full));
    assert_eq!(failed.entrance.bans().put(order("user", "ann")), Err(BanFault::NotKept));
    assert!(!is_banned(&failed, "ann"));
}

#[test]
fn as_many_as_the_setting_says_can_be_banned() {
    let place = Place::new(with_bans(BansSection { max: 2, ..BansSection::default() }));
    let bans = place.entrance.bans();
    let put = |user: &str| bans.put(order("user", user)).map(drop);
    assert_eq!([put("a"), put("b"), put("c")], [Ok(()), Ok(()), Err(BanFault::Full)]);
    assert_eq!(put("a"), Ok(()), "it takes the place of the one before");
    bans.remove(&order("user", "a").subject, "ops").expect("the log takes it");
    assert_eq!(put("c"), Ok(()));
}

/// The list, once it has one.
fn first(place: &Place) -> Ban {
    loop {
        if let Some(ban) = place.entrance.bans().list().pop() {
            return ban;
        }
        std::thread::yield_now();
    }
}

#[test]
fn an_address_whose_logins_fail_too_often_is_banned_by_the_rule() {
    let section = BansSection { failed_logins_max: 2, ..BansSection::default() };
    let place = Place::new(with_bans(section));
    for _ in 0..3 {
        let answer = place.ask(question("ann", "wrong"));
        assert!(matches!(answer, Admission::Refused(Denial::BadCredentials)), "{answer:?}");
    }
    let ban = first(&place);
    assert_eq!((ban.subject.value(), ban.cause), ("10.0.0.7".into(), BanCause::FailedLogins));
    assert_eq!(ban.until_s - ban.made_s, 3_600);
    assert!(is_banned(&place, "ann"));
}

#[test]
fn a_client_that_comes_and_goes_is_banned_by_the_rule() {
    let place = Place::new(with_bans(BansSection::default()));
    assert_eq!(place.entrance.ban_book().flapping(), None, "the rule is off at first");
    place.entrance.ban_book().flaps("till-7", 300);
    let ban = first(&place);
    assert_eq!((ban.subject.kind(), ban.cause), ("client", BanCause::Flapping));
}

#[test]
fn rules_leave_this_machine_proxies_and_what_is_exempt_alone() {
    let exempt = vec!["192.0.2.0/24".to_owned()];
    let section = BansSection { failed_logins_max: 1, exempt, ..BansSection::default() };
    let bans = BanSettings { section, proxies: vec!["10.0.0.7".parse().expect("one")] };
    let place = Place::new(Settings { bans, ..settings(AccessSection::default()) });
    let book = place.entrance.ban_book();
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.7", "192.0.2.200"] {
        let address = address.parse().expect("an address");
        (0..9).for_each(|_| book.login_failed(100, address, "mqtt5", (None, None)));
    }
    (0..9).for_each(|_| book.login_failed(100, [10, 0, 0, 8].into(), "mqtt5", (None, None)));
    assert_eq!(first(&place).subject.value(), "10.0.0.8");
    assert_eq!(place.entrance.bans().list().len(), 1);
}

#[test]
fn a_source_of_ipv6_is_banned_whole() {
    let section = BansSection { failed_logins_max: 1, ..BansSection::default() };
    let place = Place::new(with_bans(section));
    for last in 1..3_u16 {
        let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last).into();
        place.entrance.ban_book().login_failed(100, address, "im", (Some("ann"), None));
    }
    assert_eq!(first(&place).subject.value(), "2001:db8:0:1::/64");
}
