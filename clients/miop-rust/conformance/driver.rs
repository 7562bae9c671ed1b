//! The driver of clients/conformance for this library: JSON lines on standard input and output.

use holdline_miop::wire::{self, Claim, Frame, Properties, Record};
use holdline_miop::{
    Client, Credentials, Event, ManualClock, MemoryStore, Options, Push, State, Store, TcpConnector,
};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
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

    fn long(&self, name: &str) -> Option<u64> {
        self.text(name).map(|text| text.parse().expect("a 64-bit number"))
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

    fn flag(&self, name: &str) -> bool {
        self.get(name) == Some(&Json::Bool(true))
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

// ---- frames -------------------------------------------------------------------------------------

macro_rules! properties {
    ($($name:ident $kind:ident)+) => {
        fn write_properties(it: &Properties) -> String {
            let mut fields = Vec::new();
            $(if let Some(value) = &it.$name {
                fields.push(format!("\"{}\":{}", stringify!($name), $kind::write(value)));
            })+
            if !it.addrs.is_empty() {
                fields.push(format!("\"addrs\":{}", quotes(&it.addrs)));
            }
            if !it.tags.is_empty() {
                fields.push(format!("\"tags\":{}", quotes(&it.tags)));
            }
            format!("{{{}}}", fields.join(","))
        }

        fn read_properties(it: &Json) -> Properties {
            Properties {
                $($name: $kind::read(it, stringify!($name)),)+
                addrs: it.texts("addrs").unwrap_or_default(),
                tags: it.texts("tags").unwrap_or_default(),
            }
        }
    };
}

mod text {
    pub fn write(value: &str) -> String {
        super::quote(value)
    }
    pub fn read(it: &super::Json, name: &str) -> Option<String> {
        it.text(name).map(str::to_owned)
    }
}

mod long {
    pub fn write(value: &u64) -> String {
        super::quote(&value.to_string())
    }
    pub fn read(it: &super::Json, name: &str) -> Option<u64> {
        it.long(name)
    }
}

mod number {
    pub fn write(value: &impl ToString) -> String {
        value.to_string()
    }
    pub fn read<T: TryFrom<u64>>(it: &super::Json, name: &str) -> Option<T> {
        it.number(name).and_then(|number| T::try_from(number as u64).ok())
    }
}

mod raw {
    pub fn write(value: &[u8]) -> String {
        super::quote(&super::hex(value))
    }
    pub fn read<T: TryFrom<Vec<u8>>>(it: &super::Json, name: &str) -> Option<T> {
        it.bytes(name).and_then(|bytes| T::try_from(bytes).ok())
    }
}

mod wish {
    pub fn write(value: &[u16; 3]) -> String {
        format!("{value:?}")
    }
    pub fn read(it: &super::Json, name: &str) -> Option<[u16; 3]> {
        let number = |it: &super::Json| match it {
            super::Json::Number(number) => *number as u16,
            other => panic!("no number: {other:?}"),
        };
        let list: Vec<u16> = it.list(name)?.iter().map(number).collect();
        list.try_into().ok()
    }
}

properties! {
    device_id text
    product_key text
    client_ts long
    heartbeat_wish wish
    heartbeat number
    client_nonce raw
    server_nonce raw
    auth_type number
    key_id number
    mac raw
    token raw
    resume_token raw
    last_msg_id long
    session_epoch long
    result number
    reason text
    retry_after_ms number
    caps number
    max_frame number
    max_inflight number
    ack_timeout_ms number
    offline_count number
    server_time long
    count number
    report_seq number
}

fn write_record(it: &Record) -> String {
    format!(
        "\"id\":\"{}\",\"app_id\":{},\"silent\":{},\"high\":{},\"expire_at\":{},\
         \"collapse\":\"{}\",\"body\":\"{}\"",
        it.id,
        it.app_id,
        it.silent,
        it.high,
        it.expire_at,
        hex(&it.collapse),
        hex(&it.body)
    )
}

fn write_frame(it: &Frame) -> String {
    if it.skipped {
        return format!("{{\"opcode\":{},\"skipped\":true}}", it.opcode);
    }
    let mut out =
        format!("{{\"opcode\":{},\"properties\":{}", it.opcode, write_properties(&it.properties));
    if it.records.is_empty() {
        let _ = write!(out, ",\"payload\":\"{}\"", hex(&it.payload));
    } else {
        let records: Vec<String> =
            it.records.iter().map(|it| format!("{{{}}}", write_record(it))).collect();
        let _ = write!(out, ",\"records\":[{}]", records.join(","));
    }
    if let Some(seq) = it.seq {
        let _ = write!(out, ",\"seq\":{seq}");
    }
    out += if it.ack_req { ",\"ack_req\":true" } else { "" };
    out += if it.dup { ",\"dup\":true" } else { "" };
    out + "}"
}

fn decode(command: &Json) -> String {
    let bytes = command.bytes("bytes").expect("bytes");
    let limit = command.number("frame_bytes_max").unwrap_or(65_536.0) as usize;
    match Frame::decode(&bytes, limit) {
        Ok(None) => "\"more\":true".to_owned(),
        Ok(Some((frame, length))) => {
            format!("\"frame\":{},\"length\":{length}", write_frame(&frame))
        }
        Err(wire::Fault(name)) => format!("\"fault\":{}", quote(name)),
    }
}

fn encode(command: &Json) -> String {
    let it = command.get("frame").expect("a frame");
    let opcode = it.number("opcode").expect("an opcode") as u8;
    let mut frame = Frame::new(opcode, read_properties(it.get("properties").expect("properties")));
    frame.payload = it.bytes("payload").unwrap_or_default();
    frame.seq = it.number("seq").map(|seq| seq as u32);
    format!("\"bytes\":\"{}\"", hex(&frame.encode()))
}

fn mac(command: &Json) -> String {
    let text = |name| command.text(name).expect("a name").to_owned();
    let bytes = |name| command.bytes(name).expect("bytes");
    let claim = Claim {
        secret: bytes("secret"),
        product: text("product"),
        device: text("device"),
        client_ts: command.long("client_ts").expect("a time"),
        client_nonce: bytes("client_nonce").try_into().expect("16 bytes"),
        caps: command.number("caps").expect("capabilities") as u32,
    };
    format!("\"mac\":\"{}\"", hex(&claim.sign(&bytes("server_nonce"))))
}

// ---- the client ---------------------------------------------------------------------------------

struct Open {
    client: Client,
    clock: ManualClock,
    store: Breakable,
    held: Arc<Mutex<HashMap<u64, Push>>>,
}

/// A store that can break.
#[derive(Clone)]
struct Breakable {
    kept: MemoryStore,
    is_broken: Arc<AtomicBool>,
}

impl Store for Breakable {
    fn load(&mut self) -> std::io::Result<Option<String>> {
        self.kept.load()
    }

    fn save(&mut self, text: &str) -> std::io::Result<()> {
        match self.is_broken.load(Ordering::SeqCst) {
            true => Err(std::io::Error::other("broken")),
            false => self.kept.save(text),
        }
    }
}

fn tell_state(state: State) {
    match state {
        State::Idle => {}
        State::Connecting(address) => {
            let address = quote(&address);
            say(&format!("\"event\":\"state\",\"state\":\"connecting\",\"address\":{address}"));
        }
        State::Binding => say("\"event\":\"state\",\"state\":\"binding\""),
        State::Closing => say("\"event\":\"state\",\"state\":\"closing\""),
        State::Bound { resumed, heartbeat, offline_count } => say(&format!(
            "\"event\":\"state\",\"state\":\"bound\",\"resumed\":{resumed},\
             \"heartbeat\":{heartbeat},\"offline_count\":{offline_count}"
        )),
        State::Waiting { until, why, detail } => {
            let (why, detail) = (quote(&why), quote(&detail));
            say(&format!(
                "\"event\":\"state\",\"state\":\"waiting\",\"until\":{until},\"why\":{why},\
                 \"detail\":{detail}"
            ));
        }
        State::Ended { why, result } => {
            let why = quote(&why);
            let result = result.map(|it| format!(",\"result\":{it}")).unwrap_or_default();
            say(&format!("\"event\":\"state\",\"state\":\"ended\",\"why\":{why}{result}"));
        }
    }
}

fn credentials(command: &Json) -> Credentials {
    let key_id = command.number("key_id").unwrap_or(0.0) as u32;
    match (command.bytes("secret"), command.text("token")) {
        (Some(secret), _) => Credentials::Secret { key_id, secret },
        (None, Some(token)) => Credentials::Token(token.as_bytes().to_vec()),
        (None, None) => Credentials::None,
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

fn open(command: &Json) -> std::io::Result<Open> {
    let text = |name| command.text(name).expect("a name");
    let clock = ManualClock::new(command.number("wall_ms").unwrap_or(1_700_000_000_000.0) as u64);
    let kept = MemoryStore::new(command.text("state").map(str::to_owned));
    let store = Breakable { kept, is_broken: Arc::default() };
    let mut options = Options::new("", text("product"), text("device"));
    options.addresses = command.texts("addresses").expect("addresses");
    let proof = credentials(command);
    options.credentials = Box::new(move || proof.clone());
    options.store = Box::new(store.clone());
    options.connector = Arc::new(connector(command));
    options.tags = command.texts("tags");
    options.max_inflight = command.number("max_inflight").map(|it| it as u16);
    options.pulls = command.flag("pulls");
    if let Some(it) = command.get("heartbeat") {
        let number = |name| it.number(name).expect("seconds") as u16;
        options.heartbeat = [number("shortest"), number("first"), number("longest")];
    }
    options.heartbeat_wish = command.number("heartbeat_wish").unwrap_or(0.0) as u16;
    options.clock = Box::new(clock.clone());
    let random = command.number("random").unwrap_or(0.5);
    options.random = Some(Box::new(move || random));
    let is_manual = command.text("acknowledge") == Some("manual");
    let held = Arc::new(Mutex::new(HashMap::new()));
    let keep = held.clone();
    let client = Client::start_with(options, move |event| match event {
        Event::State(state) => tell_state(state),
        Event::Push(push) => {
            say(&format!("\"event\":\"push\",{}", write_record(&push)));
            match is_manual {
                true => drop(keep.lock().expect("no panics").insert(push.id, push)),
                false => push.acknowledge(),
            }
        }
        Event::Stored(name) => {
            say(&format!("\"event\":\"stored\",\"client_id\":{}", quote(&name)));
        }
        Event::Pulled(remaining) => {
            say(&format!("\"event\":\"pulled\",\"remaining\":{remaining}"));
        }
        Event::Frame(opcode) => say(&format!("\"event\":\"frame\",\"opcode\":{opcode}")),
        Event::StoreFailed(error) => eprintln!("the state is not stored: {error}"),
    });
    Ok(Open { client: client?, clock, store, held })
}

impl Open {
    fn command(&self, name: &str, command: &Json) -> String {
        let push = |id: u64| self.held.lock().expect("no panics").remove(&id);
        match name {
            "time" => self.clock.set(command.number("ms").expect("a time") as u64),
            "acknowledge" => {
                push(command.long("id").expect("an id")).expect("it is held").acknowledge();
            }
            "reject" => drop(push(command.long("id").expect("an id"))),
            "report" => {
                let payload = command.bytes("payload").expect("a payload");
                return match self.client.report(&payload, command.text("client_id")) {
                    Ok(client_id) => format!("\"client_id\":{}", quote(&client_id)),
                    Err(error) => format!("\"error\":{}", quote(&error.to_string())),
                };
            }
            "opened" | "dismissed" => {
                let id = command.long("id").expect("an id");
                let told = match name {
                    "opened" => self.client.opened(id),
                    _ => self.client.dismissed(id),
                };
                return match told {
                    Ok(client_id) => format!("\"client_id\":{}", quote(&client_id)),
                    Err(error) => format!("\"error\":{}", quote(&error.to_string())),
                };
            }
            "pull" => self.client.pull(command.number("count").expect("a count") as u16),
            "break_store" => {
                self.store.is_broken.store(command.flag("broken"), Ordering::SeqCst);
            }
            "nudge" => self.client.nudge(),
            "network" => self.client.network(command.text("name").expect("a name")),
            "close" => self.client.goodbye(),
            other => panic!("unknown command {other}"),
        }
        let next = self.client.settle();
        match name {
            "time" => format!("\"next\":{}", next.map_or("null".into(), |next| next.to_string())),
            _ => String::new(),
        }
    }

    fn kill(self) -> String {
        self.client.stop();
        let state = self.store.kept.text();
        format!("\"state\":{}", state.map_or("null".into(), |state| quote(&state)))
    }
}

fn hello() -> String {
    let tls = if cfg!(feature = "tls") { ",\"tls\",\"pins\"" } else { "" };
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "\"library\":\"holdline-miop for Rust\",\"version\":\"{version}\",\
         \"features\":[\"socks5\",\"http_connect\",\"detail\",\"break_store\"{tls}]"
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
            "encode" => encode(&command),
            "mac" => mac(&command),
            "open" => match open(&command) {
                Ok(open) => {
                    open.client.settle();
                    current = Some(open);
                    String::new()
                }
                Err(error) => format!("\"error\":{}", quote(&error.to_string())),
            },
            "kill" => current.take().expect("a client is open").kill(),
            other => current.as_ref().expect("a client is open").command(other, &command),
        };
        let comma = if answer.is_empty() { "" } else { "," };
        say(&format!("\"n\":{number}{comma}{answer}"));
    }
}
