//! Accounts of the book, as rows and as what they mean.
//!
//! A row's value, numbers big endian:
//!
//! ```text
//! | 3 | standing u8 | uid u64 | epoch u64 | password 2+n | SHA-256 2+n | SHA-1 2+n | rules … |
//! ```
//! Password and keys for SCRAM, by their hash, are texts (`passwords.rs`), empty where there are
//! none; the rules are JSON, `[["allow","both","a/#"],…]`, and nothing where nothing is said of
//! them. Rows that begin with 2 have no keys of SHA-1: they are read as well. A start reads only a
//! part of a row: its standing, its rules, and the visible part of its keys. The row of `*` holds
//! rules of everybody and nothing else. It writes nothing: whoever does puts a row here after it is
//! on stable storage. Invariant: what is made by [`UserEntry::ordered`] is read again by
//! [`UserEntry::read`].

pub mod columns;

use crate::access_control::decoys::KeyKind;
use crate::access_control::known::Standing;
use crate::accounts::{Account, ImportLine};
use crate::passwords::{self, Kept, StoredHash};
use crate::rules::{List, RuleLine};
use crate::scram::{KeysByHash, ScramHash, ScramKeys};
use model::ports::access::GrantedAccount;
use model::ports::users::{UserOrder, UserRule, UserState};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name under which the rules of everybody stand.
pub const EVERYBODY: &str = "*";

/// First byte of a row.
const FORMAT: u8 = 3;

/// First byte of a row without keys of SHA-1.
const FORMAT_SHA_256: u8 = 2;

/// Hashes of a row's keys, in their order.
const KEY_HASHES: [ScramHash; 2] = [ScramHash::Sha256, ScramHash::Sha1];

/// Bytes of a row in front of its texts.
const FIXED_BYTES: usize = 18;

/// The epoch of a new account.
const FIRST_EPOCH: u64 = 1;

/// An account of the book.
#[derive(Clone, Debug, Default)]
pub struct UserEntry {
    /// Its number, never given twice; 0 of [`EVERYBODY`].
    pub uid: u64,
    /// Sessions that were granted with a lower one are over.
    pub epoch: u64,
    /// The account.
    pub account: Account,
    /// Its permissions; absent: unspecified.
    pub rules: Option<Arc<List>>,
}

/// Part of each row that is in memory.
#[derive(Clone, Debug, Default)]
pub struct RowMark {
    /// Its number.
    pub uid: u64,
    /// State of the account.
    pub standing: Standing,
    /// Rules of its own.
    pub rules: Option<Arc<List>>,
    /// Public part of its keys.
    pub(crate) kinds: Vec<KeyKind>,
}

impl UserEntry {
    /// A new account, with a number that was never given.
    pub fn new(uid: u64) -> UserEntry {
        UserEntry { uid, epoch: FIRST_EPOCH, ..UserEntry::default() }
    }

    /// The account after an order, with the hashes of the new password, if there is one; an error
    /// says in words why the order is refused.
    pub fn ordered(&self, order: &UserOrder, kept: Option<Kept>) -> Result<UserEntry, String> {
        let mut entry = self.clone();
        let account = &mut entry.account;
        account.is_super = order.is_super.unwrap_or(account.is_super);
        account.is_disabled = order.is_disabled.unwrap_or(account.is_disabled);
        if let Some(rules) = &order.rules {
            entry.rules = list(rules)?;
        }
        if let Some(kept) = kept {
            account.kept = kept;
        }
        Ok(self.raised(entry))
    }

    /// The row after a line of an import, with the stored password; absent: as before.
    /// Rules stay.
    pub fn imported(&self, line: &ImportLine, kept: Option<Kept>) -> UserEntry {
        let mut entry = self.clone();
        let account = &mut entry.account;
        account.is_super = line.is_super.unwrap_or(account.is_super);
        account.is_disabled = line.is_disabled.unwrap_or(account.is_disabled);
        account.kept = kept.unwrap_or(self.account.kept.clone());
        self.raised(entry)
    }

    /// A change of it, with the epoch that it has.
    pub(crate) fn raised(&self, mut changed: UserEntry) -> UserEntry {
        let (was, is) = (&self.account, &changed.account);
        let is_other = is.kept != was.kept && was.kept != Kept::default();
        if is_other || is.is_disabled && !was.is_disabled {
            changed.epoch += 1;
        }
        changed
    }

    /// The account with its sessions ended.
    pub fn kicked(&self) -> UserEntry {
        UserEntry { epoch: self.epoch + 1, ..self.clone() }
    }

    /// As sessions are granted it.
    pub fn granted(&self) -> GrantedAccount {
        GrantedAccount { uid: self.uid, epoch: self.epoch }
    }

    /// Part of it that is in memory.
    pub fn mark(&self) -> RowMark {
        let Account { is_super, is_disabled, .. } = self.account;
        let standing = Standing { is_super, is_disabled, is_ruled: self.rules.is_some() };
        let kinds = self.account.kept.scram.iter().map(KeyKind::of).collect();
        RowMark { uid: self.uid, standing, rules: self.rules.clone(), kinds }
    }

    /// The row's value.
    pub fn row(&self) -> Box<[u8]> {
        let Kept { hash, scram } = &self.account.kept;
        let hash = hash.as_ref().map_or_else(String::new, StoredHash::text);
        let keys =
            KEY_HASHES.map(|hash| scram.find(hash).map_or_else(String::new, ScramKeys::text));
        let mut row = vec![FORMAT, self.mark().standing.bits()];
        row.extend_from_slice(&self.uid.to_be_bytes());
        row.extend_from_slice(&self.epoch.to_be_bytes());
        for text in std::iter::once(hash).chain(keys) {
            let length = u16::try_from(text.len()).expect("a hash is shorter");
            row.extend_from_slice(&length.to_be_bytes());
            row.extend_from_slice(text.as_bytes());
        }
        row.extend_from_slice(self.rules_text().as_bytes());
        row.into()
    }

    /// Its rules as a text; "" where nothing is said of them.
    pub(crate) fn rules_text(&self) -> String {
        let json = |list: &Arc<List>| list.rules().iter().map(rule_to_json).collect::<Value>();
        self.rules.as_ref().map_or_else(String::new, |list| json(list).to_string())
    }

    /// Content of a row; `None`: it cannot be read.
    pub fn read(row: &[u8]) -> Option<UserEntry> {
        let Parts { standing, fixed, password, keys, rules } = Parts::of(row)?;
        let password = Some(password).filter(|text| !text.is_empty());
        let password = password.map(StoredHash::parse).transpose().ok()?;
        let mut scram = KeysByHash::default();
        for (hash, text) in KEY_HASHES.into_iter().zip(keys).filter(|(_, text)| !text.is_empty()) {
            let keys = ScramKeys::parse(hash, text)?;
            scram.put(match &password {
                // They stand in the row twice, and once in memory.
                Some(StoredHash::Scram(same)) if *same == keys => same.clone(),
                _ => keys,
            });
        }
        let kept = Kept { hash: password, scram };
        let Standing { is_super, is_disabled, .. } = standing;
        let number = |at: usize| fixed[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        Some(UserEntry {
            uid: number(2)?,
            epoch: number(10)?,
            account: Account { kept, is_super, is_disabled },
            rules: read_rules(standing, rules)?,
        })
    }

    /// Part of a row that is in memory, without parsing the rest; `None`: it cannot be read.
    pub fn read_mark(row: &[u8]) -> Option<RowMark> {
        let Parts { fixed, standing, keys, rules, .. } = Parts::of(row)?;
        let uid = fixed[2..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes))?;
        let keys = KEY_HASHES.into_iter().zip(keys);
        let keys = keys.filter_map(|(hash, text)| ScramKeys::parse(hash, text));
        let kinds = keys.map(|keys| KeyKind::of(&keys)).collect();
        Some(RowMark { uid, standing, rules: read_rules(standing, rules)?, kinds })
    }

    /// Its keys for SCRAM, as lines of a password file have them.
    pub fn key_texts(&self) -> Vec<String> {
        let keys = self.account.kept.scram.iter();
        keys.map(|keys| format!("${}${}", keys.hash.mark(), keys.text())).collect()
    }

    /// State of the account for callers of the book.
    pub fn state(&self, name: &str) -> UserState {
        UserState {
            name: name.into(),
            uid: self.uid,
            epoch: self.epoch,
            has_password: self.account.kept.hash.is_some(),
            is_super: self.account.is_super,
            is_disabled: self.account.is_disabled,
            rules: self.rules.as_ref().map_or_else(Vec::new, |list| list.rules()),
        }
    }
}

/// A row, taken apart.
struct Parts<'a> {
    standing: Standing,
    fixed: &'a [u8; FIXED_BYTES],
    password: &'a str,
    /// By the hashes of [`KEY_HASHES`].
    keys: [&'a str; KEY_HASHES.len()],
    rules: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(row: &'a [u8]) -> Option<Parts<'a>> {
        let (fixed, mut rest) = row.split_first_chunk::<FIXED_BYTES>()?;
        let is_known = matches!(fixed[0], FORMAT | FORMAT_SHA_256);
        if !is_known || fixed[1] > Standing::ALL_BITS {
            return None;
        }
        let mut text = || {
            let (length, behind) = rest.split_first_chunk()?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (text, behind) = behind.split_at_checked(length)?;
            rest = behind;
            std::str::from_utf8(text).ok()
        };
        let password = text()?;
        let keys = [text()?, if fixed[0] == FORMAT { text()? } else { "" }];
        Some(Parts { standing: Standing::of_bits(fixed[1]), fixed, password, keys, rules: rest })
    }
}

/// The inner `None`: nothing is said of rules; the outer one: they cannot be read.
pub(crate) fn read_rules(standing: Standing, text: &[u8]) -> Option<Option<Arc<List>>> {
    if !standing.is_ruled {
        return text.is_empty().then_some(None);
    }
    let Ok(Value::Array(rules)) = serde_json::from_slice(text) else { return None };
    let rules = rules.iter().map(rule_of_json).collect::<Option<Vec<_>>>()?;
    list(&rules).ok()?.map(Some)
}

/// Whether a user may be ordered so; in words, why not.
pub fn check(order: &UserOrder) -> Result<(), String> {
    let most = UserOrder::PASSWORD_BYTES_MAX;
    let is_sized = |password: &String| (1..=most).contains(&password.len());
    if order.password.as_ref().is_some_and(|password| !is_sized(password)) {
        return Err(format!("a password must have 1 to {most} bytes"));
    }
    if order.name != EVERYBODY {
        return passwords::check_name(&order.name);
    }
    match order.password.is_some() || order.is_super.is_some() || order.is_disabled.is_some() {
        true => Err("the user * stands for everybody: it can have rules only".into()),
        false => Ok(()),
    }
}

/// No rules at all are nothing said.
fn list(rules: &[UserRule]) -> Result<Option<Arc<List>>, String> {
    if rules.len() > UserOrder::RULES_MAX {
        return Err(format!("a user can have at most {} rules", UserOrder::RULES_MAX));
    }
    let lines = rules.iter().map(RuleLine::of).collect::<Result<Vec<_>, _>>()?;
    Ok((!lines.is_empty()).then(|| Arc::new(List::new(lines))))
}

fn rule_to_json(rule: &UserRule) -> Value {
    let act = match (rule.publish, rule.read) {
        (true, false) => "publish",
        (false, true) => "read",
        _ => "both",
    };
    json!([if rule.allow { "allow" } else { "deny" }, act, rule.filter])
}

fn rule_of_json(value: &Value) -> Option<UserRule> {
    let [allow, act, filter] = &**value.as_array()? else { return None };
    let allow = match allow.as_str()? {
        "allow" => true,
        "deny" => false,
        _ => return None,
    };
    let (publish, read) = match act.as_str()? {
        "publish" => (true, false),
        "read" => (false, true),
        "both" => (true, true),
        _ => return None,
    };
    Some(UserRule { allow, publish, read, filter: filter.as_str()?.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passwords::{Cost, Hashing};

    const HASHING: Hashing = Hashing {
        cost: Cost::Light,
        scram_iterations: 4_096,
        scheme: crate::passwords::HashScheme::Pbkdf2,
        scram_sha_1: true,
    };

    fn order(name: &str) -> UserOrder {
        UserOrder {
            name: name.into(),
            password: Some("secret".into()),
            is_super: None,
            is_disabled: None,
            rules: Some(vec![
                UserRule { allow: true, publish: true, read: false, filter: "a/%c/#".into() },
                UserRule { allow: false, publish: true, read: true, filter: "b".into() },
            ]),
        }
    }

    fn put(before: Option<&UserEntry>, order: &UserOrder) -> Result<UserEntry, String> {
        check(order)?;
        let password = order.password.as_ref();
        let kept = password.map(|password| HASHING.hash(password.as_bytes(), [3; 32]));
        before.unwrap_or(&UserEntry::new(7)).ordered(order, kept)
    }

    #[test]
    fn a_row_says_what_was_ordered() {
        let first = put(None, &order("ann")).expect("right");
        let read = UserEntry::read(&first.row()).expect("a row");
        assert_eq!((&read.account, read.state("ann")), (&first.account, first.state("ann")));
        assert_eq!(read.account.kept.scram.iter().count(), 2);
        assert_eq!(read.granted(), GrantedAccount { uid: 7, epoch: 1 });
        assert_eq!(read.state("ann").rules, order("ann").rules.expect("some"));
        let change =
            UserOrder { password: None, rules: None, is_disabled: Some(true), ..order("ann") };
        let second = put(Some(&read), &change).expect("right");
        assert_eq!(second.account.kept, first.account.kept, "the password stays");
        let state = UserEntry::read(&second.row()).expect("a row").state("ann");
        assert!(state.is_disabled && state.rules.len() == 2);
        let mark = UserEntry::read_mark(&second.row()).expect("a row");
        assert_eq!(
            (mark.standing, mark.rules.map(|list| list.len())),
            (Standing { is_super: false, is_disabled: true, is_ruled: true }, Some(2))
        );
        let bare = UserOrder { password: None, rules: Some(vec![]), ..order("ann") };
        assert!(put(Some(&second), &bare).is_ok_and(|entry| entry.rules.is_none()));
    }

    #[test]
    fn rows_of_the_form_before_are_read_and_written_in_the_new_one() {
        let whole = put(None, &order("ann")).expect("right");
        let keys = whole.account.kept.scram.find(ScramHash::Sha1).expect("both").text();
        let (row, text) = (whole.row(), [&[0, keys.len() as u8], keys.as_bytes()].concat());
        let at = row.windows(text.len()).position(|part| part == text).expect("it stands there");
        let mut old = [&row[..at], &row[at + text.len()..]].concat();
        old[0] = 2;
        let read = UserEntry::read(&old).expect("a row");
        assert_eq!(read.account.kept.hash, whole.account.kept.hash);
        assert!(
            read.account.kept.scram.iter().eq(whole.account.kept.scram.find(ScramHash::Sha256))
        );
        assert_eq!(read.state("ann"), whole.state("ann"));
        let mark = UserEntry::read_mark(&old).expect("a row");
        assert_eq!(mark.rules.map(|list| list.len()), Some(2));
        assert_eq!(read.row()[0], 3);
        assert!(UserEntry::read(&read.row()).is_some_and(|again| again.account == read.account));
        for end in 0..old.len() {
            assert!(UserEntry::read(&old[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn what_ends_sessions_raises_the_epoch_and_nothing_else_does() {
        let bare = UserOrder { password: None, rules: None, ..order("ann") };
        let word = |word: &str| UserOrder { password: Some(word.into()), ..bare.clone() };
        let disabled = |is| UserOrder { is_disabled: Some(is), ..bare.clone() };
        let mut entry = UserEntry::new(7);
        for (order, epoch) in [
            (bare.clone(), 1),
            (word("first"), 1),
            (word("first"), 1),
            (word("second"), 2),
            (order("ann"), 3),
            (UserOrder { password: None, ..order("ann") }, 3),
            (disabled(true), 4),
            (disabled(true), 4),
            (disabled(false), 4),
            (UserOrder { is_super: Some(true), ..bare.clone() }, 4),
        ] {
            entry = put(Some(&entry), &order).expect("right");
            assert_eq!((entry.uid, entry.epoch), (7, epoch), "{:?}", entry.account);
        }
        assert_eq!(entry.kicked().epoch, 5);
    }

    #[test]
    fn orders_that_break_a_rule_are_refused() {
        let rule = |filter: &str| UserRule {
            allow: true,
            publish: true,
            read: true,
            filter: filter.into(),
        };
        let wrong = [
            order("a:b"),
            order("*"),
            UserOrder { is_super: Some(true), password: None, ..order("*") },
            UserOrder { password: Some(String::new()), ..order("ann") },
            UserOrder { password: Some("x".repeat(1_025)), ..order("ann") },
            UserOrder { rules: Some(vec![rule("a/#/b")]), ..order("ann") },
            UserOrder { rules: Some(vec![rule("a"); 257]), ..order("ann") },
        ];
        for order in wrong {
            assert!(put(None, &order).is_err(), "{}", order.name);
        }
        let longest = UserOrder {
            password: Some("x".repeat(UserOrder::PASSWORD_BYTES_MAX)),
            rules: Some(vec![rule("a"); UserOrder::RULES_MAX]),
            ..order("ann")
        };
        assert!(put(None, &longest).is_ok());
        let everybody = UserOrder { password: None, ..order("*") };
        assert!(put(None, &everybody).is_ok_and(|entry| entry.rules.is_some()));
    }

    #[test]
    fn rows_that_cannot_be_read_are_not_guessed_at() {
        let whole = put(None, &order("ann")).expect("right").row();
        for end in 0..whole.len() {
            assert!(UserEntry::read(&whole[..end]).is_none(), "{end}");
        }
        let changed = |at: usize, byte: u8| {
            let mut row = whole.to_vec();
            row[at] = byte;
            row
        };
        let without_rules = put(None, &UserOrder { rules: None, ..order("ann") }).expect("right");
        let more = [&without_rules.row()[..], b"[]"].concat();
        let none = [&changed(whole.len() - 1, b']')[..whole.len() - 1], b"x"].concat();
        let formats = [1, 2, 4].map(|format| changed(0, format));
        let others = [changed(1, 8), changed(1, 0), changed(20, b'x'), more, none];
        for row in formats.into_iter().chain(others) {
            assert!(UserEntry::read(&row).is_none(), "{row:?}");
        }
        let rules = |text: &str| {
            let mut row = without_rules.row().into_vec();
            row[1] = 4;
            row.extend_from_slice(text.as_bytes());
            UserEntry::read(&row).is_some() && UserEntry::read_mark(&row).is_some()
        };
        assert!(rules(r#"[["allow","both","a"]]"#));
        for wrong in [
            "",
            "[]",
            "{}",
            r#"[["allow","both"]]"#,
            r##"[["allow","both","#/a"]]"##,
            r#"[["may","both","a"]]"#,
        ] {
            assert!(!rules(wrong), "{wrong}");
        }
    }
}
