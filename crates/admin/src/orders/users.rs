//! Requests about users of the book: name, password, rules.
//!
//! A field left out keeps its value; a new user begins without a password and without rules.
//! Invariant: a password is in the order and in no answer, message or log.

use crate::fault::Fault;
use crate::feed::topic;
use crate::texts::{PageLimit, TopicFilter};
use model::limits::TopicLimits;
use model::ports::users::{IMPORT_LINES_MAX, ImportForm, UserOrder, UserRule};
use schemars::JsonSchema;
use serde::Deserialize;

/// Query of `GET /v1/users`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsersQuery {
    /// The last name of the page before.
    pub(crate) after: Option<String>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

/// Fields left out keep their value; a new user begins with none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UserChange")]
pub(crate) struct UserBody {
    /// A new password; it is kept as a hash and never shown.
    #[schemars(length(min = 1, max = UserOrder::PASSWORD_BYTES_MAX))]
    password: Option<String>,
    /// Whether the user may do everything.
    superuser: Option<bool>,
    /// Whether logins of the user are refused.
    disabled: Option<bool>,
    /// Permissions of the user; the first rule that matches holds.
    #[schemars(length(max = UserOrder::RULES_MAX))]
    rules: Option<Vec<RuleBody>>,
}

/// Bytes of an import.
pub(crate) const IMPORT_BYTES_MAX: usize = 2 << 20;

/// Lines that say each what a user is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "UserImport")]
pub(crate) struct ImportBody {
    /// The lines, of a password file (a name, a colon, a hash or $plain$ with a password; behind
    /// it keys for SCRAM, `super`, `disabled`) or of CSV (a name, a comma, a password).
    #[schemars(length(min = 1, max = IMPORT_LINES_MAX))]
    lines: Vec<String>,
    /// Format of the lines.
    #[schemars(extend("enum" = ImportForm::ALL.map(ImportForm::name), "default" = "passwords"))]
    form: Option<String>,
}

impl ImportBody {
    /// Lines and their form.
    pub(crate) fn checked(self) -> Result<(Vec<String>, ImportForm), Fault> {
        if self.lines.is_empty() || self.lines.len() > IMPORT_LINES_MAX {
            return Err(Fault::bad(format!("`lines` must have 1 to {IMPORT_LINES_MAX} entries")));
        }
        let form = match self.form.as_deref() {
            None => Some(ImportForm::Passwords),
            Some(name) => ImportForm::ALL.into_iter().find(|form| form.name() == name),
        };
        let form = form.ok_or_else(|| Fault::bad("`form` must be `passwords` or `csv`"))?;
        Ok((self.lines, form))
    }
}

/// One line of what a user may do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rule")]
struct RuleBody {
    /// Allowed, or forbidden.
    #[serde(default = "allowed")]
    allow: bool,
    /// Action that the rule is about.
    #[schemars(extend("enum" = ACTIONS.map(|(word, _)| word), "default" = "all"))]
    action: Option<String>,
    /// Topic filter, with %c for the client identifier and %u for the user.
    #[schemars(with = "TopicFilter")]
    filter: String,
}

fn allowed() -> bool {
    true
}

/// The words for what a rule is about: publishing, reading.
pub(crate) const ACTIONS: [(&str, (bool, bool)); 3] =
    [("publish", (true, false)), ("read", (false, true)), ("all", (true, true))];

impl UserBody {
    /// The order; what it leaves out of a user that is there stays.
    pub(crate) fn order(self, name: String, limits: &TopicLimits) -> Result<UserOrder, Fault> {
        let max = UserOrder::PASSWORD_BYTES_MAX;
        if self.password.as_ref().is_some_and(|text| text.is_empty() || text.len() > max) {
            return Err(Fault::bad(format!("`password` must have 1 to {max} bytes")));
        }
        let rules = self.rules.map(|rules| {
            let max = UserOrder::RULES_MAX;
            if rules.len() > max {
                return Err(Fault::bad(format!("`rules` can have at most {max} entries")));
            }
            let rule = |(at, rule)| checked(at, rule, limits);
            rules.into_iter().enumerate().map(rule).collect::<Result<Vec<_>, _>>()
        });
        Ok(UserOrder {
            name,
            password: self.password,
            is_super: self.superuser,
            is_disabled: self.disabled,
            rules: rules.transpose()?,
        })
    }
}

fn checked(at: usize, rule: RuleBody, limits: &TopicLimits) -> Result<UserRule, Fault> {
    if let Some(why) = topic::wrong_filter(&rule.filter, limits) {
        return Err(Fault::bad(format!("`rules[{at}].filter` {why}")));
    }
    let word = rule.action.as_deref().unwrap_or("all");
    let action = ACTIONS.into_iter().find(|(known, _)| *known == word);
    let (_, (publish, read)) = action.ok_or_else(|| {
        Fault::bad(format!("`rules[{at}].action` must be `publish`, `read` or `all`"))
    })?;
    Ok(UserRule { allow: rule.allow, publish, read, filter: rule.filter })
}

/// A checked name, of a path.
pub(crate) fn name(text: String) -> Result<String, Fault> {
    let max = UserOrder::NAME_BYTES_MAX;
    if text.is_empty() || text.len() > max || text.chars().any(char::is_control) {
        let why =
            format!("the name of a user must have 1 to {max} bytes and no control characters");
        return Err(Fault::bad(why));
    }
    Ok(text)
}
