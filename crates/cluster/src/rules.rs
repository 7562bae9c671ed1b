//! The rules of replication by their names, so that a test can take one out.
//!
//! Each invariant of the design rests on some of them. The simulation runs with all rules and must
//! pass, and once without each rule and must fail: a rule that nothing notices is not needed, or
//! not tested. Outside of tests every rule holds, at compile time.

/// A rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// A batch counts only behind the chain that it was written behind.
    ChainFollows,
    /// A batch counts only if its epoch is that of the last Lead.
    EpochIsTheLastLeads,
    /// Behind parts of a stream's first batch no other batch counts before that one.
    BeginWithTheFirstPart,
    /// A message stands behind the one that its writer expects, or nowhere.
    Fence,
    /// Nothing is released before the stream has acknowledged it.
    WaitForTheStream,
    /// An acknowledgement holds only with all before it.
    AcknowledgedInOrder,
    /// Acknowledgements of a round that was given up are void.
    LateAnswersAreVoid,
    /// An unknown outcome is read from the stream before anything is published again.
    SettleByReading,
    /// The stream is purged up to what two disks have.
    PurgeBehindTwoDisks,
    /// The first message of a purged stream belongs to a batch that counts.
    PurgeKeepsACountedBatch,
    /// A claimer asks the other copies before it begins a generation.
    AskTheCopies,
    /// A claimer publishes the tail that the stream lacks before its Lead.
    PublishTheTail,
    /// A log's tail is cut where the stream has another batch.
    CutWhereTheStreamDiffers,
    /// A generation ends with a message in the old stream.
    EndTheGeneration,
    /// A claimer ends a stream only as long as it was when it judged it.
    EndWhatWasJudged,
    /// A node leads only when nothing about its own Lead is unknown any more.
    LeadWhenSettled,
    /// An empty stream is a beginning for the first claim of all, and for no other.
    EmptyStreamIsNoBeginning,
    /// A claim for a generation that is over is given up.
    FollowTheGeneration,
    /// A stream that lacks what was acknowledged is left for a new generation.
    NoticeForgetting,
    /// A leader without proof of a majority does not think that it leads.
    Isolation,
    /// A leader that hung or was out of reach reads the stream before it publishes anything.
    LookAfterSilence,
    /// A leader in doubt about its stream purges nothing before it has read the stream.
    LookBeforePurge,
    /// A leader that hears of a later Lead in a copy leads no more.
    HeedLaterEpochs,
    /// A log that was copied up to a hole is copied anew.
    CopyAnewBehindAGap,
    /// A log is replaced by one that is further, or not at all. The executor of a copy keeps this
    /// rule.
    #[cfg(test)]
    CopyWhatIsFurther,
    /// An empty table is not a beginning.
    EmptyTableIsNoBeginning,
}

impl Rule {
    /// Whether the rule holds: always, but in a test that took it out.
    #[cfg(not(test))]
    #[inline(always)]
    pub(crate) const fn holds(self) -> bool {
        true
    }
}

#[cfg(test)]
pub(crate) use broken::{with_all, without};

#[cfg(test)]
mod broken {
    use super::Rule;
    use std::cell::Cell;

    thread_local! { static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) }; }

    impl Rule {
        pub(crate) const ALL: [Rule; 26] = [
            Rule::ChainFollows,
            Rule::EpochIsTheLastLeads,
            Rule::BeginWithTheFirstPart,
            Rule::Fence,
            Rule::WaitForTheStream,
            Rule::AcknowledgedInOrder,
            Rule::LateAnswersAreVoid,
            Rule::SettleByReading,
            Rule::PurgeBehindTwoDisks,
            Rule::PurgeKeepsACountedBatch,
            Rule::AskTheCopies,
            Rule::PublishTheTail,
            Rule::CutWhereTheStreamDiffers,
            Rule::EndTheGeneration,
            Rule::EndWhatWasJudged,
            Rule::LeadWhenSettled,
            Rule::EmptyStreamIsNoBeginning,
            Rule::FollowTheGeneration,
            Rule::NoticeForgetting,
            Rule::Isolation,
            Rule::LookAfterSilence,
            Rule::LookBeforePurge,
            Rule::HeedLaterEpochs,
            Rule::CopyAnewBehindAGap,
            Rule::CopyWhatIsFurther,
            Rule::EmptyTableIsNoBeginning,
        ];

        pub(crate) fn holds(self) -> bool {
            BROKEN.get() != Some(self)
        }
    }

    /// Runs `test` without a rule.
    pub(crate) fn without<T>(rule: Rule, test: impl FnOnce() -> T) -> T {
        with(Some(rule), test)
    }

    /// Runs `test` with all rules, inside one that lacks a rule: the world's own judgement.
    pub(crate) fn with_all<T>(test: impl FnOnce() -> T) -> T {
        with(None, test)
    }

    fn with<T>(broken: Option<Rule>, test: impl FnOnce() -> T) -> T {
        struct Restore(Option<Rule>);
        impl Drop for Restore {
            fn drop(&mut self) {
                BROKEN.set(self.0);
            }
        }
        let _restore = Restore(BROKEN.replace(broken));
        test()
    }
}
