//! Port of notifications: orders of a service to notify devices that are not connected.
//!
//! An order is handed out and answered once, later, on the same shard. The carrier keeps nothing of
//! it beyond its answer: the service decides what is to be sent again.

use crate::chat::{Notification, PushService};
use crate::id::{DeviceId, ProductKey};
use crate::push::{PlatformToken, Push};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Receivers of a notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotificationTargets {
    /// Devices of one application, by what the gateway knows them by.
    Gateway {
        /// The application.
        app: Box<str>,
        /// The devices.
        tokens: Vec<Box<str>>,
    },
    /// Devices of MIOP.
    Miop {
        /// Their product.
        product: ProductKey,
        /// The devices.
        devices: Vec<DeviceId>,
    },
    /// A device that a push service elsewhere knows.
    Service(Box<PushService>),
    /// A device of MIOP, at its platform's push service.
    Platform(Arc<PlatformToken>, Withdrawal),
}

/// Whether an order is still wanted, shared by who gave it and its carrier. A carrier that has not
/// sent it yet answers [`Notified::Later`].
#[derive(Clone, Debug, Default)]
pub struct Withdrawal(Arc<AtomicBool>);

impl Withdrawal {
    /// Withdraws the order.
    pub fn withdraw(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was withdrawn.
    pub fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PartialEq for Withdrawal {
    fn eq(&self, other: &Withdrawal) -> bool {
        self.is_withdrawn() == other.is_withdrawn()
    }
}

impl Eq for Withdrawal {}

/// Content of a notification order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotificationWhat {
    /// A notification of new messages.
    Notification(Notification),
    /// The code by which a device of MIOP is bound to an account.
    Code(Box<str>),
    /// A push for this device.
    Push(DeviceId, Arc<Push>),
}

/// Order to tell devices something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotificationOrder {
    /// Receivers.
    pub targets: NotificationTargets,
    /// The content.
    pub what: NotificationWhat,
}

impl NotificationOrder {
    /// Approximate memory, bytes.
    pub fn weight(&self) -> usize {
        let targets = match &self.targets {
            NotificationTargets::Gateway { app, tokens } => {
                app.len() + tokens.iter().map(|token| token.len() + 16).sum::<usize>()
            }
            NotificationTargets::Miop { devices, .. } => 128 * (1 + devices.len()),
            NotificationTargets::Service(service) => service.weight(),
            NotificationTargets::Platform(it, _) => it.platform.len() + it.token.len(),
        };
        let what = match &self.what {
            NotificationWhat::Code(code) => code.len(),
            NotificationWhat::Push(_, push) => push.weight(),
            NotificationWhat::Notification(it) => {
                let said = it.said.as_ref();
                let text = said.and_then(|said| said.text.as_ref()).map_or(0, |text| text.len());
                let names = said.and_then(|said| said.conversation.as_ref());
                text + names.map_or(0, |name| 2 * name.as_str().len()) + 128
            }
        };
        size_of::<NotificationOrder>() + targets + what
    }
}

/// Result of an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notified {
    /// The gateway accepted the order. `gone` lists devices, by token or name, that will never
    /// accept a notification again.
    Taken {
        /// Tokens or names of devices that no longer accept notifications.
        gone: Vec<Box<str>>,
    },
    /// The gateway asks to retry, and to send it nothing before this time has passed.
    Later {
        /// Milliseconds.
        rest_ms: u32,
    },
    /// The platform rests: it takes no order of any device before this time has passed.
    Resting {
        /// Milliseconds.
        rest_ms: u32,
    },
    /// The carrier cannot deliver now: retry. If it never can, the device gets no more
    /// notifications.
    Failing,
    /// The gateway refused the order for good.
    Refused,
}
