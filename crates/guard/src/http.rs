//! External authentication by an HTTP service: its requests and responses.
//!
//! Asked with a JSON object, answered with one:
//! ```text
//! {"client_id":"d7","user":"ann","password":"…","certificate":null,"peer":"10.0.0.7:4711",
//!  "listener":0,"tls":true,"protocol":"mqtt5"}
//! {"result":"allow","super":false,"expires_s":3600,
//!  "acl":[{"permission":"allow","action":"publish","topic":"dev/%c/#"}]}
//! ```
//! A password that is not text is sent as `password_base64`. This file sends nothing itself.
//! Invariant: a malformed answer admits no client.

use crate::rules::{List, RuleLine, UserRules};
use base64::prelude::{BASE64_STANDARD, Engine};
use model::ports::access::Question;
use model::ports::users::{UserOrder, UserRule};
use serde_json::{Value, json};
use std::sync::Arc;

/// Longest answer that is read, bytes.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Verdict of the service on a client.
#[derive(Clone, Debug)]
pub enum ServiceVerdict {
    /// Come in.
    Allow {
        /// Whether the client may do everything.
        is_super: bool,
        /// All that it may do; absent: what is known here holds.
        rules: Option<Arc<UserRules>>,
        /// Seconds for which the verdict holds; absent: for good.
        expires_s: Option<u32>,
    },
    /// Stay out.
    Deny,
    /// The next method decides.
    Ignore,
}

/// The service did not answer, or not as it should, with the reason as text for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoVerdict(pub String);

/// The body that a service is sent.
pub fn question(question: &Question) -> String {
    let password = question.password.as_deref();
    let text = password.and_then(|password| std::str::from_utf8(password).ok());
    let mut body = json!({
        "client_id": question.client_id,
        "user": question.user,
        "password": text,
        "certificate": question.certificate,
        "peer": question.peer.to_string(),
        "listener": question.door,
        "tls": question.tls,
        "protocol": question.protocol,
    });
    if let (Some(bytes), None) = (password, text) {
        body["password_base64"] = json!(BASE64_STANDARD.encode(bytes));
    }
    body.to_string()
}

/// Verdict of an answer: 200 with an object, 204 for `allow`, 401 and 403 for `deny`; any other
/// status is an error.
pub fn verdict(status: u16, body: &[u8]) -> Result<ServiceVerdict, NoVerdict> {
    match status {
        200 => read(body).map_err(|problem| NoVerdict(format!("its answer: {problem}"))),
        204 => Ok(ServiceVerdict::Allow { is_super: false, rules: None, expires_s: None }),
        401 | 403 => Ok(ServiceVerdict::Deny),
        other => Err(NoVerdict(format!("it answered with status {other}"))),
    }
}

fn read(body: &[u8]) -> Result<ServiceVerdict, String> {
    let fields: Value = serde_json::from_slice(body).map_err(|_| "it is not JSON")?;
    match fields.get("result").and_then(Value::as_str) {
        Some("allow") => {}
        Some("deny") => return Ok(ServiceVerdict::Deny),
        Some("ignore") => return Ok(ServiceVerdict::Ignore),
        _ => return Err("result must be allow, deny or ignore".into()),
    }
    let expires_s = match fields.get("expires_s").unwrap_or(&Value::Null) {
        Value::Null => None,
        value => {
            let seconds = value.as_u64().filter(|&seconds| seconds > 0);
            let seconds = seconds.ok_or("expires_s must be a number of seconds above 0")?;
            Some(u32::try_from(seconds).unwrap_or(u32::MAX))
        }
    };
    let is_super = match fields.get("super").unwrap_or(&Value::Null) {
        Value::Null => false,
        value => value.as_bool().ok_or("super must be true or false")?,
    };
    let rules = match fields.get("acl").unwrap_or(&Value::Null) {
        Value::Null => None,
        Value::Array(lines) => Some(Arc::new(UserRules::fixed(acl(lines)?))),
        _ => return Err("acl must be a list".into()),
    };
    Ok(ServiceVerdict::Allow { is_super, rules, expires_s })
}

fn acl(lines: &[Value]) -> Result<List, String> {
    if lines.len() > UserOrder::RULES_MAX {
        return Err(format!("acl has more than {} rules", UserOrder::RULES_MAX));
    }
    let lines =
        lines.iter().map(|line| RuleLine::of(&rule(line)?)).collect::<Result<_, String>>()?;
    Ok(List::new(lines))
}

fn rule(line: &Value) -> Result<UserRule, String> {
    let text = |key| line.get(key).and_then(Value::as_str);
    let allow = match text("permission") {
        Some("allow") => true,
        Some("deny") => false,
        _ => return Err("permission must be allow or deny".into()),
    };
    let (publish, read) = match text("action") {
        Some("publish") => (true, false),
        Some("subscribe") => (false, true),
        Some("all") => (true, true),
        _ => return Err("action must be publish, subscribe or all".into()),
    };
    let filter = text("topic").ok_or("topic must be a string")?.into();
    Ok(UserRule { allow, publish, read, filter })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::access::{Act, Reach, Rules, Who};

    fn asked(password: &[u8]) -> Value {
        let question = Question {
            client_id: "d7".into(),
            user: Some("ann".into()),
            password: Some(password.into()),
            certificate: None,
            method: None,
            dialogue: None,
            bindings: None,
            peer: "10.0.0.7:4711".parse().expect("an address"),
            near: false,
            door: 3,
            tls: true,
            protocol: "mqtt5",
        };
        serde_json::from_str(&super::question(&question)).expect("JSON")
    }

    #[test]
    fn the_service_is_told_what_the_client_brings() {
        let body = asked(b"secret\"");
        assert_eq!((&body["client_id"], &body["user"]), (&json!("d7"), &json!("ann")));
        assert_eq!((&body["password"], &body["listener"]), (&json!("secret\""), &json!(3)));
        assert_eq!((&body["peer"], &body["certificate"]), (&json!("10.0.0.7:4711"), &Value::Null));
        let body = asked(&[0xff, 0]);
        assert_eq!((&body["password"], &body["password_base64"]), (&Value::Null, &json!("/wA=")));
    }

    #[test]
    fn answers_mean_what_is_written() {
        let body = br#"{"result":"allow","super":true,"expires_s":60,"acl":[
            {"permission":"deny","action":"all","topic":"a/b"},
            {"permission":"allow","action":"subscribe","topic":"a/#"}]}"#;
        let Ok(ServiceVerdict::Allow { is_super, rules, expires_s }) = verdict(200, body) else {
            panic!("it allows")
        };
        assert!(is_super && expires_s == Some(60));
        let (rules, who) = (rules.expect("there"), Who { client_id: "c", user: None });
        assert!(rules.fixed() && rules.may(&who, Act::Read, "a/c"));
        assert!(!rules.may(&who, Act::Read, "a/b") && !rules.may(&who, Act::Publish, "a/c"));
        assert_eq!(rules.reach(&who, "a/+"), Reach::Partly);
        let nothing = verdict(200, br#"{"result":"allow","acl":[]}"#);
        let Ok(ServiceVerdict::Allow { rules: Some(rules), .. }) = nothing else {
            panic!("it allows")
        };
        assert!(!rules.may(&who, Act::Read, "a"), "an empty list allows nothing");
        assert!(matches!(verdict(204, b""), Ok(ServiceVerdict::Allow { rules: None, .. })));
        assert!(matches!(verdict(200, br#"{"result":"deny"}"#), Ok(ServiceVerdict::Deny)));
        assert!(matches!(verdict(200, br#"{"result":"ignore"}"#), Ok(ServiceVerdict::Ignore)));
        assert!(matches!(
            (verdict(401, b""), verdict(403, b"")),
            (Ok(ServiceVerdict::Deny), Ok(ServiceVerdict::Deny))
        ));
    }

    #[test]
    fn an_answer_that_is_not_understood_lets_nobody_in() {
        for body in [
            "",
            "allow",
            "{}",
            r#"{"result":"yes"}"#,
            r#"{"result":"allow","super":"false"}"#,
            r#"{"result":"allow","expires_s":0}"#,
            r#"{"result":"allow","expires_s":-1}"#,
            r#"{"result":"allow","acl":{}}"#,
            r#"{"result":"allow","acl":[{"permission":"deny","action":"all"}]}"#,
            r#"{"result":"allow","acl":[{"permission":"deny","action":"x","topic":"a"}]}"#,
            r#"{"result":"allow","acl":[{"permission":"deny","action":"all","topic":"a#"}]}"#,
        ] {
            assert!(verdict(200, body.as_bytes()).is_err(), "{body}");
        }
        let many = json!({"result": "allow", "acl":
            vec![json!({"permission": "deny", "action": "all", "topic": "a"}); 257]});
        assert!(verdict(200, many.to_string().as_bytes()).is_err());
        assert!([302, 404, 500].into_iter().all(|status| verdict(status, b"").is_err()));
    }

    #[test]
    fn as_many_rules_are_taken_as_a_user_may_have() {
        let acl = |count: usize| {
            let line = json!({"permission": "allow", "action": "publish", "topic": "a"});
            json!({"result": "allow", "acl": vec![line; count]}).to_string()
        };
        let most = UserOrder::RULES_MAX;
        let taken = verdict(200, acl(most).as_bytes());
        let Ok(ServiceVerdict::Allow { is_super: false, rules: Some(rules), expires_s: None }) =
            taken
        else {
            panic!("it allows")
        };
        let who = Who { client_id: "c", user: None };
        assert!(rules.may(&who, Act::Publish, "a") && !rules.may(&who, Act::Read, "a"));
        let why = verdict(200, acl(most + 1).as_bytes()).expect_err("one too many");
        assert_eq!(why, NoVerdict("its answer: acl has more than 256 rules".into()));
        let why = verdict(500, b"").expect_err("no answer");
        assert_eq!(why, NoVerdict("it answered with status 500".into()));
    }
}
