//! The folder over HTTP, through connections that are handed over.

use super::*;
use crate::storage::{AddressSigner, FolderSettings, StorageSettings};
use crate::tally::TransferOutcome;
use base::secret::ClusterSecret;
use model::media::{UploadSlot, UploadWish};
use model::ports::media::MediaStorage;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use tempfile::TempDir;

/// Where connections come from.
const NEAR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7);

/// And where others do.
const FAR: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)), 7);

const NOW_S: u64 = 1_000_000_000;

fn now_s() -> u64 {
    NOW_S
}

struct House {
    _at: TempDir,
    door: MediaDoor,
    storage: AddressSigner,
}

impl House {
    fn new(limits: &MediaLimits) -> House {
        House::with(limits, 1_000_000)
    }

    fn with(limits: &MediaLimits, folder_bytes_max: u64) -> House {
        let at = tempfile::tempdir().expect("a folder");
        let settings = FolderSettings {
            folder: at.path().join("media"),
            folder_bytes_max,
            url: String::new(),
            secret: ClusterSecret::new([7; 32]),
        };
        let door = MediaDoor::open(&settings, limits, now_s).expect("it opens");
        let storage = AddressSigner::new(StorageSettings::Folder(settings), limits, [1; 32]);
        House { _at: at, door, storage }
    }

    fn slot_at(&self, at_s: u64, media_type: &str, bytes: usize) -> UploadSlot {
        let (name, media_type) = ("my cat.png".into(), media_type.into());
        self.storage.slot(at_s, 7, &UploadWish { name, media_type, bytes: bytes as u64 })
    }

    fn slot(&self, bytes: usize) -> UploadSlot {
        self.slot_at(NOW_S, "image/png", bytes)
    }

    /// A connection on which so much was said before it was handed over.
    fn connect(&self, said: &[u8]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        theirs.set_nonblocking(true).expect("it can");
        let incoming = Incoming {
            socket: theirs.into(),
            cipher: None,
            said: said.to_vec(),
            unsent: Vec::new(),
            seat: Box::new(()),
        };
        assert!(self.door.take(incoming, NEAR));
        ours
    }

    fn ask(&self, head: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let mut stream = self.connect(format!("{head}\r\n\r\n").as_bytes());
        // Whoever is refused early does not take all of it.
        let _ = stream.write_all(body);
        heard(stream)
    }

    fn put(&self, url: &str, headers: &str, body: &[u8]) -> u16 {
        let length = body.len();
        let head = format!("PUT {url} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}{headers}");
        self.ask(&head, body).0
    }

    fn get(&self, url: &str, headers: &str) -> (u16, String, Vec<u8>) {
        self.ask(&format!("GET {url} HTTP/1.1\r\nHost: a{headers}"), b"")
    }

    fn counted(&self, outcome: TransferOutcome) -> u64 {
        self.door.tally().of(outcome)
    }
}

/// The status, the head in lower case, and the body of an answer.
fn heard(mut stream: UnixStream) -> (u16, String, Vec<u8>) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|at| at == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text").to_lowercase();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    (status, head, bytes[end + 4..].to_vec())
}

fn usual() -> MediaLimits {
    MediaLimits::default()
}

#[test]
fn a_file_that_was_put_is_given_and_runs_nothing() {
    let house = House::new(&usual());
    let body: Vec<u8> = (0..300_000u32).map(|at| at as u8).collect();
    let slot = house.slot(body.len());
    assert_eq!(house.get(&slot.get_url, "").0, 404, "it is not there yet");
    assert_eq!(house.put(&slot.put_url, "", &body), 201);
    let (status, head, got) = house.get(&slot.get_url, "");
    assert_eq!((status, got.len(), got == body), (200, body.len(), true));
    for line in [
        "content-type: image/png",
        "content-length: 300000",
        "content-disposition: inline; filename*=utf-8''my%20cat.png",
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'; sandbox",
        "access-control-allow-origin: *",
        "accept-ranges: bytes",
        "connection: close",
    ] {
        assert!(head.contains(&format!("\r\n{line}")), "{line} in {head}");
    }
    assert_eq!(house.door.bytes(), 300_000);
    let counts = [TransferOutcome::Stored, TransferOutcome::Given, TransferOutcome::Missing];
    assert_eq!(counts.map(|outcome| house.counted(outcome)), [1, 1, 1]);
}

#[test]
fn what_is_no_picture_is_kept_and_not_shown() {
    let house = House::new(&usual());
    for media_type in ["text/html", "image/svg+xml", "application/pdf"] {
        let slot = house.slot_at(NOW_S, media_type, 3);
        assert_eq!(house.put(&slot.put_url, "", b"<p>"), 201);
        let (_, head, _) = house.get(&slot.get_url, "");
        assert!(head.contains("\r\ncontent-disposition: attachment; "), "{head}");
        assert!(head.contains(&format!("\r\ncontent-type: {media_type}\r\n")), "{head}");
    }
}

#[test]
fn parts_and_heads_are_given_and_what_is_known_is_not_given_again() {
    let house = House::new(&usual());
    let slot = house.slot(10);
    assert_eq!(house.put(&slot.put_url, "", b"0123456789"), 201);
    let (status, head, body) = house.get(&slot.get_url, "\r\nRange: bytes=3-5");
    assert_eq!((status, &*body), (206, &b"345"[..]));
    assert!(head.contains("\r\ncontent-range: bytes 3-5/10"), "{head}");
    let (status, head, _) = house.get(&slot.get_url, "\r\nRange: bytes=10-");
    assert_eq!((status, head.contains("\r\ncontent-range: bytes */10")), (416, true));
    let (status, _, body) = house.get(&slot.get_url, "\r\nRange: bytes=3-5\r\nIf-Range: \"x\"");
    assert_eq!((status, body.len()), (200, 10));
    let (status, head, body) =
        house.ask(&format!("HEAD {} HTTP/1.1\r\nHost: a", slot.get_url), b"");
    assert_eq!((status, body.len(), head.contains("\r\ncontent-length: 10")), (200, 0, true));
    let tag = head.split("\r\netag: ").nth(1).and_then(|it| it.lines().next()).expect("a tag");
    let (status, _, body) = house.get(&slot.get_url, &format!("\r\nIf-None-Match: {tag}"));
    assert_eq!((status, body.len()), (304, 0));
}

#[test]
fn an_address_is_good_for_one_thing_for_its_time_and_once() {
    let house = House::new(&usual());
    let slot = house.slot(3);
    assert_eq!(house.put(&slot.get_url, "", b"abc"), 403, "to get is not to put");
    assert_eq!(house.get(&slot.put_url, "").0, 403, "to put is not to get");
    for bad in ["/media/", "/media/x", "/media/../x", "/", "/media/AAAA/..%2f..%2fetc%2fpasswd"] {
        assert_eq!(house.get(bad, "").0, 403, "{bad}");
        assert_eq!(house.put(bad, "", b"abc"), 403, "{bad}");
    }
    let bent = slot.put_url.replace("my%20cat", "my%20dog");
    assert_eq!(house.put(&bent, "", b"abc"), 403);
    let old = house.slot_at(NOW_S - 301, "image/png", 3);
    assert_eq!(house.put(&old.put_url, "", b"abc"), 410);
    let keep_s = u64::from(usual().keep_s);
    assert_eq!(house.get(&house.slot_at(NOW_S - keep_s - 1, "", 3).get_url, "").0, 410);
    assert_eq!(house.put(&slot.put_url, "", b"abc"), 201);
    assert_eq!(house.put(&slot.put_url, "", b"xyz"), 409, "it is written once");
    assert_eq!(house.get(&slot.get_url, "").2, b"abc");
    let counts = [TransferOutcome::Expired, TransferOutcome::Taken, TransferOutcome::Stored];
    assert_eq!(counts.map(|outcome| house.counted(outcome)), [2, 1, 1]);
}

#[test]
fn what_is_not_what_was_agreed_is_refused_and_leaves_nothing() {
    let house = House::new(&usual());
    let slot = house.slot(3);
    assert_eq!(house.put(&slot.put_url, "", b"abcd"), 413);
    assert_eq!(house.put(&slot.put_url, "", b"ab"), 400);
    let chunked = format!("PUT {} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", slot.put_url);
    assert_eq!(house.ask(&chunked, b"3\r\nabc\r\n0\r\n\r\n").0, 411);
    assert_eq!(house.put(&slot.put_url, "\r\nContent-Type: text/html", b"abc"), 415);
    assert_eq!(house.ask(&format!("POST {} HTTP/1.1\r\nHost: a", slot.put_url), b"").0, 405);
    let short = format!("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab", slot.put_url);
    let peer = house.connect(short.as_bytes());
    while house.door.bytes() == 0 {
        std::thread::yield_now();
    }
    drop(peer); // it ends before it is whole
    while house.counted(TransferOutcome::Torn) == 0 || house.door.bytes() > 0 {
        std::thread::yield_now();
    }
    assert_eq!((house.get(&slot.get_url, "").0, house.door.bytes()), (404, 0));
    assert_eq!(house.put(&slot.put_url, "\r\nContent-Type: IMAGE/png; a=b", b"abc"), 201);
}

#[test]
fn who_is_silent_in_the_middle_is_let_go_and_may_begin_again() {
    let house = House::new(&MediaLimits { silence_ms_max: 2_000, ..usual() });
    let slot = house.slot(3);
    let head = format!("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na", slot.put_url);
    let mut stream = house.connect(head.as_bytes());
    let _ = stream.read_to_end(&mut Vec::new());
    while house.counted(TransferOutcome::Torn) == 0 {
        std::thread::yield_now();
    }
    while house.door.bytes() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(house.put(&slot.put_url, "", b"abc"), 201);
}

#[test]
fn there_are_so_many_uploads_at_once_and_so_many_of_an_account() {
    let house = House::new(&MediaLimits { uploads_an_account_max: 1, ..usual() });
    let (first, second) = (house.slot(3), house.slot(3));
    let head = format!("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na", first.put_url);
    let mut stream = house.connect(head.as_bytes());
    while house.door.bytes() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(house.put(&second.put_url, "", b"abc"), 429);
    assert_eq!(house.put(&first.put_url, "", b"abc"), 429);
    stream.write_all(b"bc").expect("it is taken");
    assert_eq!(heard(stream).0, 201);
    assert_eq!(house.put(&second.put_url, "", b"abc"), 201);
    let house = House::new(&MediaLimits { uploads_max: 1, ..usual() });
    let head = format!("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na", first.put_url);
    let _held = house.connect(head.as_bytes());
    while house.door.bytes() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(house.put(&second.put_url, "", b"abc"), 503);
}

#[test]
fn one_connection_too_many_is_not_taken_and_a_full_folder_says_so() {
    let house = House::with(&MediaLimits { transfers_max: 1, ..usual() }, 5);
    let open = house.connect(b"");
    assert!(!house.door.has_room(NEAR));
    let (_ours, theirs) = UnixStream::pair().expect("a pair");
    let socket = theirs.into();
    let more =
        Incoming { socket, cipher: None, said: Vec::new(), unsent: Vec::new(), seat: Box::new(()) };
    assert!(!house.door.take(more, NEAR));
    drop(open);
    while !house.door.has_room(NEAR) {
        std::thread::yield_now();
    }
    let slot = house.slot(6);
    assert_eq!(house.put(&slot.put_url, "", b"abcdef"), 507);
    assert_eq!(house.counted(TransferOutcome::Full), 1);
}

#[test]
fn one_source_takes_its_share_of_transfers_and_uploads_and_no_more() {
    let house = House::new(&MediaLimits { transfers_max: 4, ..usual() });
    let slow = [(), ()].map(|()| house.connect(b"GET /media/x HTTP/1.1\r\n"));
    assert!(!house.door.has_room(NEAR), "half of all is one source's");
    assert_eq!(house.counted(TransferOutcome::Source), 1);
    assert!(house.door.has_room(FAR), "and the other half everybody else's");
    assert_eq!(house.counted(TransferOutcome::Busy), 0);
    drop(slow);
    let house = House::new(&MediaLimits { uploads_a_source_max: 1, ..usual() });
    let (first, second) = (house.slot(3), house.slot(3));
    let head = format!("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na", first.put_url);
    let _held = house.connect(head.as_bytes());
    while house.door.bytes() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(house.put(&second.put_url, "", b"abc"), 503);
    assert_eq!(house.counted(TransferOutcome::Source), 1);
}

#[test]
fn a_page_of_another_origin_is_told_what_it_may() {
    let house = House::new(&usual());
    let (status, head, _) = house.ask("OPTIONS /media/x HTTP/1.1\r\nHost: a", b"");
    assert_eq!(status, 204);
    for line in
        ["access-control-allow-methods: get, head, put, options", "access-control-allow-origin: *"]
    {
        assert!(head.contains(&format!("\r\n{line}")), "{line} in {head}");
    }
}
