//! What is about topics, sessions and access: configuration's words become the crates'.
//!
//! One of each a process: the summary of subscriptions, the entrance. Invariant: doors of access
//! and listeners of `net` have the same numbers.

use super::storage::{Storage, insist};
use super::{Seeds, ServerOutside, StartError, doors};
use crate::access::{Entrance, HttpSettings, Outbound, Settings, TokenSettings};
use crate::config::{self, Config, ListenSection};
use crate::shard_logic::Mail;
use crate::switchboard::Mailboxes;
use broker::rewrite::{AutoSubscribes, Rewrites};
use broker::{Broker, Exclusives, routes::RouteSummary};
use guard::passwords::Hashing;
use guard::{CacheLimits, ListenerPolicy, SourceLimits};
use model::id::ShardId;
use model::ports::log::Party;
use std::sync::{Arc, OnceLock};

/// What the brokers of all shards have in common.
pub(super) struct Topics {
    pub(super) entrance: Arc<Entrance>,
    summary: OnceLock<Arc<RouteSummary>>,
    exclusives: Arc<Exclusives>,
    rewrites: Option<Arc<Rewrites>>,
    auto_subscribes: Option<Arc<AutoSubscribes>>,
}

impl Topics {
    /// Reads the files of access.
    pub(super) fn new(config: &Config, seed: [u8; 32]) -> Result<Topics, StartError> {
        let entrance = Entrance::new(access_settings(config), seed).map_err(StartError)?;
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
            auto_subscribes: subscribes.map_err(StartError)?.map(Arc::new),
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
            seed: seeds.seed ^ u64::from(shard.0),
        })
    }

    /// Logs and mailboxes are there: questions may be asked.
    pub(super) fn begin(
        &self,
        storage: &Arc<Storage>,
        boxes: &Mailboxes<ServerOutside>,
    ) -> Result<(), StartError> {
        let (logs, boxes, over) = (storage.logs.clone(), boxes.clone(), storage.over.clone());
        let outbound = Outbound {
            submit: Box::new(move |calls| logs.submit(Party::Users, 0, calls).is_ok()),
            tell: Box::new(move |(service, shard), number, admission| {
                insist(&boxes, shard, Mail::Admitted(service, number, admission), &over);
            }),
        };
        self.entrance.begin(outbound).map_err(super::failed)
    }
}

/// What the operator chose of who comes in.
pub(super) fn access_settings(config: &Config) -> Settings {
    let access = &config.access;
    let served = config.listen.iter().filter(|listener| doors::served(config, listener));
    Settings {
        password_file: access.password_file.clone(),
        acl_file: access.acl_file.clone(),
        superusers: access.superusers.clone(),
        client_ids: access.client_ids.clone(),
        allow_unmatched: access.allow_unmatched,
        doors: served.map(door).collect(),
        hashing: hashing(access),
        users_max: access.users_max,
        cache: CacheLimits {
            count_max: access.cache_count_max,
            positive_s: access.cache_s,
            negative_s: access.cache_refused_s,
        },
        token: access.token.is_set().then(|| token(&access.token)),
        http: (!access.http.url.is_empty()).then(|| http(&access.http)),
        threads: access.threads,
        ask_threads: access.ask_threads,
        waiting_max: access.waiting_max,
        waiting_a_source_max: access.waiting_a_source_max,
        sources: SourceLimits {
            failures_max: access.failures_a_source_max,
            sources_max: access.sources_max,
        },
    }
}

fn door(listener: &ListenSection) -> ListenerPolicy {
    ListenerPolicy {
        anonymous: listener.anonymous,
        methods: listener.methods.clone(),
        believe_names: listener.believe_names,
    }
}

/// How new passwords are kept.
fn hashing(access: &config::AccessSection) -> Hashing {
    let (scheme, cost) = (access.hash, access.hash_cost);
    Hashing { scheme, cost, scram_iterations: access.scram_iterations }
}

fn token(token: &config::Token) -> TokenSettings {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let equal = token.equal.iter().filter_map(|text| text.split_once('='));
    let secret = token.secret.reveal();
    TokenSettings {
        secret: (!secret.is_empty()).then(|| secret.as_bytes().to_vec()),
        key_files: token.key_files.iter().map(Into::into).collect(),
        jwks_url: some(&token.jwks_url),
        jwks_refresh_s: token.jwks_refresh_s,
        algorithms: token.algorithms.clone(),
        issuer: some(&token.issuer),
        audience: some(&token.audience),
        leeway_s: token.leeway_s,
        must_expire: token.must_expire,
        user_claim: token.user_claim.clone(),
        equal: equal.map(|(claim, value)| (claim.to_owned(), value.to_owned())).collect(),
        acl_claim: token.acl_claim.clone(),
    }
}

fn http(http: &config::Http) -> HttpSettings {
    let headers = http.headers.reveal().iter().filter_map(|text| text.split_once(':'));
    HttpSettings {
        url: http.url.clone(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect(),
        timeout_ms: http.timeout_ms,
        cache_s: http.cache_s,
    }
}
