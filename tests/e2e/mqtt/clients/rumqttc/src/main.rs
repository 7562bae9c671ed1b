//! rumqttc, told by lines. See drivers.py for what is said both ways; this knows both modules of
//! the library, and each client has a thread for its event loop.

mod line;
mod old;
mod v5;

use line::Line;
use std::collections::HashMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::Arc;

/// A client of either module. What it is asked it answers by itself.
trait Client {
    fn subscribe(&self, line: &Line) -> Result<(), String>;
    fn unsubscribe(&self, line: &Line) -> Result<(), String>;
    fn publish(&self, line: &Line, payload: String) -> Result<(), String>;
    fn disconnect(&self) -> Result<(), String>;
    fn state(&self) -> &State;
}

/// What the thread of commands and the thread of events share.
#[derive(Clone)]
struct State {
    name: String,
    leaving: Arc<AtomicBool>,
    up: Arc<AtomicBool>,
    /// Publishes whose answer has not come.
    left: Arc<AtomicI64>,
}

impl State {
    fn new(name: &str) -> State {
        State {
            name: name.to_owned(),
            leaving: Arc::default(),
            up: Arc::default(),
            left: Arc::default(),
        }
    }

    fn say(&self, event: &str, fields: &[(&str, String)]) {
        line::say(&self.name, event, fields);
    }

    fn connected(&self, present: bool, more: Vec<(&str, String)>) {
        self.up.store(true, Ordering::SeqCst);
        let mut fields = vec![("present", u8::from(present).to_string())];
        fields.extend(more);
        self.say("connected", &fields);
    }

    /// One publish has had its last answer.
    fn published(&self, code: u8) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.say("published", &[("code", code.to_string())]);
        }
    }

    /// The event loop has ended.
    fn ended(&self, why: String) {
        let event = if self.leaving.load(Ordering::SeqCst) {
            "disconnected"
        } else if self.up.load(Ordering::SeqCst) {
            "lost"
        } else {
            "refused"
        };
        self.say(event, &[("why", why)]);
    }
}

fn obey(clients: &mut HashMap<String, Box<dyn Client>>, line: &Line) -> Result<(), String> {
    let name = line.need("as");
    if line.need("do") == "connect" {
        let client: Box<dyn Client> = match line.need("version") {
            "5" => Box::new(v5::connect(name, line)),
            _ => Box::new(old::connect(name, line)),
        };
        clients.insert(name.to_owned(), client);
        return Ok(());
    }
    let client = clients.get(name).ok_or("not connected")?;
    match line.need("do") {
        "subscribe" => client.subscribe(line),
        "unsubscribe" => client.unsubscribe(line),
        "publish" => {
            let count = line.number("count", 1);
            client.state().left.store(count as i64, Ordering::SeqCst);
            for at in 0..count {
                let payload = line.text("payload").unwrap_or_default();
                let is_many = count > 1;
                let payload =
                    if is_many { payload.replace('%', &at.to_string()) } else { payload.into() };
                client.publish(line, payload)?;
            }
            Ok(())
        }
        "disconnect" => {
            client.state().leaving.store(true, Ordering::SeqCst);
            client.disconnect()
        }
        other => Err(format!("what is {other}?")),
    }
}

fn main() {
    let mut clients = HashMap::new();
    for text in std::io::stdin().lock().lines().map_while(Result::ok) {
        let line = Line::read(&text);
        if let Err(why) = obey(&mut clients, &line) {
            line::say(line.need("as"), "failed", &[("why", why)]);
        }
    }
}
