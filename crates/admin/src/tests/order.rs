//! Events of one device against an application that fails, answers nothing, and does things late.
//!
//! A batch that is not answered in time is posted again, though the application may have done it,
//! or may do it after later ones. The rule: no device's event is ever done first after a later one
//! of that device, and by versions an application discards everything that comes again.

use super::outgoing::backlog::Waiting;
use super::*;
use base::prng::Prng;
use model::presence::PresenceVersion;
use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};

/// The application's answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    /// Does it and says so.
    Takes,
    /// Says 500 and does nothing.
    Fails,
    /// Does it and says nothing until the other side has given up.
    IsMute,
    /// Says nothing, and does it when two later requests are done.
    IsLate,
}

const MOODS: [Mood; 6] =
    [Mood::Takes, Mood::Takes, Mood::Takes, Mood::Fails, Mood::IsMute, Mood::IsLate];

/// Events that the application has done for each device, and counts.
#[derive(Default)]
struct Knowledge {
    /// Versions that were new when they came, in that order.
    done: HashMap<String, Vec<u64>>,
    discarded: usize,
}

impl Knowledge {
    fn take(&mut self, body: &Value) {
        for event in body["events"].as_array().expect("a list") {
            let device = event["device"].as_str().expect("a name").to_owned();
            let version = match event["seq"].as_u64() {
                Some(seq) => seq, // of a Report, which has no version
                None => hexadecimal(&event["version"]),
            };
            let done = self.done.entry(device).or_default();
            match done.last().is_none_or(|last| *last < version) {
                true => done.push(version),
                false => self.discarded += 1,
            }
        }
    }

    /// Events that were done.
    fn count(&self) -> usize {
        self.done.values().map(Vec::len).sum()
    }
}

fn hexadecimal(text: &Value) -> u64 {
    u64::from_str_radix(text.as_str().expect("text"), 16).expect("hexadecimal")
}

/// Lives until it has done `wanted` events, then does what is late; calls `more` at each request.
fn application(
    (seed, wanted): (u64, usize),
    more: impl Fn() + Send + 'static,
) -> (String, Receiver<(Knowledge, Vec<Mood>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let (tell, told) = sync_channel(1);
    let life = move || {
        let (mut rng, mut known) = (Prng::new(seed), Knowledge::default());
        let (mut late, mut moods) = (Vec::<(u32, Value)>::new(), Vec::new());
        while known.count() < wanted {
            let (mut stream, _) = listener.accept().expect("a connection");
            let Some(body) = read(&mut stream) else { continue };
            let mood = MOODS[rng.below(MOODS.len() as u64) as usize];
            moods.push(mood);
            more();
            late.iter_mut().for_each(|(after, _)| *after -= u32::from(*after > 0));
            match mood {
                Mood::Takes => known.take(&body),
                Mood::Fails => {}
                Mood::IsMute => {
                    known.take(&body);
                    mute(&mut stream);
                }
                Mood::IsLate => {
                    mute(&mut stream);
                    late.push((2, body));
                }
            }
            for (_, body) in late.extract_if(.., |(after, _)| *after == 0) {
                known.take(&body);
            }
            answer(&mut stream, if mood == Mood::Takes { 200 } else { 500 });
        }
        late.iter().for_each(|(_, body)| known.take(body));
        // Nobody waits for it when the test has failed.
        drop(tell.send((known, moods)));
    };
    Builder::new().spawn(life).expect("a thread");
    (url, told)
}

/// Until the other side gives up.
fn mute(stream: &mut TcpStream) {
    drop(stream.read(&mut [0]));
}

fn answer(stream: &mut TcpStream, status: u16) {
    let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    // One that was mute has nobody to answer to.
    drop(stream.write_all(text.as_bytes()));
}

fn read(stream: &mut TcpStream) -> Option<Value> {
    let (_, body) = hook::read(&mut BufReader::new(stream))?;
    Some(body)
}

fn test_api(url: String, change: impl FnOnce(&mut Settings)) -> TestApi {
    let (secret, product) = (Vec::new(), None);
    let hook = Webhook { url, secret, product, types: Vec::new(), topics: Vec::new() };
    let mut settings = Settings { webhooks: vec![hook], ..settings() };
    settings.retry.request_ms_max = 40;
    change(&mut settings);
    TestApi::with(settings, |_| Answer::Busy)
}

const DEVICES: u64 = 3;

/// Device and its how manieth event, of the how manieth of all.
fn turn(number: u64) -> (String, u64) {
    (format!("d{}", number % DEVICES), number / DEVICES + 1)
}

fn check(seed: u64, told: &Receiver<(Knowledge, Vec<Mood>)>, wanted: u64) {
    let (known, moods) = told.recv_timeout(Duration::from_secs(60)).expect("all of it");
    for number in 0..DEVICES {
        let done = &known.done[&format!("d{number}")];
        assert_eq!(*done, (1..=wanted / DEVICES).collect::<Vec<_>>(), "seed {seed}");
    }
    let bad = moods.iter().any(|mood| [Mood::IsMute, Mood::IsLate].contains(mood));
    assert!(bad && known.discarded > 0, "seed {seed}: {moods:?} repeats something");
}

#[test]
fn events_of_a_device_never_overtake_each_other_and_versions_discard_what_comes_again() {
    const WANTED: u64 = 24 * DEVICES;
    for seed in 1..=3 {
        let (tell, wish) = sync_channel::<()>(1_000);
        let more = move || tell.try_send(()).unwrap_or(());
        let (url, told) = application((seed, WANTED as usize), more);
        let test_api = test_api(url, |_| {});
        let mut next = 0;
        while next < WANTED {
            let few = next..(next + 4).min(WANTED);
            next = few.end;
            test_api.feed.publish(few.map(transition).collect());
            // The first batch is on its way; the rest follows request by request.
            wish.recv_timeout(Duration::from_secs(30)).unwrap_or(());
        }
        check(seed, &told, WANTED);
    }
}

fn transition(number: u64) -> DeviceEvent {
    let (name, version) = turn(number);
    let online = DeviceWhat::Online { protocol: "miop7", resumed: false };
    let what = if version % 2 == 1 { online } else { offline().what };
    DeviceEvent { device: device(&name), version: PresenceVersion(version), ..happened(what) }
}

#[test]
fn reports_of_a_device_never_overtake_each_other_either() {
    const WANTED: u64 = 24 * DEVICES;
    let waiting = Waiting::new(DEVICES as usize);
    let (appended, seed) = (Mutex::new(0), 5);
    let append = {
        let waiting = Arc::clone(&waiting);
        move || {
            let mut next = appended.lock().expect("no panic");
            for number in *next..(*next + 5).min(WANTED) {
                let (name, seq) = turn(number);
                waiting.append((number % DEVICES) as usize, NOW_MS, &format!("{name} {seq}"));
                *next = number + 1;
            }
        }
    };
    append();
    let (url, told) = application((seed, WANTED as usize), append);
    let backlog: Arc<dyn model::ports::backlog::Backlog> = waiting.clone();
    let _test_api = test_api(url, |settings| settings.backlog = Some(backlog));
    check(seed, &told, WANTED);
}
