//! Bans on one shard: who is refused before its service is asked, and what rules count.
//!
//! Addresses are judged where connections come in, users and clients of topics and chat by access
//! control. Devices of MIOP are judged here, before the hub is asked. The outside knows who is
//! banned.

use super::outside::Outside;
use super::{Around, ServerLogic};
use base::time::Now;
use model::close::CloseReason;
use model::id::ConnRef;
use model::ports::bans::BanAct;
use model::presence::{OnlineState, Principal, Transition};
use model::request::{PushDelivery, PushRequest, Refusal, Refused};
use model::service::{Delivery, LoginRefusal, Request};
use net::ShardHandle;
use std::net::SocketAddr;

/// A device that wants to be let in, until its service has answered.
pub(super) struct Knock {
    conn: ConnRef,
    peer: SocketAddr,
    protocol: &'static str,
    device: Box<str>,
}

/// Ends that the server ordered: a client that has one does not flap.
const ORDERED: [CloseReason; 6] = [
    CloseReason::AdminKick,
    CloseReason::Banned,
    CloseReason::Draining,
    CloseReason::Redirected,
    CloseReason::ServerStopped,
    CloseReason::DeviceBlocked,
];

impl<O: Outside> ServerLogic<O> {
    /// Whether a request is a device's that is banned: then it is refused.
    pub(super) fn is_refused(
        &mut self,
        now: Now,
        from: ConnRef,
        request: &Request,
        handle: Option<&mut ShardHandle<Self>>,
    ) -> bool {
        let Request::Push(PushRequest::Bind(bind)) = request else { return false };
        let (device, around) = (bind.device.as_str(), &mut self.around);
        let address = bind.peer.map(|peer| peer.ip());
        if around.outside.is_banned(now, address, Some(device), BanAct::Refuses) {
            if let Some(handle) = handle {
                let refused = Box::new(Refused::of(bind, Refusal::Banned));
                let delivery = Delivery::Push(PushDelivery::Refused(refused));
                if let Some(refusal) = delivery.refusal() {
                    around.note_refusal(handle, from, &refusal);
                }
                handle.deliver(from, delivery);
            }
            return true;
        }
        // A failed login counts for its address. Those of this machine are never banned.
        let peer = bind.peer.filter(|_| !bind.from_loopback);
        around.knock = peer.map(|peer| Knock {
            conn: from,
            peer,
            protocol: bind.protocol,
            device: device.into(),
        });
        false
    }
}

impl<O: Outside> Around<O> {
    /// Logs a refused login, and notes it for the disconnection that follows.
    pub(super) fn note_refusal(
        &mut self,
        handle: &mut ShardHandle<ServerLogic<O>>,
        conn: ConnRef,
        refusal: &LoginRefusal<'_>,
    ) {
        handle.turned_away(conn, refusal.why, refusal.name);
        self.disconnections.refused(conn, refusal);
    }

    /// Handles a refusal: a device whose proof was wrong counts as a failed login.
    pub(super) fn heed_refusal(&mut self, now: Now, to: ConnRef, why: &str) {
        let Some(knock) = self.knock.take_if(|knock| knock.conn == to) else { return };
        if why == Refusal::AuthFailed.name() {
            let Knock { peer, protocol, device, .. } = knock;
            self.outside.login_failed(now, peer, protocol, &device);
        }
    }

    /// Handles a departure: a client that disconnects too often is banned by a rule.
    pub(super) fn heed_leaving(&mut self, now: Now, transition: &Transition) {
        let OnlineState::Offline(reason) = transition.state else { return };
        if ORDERED.contains(&reason) {
            return;
        }
        match &transition.who {
            Principal::Client(id) => self.outside.left(now, id),
            Principal::Device(_, device) => self.outside.left(now, device.as_str()),
        }
    }
}
