//! Calls to a running server's API, for the subcommands that make them.

pub mod alarms;
pub mod audit_log;
pub mod ban;
pub mod bridge;
pub mod chat;
pub mod clients;
pub mod consent;
pub mod device;
pub mod devices;
pub mod disconnections;
mod flow;
pub mod product;
pub mod retained;
pub mod schedule;
pub mod segment;
pub mod state;
pub mod talkers;
pub mod token;
pub mod trace;
pub mod user;
pub mod webhook;

use clap::Args;
use flow::Flow;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Where the server is, and how one proves that one may ask.
#[derive(Args)]
pub struct Server {
    /// URL of the server's HTTP API; http:// can be omitted
    #[arg(
        long,
        visible_alias = "api",
        global = true,
        help_heading = HEADING,
        env = "HOLDLINE_URL",
        default_value = "http://127.0.0.1:7080",
        value_parser = api_url
    )]
    url: String,
    /// API token; by default the one in the data folder
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        env = "HOLDLINE_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// The server's data folder, to read the token from
    #[arg(
        long,
        global = true,
        help_heading = HEADING,
        value_name = "DIR",
        default_value = "data"
    )]
    data: PathBuf,
    /// Use the proxy in HTTP_PROXY, HTTPS_PROXY or ALL_PROXY; the token passes through it
    #[arg(long, global = true, help_heading = HEADING)]
    env_proxy: bool,
}

/// Where these options are in the help: behind those of the command itself.
const HEADING: &str = "Server";

/// The URL of an API; one without a scheme is http.
pub fn api_url(text: &str) -> Result<String, String> {
    let url = match text.split_once("://") {
        None => format!("http://{text}"),
        Some(("http" | "https", _)) => text.to_owned(),
        Some((scheme, _)) => return Err(format!("{scheme}: use http or https")),
    };
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    match authority {
        Some("") | None => Err("the host is missing, as in http://127.0.0.1:7080".into()),
        Some(_) => Ok(url),
    }
}

/// A name that may be a part of a path: not empty.
pub fn named(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("a name must not be empty".into()),
        false => Ok(text.to_owned()),
    }
}

/// Bytes of a body above which the server is asked first whether it accepts so many: it answers
/// one that is too large without reading it, and the end of the connection would hide the answer.
const ASKED_BODY_BYTES: usize = 64 * 1024;

/// Bytes of an answer: ten thousand differences with all their details, and room.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Pages that are asked for, whatever the server says: some may be empty.
const PAGES_MAX: u32 = 100_000;

/// Time for an answer, unless somebody says that it takes long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for what takes as long as it takes, a day: a copy of a data folder, a comparison of all
/// devices. The command does not wait longer.
pub const LONG: Duration = Duration::from_secs(24 * 3_600);

impl Server {
    /// The server with this API, token and data folder.
    pub fn at(url: String, token: Option<String>, data: PathBuf) -> Server {
        Server { url, token, data, env_proxy: false }
    }

    /// Asks; the answer's JSON, or what to tell the user.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        self.call_within(Some(PATIENCE), method, path, body)
    }

    /// As [`call`](Self::call), with another time limit for the answer; none when absent.
    pub fn call_within(
        &self,
        patience: Option<Duration>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let token = self.token()?;
        let (status, json) = self.answer(patience, (method, path), body, Some(&token))?;
        self.told(status, json)
    }

    /// Asks with the token: the status of the answer and its JSON, or why there is none.
    pub fn ask(&self, patience: Duration, path: &str) -> Result<(u16, Value), String> {
        let token = self.token()?;
        self.answer(Some(patience), ("GET", path), None, Some(&token))
    }

    /// The answer, or in words why there is none.
    pub fn told(&self, status: u16, json: Value) -> Result<Value, String> {
        if (200..300).contains(&status) {
            return Ok(json);
        }
        let message = json["error"]["message"].as_str().unwrap_or("no error message");
        let from = match (status, &self.token) {
            (401, Some(_)) => "\nThe token was given with --token or HOLDLINE_TOKEN.".to_owned(),
            (401, None) => {
                let path = self.data.join("api.token");
                format!(
                    "\nThe token was read from {}: is that the server's data folder?",
                    path.display()
                )
            }
            _ => String::new(),
        };
        let code = json["error"]["code"].as_str().map(|code| format!(" ({code})"));
        let code = code.unwrap_or_default();
        Err(format!("the server answered {status}{code}: {message}{from}"))
    }

    /// A call that may take as long as `patience`; `None`: the server is busy and did nothing.
    pub fn call_or_busy(
        &self,
        patience: Duration,
        path: &str,
        body: &Value,
    ) -> Result<Option<Value>, String> {
        let token = self.token()?;
        let (status, json) =
            self.answer(Some(patience), ("POST", path), Some(body), Some(&token))?;
        if status == 503 && json["error"]["code"] == "busy" {
            return Ok(None);
        }
        self.told(status, json).map(Some)
    }

    /// URL of the server, without secrets.
    pub fn place(&self) -> String {
        admin::shown_url(self.url.trim_end_matches('/'))
    }

    /// The server's data folder, as it was given.
    pub fn data(&self) -> &std::path::Path {
        &self.data
    }

    /// Answer to a request that needs no token: its status and JSON, or the error.
    pub fn look(&self, patience: Duration, path: &str) -> Result<(u16, Value), String> {
        self.answer(Some(patience), ("GET", path), None, None)
    }

    /// Opens a stream, which goes on as long as the server says something.
    pub fn stream(&self, path: &str) -> Result<Flow, String> {
        let bearer = format!("Bearer {}", self.token()?);
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let agent = ureq::Agent::config_builder()
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .http_status_as_error(false)
            .proxy(if self.env_proxy { ureq::Proxy::try_from_env() } else { None })
            .build();
        let agent = ureq::Agent::from(agent);
        let answer = agent.get(&url).header("Authorization", &bearer).call();
        let mut answer = answer.map_err(|error| self.unreached(&error))?;
        let status = answer.status().as_u16();
        if status == 200 {
            return Flow::of(answer.into_body().into_reader()).map_err(|error| error.to_string());
        }
        let told = answer.body_mut().read_json().unwrap_or(Value::Null);
        Err(self.told(status, told).err().unwrap_or_default())
    }

    fn agent(&self, patience: Option<Duration>) -> ureq::Agent {
        ureq::Agent::config_builder()
            .timeout_global(patience)
            .http_status_as_error(false)
            .proxy(if self.env_proxy { ureq::Proxy::try_from_env() } else { None })
            .build()
            .into()
    }

    fn unreached(&self, error: &ureq::Error) -> String {
        let place = self.place();
        let hint = match error {
            // The API itself has no TLS: a proxy in front of it has.
            ureq::Error::Rustls(error) => {
                let why = client::tls_words(error);
                return format!(
                    "{place}: TLS handshake failed: {why}\nThe API speaks plain http unless a \
                     proxy in front of it adds TLS; its certificate must be issued by a public CA."
                );
            }
            _ if self.url.starts_with("https://") => {
                "The API speaks plain http unless a proxy in front of it adds TLS."
            }
            _ => "Is the server running? `holdline serve` prints its addresses.",
        };
        format!("{place}: {error}\n{hint}")
    }

    fn answer(
        &self,
        patience: Option<Duration>,
        (method, path): (&str, &str),
        body: Option<&Value>,
        token: Option<&str>,
    ) -> Result<(u16, Value), String> {
        let agent = self.agent(patience);
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let nothing = json!({});
        let answer = match body.or((method == "PUT").then_some(&nothing)) {
            Some(body) => {
                let body = body.to_string();
                request = request.header("Content-Type", "application/json");
                if body.len() > ASKED_BODY_BYTES {
                    request = request.header("Expect", "100-continue");
                }
                agent.run(request.body(body).map_err(|error| error.to_string())?)
            }
            None => agent.run(request.body(()).map_err(|error| error.to_string())?),
        };
        let mut answer = answer.map_err(|error| self.unreached(&error))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = body.read_to_string().map_err(|error| error.to_string())?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// Asks for page after page, up to `limit` entries of the list with this name; `query` begins
    /// with `?` and goes on with `&`.
    pub fn pages(&self, query: &str, list: &str, limit: u32) -> Result<Vec<Value>, String> {
        let page = self.page(query, list, limit)?;
        if !page.is_all {
            note!("{} shown, more exist; --limit shows more", page.found.len());
        }
        Ok(page.found)
    }

    /// As [`pages`](Self::pages), without a note that there are more.
    pub fn page(&self, query: &str, list: &str, limit: u32) -> Result<Page, String> {
        let mut found = Vec::new();
        let mut after = String::new();
        if limit == 0 {
            return Ok(Page { found, is_all: true });
        }
        for _ in 0..PAGES_MAX {
            let left = (limit - found.len() as u32).min(1_000);
            let mut page = self.call("GET", &format!("{query}limit={left}{after}"), None)?;
            if let Some(entries) = page[list].as_array_mut() {
                found.append(entries);
            }
            match page["next"].as_str() {
                Some(next) if (found.len() as u32) < limit => {
                    after = format!("&after={}", encoded(next));
                }
                Some(_) => return Ok(Page { found, is_all: false }),
                None => return Ok(Page { found, is_all: true }),
            }
        }
        Err(format!("{}: no end after {PAGES_MAX} pages", self.place()))
    }

    /// Asks to delete each of these, whose paths are so, and tells a line for each: the answer as
    /// JSON, or what became of it in a word. The first that fails ends it; the lines of those
    /// before it are printed.
    pub fn delete_each(
        &self,
        names: &[String],
        path: impl Fn(&str) -> String,
        (json, done): (bool, &str),
    ) -> Result<String, String> {
        let mut out = String::new();
        for name in names {
            let answer = self.call("DELETE", &path(name), None);
            let answer = answer.map_err(|why| format!("{out}{name}: {why}"))?;
            out += &if json { format!("{answer}\n") } else { format!("{name}: {done}\n") };
        }
        Ok(out)
    }

    fn token(&self) -> Result<String, String> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        let path = self.data.join("api.token");
        std::fs::read_to_string(&path).map(|token| token.trim().to_string()).map_err(|error| {
            format!(
                "{}: {error}\nGive the server's data folder with --data, or its token with \
                 --token or HOLDLINE_TOKEN. If the token is lost: `holdline token reset`.",
                path.display()
            )
        })
    }
}

/// Entries of a list, up to a limit.
pub struct Page {
    /// The entries.
    pub found: Vec<Value>,
    /// Whether that is the whole list.
    pub is_all: bool,
}

/// The list of this name in an answer; empty without it.
pub fn entries<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

/// A Unix millisecond as a time of RFC 3339, UTC; `none` stands for a time that is absent.
pub fn moment(ms: &Value, none: &str) -> String {
    let Some(ms) = ms.as_u64() else { return none.to_owned() };
    let s = ms / 1_000;
    format!("{}T{}:{:02}Z", base::calendar::date(s), base::calendar::hour(s), s % 60)
}

/// The Unix millisecond of a time of RFC 3339 in whole seconds, or of a Unix second.
pub fn unix_ms(text: &str) -> Result<u64, String> {
    let seconds = text.parse().ok().or_else(|| unix_s(text));
    let ms = seconds.and_then(|seconds: u64| seconds.checked_mul(1_000));
    ms.ok_or_else(|| "give a time as 2027-01-31T08:00:00Z, or Unix seconds".into())
}

/// The Unix second of `2027-01-31T08:00:00Z`, or of the same with an offset: `+01:00`.
fn unix_s(text: &str) -> Option<u64> {
    let (local, offset) = text.split_at_checked(19)?;
    let number = |from: usize, to: usize| local.get(from..to)?.parse::<u16>().ok();
    let form: String = local.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = form == "0000-00-00T00:00:00" && hour < 24 && minute < 60 && second < 60;
    let (month, day) = (u8::try_from(number(5, 7)?).ok()?, u8::try_from(number(8, 10)?).ok()?);
    let days = base::calendar::unix_day(number(0, 4)?, month, day).filter(|_| in_range)?;
    let minutes_east = match offset {
        "Z" => 0,
        _ => {
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let two = |text: &str| text.parse::<i64>().ok().filter(|_| text.len() == 2);
            let minutes =
                two(hours).filter(|h| *h < 24)? * 60 + two(minutes).filter(|m| *m < 60)?;
            match offset.as_bytes()[0] {
                b'+' => minutes,
                b'-' => -minutes,
                _ => return None,
            }
        }
    };
    let of_day = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
    u64::try_from(days * 86_400 + of_day - minutes_east * 60).ok()
}

/// Prints what came of a subcommand, or why nothing did.
pub fn tell(outcome: Result<String, String>) -> ExitCode {
    match outcome {
        Ok(text) => {
            crate::out::print(&text);
            ExitCode::SUCCESS
        }
        Err(why) => {
            note!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// A text as a part of a path or query: percent-encoded (RFC 3986 2.1) but for what is unreserved.
pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let part = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(part).collect()
}

/// A query that begins with `?` and is open for more, of those filters that have a value.
pub fn query(path: &str, filters: &[(&str, Option<String>)]) -> String {
    let given = filters.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let parts: String = given.map(|(name, value)| format!("{name}={}&", encoded(value))).collect();
    format!("{path}?{parts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_of_rfc_3339_or_a_unix_second() {
        for (text, ms) in [
            ("0", 0),
            ("1800000000", 1_800_000_000_000),
            ("2027-01-15T08:00:00Z", 1_800_000_000_000),
            ("2027-01-15T09:30:00+01:30", 1_800_000_000_000),
            ("2027-01-14T23:00:00-09:00", 1_800_000_000_000),
        ] {
            assert_eq!(unix_ms(text), Ok(ms), "{text}");
        }
        for wrong in [
            "",
            "-1",
            "soon",
            "2027-01-15",
            "2027-01-15T08:00:00",
            "2027-01-15 08:00:00Z",
            "2027-02-30T08:00:00Z",
            "2027-01-15T24:00:00Z",
            "2027-01-15T08:60:00Z",
            "2027-01-15T08:00:00+1:00",
            "2027-01-15T08:00:00+24:00",
            "2027-01-15T08:00:00é",
            "+027-01-15T08:00:00Z",
            "99999999999999999999",
        ] {
            assert!(unix_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_url_without_a_scheme_is_http_and_another_scheme_is_refused() {
        let url = |text| api_url(text).expect("a URL");
        assert_eq!(url("127.0.0.1:7080"), "http://127.0.0.1:7080");
        assert_eq!(url("[::1]:7080"), "http://[::1]:7080");
        assert_eq!(url("https://push.example.org/api"), "https://push.example.org/api");
        for (wrong, why) in
            [("ftp://host", "use http or https"), ("", "host is missing"), ("http://", "missing")]
        {
            let told = api_url(wrong).expect_err(wrong);
            assert!(told.contains(why), "{wrong}: {told}");
        }
    }

    #[test]
    fn what_is_not_plain_is_percent_encoded() {
        assert_eq!(encoded("a/+ü#-._~"), "a%2F%2B%C3%BC%23-._~");
        let filters = [("user", Some("a&b".to_owned())), ("prefix", None)];
        assert_eq!(query("/v1/clients", &filters), "/v1/clients?user=a%26b&");
    }
}
