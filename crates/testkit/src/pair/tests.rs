//! The link itself, with a machine that repeats whole lines and begins TLS.

use super::*;
use model::link::Protocol;
use model::machine::TurnAway;

/// Says every whole line it hears and sends it back; asks for its home before the first.
#[derive(Default)]
struct Echo {
    homed: bool,
    first: Option<&'static [u8]>,
}

impl Machine for Echo {
    type Up = Vec<u8>;
    type Down = &'static [u8];

    fn opened(&mut self, now: Now, _: &Link, out: &mut Outbox<Vec<u8>>) -> Result<(), CloseReason> {
        out.bytes().extend_from_slice(self.first.unwrap_or_default());
        out.wake(now.after(Duration::from_secs(5)));
        out.silence(10_000);
        Ok(())
    }

    fn receive(
        &mut self,
        _: Now,
        input: &mut Input<'_>,
        out: &mut Outbox<Vec<u8>>,
    ) -> Result<(), CloseReason> {
        while let Some(end) = input.rest().iter().position(|&b| b == b'\n') {
            if !self.homed {
                self.homed = true;
                out.home(&[b"me"]);
                return Ok(());
            }
            let line = input.take(end + 1);
            out.say(line.to_vec());
            if line == b"tls\n" {
                out.bytes().extend_from_slice(b"go\n");
            }
            if line == b"tls\n" || line == b"go\n" {
                out.start_tls();
                return Ok(());
            }
            if self.first.is_none() {
                out.bytes().extend_from_slice(line);
            }
        }
        Ok(())
    }

    fn command(
        &mut self,
        _: Now,
        down: &'static [u8],
        out: &mut Outbox<Vec<u8>>,
    ) -> Result<(), CloseReason> {
        out.bytes().extend_from_slice(down);
        Ok(())
    }

    fn tls_started(
        &mut self,
        _: Now,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Outbox<Vec<u8>>,
    ) -> Result<(), CloseReason> {
        match link {
            Ok(link) => {
                assert!(link.tls.is_some() && !link.may_start_tls);
                out.say(b"stands".to_vec());
                out.bytes().extend_from_slice(b"again\n");
            }
            Err(_) => out.say(b"refused".to_vec()),
        }
        Ok(())
    }

    fn wake(&mut self, _: Now, out: &mut Outbox<Vec<u8>>) -> Result<(), CloseReason> {
        out.say(b"woken".to_vec());
        Ok(())
    }

    fn silent(&mut self, _: Now, _: &mut Outbox<Vec<u8>>) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Outbox<Vec<u8>>) {}

    fn closed(&mut self, _: Now, reason: CloseReason, out: &mut Outbox<Vec<u8>>) {
        out.say(reason.name());
    }
}

fn pair(seed: u64) -> Pair<Echo, Echo> {
    let link = Link::loopback(Protocol::Miop);
    let caller = Echo { first: Some(b"one\ntwo\n"), ..Echo::default() };
    Pair::new(PairSide::new(caller, link.clone()), PairSide::new(Echo::default(), link), seed)
}

#[test]
fn lines_arrive_whole_and_in_order_however_they_are_split() {
    for seed in 0..50 {
        let mut pair = pair(seed);
        pair.open();
        pair.tell_a(b"three\n".as_slice());
        pair.settle();
        let lines: Vec<&[u8]> = vec![b"one\n", b"two\n", b"three\n"];
        assert_eq!(pair.b.words, lines);
        assert_eq!(pair.a.take_words(), lines, "seed {seed}: and back");
        assert_eq!((pair.a.homes.len(), pair.b.homes.len()), (1, 1), "asked once each");
        assert!(pair.b.untaken().is_empty());
    }
}

fn pair_with_tls(seed: u64) -> Pair<Echo, Echo> {
    let mut pair = pair(seed);
    (pair.a.link.may_start_tls, pair.b.link.may_start_tls) = (true, true);
    pair.open();
    pair.settle();
    pair.a.words.clear();
    pair.b.words.clear();
    pair
}

#[test]
fn tls_stands_once_both_have_begun_it() {
    for seed in 0..50 {
        let mut pair = pair_with_tls(seed);
        pair.tell_a(b"tls\n".as_slice());
        pair.settle();
        pair.tell_a(b"after\n".as_slice());
        pair.settle();
        let lines: [&[u8]; 4] = [b"tls\n", b"stands", b"again\n", b"after\n"];
        assert_eq!(pair.b.words, lines, "seed {seed}");
        let lines: [&[u8]; 4] = [b"go\n", b"stands", b"again\n", b"again\n"];
        assert_eq!(pair.a.words[..4], lines, "seed {seed}: and its own line back");
    }
}

#[test]
fn plain_text_behind_the_request_is_no_handshake() {
    for seed in 0..50 {
        let mut pair = pair_with_tls(seed);
        pair.tell_a(b"tls\nafter\n".as_slice());
        pair.settle();
        assert_eq!(pair.b.ended, Some(CloseReason::TlsFailed), "seed {seed}");
        assert!(!pair.b.words.contains(&b"after\n".to_vec()), "seed {seed}");
    }
}

#[test]
fn tls_that_cannot_begin_is_refused_and_the_connection_goes_on() {
    let mut pair = pair(3);
    pair.open();
    pair.tell_a(b"tls\nafter\n".as_slice());
    pair.settle();
    let lines: [&[u8]; 3] = [b"tls\n", b"refused", b"after\n"];
    assert_eq!(pair.b.words[2..], lines);
}

#[test]
fn time_wakes_and_silence_ends_both_sides() {
    let mut pair = pair(1);
    pair.open();
    pair.settle();
    pair.a.words.clear();
    pair.pass(Duration::from_secs(6));
    assert_eq!(pair.a.words, [b"woken"]);
    pair.pass(Duration::from_secs(6));
    assert_eq!(pair.a.ended, Some(CloseReason::KeepAliveTimeout));
    assert!(pair.b.ended.is_some());
    assert_eq!(pair.a.words.last().map(Vec::as_slice), Some(b"keep_alive_timeout".as_slice()));
}
