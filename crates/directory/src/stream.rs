//! Events into a stream of Redis.

use crate::fleet::{Fleet, Order};
use crate::reply;
use crate::settings::Settings;
use model::ports::directory::{EventStream, Fault};

/// Events that are sent at once, within one time limit.
const EVENTS_AT_ONCE: usize = 1_024;

/// A stream that events are appended to. It has a connection of its own.
///
/// It is cut to about its length by Redis, whole nodes of its tree at a time: `MAXLEN ~`.
pub struct Stream {
    fleet: Fleet,
    key: String,
    length_max: String,
}

impl Stream {
    /// Events to the stream with this key (the prefix is not put before it), of which about the
    /// last `length_max` are kept. Connects at the first call. The error says what is wrong with
    /// the settings.
    pub fn new(settings: &Settings, key: &str, length_max: u64) -> Result<Stream, String> {
        let (key, length_max) = (key.to_string(), length_max.to_string());
        Ok(Stream { fleet: Fleet::new(settings)?, key, length_max })
    }

    fn order(&self, event: &[(&'static str, String)]) -> Order {
        let mut command = vec!["XADD", &self.key, "MAXLEN", "~", &self.length_max, "*"];
        command.extend(event.iter().flat_map(|(field, value)| [*field, value.as_str()]));
        Order::new(&self.key, &command)
    }
}

impl EventStream for Stream {
    fn append(&mut self, events: &[Vec<(&'static str, String)>]) -> Result<(), Fault> {
        for events in events.chunks(EVENTS_AT_ONCE) {
            let orders: Vec<Order> = events.iter().map(|event| self.order(event)).collect();
            for id in self.fleet.call(&orders)? {
                reply::text(id)?;
            }
        }
        Ok(())
    }
}
