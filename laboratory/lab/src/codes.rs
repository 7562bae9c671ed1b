//! Codes by which servers refuse clients and messages, and what they mean.
//!
//! A word is what the laboratory counts, e.g. `refused 135` or `not taken 151`.

/// Meaning of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeMeaning {
    /// Its number.
    pub number: u64,
    /// In a few words.
    pub text: &'static str,
    /// Whether the server says with it that it met a limit of its own.
    pub is_limit: bool,
}

const fn of(number: u64, text: &'static str, is_limit: bool) -> CodeMeaning {
    CodeMeaning { number, text, is_limit }
}

const MIOP: &[CodeMeaning] = &[
    of(11, "unsupported protocol version", false),
    of(20, "authentication failed", false),
    of(21, "the client's clock is too far off", false),
    of(23, "no such product", false),
    of(24, "the device is blocked", false),
    of(30, "busy or full", true),
    of(31, "quota exceeded", true),
    of(32, "the server is shutting down", false),
    of(40, "taken over by a newer connection: do two clients share an id?", false),
    of(42, "keep-alive timeout", false),
    of(43, "the client stopped reading", false),
    of(44, "no Bind in time", true),
    of(50, "internal error of the server", false),
];

/// MQTT 3.1.1 table 3.1 and MQTT 5 table 2-6: what may refuse or end a session.
const MQTT: &[CodeMeaning] = &[
    of(1, "unsupported protocol version", false),
    of(2, "the client identifier is not allowed", false),
    of(3, "server unavailable", true),
    of(4, "bad user name or password", false),
    of(5, "not authorised", false),
    of(132, "unsupported protocol version", false),
    of(133, "the client identifier is not valid", false),
    of(134, "bad user name or password", false),
    of(135, "not authorised", false),
    of(136, "server unavailable", true),
    of(137, "server busy", true),
    of(138, "banned", false),
    of(139, "the server is shutting down", false),
    of(141, "keep-alive timeout", false),
    of(142, "session taken over: do two clients share an id?", false),
    of(147, "receive maximum exceeded", true),
    of(150, "message rate too high", true),
    of(151, "quota exceeded", true),
    of(156, "use another server", false),
    of(157, "the server has moved", false),
    of(159, "connection rate exceeded", true),
];

/// IM 8.1: what may refuse or end a session. Of messages (IM 8.2) the numbers say other things.
const IM: &[CodeMeaning] = &[
    of(1, "wrong name, password, token or proof", false),
    of(2, "not authorised", false),
    of(3, "invalid account or device name", false),
    of(5, "the authentication service does not answer", true),
    of(6, "busy", true),
    of(7, "full", true),
    of(8, "quota exceeded", true),
    of(9, "rate limit exceeded", true),
    of(10, "banned", false),
    of(14, "taken over by a newer connection: do two clients share a device?", false),
    of(15, "disconnected by an operator", false),
    of(16, "the session's authorisation has expired", false),
    of(17, "the log is full", true),
    of(18, "the log has failed; the server must be restarted", true),
    of(35, "no login in time", true),
    of(36, "keep-alive timeout", false),
];

/// IM 8.2: why a message was not taken.
const IM_MESSAGES: &[CodeMeaning] = &[
    of(1, "no such account", false),
    of(2, "the message id was used for another message", false),
    of(3, "too large", false),
    of(4, "invalid request", false),
    of(5, "busy", true),
    of(6, "the log is full", true),
    of(7, "the log has failed; the server must be restarted", true),
];

const HTTP: &[CodeMeaning] = &[
    of(401, "not authorised", false),
    of(403, "forbidden", false),
    of(404, "no such path", false),
    of(429, "too many requests", true),
    of(502, "bad gateway", true),
    of(503, "service unavailable", true),
    of(504, "gateway timeout", true),
];

/// RFC 6120 6.5 in its order, and what the laboratory counts beside it.
const XMPP: &[CodeMeaning] = &[
    of(1, "aborted", false),
    of(2, "account-disabled", false),
    of(3, "credentials-expired", false),
    of(4, "encryption-required", false),
    of(5, "incorrect-encoding", false),
    of(6, "invalid-authzid", false),
    of(7, "invalid-mechanism", false),
    of(8, "malformed-request", false),
    of(9, "mechanism-too-weak", false),
    of(10, "not-authorized", false),
    of(11, "temporary-auth-failure", true),
    of(12, "another condition", false),
    of(13, "no resource was bound", false),
    of(14, "the server offers no login method that the plan allows", false),
    of(15, "the server refused STARTTLS", false),
];

/// Meaning of a counted word, by the scheme of the target's URL.
pub fn meaning(scheme: &str, word: &str) -> Option<&'static CodeMeaning> {
    let number: u64 = word.rsplit(' ').next()?.parse().ok()?;
    let list = match scheme {
        "miop" | "miops" => MIOP,
        "mqtt" | "mqtts" | "ws" | "wss" => MQTT,
        "im" | "ims" if word.starts_with("not taken") => IM_MESSAGES,
        "im" | "ims" => IM,
        "xmpp" | "xmpps" if word.starts_with("refused") => XMPP,
        "http" | "https" => HTTP,
        _ => return None,
    };
    list.iter().find(|known| known.number == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_named_by_the_protocol_of_its_target() {
        let text = |scheme: &str, word: &str| meaning(scheme, word).map(|known| known.text);
        assert_eq!(text("mqtt", "refused 5"), Some("not authorised"));
        assert_eq!(text("miop", "refused 30"), Some("busy or full"));
        assert_eq!(text("im", "not taken 1"), Some("no such account"));
        assert_eq!(text("xmpp", "refused 10"), Some("not-authorized"));
        assert_eq!([text("xmpp", "kicked 3"), text("tcp", "refused 5")], [None, None]);
        assert_eq!([text("mqtt", "refused what"), text("mqtt", "refused 9999")], [None, None]);
    }
}
