//! An idle phone by the library for Rust: ADDRESS PRODUCT DEVICE FIRST_S.

use holdline_miop::{Client, Event, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let mut options = Options::new(&words[1], &words[2], &words[3]);
    options.heartbeat = [30, words[4].parse()?, 1_800];
    options.on_event = Some(Box::new(|event| {
        if let Event::State(state) = event {
            println!("# {state:?}");
        }
    }));
    let client = Client::start(options)?;
    loop {
        let push = client.next_push()?;
        println!("{}", push.text());
        push.acknowledge();
    }
}
