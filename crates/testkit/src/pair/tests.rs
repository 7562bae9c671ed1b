//! The link itself, with a machine that repeats whole lines.

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

    fn wake(&mut self, _: Now, out: &mut Outbox<Vec<u8>>) -> Result<(), CloseReason> {
        out.say(b"woken".to_vec());
        Ok(())
    }

    fn silent(&mut self, _: Now, _: &mut Outbox<Vec<u8>>) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway, _: &mut Outbox<Vec<u8>>) {}

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
