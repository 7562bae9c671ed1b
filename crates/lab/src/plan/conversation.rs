//! Conversations of many that a plan has made: how many there are alike, and who is in each.
//!
//! It names groups of clients and knows no account and no server. Part of [`Plan`](super::Plan).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Conversations of many that are alike: the groups of an instant messaging service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedConversation {
    /// Its name, by which traffic has it for its `topic`.
    pub name: String,
    /// How many there are.
    #[serde(default = "one")]
    pub count: u32,
    /// They are chatrooms, by the names `NAME-0`, `NAME-1` and so on: clients that `subscribe` to
    /// these are in them. Messages that are left out there and told of are not missing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub room: bool,
    /// The group of clients whose first one makes and owns them, and is a member.
    pub owner: String,
    /// Members of each: so many clients of these groups, from the first on.
    pub members: BTreeMap<String, u32>,
}

fn is_false(it: &bool) -> bool {
    !it
}

fn one() -> u32 {
    1
}
