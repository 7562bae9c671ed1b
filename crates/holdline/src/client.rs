//! Calls to a running server's API, for the subcommands that make them.

use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Where the server is, and how one proves that one may ask.
#[derive(Args)]
pub struct Server {
    /// The server's API
    #[arg(
        long,
        visible_alias = "api",
        global = true,
        env = "HOLDLINE_URL",
        default_value = "http://127.0.0.1:7080"
    )]
    url: String,
    /// The API's token; without it, the one in the data folder is taken
    #[arg(long, global = true, env = "HOLDLINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The server's data folder, for its token
    #[arg(long, global = true, value_name = "DIR", default_value = "data")]
    data: PathBuf,
}

/// Bytes of an answer: ten thousand differences with all that is told of them, and room.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Time for an answer, unless somebody says that it takes long.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    /// The server with this API, token and data folder.
    pub fn at(url: String, token: Option<String>, data: PathBuf) -> Server {
        Server { url, token, data }
    }

    /// Asks; the answer's JSON, or what to tell the user.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        self.call_within(Some(PATIENCE), method, path, body)
    }

    /// The same with another time for the answer; any time when absent.
    pub fn call_within(
        &self,
        patience: Option<Duration>,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let token = self.token()?;
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(patience)
            .http_status_as_error(false)
            .build()
            .into();
        let url = format!("{}{path}", self.url.trim_end_matches('/'));
        let bearer = format!("Bearer {token}");
        let answer = match (method, body) {
            ("GET", _) => agent.get(&url).header("Authorization", &bearer).call(),
            ("DELETE", _) => agent.delete(&url).header("Authorization", &bearer).call(),
            ("PUT", body) => {
                let body = body.cloned().unwrap_or_else(|| serde_json::json!({}));
                agent.put(&url).header("Authorization", &bearer).send_json(body)
            }
            (_, Some(body)) => agent.post(&url).header("Authorization", &bearer).send_json(body),
            (_, None) => agent.post(&url).header("Authorization", &bearer).send_empty(),
        };
        let mut answer = answer.map_err(|error| {
            format!("{url}: {error}\nIs the server up? `holdline serve` prints its addresses.")
        })?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let text = body.read_to_string().map_err(|error| error.to_string())?;
        let json: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() {
            return Ok(json);
        }
        let message = json["error"]["message"].as_str().unwrap_or("no explanation");
        Err(format!("the server answered {status}: {message}"))
    }

    /// Asks for page after page, up to `limit` entries of the list with this name; `query` begins
    /// with `?` and goes on with `&`.
    pub fn pages(&self, query: &str, list: &str, limit: u32) -> Result<Vec<Value>, String> {
        let mut found = Vec::new();
        let mut after = String::new();
        while (found.len() as u32) < limit {
            let left = (limit - found.len() as u32).min(1_000);
            let mut page = self.call("GET", &format!("{query}limit={left}{after}"), None)?;
            if let Some(entries) = page[list].as_array_mut() {
                found.append(entries);
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", encoded(next)),
                None => break,
            }
        }
        Ok(found)
    }

    fn token(&self) -> Result<String, String> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        let path = self.data.join("api.token");
        std::fs::read_to_string(&path).map(|token| token.trim().to_string()).map_err(|error| {
            format!(
                "{}: {error}\nGive the server's data folder with --data, or its token with \
                 --token or HOLDLINE_TOKEN.",
                path.display()
            )
        })
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
    fn what_is_not_plain_is_percent_encoded() {
        assert_eq!(encoded("a/+ü#-._~"), "a%2F%2B%C3%BC%23-._~");
        let filters = [("user", Some("a&b".to_owned())), ("prefix", None)];
        assert_eq!(query("/v1/clients", &filters), "/v1/clients?user=a%26b&");
    }
}
