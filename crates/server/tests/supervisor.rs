//! A server under a supervisor, which is a socket of datagrams of the test's own: it says when
//! it serves and ends, that its shards turn, and gives away its listeners to have them back.

use model::ports::control::{Command, Control};
use model::service::Echo;
use net::listen::KeptSocket;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use server::config::Config;
use server::start::{Inherited, RunningServer, StartOptions, Supervisor, start_with};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Looks of the watchdog after which a sign that has not come does not come.
const LOOKS: u32 = 40;

struct TestSupervisor {
    folder: tempfile::TempDir,
    socket: UnixDatagram,
}

impl TestSupervisor {
    fn new() -> TestSupervisor {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = UnixDatagram::bind(folder.path().join("notify")).expect("free");
        TestSupervisor { folder, socket }
    }

    /// A server under this supervisor, with what it kept.
    fn start(
        &self,
        listeners: &str,
        watchdog: Option<Duration>,
        sockets: Vec<KeptSocket>,
    ) -> RunningServer {
        let path = self.folder.path().join("notify");
        let address = path.to_str().expect("a path of letters").to_owned();
        let supervisor = Supervisor::at(Some(&address), watchdog);
        let config = config(&self.folder.path().join("data"), listeners);
        let inherited = Inherited { supervisor, sockets, ..Inherited::default() };
        start_with(config, StartOptions { inherited, ..StartOptions::default() }).expect("starts")
    }

    /// The next message to the supervisor, and the socket that comes along. `None`: none came in
    /// time.
    fn next(&self, within: Option<Duration>) -> Option<(String, Option<OwnedFd>)> {
        self.socket.set_read_timeout(within).expect("it is a socket");
        let mut text = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut text)];
        let got = recvmsg(&self.socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
        let sockets = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        let socket = sockets.flatten().next();
        Some((String::from_utf8_lossy(&text[..got.bytes]).into_owned(), socket))
    }

    /// Messages to the supervisor until one has this line.
    fn until(&self, word: &str) -> Vec<(String, Option<OwnedFd>)> {
        let mut told = Vec::new();
        loop {
            let next = self.next(None).expect("it comes");
            let is_it = next.0.lines().any(|line| line == word);
            told.push(next);
            if is_it {
                return told;
            }
        }
    }
}

fn config(data: &Path, listeners: &str) -> Config {
    let data = data.to_str().expect("a path of letters");
    let text = format!(
        "[server]\ndata = {data:?}\nshards = 2\npin = false\n[api]\naddress = \"127.0.0.1:0\"\n\
         [limits]\ndrain_ms = 50\n{listeners}"
    );
    Config::parse("test", &text, std::iter::empty()).expect("it holds to the rules")
}

fn stop(server: RunningServer) {
    server.drain();
    server.join();
}

const ONE: &str = "[listen.one]\naddress = \"127.0.0.1:0\"\n";
const TWO: &str = "[listen.two]\naddress = \"127.0.0.1:0\"\n";

#[test]
fn it_says_that_it_serves_reads_anew_and_ends() {
    let supervisor = TestSupervisor::new();
    let server = supervisor.start(ONE, None, Vec::new());
    server.tell_ready();
    let told = supervisor.until("READY=1");
    assert_eq!(told.last().expect("the last").0, "READY=1\nSTATUS=Serving at 1 listeners");
    server.tell_reloading();
    let (reloading, _) = supervisor.next(None).expect("it comes");
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("the words");
    let since: String = since.chars().take_while(char::is_ascii_digit).collect();
    assert!(since.parse::<u64>().expect("a number") > 0);
    server.drain();
    let (stopping, _) = supervisor.next(None).expect("it comes");
    assert_eq!(stopping, "STOPPING=1\nSTATUS=Letting 0 connections go");
    server.join();
}

#[test]
fn signs_of_life_stop_when_a_shard_hangs() {
    let supervisor = TestSupervisor::new();
    let watchdog = Duration::from_millis(40);
    let server = supervisor.start(ONE, Some(watchdog), Vec::new());
    supervisor.until("WATCHDOG=1");
    // Whoever answers does so on its shard's thread, and stays there until it is let go.
    let ((hangs, is_hung), (let_go, wait)) = (sync_channel(0), sync_channel::<()>(0));
    let reply = Box::new(move |_| {
        hangs.send(()).expect("awaited");
        wait.recv().expect("it is let go");
    });
    server.control().ask(Command::Echo(Echo("hang".into())), reply);
    is_hung.recv().expect("it answers");
    let silence = watchdog / 4 * LOOKS;
    let late = std::iter::from_fn(|| supervisor.next(Some(silence))).count();
    assert!(late <= 2, "{late} signs of life while a shard hung, where two may be under way");
    let_go.send(()).expect("it waits");
    supervisor.until("WATCHDOG=1");
    stop(server);
}

#[test]
fn an_api_that_has_moved_is_kept_where_it_is_now() {
    let supervisor = TestSupervisor::new();
    let elsewhere = std::net::TcpListener::bind("127.0.0.2:0").expect("a free port");
    let kept = vec![KeptSocket { name: "api.0".to_owned(), socket: elsewhere.into() }];
    let server = supervisor.start(ONE, None, kept);
    server.tell_ready();
    let told = supervisor.until("READY=1");
    let of_api = |text: &&str| text.ends_with("=api.0");
    let words: Vec<&str> = told.iter().map(|(text, _)| text.as_str()).filter(of_api).collect();
    assert_eq!(words, ["FDSTOREREMOVE=1\nFDNAME=api.0", "FDSTORE=1\nFDNAME=api.0"]);
    stop(server);
}

#[test]
fn its_listeners_come_back_to_it_and_the_rest_is_forgotten() {
    let supervisor = TestSupervisor::new();
    let server = supervisor.start(&format!("{ONE}{TWO}"), None, Vec::new());
    let (one, api) = (server.addr("one"), server.api());
    server.tell_ready();
    let kept: Vec<KeptSocket> = supervisor
        .until("READY=1")
        .into_iter()
        .filter_map(|(text, socket)| {
            let name = text.strip_prefix("FDSTORE=1\nFDNAME=")?.to_owned();
            Some(KeptSocket { name, socket: socket? })
        })
        .collect();
    let names: Vec<&str> = kept.iter().map(|kept| kept.name.as_str()).collect();
    assert_eq!(names, ["one.0", "one.1", "two.0", "two.1", "api.0"]);
    stop(server);
    supervisor.until("STOPPING=1");
    let caller = std::net::TcpStream::connect(one.expect("it listened"));
    assert!(caller.is_ok(), "somebody calls while no server is there");
    let server = supervisor.start(ONE, None, kept);
    assert_eq!((server.addr("one"), server.api()), (one, api));
    server.tell_ready();
    let told: Vec<String> = supervisor.until("READY=1").into_iter().map(|(text, _)| text).collect();
    let words: Vec<&str> = told.iter().map(|text| text.as_str()).collect();
    let forget = ["FDSTOREREMOVE=1\nFDNAME=two.0", "FDSTOREREMOVE=1\nFDNAME=two.1"];
    assert_eq!(words[..words.len() - 1], forget, "nothing is given away twice");
    stop(server);
}
