//! Scopes of a token: a set of words that say what it may do.
//!
//! `admin` is all of them; `read` brings `metrics` along. Which word a route wants stands in the
//! table of routes. Invariant: a word that is not known makes no set.

/// One right that a token may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Figures of the server: counters, gauges, counts.
    Metrics = 1,
    /// All that can be looked at but users, tokens and the log of calls.
    Read = 2,
    /// Push to devices, and ask what became of it.
    Push = 4,
    /// Publish to topics.
    Publish = 8,
    /// Operate: end, block and change devices, clients, sessions and what is retained.
    Manage = 16,
    /// The book of users.
    Users = 32,
    /// All rights, also products with their secrets, backups, tokens and the log of calls.
    Admin = 64,
    /// Look at configuration, users, tokens and the log of calls, secrets left out.
    View = 128,
    /// Follow what is said, live and decoded.
    Trace = 256,
    /// Chat: what people say, and to speak in the name of any account.
    Chat = 512,
}

impl Scope {
    /// All, with their words.
    pub(crate) const ALL: [(&str, Scope); 10] = [
        ("metrics", Scope::Metrics),
        ("read", Scope::Read),
        ("push", Scope::Push),
        ("publish", Scope::Publish),
        ("manage", Scope::Manage),
        ("users", Scope::Users),
        ("chat", Scope::Chat),
        ("view", Scope::View),
        ("trace", Scope::Trace),
        ("admin", Scope::Admin),
    ];

    /// Its word.
    pub(crate) fn name(self) -> &'static str {
        let found = Scope::ALL.iter().find(|(_, scope)| *scope == self);
        found.map_or("", |(name, _)| name)
    }
}

/// A set of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Scopes(u16);

impl Scopes {
    /// Of the file's token.
    pub(crate) const ALL: Scopes = Scopes(Scope::Admin as u16);

    /// The set of these words; `Err` is the one that is none.
    pub(crate) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Scopes, &'a str> {
        let mut scopes = Scopes::default();
        for name in names {
            let found = Scope::ALL.iter().find(|(known, _)| *known == name);
            scopes.0 |= found.ok_or(name)?.1 as u16;
        }
        Ok(scopes)
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This one is in it by its own word.
    pub(crate) fn has(self, scope: Scope) -> bool {
        self.0 & scope as u16 != 0
    }

    /// Whether the scopes include one of these.
    pub(crate) fn allow(self, wanted: &[Scope]) -> bool {
        let read = self.has(Scope::Read) && wanted.contains(&Scope::Metrics);
        self.has(Scope::Admin) || read || wanted.iter().any(|&scope| self.has(scope))
    }

    /// Its words.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let held = Scope::ALL.iter().filter(|(_, scope)| self.has(*scope));
        held.map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_allows_what_its_words_say() {
        let of = |names: &[&'static str]| Scopes::of(names.iter().copied()).expect("words");
        assert!(of(&["push"]).allow(&[Scope::Read, Scope::Push]));
        assert!(!of(&["push", "publish"]).allow(&[Scope::Read]));
        assert!(of(&["read"]).allow(&[Scope::Metrics]) && !of(&["metrics"]).allow(&[Scope::Read]));
        for (_, scope) in Scope::ALL {
            assert!(Scopes::ALL.allow(&[scope]), "{scope:?}");
            assert_eq!(scope == Scope::Admin, of(&["admin"]).has(scope));
            let others = Scope::ALL.into_iter().filter(|(_, other)| *other != scope);
            let others = Scopes::of(others.map(|(name, _)| name).filter(|name| *name != "admin"));
            let alone = !others.expect("words").allow(&[scope]);
            assert_eq!(alone, scope != Scope::Metrics, "{scope:?}: `read` brings `metrics`");
        }
        assert_eq!(Scopes::of(["read", "reed"]), Err("reed"));
        assert!(Scopes::default().is_empty() && !Scopes::default().allow(&[Scope::Metrics]));
        assert_eq!(of(&["users", "read"]).names(), ["read", "users"]);
    }
}
