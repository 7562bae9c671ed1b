//! Notifications of a round, and their results.
//!
//! A notification is about one conversation, for all devices of one application or product; without
//! a message it has only the unread count. An external service wakes a device, which then connects
//! and gets all messages: it is notified once a round, of the last message. Services fail
//! independently: those that have accepted are not notified again for the others. Invariant: each
//! order is answered once, and a way is done when all its orders are accepted.

use super::rounds::{End, Round, Said};
use super::wishes::PushChore;
use super::{BADGED, PushDetail, QuietPush, WAYS, Way, millis};
use crate::{Chat, Effects};
use base::hex;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    Content, Excerpt, Loudness, Notification, NotifiedMessage, PushRegistration, PushRoute,
};
use model::counters::ChatCounter;
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::ports::requests::PortRequest;
use model::timeline::{Seq, TimelineId};

/// An order that a carrier has not answered.
pub(super) enum Post {
    /// A notification of a round, by a way.
    Told(u64, Way),
    /// A notification of a round, to an external service, by the name of the registration.
    Service(u64, Box<str>),
    /// A code for a device, which an account of this shard wants to bind.
    Code(TimelineId),
}

impl Chat {
    /// Sends the notifications of a round.
    pub(super) fn tell_round(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        let (inbox, ways) = (round.inbox, round.ways.clone());
        let before = self.pushes.accounts.get(&inbox).map_or([0; BADGED], |it| it.badges);
        let told = self.pushes.owing.get(&inbox).map(|owing| owing.lanes.map(|lane| lane.told));
        let told = told.unwrap_or([Seq::MAX; WAYS]);
        let mut orders = Vec::new();
        for way in ways {
            let at = way as usize;
            if way == Way::Service {
                orders.extend(self.service_orders(now, number, told[at], fx));
                continue;
            }
            let targets = self.targets(number, way);
            if targets.is_empty() {
                continue;
            }
            let mut notifications = self.notifications(now, number, (way, told[at]), fx);
            let Some(round) = self.pushes.rounds.at_mut(number) else { return };
            if notifications.is_empty() && round.badge != before[at] {
                notifications.extend(round.badge_alone());
                fx.counters.count(ChatCounter::PushBadges);
            }
            for notification in notifications {
                for targets in &targets {
                    let what = NotificationWhat::Notification(notification.clone());
                    let order = NotificationOrder { targets: targets.clone(), what };
                    orders.push((Post::Told(number, way), order));
                }
            }
        }
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        round.left = orders.len() as u32;
        if orders.is_empty() {
            return self.end_round(now, number, fx);
        }
        fx.counters.count_by(ChatCounter::PushesSent, orders.len() as u64);
        for (post, order) in orders {
            let post = self.pushes.posts.put(post);
            fx.port_requests.push((post, PortRequest::Notify(Box::new(order))));
        }
    }

    /// Orders for external services that have not accepted yet: each announces the last message.
    fn service_orders(
        &mut self,
        now: Now,
        number: u64,
        told: Seq,
        fx: &mut Effects,
    ) -> Vec<(Post, NotificationOrder)> {
        let registrations = self.not_here(number, Way::Service);
        let all = match registrations.is_empty() {
            true => Vec::new(),
            false => self.notifications(now, number, (Way::Service, told), fx),
        };
        let last = all.into_iter().max_by_key(|it| it.said.as_ref().map(|said| said.id));
        let Some(round) = self.pushes.rounds.at_mut(number) else { return Vec::new() };
        let Some(owing) = self.pushes.owing.get(&round.inbox) else { return Vec::new() };
        let has_told =
            |name: &str| owing.services.iter().any(|it| *it.name == *name && it.told >= round.upto);
        let order = |it: PushRegistration| {
            let PushRoute::Service(service) = it.route else { return None };
            let what = NotificationWhat::Notification(last.clone()?);
            let targets = NotificationTargets::Service(service);
            Some((Post::Service(number, it.name), NotificationOrder { targets, what }))
        };
        registrations.into_iter().filter(|it| !has_told(&it.name)).filter_map(order).collect()
    }

    /// Targets registered by a way that lack messages of the round, by application or product.
    fn targets(&mut self, number: u64, way: Way) -> Vec<NotificationTargets> {
        let mut all = Vec::new();
        for registration in self.not_here(number, way) {
            add_target(&mut all, registration.route);
        }
        all
    }

    /// Registrations by a way whose devices are offline or have not acknowledged the new messages.
    fn not_here(&mut self, number: u64, way: Way) -> Vec<PushRegistration> {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return Vec::new() };
        let (inbox, upto) = (round.inbox, round.upto);
        let registrations = round.rows.registrations.clone();
        let online = self.sessions.online.get(&inbox);
        let has_it = |device: &str| {
            let sessions = online.into_iter().flat_map(|online| &online.sessions);
            let mut sessions = sessions.filter_map(|key| self.sessions.slab.at(*key));
            sessions.any(|session| *session.device == *device && session.acked >= upto)
        };
        let is_one = |it: &PushRegistration| Way::of(&it.route) == way && !has_it(&it.device);
        registrations.into_iter().filter(is_one).collect()
    }

    /// Notifications of a round's conversations, by a way that has sent up to an offset of the
    /// inbox.
    fn notifications(
        &mut self,
        now: Now,
        number: u64,
        (way, told): (Way, Seq),
        fx: &mut Effects,
    ) -> Vec<Notification> {
        let (policy, limits) = (self.settings.push, self.settings.limits.clone());
        let Some(round) = self.pushes.rounds.at_mut(number) else { return Vec::new() };
        let is_quiet = round.rows.quiet.is_some_and(|hours| hours.hold(now.unix_s()));
        let text_max = usize::from(limits.notifications.text_bytes_max);
        let mut all = Vec::new();
        for (conversation, said) in &round.said {
            let count = said.places.iter().filter(|(_, place)| *place > told).count() as u32;
            let Some(&(seq, _)) = said.places.last().filter(|_| count > 0) else { continue };
            let text = round.texts.get(conversation);
            if count == 1 && text.is_some_and(|text| text.kind == Content::RECALLED) {
                fx.counters.count(ChatCounter::PushesRead);
                continue; // recalled a moment ago: the notice of the recall comes next
            }
            let dropped = said.muted.is_on() && policy.muted == QuietPush::Nothing
                || is_quiet && policy.quiet == QuietPush::Nothing;
            if dropped {
                fx.counters.count_by(ChatCounter::PushesMuted, u64::from(count));
                continue;
            }
            fx.counters.count_by(ChatCounter::PushesCoalesced, u64::from(count - 1));
            let is_low = said.muted.is_on() || is_quiet;
            let loudness = if is_low { Loudness::Low } else { Loudness::High };
            let said = said_of(policy.detail_by(way), (*conversation, said), (seq, count), text);
            let said = NotifiedMessage {
                text: said.text.map(|text| text[..text.floor_char_boundary(text_max)].into()),
                ..said
            };
            all.extend(round.notification(loudness, Some(said)));
        }
        all
    }

    /// Handles the result of an order.
    pub(crate) fn told(&mut self, now: Now, post: u64, what: Notified, fx: &mut Effects) {
        let (number, way, name) = match self.pushes.posts.take(post) {
            Some(Post::Told(number, way)) => (number, way, None),
            Some(Post::Service(number, name)) => (number, Way::Service, Some(name)),
            Some(Post::Code(inbox)) => return self.code_told(inbox, &what, fx),
            None => return,
        };
        let end = match &what {
            Notified::Taken { .. } => End::Told,
            Notified::Refused => End::Refused,
            Notified::Failing => End::Later,
            Notified::Later { rest_ms } | Notified::Resting { rest_ms } => {
                if way == Way::Gateway {
                    let rests = now.after(millis(*rest_ms));
                    self.pushes.gateway_rests = self.pushes.gateway_rests.max(rests);
                }
                End::Later
            }
        };
        match end {
            End::Told => fx.counters.count(ChatCounter::PushesTaken),
            End::Refused => fx.counters.count(ChatCounter::PushesRefused),
            End::Later => {}
        }
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        let worst = &mut round.ends[way as usize];
        *worst = end.max(*worst);
        round.left -= 1;
        let (is_over, inbox, badge) = (round.left == 0, round.inbox, round.badge);
        let is_of_somebody = round.rows.address.is_some();
        // The count is shown; after a failure, or without an answer, it may be.
        let is_shown = end == End::Told || end == End::Later && badge > 0;
        let account = self.pushes.accounts.get_mut(&inbox).filter(|_| is_shown);
        if let Some(shown) = account.and_then(|account| account.badges.get_mut(way as usize)) {
            *shown = badge;
        }
        let gone = match (what, name) {
            (Notified::Taken { gone }, None) => gone,
            (what, Some(name)) => self.service_told(number, (name, what), fx),
            _ => Vec::new(),
        };
        for name in gone.into_iter().filter(|_| is_of_somebody) {
            self.run_chore(inbox, PushChore::Gone(way, name), fx);
        }
        if is_over {
            self.end_round(now, number, fx);
        }
    }
}

impl Chat {
    /// Handles the result of an order for an external service. Returns the registration, if the
    /// service does not know the device.
    fn service_told(
        &mut self,
        number: u64,
        (name, what): (Box<str>, Notified),
        fx: &mut Effects,
    ) -> Vec<Box<str>> {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return Vec::new() };
        let Some(owing) = self.pushes.owing.get_mut(&round.inbox) else { return Vec::new() };
        match what {
            Notified::Taken { gone } if gone.is_empty() => {
                fx.counters.count(ChatCounter::PushServicesTaken);
                let it = owing.service(name);
                (it.told, it.fails) = (round.upto, None);
                Vec::new()
            }
            Notified::Taken { .. } => vec![name],
            Notified::Failing => {
                fx.counters.count(ChatCounter::PushServicesFailing);
                owing.service(name).fails = round.rows.address.clone();
                Vec::new()
            }
            Notified::Later { .. } | Notified::Resting { .. } | Notified::Refused => Vec::new(),
        }
    }
}

impl Round {
    fn notification(
        &self,
        loudness: Loudness,
        said: Option<NotifiedMessage>,
    ) -> Option<Notification> {
        let account = self.rows.address.clone()?;
        Some(Notification { account, loudness, badge: self.badge, said })
    }

    /// A notification with only the unread count.
    fn badge_alone(&self) -> Option<Notification> {
        self.notification(Loudness::Badge, None)
    }
}

/// The part of a conversation's last message that a notification may contain.
fn said_of(
    detail: PushDetail,
    (conversation, said): (TimelineId, &Said),
    (seq, count): (Seq, u32),
    text: Option<&Excerpt>,
) -> NotifiedMessage {
    let collapse: Box<str> = hex::encode(&conversation.to_bytes()).into();
    let (id, place) = (text.map_or(0, |text| text.id), seq);
    let it = NotifiedMessage {
        collapse,
        conversation: None,
        sender: None,
        text: None,
        id,
        seq: place,
        count,
    };
    // When the message is gone from the disk, the conversation's other party stands in for the
    // sender.
    let sender: AccountAddress = text.map_or(&said.with, |text| &text.from).clone();
    match detail {
        PushDetail::Nothing => it,
        PushDetail::Sender => {
            NotifiedMessage { conversation: Some(said.with.clone()), sender: Some(sender), ..it }
        }
        PushDetail::Full => NotifiedMessage {
            conversation: Some(said.with.clone()),
            sender: Some(sender),
            text: text.map(|text| text.text.clone()),
            ..it
        },
    }
}

/// Adds a device to the targets of its application or product.
fn add_target(all: &mut Vec<NotificationTargets>, route: PushRoute) {
    match route {
        PushRoute::Gateway { app, token } => {
            for targets in &mut *all {
                if let NotificationTargets::Gateway { app: of, tokens } = targets
                    && *of == app
                {
                    return if !tokens.contains(&token) {
                        tokens.push(token)
                    };
                }
            }
            all.push(NotificationTargets::Gateway { app, tokens: vec![token] });
        }
        PushRoute::Miop { product, device } => {
            for targets in &mut *all {
                if let NotificationTargets::Miop { product: of, devices } = targets
                    && *of == product
                {
                    return if !devices.contains(&device) {
                        devices.push(device)
                    };
                }
            }
            all.push(NotificationTargets::Miop { product, devices: vec![device] });
        }
        PushRoute::Service(service) => all.push(NotificationTargets::Service(service)),
    }
}
