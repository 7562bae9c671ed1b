//! The device's side of a connection, for the laboratory, the simulation and tests.
//!
//! The machine binds when the link opens, acknowledges pushes, flags those it may have seen before
//! (it remembers only the highest id so far) and carries out its virtual client's orders. The same
//! machine may be opened again on a new connection: the last id, the session and the number of the
//! next Report go on. The machine keeps no time; with [`Profile::beats`] it asks to be woken for
//! heartbeats.

mod classic;
mod newest;
mod profile;

pub use profile::{DeviceNames, Profile, Prove, PushAckMode};

use crate::codec::{FrameFault, Version};
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::ports::virtual_client::{Action, Observation};
use std::sync::Arc;
use std::time::Duration;

type Out = Outbox<Observation>;

/// Seconds a device waits for the answer to a heartbeat.
pub const PONG_WAIT_S: u16 = 30;

/// One simulated device.
pub struct Client {
    profile: Arc<Profile>,
    /// State that resumes the session; kept only if the profile says so.
    session: Option<Box<Session>>,
    /// Highest id seen, or that of what was sent again last; zero: none.
    last_id: u64,
    /// Wall clock of the Bind, Unix milliseconds: what its nonce was made with.
    bind_ms: u64,
    number: u32,
    report_seq: u32,
    /// Binds so far: no nonce is made twice.
    binds: u8,
    heartbeat_s: u16,
    /// When the next heartbeat is due, seconds of the monotonic clock.
    beat_at_s: u32,
    state: State,
}

const _: () = assert!(size_of::<Client>() <= 48, "a simulated device is 48 bytes");

/// State from which a session is resumed.
struct Session {
    token: [u8; 32],
    epoch: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection was begun, or the last one has ended.
    Idle,
    /// The Bind is on its way.
    Asking,
    /// The server accepted it.
    Bound,
    /// The server said no, or ended the session.
    Out,
}

impl Client {
    /// Device `number` of its profile.
    pub fn new(profile: Arc<Profile>, number: u32) -> Client {
        Client {
            profile,
            session: None,
            last_id: 0,
            bind_ms: 0,
            number,
            report_seq: 0,
            binds: 0,
            heartbeat_s: 0,
            beat_at_s: 0,
            state: State::Idle,
        }
    }

    /// Flags whether a message may have been seen before, and remembers it.
    fn seen(&mut self, id: u64) -> bool {
        let again = id <= self.last_id;
        self.last_id = self.last_id.max(id);
        again
    }

    /// The server's yes.
    fn bound(&mut self, now: Now, heartbeat_s: u16, out: &mut Out) {
        self.state = State::Bound;
        self.heartbeat_s = heartbeat_s;
        if self.profile.beats {
            self.beat_at_s = now.secs() + u32::from(heartbeat_s);
            self.ask_for_wake(out);
            out.silence((u32::from(heartbeat_s) + u32::from(PONG_WAIT_S)) * 1_000);
        }
    }

    fn ask_for_wake(&self, out: &mut Out) {
        out.wake(Instant::default() + Duration::from_secs(u64::from(self.beat_at_s)));
    }

    /// The server's no, before or after it had said yes.
    fn ended(&mut self, code: u32, retry_after_ms: u32, out: &mut Out) {
        let was = std::mem::replace(&mut self.state, State::Out);
        out.say(match was {
            State::Bound => Observation::Kicked { code },
            _ => Observation::Refused { code, retry_after_ms },
        });
    }
}

impl Machine for Client {
    type Up = Observation;
    type Down = Action;

    fn opened(&mut self, now: Now, _: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.state = State::Asking;
        self.bind_ms = now.wall_ms;
        self.binds = self.binds.wrapping_add(1);
        match self.profile.version {
            Version::V7 => self.bind_newest(out),
            version => self.bind_classic(version, out),
        }
        Ok(())
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        let taken = match self.profile.version {
            Version::V7 => self.receive_newest(now, input, out),
            version => self.receive_classic(version, now, input, out),
        };
        taken.map_err(End::reason)
    }

    fn command(&mut self, _: Now, action: Action, out: &mut Out) -> Result<(), CloseReason> {
        if self.state != State::Bound {
            return Ok(());
        }
        match self.profile.version {
            Version::V7 => self.act_newest(action, out),
            version => self.act_classic(version, action, out),
        }
        Ok(())
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        if !self.profile.beats || self.state != State::Bound {
            return Ok(());
        }
        let due = now.secs() >= self.beat_at_s;
        if due {
            self.beat_at_s = now.secs() + u32::from(self.heartbeat_s.max(1));
        }
        self.ask_for_wake(out);
        if due { self.command(now, Action::Ping, out) } else { Ok(()) }
    }

    fn silent(&mut self, _: Now, _: &mut Out) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Out) {}

    fn closed(&mut self, _: Now, _: CloseReason, _: &mut Out) {
        self.state = State::Idle;
    }
}

/// Why a device stops listening.
enum End {
    Fault(FrameFault),
    /// The farewell was answered.
    Unbound,
}

impl From<FrameFault> for End {
    fn from(fault: FrameFault) -> End {
        End::Fault(fault)
    }
}

impl End {
    fn reason(self) -> CloseReason {
        match self {
            End::Fault(fault) => fault.close_reason(),
            End::Unbound => CloseReason::OwnStop,
        }
    }
}

#[cfg(test)]
mod tests;
