//! Orders to the book that came by another way than the API: they are in the audit log as the API's
//! own are, and end the same sessions of the console.

use super::{Entry, Keep, Outcome, cut};
use crate::api::Shared;
use std::sync::{Arc, Weak};

/// Milliseconds in which what people do with their own accounts shares an entry where it is alike.
const OWN_MS: u64 = 10_000;

/// An order to the book of accounts that did not come by the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookNote {
    /// The administrator whose order it is; absent: it is about the own account.
    pub by: Option<String>,
    /// Name of the action.
    pub action: &'static str,
    /// Users that the order is about.
    pub users: Vec<String>,
    /// The code of the refusal; absent: it was done.
    pub code: Option<&'static str>,
}

impl BookNote {
    /// The entry of the audit log. Administrators are distinguished from tokens by the `xmpp:`
    /// before their names.
    fn entry(&self, at_ms: u64) -> Entry {
        let status = match self.code {
            None => 200,
            Some("forbidden") => 403,
            Some("unknown_user") => 404,
            Some("conflict" | "users_full") => 409,
            Some("busy" | "store_failed") => 503,
            Some(_) => 400,
        };
        Entry {
            at_ms,
            token: self.by.as_ref().map(|by| cut(&format!("xmpp:{by}"))),
            peer: None,
            action: format!("XMPP {}", self.action),
            on: cut(&self.users.join(" ")),
            outcome: Outcome::of(status),
            status,
            code: self.code,
            more: 0,
        }
    }
}

/// Stores the entry of an order, and ends console sessions that are no longer justified. May block;
/// without an API it does nothing.
pub(crate) fn note(api: &Weak<Shared>, note: BookNote) {
    let Some(api): Option<Arc<Shared>> = api.upgrade() else { return };
    let keep = if note.by.is_some() { Keep::Each } else { Keep::Gathered(OWN_MS) };
    let entries = api.audit_log.gather(keep, note.entry((api.settings.wall_ms)()));
    api.audit_log.keep(keep, &entries);
    api.end_outdated(note.users);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_an_administrator_says_whose_it_was_and_what_came_of_it() {
        let of = |by: Option<&str>, code| {
            let users = vec!["bob".into(), "eve".into()];
            let note = BookNote { by: by.map(Into::into), action: "remove", users, code };
            let entry = note.entry(7);
            (entry.token, entry.action, entry.on, entry.outcome, entry.status)
        };
        let ann = || (Some("xmpp:ann".into()), "XMPP remove".into(), "bob eve".into());
        let with = |(token, action, on), outcome, status| (token, action, on, outcome, status);
        assert_eq!(of(Some("ann"), None), with(ann(), Outcome::Done, 200));
        assert_eq!(of(Some("ann"), Some("forbidden")), with(ann(), Outcome::Refused, 403));
        assert_eq!(of(Some("ann"), Some("unknown_user")), with(ann(), Outcome::Failed, 404));
        assert_eq!(of(None, None).0, None);
    }
}
