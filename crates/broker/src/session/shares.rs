//! The shared groups that one session is a member of.
//!
//! Sorted by their filters. Beside them stands what the session is called there: the timeline by
//! which every shard and node knows it. It knows no group and no message.

use model::timeline::TimelineId;
use std::collections::BTreeSet;

/// A subscription of a shared group.
pub(crate) struct Share {
    /// `$share/group/filter`.
    pub filter: Box<str>,
    /// Number that tells messages of this subscription from other entries of a queue; never 0.
    pub number: u32,
    pub options: u8,
    pub subscription_id: Option<u32>,
}

const _: () = assert!(size_of::<Share>() == 32);

/// A member's terms for messages through a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShareTerms {
    pub number: u32,
    pub options: u8,
    pub subscription_id: Option<u32>,
}

impl Share {
    pub fn terms(&self) -> ShareTerms {
        let Share { number, options, subscription_id, .. } = *self;
        ShareTerms { number, options, subscription_id }
    }
}

/// Shared groups of one session.
#[derive(Default)]
pub(crate) struct Shares {
    all: Vec<Share>,
    /// Its name as a member, from its first group on.
    member: Option<TimelineId>,
}

impl Shares {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Share> {
        self.all.iter()
    }

    /// Its name as a member of groups; absent before it was one.
    pub fn member(&self) -> Option<TimelineId> {
        self.member
    }

    /// The one with this filter.
    pub fn get(&self, filter: &str) -> Option<&Share> {
        match &self.all[..] {
            [one] => (*one.filter == *filter).then_some(one), // as most have
            all => all.get(self.place(filter).ok()?),
        }
    }

    /// The one that entries of a queue came through.
    pub fn numbered(&self, number: u32) -> Option<&Share> {
        self.all.iter().find(|share| share.number == number)
    }

    /// The numbers of all.
    pub fn numbers(&self) -> BTreeSet<u32> {
        self.all.iter().map(|share| share.number).collect()
    }

    /// The first one behind a filter.
    pub fn behind(&self, filter: &str) -> Option<&Share> {
        self.all.get(self.all.partition_point(|share| *share.filter <= *filter))
    }

    /// Sets a shared subscription of the session, with this member. Returns true if it is new.
    pub fn set(&mut self, member: TimelineId, share: Share) -> bool {
        self.member = Some(member);
        match self.place(&share.filter) {
            Ok(at) => {
                self.all[at] = share;
                false
            }
            Err(at) => {
                self.all.insert(at, share);
                true
            }
        }
    }

    /// Sets the options of a shared subscription.
    pub fn set_options(&mut self, filter: &str, options: u8) {
        if let Ok(at) = self.place(filter) {
            self.all[at].options = options;
        }
    }

    /// The session shares it no more; false: it did not.
    pub fn remove(&mut self, filter: &str) -> bool {
        self.place(filter).is_ok_and(|at| {
            self.all.remove(at);
            true
        })
    }

    /// All of them: the session shares nothing any more.
    pub fn take(&mut self) -> Vec<Share> {
        std::mem::take(&mut self.all)
    }

    fn place(&self, filter: &str) -> Result<usize, usize> {
        self.all.binary_search_by(|share| (*share.filter).cmp(filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    #[test]
    fn shares_are_found_by_filter_and_number_and_in_order() {
        let member = TimelineId::of(Space::Sessions, HashKey::new(1, 2), &[b"a"]);
        let share = |filter: &str, number| Share {
            filter: filter.into(),
            number,
            options: 1,
            subscription_id: None,
        };
        let mut shares = Shares::default();
        assert!(shares.is_empty() && shares.member().is_none());
        for (filter, number) in [("b", 2), ("c", 3), ("a", 1)] {
            assert!(shares.set(member, share(filter, number)));
        }
        assert!(!shares.set(member, share("b", 4)), "it is another one's place");
        shares.set_options("a", 2);
        let found = |filter| shares.get(filter).map(|share| (share.number, share.options));
        assert_eq!(
            ["a", "b", "c", "d"].map(found),
            [Some((1, 2)), Some((4, 1)), Some((3, 1)), None]
        );
        assert_eq!(shares.numbers(), [1, 3, 4].into());
        assert!(shares.numbered(4).is_some_and(|share| *share.filter == *"b"));
        let behind = |filter| shares.behind(filter).map(|share| &*share.filter);
        assert_eq!(["", "a", "bb", "c"].map(behind), [Some("a"), Some("b"), Some("c"), None]);
        assert!(shares.remove("b") && !shares.remove("b"));
        assert_eq!(shares.take().len(), 2);
        assert!(
            shares.is_empty() && shares.member() == Some(member),
            "what is late is told so too"
        );
    }
}
