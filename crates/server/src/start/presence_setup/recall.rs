//! Recall of what an earlier start left behind on the topic of events.
//!
//! A server that was killed could not say who went. Its retained messages still say online; this
//! walks them once after a start and has the owner's shard look: who is not there is said to have
//! gone. The shard that would say "online" is the one that says "offline", so the two never cross.
//! Invariant: messages that this server would not have made are left alone.

use crate::shard_logic::EventTopic;
use model::ports::control::{Answer, Command, Control};
use model::ports::topics::{TopicAnswer, TopicCommand};
use model::presence::{PresenceVersion, Principal};
use model::{event, tell};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Messages of one page.
const PAGE: u32 = 1_000;

/// How long shards may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Asks whoever owns a principal to look: it was said to be online, under this version. False when
/// nobody can be asked any more.
pub type AskOwner = Box<dyn Fn(Principal, PresenceVersion) -> bool + Send>;

/// Walks the retained messages of this topic once. How many said online.
pub fn recall(topic: &EventTopic, control: &dyn Control, ask: &AskOwner) -> u64 {
    let (filter, mut after, mut count) = (topic.filter(), None, 0);
    loop {
        let command =
            TopicCommand::Retained { filter: filter.clone(), after: after.take(), count: PAGE };
        let (tell, told) = sync_channel(1);
        let reply = Box::new(move |answer| {
            // Nobody waits any more when it is late.
            let _ = tell.send(answer);
        });
        control.ask(Command::Topics(command), reply);
        let Ok(Answer::Topics(TopicAnswer::Retained { messages, next })) =
            told.recv_timeout(ANSWER)
        else {
            return count;
        };
        for message in &messages {
            if let Some((who, version)) = topic.online_in(message) {
                count += 1;
                if !ask(who, version) {
                    return count;
                }
            }
        }
        after = next;
        if after.is_none() {
            return count;
        }
    }
}

/// Starts the recall on a thread of its own, which ends by itself.
pub fn begin(topic: EventTopic, control: Arc<dyn Control>, ask: AskOwner) -> std::io::Result<()> {
    let run = move || {
        let count = recall(&topic, control.as_ref(), &ask);
        if count > 0 {
            tell!(event::EVENTS_RECALLED, count);
        }
    };
    std::thread::Builder::new().name("presence-recall".into()).spawn(run).map(drop)
}
