//! Roles of people at the console: users of the book who log in by name and password.
//!
//! A role is a set of scopes, as tokens have them; so what each may stands where it does for
//! tokens, in the table of routes. It knows neither passwords nor sessions. Invariant: a user
//! without a role gets nothing.

use crate::tokens::scope::Scopes;
use base::words;
use std::collections::BTreeMap;

words! {
    /// Role of a user at the console.
    pub enum ConsoleRole {
        /// Looks at everything and changes nothing.
        Viewer = "viewer",
        /// Ends, pushes, publishes and traces, too.
        Operator = "operator",
        /// May do everything.
        Admin = "admin",
    }
}

impl ConsoleRole {
    /// Scopes of the role.
    pub(crate) fn scopes(self) -> Scopes {
        let words: &[&str] = match self {
            ConsoleRole::Viewer => &["metrics", "read", "view"],
            ConsoleRole::Operator => {
                &["metrics", "read", "view", "push", "publish", "manage", "trace"]
            }
            ConsoleRole::Admin => &["admin"],
        };
        Scopes::of(words.iter().copied()).expect("they are words of scopes")
    }
}

/// Roles by user name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Roles(BTreeMap<String, ConsoleRole>);

impl Roles {
    /// Users of each role; who is in several lists has the role that may most.
    pub fn of(viewers: &[String], operators: &[String], admins: &[String]) -> Roles {
        let lists = [
            (viewers, ConsoleRole::Viewer),
            (operators, ConsoleRole::Operator),
            (admins, ConsoleRole::Admin),
        ];
        let each =
            lists.into_iter().flat_map(|(users, role)| users.iter().map(move |it| (it, role)));
        Roles(each.map(|(user, role)| (user.clone(), role)).collect())
    }

    /// The role of a user.
    pub(crate) fn role(&self, user: &str) -> Option<ConsoleRole> {
        self.0.get(user).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::scope::Scope;

    #[test]
    fn each_role_may_what_the_one_before_may() {
        let all = |role: ConsoleRole| {
            let held = Scope::ALL.into_iter().filter(|(_, scope)| role.scopes().allow(&[*scope]));
            held.map(|(word, _)| word).collect::<Vec<_>>()
        };
        let roles = [ConsoleRole::Viewer, ConsoleRole::Operator, ConsoleRole::Admin].map(all);
        assert_eq!(roles[0], ["metrics", "read", "view"]);
        assert!(roles[0].iter().all(|scope| roles[1].contains(scope)));
        assert!(!roles[1].contains(&"users") && !roles[1].contains(&"admin"));
        assert_eq!(roles[2].len(), Scope::ALL.len());
    }

    #[test]
    fn who_is_in_several_lists_has_the_role_that_may_most() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let roles = Roles::of(&names(&["ann", "bob"]), &names(&["bob", "eve"]), &names(&["eve"]));
        let of = |user| roles.role(user);
        assert_eq!(
            (of("ann"), of("bob")),
            (Some(ConsoleRole::Viewer), Some(ConsoleRole::Operator))
        );
        assert_eq!((of("eve"), of("Ann")), (Some(ConsoleRole::Admin), None));
    }
}
