//! One connection of a faulty server: its steps, carried out.

use super::{ConnectionFate, FAREWELL_READS, FateStep, Mediator, READ, Shared};
use rustix::net::sockopt::set_socket_linger;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Stream that carries a connection's bytes.
pub trait FaultyWire: Read + Write + Send {
    /// The socket below.
    fn socket(&self) -> &TcpStream;

    /// Says what ends it in good order.
    fn farewell(&mut self) {}
}

impl FaultyWire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// Goes through a fate.
pub(super) fn live((number, stream): (u64, TcpStream), fate: &ConnectionFate, shared: &Shared) {
    let mut wire: Option<Box<dyn FaultyWire>> = Some(Box::new(stream));
    let last = fate.steps.len().saturating_sub(1);
    for (at, step) in fate.steps.iter().enumerate() {
        if at == last {
            *shared.lock().counts.entry(fate.name).or_default() += 1;
            shared.news.notify_all();
        }
        if let FateStep::Wrap(wrap) = step {
            let socket = wire.take().and_then(|wire| wire.socket().try_clone().ok());
            let Some(socket) = socket else { return };
            wire = Some(wrap(socket));
            continue;
        }
        let Some(wire) = wire.as_deref_mut() else { return };
        if let FateStep::Mediate(mediator) = step {
            return mediate(number, mediator, wire, shared);
        }
        if !carry_out(step, wire, shared) {
            return;
        }
    }
}

/// Carries a step out; false: the connection is over.
fn carry_out(step: &FateStep, wire: &mut dyn FaultyWire, shared: &Shared) -> bool {
    match step {
        FateStep::Hear => hear(wire).is_some(),
        FateStep::Say(bytes) => say(wire, bytes),
        FateStep::Reply(answer) => {
            let Some(mut heard) = hear(wire) else { return false };
            say(wire, &answer(&mut heard))
        }
        FateStep::Stall(span) => shared.rest(Some(*span)),
        FateStep::Drip(piece, times, pause) => {
            (0..*times).all(|_| shared.rest(Some(*pause)) && say(wire, piece))
        }
        FateStep::Wrap(_) | FateStep::Mediate(_) => {
            unreachable!("whoever goes through the steps does it")
        }
        FateStep::Serve(answer) => {
            let mut heard = Vec::new();
            while let Some(more) = hear(wire) {
                heard.extend_from_slice(&more);
                if !say(wire, &answer(&mut heard)) {
                    break;
                }
            }
            false
        }
        FateStep::Hold => shared.rest(None),
        FateStep::Farewell => {
            wire.farewell();
            true
        }
        FateStep::Close => {
            let socket = wire.socket();
            let _ = socket.shutdown(Shutdown::Write);
            // A close with unread bytes would be a reset. The end of the peer is waited for.
            let mut socket = socket;
            let mut buffer = [0; 4_096];
            for _ in 0..FAREWELL_READS {
                if !socket.read(&mut buffer).is_ok_and(|count| count > 0) {
                    break;
                }
            }
            false
        }
        FateStep::Reset => {
            // The last descriptor's close resets: the server's own copy goes first, or after.
            let _ = set_socket_linger(wire.socket(), Some(Duration::ZERO));
            false
        }
    }
}

/// Passes on what comes, until the peer ends.
fn mediate(number: u64, mediator: &Mediator, wire: &mut dyn FaultyWire, shared: &Shared) {
    let mut heard = Vec::new();
    while let Some(more) = hear(wire) {
        heard.extend_from_slice(&more);
        // What two connections say to a third must not be mixed, nor change places.
        let state = shared.lock();
        for (to, bytes) in mediator(number, &mut heard) {
            if let Some(mut stream) = state.open.get(&to) {
                // Whoever has gone hears nothing.
                let _ = stream.write_all(&bytes);
            }
        }
    }
}

fn say(wire: &mut dyn FaultyWire, bytes: &[u8]) -> bool {
    wire.write_all(bytes).and_then(|()| wire.flush()).is_ok()
}

fn hear(wire: &mut dyn FaultyWire) -> Option<Vec<u8>> {
    let mut buffer = vec![0; READ];
    let count = wire.read(&mut buffer).ok().filter(|count| *count > 0)?;
    buffer.truncate(count);
    Some(buffer)
}
