//! Conversations of many members that a plan creates: how many identical ones, and their members.
//!
//! A conversation names groups of clients and knows no account and no server. Part of
//! [`Plan`](super::Plan).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Identical conversations of many members: the groups of an instant messaging service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedConversation {
    /// Its name, used as `topic` of traffic.
    pub name: String,
    /// Number of conversations.
    #[serde(default = "one")]
    pub count: u32,
    /// Whether they are chatrooms, named `NAME-0`, `NAME-1` and so on: clients that `subscribe` to
    /// these names join them. Messages that the target reports as skipped are not missing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub room: bool,
    /// The group of clients whose first client creates and owns them, and is a member.
    pub owner: String,
    /// Members of each: this many clients of these groups, from the first on.
    pub members: BTreeMap<String, u32>,
}

fn is_false(it: &bool) -> bool {
    !it
}

fn one() -> u32 {
    1
}
