//! Reports for a webhook in a real data folder, over restarts: what the cursor says and where the
//! messages begin is what a courier counts losses by.

use super::backlog;
use super::*;
use model::id::ProductKey;
use model::ports::backlog::Backlog;
use model::ports::log::Append;
use model::timeline::Message;
use net::mailbox::Mailbox;
use tempfile::TempDir;

const COUNT_MAX: u64 = 3;

struct Place(TempDir);

impl Place {
    fn open(&self) -> Folder {
        let text = format!(
            "[server]\ndata = {:?}\nshards = 1\npin = false\n[listen]\n[api]\nenabled = false\n\
             [store]\nreports_count_max = {COUNT_MAX}\n[products.shop]\napp_id = 7",
            self.0.path().to_str().expect("a path of letters")
        );
        let config = Config::parse("test", &text, std::iter::empty()).expect("it holds the rules");
        open(&config, (1, false), None).expect("opens")
    }
}

/// The only shard has no service: what is told of Reports is the folder's.
fn restore(folder: &mut Folder) {
    let now = clock::now(clock::began());
    folder.restore(now, &mut [Vec::new()], &entrance()).expect("readable");
}

fn entrance() -> Arc<Entrance> {
    Entrance::new(crate::access::Settings::default(), [0; 32]).expect("no file is named")
}

fn shop() -> ProductKey {
    ProductKey::parse("shop").expect("allowed")
}

fn timeline(folder: &Folder) -> TimelineId {
    backlog::timeline(folder.home, "http://a/", Some(&shop()))
}

/// The same of a running storage.
fn hook(backlog: &HookBacklog) -> TimelineId {
    backlog.timeline("http://a/", Some(&shop()))
}

fn append(folder: &mut Folder, count: u64) {
    let to = vec![timeline(folder)];
    let (label, body) = (Box::default(), b"a Report".as_slice().into());
    let message = Arc::new(Message { id: 1, at_s: clock::unix_s(), label, body });
    let append = || Append {
        message: message.clone(),
        to: to.clone(),
        once: None,
        heard: None,
        ends: false,
    };
    let writes = (0..count).map(|_| Write::Append(append())).collect();
    enter(&mut folder.opened, 0, writes).expect("room");
}

fn start(folder: Folder) -> Storage {
    let boxes: Mailboxes<ServerOutside> = Arc::new([Mailbox::new(8).expect("a mailbox")]);
    folder.start(boxes, (entrance(), None)).expect("starts")
}

fn close(storage: Storage) {
    storage.let_couriers_go();
    storage.close();
}

fn seqs(backlog: &HookBacklog) -> Vec<Seq> {
    let page = backlog.pull(hook(backlog), 0, 0).expect("readable");
    page.messages.iter().map(|placed| placed.seq).collect()
}

#[test]
fn the_cursor_outlives_restarts_and_shows_what_retention_dropped() {
    let place = Place(TempDir::new().expect("a folder"));
    let mut folder = place.open();
    append(&mut folder, 3);
    let storage = start(folder);
    let backlog = &storage.backlog;
    assert_eq!(
        (backlog.cursor(hook(backlog), 0), seqs(backlog)),
        (Ok(0), vec![1, 2, 3]),
        "nothing is lost"
    );
    assert_eq!(backlog.remove(hook(backlog), 0, 2, vec![1, 2]), Ok(()));
    assert_eq!(backlog.remove(hook(backlog), 0, 2, vec![3]), Ok(()), "given up: nobody was told");
    close(storage);
    let mut folder = place.open();
    append(&mut folder, 5);
    let storage = start(folder);
    let mut left = seqs(&storage.backlog);
    while left.len() as u64 > COUNT_MAX {
        std::thread::yield_now();
        left = seqs(&storage.backlog);
    }
    assert_eq!(
        (storage.backlog.cursor(hook(&storage.backlog), 0), left),
        (Ok(2), vec![6, 7, 8]),
        "3 to 5 are lost"
    );
    close(storage);
}

#[test]
fn a_webhook_that_was_forgotten_and_comes_back_is_told_of_no_loss() {
    let place = Place(TempDir::new().expect("a folder"));
    let mut folder = place.open();
    append(&mut folder, 3);
    let storage = start(folder);
    assert_eq!(storage.backlog.remove(hook(&storage.backlog), 0, 1, vec![1]), Ok(()));
    close(storage);
    let mut folder = place.open();
    restore(&mut folder);
    folder.forget_others(&[None]).expect("room");
    close(start(folder));
    let mut folder = place.open();
    append(&mut folder, 1);
    let storage = start(folder);
    let backlog = &storage.backlog;
    assert_eq!((backlog.cursor(hook(backlog), 0), seqs(backlog)), (Ok(3), vec![4]));
    close(storage);
}

#[test]
fn a_webhook_that_is_removed_while_the_server_runs_is_forgotten_as_by_a_restart() {
    let place = Place(TempDir::new().expect("a folder"));
    let mut folder = place.open();
    append(&mut folder, 3);
    let storage = start(folder);
    let backlog = &storage.backlog;
    let never = backlog.timeline("http://b/", None);
    assert_eq!(backlog.forget(never), Ok(()), "one that never had a Report");
    assert_eq!((backlog.cursor(never, 0), backlog.forget(hook(backlog))), (Ok(0), Ok(())));
    assert_eq!((backlog.cursor(hook(backlog), 0), seqs(backlog)), (Ok(3), vec![]));
    close(storage);
    let mut folder = place.open();
    append(&mut folder, 1);
    let storage = start(folder);
    let backlog = &storage.backlog;
    assert_eq!((backlog.cursor(hook(backlog), 0), seqs(backlog)), (Ok(3), vec![4]));
    close(storage);
}
