//! Users of the user database, without password data, except keys that are requested explicitly.

use crate::orders::users::ACTIONS;
use model::ports::users::{self, UserState};
use schemars::JsonSchema;
use serde::Serialize;

/// A user.
#[derive(Serialize, JsonSchema)]
pub(crate) struct User {
    /// Its name.
    name: String,
    /// Its number, never reused: a user that is deleted and created again has another one. "0" for
    /// the user *.
    uid: String,
    /// Increases whenever all its sessions are ended: by a new password, by disabling, by a kick.
    epoch: String,
    /// Whether it has a password.
    has_password: bool,
    /// Whether it may do everything.
    superuser: bool,
    /// Whether it is disabled.
    disabled: bool,
    /// Its access rules; the first that matches applies.
    rules: Vec<UserRule>,
}

/// Keys that verify a password which the server does not know.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UserKeys {
    /// Each `$scram-sha-256$ROUNDS$SALT$STORED$SERVER`, or of SHA-1; in base64.
    pub(crate) keys: Vec<String>,
}

/// One access rule of a user.
#[derive(Serialize, JsonSchema)]
struct UserRule {
    /// True: allowed; false: forbidden.
    allow: bool,
    /// The kind of access.
    #[schemars(extend("enum" = ACTIONS.map(|(word, _)| word)))]
    action: &'static str,
    /// Topic filter, with %c for the client identifier and %u for the user.
    filter: String,
}

impl From<&UserState> for User {
    fn from(state: &UserState) -> User {
        let rules = state.rules.iter().map(|rule| {
            let about = (rule.publish, rule.read);
            let action = ACTIONS.into_iter().find(|(_, known)| *known == about);
            let action = action.map_or("none", |(word, _)| word);
            UserRule { allow: rule.allow, action, filter: rule.filter.clone() }
        });
        User {
            name: state.name.clone(),
            uid: state.uid.to_string(),
            epoch: state.epoch.to_string(),
            has_password: state.has_password,
            superuser: state.is_super,
            disabled: state.is_disabled,
            rules: rules.collect(),
        }
    }
}

/// Result of an import.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Imported {
    /// Number of processed lines, from the first. The next import continues after them.
    done: usize,
    /// Users created.
    made: usize,
    /// Users changed.
    changed: usize,
    /// Users unchanged.
    same: usize,
    /// Fault of the next line, with what is allowed; null: none.
    wrong: Option<String>,
}

impl From<users::Imported> for Imported {
    fn from(imported: users::Imported) -> Imported {
        let users::Imported { done, made, changed, same, wrong } = imported;
        Imported { done, made, changed, same, wrong }
    }
}

/// A page of users.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Users {
    /// The page, in a stable order, not by name.
    pub(crate) users: Vec<User>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
    /// Users of the user database, on all pages.
    pub(crate) total: u64,
}
