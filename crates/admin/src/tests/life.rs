//! The end of the API: what was asked is answered, who asks nothing is closed.

use super::door::{answer, connect, ended, request};
use super::*;
use crate::api::life::longest;
use model::ports::control::Status;
use model::ports::pushes::PushAnswer;
use model::service::ServiceKind;
use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

/// A control port that leaves the answer to the test.
struct Parked(Mutex<mpsc::SyncSender<Reply>>);

impl Control for Parked {
    fn ask(&self, _: Command, reply: Reply) {
        self.0.lock().expect("no panic").send(reply).expect("the test listens");
    }

    fn next_id(&self) -> MessageId {
        MessageId(1)
    }
}

fn parked(settings: Settings) -> (RunningApi, Arc<Feed>, mpsc::Receiver<Reply>) {
    let (tell, told) = mpsc::sync_channel(8);
    let feed = Feed::new(&settings.limits);
    let control = Arc::new(Parked(Mutex::new(tell)));
    (start(settings, listeners(), control, feed.clone()).expect("starts"), feed, told)
}

fn asked(running: &RunningApi, path: &str) -> TcpStream {
    let mut stream = connect(running.addrs()[0]);
    stream.write_all(request(path).as_bytes()).expect("sent");
    stream
}

#[test]
fn what_is_being_answered_is_answered_and_who_asks_nothing_is_closed() {
    let (running, feed, told) = parked(settings());
    let mut idle = asked(&running, "/openapi.json");
    assert!(answer(&mut idle).starts_with("HTTP/1.1 200"));
    let fresh = connect(running.addrs()[0]);
    let events = asked(&running, "/v1/events");
    let mut busy = asked(&running, "/v1/status");
    let reply = told.recv().expect("it is being answered");
    while !feed.wanted(ServiceKind::Push) {
        thread::yield_now(); // until the stream has begun
    }
    thread::scope(|scope| {
        let finishing = scope.spawn(|| running.finish());
        assert_eq!(ended(idle), "");
        assert_eq!(ended(fresh), "");
        // Until the door is shut, one may be taken that is not served.
        while TcpStream::connect(running.addrs()[0]).is_ok() {}
        assert!(!finishing.is_finished(), "a request is being answered");
        reply(Answer::Status(Box::<Status>::default()));
        let told = answer(&mut busy);
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        assert!(told.to_lowercase().contains("connection: close"), "{told}");
        assert_eq!(ended(busy), "");
        finishing.join().expect("it returns");
    });
    running.finish(); // once more changes nothing
    feed.publish(vec![report(7)]);
    running.stop();
    let told = ended(events);
    assert!(told.contains("\"seq\":7"), "{told}");
}

#[test]
fn a_call_whose_caller_has_gone_is_done_and_kept_before_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let audit_log = folder.path().join("audit-log");
    let settings = Settings { audit_log: Some(audit_log.clone()), ..settings() };
    let (running, _, told) = parked(settings);
    let mut caller = connect(running.addrs()[0]);
    let head = request("/v1/products/gone").replace("GET", "DELETE");
    caller.write_all(head.as_bytes()).expect("sent");
    let reply = told.recv().expect("it is being done");
    drop(caller);
    thread::scope(|scope| {
        let finishing = scope.spawn(|| running.finish());
        while TcpStream::connect(running.addrs()[0]).is_ok() {}
        assert!(!finishing.is_finished(), "it is being done");
        reply(Answer::Push(PushAnswer::Done(true)));
        finishing.join().expect("it returns");
    });
    let kept = std::fs::read_to_string(audit_log.join("current.jsonl")).expect("it is there");
    assert!(kept.contains("DELETE /v1/products/{product}"), "{kept}");
}

#[test]
fn a_backup_that_would_be_cut_off_is_told_so() {
    let (began, begun) = mpsc::sync_channel(1);
    let (release, released) = mpsc::sync_channel::<()>(1);
    let (began, released) = (Mutex::new(began), Mutex::new(released));
    let backup: Backup = Arc::new(move |_| {
        began.lock().expect("no panic").send(()).expect("the test listens");
        let _ = released.lock().expect("no panic").recv();
        Ok(0)
    });
    let (running, _, _) = parked(Settings { backup, ..settings() });
    let mut caller = connect(running.addrs()[0]);
    let body = r#"{"to":"/elsewhere"}"#;
    let head = request("/v1/backup").replace("GET", "POST");
    let head = head.replace("Host: a", &format!("Content-Length: {}", body.len()));
    caller.write_all(format!("{head}{body}").as_bytes()).expect("sent");
    begun.recv().expect("it has begun");
    running.finish();
    let told = answer(&mut caller);
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("\"stopping\""), "{told}");
    drop(release);
}

#[test]
fn the_time_to_finish_is_what_a_request_may_take() {
    let limits =
        ApiLimits { head_ms_max: 1, body_ms_max: 20, write_ms_max: 300, ..ApiLimits::default() };
    assert_eq!(longest(&limits).as_millis(), 40_321, "with 30 s to wait and 10 s to be answered");
}
