//! Users that are put in at run time, as rows and as what they mean.
//!
//! A row's key is the user's name, its value JSON: `{"v":1,"password":"$7$…","scram":"$scram…",
//! "super":true,"disabled":true,"rules":[["allow","both","a/#"],…]}`, with what is not so left out.
//! The row `*` holds rules of everybody and nothing else. It writes nothing: whoever does puts a
//! row here after it is on stable storage. Invariant: what is made by [`UserEntry::ordered`] is
//! read again by [`UserEntry::read`].

use crate::accounts::Account;
use crate::passwords::{self, Hashing, StoredHash};
use crate::rules::{List, RuleLine};
use model::ports::users::{UserOrder, UserRule, UserState};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The name under which the rules of everybody stand.
pub const EVERYBODY: &str = "*";

/// A user of the book.
#[derive(Clone, Debug, Default)]
pub struct UserEntry {
    /// What it is.
    pub account: Account,
    /// What it may do; absent: nothing is said of it.
    pub rules: Option<Arc<List>>,
}

impl UserEntry {
    /// What an order makes of what was there before; in words, why it cannot be. Slow, if there is
    /// a new password.
    pub fn ordered(
        before: Option<&UserEntry>,
        order: &UserOrder,
        hashing: &Hashing,
        random: [u8; 32],
    ) -> Result<UserEntry, String> {
        check(order)?;
        let mut entry = before.cloned().unwrap_or_default();
        entry.account.is_super = order.is_super;
        entry.account.is_disabled = order.is_disabled;
        if let Some(rules) = &order.rules {
            entry.rules = list(rules)?;
        }
        if let Some(password) = &order.password {
            entry.account.kept = hashing.hash(password.as_bytes(), random);
        }
        Ok(entry)
    }

    /// The row's value.
    pub fn row(&self) -> Box<[u8]> {
        let mut fields = Map::from_iter([("v".into(), json!(1))]);
        let Account { kept, is_super, is_disabled } = &self.account;
        let mut say = |key: &str, value: Option<Value>| {
            fields.extend(value.map(|value| (key.into(), value)));
        };
        say("password", kept.hash.as_ref().map(|hash| json!(hash.text())));
        say("scram", kept.scram.clone().map(|keys| json!(StoredHash::Scram(keys).text())));
        say("super", is_super.then_some(json!(true)));
        say("disabled", is_disabled.then_some(json!(true)));
        let rules = self.rules.as_ref().map(|list| list.rules());
        say("rules", rules.map(|rules| rules.iter().map(rule_to_json).collect()));
        Value::Object(fields).to_string().into_bytes().into()
    }

    /// What a row says; `None`: it cannot be read.
    pub fn read(value: &[u8]) -> Option<UserEntry> {
        let fields: Value = serde_json::from_slice(value).ok()?;
        if fields.get("v")? != 1 {
            return None;
        }
        let text = |key| fields.get(key).and_then(Value::as_str);
        let is = |key| fields.get(key).and_then(Value::as_bool).unwrap_or(false);
        let mut entry = UserEntry::default();
        if let Some(hash) = text("password") {
            entry.account.kept.hash = Some(StoredHash::parse(hash).ok()?);
        }
        if let Some(keys) = text("scram") {
            let Ok(StoredHash::Scram(keys)) = StoredHash::parse(keys) else { return None };
            entry.account.kept.scram = Some(keys);
        }
        (entry.account.is_super, entry.account.is_disabled) = (is("super"), is("disabled"));
        if let Some(rules) = fields.get("rules") {
            let rules = rules.as_array()?.iter().map(rule_of_json).collect::<Option<Vec<_>>>()?;
            entry.rules = list(&rules).ok()?;
        }
        Some(entry)
    }

    /// The same for whoever asks.
    pub fn state(&self, name: &str) -> UserState {
        UserState {
            name: name.into(),
            has_password: self.account.kept.hash.is_some(),
            is_super: self.account.is_super,
            is_disabled: self.account.is_disabled,
            rules: self.rules.as_ref().map_or_else(Vec::new, |list| list.rules()),
        }
    }
}

/// Whether a user may be ordered so; in words, why not.
fn check(order: &UserOrder) -> Result<(), String> {
    let most = UserOrder::PASSWORD_BYTES_MAX;
    let is_sized = |password: &String| (1..=most).contains(&password.len());
    if order.password.as_ref().is_some_and(|password| !is_sized(password)) {
        return Err(format!("a password has 1 to {most} bytes"));
    }
    if order.name != EVERYBODY {
        return passwords::check_name(&order.name);
    }
    match order.password.is_some() || order.is_super || order.is_disabled {
        true => Err("* stands for everybody: it has rules and nothing else".into()),
        false => Ok(()),
    }
}

/// No rules at all are nothing said.
fn list(rules: &[UserRule]) -> Result<Option<Arc<List>>, String> {
    if rules.len() > UserOrder::RULES_MAX {
        return Err(format!("a user has at most {} rules", UserOrder::RULES_MAX));
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
    use crate::passwords::Cost;

    const HASHING: Hashing = Hashing {
        cost: Cost::Light,
        scram_iterations: 4_096,
        scheme: crate::passwords::HashScheme::Pbkdf2,
    };

    fn order(name: &str) -> UserOrder {
        UserOrder {
            name: name.into(),
            password: Some("secret".into()),
            is_super: false,
            is_disabled: false,
            rules: Some(vec![
                UserRule { allow: true, publish: true, read: false, filter: "a/%c/#".into() },
                UserRule { allow: false, publish: true, read: true, filter: "b".into() },
            ]),
        }
    }

    fn put(before: Option<&UserEntry>, order: &UserOrder) -> Result<UserEntry, String> {
        UserEntry::ordered(before, order, &HASHING, [3; 32])
    }

    #[test]
    fn a_row_says_what_was_ordered() {
        let first = put(None, &order("ann")).expect("right");
        let read = UserEntry::read(&first.row()).expect("a row");
        assert_eq!((&read.account, read.state("ann")), (&first.account, first.state("ann")));
        assert!(read.account.kept.scram.is_some());
        assert_eq!(read.state("ann").rules, order("ann").rules.expect("some"));
        let change = UserOrder { password: None, rules: None, is_disabled: true, ..order("ann") };
        let second = put(Some(&read), &change).expect("right");
        assert_eq!(second.account.kept, first.account.kept, "the password stays");
        let state = UserEntry::read(&second.row()).expect("a row").state("ann");
        assert!(state.is_disabled && state.rules.len() == 2);
        let bare = UserOrder { password: None, rules: Some(vec![]), ..order("ann") };
        assert!(put(Some(&second), &bare).is_ok_and(|entry| entry.rules.is_none()));
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
            UserOrder { is_super: true, password: None, ..order("*") },
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
        for row in [
            "",
            "{}",
            "{\"v\":2}",
            "{\"v\":1,\"password\":\"x\"}",
            "{\"v\":1,\"scram\":\"$plain$x\"}",
            "{\"v\":1,\"rules\":[[\"allow\",\"both\"]]}",
            "{\"v\":1,\"rules\":[[\"allow\",\"both\",\"#/a\"]]}",
            "{\"v\":1,\"rules\":[[\"may\",\"both\",\"a\"]]}",
        ] {
            assert!(UserEntry::read(row.as_bytes()).is_none(), "{row}");
        }
        assert!(UserEntry::read(b"{\"v\":1}").is_some());
    }
}
