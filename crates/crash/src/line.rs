//! A device's connection: frames of MIOP 5, 6 and 7 over a blocking socket of loopback.
//!
//! The connection sends what its caller orders and reports what it hears, with the time. Unlike
//! `proto_miop::client` it acknowledges only on order, for that is what the audit is about.
//! Unreadable input is an error, for the server wrote it.

use crate::clock;
use crate::plan::{DeviceNumber, names, version};
use proto_miop::codec::classic;
use proto_miop::codec::frame::{self, Frame, Opcode};
use proto_miop::codec::property::Props;
use proto_miop::codec::record::{ClassicRecord, PushRecord};
use proto_miop::codec::{FrameFault, Version};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Results that ask to come back (MIOP 9).
const COME_BACK: std::ops::RangeInclusive<u32> = 30..=33;
const PATIENCE: Duration = Duration::from_secs(5);

/// A push that came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Came {
    /// Moment of it, microseconds of the harness's clock.
    pub at: u64,
    /// Its id.
    pub id: u64,
    /// Whether it is High; classic versions do not say.
    pub high: Option<bool>,
    /// Its collapse key; classic versions do not say.
    pub collapse: Option<Vec<u8>>,
    /// Its body.
    pub body: Vec<u8>,
}

/// Frame that a device hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The device is bound. Classic versions do not say more.
    Bound {
        /// Number of pushes that wait.
        waiting: Option<u32>,
        /// The session's number.
        epoch: Option<u64>,
    },
    /// The device was refused, or is not bound any more.
    Refused(u32),
    /// A push.
    Push(Came),
    /// A heartbeat was answered.
    Pong,
    /// Reports up to this number were taken.
    Taken(u32),
    /// This Report was not.
    NotTaken(u32),
    /// Its farewell was answered.
    Unbound,
}

/// A connection of one device.
pub struct Line {
    stream: TcpStream,
    device: DeviceNumber,
    version: Version,
    bytes: Vec<u8>,
    heard: VecDeque<Heard>,
}

impl Line {
    /// Connects, and asks to be bound; `tags` are said by version 7 alone.
    pub fn bind(address: SocketAddr, device: DeviceNumber, tags: &[&str]) -> io::Result<Line> {
        let (product, name) = names(device);
        Line::bind_as(address, (device, &product, &name), tags)
    }

    /// As [`bind`](Self::bind), under other names than those of the number.
    pub fn bind_as(
        address: SocketAddr,
        (device, product, name): (DeviceNumber, &str, &str),
        tags: &[&str],
    ) -> io::Result<Line> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let version = version(device);
        let mut out = Vec::new();
        if version == Version::V7 {
            let props = Props {
                device_id: Some(name.as_bytes()),
                product_key: Some(product.as_bytes()),
                tags: tags.iter().map(|tag| tag.as_bytes()).collect(),
                ..Props::default()
            };
            Frame::new(Opcode::Bind, props).write(&mut out);
        } else {
            let props = format!("u:{name}@{product}\nt:300");
            classic::write_props(version, classic::ClassicOpcode::Bind, props.as_bytes(), &mut out);
        }
        let mut line = Line { stream, device, version, bytes: Vec::new(), heard: VecDeque::new() };
        line.say(&out)?;
        Ok(line)
    }

    /// As [`bind_as`](Self::bind_as), and waits for the answer. A device that is told to come back
    /// does, for some seconds: a server that has just started may want a moment.
    pub fn bind_patiently(
        address: SocketAddr,
        named: (DeviceNumber, &str, &str),
        tags: &[&str],
    ) -> io::Result<(Line, Option<Heard>)> {
        let until = clock::now_us() + PATIENCE.as_micros() as u64;
        loop {
            let mut line = Line::bind_as(address, named, tags)?;
            let answer = line.hear(PATIENCE)?;
            let later = matches!(answer, Some(Heard::Refused(code)) if COME_BACK.contains(&code));
            if !later || clock::now_us() > until {
                return Ok((line, answer));
            }
            clock::rest(2);
        }
    }

    /// The next frame within `wait`; `None` if none comes. An end of the stream is an error.
    pub fn hear(&mut self, wait: Duration) -> io::Result<Option<Heard>> {
        let until = clock::now_us() + wait.as_micros() as u64;
        loop {
            self.parse()?;
            if let Some(heard) = self.heard.pop_front() {
                return Ok(Some(heard));
            }
            let left = until.saturating_sub(clock::now_us());
            if left == 0 {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(Duration::from_micros(left.max(1_000))))?;
            let mut part = [0; 65_536];
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.bytes.extend_from_slice(&part[..count]),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Acknowledges these pushes.
    pub fn acknowledge(&mut self, ids: &[u64]) -> io::Result<()> {
        let mut out = Vec::new();
        if self.version == Version::V7 {
            for some in ids.chunks(1_000) {
                let all =
                    |out: &mut Vec<u8>| some.iter().for_each(|id| out.extend(id.to_be_bytes()));
                frame::write(&Frame::new(Opcode::MsgAck, Props::default()), all, &mut out);
            }
        } else {
            for id in ids {
                let props = format!("ack:{id}");
                let opcode = classic::ClassicOpcode::MsgAck;
                classic::write_props(self.version, opcode, props.as_bytes(), &mut out);
            }
        }
        self.say(&out)
    }

    /// A heartbeat. Its answer says that what was said before was read.
    pub fn ping(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        match self.version {
            Version::V7 => Frame::new(Opcode::Ping, Props::default()).write(&mut out),
            classic => classic::write_header(classic, classic::ClassicOpcode::Ping, &mut out),
        }
        self.say(&out)
    }

    /// A farewell.
    pub fn unbind(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        if self.version == Version::V7 {
            Frame::new(Opcode::Unbind, Props::default()).write(&mut out);
        } else {
            let (product, name) = names(self.device);
            let props = format!("u:{name}@{product}");
            let opcode = classic::ClassicOpcode::Unbind;
            classic::write_props(self.version, opcode, props.as_bytes(), &mut out);
        }
        self.say(&out)
    }

    /// A Report. Version 7 alone.
    pub fn report(&mut self, seq: u32, body: &[u8]) -> io::Result<()> {
        let mut report = Frame::new(Opcode::Report, Props::default());
        report.seq = Some(seq);
        report.payload = body;
        let mut out = Vec::new();
        report.write(&mut out);
        self.say(&out)
    }

    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn parse(&mut self) -> io::Result<()> {
        if !self.heard.is_empty() {
            return Ok(());
        }
        let mut taken = 0;
        loop {
            let rest = &self.bytes[taken..];
            let length = match self.version {
                Version::V7 => frame::parse(rest, FRAME_BYTES_MAX)
                    .and_then(|found| found.map(|it| newest(it, &mut self.heard)).transpose()),
                version => classic::parse(version, rest, FRAME_BYTES_MAX)
                    .and_then(|found| found.map(|it| old(it, &mut self.heard)).transpose()),
            };
            match length.map_err(|fault| io::Error::other(format!("not MIOP: {}", fault.name())))? {
                Some(length) => taken += length,
                None => break,
            }
        }
        self.bytes.drain(..taken);
        Ok(())
    }
}

fn newest(
    (frame, length): (Frame<'_>, usize),
    heard: &mut VecDeque<Heard>,
) -> Result<usize, FrameFault> {
    let props = &frame.props;
    heard.push_back(match frame.opcode {
        Opcode::BindAck if props.result.is_some_and(|result| result <= 1) => {
            let waiting = Some(props.offline_count.unwrap_or(0));
            Heard::Bound { waiting, epoch: props.session_epoch }
        }
        Opcode::BindAck | Opcode::Kick | Opcode::Redirect | Opcode::GoAway => {
            Heard::Refused(props.result.unwrap_or(0).into())
        }
        Opcode::Error => match props.report_seq {
            Some(seq) => Heard::NotTaken(seq),
            None => Heard::Refused(props.result.unwrap_or(0).into()),
        },
        Opcode::Msg => {
            let mut rest = frame.payload;
            while !rest.is_empty() {
                let record = PushRecord::read(&mut rest)?;
                heard.push_back(Heard::Push(Came {
                    at: clock::now_us(),
                    id: record.id,
                    high: Some(record.flags & PushRecord::HIGH != 0),
                    collapse: Some(record.collapse.to_vec()),
                    body: record.body.to_vec(),
                }));
            }
            return Ok(length);
        }
        Opcode::Pong => Heard::Pong,
        Opcode::ReportAck => Heard::Taken(props.report_seq.ok_or(FrameFault::MissingProperty)?),
        Opcode::UnbindAck => Heard::Unbound,
        _ => return Ok(length),
    });
    Ok(length)
}

fn old(
    (frame, length): (classic::ClassicFrame<'_>, usize),
    heard: &mut VecDeque<Heard>,
) -> Result<usize, FrameFault> {
    match frame.opcode {
        classic::ClassicOpcode::BindAck => match frame.props.number("r")? {
            Some(0) => heard.push_back(Heard::Bound { waiting: None, epoch: None }),
            code => heard.push_back(Heard::Refused(code.unwrap_or(0) as u32)),
        },
        classic::ClassicOpcode::Msg => {
            let mut rest = frame.data;
            while !rest.is_empty() {
                let record = ClassicRecord::read(&mut rest)?;
                let body = record.body.to_vec();
                let (at, id) = (clock::now_us(), record.id);
                heard.push_back(Heard::Push(Came { at, id, high: None, collapse: None, body }));
            }
        }
        classic::ClassicOpcode::Pong => heard.push_back(Heard::Pong),
        classic::ClassicOpcode::UnbindAck => heard.push_back(Heard::Unbound),
        _ => {}
    }
    Ok(length)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
