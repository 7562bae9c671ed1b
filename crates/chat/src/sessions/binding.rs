//! Sessions that get their name after the login (XMPP resource binding), and the one cursor in the
//! inbox that all such devices of an account share: a client may invent a new name each time, so
//! cursors of their own would be one for every login that ever was.

use super::{Chat, Effects, SessionRef};
use base::time::Now;
use model::chat::{ChatDelivery, DEVICE_NAME_BYTES_MAX};
use model::close::CloseReason;
use model::id::ConnRef;
use model::session::Denial;

impl Chat {
    /// Names a session. Another session of the account with this name ends.
    pub(crate) fn bind(
        &mut self,
        now: Now,
        from: ConnRef,
        session: SessionRef,
        device: Option<Box<str>>,
        fx: &mut Effects,
    ) {
        let Some(key) = self.sessions.bound(from, session) else { return };
        let made_up = || {
            let (bits, at) = (session.bits().to_be_bytes(), now.mono.nanos().to_be_bytes());
            format!("{:016x}", self.settings.home.of(&[b"name", &bits, &at])).into_boxed_str()
        };
        let device = device.filter(|it| (1..=DEVICE_NAME_BYTES_MAX).contains(&it.len()));
        let device = device.unwrap_or_else(made_up);
        let Some(own) = self.sessions.slab.at_mut(key) else { return };
        own.device = device.clone();
        let inbox = own.inbox;
        let others = self.sessions.online.get(&inbox).map(|online| online.sessions.clone());
        let same = others.into_iter().flatten().find(|&other| {
            let named = self.sessions.slab.at(other).is_some_and(|it| it.device == device);
            other != key && named
        });
        if let Some(other) = same {
            self.end(other, (Denial::TakenOver, CloseReason::Replaced), fx);
        }
        self.answer_session((from, session), ChatDelivery::Bound { device }, fx);
    }

    /// Handles a request for a device's position in its account's inbox.
    pub(crate) fn standing(
        &mut self,
        from: ConnRef,
        (session, number): (SessionRef, u32),
        fx: &mut Effects,
    ) {
        let key = self.sessions.bound(from, session);
        let Some(own) = key.and_then(|key| self.sessions.slab.at(key)) else { return };
        let Some(online) = self.sessions.online.get(&own.inbox) else { return };
        let cursor = if own.binds { online.shared } else { own.acked };
        let standing = ChatDelivery::Standing { number, cursor, head: online.head };
        self.answer_session((from, session), standing, fx);
    }
}
