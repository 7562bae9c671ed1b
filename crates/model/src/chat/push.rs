//! Push notifications for offline accounts: how a device wants to be woken, and the content of a
//! notification.
//!
//! A registration names a way to a device that is not connected: through the operator's gateway, by
//! a token that only that understands, through Holdline's own pushes, by product and device, or
//! through a push service of XMPP elsewhere. A notification says what came; who carries it, and
//! when, is not known here.

use crate::account::AccountAddress;
use crate::id::{DeviceId, ProductKey};
use crate::timeline::Seq;
use base::encoding::Encoding;

/// Longest name of a registration, bytes: that of a device, or a node of XEP-0357.
pub const PUSH_NAME_BYTES_MAX: usize = 256;

/// Longest token of a gateway, bytes.
pub const PUSH_TOKEN_BYTES_MAX: usize = 1_024;

/// Longest name of an application, bytes.
pub const PUSH_APP_BYTES_MAX: usize = 128;

/// Letters of the code by which a device of MIOP is bound to an account.
pub const PUSH_CODE_CHARS: usize = 8;

/// Longest address of a push service elsewhere, bytes.
pub const PUSH_SERVICE_BYTES_MAX: usize = 192;

/// Longest name of a registration at such a service, bytes: its address, and a node there.
pub const PUSH_SERVICE_NAME_BYTES_MAX: usize = PUSH_SERVICE_BYTES_MAX + 1 + PUSH_NAME_BYTES_MAX;

/// Most values that such a service is to be given back with each push.
pub const PUSH_OPTIONS_MAX: usize = 16;

/// Bytes of these, with their names.
pub const PUSH_OPTIONS_BYTES_MAX: usize = 2_048;

/// Most registrations that any configuration may allow an account.
pub const PUSH_REGISTRATIONS_HARD_MAX: u8 = 64;

/// Way to a device that is not connected.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encoding)]
#[encoding(Gateway = 0, Miop = 1, Service = 2)]
pub enum PushRoute {
    /// Through the operator's gateway.
    Gateway {
        /// The application, by the operator's name for it; 1 to [`PUSH_APP_BYTES_MAX`] bytes.
        app: Box<str>,
        /// Token of the device at the gateway; 1 to [`PUSH_TOKEN_BYTES_MAX`] bytes.
        token: Box<str>,
    },
    /// Through Holdline's own pushes.
    Miop {
        /// The product.
        product: ProductKey,
        /// The device.
        device: DeviceId,
    },
    /// Through a push service elsewhere (XEP-0357).
    Service(Box<PushService>),
}

/// Push service of XMPP that another server, or a component, has; and what it knows a device by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encoding)]
pub struct PushService {
    /// Its address; 1 to [`PUSH_SERVICE_BYTES_MAX`] bytes, none of them a space.
    pub address: Box<str>,
    /// The node that stands for the device there; 1 to [`PUSH_NAME_BYTES_MAX`] bytes.
    pub node: Box<str>,
    /// Named values that the service gets back with each push: at most [`PUSH_OPTIONS_MAX`], of
    /// [`PUSH_OPTIONS_BYTES_MAX`] bytes together. A name with several values stands here once for
    /// each.
    pub options: Vec<(Box<str>, Box<str>)>,
}

impl PushService {
    /// One, if it is within bounds.
    pub fn new(
        address: &str,
        node: &str,
        options: Vec<(Box<str>, Box<str>)>,
    ) -> Option<PushService> {
        let bytes: usize = options.iter().map(|(name, value)| name.len() + value.len()).sum();
        let is_address = is_short(address, PUSH_SERVICE_BYTES_MAX) && !address.contains(' ');
        let may = is_address
            && is_short(node, PUSH_NAME_BYTES_MAX)
            && options.len() <= PUSH_OPTIONS_MAX
            && bytes <= PUSH_OPTIONS_BYTES_MAX;
        may.then(|| PushService { address: address.into(), node: node.into(), options })
    }

    /// The name of a registration there: no other one's within its account.
    pub fn name(&self) -> Box<str> {
        format!("{} {}", self.address, self.node).into()
    }

    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let options = self.options.iter().map(|(name, value)| name.len() + value.len() + 32);
        size_of::<PushService>() + self.address.len() + self.node.len() + options.sum::<usize>()
    }
}

/// Whether a text has any bytes, at most so many, and none that nobody sees.
fn is_short(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && !text.chars().any(char::is_control)
}

impl PushRoute {
    /// The way through the gateway, if its words are allowed.
    pub fn gateway(app: &str, token: &str) -> Option<PushRoute> {
        let may = is_short(app, PUSH_APP_BYTES_MAX) && is_short(token, PUSH_TOKEN_BYTES_MAX);
        may.then(|| PushRoute::Gateway { app: app.into(), token: token.into() })
    }

    /// The way to a device of MIOP, if there may be one of these names.
    pub fn miop(product: &str, device: &str) -> Option<PushRoute> {
        let (product, device) = (ProductKey::parse(product).ok()?, DeviceId::parse(device).ok()?);
        Some(PushRoute::Miop { product, device })
    }

    /// Whether it leads to the same device; what a service is given back makes no difference.
    pub fn leads_where(&self, other: &PushRoute) -> bool {
        match (self, other) {
            (PushRoute::Service(one), PushRoute::Service(other)) => {
                (&one.address, &one.node) == (&other.address, &other.node)
            }
            _ => self == other,
        }
    }

    /// The longest name that a registration of this way may have, bytes.
    pub fn name_bytes_max(&self) -> usize {
        match self {
            PushRoute::Gateway { .. } | PushRoute::Miop { .. } => PUSH_NAME_BYTES_MAX,
            PushRoute::Service(_) => PUSH_SERVICE_NAME_BYTES_MAX,
        }
    }
}

/// Registration of a device that wants to be woken.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct PushRegistration {
    /// Names it within its account.
    pub name: Box<str>,
    /// The device of the account that made it: it is not woken while it is connected.
    pub device: Box<str>,
    /// The way to it.
    pub route: PushRoute,
}

/// Hours of the day in which nothing makes a sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
pub struct QuietHours {
    /// Minute of the day at which they begin.
    pub from_min: u16,
    /// Minute of the day at which they end; before the beginning: on the next day.
    pub to_min: u16,
    /// How much later than UTC the account's clock is, minutes.
    pub offset_min: i16,
}

/// Minutes of a day.
const DAY_MIN: i64 = 24 * 60;

/// Furthest that a clock is from UTC, minutes.
const OFFSET_MIN_MAX: u16 = 14 * 60;

impl QuietHours {
    /// Quiet hours of these values; `None` if they exceed a day or are empty, or if no time zone
    /// has this offset.
    pub fn of(from_min: u16, to_min: u16, offset_min: i16) -> Option<QuietHours> {
        let may = i64::from(from_min.max(to_min)) < DAY_MIN
            && from_min != to_min
            && offset_min.unsigned_abs() <= OFFSET_MIN_MAX;
        may.then_some(QuietHours { from_min, to_min, offset_min })
    }

    /// Whether they hold at this Unix second.
    pub fn hold(&self, unix_s: u32) -> bool {
        let minute = (i64::from(unix_s) / 60 + i64::from(self.offset_min)).rem_euclid(DAY_MIN);
        let (from, to) = (i64::from(self.from_min), i64::from(self.to_min));
        if from < to { (from..to).contains(&minute) } else { minute >= from || minute < to }
    }
}

/// Wish about the pushes of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushWish {
    /// Wake this device so. Answered by `Done`, or, of a device of MIOP without a code, by
    /// `PushCode`: the code is pushed to that device, and shows that both are of one person.
    Register {
        /// Names the registration; absent: as the device that asks is named. One of the same name
        /// is replaced.
        name: Option<Box<str>>,
        /// The way to it.
        route: PushRoute,
        /// The code that was pushed to a device of MIOP.
        code: Option<Box<str>>,
        /// Whether other accounts that have registered the same device keep it. Else it is theirs
        /// no more: the account that registers a device last has it.
        shared: bool,
    },
    /// Wake it no longer. Answered by `Done`, also if there is no such registration.
    Remove {
        /// The registration; absent: that of the device that asks; empty: all of them.
        name: Option<Box<str>>,
    },
    /// Wake nothing any more by a push service, or by one node of it (XEP-0357 6). Answered by
    /// `Done`, also if nothing is.
    Disable {
        /// The address of a service elsewhere; absent: all that goes through none.
        service: Option<Box<str>>,
        /// The node; absent: all of them.
        node: Option<Box<str>>,
    },
    /// Asks for the registrations. Answered by `PushStatus`.
    Show,
    /// Be quiet in these hours; none: in no hours. Answered by `Done`.
    Quiet(Option<QuietHours>),
}

/// Registrations of an account, and its quiet hours.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct PushStatus {
    /// Number of the request.
    pub number: u32,
    /// The registrations, by name.
    pub registrations: Vec<PushRegistration>,
    /// When it is quiet.
    pub quiet: Option<QuietHours>,
}

/// Loudness of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loudness {
    /// The device makes a sound.
    High,
    /// The device shows the notification silently.
    Low,
    /// Only the number of unread messages is to be shown.
    Badge,
}

impl Loudness {
    /// The word in requests.
    pub const fn name(self) -> &'static str {
        match self {
            Loudness::High => "high",
            Loudness::Low => "low",
            Loudness::Badge => "badge",
        }
    }
}

/// Notification to a device that is away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// The account whose device it is.
    pub account: AccountAddress,
    /// How much of a noise it makes.
    pub loudness: Loudness,
    /// Unread messages of the account.
    pub badge: u32,
    /// New messages; none: only the badge has changed.
    pub said: Option<NotifiedMessage>,
}

/// New messages of a conversation, as far as they may be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifiedMessage {
    /// Names the conversation to devices of its account: a later notification of the same name
    /// takes the place of this one.
    pub collapse: Box<str>,
    /// The other side of the conversation, if it may be shown.
    pub conversation: Option<AccountAddress>,
    /// Sender, if that may be shown.
    pub sender: Option<AccountAddress>,
    /// The beginning of the text, if it may be shown.
    pub text: Option<Box<str>>,
    /// The server's number for the message; 0: not told.
    pub id: u64,
    /// Its place in the conversation.
    pub seq: Seq,
    /// How many have come there that were not told of.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_hold_from_their_beginning_to_their_end_by_the_accounts_clock() {
        let at = |hour: u32, minute: u32| hour * 3_600 + minute * 60 + 59;
        let day = QuietHours::of(9 * 60, 17 * 60, 0).expect("a day");
        let holds = [at(8, 59), at(9, 0), at(16, 59), at(17, 0)].map(|at| day.hold(at));
        assert_eq!(holds, [false, true, true, false]);
        let night = QuietHours::of(22 * 60, 7 * 60, 120).expect("a night");
        let holds = [at(19, 59), at(20, 0), at(4, 59), at(5, 0)].map(|at| night.hold(at));
        assert_eq!(holds, [false, true, true, false]);
        let west = QuietHours::of(0, 60, -60).expect("an hour");
        assert_eq!([at(0, 30), at(1, 30)].map(|at| west.hold(at)), [false, true]);
    }

    #[test]
    fn hours_that_nobody_has_are_none() {
        assert_eq!(QuietHours::of(60, 60, 0), None);
        assert_eq!(QuietHours::of(1_440, 60, 0), None);
        assert_eq!(QuietHours::of(0, 1_440, 0), None);
        assert_eq!(QuietHours::of(0, 1, 841), None);
        assert!(QuietHours::of(0, 1, -840).is_some());
    }

    #[test]
    fn a_way_that_no_gateway_can_be_told_is_none() {
        assert!(PushRoute::gateway("app", "token").is_some());
        assert_eq!(PushRoute::gateway("", "token"), None);
        assert_eq!(PushRoute::gateway("app", ""), None);
        assert_eq!(PushRoute::gateway("app", "a\nb"), None);
        assert_eq!(PushRoute::gateway(&"a".repeat(PUSH_APP_BYTES_MAX + 1), "t"), None);
        assert_eq!(PushRoute::gateway("a", &"t".repeat(PUSH_TOKEN_BYTES_MAX + 1)), None);
        assert_eq!(PushRoute::miop("shop", ""), None);
        assert!(PushRoute::miop("shop", "phone").is_some());
    }

    #[test]
    fn a_service_elsewhere_is_within_its_bounds_or_none() {
        let option = |bytes| vec![("secret".into(), "x".repeat(bytes).into())];
        let of = |address: &str, node: &str, options| PushService::new(address, node, options);
        let it = of("push.example", "a node", option(8)).expect("allowed");
        assert_eq!(&*it.name(), "push.example a node");
        assert!(of("p", "n", option(PUSH_OPTIONS_BYTES_MAX - 6)).is_some());
        assert_eq!(of("p", "n", option(PUSH_OPTIONS_BYTES_MAX - 5)), None);
        let many = |count| vec![("".into(), "".into()); count];
        assert!(of("p", "n", many(PUSH_OPTIONS_MAX)).is_some());
        assert_eq!(of("p", "n", many(PUSH_OPTIONS_MAX + 1)), None);
        for (address, node) in [("", "n"), ("p", ""), ("p/a b", "n"), ("p", "a\nb")] {
            assert_eq!(of(address, node, Vec::new()), None, "{address:?} {node:?}");
        }
        let (address, node) = (PUSH_SERVICE_BYTES_MAX, PUSH_NAME_BYTES_MAX);
        let long = |bytes| "x".repeat(bytes);
        let longest = of(&long(address), &long(node), Vec::new()).expect("allowed");
        assert_eq!(longest.name().len(), PUSH_SERVICE_NAME_BYTES_MAX);
        assert_eq!(of(&long(address + 1), "n", Vec::new()), None);
        assert_eq!(of("p", &long(node + 1), Vec::new()), None);
    }
}
