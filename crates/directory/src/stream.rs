//! Events into a stream of Redis.

use crate::connections::{RedisCommand, RedisConnections};
use crate::reply;
use crate::settings::Settings;
use model::ports::presence::directory::{DirectoryError, EventStream};

/// Events that are sent at once, within one time limit.
const EVENTS_AT_ONCE: usize = 1_024;

/// A stream that events are appended to. It has a connection of its own.
///
/// Redis trims the stream to about `length_max` entries, whole nodes of its tree at a time: `MAXLEN
/// ~`.
pub struct Stream {
    fleet: RedisConnections,
    key: String,
    length_max: String,
}

impl Stream {
    /// Events to the stream with this key (the prefix is not put before it), of which about the
    /// last `length_max` are kept. Connects at the first call. The error says what is wrong with
    /// the settings.
    pub fn new(settings: &Settings, key: &str, length_max: u64) -> Result<Stream, String> {
        let (key, length_max) = (key.to_string(), length_max.to_string());
        Ok(Stream { fleet: RedisConnections::new(settings)?, key, length_max })
    }

    fn order(&self, event: &[(&'static str, String)]) -> RedisCommand {
        let mut command = vec!["XADD", &self.key, "MAXLEN", "~", &self.length_max, "*"];
        command.extend(event.iter().flat_map(|(field, value)| [*field, value.as_str()]));
        RedisCommand::new(&self.key, &command)
    }
}

impl EventStream for Stream {
    fn append(&mut self, events: &[Vec<(&'static str, String)>]) -> Result<(), DirectoryError> {
        for events in events.chunks(EVENTS_AT_ONCE) {
            let orders: Vec<RedisCommand> = events.iter().map(|event| self.order(event)).collect();
            for id in self.fleet.call(&orders)? {
                reply::text(id)?;
            }
        }
        Ok(())
    }
}
