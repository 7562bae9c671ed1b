//! The command line, the printed text against figures that no clock has made, and whole tests
//! against a server in this process that knows what it was asked.

use super::*;
use lab::cause::{Cause, Phase};
use lab::timing::Timing;
use load::Snapshot;
use load::effort::ThreadUse;
use load::target::Speech;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

const UNHEARD: Lanes = Lanes { out: |_| {}, err: |_| {} };

fn run_of(line: &str) -> Arguments {
    match parse(&words(line)) {
        Ok(Invocation::Run(arguments)) => *arguments,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_reports_line_parses_with_its_script() {
    let line =
        "miop://box7:pk@10.0.0.1:7000/ -t 12 -c 60000 --latency -d 120m --timeout 15 -s delay.lua";
    let got = run_of(line);
    assert_eq!((got.threads, got.connections, got.latency), (12, 60_000, true));
    assert_eq!((got.duration.as_secs(), got.timeout.as_secs()), (7_200, 15));
    assert_eq!(got.script.as_deref(), Some("delay.lua"));
    let target = &got.target;
    let product = target.product.as_ref().map(|product| product.as_str());
    assert_eq!((target.prefix.as_str(), product), ("box7", Some("pk")));
    assert_eq!((target.host.as_str(), target.port, target.version), ("10.0.0.1", 7_000, 7));
}

#[test]
fn flags_may_be_glued_and_stand_anywhere() {
    let got =
        run_of("-t1 -c1k miops://h:p@[::1]:9/?version=6&secret=00ff&keep=300 --duration=5s -L");
    assert_eq!((got.threads, got.connections, got.latency), (1, 1_000, true));
    let target = &got.target;
    assert_eq!(
        (target.scheme, target.encrypted, target.host.as_str()),
        (Speech::Miop, true, "::1")
    );
    assert_eq!((target.version, target.keep_s), (6, 300));
    assert_eq!(target.secret.as_deref(), Some(&[0u8, 255][..]));
    let got = run_of("http://localhost -R 2k -s a.lua -H X:y one -- -two three");
    assert_eq!((got.threads, got.connections, got.rate), (2, 10, Some(2_000.0)));
    assert_eq!(got.words, ["http://localhost", "one", "-two", "three"]);
    assert_eq!((got.target.port, got.target.path.as_str()), (80, "/"));
    let target = run_of("https://u:p@x:444?q=1#f").target;
    assert_eq!((target.port, target.path.as_str(), target.encrypted), (444, "/?q=1", true));
}

#[test]
fn schemes_say_what_is_spoken() {
    let of = |url: &str| run_of(url).target;
    let mqtt = of("mqtt://dev:tom@h/room/%i?password=x&subscribe=a/%i&subscribe=b&qos=1&version=5");
    assert_eq!((mqtt.scheme, mqtt.port, mqtt.version), (Speech::Mqtt, 1883, 5));
    assert_eq!((mqtt.prefix.as_str(), mqtt.user.as_deref()), ("dev", Some("tom")));
    assert_eq!((mqtt.path.as_str(), mqtt.subscribe.len(), mqtt.qos), ("/room/%i", 2, 1));
    assert_eq!(of("mqtts://h").port, 8883);
    assert_eq!(of("wss://d@h/mqtt").scheme, Speech::Mqtt);
    assert_eq!(of("ws://d@h/x?protocol=mqtt").scheme, Speech::Mqtt);
    let miop = of("ws://d:p@h:80/miop");
    assert_eq!((miop.scheme, miop.web_socket), (Speech::Miop, true));
    let tcp = of("tcp://h:7/?end=0d0a");
    assert_eq!((tcp.scheme, &*tcp.end), (Speech::Tcp, &b"\r\n"[..]));
}

#[test]
fn what_is_wrong_is_named() {
    let wrong = [
        ("", "no URL"),
        ("miop://h:p@x:1/ -q", "`-q` is not known"),
        ("miop://h:p@x:1/ --frob=1", "`--frob=1` is not known"),
        ("miop://h:p@x:1/ -c", "needs a value"),
        ("miop://h:p@x:1/ -c ten", "-c ten"),
        ("miop://h:p@x:1/ -c 1 -t 2", ">= threads"),
        ("miop://h:p@x:1/ extra", "too many"),
        ("miop://h:p@x:1/ --latency=9", "takes no value"),
        ("gopher://h:p@x:1/", "unknown scheme"),
        ("miop://x:1/", "HOST:PRODUCT@"),
        ("miop://h@x:1/", "HOST:PRODUCT@"),
        ("miop://h:p@x/", "no port"),
        ("tcp://x/", "no port"),
        ("http://x:99999/", "port"),
        ("http://:1/", "no host"),
        ("miop://h:p@x:1/?version=4", "5 to 7"),
        ("mqtt://h@x/?version=7", "3 to 5"),
        ("mqtt://h@x/?qos=3", "0, 1 or 2"),
        ("miop://h:p@x:1/?secret=0", "hex"),
        ("miop://h:p@x:1/?sekret=00", "`sekret` is not known"),
        ("miop://h:p@x:1/ -d 0", "above zero"),
    ];
    for (line, message) in wrong {
        let got = parse(&words(line)).expect_err(line);
        assert!(got.contains(message), "{line}: {got}");
    }
    assert_eq!(run(words("miop://h:p@127.0.0.1:1/ --frob"), &UNHEARD), 1);
    assert_eq!(run(words("http://127.0.0.1:1/ -s /nowhere/x.lua"), &UNHEARD), 1);
    assert_eq!(parse(&words("-v")), Ok(Invocation::Version));
}

#[test]
fn device_ids_are_checked_and_what_division_leaves_is_not_there() {
    let long = "x".repeat(63);
    let arguments = run_of(&format!("miop://{long}:p@127.0.0.1:1/ -c 100"));
    let to = SocketAddr::from(([127, 0, 0, 1], 1));
    let refused = profiles::job(&arguments, to, 1).err().expect("65 bytes are too long");
    assert!(refused.contains("longer than 64"), "{refused}");
    let arguments = run_of("miop://h:p@127.0.0.1:1/ -c 10 -t 3");
    let job = profiles::job(&arguments, to, 1).expect("good");
    assert_eq!((job.plan.count, job.plan.threads), (9, 3));
}

#[test]
fn too_many_connections_are_refused_with_the_remedy() {
    let refused = check_descriptors(60_000, 20_000).expect_err("20,000 are too few");
    assert!(refused.contains("ulimit -n 60128") && refused.contains("19872"), "{refused}");
}

#[test]
fn the_text_is_printed_as_wrk_prints_it() {
    let arguments = run_of(
        "miop://h:pk@127.0.0.1:7000/?secret=aa&key_id=2 -t 2 -c 4 -d 30s --latency -U -R 40",
    );
    let tally = fixed();
    assert!(tally.accounts().iter().all(|account| account.agrees()), "{:?}", tally.accounts());
    let cpu = Duration::from_millis(12_340);
    let (first, second) =
        print(&WrkRun { arguments: &arguments, tally: &tally, settled: true, cpu });
    // What causes mean is said elsewhere, and may be said better one day.
    let said = second.lines().map(|line| match (line.find("look at: "), line.find("). ")) {
        (Some(at), _) => format!("{}SETTING\n", &line[..at + 9]),
        (None, Some(at)) => format!("{}MEANING\n", &line[..at + 3]),
        (None, None) => format!("{line}\n"),
    });
    let second: String = said.collect();
    let text = format!("{}{first}{second}", block::opening(&arguments));
    assert_eq!(text, include_str!("golden.txt"), "{text}");
}

/// The text's figures.
fn fixed() -> Tally {
    let mut seen = Snapshot {
        elapsed: Duration::from_millis(30_010),
        planned: 4,
        attempts: 7,
        reconnects: 3,
        established: 6,
        bound: 4,
        online_now: 2,
        asked: 1_009,
        answered: 1_006,
        lost_requests: 2,
        open_requests: 1,
        unanswered: 2,
        answered_badly: 1,
        pings: 1_003,
        pongs: 1_000,
        late_pongs: 1,
        lost_pings: 1,
        unsent: 3,
        bytes_in: 5_000_000,
        bytes_out: 1,
        ..Snapshot::default()
    };
    seen.causes.count(Phase::Bind, Cause::BindRefused);
    seen.causes.count(Phase::Connect, Cause::Refused);
    seen.causes.count(Phase::Bind, Cause::BindTimedOut);
    seen.causes.count(Phase::Online, Cause::ClosedMidFrame);
    seen.causes.count(Phase::Online, Cause::Kicked);
    ["refused 30", "kicked 40"].into_iter().for_each(|code| seen.codes.count(code));
    let mut tally = Tally { late: 1, ..Tally::default() };
    for us in 1..=1_000 {
        tally.latency.note_both(us + 10, us);
        seen.timings.at(Timing::Heartbeat).note_both(us + 10, us);
    }
    tally.latency.note(16_000_000);
    seen.timings.at(Timing::Heartbeat).note(16_000_000);
    for us in [200, 300, 400, 500] {
        tally.latency.note(us);
        seen.timings.at(Timing::Bind).note(us);
    }
    [90, 100, 110].into_iter().for_each(|us| seen.timings.at(Timing::Connect).note(us));
    [30, 33, 34, 36].into_iter().for_each(|rate| tally.per_s.note(rate));
    let (elapsed, ran) = (seen.elapsed, Duration::from_millis(28_000));
    let waited = Duration::from_millis(1_000);
    seen.threads.push(ThreadUse { elapsed, ran, waited, turn_us_max: 1_500 });
    Tally { seen, ..tally }
}

/// A server that answers as it is told and remembers what it was asked: method, path, a header.
struct Server {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `answer` makes of a request's head what is sent; `None`: the connection ends.
    fn new(answer: fn(&str) -> Option<String>) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of loopback");
        let addr = listener.local_addr().expect("it listens");
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let noted = seen.clone();
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = noted.clone();
                spawn(move || serve(stream, answer, &noted));
            }
        });
        Server { addr, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no thread broke off").clone()
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().spawn(work).expect("a thread of a test's server");
}

fn serve(mut stream: TcpStream, answer: fn(&str) -> Option<String>, seen: &Mutex<Vec<String>>) {
    let (mut waiting, mut room) = (Vec::new(), [0; 4_096]);
    loop {
        while let Some(end) = waiting.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&waiting[..end]).into_owned();
            waiting.drain(..end + 4);
            seen.lock().expect("no thread broke off").push(head.clone());
            match answer(&head) {
                Some(text) if stream.write_all(text.as_bytes()).is_ok() => {
                    if text.contains("Connection: close") {
                        return;
                    }
                }
                _ => return,
            }
        }
        match stream.read(&mut room) {
            Ok(count) if count > 0 => waiting.extend_from_slice(&room[..count]),
            _ => return,
        }
    }
}

/// A test of this server. The script must stop its thread: the time given is far too long.
fn tested(server: &Server, line: &str, script: &str) -> Result<(Tally, Threadless), String> {
    let arguments = run_of(&format!("http://{}/ -d 60s {line}", server.addr));
    let generator = PreparedThreads::gather(&arguments, Some(("t.lua", script.as_bytes())))?;
    let Outcome { main, scripts, tally, settled } = generator.work()?;
    assert!(settled, "{:?}", tally.accounts());
    assert!(tally.accounts().iter().all(|account| account.agrees()), "{:?}", tally.accounts());
    Ok((tally, (main, scripts)))
}

type Threadless = (Option<Script>, Vec<Script>);

fn ok(_: &str) -> Option<String> {
    Some("HTTP/1.1 200 OK\r\nX-Token: t\r\nContent-Length: 2\r\n\r\nok".to_owned())
}

const STOP_AT_30: &str = "local n = 0
    function response() n = n + 1 if n == 30 then wrk.thread:stop() end end ";

#[test]
fn every_answer_is_counted_once_and_requests_in_one_text_count_each() {
    let server = Server::new(ok);
    let script = format!(
        "{STOP_AT_30} local text
         function init() text = wrk.format(nil, '/a') .. wrk.format('HEAD', '/b') end
         function request() return text end"
    );
    let server_of_heads = Server::new(|head| {
        let body = if head.starts_with("HEAD") { "" } else { "ok" };
        Some(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}"))
    });
    let (tally, _) = tested(&server_of_heads, "-t1 -c2", &script).expect("it runs");
    assert!(tally.seen.answered >= 30, "{tally:?}");
    assert_eq!(
        (tally.seen.answered_badly, tally.seen.lost_requests, tally.errors()),
        (0, 0, Default::default())
    );
    assert!(server_of_heads.seen().len() as u64 >= tally.seen.answered);
    let (tally, _) = tested(&server, "-t2 -c2", STOP_AT_30).expect("it runs");
    assert_eq!((tally.seen.answered, tally.seen.established, tally.seen.threads.len()), (60, 2, 2));
    assert_eq!(tally.latency.corrected.count(), 60);
}

#[test]
fn a_token_that_one_answer_brings_is_sent_with_the_next_request() {
    let server = Server::new(ok);
    let script = format!(
        "{} function request() return wrk.format('GET', token and '/in' or '/login') end",
        STOP_AT_30.replace(
            "function response()",
            "function response(status, headers) if not token then token = headers['X-Token']
             wrk.headers['X-Auth'] = token end"
        )
    );
    tested(&server, "-t1 -c1", &script).expect("it runs");
    let seen = server.seen();
    assert!(seen[0].starts_with("GET /login") && !seen[0].contains("X-Auth"), "{seen:?}");
    assert!(seen[1].starts_with("GET /in") && seen[1].contains("X-Auth: t"), "{seen:?}");
}

#[test]
fn a_server_that_says_it_will_close_makes_no_error() {
    let server = Server::new(|_| {
        Some("HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned())
    });
    let (tally, _) = tested(&server, "-t1 -c1", STOP_AT_30).expect("it runs");
    assert_eq!((tally.seen.answered, tally.seen.answered_badly), (30, 30));
    assert_eq!(tally.seen.causes.of(Phase::Online, Cause::Farewell), 30);
    assert_eq!((tally.seen.causes.errors(), tally.errors().read), (0, 0));
}

#[test]
fn a_connection_that_ends_instead_of_an_answer_is_a_read_error_with_its_cause() {
    let server = Server::new(|head| if head.contains("/drop") { None } else { ok(head) });
    let script = "local n = 0
        function request() n = n + 1 return wrk.format(nil, n % 2 == 0 and '/drop' or '/') end
        local ends = 0
        function disconnect(client, cause) last = cause ends = ends + 1
            if ends == 3 then wrk.thread:stop() end end
        function setup(thread) kept = thread end";
    let (tally, (main, _scripts)) = tested(&server, "-t1 -c1", script).expect("it runs");
    let ended = tally.seen.causes.of(Phase::Online, Cause::ClosedClean);
    assert_eq!(
        (ended, tally.seen.lost_requests, tally.errors().read),
        (3, 3, 3),
        "{:?}",
        tally.seen.causes
    );
    assert!(main.is_some() && tally.seen.reconnects >= 2);
}

#[test]
fn nobody_there_and_a_script_that_fails_are_errors_in_words() {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let nobody = run_of(&format!("http://{}/", free.expect("a port of loopback")));
    let refused = PreparedThreads::gather(&nobody, None).err().expect("nobody listens");
    assert!(refused.starts_with("unable to connect to 127.0.0.1:"), "{refused}");
    let server = Server::new(ok);
    let wrong = tested(&server, "-t1 -c1", "\nfunction response() error('enough') end").err();
    assert_eq!(wrong.as_deref(), Some("t.lua:2: enough"));
    let wrong = tested(&server, "-t1 -c1", "function request() return 'hello' end").err();
    let wrong = wrong.expect("that is no request");
    assert!(wrong.starts_with("t.lua:1: request() did not return an HTTP request"), "{wrong}");
}
