//! Requests about bans, checked. Invariant: a subject that is ordered here can be named by a path.

use crate::fault::Fault;
use crate::texts::PageLimit;
use model::ports::bans::{BAN_NOTE_BYTES_MAX, BanCause, BanOrder, BanSubject};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest time of a ban, seconds: ten years. Beyond, it is for good.
const TTL_S_MAX: u32 = 10 * 365 * 24 * 3_600;

/// Query of `GET /v1/bans`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BansQuery {
    /// Only those of this kind.
    #[schemars(extend("enum" = BanSubject::KINDS))]
    kind: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

impl BansQuery {
    /// Where the next page begins.
    pub(crate) fn place(subject: &BanSubject) -> String {
        format!("{} {}", subject.kind(), subject.value())
    }

    /// Subject behind which the page begins.
    pub(crate) fn after(&self) -> Result<Option<BanSubject>, Fault> {
        let Some(after) = &self.after else { return Ok(None) };
        let (kind, value) = after.split_once(' ').unwrap_or_default();
        BanSubject::parse(kind, value).map(Some).map_err(Fault::bad)
    }

    /// The only kind that is wanted; `None`: every kind.
    pub(crate) fn kind(&self) -> Result<Option<&str>, Fault> {
        let Some(kind) = self.kind.as_deref() else { return Ok(None) };
        match BanSubject::KINDS.contains(&kind) {
            true => Ok(Some(kind)),
            false => Err(Fault::bad(BanSubject::UNKNOWN_KIND)),
        }
    }
}

/// A ban that is to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BanOrder")]
pub(crate) struct BanBody {
    /// `address`: an address or a network. `client`: the identifier of an MQTT client, or the name
    /// of a MIOP device. `user`: a user of MQTT, XMPP, IM or the console.
    #[schemars(extend("enum" = BanSubject::KINDS))]
    kind: String,
    /// `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`, or the name.
    subject: String,
    /// Seconds for which it holds; for good when it is left out.
    #[schemars(range(min = 1, max = TTL_S_MAX))]
    ttl_s: Option<u32>,
    /// Why, for other operators.
    #[serde(default)]
    #[schemars(length(max = BAN_NOTE_BYTES_MAX))]
    note: String,
}

impl BanBody {
    /// The order, of the token with this name.
    pub(crate) fn order(self, by: &str, domain: &str) -> Result<BanOrder, Fault> {
        let subject = subject(&self.kind, &self.subject, domain)?;
        let for_s = self.ttl_s.unwrap_or(0);
        if self.ttl_s.is_some_and(|ttl_s| !(1..=TTL_S_MAX).contains(&ttl_s)) {
            return Err(Fault::bad(format!("`ttl_s` is 1 to {TTL_S_MAX}")));
        }
        if self.note.len() > BAN_NOTE_BYTES_MAX {
            return Err(Fault::bad(format!("`note` has at most {BAN_NOTE_BYTES_MAX} bytes")));
        }
        let (cause, note) = (BanCause::Operator, self.note.into());
        Ok(BanOrder { subject, cause, note, by: by.into(), for_s })
    }
}

/// A checked subject. `user@domain` of this server's own domain is the user.
pub(crate) fn subject(kind: &str, value: &str, domain: &str) -> Result<BanSubject, Fault> {
    let name = value.rsplit_once('@').filter(|(_, of)| of.eq_ignore_ascii_case(domain));
    let value = name.map_or(value, |(name, _)| if kind == "user" { name } else { value });
    BanSubject::parse(kind, value).map_err(Fault::bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_with_or_without_the_domain() {
        let of = |kind, value| subject(kind, value, "chat.example").expect("allowed");
        let user = |name: &str| BanSubject::User(name.into());
        assert_eq!(of("user", "bob@Chat.example"), user("bob"));
        assert_eq!(of("user", "bob"), user("bob"));
        assert_eq!(of("user", "bob@elsewhere"), user("bob@elsewhere"));
        let client = BanSubject::Client("bob@chat.example".into());
        assert_eq!(of("client", "bob@chat.example"), client);
        assert!(subject("user", "@chat.example", "chat.example").is_err());
    }
}
