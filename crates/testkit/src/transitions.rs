//! The law of transitions: those of one principal go by turns, and their versions rise.
//!
//! A [`Roll`] is told all of them in their order, over restarts too. It knows no room; what a room
//! says of somebody can be compared with the last transition it told.

use model::presence::{OnlineState, Principal, Transition};
use std::collections::BTreeMap;

/// Last transition of each principal, as far as reported.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    last: BTreeMap<Principal, Transition>,
    /// How many were taken in.
    pub count: u64,
}

impl Roll {
    /// Takes in what was told. Panics where the law is broken.
    pub fn take(&mut self, transitions: impl IntoIterator<Item = Transition>) {
        for transition in transitions {
            let before = self.last.get(&transition.who);
            if let OnlineState::Online(protocol) = transition.state {
                assert_eq!(protocol, transition.protocol, "{transition:?}");
            }
            let was_online = before.is_some_and(|before| before.state.is_online());
            assert!(was_online != transition.state.is_online(), "{before:?} then {transition:?}");
            let rises = before.is_none_or(|before| before.version < transition.version);
            assert!(rises, "{before:?} then {transition:?}");
            self.count += 1;
            self.last.insert(transition.who.clone(), transition);
        }
    }

    /// The process died: all of its connections went without a word.
    pub fn die(&mut self) {
        for transition in self.last.values_mut().filter(|it| it.state.is_online()) {
            transition.state = OnlineState::Offline(model::close::CloseReason::ServerStopped);
        }
    }

    /// The process died, and its clock began anew: nothing is known of anybody.
    pub fn forget(&mut self) {
        self.last.clear();
    }

    /// The last transition of each principal.
    pub fn all(&self) -> impl Iterator<Item = &Transition> {
        self.last.values()
    }

    /// The last transition of a principal.
    pub fn of(&self, who: &Principal) -> Option<&Transition> {
        self.last.get(who)
    }

    /// How many are online.
    pub fn online(&self) -> u64 {
        self.last.values().filter(|transition| transition.state.is_online()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::close::CloseReason;
    use model::presence::PresenceVersion;
    use std::panic::catch_unwind;

    fn transition(state: OnlineState, version: u64) -> Transition {
        let (who, version) = (Principal::Client("c".into()), PresenceVersion(version));
        Transition { who, user: None, state, protocol: "mqtt5", peer: None, version }
    }

    #[test]
    fn what_breaks_the_law_is_found() {
        const ONLINE: OnlineState = OnlineState::Online("mqtt5");
        const OFFLINE: OnlineState = OnlineState::Offline(CloseReason::PeerClosed);
        let takes = |told: &[(OnlineState, u64)]| {
            let told: Vec<_> = told.iter().map(|&(state, at)| transition(state, at)).collect();
            catch_unwind(|| Roll::default().take(told)).is_ok()
        };
        assert!(takes(&[(ONLINE, 1), (OFFLINE, 2), (ONLINE, 3)]));
        assert!(!takes(&[(OFFLINE, 1)]), "offline comes after an online");
        assert!(!takes(&[(ONLINE, 1), (ONLINE, 2)]));
        assert!(!takes(&[(ONLINE, 2), (OFFLINE, 2)]), "versions rise");
    }

    #[test]
    fn whoever_was_online_when_the_process_died_comes_again() {
        let mut roll = Roll::default();
        roll.take([transition(OnlineState::Online("mqtt5"), 5)]);
        assert_eq!(roll.online(), 1);
        roll.die();
        assert_eq!(roll.online(), 0);
        roll.take([transition(OnlineState::Online("mqtt5"), 6)]);
        assert_eq!(
            roll.of(&Principal::Client("c".into())).map(|it| it.version),
            Some(PresenceVersion(6))
        );
    }
}
