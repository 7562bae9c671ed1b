//! A server without sockets over a real data folder: what it was told is there after a restart,
//! also with another number of shards.

use model::id::{DeviceId, ProductKey, Tag};
use model::ports::control::{Answer, Command, Control};
use model::ports::log::{Done, RowHome, Table, Write};
use model::ports::pushes::{DeviceState, PushAnswer, PushCommand, PushOrder, PushTarget};
use model::product::Product;
use model::push::Outcome;
use server::config::Config;
use server::start::{RunningServer, start};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

const DEVICES: usize = 20;

fn run(data: &Path, shards: u16) -> RunningServer {
    let text = format!(
        "[server]\ndata = {:?}\nshards = {shards}\npin = false\n[listen]\n[api]\nenabled = false\n\
         [products.shop]\napp_id = 7",
        data.to_str().expect("a path of letters")
    );
    let config = Config::parse("test", &text, std::iter::empty()).expect("it holds to the rules");
    start(config).expect("starts")
}

fn stop(server: RunningServer) {
    server.drain();
    server.join();
}

fn ask(server: &RunningServer, command: Command) -> Answer {
    let (tell, told) = sync_channel(1);
    server.control().ask(command, Box::new(move |answer| tell.send(answer).expect("awaited")));
    told.recv().expect("an answer")
}

fn key(name: &str) -> ProductKey {
    ProductKey::parse(name).expect("allowed")
}

fn device(number: usize) -> DeviceId {
    DeviceId::parse(&format!("d-{number}")).expect("allowed")
}

fn devices() -> Vec<DeviceId> {
    (0..DEVICES).map(device).collect()
}

fn push(server: &RunningServer, idempotency_key: Option<&str>, body: &[u8]) -> Answer {
    let (id, target) = (server.control().next_id(), PushTarget::Devices(devices()));
    let order = PushOrder {
        time_to_live_s: 86_400,
        idempotency_key: idempotency_key.map(Into::into),
        ..PushOrder::new(id, key("shop"), target, body.into())
    };
    ask(server, Command::Push(PushCommand::Push(order)))
}

fn states(server: &RunningServer) -> Vec<DeviceState> {
    match ask(
        server,
        Command::Push(PushCommand::States { product: key("shop"), devices: devices() }),
    ) {
        Answer::Push(PushAnswer::Devices(mut states)) => {
            states.sort_by(|a, b| a.device.cmp(&b.device));
            states
        }
        other => panic!("no states: {other:?}"),
    }
}

fn products(server: &RunningServer) -> Vec<ProductKey> {
    match ask(server, Command::Push(PushCommand::Products)) {
        Answer::Push(PushAnswer::Products(products)) => {
            products.iter().map(|product| product.key.clone()).collect()
        }
        other => panic!("no products: {other:?}"),
    }
}

#[test]
fn what_was_promised_is_there_after_restarts_with_other_shards() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = run(&data, 2);
    let Answer::Push(PushAnswer::Pushed { id, outcomes, .. }) =
        push(&server, Some("first"), b"hello")
    else {
        panic!("it is pushed")
    };
    assert_eq!(outcomes.len(), DEVICES);
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Stored), "{outcomes:?}");
    let (product, tags) = (key("shop"), vec![Tag::parse("berlin").expect("allowed")]);
    let set = Command::Push(PushCommand::SetTags {
        product: product.clone(),
        device: device(3),
        tags: tags.clone(),
    });
    assert_eq!(ask(&server, set), Answer::Push(PushAnswer::Done(true)));
    let block = Command::Push(PushCommand::Block { product, device: device(4), blocked: true });
    assert_eq!(ask(&server, block), Answer::Push(PushAnswer::Done(true)));
    let made = Box::new(Product::new(key("made"), 9));
    assert_eq!(
        ask(&server, Command::Push(PushCommand::PutProduct(made))),
        Answer::Push(PushAnswer::Done(true))
    );
    let before = states(&server);
    assert_eq!(before.len(), DEVICES);
    stop(server);
    for shards in [2, 3, 1, 2] {
        let server = run(&data, shards);
        assert_eq!(states(&server), before, "with {shards} shards");
        assert!(products(&server).contains(&key("made")));
        assert!(server.control().next_id() > id, "ids rise over a restart");
        stop(server);
    }
    assert_eq!(before[0].waiting, 1);
    let tagged = before.iter().find(|state| state.device == device(3)).expect("known");
    assert_eq!(tagged.tags, tags);
}

#[test]
fn a_repeated_order_is_known_again_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), 2);
    let Answer::Push(PushAnswer::Pushed { id: first, .. }) = push(&server, Some("k"), b"hello")
    else {
        panic!()
    };
    stop(server);
    let server = run(folder.path(), 2);
    let Answer::Push(PushAnswer::Pushed { id: again, .. }) = push(&server, Some("k"), b"hello")
    else {
        panic!()
    };
    assert_eq!(again, first);
    assert!(states(&server).iter().all(|state| state.waiting == 1), "nothing is doubled");
    assert_eq!(push(&server, Some("k"), b"another"), Answer::Push(PushAnswer::Conflict));
    stop(server);
}

#[test]
fn a_product_that_was_dropped_in_one_log_alone_does_not_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = run(folder.path(), 2);
    let made = Box::new(Product::new(key("made"), 9));
    assert_eq!(
        ask(&server, Command::Push(PushCommand::PutProduct(made))),
        Answer::Push(PushAnswer::Done(true))
    );
    stop(server);
    let settings = store::data::Settings::new(store::data::Secrets::of([0; 64]), 2);
    let files = Arc::new(store::files::Disk);
    let mut opened = store::data::Folder::open(folder.path(), settings, files).expect("opens");
    let (key_bytes, dropped) = (RowHome::Everywhere.key(&[b"made"]), Box::from([0]));
    let put = Write::Put { table: Table::Products, key: key_bytes, value: dropped };
    assert_eq!(opened.commit(1, 0, &[put]), [Ok(Done::Written)]);
    drop(opened);
    for start in 1..4 {
        let server = run(folder.path(), 2);
        assert!(!products(&server).contains(&key("made")), "start {start}");
        stop(server);
    }
}
