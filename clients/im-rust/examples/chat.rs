//! Sends a text and prints what comes: `cargo run --example chat -- HOST:PORT ACCOUNT TO TEXT`.

use holdline_im::{Client, Credentials, Event, FileStore, Options, State};
use std::sync::mpsc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, account, to, text] = &arguments[..] else {
        return Err("usage: chat HOST:PORT ACCOUNT TO TEXT (PASSWORD is read from there)".into());
    };
    let mut options = Options::new(address, account, "laptop");
    options.store = Box::new(FileStore::new(format!("{account}.state")));
    if let Ok(password) = std::env::var("PASSWORD") {
        options.credentials = Credentials::Password(password);
    }
    let (ended, end) = mpsc::channel();
    let client = Client::start_with(options, move |event| match event {
        Event::Message(message) => {
            println!("{}: {}", message.raw.from, message.text());
            message.acknowledge();
        }
        Event::Change(change) => change.acknowledge(),
        Event::Failed(failed) => eprintln!("to {}: {}", failed.to, failed.error),
        Event::State(State::Ended(why)) => drop(ended.send(why)),
        _ => {}
    })?;
    client.send(to, text)?;
    Err(end.recv()?.into())
}
