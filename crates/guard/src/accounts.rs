//! Files of users and passwords: mosquitto_passwd's, and the same with words behind.
//!
//! ```text
//! # a comment
//! ann:$7$20000$…$…
//! bob:$argon2id$v=19$m=19456,t=2,p=1$…$… $scram-sha-256$4096$…$…$… super
//! eve:$plain$open-sesame disabled
//! ```
//! Behind the name and a colon stands a hash (`passwords.rs`), then, each after a space: keys for
//! SCRAM, of another hash than the hash itself if that is SCRAM's, `super` for who may do
//! everything, `disabled` for who is refused. It reads no files. Invariant: a file with a line that
//! is not understood is refused as a whole.

use crate::passwords::{self, Kept, StoredHash};
use crate::problems::Problems;
use model::ports::users::{ImportForm, UserOrder};
use std::collections::HashMap;

/// Users in a file, at most.
pub const ACCOUNTS_MAX: usize = 5_000_000;

/// Account of a user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Its password.
    pub kept: Kept,
    /// Whether the user may do everything.
    pub is_super: bool,
    /// Whether logins of the user are refused.
    pub is_disabled: bool,
}

/// The users of a file.
#[derive(Debug, Default)]
pub struct Accounts {
    users: HashMap<Box<str>, Account>,
}

impl Accounts {
    /// Reads the text of a file; `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Accounts, Problems> {
        Accounts::at_most(ACCOUNTS_MAX, file, text)
    }

    fn at_most(most: usize, file: &str, text: &str) -> Result<Accounts, Problems> {
        let (mut problems, mut users) = (Problems::of(file), HashMap::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match account(line) {
                Ok(_) if users.len() == most => {
                    problems.add(number, format!("more than {most} users"));
                }
                Ok((name, account)) => {
                    if users.insert(name.into(), account).is_some() {
                        problems.add(number, format!("duplicate user `{name}`"));
                    }
                }
                Err(problem) => problems.add(number, problem),
            }
        }
        problems.or(Accounts { users })
    }

    /// A user.
    pub fn user(&self, name: &str) -> Option<&Account> {
        self.users.get(name)
    }

    /// All their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(|name| &**name)
    }

    /// All accounts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.users.values()
    }

    /// How many users.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether the file has no users.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

/// A line of an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportLine {
    /// The user.
    pub name: String,
    /// Stored form of its password, unless that is plain.
    pub kept: Kept,
    /// Its password, from which what is kept is made.
    pub password: Option<String>,
    /// Whether the user may do everything; absent: as before.
    pub is_super: Option<bool>,
    /// Whether logins of the user are refused; absent: as before.
    pub is_disabled: Option<bool>,
}

impl ImportLine {
    /// Parses a line; `None` if it is empty or a comment. The error says why it is wrong.
    pub fn read(line: &str, form: ImportForm) -> Result<Option<ImportLine>, String> {
        let line = line.trim();
        match form {
            ImportForm::Passwords if line.is_empty() || line.starts_with('#') => Ok(None),
            ImportForm::Passwords => ImportLine::of_file(line).map(Some),
            ImportForm::Csv if line.is_empty() => Ok(None),
            ImportForm::Csv => ImportLine::of_csv(line).map(Some),
        }
    }

    fn of_file(line: &str) -> Result<ImportLine, String> {
        let (name, Account { mut kept, is_super, is_disabled }) = account(line)?;
        let password = match &kept.hash {
            Some(StoredHash::Plain(password)) => Some(String::from(&**password)),
            _ => None,
        };
        if let Some(password) = &password {
            check_password(password)?;
            kept = Kept::default();
        }
        let (is_super, is_disabled) = (Some(is_super), Some(is_disabled));
        Ok(ImportLine { name: name.into(), kept, password, is_super, is_disabled })
    }

    fn of_csv(line: &str) -> Result<ImportLine, String> {
        let wrong = "a line must be a name, a comma and a password, either in quotes if it \
                     contains a comma or a quote, with quotes doubled";
        let (name, rest) = csv_field(line).ok_or(wrong)?;
        let (password, rest) = csv_field(rest.strip_prefix(',').ok_or(wrong)?).ok_or(wrong)?;
        if !rest.is_empty() {
            return Err(wrong.into());
        }
        passwords::check_name(&name)?;
        check_password(&password)?;
        let (is_super, is_disabled) = (None, None);
        let password = Some(password);
        Ok(ImportLine { name, kept: Kept::default(), password, is_super, is_disabled })
    }
}

fn check_password(password: &str) -> Result<(), String> {
    let most = UserOrder::PASSWORD_BYTES_MAX;
    match (1..=most).contains(&password.len()) {
        true => Ok(()),
        false => Err(format!("a password must have 1 to {most} bytes")),
    }
}

/// The first field (RFC 4180 2), and what is behind it.
fn csv_field(text: &str) -> Option<(String, &str)> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let (field, rest) = text.split_at(text.find(',').unwrap_or(text.len()));
        return (!field.contains('"')).then(|| (field.into(), rest));
    };
    let mut field = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        field += part;
        match behind.strip_prefix('"') {
            Some(behind) => (field, rest) = (field + "\"", behind),
            None => return Some((field, behind)),
        }
    }
}

fn account(line: &str) -> Result<(&str, Account), String> {
    let (name, rest) = line.split_once(':').ok_or("a line must be a name, a colon and a hash")?;
    passwords::check_name(name)?;
    let mut words = rest.split_ascii_whitespace();
    let hash = StoredHash::parse(words.next().unwrap_or_default())?;
    let mut account = Account::default();
    for word in words {
        match word {
            "super" => account.is_super = true,
            "disabled" => account.is_disabled = true,
            word => match StoredHash::parse(word) {
                Ok(StoredHash::Scram(keys)) => account.kept.scram.put(keys),
                _ => {
                    let allowed = "$scram-sha-256$…, $scram-sha-1$…, super and disabled";
                    return Err(format!("after the hash, only these are allowed: {allowed}"));
                }
            },
        }
    }
    if let StoredHash::Scram(keys) = &hash {
        account.kept.scram.put(keys.clone());
    }
    account.kept.hash = Some(hash);
    Ok((name, account))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scram::{ScramHash, ScramKeys};

    const HASH: &str = "$6$ZqheiioDwOXS0kKh$yJTts6G8eYpyP17SEcJY7EGwR+GBYV9ZkoT6+liMhOpygESU7ykRZE\
                        gTaVcJxRyU2G5hk+O7/NVSEy41s/DZDQ==";

    fn keys(hash: ScramHash) -> String {
        StoredHash::Scram(ScramKeys::derive(hash, b"x", b"salt", 1)).text()
    }

    #[test]
    fn a_file_names_users_and_what_they_are() {
        let keys = keys(ScramHash::Sha256);
        let text = format!(
            "# users\n\nbob:{HASH}\r\nann b:{HASH} {keys} super\neve:$plain$x disabled\nsc:{keys}\n"
        );
        let file = Accounts::parse("pw", &text).expect("right");
        assert_eq!(file.len(), 4);
        let bob = file.user("bob").expect("there");
        assert!(bob.kept.scram.iter().next().is_none() && !bob.is_super && !bob.is_disabled);
        assert!(bob.kept.hash.as_ref().is_some_and(|hash| hash.is_of("pässword: $x".as_bytes())));
        let ann = file.user("ann b").expect("there");
        assert!(ann.kept.scram.find(ScramHash::Sha256).is_some() && ann.is_super);
        assert!(file.user("eve").is_some_and(|eve| eve.is_disabled));
        assert!(file.user("sc").is_some_and(|user| user.kept.scram.iter().count() == 1));
        assert!(file.user("nobody").is_none());
    }

    #[test]
    fn keys_of_both_hashes_stand_in_a_line_the_one_as_the_hash_or_both_behind_it() {
        let all = ScramHash::ALL.map(keys);
        let [new, old] = &all;
        let file =
            format!("a:{new} {old}\nb:{old} {new}\nc:{HASH} {new} {old} disabled\nd:{old}\n");
        let file = Accounts::parse("pw", &file).expect("right");
        for name in ["a", "b", "c"] {
            let kept = &file.user(name).expect("there").kept;
            let found = ScramHash::ALL.map(|hash| kept.scram.find(hash).cloned());
            let texts = found.map(|keys| StoredHash::Scram(keys.expect("both")).text());
            assert_eq!(texts, all, "{name}");
        }
        let kept = &file.user("d").expect("there").kept;
        assert!(kept.scram.find(ScramHash::Sha256).is_none());
        assert!(kept.hash.as_ref().is_some_and(|hash| hash.is_of(b"x") && !hash.is_of(b"y")));
    }

    #[test]
    fn lines_of_an_import_say_what_is_kept_or_the_password_itself() {
        let read = |line: &str| ImportLine::read(line, ImportForm::Passwords);
        let keys = keys(ScramHash::Sha256);
        let line = read(&format!("ann:{HASH} {keys} super")).expect("right").expect("a user");
        assert_eq!((&*line.name, line.password, line.is_super), ("ann", None, Some(true)));
        assert!(line.kept.hash.is_some() && line.kept.scram.iter().count() == 1);
        let line = read("eve:$plain$open disabled ").expect("right").expect("a user");
        assert_eq!((line.kept, line.password), (Kept::default(), Some("open".into())));
        assert_eq!((line.is_super, line.is_disabled), (Some(false), Some(true)));
        assert_eq!((read("# a comment"), read("  ")), (Ok(None), Ok(None)));
        let long = format!("eve:$plain${}", "x".repeat(1_025));
        for wrong in ["ann", "ann:secret", ":$plain$x", "ann:$plain$x admin", &long] {
            assert!(read(wrong).is_err_and(|why| !why.contains("secret")), "{wrong}");
        }
    }

    #[test]
    fn a_csv_line_is_a_name_and_a_password() {
        let read = |line: &str| {
            let line = ImportLine::read(line, ImportForm::Csv)?;
            Ok::<_, String>(line.map(|line| (line.name, line.password.unwrap_or_default())))
        };
        let both = |name: &str, password: &str| Ok(Some((name.to_owned(), password.to_owned())));
        assert_eq!(read("ann,pass:word\r"), both("ann", "pass:word"));
        assert_eq!(read("\"a,b\",\"p\"\"q\""), both("a,b", "p\"q"));
        assert_eq!(read("ann,#x"), both("ann", "#x"));
        assert_eq!(read(""), Ok(None));
        for wrong in ["ann", "ann,", ",x", "ann,x,y", "ann,\"x", "a\"b,x", "\"ann\"x,y", "a:b,x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_user_above_the_limit_is_named_by_its_line() {
        let text = format!("a:{HASH}\n\nb:{HASH}\nc:{HASH}\n");
        assert!(Accounts::at_most(3, "pw", &text).is_ok_and(|file| file.len() == 3));
        let problems = Accounts::at_most(2, "pw", &text).expect_err("one too many").to_string();
        assert!(problems.starts_with("pw:4: more than 2 users"), "{problems}");
    }

    #[test]
    fn every_wrong_line_is_named() {
        let text = format!("bob\nann:secret\n:{HASH}\nbob:{HASH} admin\nx:{HASH}\nx:{HASH}\n");
        let problems = Accounts::parse("pw", &text).expect_err("wrong").to_string();
        let lines: Vec<_> = problems.lines().map(|line| line.split(' ').next()).collect();
        assert_eq!(lines, ["pw:1:", "pw:2:", "pw:3:", "pw:4:", "pw:6:"].map(Some));
        assert!(!problems.contains("secret"), "{problems}");
    }
}
