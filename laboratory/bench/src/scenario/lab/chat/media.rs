//! Cost of a file for the server of chat: its two calls, for leave to upload and for the message
//! about it; and putting and getting it, where the server keeps it itself.
//!
//! *Bucket*: the leave is a presigned address of a storage that speaks S3; nothing of the file
//! comes to the server. *Folder*: the file is put and got at the server's own listener. The same
//! number of plain messages is said for comparison. CPU is the server's process's, until it is at
//! rest.

use super::person::Person;
use super::rest;
use crate::child::pinned;
use crate::clock;
use crate::holdline::{Holdline, Setup};
use crate::measure::cpu;
use crate::results::Outcome;
use crate::scenario::{CALLER_CORE, SERVER_CORE, Scale};
use client::im::{ImEvent, ImOrder};
use model::chat::Content;
use model::media::{UploadSlot, UploadWish};
use serde_json::json;
use std::io;

/// People that send files, and files of each.
const PEOPLE: u32 = 50;
const FILES: u32 = 400;
/// Files that are put and got, each one of them, and their bytes.
const STORED: u32 = 2_000;
const BYTES: usize = 64 << 10;
/// Calls of a person without an answer.
const WINDOW: usize = 16;
const BUCKET: &str = "[media]\ns3_endpoint = \"http://127.0.0.1:9\"\ns3_bucket = \"files\"\n\
    s3_access_key = \"measurement\"\ns3_secret_key = \"measurement-secret\"\n\
    files_a_day_max = 1000000\nbytes_a_day_max = 1000000000000\n";

/// Runs the scenario.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (files, stored) = (scale.of(FILES), scale.of(STORED));
    let mut outcome = Outcome::new(json!({
        "people": PEOPLE, "files_each": files, "stored": stored, "bytes": BYTES,
        "window": WINDOW, "server": setup(BUCKET).plan()?,
        "cores": "the server with its log on one, who sends on the other",
    }));
    let server = setup(BUCKET).start()?;
    let mut costs = Vec::new();
    for (name, call) in [
        ("leave to upload", Call::Leave),
        ("the message of a file", Call::File),
        ("a message of as many bytes, as text", Call::Text),
    ] {
        rest(&server)?;
        let before = cpu::used(server.pid())?;
        pinned(CALLER_CORE, || (0..PEOPLE).try_for_each(|one| calls(&server, one, files, call)))?;
        rest(&server)?;
        let used = cpu::used(server.pid())? - before;
        let each = used.as_nanos() as f64 / 1e3 / f64::from(PEOPLE * files);
        outcome.figure(&format!("{name}: CPU"), each, "µs a call");
        costs.push(each);
    }
    let both = costs[0] + costs[1];
    outcome.figure("both calls: CPU", both, "µs a file");
    outcome.figure("files a second a core", 1e6 / both, "a second");
    in_folder(stored, &mut outcome)?;
    Ok(outcome)
}

fn setup(more: &str) -> Setup {
    Setup { shards: 1, core: Some(SERVER_CORE), more: more.to_owned(), ..Setup::default() }
}

/// Kind of a call.
#[derive(Clone, Copy)]
enum Call {
    Leave,
    File,
    Text,
}

/// One person asks so often, some without an answer.
fn calls(server: &Holdline, one: u32, count: u32, call: Call) -> io::Result<()> {
    let mut person = Person::login(server.address, &format!("sender-{one}"), "phone")?;
    let other = format!("sender-{}", one / 2 * 2);
    let slot = leave(&mut person, BYTES)?;
    let note = format!(
        "url: {}\nname: cat.png\ntype: image/png\nbytes: {BYTES}\nsize: 800x600\n",
        slot.get_url
    );
    let text = "x".repeat(note.len() + 7);
    person.all(count as usize, WINDOW, |person, _| match call {
        Call::Leave => Ok(person.order(|number| {
            let wish = Box::new(wish(BYTES));
            ImOrder::Upload { number, wish }
        })),
        Call::File => {
            let extra = note.as_bytes().into();
            let file = Content { kind: Content::FILE, extra, ..Content::text("cat.png") };
            person.say(&other, file)
        }
        Call::Text => person.say(&other, Content::text(&text)),
    })?;
    person.goes();
    Ok(())
}

fn wish(bytes: usize) -> UploadWish {
    let bytes = bytes as u64;
    UploadWish { name: "cat.png".into(), media_type: "image/png".into(), bytes }
}

fn leave(person: &mut Person, bytes: usize) -> io::Result<Box<UploadSlot>> {
    match person.ask(|number| ImOrder::Upload { number, wish: Box::new(wish(bytes)) })? {
        ImEvent::Upload { slot, .. } => Ok(slot),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}

/// Files are put into the server's own folder and got again.
fn in_folder(stored: u32, outcome: &mut Outcome) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let more = format!(
        "[media]\nfolder = \"{}\"\nfiles_a_day_max = 1000000\nbytes_a_day_max = 1000000000000\n",
        folder.path().join("media").display()
    );
    let server = setup(&more).start()?;
    let agent = ureq::Agent::new_with_defaults();
    let body = vec![0x5a_u8; BYTES];
    let mut person = Person::login(server.address, "sender-0", "phone")?;
    let slots: Vec<Box<UploadSlot>> =
        (0..stored).map(|_| leave(&mut person, BYTES)).collect::<io::Result<_>>()?;
    let put = |slot: &UploadSlot| -> io::Result<()> {
        let mut request = agent.put(&*slot.put_url);
        for (name, value) in &slot.headers {
            request = request.header(&**name, &**value);
        }
        request.send(&body[..]).map(drop).map_err(io::Error::other)
    };
    let get = |slot: &UploadSlot| -> io::Result<()> {
        let mut answer = agent.get(&*slot.get_url).call().map_err(io::Error::other)?;
        let came = answer.body_mut().read_to_vec().map_err(io::Error::other)?;
        match came == body {
            true => Ok(()),
            false => Err(io::Error::other(format!("{} bytes came", came.len()))),
        }
    };
    let each = |call: &dyn Fn(&UploadSlot) -> io::Result<()>| -> io::Result<(f64, f64)> {
        rest(&server)?;
        let (began, before) = (clock::now(), cpu::used(server.pid())?);
        pinned(CALLER_CORE, || slots.iter().try_for_each(|slot| call(slot)))?;
        let took = clock::since(began);
        rest(&server)?;
        let used = cpu::used(server.pid())? - before;
        let count = f64::from(stored);
        Ok((used.as_nanos() as f64 / 1e3 / count, count / took.as_secs_f64()))
    };
    for (name, call) in
        [("put 64 KiB", &put as &dyn Fn(&UploadSlot) -> io::Result<()>), ("get 64 KiB", &get)]
    {
        let (us, per_s) = each(call)?;
        outcome.figure(&format!("{name}: CPU"), us, "µs a file");
        outcome.figure(&format!("{name}, one at a time"), per_s, "a second");
    }
    Ok(())
}
