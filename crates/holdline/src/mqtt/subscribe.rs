//! `holdline sub`: subscribes and prints what comes.

use super::format::{Format, Shown};
use super::{Call, Common, Failure, TIMED_OUT, end, say};
use crate::out::Raw;
use clap::Args;
use client::{
    Backoff, MqttEvent, Publication, Qos, ReasonCode, RetainHandling, Session, SubscriptionOptions,
};
use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Filters to subscribe to, and the form in which messages are printed.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Topic filter; can be repeated
    #[arg(short, long, value_name = "FILTER")]
    topic: Vec<String>,
    /// Unsubscribe from this filter; can be repeated
    #[arg(short = 'U', long, value_name = "FILTER")]
    unsubscribe: Vec<String>,
    /// Do not print messages whose topic matches this filter; can be repeated
    #[arg(short = 'T', long, value_name = "FILTER")]
    filter_out: Vec<String>,
    /// End after this many messages
    #[arg(short = 'C', value_name = "COUNT")]
    count: Option<u64>,
    /// End after this time, with exit code 27: 90s, 5m; a plain number is in seconds
    #[arg(short = 'W', value_name = "TIME", value_parser = crate::duration::of_seconds)]
    wait: Option<Duration>,
    /// End once the subscriptions are acknowledged
    #[arg(short = 'E')]
    end_subscribed: bool,
    /// Print the topic before each message
    #[arg(short, long)]
    verbose: bool,
    /// Print no line end after each message
    #[arg(short = 'N')]
    no_newline: bool,
    /// Output format: %t %p %q %r %j etc.
    #[arg(short = 'F', value_name = "FORMAT", allow_hyphen_values = true)]
    format: Option<String>,
    /// Do not print retained messages
    #[arg(short = 'R', conflicts_with = "retained_only")]
    no_retained: bool,
    /// Print only retained messages, and end at the first other one
    #[arg(long)]
    retained_only: bool,
    /// Clear the retained messages of the topics received
    #[arg(long)]
    remove_retained: bool,
    /// Retain-as-published: keep the retain flag as published (MQTT 5)
    #[arg(long)]
    retain_as_published: bool,
    /// When retained messages are sent (MQTT 5): always, new or never
    #[arg(long, value_name = "WHEN", default_value = "always")]
    retain_handling: String,
    /// No-local: do not receive this client's own messages (MQTT 5)
    #[arg(long)]
    no_local: bool,
    #[command(flatten)]
    common: Common,
}

/// Subscribes.
pub fn subscribe(arguments: Arguments) -> ExitCode {
    end(arguments.common.quiet(), run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut call = arguments.common.call()?;
    let mut filters = arguments.topic.clone();
    filters.extend(call.topic.take());
    if filters.is_empty() && arguments.unsubscribe.is_empty() {
        return Err("topic filter missing: give -t FILTER".to_owned().into());
    }
    let all = filters.iter().chain(&arguments.unsubscribe).chain(&arguments.filter_out);
    all.into_iter().try_for_each(|filter| check(filter))?;
    let wishes = wishes(arguments, &filters, call.qos)?;
    let format = Format::read(&arguments.format())?;
    let (min, max) = (Duration::from_secs(1), Duration::from_secs(30));
    let until = arguments.wait.map(|wait| client::now().after(wait));
    if let Some(wait) = arguments.wait {
        let most = wait.max(Duration::from_secs(1));
        call.settings.connect_timeout = call.settings.connect_timeout.min(most);
    }
    call.settings.retry = Some(Backoff { min, max });
    let mut session = call.connect()?;
    let mut asked = HashMap::new();
    if !arguments.unsubscribe.is_empty() {
        let ended = arguments.unsubscribe.iter().map(|filter| filter.as_str().into()).collect();
        session.unsubscribe(ended, call.block("unsubscribe")?);
    }
    if !wishes.is_empty() {
        asked.insert(session.subscribe(wishes, call.block("subscribe")?), filters.clone());
    }
    let mut reader = Reader { arguments, call, session, format, asked, printed: 0, is_over: false };
    while !reader.is_over {
        let now = client::now().mono;
        if until.is_some_and(|until| now >= until) {
            reader.farewell()?;
            return Err(Failure { code: TIMED_OUT, text: "timed out".to_owned() });
        }
        let span = until.map_or(Duration::from_secs(60), |until| until - now);
        reader.look(span)?;
    }
    reader.farewell()
}

impl Arguments {
    /// The format that the flags come to.
    fn format(&self) -> String {
        let end = if self.no_newline { "" } else { "\\n" };
        match &self.format {
            Some(format) => format!("{format}{end}"),
            None if self.verbose => format!("%t %p{end}"),
            None => format!("%p{end}"),
        }
    }
}

fn wishes(
    arguments: &Arguments,
    filters: &[String],
    qos: Qos,
) -> Result<Vec<SubscriptionOptions>, String> {
    let retain_handling = match arguments.retain_handling.as_str() {
        "always" => RetainHandling::Send,
        "new" => RetainHandling::SendIfNew,
        "never" => RetainHandling::DoNotSend,
        other => return Err(format!("--retain-handling {other}: expected always, new or never")),
    };
    let wish = |filter: &String| SubscriptionOptions {
        filter: filter.as_str().into(),
        qos,
        no_local: arguments.no_local,
        retain_as_published: arguments.retain_as_published,
        retain_handling,
    };
    Ok(filters.iter().map(wish).collect())
}

/// Fault of a filter, for which a broker would close the connection.
fn check(filter: &str) -> Result<(), String> {
    let levels: Vec<&str> = filter.split('/').collect();
    let last = levels.len() - 1;
    let is_wrong = |(at, level): (usize, &&str)| {
        level.contains('#') && (*level != "#" || at != last) || level.contains('+') && *level != "+"
    };
    if filter.is_empty() || filter.len() > 65_535 || levels.iter().enumerate().any(is_wrong) {
        return Err(format!(
            "`{filter}` is not a valid filter: + and # must fill a level, # the last one"
        ));
    }
    Ok(())
}

struct Reader<'a> {
    arguments: &'a Arguments,
    call: Call,
    session: Session,
    format: Format,
    /// Filters by the token of their subscription.
    asked: HashMap<u32, Vec<String>>,
    printed: u64,
    is_over: bool,
}

impl Reader<'_> {
    fn look(&mut self, span: Duration) -> Result<(), Failure> {
        let event = match self.session.poll(span) {
            Ok(event) => event,
            Err(fault) => {
                if !self.arguments.common.quiet() {
                    say(&fault.to_string());
                }
                return Ok(()); // it comes back
            }
        };
        match event {
            Some(MqttEvent::Message { qos, retain, ids, packet_id, message, .. }) => {
                let at_ms = client::now().wall_ms;
                let shown = Shown { message: &message, qos, retain, packet_id, ids: &ids, at_ms };
                self.message(&shown);
            }
            Some(MqttEvent::Subscribed { token, reasons }) => self.subscribed(token, &reasons)?,
            Some(MqttEvent::Connected(_)) => self.call.note(|| "reconnected".to_owned()),
            _ => {}
        }
        Ok(())
    }

    fn subscribed(&mut self, token: u32, reasons: &[ReasonCode]) -> Result<(), Failure> {
        let filters = self.asked.remove(&token).unwrap_or_default();
        let mut granted = 0;
        for (filter, reason) in filters.iter().zip(reasons) {
            let name = reason.name(client::PacketKind::Suback).replace('_', " ");
            self.call.note(|| format!("{filter}: {name}"));
            granted += usize::from(!reason.is_failure());
            if reason.is_failure() && !self.arguments.common.quiet() {
                say(&format!("{filter}: the broker refused the subscription: {name}"));
            }
        }
        if granted == 0 && !filters.is_empty() {
            self.farewell()?;
            let text = "all subscriptions were refused".to_owned();
            let code = reasons.first().map_or(1, |reason| reason.number());
            return Err(Failure { code, text });
        }
        self.is_over |= self.arguments.end_subscribed && self.asked.is_empty();
        Ok(())
    }

    fn message(&mut self, shown: &Shown<'_>) {
        let arguments = self.arguments;
        if self.is_over || arguments.no_retained && shown.retain {
            return;
        }
        if arguments.retained_only && !shown.retain {
            self.is_over = true;
            return;
        }
        let topic = shown.message.topic();
        if arguments.filter_out.iter().any(|filter| client::matches(filter, topic)) {
            return;
        }
        if arguments.remove_retained && shown.retain {
            let mut empty = Publication::new(topic, &[], &[]);
            empty.retain = true;
            self.session.publish(empty);
        }
        let mut line = Vec::new();
        self.format.print(shown, &mut line);
        // Nobody reads any more, or nothing can be written: there is nothing more to do.
        self.is_over |= Raw.write_all(&line).is_err();
        self.printed += 1;
        self.is_over |= arguments.count.is_some_and(|count| self.printed >= count);
    }

    fn farewell(&mut self) -> Result<(), Failure> {
        self.session.disconnect(ReasonCode::Success, self.call.block("disconnect")?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_checked_before_the_broker_does() {
        for good in ["a", "+", "#", "a/+/b", "a/#", "/", "$share/g/a"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in ["", "a+", "#/a", "a/#/b", "a#"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
