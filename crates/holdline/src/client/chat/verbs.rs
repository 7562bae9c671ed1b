//! Changes that `holdline chat change` and `holdline chat chatroom` can make, with their help.

use clap::builder::{PossibleValue, PossibleValuesParser};

const GROUP: [(&str, &str); 25] = [
    ("add", "Add members"),
    ("remove", "Remove members"),
    ("join", "Add an account to a public or unlocked group, as if it had joined"),
    ("invite", "Invite accounts"),
    ("ban", "Remove accounts and refuse them from now on"),
    ("unban", "Lift bans"),
    ("hand-over", "Make a member the only owner"),
    ("add-owner", "Make members owners, too"),
    ("remove-owner", "Make owners admins; one owner stays"),
    ("promote", "Make members admins"),
    ("demote", "Make admins ordinary members"),
    ("mute", "Mute members"),
    ("unmute", "Unmute members"),
    ("close", "Let only owner and admins send messages"),
    ("open", "Let all members send messages"),
    ("rename", "Change the title (--title)"),
    ("describe", "Change the description (--title)"),
    ("lock", "Accounts become members only if added or invited"),
    ("unlock", "Accounts that know the address can join"),
    ("reveal", "List the group publicly"),
    ("hide", "Remove the group from the public list"),
    ("persist", "Keep the group until it is dissolved"),
    ("unpersist", "Dissolve the group when its room is empty"),
    ("set", "Change a rule of the XMPP room (--title \"RULE VALUE\")"),
    ("dissolve", "Remove all members and end the group"),
];

const CHATROOM: [(&str, &str); 13] = [
    ("create", "Create the chatroom, with a title (--text)"),
    ("rename", "Change the title (--text)"),
    ("announce", "Change the announcement (--text)"),
    ("promote", "Make an account a moderator"),
    ("demote", "Make moderators ordinary participants"),
    ("mute", "Mute accounts"),
    ("unmute", "Unmute accounts"),
    ("kick", "Remove accounts; they may join again"),
    ("ban", "Remove accounts and refuse them from now on"),
    ("unban", "Lift bans"),
    ("quiet", "Let only owner and moderators send messages"),
    ("open", "Let all participants send messages"),
    ("close", "End the chatroom"),
];

/// The changes of a group.
pub fn of_group() -> PossibleValuesParser {
    parser(&GROUP)
}

/// The changes of a chatroom.
pub fn of_chatroom() -> PossibleValuesParser {
    parser(&CHATROOM)
}

fn parser(verbs: &[(&'static str, &'static str)]) -> PossibleValuesParser {
    PossibleValuesParser::new(
        verbs.iter().map(|(word, help)| PossibleValue::new(*word).help(*help)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::chat::{ChatroomVerb, GroupVerb};
    use std::collections::BTreeSet;

    #[test]
    fn every_change_of_the_api_can_be_made() {
        let words = |verbs: &[(&'static str, &str)]| -> BTreeSet<&str> {
            verbs.iter().map(|(word, _)| *word).collect()
        };
        // A group is created by another call, and whoever leaves does so itself.
        let others = GroupVerb::ALL.iter().map(|verb| verb.word());
        let others: BTreeSet<_> =
            others.filter(|word| !["create", "leave"].contains(word)).collect();
        assert_eq!(words(&GROUP), others);
        let all: BTreeSet<_> = ChatroomVerb::ALL.iter().map(|verb| verb.word()).collect();
        assert_eq!(words(&CHATROOM), all);
    }
}
