//! The thread that appends presence to a stream outside.
//!
//! The courier ([`admin::StreamCourier`]) chooses what to append and how often to try; the caller
//! hands in the stream, with a connection that nobody else uses. Invariant: the thread ends when
//! the feed does, after one more try at what is left.

use crate::clock;
use admin::{Feed, MetricReading, StreamCourier, StreamSettings, StreamTally};
use model::ports::presence::directory::EventStream;
use model::presence::NodeName;
use model::{event, tell};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

/// The courier at work.
pub(super) struct Running {
    feed: Arc<Feed>,
    tally: Arc<StreamTally>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Starts it: what happens from now on is appended.
pub(super) fn start(
    stream: Box<dyn EventStream>,
    feed: &Arc<Feed>,
    node: &NodeName,
    boot: u64,
) -> io::Result<Running> {
    let settings =
        StreamSettings { stream, node: node.clone(), boot, wall_ms: Arc::new(clock::wall_ms) };
    let courier = StreamCourier::new(settings, feed);
    let tally = courier.tally();
    let thread = Builder::new().name("events-stream".into()).spawn(move || courier.run())?;
    Ok(Running { feed: Arc::clone(feed), tally, thread: Mutex::new(Some(thread)) })
}

impl Running {
    /// Ends the feed, and waits for the courier's last try. To be called when nothing is published
    /// any more.
    pub(super) fn stop(&self) {
        self.feed.close();
        let thread = self.thread.lock().map(|mut thread| thread.take()).unwrap_or_default();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tell!(event::THREAD_PANICKED, thread = "stream of events");
        }
    }

    /// For the metrics.
    pub(super) fn readings(&self) -> impl Fn() -> Vec<MetricReading> + Send + Sync + 'static {
        let tally = Arc::clone(&self.tally);
        move || {
            let reading = |name, help, value| MetricReading { name, help, value };
            vec![
                reading(
                    "events_stream_appended_total",
                    "Events appended to the Redis \
                                                         stream.",
                    tally.appended(),
                ),
                reading(
                    "events_stream_failures_total",
                    "Failed attempts to append events to the \
                                                         Redis stream.",
                    tally.failures(),
                ),
                reading(
                    "events_stream_lost_total",
                    "Events lost: never appended to the Redis \
                                                     stream.",
                    tally.lost(),
                ),
                reading(
                    "events_stream_waiting",
                    "Events queued for the Redis stream.",
                    tally.waiting(),
                ),
                reading(
                    "events_stream_away",
                    "1 if the last attempt to append to the Redis stream failed.",
                    tally.is_away().into(),
                ),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::close::CloseReason;
    use model::id::{DeviceId, ProductKey};
    use model::limits::Limits;
    use model::ports::events::{DeviceEvent, DeviceWhat};
    use model::ports::presence::directory::DirectoryError;
    use model::presence::PresenceVersion;
    use model::service::ServiceKind;

    /// A stream that is away for a while.
    struct Memory {
        away: u32,
        kept: Arc<Mutex<Vec<String>>>,
    }

    impl EventStream for Memory {
        fn append(&mut self, events: &[Vec<(&'static str, String)>]) -> Result<(), DirectoryError> {
            if self.away > 0 {
                self.away -= 1;
                return Err(DirectoryError::Slow);
            }
            let kinds = events.iter().map(|entry| entry[0].1.clone());
            self.kept.lock().expect("no panic").extend(kinds);
            Ok(())
        }
    }

    #[test]
    fn what_was_published_before_the_stop_is_appended() {
        let (feed, kept) = (Feed::new(&Limits::default()), Arc::default());
        let memory = Memory { away: 1, kept: Arc::clone(&kept) };
        let node = NodeName::parse("n1").expect("allowed");
        let running = start(Box::new(memory), &feed, &node, 7).expect("a thread");
        assert!(feed.wanted(ServiceKind::Push), "events are made for it alone");
        feed.publish(vec![DeviceEvent {
            at_ms: 1,
            product: ProductKey::parse("p").expect("allowed"),
            device: DeviceId::parse("d").expect("allowed"),
            epoch: 1,
            version: PresenceVersion(1),
            what: DeviceWhat::Offline { reason: CloseReason::Draining },
        }]);
        running.stop();
        running.stop();
        assert_eq!(*kept.lock().expect("no panic"), ["started", "offline"]);
        let readings: Vec<_> = (running.readings())().iter().map(|read| read.value).collect();
        assert_eq!(readings, [2, 1, 0, 0, 0]);
    }
}
