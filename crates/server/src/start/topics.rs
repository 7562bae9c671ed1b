//! Settings of topics, sessions and access: configuration's words become the crates'.
//!
//! One of each a process: the summary of subscriptions, the entrance, moderation. Invariant: doors
//! of access and listeners of `net` have the same numbers.

use super::storage::{Storage, insist};
use super::{Seeds, ServerOutside, StartError, doors};
use crate::access::{BanSettings, Entrance, LogWay, OrderWays, Outbound, Settings};
use crate::config::{self, Config, ListenSection};
use crate::shard_logic::Mail;
use crate::switchboard::Mailboxes;
use crate::switchboard::moderation::Moderation;
use broker::rewrite::{AutoSubscribes, Rewrites};
use broker::{Broker, Exclusives, routes::RouteSummary};
use guard::ListenerPolicy;
use model::id::ShardId;
use model::ports::control::Control;
use model::ports::log::Party;
use model::ports::requests::PortReply;
use net::shard::ShardMessage;
use std::sync::{Arc, Mutex, OnceLock};

/// Parts that the brokers of all shards have in common.
pub(super) struct Topics {
    pub(super) entrance: Arc<Entrance>,
    summary: OnceLock<Arc<RouteSummary>>,
    exclusives: Arc<Exclusives>,
    rewrites: Option<Arc<Rewrites>>,
    auto_subscribes: Option<Arc<AutoSubscribes>>,
    /// Listeners whose clients are devices of accounts.
    chat_domain: Option<Arc<str>>,
    /// Of chat.
    pub(super) moderation: Arc<Moderation>,
}

impl Topics {
    /// Reads the files of access.
    pub(super) fn new(config: &Config, seed: [u8; 32]) -> Result<Topics, StartError> {
        let entrance = Entrance::new(access_settings(config, &doors::all_served(config)), seed)
            .map_err(StartError)?;
        let mqtt = &config.mqtt;
        let rules: Vec<_> = mqtt.rewrites.iter().map(config::Rewrite::rule).collect();
        let wishes: Vec<_> =
            mqtt.auto_subscribes.iter().map(config::AutoSubscribeSection::wish).collect();
        let rewrites = (!rules.is_empty()).then(|| Rewrites::new(rules)).transpose();
        let subscribes = (!wishes.is_empty()).then(|| AutoSubscribes::new(wishes)).transpose();
        Ok(Topics {
            entrance,
            summary: OnceLock::new(),
            exclusives: Arc::new(Exclusives::default()),
            rewrites: rewrites.map_err(StartError)?.map(Arc::new),
            chat_domain: config.chat.mqtt.then(|| config.chat.domain.as_str().into()),
            auto_subscribes: subscribes.map_err(StartError)?.map(Arc::new),
            moderation: Arc::new(Moderation::new(config).map_err(StartError)?),
        })
    }

    /// The broker of a shard.
    pub(super) fn broker(&self, seeds: &Seeds, shard: ShardId) -> Broker {
        let (shards, routes) = (seeds.count as u16, seeds.secrets.cluster.key("routes"));
        Broker::new(broker::Settings {
            shard,
            shards,
            limits: seeds.limits.clone(),
            hash_key: seeds.hash_key,
            home: seeds.home,
            access: self.entrance.access(),
            summary: self.summary.get_or_init(|| RouteSummary::new(shards, routes)).clone(),
            exclusives: self.exclusives.clone(),
            rewrites: self.rewrites.clone(),
            auto_subscribes: self.auto_subscribes.clone(),
            chat_domain: self.chat_domain.clone(),
            seed: seeds.seed ^ u64::from(shard.0),
            secrets: seeds.client_ids[usize::from(shard.0)],
            lead_proof: seeds.lead_proof.clone(),
        })
    }

    /// Logs and mailboxes are there: questions may be asked.
    pub(super) fn begin(
        &self,
        seeds: &Seeds,
        storage: &Arc<Storage>,
        boxes: &Mailboxes<ServerOutside>,
    ) -> Result<(), StartError> {
        self.moderation.begin::<ServerOutside>(boxes).map_err(StartError)?;
        let (logs, boxes, over) = (storage.logs.clone(), boxes.clone(), storage.over.clone());
        let woken = boxes.clone();
        let outbound = Outbound {
            logs: LogWay {
                submit: Box::new(move |log, calls| logs.submit(Party::Users, log, calls).is_ok()),
                home: seeds.home,
                shards: seeds.count as u16,
                node: seeds.node,
            },
            tell: Box::new(move |(service, shard), number, admission| {
                insist(
                    &boxes,
                    shard,
                    Mail::PortReply(service, number, PortReply::Access(admission)),
                    &over,
                );
            }),
            wake: Box::new(move || {
                for mailbox in woken.iter() {
                    // One that is full has its shard turn anyway.
                    let _ = mailbox.put(ShardMessage::Mail(Mail::Attend));
                    mailbox.ring();
                }
            }),
        };
        self.entrance.begin(outbound).map_err(super::failed)
    }

    /// Shards answer by now: orders to the book may come from them.
    pub(super) fn take_orders(
        &self,
        config: &Config,
        (storage, boxes): (&Arc<Storage>, &Mailboxes<ServerOutside>),
        control: Arc<dyn Control>,
    ) -> Result<(), StartError> {
        let (boxes, over) = (boxes.clone(), storage.over.clone());
        let ways = OrderWays {
            tell: Box::new(move |(service, shard), number, answer| {
                insist(
                    &boxes,
                    shard,
                    Mail::PortReply(service, number, PortReply::Book(answer)),
                    &over,
                );
            }),
            control,
            limits: Mutex::new(config.limits.chat.clone()),
        };
        self.entrance.take_orders(ways).map_err(super::failed)
    }
}

/// Access settings, with these listeners.
pub(super) fn access_settings(config: &Config, listeners: &[ListenSection]) -> Settings {
    let (api, chat) = (&config.api, &config.chat);
    let named = [&api.viewers, &api.operators, &api.admins, &chat.administrators];
    Settings {
        administrators: named.into_iter().flatten().cloned().collect(),
        access: config.access.clone(),
        accounts: config.accounts.clone(),
        mysql: config.mysql.clone(),
        chat_domain: chat.domain.as_str().into(),
        bans: BanSettings {
            section: config.bans.clone(),
            proxies: config.listen.iter().flat_map(ListenSection::proxies).collect(),
        },
        doors: listeners.iter().map(door).collect(),
    }
}

fn door(listener: &ListenSection) -> ListenerPolicy {
    ListenerPolicy {
        anonymous: listener.anonymous,
        methods: listener.methods.clone(),
        believe_names: listener.believe_names,
    }
}
