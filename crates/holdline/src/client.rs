//! Calls to a running server's API, for the subcommands that make them.

use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Where the server is, and how one proves that one may ask.
#[derive(Args)]
pub struct Server {
    /// The server's API
    #[arg(long, env = "HOLDLINE_URL", default_value = "http://127.0.0.1:7080")]
    url: String,
    /// The API's token; without it, the one in the data folder is taken
    #[arg(long, env = "HOLDLINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The server's data folder, for its token
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
}

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
            (_, Some(body)) => agent.post(&url).header("Authorization", &bearer).send_json(body),
            (_, None) => agent.post(&url).header("Authorization", &bearer).send_empty(),
        };
        let mut answer = answer.map_err(|error| {
            format!("{url}: {error}\nIs the server up? `holdline serve` prints its addresses.")
        })?;
        let status = answer.status();
        let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
        let json: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() {
            return Ok(json);
        }
        let message = json["error"]["message"].as_str().unwrap_or("no explanation");
        Err(format!("the server answered {status}: {message}"))
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
