//! What a round has read becomes notifications, and what comes back of them.
//!
//! A notification is of one conversation, for all devices of one application or product; with
//! nothing to say, it is of the number of what is unread. Invariant: each that is handed out is
//! answered once, and a way has told when all of its are taken on.

use super::rounds::{End, Round, Said};
use super::wishes::PushChore;
use super::{PushDetail, QuietPush, Way, millis};
use crate::{Chat, Effects};
use base::hex;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{Content, Excerpt, Loudness, Notification, NotifiedMessage, PushRoute};
use model::counters::ChatCounter;
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::timeline::{Seq, TimelineId};

/// An order that is with whoever carries it.
pub(super) enum Post {
    /// Of a round, by a way.
    Told(u64, Way),
    /// A code for a device, that an account of this shard wants to bind.
    Code(TimelineId),
}

impl Chat {
    /// Tells what a round has read.
    pub(super) fn tell_round(&mut self, now: Now, number: u64, fx: &mut Effects) {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        let (inbox, ways) = (round.inbox, round.ways.clone());
        let before = self.pushes.accounts.get(&inbox).map_or([0; 2], |it| it.badges);
        let told = self.pushes.owing.get(&inbox).map(|owing| owing.lanes.map(|lane| lane.told));
        let told = told.unwrap_or([Seq::MAX; 2]);
        let mut orders = Vec::new();
        for way in ways {
            let at = way as usize;
            let targets = self.targets(number, way);
            if targets.is_empty() {
                continue;
            }
            let mut notifications = self.notifications(now, number, told[at], fx);
            let Some(round) = self.pushes.rounds.at_mut(number) else { return };
            if notifications.is_empty() && round.badge != before[at] {
                notifications.extend(round.badge_alone());
                fx.counters.count(ChatCounter::PushBadges);
            }
            for notification in notifications {
                for targets in &targets {
                    let what = NotificationWhat::Notification(notification.clone());
                    orders.push((way, NotificationOrder { targets: targets.clone(), what }));
                }
            }
        }
        let Some(round) = self.pushes.rounds.at_mut(number) else { return };
        round.left = orders.len() as u32;
        if orders.is_empty() {
            return self.end_round(now, number, fx);
        }
        fx.counters.count_by(ChatCounter::PushesSent, orders.len() as u64);
        for (way, order) in orders {
            let post = self.pushes.posts.put(Post::Told(number, way));
            fx.notifications.push((post, Box::new(order)));
        }
    }

    /// Devices that are registered by a way and are not here, by application or product.
    fn targets(&mut self, number: u64, way: Way) -> Vec<NotificationTargets> {
        let Some(round) = self.pushes.rounds.at_mut(number) else { return Vec::new() };
        let (inbox, upto) = (round.inbox, round.upto);
        let registrations = round.rows.registrations.clone();
        let online = self.sessions.online.get(&inbox);
        let has_it = |device: &str| {
            let sessions = online.into_iter().flat_map(|online| &online.sessions);
            let mut sessions = sessions.filter_map(|key| self.sessions.slab.at(*key));
            sessions.any(|session| *session.device == *device && session.acked >= upto)
        };
        let mut all: Vec<NotificationTargets> = Vec::new();
        for registration in registrations {
            if Way::of(&registration.route) == way && !has_it(&registration.device) {
                add_target(&mut all, registration.route);
            }
        }
        all
    }

    /// What is told of the conversations of a round, by a way that has told up to a place.
    fn notifications(
        &mut self,
        now: Now,
        number: u64,
        told: Seq,
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
                continue; // called back a moment ago: what says so comes next
            }
            let dropped = said.is_muted && policy.muted == QuietPush::Nothing
                || is_quiet && policy.quiet == QuietPush::Nothing;
            if dropped {
                fx.counters.count_by(ChatCounter::PushesMuted, u64::from(count));
                continue;
            }
            fx.counters.count_by(ChatCounter::PushesCoalesced, u64::from(count - 1));
            let is_low = said.is_muted || is_quiet;
            let loudness = if is_low { Loudness::Low } else { Loudness::High };
            let said = said_of(policy.detail, (*conversation, said), (seq, count), text);
            let said = NotifiedMessage {
                text: said.text.map(|text| text[..text.floor_char_boundary(text_max)].into()),
                ..said
            };
            all.extend(round.notification(loudness, Some(said)));
        }
        all
    }

    /// What became of an order.
    pub(crate) fn told(&mut self, now: Now, post: u64, what: Notified, fx: &mut Effects) {
        let (number, way) = match self.pushes.posts.take(post) {
            Some(Post::Told(number, way)) => (number, way),
            Some(Post::Code(inbox)) => return self.code_told(inbox, &what, fx),
            None => return,
        };
        let end = match &what {
            Notified::Taken { .. } => End::Told,
            Notified::Refused => End::Refused,
            Notified::Later { rest_ms } => {
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
        let address = round.rows.address.clone();
        // It is shown; of an answer that did not come, or was none, nobody knows.
        let is_shown = end == End::Told || end == End::Later && badge > 0;
        if let Some(account) = self.pushes.accounts.get_mut(&inbox).filter(|_| is_shown) {
            account.badges[way as usize] = badge;
        }
        if let (Notified::Taken { gone }, Some(address)) = (what, address) {
            for name in gone {
                self.run_chore((inbox, &address), PushChore::Gone(way, name), fx);
            }
        }
        if is_over {
            self.end_round(now, number, fx);
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

    /// The number of what is unread, and nothing else.
    fn badge_alone(&self) -> Option<Notification> {
        self.notification(Loudness::Badge, None)
    }
}

/// What may be told of what was said last in a conversation.
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
    // What of a message is gone from the disk leaves who it was with.
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

/// One more device is told, with those of its application or product.
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
    }
}
