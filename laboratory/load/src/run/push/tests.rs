//! Pushes against an API on loopback that takes, refuses and hangs up.

use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

/// An API that gives these answers in turn (0: it hangs up), and the bodies it got.
fn api(answers: &'static [u16]) -> (String, std::sync::mpsc::Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("bound"));
    let (tell, told) = std::sync::mpsc::sync_channel(1_000);
    let served = std::sync::atomic::AtomicUsize::new(0);
    let served = Arc::new(served);
    let thread = std::thread::Builder::new().name("api".to_owned());
    let serve = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().expect("a socket"));
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a number");
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            lines.read_exact(&mut body).expect("the body");
            let number = served.fetch_add(1, Ordering::Relaxed);
            let status = answers[number % answers.len()];
            let body = serde_json::from_slice(&body).expect("JSON");
            let _ = tell.try_send((head, body));
            if status > 0 {
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    };
    thread.spawn(serve).expect("a thread");
    (base, told)
}

fn plan(pace: &str) -> (Vec<Group>, Vec<Traffic>) {
    let text = format!(
        "name = \"t\"\n[target]\nurl = [\"miop://x:pk@127.0.0.1:1\"]\n[[group]]\nname = \"d\"\n\
         [[stage]]\nname = \"s\"\nclients = {{ d = 5 }}\nhold = \"1s\"\n\
         [[stage.traffic.d]]\nwhat = \"push\"\nmessages = 6\namong = 5\nbytes = 40\n\
         pace = {pace}\n"
    );
    let mut plan = crate::run::file::read("t", &text, &[]).expect("a plan");
    let traffic = plan.stages[0].traffic.remove("d").expect("it is there");
    (plan.groups, traffic)
}

fn all_done(api: &mut PushApi) -> Counts {
    let deadline = fleet::instant() + Duration::from_secs(300);
    loop {
        let counts = api.look().remove("d").unwrap_or_default();
        let done = ["messages.taken", "messages.refused", "messages.lost"];
        if done.iter().map(|name| counts.figure(name)).sum::<f64>() >= 6.0 {
            return counts;
        }
        assert!(fleet::instant() < deadline, "{counts:?}");
        std::thread::yield_now();
    }
}

#[test]
fn pushes_carry_the_stamp_and_each_has_one_outcome() {
    let (base, told) = api(&[200, 200, 503]);
    let (groups, traffic) = plan("{ per_s = 500 }");
    let mut api = PushApi::new(&base, Some("open".to_owned()), &groups, Some("pk"));
    api.push("d", &traffic).expect("it can push");
    let counts = all_done(&mut api);
    assert_eq!(counts.figure("messages.sent"), 6.0);
    assert_eq!(counts.figure("messages.taken"), 4.0);
    assert_eq!((counts.figure("messages.refused"), counts.codes["push 503"]), (2.0, 2));
    assert_eq!(counts.timings.of(Timing::Publish).raw.count(), 4);
    assert!(counts.accounts[0].agrees() && counts.accounts[0].total == 6);
    let mut numbers = Vec::new();
    for (head, order) in told.try_iter() {
        assert!(head.starts_with("POST /v1/pushes "), "{head}");
        assert!(head.to_ascii_lowercase().contains("authorization: bearer open"), "{head}");
        assert_eq!(order["product"], "pk");
        let device = order["devices"][0].as_str().expect("one device");
        assert!(device.starts_with("d-"), "{device}");
        let body = order["body_base64"].as_str().expect("a body");
        let body = base64::engine::general_purpose::STANDARD.decode(body).expect("base64");
        assert_eq!(body.len(), 40);
        let us = stamp::since_stamp(&body, stamp::wall_us()).expect("a stamp");
        assert!(us < 20_000_000, "{us}");
        let proof = stamp::proof(&body[..stamp::PROOF_BYTES], 40, stamp::rest_of(&body));
        let stamp::StampProof::Whole(sign) = proof else { panic!("{proof:?}") };
        numbers.push(sign.number);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    api.push("d", &[]).expect("it ends");
}

#[test]
fn an_api_that_hangs_up_loses_pushes() {
    let (base, _told) = api(&[0]);
    let (groups, traffic) = plan("{ wave = { low = 200, high = 400, period = \"1s\" } }");
    let mut api = PushApi::new(&base, None, &groups, Some("pk"));
    api.push("d", &traffic).expect("it can push");
    let counts = all_done(&mut api);
    assert_eq!(counts.figure("messages.lost"), 6.0);
    assert!(counts.accounts[0].agrees());
}

#[test]
fn pushes_without_a_product_are_refused_in_words() {
    let (groups, traffic) = plan("{ per_s = 1 }");
    let mut api = PushApi::new("http://127.0.0.1:1", None, &groups, None);
    assert!(api.push("d", &traffic).expect_err("no product").contains("need its product"));
}

#[test]
fn a_wave_goes_from_low_to_high_and_back() {
    let period = lab::plan::Span::from_secs(10);
    let wave = Pace::Wave { low: 10.0, high: 100.0, period };
    for (at_s, per_s) in [(0.0, 10.0), (5.0, 100.0), (10.0, 10.0), (2.5, 55.0)] {
        assert!((rate(&wave, at_s) - per_s).abs() < 1e-6, "{at_s}");
    }
}
