//! `holdline im push`: how an account's devices are woken while they are away (IM 15).

use super::{Common, Failure, answer, goodbye};
use base::text::escaped;
use clap::{Args, Subcommand};
use client::im::{ImEvent, ImOrder, RegisteredPush, RegisteredPushes};
use model::chat::{PushRoute, PushWish, QuietHours};
use serde_json::json;

/// Action on push registrations.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Register a device for push notifications: through the operator's gateway or Holdline's own
    /// push
    On(On),
    /// Remove a registration
    Off(Off),
    /// Show registrations and quiet hours
    Show(Show),
    /// Set daily quiet hours
    Quiet(Quiet),
}

#[derive(Args)]
struct On {
    #[command(flatten)]
    common: Common,
    /// Name of the registration; the device name by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Application identifier at the operator's gateway
    #[arg(long, value_name = "APP", requires = "token", conflicts_with = "product")]
    app: Option<String>,
    /// Device token at the gateway
    #[arg(long, value_name = "TOKEN", requires = "app")]
    token: Option<String>,
    /// Product of a MIOP device
    #[arg(long, value_name = "PRODUCT", requires = "miop_device", required_unless_present = "app")]
    product: Option<String>,
    /// Name of the MIOP device
    #[arg(long, value_name = "DEVICE", requires = "product")]
    miop_device: Option<String>,
    /// Confirmation code that was pushed to the device
    #[arg(long, value_name = "CODE", requires = "product")]
    code: Option<String>,
    /// Share the device with other accounts; otherwise they lose it
    #[arg(long)]
    shared: bool,
}

#[derive(Args)]
struct Off {
    #[command(flatten)]
    common: Common,
    /// Name of the registration; the device name by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Args)]
struct Show {
    #[command(flatten)]
    common: Common,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Quiet {
    #[command(flatten)]
    common: Common,
    /// Start, e.g. 22:00
    #[arg(value_name = "FROM", required_unless_present = "never", value_parser = minutes)]
    from: Option<u16>,
    /// End, e.g. 07:00
    #[arg(value_name = "TO", required_unless_present = "never", value_parser = minutes)]
    to: Option<u16>,
    /// UTC offset of the account's local time, e.g. 02:00 or -03:30
    #[arg(long, value_name = "OFFSET", default_value = "00:00", value_parser = offset)]
    #[arg(allow_hyphen_values = true)]
    offset: i16,
    /// Remove the quiet hours
    #[arg(long, conflicts_with_all = ["from", "to"])]
    never: bool,
}

/// Carries out the command.
pub(super) fn push(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::On(on) => {
            let wish = PushWish::Register {
                name: on.name.as_deref().map(Box::from),
                route: route(&on)?,
                code: on.code.as_deref().map(Box::from),
                shared: on.shared,
            };
            match wished(&on.common, wish)? {
                ImEvent::PushCode { .. } => {
                    out!("a code was pushed to the device: give it with --code");
                }
                _ => out!("registered"),
            }
        }
        Command::Off(off) => {
            let name = off.name.as_deref().map(Box::from);
            wished(&off.common, PushWish::Remove { name })?;
        }
        Command::Show(show) => {
            if let ImEvent::PushStatus(status) = wished(&show.common, PushWish::Show)? {
                print(&status, show.json);
            }
        }
        Command::Quiet(quiet) => {
            let hours = match (quiet.from, quiet.to) {
                (Some(from), Some(to)) => {
                    let hours = QuietHours::of(from, to, quiet.offset);
                    Some(hours.ok_or_else(|| "invalid hours".to_owned())?)
                }
                _ => None,
            };
            wished(&quiet.common, PushWish::Quiet(hours))?;
        }
    }
    Ok(())
}

fn route(on: &On) -> Result<PushRoute, Failure> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let route = match &on.app {
        Some(app) => PushRoute::gateway(app, &text(&on.token)),
        None => PushRoute::miop(&text(&on.product), &text(&on.miop_device)),
    };
    route.ok_or_else(|| Failure("invalid device name".into()))
}

/// Asks for something; the answer.
fn wished(common: &Common, wish: PushWish) -> Result<ImEvent, Failure> {
    let (mut session, _) = common.login("push")?;
    session.order(ImOrder::Push { number: 1, wish: Box::new(wish) });
    let answered = answer(&mut session, |event| match event {
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        ImEvent::PushStatus(status) if status.number == 1 => Some(Ok(ImEvent::PushStatus(status))),
        event @ (ImEvent::Done { number: 1 } | ImEvent::PushCode { number: 1 }) => Some(Ok(event)),
        _ => None,
    })?;
    goodbye(session);
    Ok(answered)
}

fn print(status: &RegisteredPushes, is_json: bool) {
    let hour = |minutes: u16| base::calendar::hour(u64::from(minutes) * 60);
    let offset = |minutes: i16| {
        let sign = if minutes < 0 { '-' } else { '+' };
        format!("{sign}{}", hour(minutes.unsigned_abs()))
    };
    if is_json {
        let quiet = status.quiet.map(|it| {
            let clock = offset(it.offset_min);
            json!({ "from": hour(it.from_min), "to": hour(it.to_min), "offset": clock })
        });
        let all: Vec<_> = status.registrations.iter().map(shown).collect();
        return out!("{}", json!({ "registrations": all, "quiet": quiet }));
    }
    for it in &status.registrations {
        out!("{}: {} (by {})", escaped(&it.name), escaped(&it.way), escaped(&it.device));
    }
    if let Some(it) = status.quiet {
        let (from, to) = (hour(it.from_min), hour(it.to_min));
        out!("quiet from {from} to {to}, UTC{}", offset(it.offset_min));
    }
}

/// A registration, as JSON.
fn shown(it: &RegisteredPush) -> serde_json::Value {
    json!({ "name": &*it.name, "device": &*it.device, "way": &*it.way })
}

/// Minutes since midnight, of `22:00`.
fn minutes(text: &str) -> Result<u16, String> {
    let parse = || {
        let (hours, minutes) = text.split_once(':')?;
        let (hours, minutes) = (hours.parse::<u16>().ok()?, minutes.parse::<u16>().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    };
    parse().ok_or_else(|| "expected a time such as 22:00".to_owned())
}

fn offset(text: &str) -> Result<i16, String> {
    let (is_before, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let minutes = minutes(text)? as i16;
    Ok(if is_before { -minutes } else { minutes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_day_are_read_and_others_are_not() {
        assert_eq!((minutes("00:00"), minutes("23:59")), (Ok(0), Ok(1_439)));
        assert_eq!(
            (offset("-03:30"), offset("+02:00"), offset("1:0")),
            (Ok(-210), Ok(120), Ok(60))
        );
        for wrong in ["24:00", "12:60", "12", "", ":", "a:b", "-1:00"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
    }
}
