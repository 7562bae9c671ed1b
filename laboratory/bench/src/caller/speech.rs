//! The speech of a line: nothing, raw bytes, or MIOP 7.
//!
//! A speech holds no state of a line. MIOP is said with the codec that we ship; its devices are
//! anonymous, have names of 16 characters and wish a heartbeat so long that it never comes.

use proto_miop::codec::frame::{self, Frame, Opcode};
use proto_miop::codec::property::Props;
use proto_miop::codec::record::PushRecord;
use std::io;

/// Length of raw messages and of Reports' bodies, bytes.
pub const MESSAGE_BYTES: usize = 64;
/// Length of a raw hello, bytes: about that of a Bind.
const HELLO_BYTES: usize = 64;
/// Longest heartbeat that a product can be configured for, seconds.
pub const HEARTBEAT_S: u16 = 43_200;
/// Largest frame that is read, bytes.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// The speech of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Speech {
    /// Silent at first; messages of 64 bytes that come back.
    Mute,
    /// A hello of 64 bytes that is answered with 64 bytes.
    Hello,
    /// MIOP 7.
    Miop {
        /// The devices' product.
        product: String,
        /// Prefix of their names, at most eight characters.
        prefix: String,
        /// Messages are Reports of 64 bytes, else Pings.
        reports: bool,
    },
}

/// Frames that came on a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    /// The hello was answered.
    pub welcomed: bool,
    /// Messages answered.
    pub answers: u32,
    /// Pushes that came; they are acknowledged.
    pub pushes: u32,
}

impl Heard {
    /// Adds what was heard later.
    pub fn add(&mut self, later: &Heard) {
        self.welcomed |= later.welcomed;
        self.answers += later.answers;
        self.pushes += later.pushes;
    }
}

impl Speech {
    /// Appends what opens the line of device `number`; nothing if connecting is enough.
    pub fn hello(&self, number: u32, out: &mut Vec<u8>) {
        match self {
            Speech::Mute => {}
            Speech::Hello => {
                out.extend_from_slice(format!("caller-{number:09}").as_bytes());
                out.resize(out.len() + HELLO_BYTES - 16, b'.');
            }
            Speech::Miop { product, prefix, .. } => {
                let device = device(prefix, number);
                let props = Props {
                    device_id: Some(device.as_bytes()),
                    product_key: Some(product.as_bytes()),
                    heartbeat_wish: Some((HEARTBEAT_S, 0, 0)),
                    ..Props::default()
                };
                Frame::new(Opcode::Bind, props).write(out);
            }
        }
    }

    /// Appends message `sent` of a line, the first being 1.
    pub fn message(&self, sent: u32, out: &mut Vec<u8>) {
        match self {
            Speech::Mute | Speech::Hello => out.resize(out.len() + MESSAGE_BYTES, b'x'),
            Speech::Miop { reports: false, .. } => {
                Frame::new(Opcode::Ping, Props::default()).write(out);
            }
            Speech::Miop { reports: true, .. } => {
                let mut report = Frame::new(Opcode::Report, Props::default());
                report.seq = Some(sent);
                frame::write(&report, |out| out.resize(out.len() + MESSAGE_BYTES, b'x'), out);
            }
        }
    }

    /// Takes whole answers from the front of `bytes`. `sent` messages were sent on the line, of
    /// which `owed` are not answered; acknowledgements of pushes are appended to `out`.
    pub fn hear(
        &self,
        bytes: &mut Vec<u8>,
        sent: u32,
        owed: &mut u32,
        out: &mut Vec<u8>,
    ) -> io::Result<Heard> {
        let mut heard = Heard::default();
        if let Speech::Miop { .. } = self {
            let mut ids = Vec::new();
            let mut taken = 0;
            while let Some((frame, length)) =
                frame::parse(&bytes[taken..], FRAME_BYTES_MAX).map_err(odd)?
            {
                hear_frame(&frame, sent, owed, &mut heard, &mut ids)?;
                taken += length;
            }
            bytes.drain(..taken);
            if !ids.is_empty() {
                let ack = Frame::new(Opcode::MsgAck, Props::default());
                let all = |out: &mut Vec<u8>| ids.iter().for_each(|id| out.extend(id));
                frame::write(&ack, all, out);
            }
            return Ok(heard);
        }
        let whole = bytes.len() / MESSAGE_BYTES;
        bytes.drain(..whole * MESSAGE_BYTES);
        // Before any message only the answer to a hello can come.
        heard.welcomed = *owed == 0 && whole > 0;
        heard.answers = (whole as u32).min(*owed);
        *owed -= heard.answers;
        Ok(heard)
    }
}

/// The name of device `number`, 16 characters.
pub fn device(prefix: &str, number: u32) -> String {
    format!("{prefix}{number:0width$}", width = 16 - prefix.len().min(15))
}

fn hear_frame(
    frame: &Frame<'_>,
    sent: u32,
    owed: &mut u32,
    heard: &mut Heard,
    ids: &mut Vec<[u8; 8]>,
) -> io::Result<()> {
    let left = match frame.opcode {
        Opcode::BindAck if frame.props.result == Some(0) => {
            heard.welcomed = true;
            return Ok(());
        }
        Opcode::Msg => {
            let mut rest = frame.payload;
            while !rest.is_empty() {
                let record = PushRecord::read(&mut rest).map_err(odd)?;
                ids.push(record.id.to_be_bytes());
                heard.pushes += 1;
            }
            return Ok(());
        }
        Opcode::Pong => owed.saturating_sub(1),
        // It acknowledges all Reports up to this one.
        Opcode::ReportAck => sent.wrapping_sub(frame.props.report_seq.unwrap_or(0)),
        _ => return Err(io::Error::other(format!("{:?} {:?}", frame.opcode, frame.props.result))),
    };
    heard.answers += owed.saturating_sub(left);
    *owed = left.min(*owed);
    Ok(())
}

fn odd(fault: proto_miop::codec::FrameFault) -> io::Error {
    io::Error::other(format!("not MIOP: {}", fault.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miop(reports: bool) -> Speech {
        Speech::Miop { product: "demo".into(), prefix: "dev".into(), reports }
    }

    fn frame(opcode: Opcode, props: Props<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Frame::new(opcode, props).write(&mut bytes);
        bytes
    }

    #[test]
    fn names_have_sixteen_characters() {
        assert_eq!(device("bench", 7), "bench00000000007");
        assert_eq!(device("bench", u32::MAX).len(), 16);
    }

    #[test]
    fn hellos_are_about_as_long_as_a_bind() {
        for speech in [Speech::Hello, miop(false)] {
            let mut hello = Vec::new();
            speech.hello(1, &mut hello);
            assert!((36..=80).contains(&hello.len()), "{}", hello.len());
        }
    }

    #[test]
    fn raw_answers_are_counted_whole() {
        let (mut bytes, mut owed, mut out) = (vec![0; 64 * 3 - 1], 4, Vec::new());
        let heard = Speech::Mute.hear(&mut bytes, 4, &mut owed, &mut out).unwrap();
        assert_eq!((heard.answers, owed, bytes.len()), (2, 2, 63));
        let (mut bytes, mut owed) = (vec![0; 64], 0);
        assert!(Speech::Hello.hear(&mut bytes, 1, &mut owed, &mut out).unwrap().welcomed);
    }

    #[test]
    fn one_acknowledgement_answers_all_reports_before_it() {
        let props = Props { report_seq: Some(9), ..Props::default() };
        let (mut bytes, mut owed, mut out) = (frame(Opcode::ReportAck, props), 5, Vec::new());
        let heard = miop(true).hear(&mut bytes, 10, &mut owed, &mut out).unwrap();
        assert_eq!((heard.answers, owed, bytes.len()), (4, 1, 0));
    }

    #[test]
    fn half_a_frame_stays_and_pongs_count() {
        let mut bytes = frame(Opcode::Pong, Props::default()).repeat(2);
        bytes.truncate(7);
        let (mut owed, mut out) = (2, Vec::new());
        let heard = miop(false).hear(&mut bytes, 2, &mut owed, &mut out).unwrap();
        assert_eq!((heard.answers, owed, bytes.len()), (1, 1, 3));
    }

    #[test]
    fn a_refusal_is_an_error() {
        let props = Props { result: Some(30), ..Props::default() };
        let (mut bytes, mut owed, mut out) = (frame(Opcode::BindAck, props), 0, Vec::new());
        assert!(miop(false).hear(&mut bytes, 1, &mut owed, &mut out).is_err());
    }
}
