//! The feed: events on their way from the shards to streams and webhooks.
//!
//! Three [lanes](lane): events of devices, clients and the server, numbered together so that a
//! stream can resume; events of chat, likewise, which contain messages and are bounded in bytes;
//! and published messages, of which only those are stored that match some reader's filters, so that
//! a flood of them displaces no event and costs nothing without readers. Shards publish and never
//! wait. It knows no HTTP. Invariant: losses in one lane do not affect the others.

pub(crate) mod alarm_file;
pub(crate) mod alarms;
pub(crate) mod lane;
pub(crate) mod stream_courier;
pub(crate) mod topic;

pub(crate) use lane::{Paused, Reader, Taken};

use alarms::Alarm;
use lane::Lane;
use model::limits::Limits;
use model::ports::events::{ChatEvent, ClientEvent, ClientWhat, DeviceEvent, DeviceWhat};
use model::service::{Event, ServiceKind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Bytes of published messages that wait for readers, and as many of events of chat. Beyond, the
/// oldest are dropped, and readers that have not taken them learn how many.
pub const MESSAGES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Entry of the feed: an event, or what happened to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// To a device.
    Device(DeviceEvent),
    /// To a client.
    Client(ClientEvent),
    /// In chat.
    Chat(ChatEvent),
    /// An alarm was raised or cleared.
    Alarm(Alarm),
}

impl Happening {
    /// The entry for streams and webhooks; none for an echo.
    fn of(event: Event) -> Option<Happening> {
        match event {
            Event::Push(event) => Some(Happening::Device(event)),
            Event::Topics(event) => Some(Happening::Client(event)),
            Event::Chat(event) => Some(Happening::Chat(event)),
            Event::Echo(_) => None,
        }
    }

    /// The word in streams and webhooks.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Happening::Device(event) => event.what.name(),
            Happening::Client(event) => event.what.name(),
            Happening::Chat(event) => event.what.name(),
            Happening::Alarm(alarm) => alarm.event().name,
        }
    }

    /// Unix milliseconds.
    pub(crate) fn at_ms(&self) -> u64 {
        match self {
            Happening::Device(event) => event.at_ms,
            Happening::Client(event) => event.at_ms,
            Happening::Chat(event) => event.at_ms,
            Happening::Alarm(alarm) => alarm.changed_ms(),
        }
    }

    /// Whether the event is a connect or a disconnect.
    pub(crate) fn is_presence(&self) -> bool {
        match self {
            Happening::Device(event) => {
                matches!(event.what, DeviceWhat::Online { .. } | DeviceWhat::Offline { .. })
            }
            Happening::Client(event) => {
                let what = &event.what;
                matches!(what, ClientWhat::Connected { .. } | ClientWhat::Disconnected { .. })
            }
            Happening::Chat(_) | Happening::Alarm(_) => false,
        }
    }

    /// Bytes counted against its lane's limit: events are bounded by their number alone.
    fn weight(&self) -> usize {
        match self {
            Happening::Client(ClientEvent { what: ClientWhat::Published(message), .. }) => {
                message.weight()
            }
            Happening::Chat(event) => event.weight(),
            _ => 0,
        }
    }
}

/// Entries that a reader wants to be kept for it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wish {
    /// Events of devices.
    pub(crate) devices: bool,
    /// Events of clients.
    pub(crate) clients: bool,
    /// Of both, who came and who went.
    pub(crate) presence: bool,
    /// Events of chat.
    pub(crate) chat: bool,
    /// Alarms.
    pub(crate) alarms: bool,
    /// Messages whose topics match one of these filters.
    pub(crate) topics: Vec<String>,
}

impl Wish {
    fn wants(&self, happening: &Happening) -> bool {
        match happening {
            Happening::Device(_) => self.devices || self.presence && happening.is_presence(),
            Happening::Client(ClientEvent { what: ClientWhat::Published(message), .. }) => {
                self.topics.iter().any(|filter| topic::matches(filter, message.topic()))
            }
            Happening::Chat(_) => self.chat,
            Happening::Alarm(_) => self.alarms,
            Happening::Client(_) => self.clients || self.presence && happening.is_presence(),
        }
    }
}

/// The way from the shards to streams and webhooks.
pub struct Feed {
    events: Arc<Lane>,
    chat: Arc<Lane>,
    messages: Arc<Lane>,
}

impl Feed {
    /// An empty feed of `events_waiting_max` events, and as many messages.
    pub fn new(limits: &Limits) -> Arc<Feed> {
        let count_max = (limits.events_waiting_max as usize).max(1);
        let events = Lane::new(count_max, usize::MAX, count_max);
        let chat = Lane::new(count_max, MESSAGES_BYTES_MAX, count_max);
        // Readers of messages cannot resume: messages are not stored without readers.
        let messages = Lane::new(count_max, MESSAGES_BYTES_MAX, 0);
        Arc::new(Feed { events, chat, messages })
    }

    /// Puts events in, messages of clients among them. The answer is how many, old or new, some
    /// reader will never see.
    pub fn publish<E: Into<Event>>(&self, events: Vec<E>) -> usize {
        let events = events.into_iter().map(Into::into);
        let (messages, events): (Vec<_>, Vec<_>) = events.partition(Event::is_message);
        let (chat, events) = events.into_iter().partition(|event| matches!(event, Event::Chat(_)));
        let happenings =
            |events: Vec<Event>| events.into_iter().filter_map(Happening::of).collect();
        self.events.publish(happenings(events))
            + self.chat.publish(happenings(chat))
            + self.messages.publish(happenings(messages))
    }

    /// Puts in alarms that were raised or cleared.
    pub(crate) fn publish_alarms(&self, alarms: Vec<Alarm>) {
        self.events.publish(alarms.into_iter().map(Happening::Alarm).collect());
    }

    /// Whether anybody listens to events of this service, messages apart, or may come back to where
    /// it was: worth making them for.
    pub fn wanted(&self, service: ServiceKind) -> bool {
        match service {
            ServiceKind::Push => self.events.wanted().devices(),
            ServiceKind::Topics => self.events.wanted().clients(),
            ServiceKind::Chat => self.chat.wanted().chat(),
            ServiceKind::Echo => false,
        }
    }

    /// Whether anybody listens to some messages.
    pub fn messages_wanted(&self) -> bool {
        self.messages.wanted().messages()
    }

    /// A reader of events from place `from` on; from now on when absent.
    pub(crate) fn reader(&self, wish: Wish, from: Option<u64>) -> Reader {
        self.events.reader(Wish { topics: Vec::new(), ..wish }, from)
    }

    /// A reader of events of chat from place `from` on; from now on when absent.
    pub(crate) fn chat_reader(&self, from: Option<u64>) -> Reader {
        self.chat.reader(Wish { chat: true, ..Wish::default() }, from)
    }

    /// A reader of messages from now on.
    pub(crate) fn message_reader(&self, topics: Vec<String>) -> Reader {
        self.messages.reader(Wish { topics, ..Wish::default() }, None)
    }

    /// Ends the feed: readers take what is left, then their ends.
    pub fn close(&self) {
        self.events.close();
        self.chat.close();
        self.messages.close();
    }

    /// Waits so long, or less when the feed is closed. Whether it is still open.
    pub(crate) fn pause(&self, span: Duration) -> bool {
        self.pause_unless(&AtomicBool::new(false), span)
    }

    /// Waits so long, or less when the feed is closed, or `ended` is set and the feed was
    /// [woken](Self::wake). Whether neither is so.
    pub(crate) fn pause_unless(&self, ended: &AtomicBool, span: Duration) -> bool {
        self.events.pause(span, ended)
    }

    /// Has every thread that waits look at its end flag.
    pub(crate) fn wake(&self) {
        [&self.events, &self.chat, &self.messages].into_iter().for_each(|lane| lane.wake());
    }
}
