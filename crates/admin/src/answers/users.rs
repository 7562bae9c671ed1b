//! Users of the book, without anything of their passwords but keys that are asked for by name.

use crate::orders::users::ACTIONS;
use model::ports::users::{self, UserState};
use schemars::JsonSchema;
use serde::Serialize;

/// A user.
#[derive(Serialize, JsonSchema)]
pub(crate) struct User {
    /// Its name.
    name: String,
    /// Its number, never given twice: a user that is removed and made again has another. "0" of
    /// the user *.
    uid: String,
    /// Rises whenever all its sessions are ended: with a new password, when it is disabled, by a
    /// kick.
    epoch: String,
    /// It has a password.
    has_password: bool,
    /// It may do everything.
    superuser: bool,
    /// It is refused.
    disabled: bool,
    /// What it may do; the first that matches holds.
    rules: Vec<UserRule>,
}

/// What checks a password that nobody here knows.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UserKeys {
    /// Each `$scram-sha-256$ROUNDS$SALT$STORED$SERVER`, or of SHA-1; in base64.
    pub(crate) keys: Vec<String>,
}

/// One line of what a user may do.
#[derive(Serialize, JsonSchema)]
struct UserRule {
    /// Allowed, or forbidden.
    allow: bool,
    /// What it is about.
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

/// What became of the lines of an import.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Imported {
    /// Lines that are done, from the first. The next import goes on behind them.
    done: usize,
    /// Users that were made.
    made: usize,
    /// Users that were changed.
    changed: usize,
    /// Users that were so before.
    same: usize,
    /// What is wrong with the line behind those that are done, and what is allowed; null: nothing.
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
    /// The page, in an order that stays the same and is not that of names.
    pub(crate) users: Vec<User>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
    /// Users of the book, on all pages.
    pub(crate) total: u64,
}
