//! `holdline pub`: publishes messages and waits until the broker has them.

use super::{Call, Common, Failure, end, unpublished};
use clap::Args;
use client::{Block, MqttEvent, Publication, ReasonCode, Session, publication};
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Message to publish, and where.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Topic to publish to
    #[arg(short, long, value_name = "TOPIC")]
    topic: Option<String>,
    #[command(flatten)]
    body: Body,
    /// Retain the message
    #[arg(short, long)]
    retain: bool,
    /// Publish the message this many times
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    repeat: u32,
    /// Time between repeats: 500ms, 5s; a plain number is in seconds
    #[arg(
        long,
        value_name = "TIME",
        value_parser = crate::duration::of_seconds,
        default_value = "0s"
    )]
    repeat_delay: Duration,
    /// Maximum number of QoS 1 and 2 messages in flight
    #[arg(short = 'M', long, value_name = "COUNT", default_value_t = 20)]
    max_inflight: u16,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Body {
    /// The message
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// Read the message from this file
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Publish each line of standard input as a message
    #[arg(short = 'l', long)]
    stdin_line: bool,
    /// Publish all of standard input as one message
    #[arg(short = 's', long)]
    stdin_file: bool,
    /// Publish an empty message
    #[arg(short, long)]
    null_message: bool,
}

/// Publishes.
pub fn publish(arguments: Arguments) -> ExitCode {
    end(arguments.common.quiet(), run(&arguments))
}

/// Messages that may wait before the next line is read.
const WAITING_MAX: usize = 200;
/// Longest look at the connection between two.
const LOOK: Duration = Duration::from_millis(200);

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut call = arguments.common.call()?;
    let topic = arguments.topic.clone().or(call.topic.take());
    let topic = topic.ok_or("topic missing: give -t TOPIC".to_owned())?;
    if topic.is_empty() || topic.contains(['+', '#', '\0']) || topic.len() > 65_535 {
        return Err(format!("`{topic}` is not a valid topic: it is empty or has a wildcard").into());
    }
    let profile = &mut call.settings.profile;
    profile.inflight_max = arguments.max_inflight.max(1);
    let block = call.block("publish")?;
    if block.properties().topic_alias().is_some() {
        call.settings.profile.alias_out_max = 1;
    }
    let body = arguments.body.read()?; // before the connection: a fault here needs none
    let session = call.connect()?;
    let qos = call.qos;
    let mut sender =
        Sender { session, call, topic, block, retain: arguments.retain, failed: None, qos };
    match body {
        Some(body) => {
            for round in 0..arguments.repeat {
                if round > 0 {
                    sender.pause(arguments.repeat_delay)?;
                }
                sender.send(&body)?;
            }
        }
        None => {
            for line in std::io::stdin().lock().split(b'\n') {
                let line = line.map_err(|error| format!("standard input: {error}"))?;
                sender.send(&line)?;
            }
        }
    }
    sender.finish()
}

impl Body {
    /// The one message; `None`: lines of standard input.
    fn read(&self) -> Result<Option<Vec<u8>>, String> {
        if let Some(message) = &self.message {
            return Ok(Some(message.clone().into_bytes()));
        }
        if let Some(file) = &self.file {
            let read = std::fs::read(file);
            return read.map(Some).map_err(|error| format!("{}: {error}", file.display()));
        }
        if self.stdin_file {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes);
            return read.map(|_| Some(bytes)).map_err(|error| format!("standard input: {error}"));
        }
        Ok(if self.null_message { Some(Vec::new()) } else { None })
    }
}

struct Sender {
    session: Session,
    call: Call,
    topic: String,
    block: Block,
    retain: bool,
    qos: client::Qos,
    /// Result of the first message that was refused.
    failed: Option<String>,
}

impl Sender {
    fn send(&mut self, body: &[u8]) -> Result<(), Failure> {
        let unix_s = (client::now().wall_ms / 1_000) as u32;
        let mut message: Publication =
            publication(unix_s, &self.topic, self.block.properties(), body);
        (message.qos, message.retain) = (self.qos, self.retain);
        let token = self.session.publish(message);
        self.call.note(|| format!("message {token} sent, {} bytes", body.len()));
        while self.session.has_events() {
            self.look(Duration::ZERO)?;
        }
        while self.session.under_way() > WAITING_MAX || self.session.is_writing() {
            self.look(LOOK)?;
        }
        Ok(())
    }

    fn pause(&mut self, span: Duration) -> Result<(), Failure> {
        let until = client::now().after(span);
        while client::now().mono < until {
            self.look((until - client::now().mono).min(LOOK))?;
        }
        Ok(())
    }

    fn look(&mut self, span: Duration) -> Result<(), Failure> {
        let Some(event) = self.session.poll(span)? else { return Ok(()) };
        if let Some(text) = unpublished(&event) {
            self.failed.get_or_insert(text);
        }
        if let MqttEvent::Published { token, result: Ok(reason) } = &event {
            let nobody = match reason {
                ReasonCode::NoMatchingSubscribers => "; no subscribers",
                _ => "",
            };
            self.call.note(|| format!("message {token} acknowledged{nobody}"));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        while self.session.under_way() > 0 || self.session.has_events() || self.session.is_writing()
        {
            self.look(LOOK)?;
        }
        self.session.disconnect(ReasonCode::Success, self.call.block("disconnect")?);
        self.failed.map_or(Ok(()), |text| Err(text.into()))
    }
}
