//! `holdline im presence`: somebody is there, until the command ends, and hears who else is and
//! what contacts do, a line of JSON each (IM 12.4).

use super::{Common, Failure, answer, contacts, goodbye};
use crate::out;
use clap::ValueEnum;
use client::im::{ImEvent, ImOrder};
use model::chat::{Availability, ContactChange, Presence, Show, SubscriptionVerb};
use serde_json::json;
use std::time::Duration;

/// How often is looked whether anybody still reads what is printed.
const LOOK: Duration = Duration::from_millis(200);

/// How to be there.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Presence to show
    #[arg(value_enum, value_name = "SHOW", default_value = "online")]
    how: How,
    /// Status text
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    status: String,
    /// End after this many lines
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

/// How somebody is there; whoever is not to be seen gives the other commands alone.
#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// Available
    Online,
    /// Available and eager to chat
    Talkative,
    /// Away
    Away,
    /// Away for a long time
    LongAway,
    /// Busy
    Busy,
}

impl How {
    fn show(self) -> Show {
        match self {
            How::Online => Show::Here,
            How::Talkative => Show::Chat,
            How::Away => Show::Away,
            How::LongAway => Show::ExtendedAway,
            How::Busy => Show::DoNotDisturb,
        }
    }
}

/// Is there, until the connection or the reader ends.
pub(super) fn presence(arguments: &Arguments) -> Result<(), Failure> {
    let (mut session, welcome) = arguments.common.login("presence")?;
    let (show, status) = (arguments.how.show(), arguments.status.as_str().into());
    let how = Some(Box::new(Availability { show, status, ..Availability::default() }));
    session.order(ImOrder::Present { number: 1, how });
    // Whoever is there is told of others from the same moment on.
    let mut lines = Vec::new();
    answer(&mut session, |event| match event {
        ImEvent::Done { number: 1 } => Some(Ok(())),
        ImEvent::Failed { number: 1, word, .. } => Some(Err(format!("failed: {word}"))),
        event => {
            lines.extend(line(&event));
            None
        }
    })?;
    note!("online as {}", welcome.account);
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 && !out::is_closed() {
        for line in lines.drain(..).take(usize::try_from(left).unwrap_or(usize::MAX)) {
            out!("{line}");
            left -= 1;
        }
        if left > 0 {
            lines.extend(session.poll(LOOK)?.as_ref().and_then(line));
        }
    }
    goodbye(session);
    Ok(())
}

/// Line for an event about people; others have none.
fn line(event: &ImEvent) -> Option<serde_json::Value> {
    match event {
        ImEvent::Presence(presence) => Some(shown(presence)),
        ImEvent::Contact(change) => Some(changed(change)),
        _ => None,
    }
}

/// How somebody is there, as JSON.
fn shown(presence: &Presence) -> serde_json::Value {
    let how = presence.availability.as_deref();
    json!({
        "event": "presence",
        "from": presence.from.as_str(),
        "device": presence.device.as_deref(),
        "show": how.map_or("offline", |how| word(how.show)),
        "status": how.map_or("", |how| &*how.status),
    })
}

/// A contact that has changed, as JSON.
fn changed(change: &ContactChange) -> serde_json::Value {
    let said = change.said.map(|said| match said {
        SubscriptionVerb::Subscribe => "request",
        SubscriptionVerb::Unsubscribe => "cancel",
        SubscriptionVerb::Subscribed => "accept",
        SubscriptionVerb::Unsubscribed => "refuse",
    });
    let contact = contacts::shown(&change.contact);
    json!({ "event": "contact", "said": said, "contact": contact })
}

fn word(show: Show) -> &'static str {
    match show {
        Show::Here => "online",
        Show::Chat => "talkative",
        Show::Away => "away",
        Show::ExtendedAway => "long_away",
        Show::DoNotDisturb => "busy",
    }
}
