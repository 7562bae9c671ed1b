//! The state machine of subscriptions: RFC 6121, appendix A, as a pure table.
//!
//! The nine states are two halves, and each word is about one of them:
//!
//! ```text
//!  the account sees the contact         the contact sees the account
//!  None ─ says subscribe ──► Pending    None ─ is told subscribe ──► Pending
//!  Pending ─ told subscribed ► Subscr.  Pending ─ says subscribed ─► Subscribed
//!  any ─ says unsubscribe, told         any ─ says unsubscribed, told
//!        unsubscribed ──────► None             unsubscribe ───────► None
//! ```
//! This module knows neither accounts nor words between homes. Invariant: every cell is that of the
//! RFC.

use model::chat::{Half, Subscription, SubscriptionVerb};

/// The effect of a verb on a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The state after the verb.
    pub after: Subscription,
    /// From the account: the verb is sent to the contact. From the contact: the verb is reported to
    /// the account's sessions.
    pub passes: bool,
    /// The verb is answered with "subscribed" in the account's name.
    pub is_granted: bool,
}

/// Applies a verb of the account about a contact (A.2).
pub(crate) fn says(state: Subscription, verb: SubscriptionVerb) -> Step {
    let Subscription { to, from, .. } = state;
    let step = |after, passes| Step { after, passes, is_granted: false };
    match verb {
        SubscriptionVerb::Subscribe => {
            let to = if to == Half::None { Half::Pending } else { to };
            step(Subscription { to, ..state }, true)
        }
        SubscriptionVerb::Unsubscribe => step(Subscription { to: Half::None, ..state }, true),
        SubscriptionVerb::Subscribed => match from {
            Half::Pending => step(Subscription { from: Half::Subscribed, ..state }, true),
            Half::Subscribed => step(state, false),
            // Pre-approval (3.4).
            Half::None => step(Subscription { approved: true, ..state }, false),
        },
        SubscriptionVerb::Unsubscribed => {
            let after = Subscription { from: Half::None, approved: false, ..state };
            step(after, from != Half::None)
        }
    }
}

/// Applies a verb of a contact (A.3).
pub(crate) fn is_told(state: Subscription, verb: SubscriptionVerb) -> Step {
    let Subscription { to, from, approved } = state;
    let step = |after, passes| Step { after, passes, is_granted: false };
    match verb {
        SubscriptionVerb::Subscribe => match from {
            // The pre-approval is used up.
            Half::None if approved => {
                let after = Subscription { from: Half::Subscribed, approved: false, ..state };
                Step { after, passes: false, is_granted: true }
            }
            Half::None => step(Subscription { from: Half::Pending, ..state }, true),
            Half::Pending => step(state, false),
            Half::Subscribed => Step { after: state, passes: false, is_granted: true },
        },
        SubscriptionVerb::Unsubscribe => {
            step(Subscription { from: Half::None, ..state }, from != Half::None)
        }
        SubscriptionVerb::Subscribed => match to {
            Half::Pending => step(Subscription { to: Half::Subscribed, ..state }, true),
            Half::None | Half::Subscribed => step(state, false),
        },
        SubscriptionVerb::Unsubscribed => {
            step(Subscription { to: Half::None, ..state }, to != Half::None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states in the order of A.1.
    const STATES: [&str; 9] =
        ["none", "none+out", "none+in", "none+out+in", "to", "to+in", "from", "from+out", "both"];

    fn state(name: &str) -> Subscription {
        let half = |subscribed, pending| match (subscribed, pending) {
            (true, _) => Half::Subscribed,
            (false, true) => Half::Pending,
            _ => Half::None,
        };
        let (base, both) = (name.split('+').next().unwrap_or(""), name.starts_with("both"));
        let to = half(both || base == "to", name.contains("+out"));
        let from = half(both || base == "from", name.contains("+in"));
        Subscription { to, from, approved: false }
    }

    /// Each cell of a table: whether it passes, and the state after it ("=": the same).
    fn check(
        step: fn(Subscription, SubscriptionVerb) -> Step,
        verb: SubscriptionVerb,
        cells: [(bool, &str); 9],
    ) {
        for (name, (passes, after)) in STATES.into_iter().zip(cells) {
            let found = step(state(name), verb);
            let after = state(if after == "=" { name } else { after });
            assert_eq!((found.after, found.passes), (after, passes), "{name}, {verb:?}");
        }
    }

    const YES: bool = true;
    const NO: bool = false;

    #[test]
    fn what_an_account_says_does_what_appendix_a_2_says() {
        let same = (YES, "=");
        check(
            says,
            SubscriptionVerb::Subscribe,
            [
                (YES, "none+out"),
                same,
                (YES, "none+out+in"),
                same,
                same,
                same,
                (YES, "from+out"),
                same,
                same,
            ],
        );
        check(
            says,
            SubscriptionVerb::Unsubscribe,
            [
                same,
                (YES, "none"),
                same,
                (YES, "none+in"),
                (YES, "none"),
                (YES, "none+in"),
                same,
                (YES, "from"),
                (YES, "from"),
            ],
        );
        let no = (NO, "=");
        let told = says(state("none"), SubscriptionVerb::Subscribed);
        assert!(told.after.approved && !told.passes, "pre-approval is said to nobody (3.4.2)");
        for (name, passes, after) in [
            ("none+in", YES, "from"),
            ("none+out+in", YES, "from+out"),
            ("to+in", YES, "both"),
            ("from", NO, "from"),
            ("from+out", NO, "from+out"),
            ("both", NO, "both"),
        ] {
            let step = says(state(name), SubscriptionVerb::Subscribed);
            assert_eq!((step.passes, step.after), (passes, state(after)), "{name}");
        }
        for name in ["none+out", "to"] {
            let step = says(state(name), SubscriptionVerb::Subscribed);
            let after = Subscription { approved: true, ..state(name) };
            assert_eq!((step.passes, step.after), (NO, after), "{name}");
        }
        check(
            says,
            SubscriptionVerb::Unsubscribed,
            [
                no,
                no,
                (YES, "none"),
                (YES, "none+out"),
                no,
                (YES, "to"),
                (YES, "none"),
                (YES, "none+out"),
                (YES, "to"),
            ],
        );
    }

    #[test]
    fn what_an_account_is_told_does_what_appendix_a_3_says() {
        let no = (NO, "=");
        check(
            is_told,
            SubscriptionVerb::Subscribe,
            [(YES, "none+in"), (YES, "none+out+in"), no, no, (YES, "to+in"), no, no, no, no],
        );
        check(
            is_told,
            SubscriptionVerb::Unsubscribe,
            [
                no,
                no,
                (YES, "none"),
                (YES, "none+out"),
                no,
                (YES, "to"),
                (YES, "none"),
                (YES, "none+out"),
                (YES, "to"),
            ],
        );
        check(
            is_told,
            SubscriptionVerb::Subscribed,
            [no, (YES, "to"), no, (YES, "to+in"), no, no, no, (YES, "both"), no],
        );
        check(
            is_told,
            SubscriptionVerb::Unsubscribed,
            [
                no,
                (YES, "none"),
                no,
                (YES, "none+in"),
                (YES, "none"),
                (YES, "none+in"),
                no,
                (YES, "from"),
                (YES, "from"),
            ],
        );
    }

    #[test]
    fn who_is_subscribed_and_asks_again_is_answered_in_the_accounts_name() {
        for name in STATES {
            let step = is_told(state(name), SubscriptionVerb::Subscribe);
            let is_subscribed = state(name).from == Half::Subscribed;
            assert_eq!(step.is_granted, is_subscribed, "{name}");
        }
    }

    #[test]
    fn what_was_approved_beforehand_is_granted_once_and_can_be_taken_back() {
        for name in ["none", "none+out", "to"] {
            let approved = says(state(name), SubscriptionVerb::Subscribed).after;
            let step = is_told(approved, SubscriptionVerb::Subscribe);
            let granted = Subscription { from: Half::Subscribed, ..state(name) };
            assert_eq!((step.after, step.is_granted, step.passes), (granted, true, false));
            let back = says(approved, SubscriptionVerb::Unsubscribed);
            assert_eq!((back.after, back.passes), (state(name), false), "nobody is told");
        }
    }
}
