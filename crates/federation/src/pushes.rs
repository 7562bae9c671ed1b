//! Notifications for push services elsewhere, until they are answered (XEP-0357 7).
//!
//! Each is a question to the service, named by a number of its own. An order that cannot be sent
//! comes back with an error as the service itself might give it. It knows no stream. Invariant:
//! each order is answered once: by the service, or that it failed, in time.

use base::time::{Instant, Now};
use model::limits::FederationLimits;
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use proto_xmpp::jid::Jid;
use proto_xmpp::peer::pushes;
use proto_xmpp::xml::scan::Scan;
use std::collections::HashMap;
use std::time::Duration;

/// Callback for the result of an order.
pub type PushReply = Box<dyn FnOnce(Notified) + Send>;

/// Where notifications wait for their answers.
pub struct PushDesk {
    open: HashMap<u64, OpenPush>,
    /// How many of them are with each service.
    services: HashMap<Box<str>, u32>,
    limits: FederationLimits,
    seed: u64,
    last: u64,
}

/// A notification that a service has not answered.
struct OpenPush {
    service: Box<str>,
    node: Box<str>,
    until: Instant,
    reply: PushReply,
}

impl PushDesk {
    /// With none; numbers are made hard to guess by `seed`.
    pub fn new(limits: &FederationLimits, seed: u64) -> PushDesk {
        let (open, services) = Default::default();
        PushDesk { open, services, limits: limits.clone(), seed, last: 0 }
    }

    /// Sets other limits. Notifications beyond them stay until they are answered.
    pub fn set_limits(&mut self, limits: &FederationLimits) {
        self.limits = limits.clone();
    }

    /// The stanza that carries an order, if it is taken on.
    pub fn take(
        &mut self,
        now: Now,
        order: NotificationOrder,
        reply: PushReply,
    ) -> Option<Box<[u8]>> {
        let (NotificationTargets::Service(service), NotificationWhat::Notification(what)) =
            (order.targets, order.what)
        else {
            reply(Notified::Refused);
            return None;
        };
        let of_service = self.services.entry(service.address.clone()).or_default();
        if self.open.len() >= self.limits.pushes_max as usize
            || *of_service >= self.limits.pushes_a_service_max
        {
            if *of_service == 0 {
                self.services.remove(&service.address);
            }
            reply(Notified::Later { rest_ms: 0 });
            return None;
        }
        *of_service += 1;
        self.last += 1;
        let until = now.after(Duration::from_millis(self.limits.push_ms_max.into()));
        let mut xml = Vec::new();
        pushes::write(&what, &service, &self.id_of(self.last), &mut xml);
        let (node, address) = (service.node, service.address);
        self.open.insert(self.last, OpenPush { service: address, node, until, reply });
        Some(xml.into())
    }

    /// Takes a stanza for a domain of ours, if it is an answer to one of these. False: it is not.
    pub fn is_answer(&mut self, xml: &[u8]) -> bool {
        if self.open.is_empty() || !xml.starts_with(b"<iq") {
            return false;
        }
        let Ok(scan) = Scan::of_peer(xml) else { return false };
        let iq = scan.root();
        let (Some(id), Some(from)) = (iq.attribute("id"), iq.attribute("from")) else {
            return false;
        };
        let number = id.strip_prefix("push-").and_then(|id| id.split_once('-'));
        let number = number.and_then(|(number, _)| number.parse().ok());
        let Some(number) = number.filter(|number| *id == *self.id_of(*number)) else {
            return false;
        };
        let Some(open) = self.open.get(&number).filter(|open| is_of(&open.service, &from)) else {
            return false;
        };
        let Some(what) = pushes::read(&iq, &open.node) else { return false };
        self.answered(number, what);
        true
    }

    /// Fails the notifications that were not answered in time.
    pub fn sweep(&mut self, now: Instant) {
        let is_late = |(number, open): (&u64, &OpenPush)| (open.until <= now).then_some(*number);
        let late: Vec<u64> = self.open.iter().filter_map(is_late).collect();
        late.into_iter().for_each(|number| self.answered(number, Notified::Failing));
    }

    /// Whether none is open.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    fn answered(&mut self, number: u64, what: Notified) {
        let Some(open) = self.open.remove(&number) else { return };
        if let Some(count) = self.services.get_mut(&open.service) {
            *count -= 1;
            if *count == 0 {
                self.services.remove(&open.service);
            }
        }
        (open.reply)(what);
    }

    fn id_of(&self, number: u64) -> String {
        format!("push-{number}-{:016x}", self.seed.wrapping_mul(2 * number + 1))
    }
}

/// Whether an answer is of this service.
fn is_of(service: &str, from: &str) -> bool {
    Jid::parse(from).is_some_and(|from| from.text() == service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::account::AccountAddress;
    use model::chat::{Loudness, Notification, PushService};
    use std::sync::mpsc::{Receiver, sync_channel};

    fn desk(service_max: u32) -> PushDesk {
        let limits = FederationLimits {
            pushes_max: 3,
            pushes_a_service_max: service_max,
            push_ms_max: 1_000,
            ..FederationLimits::default()
        };
        PushDesk::new(&limits, 0x1234_5678_9abc_def1)
    }

    fn offered(desk: &mut PushDesk, service: &str) -> (Option<String>, Receiver<Notified>) {
        let account = AccountAddress::parse("ann@a.example", "").expect("right");
        let what = Notification { account, loudness: Loudness::High, badge: 1, said: None };
        let service = PushService::new(service, "n", Vec::new()).expect("allowed");
        let order = NotificationOrder {
            targets: NotificationTargets::Service(Box::new(service)),
            what: NotificationWhat::Notification(what),
        };
        let (tell, told) = sync_channel(16);
        let reply = Box::new(move |what| tell.send(what).expect("it is heard"));
        let xml = desk.take(Now::default(), order, reply);
        (xml.map(|xml| String::from_utf8(xml.into()).expect("UTF-8")), told)
    }

    fn answer(xml: &str, from: &str, kind: &str) -> Vec<u8> {
        let id = xml.split("id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id");
        format!("<iq type='{kind}' id='{id}' from='{from}' to='a.example'/>").into_bytes()
    }

    #[test]
    fn a_service_is_heard_once_and_nobody_else_in_its_place() {
        let mut desk = desk(3);
        let (xml, told) = offered(&mut desk, "push.example");
        let xml = xml.expect("taken");
        assert!(!desk.is_answer(&answer(&xml, "other.example", "result")));
        let id = xml.split("id='").nth(1).and_then(|it| it.split('\'').next()).expect("an id");
        let guessed = answer(&xml.replace(id, "push-1-0"), "push.example", "result");
        assert!(!desk.is_answer(&guessed) && told.try_recv().is_err());
        let right = answer(&xml, "push.example", "result");
        assert!(desk.is_answer(&right) && !desk.is_answer(&right));
        assert_eq!(told.try_recv(), Ok(Notified::Taken { gone: Vec::new() }));
        assert!(desk.is_idle() && desk.services.is_empty());
    }

    #[test]
    fn what_is_open_is_bounded_for_all_and_for_each_service_and_ends_in_time() {
        let mut desk = desk(2);
        let (first, told) = offered(&mut desk, "push.example");
        let (second, _told) = offered(&mut desk, "push.example");
        assert!(first.is_some() && second.is_some());
        let later = Ok(Notified::Later { rest_ms: 0 });
        assert_eq!(offered(&mut desk, "push.example").1.try_recv(), later);
        let (third, _told_too) = offered(&mut desk, "other.example");
        assert!(third.is_some());
        assert_eq!(offered(&mut desk, "last.example").1.try_recv(), later);
        assert_eq!(desk.services.len(), 2, "nothing is kept of who was not told");
        desk.sweep(Now::default().after(Duration::from_millis(999)));
        assert!(told.try_recv().is_err());
        desk.sweep(Now::default().after(Duration::from_millis(1_000)));
        assert_eq!(told.try_recv(), Ok(Notified::Failing));
        assert!(desk.is_idle() && desk.services.is_empty());
    }
}
