//! Notifications for devices that are not connected, on their way out, and the answers on their way
//! back.
//!
//! Invariant: an order that was taken is answered by one mail to the service that gave it.

use super::storage::insist;
use super::{ServerOutside, StartError, random_word};
use crate::clock;
use crate::config::Config;
use crate::shard_logic::Mail;
use crate::switchboard::Mailboxes;
use admin::{Platforms, PushGateway, PushGatewaySettings};
use federation::WayOut;
use model::id::ShardId;
use model::ports::control::Control;
use model::ports::notifications::{NotificationOrder, NotificationTargets, Notified};
use model::ports::requests::PortReply;
use model::service::ServiceKind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn wall_ms() -> admin::WallClock {
    Arc::new(clock::wall_ms)
}

/// The way out for the shards of a server.
#[derive(Clone)]
pub(super) struct Notices {
    pub(super) gateway: Arc<PushGateway>,
    pub(super) platforms: Arc<Platforms>,
    boxes: Mailboxes<ServerOutside>,
    /// Whether the mailboxes are no longer read.
    over: Arc<AtomicBool>,
}

impl Notices {
    /// With the gateway of the configuration, to which nothing is posted yet.
    pub(super) fn new(
        config: &Config,
        (boxes, over): (&Mailboxes<ServerOutside>, Arc<AtomicBool>),
    ) -> Result<Notices, StartError> {
        let gateway = PushGateway::new(PushGatewaySettings {
            url: config.push.gateway.clone(),
            secret: config.push.secret.reveal().as_bytes().to_vec(),
            proxied: config.push.proxy_from_environment,
            limits: config.limits.notifications.clone(),
            wall_ms: wall_ms(),
            seed: random_word()?,
        });
        let (settings, seed) = (config.platforms.iter().map(|it| it.settings()), random_word()?);
        let platforms = settings
            .collect::<Result<_, _>>()
            .and_then(|settings| Platforms::new(settings, &wall_ms(), seed))
            .map_err(StartError)?;
        Ok(Notices { gateway, platforms, boxes: boxes.clone(), over })
    }

    /// Starts to send: shards are there to be asked.
    pub(super) fn begin(&self, control: Arc<dyn Control>) -> std::io::Result<()> {
        self.gateway.begin(control)?;
        self.platforms.begin()
    }

    /// Ends: orders that wait are put off.
    pub(super) fn end(&self) {
        self.gateway.end();
        self.platforms.end();
    }

    /// Hands an order of a service over, of which some go the way to other domains; or says at once
    /// why not.
    pub(super) fn hand_over(
        &self,
        (service, shard): (ServiceKind, ShardId),
        number: u64,
        order: Box<NotificationOrder>,
        way_out: Option<&WayOut>,
    ) -> Result<(), Notified> {
        let (boxes, over) = (self.boxes.clone(), self.over.clone());
        let reply = move |what| {
            insist(&boxes, shard, Mail::PortReply(service, number, PortReply::Notify(what)), &over);
        };
        match (&order.targets, way_out) {
            (NotificationTargets::Platform(..), _) => self.platforms.offer(order, Box::new(reply)),
            (NotificationTargets::Service(_), Some(way)) => way.notify(order, Box::new(reply)),
            _ => self.gateway.offer(order, Box::new(reply)),
        }
    }
}
