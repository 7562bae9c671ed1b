//! Prints pushes: `cargo run --example receive -- HOST:PORT PRODUCT DEVICE`.

use holdline_miop::{Client, FileStore, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, product, device] = &arguments[..] else {
        return Err("usage: receive HOST:PORT PRODUCT DEVICE".into());
    };
    let mut options = Options::new(address, product, device);
    options.store = Box::new(FileStore::new(format!("{device}.state")));
    let client = Client::start(options)?;
    loop {
        let push = client.next_push()?;
        println!("{}", push.text());
        push.acknowledge();
    }
}
