//! Reasons why NATS did not do something.

use serde_json::Value;
use std::fmt;

/// Why NATS did not do something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NatsError {
    /// The last sequence or the revision is another one than was expected.
    Refused,
    /// The stream, or the storage of the servers, is full.
    Full,
    /// The stream does not exist.
    Gone,
    /// No answer in time, or none from whoever leads the stream.
    Silent,
    /// Another answer, in the words of NATS.
    Other(String),
}

impl fmt::Display for NatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NatsError::Refused => f.write_str("changed by somebody else"),
            NatsError::Full => f.write_str("the stream or the storage of NATS is full"),
            NatsError::Gone => f.write_str("the stream does not exist"),
            NatsError::Silent => f.write_str("no answer in time"),
            NatsError::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NatsError {}

/// The error in an answer of JetStream. The numbers are those of nats-server's `errors.json`.
pub(crate) fn of_answer(answer: &Value) -> Option<NatsError> {
    let error = answer.get("error")?;
    let code = error.get("err_code").and_then(Value::as_u64).unwrap_or(0);
    Some(match code {
        // Wrong last sequence, also by subject.
        10071 | 10164 => NatsError::Refused,
        // Stream not found.
        10059 => NatsError::Gone,
        // Store failed (a stream of `discard: new` at its bytes), storage, memory, resources of the
        // servers, resources of the account.
        10077 | 10047 | 10028 | 10023 | 10002 => NatsError::Full,
        // No leader, not the leader, no answer of peers, consumer not found.
        10008 | 10009 | 10012 | 10014 | 10074 => NatsError::Silent,
        _ => {
            let said = error.get("description").and_then(Value::as_str).unwrap_or("an error");
            NatsError::Other(format!("{said} ({code})"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_of_jetstream_are_of_a_few_kinds() {
        let of = |code: u64| {
            let error = json!({"code": 400, "err_code": code, "description": "words"});
            of_answer(&json!({"error": error}))
        };
        assert_eq!(of(10071), Some(NatsError::Refused));
        assert_eq!(of(10059), Some(NatsError::Gone));
        assert_eq!((of(10077), of(10002)), (Some(NatsError::Full), Some(NatsError::Full)));
        assert_eq!(of(10008), Some(NatsError::Silent));
        assert_eq!(of(10058), Some(NatsError::Other("words (10058)".into())));
        assert_eq!(of_answer(&json!({"stream": "S", "seq": 4})), None);
    }
}
