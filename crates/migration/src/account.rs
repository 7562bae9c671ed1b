//! An account as another server has it, checked and written as a line of an import.
//!
//! Invariant: a line that is written here is one that the server takes, so that an import does not
//! break off at it.

use crate::{ACCOUNTS_MAX, LeftOut, Moving, MovingLine};
use base64::prelude::{BASE64_STANDARD, Engine};
use model::account::AccountAddress;
use model::ports::users::{DOMAIN, ImportForm, UserOrder};
use std::collections::HashSet;

/// Keys for SCRAM (RFC 5802 3), as bytes.
pub(crate) struct Keys {
    pub(crate) iterations: u32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored: Vec<u8>,
    pub(crate) server: Vec<u8>,
}

/// Data of an account.
#[derive(Default)]
pub(crate) struct Account {
    /// Its name, as it stands there.
    pub(crate) name: String,
    /// Its password, if that is known.
    pub(crate) password: Option<String>,
    /// Its keys, of several hashes.
    pub(crate) keys: Vec<Keys>,
    /// Whether logins are refused.
    pub(crate) is_disabled: bool,
}

impl Keys {
    /// As a hash, with its mark; in words, why it is none.
    fn text(&self) -> Result<String, String> {
        let mark = match (self.stored.len(), self.server.len()) {
            (20, 20) => "scram-sha-1",
            (32, 32) => "scram-sha-256",
            (64, 64) => return Err("its keys are SHA-512, which is not supported".into()),
            _ => return Err("its keys are not SHA-1 or SHA-256".into()),
        };
        let (rounds_max, salt_max) = (UserOrder::ROUNDS_MAX, UserOrder::SALT_BYTES_MAX);
        if !(1..=rounds_max).contains(&self.iterations) {
            return Err(format!(
                "its keys have {} rounds; allowed are 1 to {rounds_max}",
                self.iterations
            ));
        }
        if self.salt.is_empty() || self.salt.len() > salt_max {
            return Err(format!(
                "its salt has {} bytes; allowed are 1 to {salt_max}",
                self.salt.len()
            ));
        }
        let [salt, stored, server] =
            [&self.salt, &self.stored, &self.server].map(|bytes| BASE64_STANDARD.encode(bytes));
        Ok(format!("${mark}${}${salt}${stored}${server}", self.iterations))
    }
}

impl Account {
    /// The line of it; in words, why there is none.
    fn line(&self, name: &str) -> Result<(ImportForm, String), String> {
        let Some(password) = &self.password else {
            let mut hashes = self.keys.iter().map(Keys::text).collect::<Result<Vec<_>, _>>()?;
            // The password is checked against the first: the best of them.
            hashes.sort_by_key(|hash| hash.starts_with("$scram-sha-1$"));
            if hashes.is_empty() {
                return Err("it has neither a password nor keys".into());
            }
            let disabled = if self.is_disabled { " disabled" } else { "" };
            return Ok((ImportForm::Passwords, format!("{name}:{}{disabled}", hashes.join(" "))));
        };
        let most = UserOrder::PASSWORD_BYTES_MAX;
        if password.is_empty() || password.len() > most {
            return Err(format!("a password must have 1 to {most} bytes"));
        }
        if self.is_disabled {
            return Err("it is disabled and has a plain-text password: create it by hand".into());
        }
        let quoted = password.replace('"', "\"\"");
        Ok((ImportForm::Csv, format!("{name},\"{quoted}\"")))
    }
}

/// Accounts found so far.
#[derive(Default)]
pub(crate) struct Found {
    moving: Moving,
    names: HashSet<Box<str>>,
}

impl Found {
    /// One more account. `Err`: there are too many.
    pub(crate) fn put(&mut self, place: String, account: &Account) -> Result<(), String> {
        match self.line(account) {
            Ok((form, text)) => {
                if self.moving.lines.len() == ACCOUNTS_MAX {
                    return Err(format!("more than {ACCOUNTS_MAX} accounts"));
                }
                self.moving.lines.push(MovingLine { place, form, text });
            }
            Err(why) => self.leave(place, why),
        }
        Ok(())
    }

    /// Notes an item that is not taken over.
    pub(crate) fn leave(&mut self, place: String, why: impl Into<String>) {
        self.moving.left.push(LeftOut { place, why: why.into() });
    }

    /// Returns all that was found. Lines of one form follow each other.
    pub(crate) fn into_moving(mut self) -> Moving {
        self.moving.lines.sort_by_key(|line| line.form.name());
        self.moving
    }

    fn line(&mut self, account: &Account) -> Result<(ImportForm, String), String> {
        let name = name(&account.name)?;
        let line = account.line(&name)?;
        match self.names.insert(name.as_str().into()) {
            true => Ok(line),
            false => Err(format!("duplicate account `{name}`")),
        }
    }
}

/// A name as accounts have it here.
fn name(text: &str) -> Result<String, String> {
    let text = text.to_ascii_lowercase();
    if text.contains('@') {
        return Err("a name must not contain @".into());
    }
    let address = AccountAddress::parse(&text, DOMAIN).map_err(|fault| fault.to_string())?;
    Ok(address.name().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: usize) -> Keys {
        Keys {
            iterations: 4_096,
            salt: b"salt".into(),
            stored: vec![1; bytes],
            server: vec![2; bytes],
        }
    }

    fn of(name: &str, password: Option<&str>, keys: Vec<Keys>) -> Account {
        let password = password.map(String::from);
        Account { name: name.into(), password, keys, is_disabled: false }
    }

    /// The one line that comes of an account, or why there is none.
    fn line(account: &Account) -> Result<(ImportForm, String), String> {
        let mut found = Found::default();
        found.put("there".into(), account).expect("room");
        let Moving { mut lines, mut left } = found.into_moving();
        match lines.pop() {
            Some(line) => Ok((line.form, line.text)),
            None => Err(left.pop().expect("one or the other").why),
        }
    }

    #[test]
    fn keys_become_a_hash_of_their_length_and_the_better_one_stands_first() {
        let ones = BASE64_STANDARD.encode([1; 20]);
        let twos = BASE64_STANDARD.encode([2; 20]);
        let old = format!("$scram-sha-1$4096$c2FsdA==${ones}${twos}");
        assert_eq!(
            line(&of("Ann", None, vec![keys(20)])),
            Ok((ImportForm::Passwords, format!("ann:{old}")))
        );
        let (_, both) = line(&of("ann", None, vec![keys(20), keys(32)])).expect("a line");
        assert!(both.starts_with("ann:$scram-sha-256$4096$") && both.ends_with(&format!(" {old}")));
        let disabled = Account { is_disabled: true, ..of("ann", None, vec![keys(20)]) };
        assert_eq!(line(&disabled).expect("a line").1, format!("ann:{old} disabled"));
    }

    #[test]
    fn a_plain_password_is_quoted_whatever_is_in_it() {
        for (password, text) in
            [("a b", "ann,\"a b\""), ("a\"b,c", "ann,\"a\"\"b,c\""), (" x\n", "ann,\" x\n\"")]
        {
            let made = line(&of("ann", Some(password), vec![keys(20)]));
            assert_eq!(made, Ok((ImportForm::Csv, text.into())), "the password itself is better");
        }
        let most = UserOrder::PASSWORD_BYTES_MAX;
        assert!(line(&of("ann", Some(&"x".repeat(most)), vec![])).is_ok());
        for wrong in ["", &"x".repeat(most + 1)] {
            assert!(line(&of("ann", Some(wrong), vec![])).is_err_and(|why| why.contains("1024")));
        }
        let disabled = Account { is_disabled: true, ..of("ann", Some("x"), vec![]) };
        assert!(line(&disabled).is_err_and(|why| why.contains("by hand")));
    }

    #[test]
    fn what_the_server_would_not_take_is_left_with_the_reason() {
        let with = |change: &dyn Fn(&mut Keys)| {
            let mut keys = keys(20);
            change(&mut keys);
            line(&of("ann", None, vec![keys]))
        };
        let (rounds, salt) = (UserOrder::ROUNDS_MAX, UserOrder::SALT_BYTES_MAX);
        for right in [1, rounds] {
            assert!(with(&|keys| keys.iterations = right).is_ok());
        }
        for wrong in [0, rounds + 1] {
            assert!(with(&|keys| keys.iterations = wrong).is_err_and(|why| why.contains("rounds")));
        }
        for right in [1, salt] {
            assert!(with(&|keys| keys.salt = vec![7; right]).is_ok());
        }
        for wrong in [0, salt + 1] {
            let made = with(&|keys| keys.salt = vec![7; wrong]);
            assert!(made.is_err_and(|why| why.contains("salt")));
        }
        assert!(with(&|keys| keys.server = vec![2; 32]).is_err_and(|why| why.contains("SHA-1")));
        assert!(line(&of("ann", None, vec![keys(64)])).is_err_and(|why| why.contains("SHA-512")));
        assert!(line(&of("ann", None, vec![])).is_err_and(|why| why.contains("neither")));
    }

    #[test]
    fn names_are_those_of_accounts_and_each_stands_once() {
        let made = |name: &str| line(&of(name, Some("x"), vec![])).map(|(_, text)| text);
        assert_eq!(made("Ann.B_c+d-9"), Ok("ann.b_c+d-9,\"x\"".into()));
        let long = "a".repeat(64);
        assert!(made(&long).is_ok() && made(&format!("{long}a")).is_err());
        for wrong in ["", "a b", "änn", "ann@here", "a/b", "a:b", "a\0"] {
            assert!(made(wrong).is_err(), "{wrong}");
        }
        let mut found = Found::default();
        for name in ["ann", "bob", "ANN"] {
            found.put(name.into(), &of(name, Some("x"), vec![])).expect("room");
        }
        let moving = found.into_moving();
        assert_eq!(moving.lines.len(), 2);
        assert_eq!(moving.left[0].to_string(), "ANN: duplicate account `ann`");
        assert!(!format!("{moving:?}").contains("\\\"x"), "{moving:?}");
    }
}
