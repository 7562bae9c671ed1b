//! The driver of clients/conformance for this library: JSON lines on standard input and output.

use holdline_im::wire::{self, Fault};
use holdline_im::{
    proof, Answer, Client, Credentials, Error, Event, ManualClock, MemoryStore, Options, State,
    TcpConnector,
};
use std::fmt::Write as _;
use std::io::{self, BufRead, Write as _};
use std::sync::{Arc, Mutex};

// ---- JSON, as much of it as the suite writes ----------------------------------------------------

#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn get(&self, name: &str) -> Option<&Json> {
        let Json::Object(fields) = self else { return None };
        let found = fields.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value).filter(|value| **value != Json::Null)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Json::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Some(Json::Number(number)) => Some(*number),
            _ => None,
        }
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.text(name).map(unhex)
    }

    fn list(&self, name: &str) -> Option<&[Json]> {
        match self.get(name) {
            Some(Json::List(list)) => Some(list),
            _ => None,
        }
    }

    fn texts(&self, name: &str) -> Option<Vec<String>> {
        let text = |it: &Json| match it {
            Json::Text(text) => text.clone(),
            other => panic!("no text: {other:?}"),
        };
        Some(self.list(name)?.iter().map(text).collect())
    }
}

struct Parser<'a>(&'a [u8]);

impl Parser<'_> {
    fn space(&mut self) -> u8 {
        while self.0.first().is_some_and(u8::is_ascii_whitespace) {
            self.0 = &self.0[1..];
        }
        *self.0.first().expect("JSON goes on")
    }

    fn skip(&mut self, count: usize) {
        self.0 = &self.0[count..];
    }

    fn value(&mut self) -> Json {
        match self.space() {
            b'{' => self.object(),
            b'[' => self.items(),
            b'"' => Json::Text(self.string()),
            b't' => self.word(4, Json::Bool(true)),
            b'f' => self.word(5, Json::Bool(false)),
            b'n' => self.word(4, Json::Null),
            _ => self.digits(),
        }
    }

    fn word(&mut self, length: usize, value: Json) -> Json {
        self.skip(length);
        value
    }

    fn digits(&mut self) -> Json {
        let is_digit = |byte: &u8| b"+-.0123456789eE".contains(byte);
        let length = self.0.iter().take_while(|byte| is_digit(byte)).count();
        let text = std::str::from_utf8(&self.0[..length]).expect("digits");
        let number = text.parse().expect("a number");
        self.skip(length);
        Json::Number(number)
    }

    fn string(&mut self) -> String {
        self.space();
        self.skip(1);
        let mut bytes = Vec::new();
        loop {
            let byte = self.0[0];
            self.skip(1);
            match byte {
                b'"' => return String::from_utf8(bytes).expect("UTF-8"),
                b'\\' => self.escape(&mut bytes),
                byte => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) {
        let byte = self.0[0];
        self.skip(1);
        match byte {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'u' => {
                let digits = std::str::from_utf8(&self.0[..4]).expect("digits");
                let code = u32::from_str_radix(digits, 16).expect("digits");
                self.skip(4);
                let letter = char::from_u32(code).expect("no surrogates are sent");
                bytes.extend_from_slice(letter.to_string().as_bytes());
            }
            other => bytes.push(other),
        }
    }

    /// Skips a comma or the end; true at the end.
    fn is_over(&mut self, end: u8) -> bool {
        let byte = self.space();
        if byte == end || byte == b',' {
            self.skip(1);
        }
        byte == end
    }

    fn items(&mut self) -> Json {
        self.skip(1);
        let mut list = Vec::new();
        while !self.is_over(b']') {
            list.push(self.value());
        }
        Json::List(list)
    }

    fn object(&mut self) -> Json {
        self.skip(1);
        let mut fields = Vec::new();
        while !self.is_over(b'}') {
            let name = self.string();
            self.space();
            self.skip(1);
            fields.push((name, self.value()));
        }
        Json::Object(fields)
    }
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            letter if (letter as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out + "\""
}

fn quotes(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(","))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(digits).collect()
}

/// Prints a line whole, whichever thread it is of.
fn say(fields: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{{{fields}}}").and_then(|()| out.flush());
}

// ---- frames and proofs --------------------------------------------------------------------------

fn decode(command: &Json) -> String {
    let bytes = command.bytes("bytes").expect("bytes");
    let limit = command.number("frame_bytes_max").map_or(wire::FRAME_BYTES_MAX, |it| it as usize);
    match wire::decode(&bytes, limit) {
        Ok(None) => "\"more\":true".to_owned(),
        Ok(Some((frame, length))) => {
            let name = frame.answer.as_ref().map_or("null".to_owned(), |it| quote(it.name()));
            format!("\"answer\":{name},\"length\":{length}")
        }
        Err(fault) => format!(
            "\"fault\":{}",
            quote(match fault {
                Fault::Length => "length",
                Fault::TooLarge => "too_large",
                Fault::Malformed => "malformed",
            })
        ),
    }
}

/// The fields of the generated code, read from its text.
fn schema() -> String {
    let (mut message, mut tag, mut fields) = (String::new(), String::new(), Vec::new());
    for line in include_str!("../src/pb.rs").lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            message = rest.trim_end_matches([' ', '{', '}']).to_owned();
        } else if line == "pub enum Request {" {
            message = "ClientFrame".to_owned();
        } else if line == "pub enum Answer {" {
            message = "ServerFrame".to_owned();
        } else if let Some((_, rest)) = line.split_once(", tag = \"") {
            tag = rest.split('"').next().unwrap_or_default().to_owned();
        } else if !tag.is_empty() {
            let name = line.trim_start_matches("pub ").trim_start_matches("r#");
            let name = name.split([':', '(']).next().unwrap_or_default();
            fields.push(format!("\"{message}.{}\":{tag}", snake(name)));
            tag.clear();
        }
    }
    format!("\"fields\":{{{}}}", fields.join(","))
}

/// `MarkRead` as `mark_read`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn prove(command: &Json) -> String {
    let text = |name| command.text(name).expect("a text");
    if text("method") == proof::HASHED_TOKEN {
        let (first, expected) = proof::hashed_token(text("account"), text("token"));
        return format!("\"first\":\"{}\",\"proof\":\"{}\"", hex(&first), hex(&expected));
    }
    let scram = proof::Scram::new(text("account"), text("password"), text("nonce"));
    let (answer, expected) = scram.answer(text("challenge").as_bytes()).expect("a challenge");
    let words = [scram.first(), answer, expected];
    let [first, answer, expected] = words.map(|it| quote(&String::from_utf8_lossy(&it)));
    format!("\"first\":{first},\"answer\":{answer},\"proof\":{expected}")
}

// ---- the client ---------------------------------------------------------------------------------

struct Open {
    client: Client,
    clock: ManualClock,
    store: MemoryStore,
    /// Acknowledges the entry at a place.
    held: Held,
}

type Held = Arc<Mutex<Vec<(u64, Box<dyn Fn() + Send>)>>>;

fn tell_state(state: State) {
    let (name, more) = match state {
        State::Idle => return,
        State::Connecting(address) => ("connecting", format!("\"address\":{}", quote(&address))),
        State::Online(account) => ("online", format!("\"account\":{}", quote(&account))),
        State::Waiting { until, why, detail } => {
            let (why, detail) = (quote(&why), quote(&detail));
            ("waiting", format!("\"until\":{until},\"why\":{why},\"detail\":{detail}"))
        }
        State::Ended(why) => ("ended", format!("\"why\":{}", quote(&why))),
    };
    say(&format!("\"event\":\"state\",\"state\":\"{name}\",{more}"));
}

fn credentials(command: &Json) -> Credentials {
    let text = |name| command.text(name).map(str::to_owned);
    match (text("password"), text("token"), text("login_token")) {
        (Some(password), _, _) => Credentials::Password(password),
        (_, Some(token), _) => Credentials::Token(token),
        (_, _, Some(token)) => Credentials::LoginToken(token),
        _ => Credentials::None,
    }
}

fn connector(command: &Json) -> TcpConnector {
    let mut connector = TcpConnector::default();
    if let Some(proxy) = command.text("proxy") {
        connector = connector.through(proxy).expect("a proxy");
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = command.get("tls") {
        connector = with_tls(connector, tls);
    }
    connector
}

#[cfg(feature = "tls")]
fn with_tls(connector: TcpConnector, tls: &Json) -> TcpConnector {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::CertificateDer;
    let mut roots = rustls::RootCertStore::empty();
    let file = tls.text("ca").expect("a file of authorities");
    for certificate in CertificateDer::pem_file_iter(file).expect("the file can be read") {
        roots.add(certificate.expect("a certificate")).expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring knows them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let pins = tls.texts("pins").unwrap_or_default();
    let pins: Vec<&str> = pins.iter().map(String::as_str).collect();
    connector.tls(Arc::new(config), tls.text("name"), &pins)
}

fn tell(event: Event, is_manual: bool, held: &Held) {
    let hold = |place, acknowledge: Box<dyn Fn() + Send>| match is_manual {
        true => held.lock().expect("no panics").push((place, acknowledge)),
        false => acknowledge(),
    };
    match event {
        Event::State(state) => tell_state(state),
        Event::Message(it) => {
            let (place, raw) = (it.place(), &it.raw);
            let [from, to, text] = [&raw.from, &raw.to, it.text()].map(quote);
            say(&format!(
                "\"event\":\"message\",\"seq\":{place},\"id\":\"{}\",\"from\":{from},\"to\":{to},\
                 \"text\":{text},\"client_id\":\"{}\"",
                raw.id,
                hex(&raw.client_id)
            ));
            hold(place, Box::new(move || it.acknowledge()));
        }
        Event::Change(it) => {
            let (seq, with) = (it.raw.seq, quote(&it.raw.with));
            say(&format!("\"event\":\"event\",\"seq\":{seq},\"with\":{with}"));
            hold(seq, Box::new(move || it.acknowledge()));
        }
        Event::Sent(it) => say(&format!(
            "\"event\":\"sent\",\"client_id\":{},\"id\":\"{}\",\"seq\":{}",
            quote(&it.client_id),
            it.id,
            it.seq
        )),
        Event::Failed(it) => {
            let (client_id, why) = (quote(&it.client_id), quote(&it.error.code));
            say(&format!("\"event\":\"failed\",\"client_id\":{client_id},\"why\":{why}"));
        }
        Event::Frame(name) => say(&format!("\"event\":\"frame\",\"answer\":{}", quote(name))),
        Event::StoreFailed(error) => eprintln!("the state is not stored: {error}"),
        Event::Told(_) => {}
    }
}

fn open(command: &Json) -> std::io::Result<Open> {
    let text = |name| command.text(name).expect("a name");
    let clock = ManualClock::new(command.number("wall_ms").unwrap_or(0.0) as u64);
    let store = MemoryStore::new(command.text("state").map(str::to_owned));
    let mut options = Options::new("", text("account"), text("device"));
    options.addresses = command.texts("addresses").expect("addresses");
    options.credentials = credentials(command);
    options.store = Box::new(store.clone());
    options.connector = Arc::new(connector(command));
    options.silence_s = command.number("silence_s").unwrap_or(0.0) as u32;
    options.clock = Box::new(clock.clone());
    let random = command.number("random").unwrap_or(0.5);
    options.random = Some(Box::new(move || random));
    let is_manual = command.text("acknowledge") == Some("manual");
    let held = Held::default();
    let keep = held.clone();
    let client = Client::start_with(options, move |event| tell(event, is_manual, &keep));
    Ok(Open { client: client?, clock, store, held })
}

fn tell_history(ask: u64, result: Result<Answer, Error>) {
    let more = match result {
        Ok(Answer::History(page)) => {
            let text = |it: &holdline_im::pb::ChatMessage| {
                it.content.as_ref().map(|content| content.text.clone()).unwrap_or_default()
            };
            let texts: Vec<_> = page.messages.iter().rev().map(text).collect();
            format!("\"texts\":{},\"more\":{}", quotes(&texts), page.more)
        }
        Ok(_) => "\"error\":\"another answer\"".to_owned(),
        Err(error) => format!("\"error\":{}", quote(&error.code)),
    };
    say(&format!("\"event\":\"history\",\"ask\":{ask},{more}"));
}

impl Open {
    fn acknowledge(&self, place: u64) {
        let mut held = self.held.lock().expect("no panics");
        let at = held.iter().position(|(it, _)| *it == place).expect("it is held");
        (held.remove(at).1)();
    }

    fn send(&self, command: &Json) -> String {
        let text = |name| command.text(name).expect("a text");
        let result = match command.text("client_id") {
            None => self.client.send(text("to"), text("text")),
            Some(client_id) => {
                let text = text("text").to_owned();
                let content = holdline_im::pb::Content { kind: 1, text, ..Default::default() };
                let sent =
                    self.client.send_as(client_id, command.text("to").unwrap_or(""), content);
                sent.map(|()| client_id.to_owned())
            }
        };
        match result {
            Ok(client_id) => format!("\"client_id\":{}", quote(&client_id)),
            Err(error) => format!("\"error\":{}", quote(&error.code)),
        }
    }

    fn history(&self, number: u64, command: &Json) -> String {
        let ask = holdline_im::pb::History {
            with: command.text("with").expect("a name").to_owned(),
            count: command.number("count").expect("a count") as u32,
            backwards: true,
            ..Default::default()
        };
        let ask = holdline_im::Request::History(ask);
        self.client.ask(ask, move |result| tell_history(number, result));
        format!("\"ask\":{number}")
    }

    fn command(&self, name: &str, number: u64, command: &Json) -> String {
        let mut answer = String::new();
        match name {
            "time" => self.clock.set(command.number("ms").expect("a time") as u64),
            "acknowledge" => self.acknowledge(command.number("seq").expect("a place") as u64),
            "send" => answer = self.send(command),
            "history" => answer = self.history(number, command),
            "nudge" => self.client.nudge(),
            "network" => self.client.network(command.text("name").expect("a name")),
            "close" => self.client.goodbye(),
            other => panic!("unknown command {other}"),
        }
        let next = self.client.settle();
        if name == "time" {
            answer = format!("\"next\":{}", next.map_or("null".into(), |next| next.to_string()));
        }
        answer
    }

    fn kill(self) -> String {
        self.client.stop();
        let state = self.store.text();
        format!("\"state\":{}", state.map_or("null".into(), |state| quote(&state)))
    }
}

fn hello() -> String {
    let tls = if cfg!(feature = "tls") { ",\"tls\",\"pins\"" } else { "" };
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "\"library\":\"holdline-im for Rust\",\"version\":\"{version}\",\"features\":[\"manual\",\
         \"heartbeat\",\"schema\",\"socks5\",\"http_connect\",\"detail\"{tls}]"
    )
}

fn main() {
    let mut current: Option<Open> = None;
    for line in io::stdin().lock().lines() {
        let command = Parser(line.expect("standard input is text").as_bytes()).value();
        let number = command.number("n").expect("a number") as u64;
        let name = command.text("do").expect("a command");
        let answer = match name {
            "hello" => hello(),
            "decode" => decode(&command),
            "schema" => schema(),
            "prove" => prove(&command),
            "open" => match open(&command) {
                Ok(open) => {
                    open.client.settle();
                    current = Some(open);
                    String::new()
                }
                Err(error) => format!("\"error\":{}", quote(&error.to_string())),
            },
            "kill" => current.take().expect("a client is open").kill(),
            other => current.as_ref().expect("a client is open").command(other, number, &command),
        };
        let comma = if answer.is_empty() { "" } else { "," };
        say(&format!("\"n\":{number}{comma}{answer}"));
    }
}
