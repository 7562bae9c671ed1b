//! Asides: notices of a group for some of its members alone, which are not stored. The inviter is
//! notified when an account declines (XEP-0045 7.8.2); owner and admins, when a member that may not
//! speak asks for voice (7.13).
//!
//! ```text
//! Leave that names the inviter ─────► judged ─► stored ─────────────┐
//! Voice ─► home of the group: a member that may not speak, in pace ─┤
//!        devices of XMPP that are online, members of other servers ◄┘
//! ```
//! The inviter is no fact of the group: the account that declines names it. Its leave is the change
//! that lets it do so, once, and only an account that was added may. Devices of other protocols
//! have no message for asides. Invariant: a member's decline is never notified while it is still a
//! member; of one member at most one request for voice is notified in [`VOICE_PAUSE`], and of all
//! members of a group at most [`VOICES_MAX`].

use crate::groups::{self, GroupTask};
use crate::sessions::{Asker, Session};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::encoding::Encoding;
use base::time::{Instant, Now};
use model::account::{AccountAddress, Addressee};
use model::chat::foreign::{AsideWord, ForeignWord};
use model::chat::{AsideWhat, ChatDelivery, GroupAside};
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef};
use model::pressure::Pressure;
use model::timeline::{Space, TimelineId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The time after which a member may ask for voice again.
const VOICE_PAUSE: Duration = Duration::from_secs(60);

/// Maximum of members of a group whose requests for voice are notified within that time.
const VOICES_MAX: usize = 64;

/// A receiver of an aside: its inbox, its address.
pub(crate) type Hearer = (TimelineId, AccountAddress);

/// The inviter of an account that declines, and the notice for it.
pub(crate) type Declining = (Hearer, GroupAside);

/// The members that have asked a group for voice lately.
#[derive(Default)]
pub(crate) struct VoicePace(BTreeMap<TimelineId, Instant>);

/// A request for voice, on its way to the home of the group.
#[derive(Debug, Encoding)]
pub struct VoiceAsked {
    /// The inbox of the asker.
    pub(crate) by: TimelineId,
    pub(crate) group: AccountAddress,
}

impl VoicePace {
    /// Whether a member may ask now; if so, the request counts.
    fn takes(&mut self, now: Now, by: TimelineId) -> bool {
        self.0.retain(|_, at| now.mono < *at + VOICE_PAUSE);
        let may = self.0.len() < VOICES_MAX && !self.0.contains_key(&by);
        if may {
            self.0.insert(by, now.mono);
        }
        may
    }
}

impl VoiceAsked {
    /// Approximate memory, bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<VoiceAsked>() + self.group.as_str().len()
    }
}

impl Chat {
    /// Takes a device's request for voice in a group.
    pub(crate) fn voice(
        &mut self,
        now: Now,
        from: ConnRef,
        session: SessionRef,
        group: &Addressee,
        fx: &mut Effects,
    ) {
        let Some(Asker { inbox: by, address, .. }) = self.asker(from, session) else { return };
        let most = self.settings.limits.chat.transients_a_minute_max;
        let takes = |session: &mut Session| session.told.takes(now, most);
        let is_errand = self.is_errand(from);
        let may = match self.sessions.session_of((from, session)).filter(|_| !is_errand) {
            Some((_, session)) => takes(session),
            None => is_errand,
        };
        if is_errand {
            self.answer_errand(session, ChatDelivery::Done { number: 0 }, fx);
        }
        let group = group.within(address.domain());
        // An operator's mute holds here too.
        let is_mute = self.mutes.until(now, &address) > 0 || self.pressure >= Pressure::Stores;
        if !may || is_mute || !group.is_group() || group.is_channel() {
            return fx.counters.count(ChatCounter::TransientsDropped);
        }
        fx.counters.count(ChatCounter::Transients);
        self.voice_asked(now, VoiceAsked { by, group }, fx);
    }

    /// Sends a request for voice to the home of the group, which may be here.
    pub(crate) fn voice_asked(&mut self, now: Now, asked: VoiceAsked, fx: &mut Effects) {
        let conversation = groups::conversation_of(self.settings.home, &asked.group);
        let owner = self.settings.shard_at(conversation);
        if owner == self.settings.shard {
            self.for_group(now, conversation, GroupTask::Voice(asked), fx);
        } else {
            fx.peer_messages.push((owner, ChatWord::VoiceAsked(Box::new(asked))));
        }
    }

    /// Takes a request for voice in a group that is at home here.
    pub(super) fn voice_in_group(
        &mut self,
        now: Now,
        conversation: TimelineId,
        asked: VoiceAsked,
        fx: &mut Effects,
    ) {
        let Some(group) = self.groups.known.get_mut(&conversation) else { return };
        let VoiceAsked { by, group: address } = asked;
        let visitor = self.occupants.one_of(conversation, by);
        // In the room a moderator may have decided who has a voice.
        let who = match visitor {
            Some(it) => Some(&it.account).filter(|_| it.silent).cloned(),
            None => group.state.voiceless(by),
        };
        let who = who.filter(|_| group.voices.takes(now, by));
        let Some(who) = who else { return fx.counters.count(ChatCounter::TransientsDropped) };
        let mut moderators = group.state.moderators();
        let room = self.occupants.room(conversation);
        moderators.extend(room.map(|room| room.moderators()).unwrap_or_default());
        self.tell_aside(moderators, GroupAside { group: address, who, what: AsideWhat::Voice }, fx);
    }

    /// Sends an aside to its receivers, at their shards or on other servers.
    pub(super) fn tell_aside(&mut self, to: Vec<Hearer>, aside: GroupAside, fx: &mut Effects) {
        let aside = Arc::new(aside);
        let (foreign, here): (Vec<Hearer>, Vec<Hearer>) =
            to.into_iter().partition(|(inbox, _)| inbox.space() == Space::Foreign);
        if !foreign.is_empty() {
            let to = foreign.into_iter().map(|(_, address)| address).collect();
            let word = AsideWord { aside: aside.clone(), to };
            fx.foreign.push(ForeignWord::Aside(Box::new(word)));
        }
        let here = here.into_iter().map(|(inbox, _)| inbox);
        self.tell_bound(here, &ChatDelivery::Aside(aside), fx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::account::AccountId;

    #[test]
    fn a_member_asks_once_in_a_while_and_of_all_no_more_are_told_than_a_moderator_can_bear() {
        let mut pace = VoicePace::default();
        let at = |s| Now::new(Instant::default() + Duration::from_secs(s), 0);
        let inbox = |n: usize| {
            let address = AccountAddress::parse(&format!("p{n}"), "a.example").expect("right");
            address.inbox(HashKey::new(1, 2), AccountId(1))
        };
        assert_eq!(
            [0, 1, 59, 60, 61].map(|s| pace.takes(at(s), inbox(0))),
            [true, false, false, true, false]
        );
        assert!((1..VOICES_MAX).all(|n| pace.takes(at(61), inbox(n))));
        assert!(!pace.takes(at(61), inbox(VOICES_MAX)), "one too many");
        assert!(pace.takes(at(120), inbox(VOICES_MAX)), "one of them was long ago");
        assert!(pace.takes(at(200), inbox(0)) && pace.0.len() == 1);
    }
}
