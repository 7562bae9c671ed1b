//! What changes while a server runs: a reload of its configuration, and a drain.
//!
//! A reload reads the file, derives from it the configuration that is in force from then on
//! ([`Config::following`]: live keys are new, the others stay), and hands each part of the server
//! what is new for it. Limits reach a shard as one message, so that it changes them between two of
//! its acts: nothing is shared or locked on its way. Invariant: what is shown as in force
//! ([`ShownConfig`]) is in force, and whatever is not is in the answer.

pub(super) mod shown_config;

use super::bridges::{self, Inside};
use super::{ServerOutside, doors, fit_descriptors, folder, periodic, services, topics};
use crate::access::Entrance;
use crate::bridge::Bridges;
use crate::config::Config;
use crate::shard_logic::Mail;
use crate::switchboard::Switchboard;
use crate::switchboard::moderation::Moderation;
use admin::{ApiHandle, BridgeStatus, BridgeStatuses, DrainState, FailedChange, Reloaded};
use model::product::Product;
use model::{event, tell};
use net::layer::tls::TlsServer;
use proto_xmpp::server::Advertised;
use shown_config::{ShownConfig, changes};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The parts of a server that follow a reload.
pub(super) struct Live {
    pub(super) switchboard: Switchboard<ServerOutside>,
    pub(super) tls: Vec<(String, Arc<TlsServer>)>,
    pub(super) entrance: Arc<Entrance>,
    pub(super) moderation: Arc<Moderation>,
    pub(super) advertised: Arc<Advertised>,
    pub(super) inside: Option<Inside>,
    pub(super) bridges: Mutex<Bridges>,
    /// How those are that run.
    pub(super) bridge_statuses: Mutex<BridgeStatuses>,
    /// `[limits] memory_max`, for whoever watches it.
    pub(super) memory_max: Arc<AtomicU64>,
    pub(super) shown: ShownConfig,
    /// The API, once it is there.
    pub(super) api: OnceLock<ApiHandle>,
    /// The server stops: nobody ends that drain.
    pub(super) stops: AtomicBool,
    /// One reload at a time.
    pub(super) one: Mutex<()>,
}

impl Live {
    /// Reads the configuration again and applies it; an error says why nothing changed.
    pub(super) fn reload_file(&self) -> Result<Reloaded, String> {
        let read = self.shown.read().map_err(|error| format!("\n{error}"));
        let reloaded = read.and_then(|new| self.reload(new));
        if let Err(error) = &reloaded {
            tell!(event::CONFIGURATION_REFUSED, error);
        }
        reloaded.map_err(|error| error.trim_start().to_owned())
    }

    /// Applies what can change while the server runs, and logs what cannot. Files that the
    /// configuration names are read again in any case.
    pub(super) fn reload(&self, new: Config) -> Result<Reloaded, String> {
        let _one = lock(&self.one);
        let old = self.shown.in_force();
        let mut next = old.following(&new);
        next.limits.check().map_err(|rule| {
            format!("with the values that need a restart, {rule}: restart, or change both later")
        })?;
        let mut effective = next.clone();
        fit_descriptors(&mut effective).map_err(|error| error.to_string())?;
        let effective =
            self.inside.iter().fold(effective, |config, inside| inside.in_front_of(config));
        let mut failed = Failures::default();
        self.read_certificates(&mut failed);
        self.set_limits(&effective, &mut failed);
        self.set_products(&old, &next, &mut failed);
        self.set_access((&old, &new), &mut next, &mut failed);
        self.set_api(&next, &mut failed);
        self.set_words(&old, &mut next, &mut failed);
        self.set_bridges(&old, &mut next, &mut failed);
        let reloaded = Reloaded {
            applied: changes(old.diff(&next).live, true),
            needs_restart: changes(next.diff(&new).restart, false),
            failed: failed.0,
        };
        log_changes(&reloaded);
        // Behind what the level in force shows of the change.
        crate::log::change(&next.server.log);
        self.shown.set(next);
        for warning in &new.warnings {
            tell!(event::CONFIGURATION_WARNING, what = %warning);
        }
        Ok(reloaded)
    }

    fn read_certificates(&self, failed: &mut Failures) {
        for (name, tls) in &self.tls {
            match tls.reload() {
                Ok(()) => tell!(event::CERTIFICATES_READ, listener = name),
                Err(error) => {
                    tell!(event::CERTIFICATES_REFUSED, listener = name, %error);
                    failed.add(&format!("certificates of [listen.{name}]"), error);
                }
            }
        }
        periodic::certificates::warn(&self.tls);
    }

    fn set_limits(&self, effective: &Config, failed: &mut Failures) {
        let limits = Arc::new(effective.limits.clone());
        let profiles = doors::profiles(effective, &self.advertised);
        self.tell_shards(|| Mail::Configure(limits.clone(), profiles.clone()), "limits", failed);
        self.memory_max.store(limits.memory_max, Ordering::Relaxed);
        self.entrance.set_limits(&limits.chat);
        self.moderation.set_limits(&limits.chat);
        if let Some(api) = self.api.get() {
            api.set_limits(&limits);
        }
    }

    fn set_products(&self, old: &Config, next: &Config, failed: &mut Failures) {
        for product in &old.products {
            if !next.products.iter().any(|other| other.key == product.key) {
                // A typo must not cost what waits for its devices.
                let product = product.key.as_str();
                tell!(event::PRODUCT_UNCONFIGURED, product);
            }
        }
        let products: Vec<Arc<Product>> = next.products.iter().cloned().map(Arc::new).collect();
        self.tell_shards(|| Mail::Install(products.clone()), "[products]", failed);
    }

    fn tell_shards(&self, mail: impl Fn() -> Mail, what: &str, failed: &mut Failures) {
        if !self.switchboard.tell_all(mail) {
            tell!(event::RELOAD_UNHEARD);
            failed.add(what, "a shard is busy and keeps the old values: reload again");
        }
    }

    fn set_access(&self, (old, new): (&Config, &Config), next: &mut Config, failed: &mut Failures) {
        let mut asked = next.clone();
        // Those in force go on until the restart, and those of the file begin with it: neither name
        // may be had by anybody meanwhile.
        asked.chat.administrators.extend(new.chat.administrators.iter().cloned());
        let asked = self.inside.iter().fold(asked, |asked, inside| inside.in_front_of(asked));
        match self.entrance.reload(topics::access_settings(&asked)) {
            Ok(()) => tell!(event::ACCESS_READ),
            Err(error) => {
                tell!(event::ACCESS_REFUSED, error);
                failed.add("[access]", error);
                (next.access, next.bans) = (old.access.clone(), old.bans.clone());
            }
        }
    }

    fn set_api(&self, next: &Config, failed: &mut Failures) {
        let Some(api) = self.api.get() else { return };
        // Behind the users: passwords of a file count as they are now.
        api.set_roles(services::roles(next));
        match folder::api_token(next) {
            Ok((token, _)) if api.set_first_token(&token) => tell!(event::TOKEN_RESET),
            Ok(_) => {}
            Err(error) => failed.add("[api] token", error),
        }
    }

    fn set_words(&self, old: &Config, next: &mut Config, failed: &mut Failures) {
        match self.moderation.reload(&next.chat) {
            Ok(words) => tell!(event::WORDS_READ, words),
            Err(error) => {
                tell!(event::WORDS_REFUSED, error);
                failed.add("[chat] words_file", error);
                next.chat.words_file.clone_from(&old.chat.words_file);
            }
        }
    }

    /// Bridges that differ replace those that run: all of them connect anew.
    fn set_bridges(&self, old: &Config, next: &mut Config, failed: &mut Failures) {
        if old.bridges == next.bridges {
            return;
        }
        let is_any = next.bridges.iter().any(|bridge| bridge.enabled);
        let has_no_door = "the first bridge of a server needs a restart: it opens a socket for it";
        let no_door = (is_any && self.inside.is_none()).then(|| has_no_door.to_owned());
        let wrong = no_door.or_else(|| next.bridges.iter().find_map(bridges::unusable));
        let done = wrong.map_or_else(|| self.replace_bridges(next), Err);
        if let Err(error) = done {
            tell!(event::CHANGE_FAILED, key = "[bridge]", error);
            failed.add("[bridge]", error);
            next.bridges.clone_from(&old.bridges);
        }
    }

    /// Those of this configuration, or again those that ran.
    fn replace_bridges(&self, next: &Config) -> Result<(), String> {
        let mut running = lock(&self.bridges);
        running.stop();
        let started = bridges::start(self.inside.as_ref(), next);
        let (now, done) = match started {
            Ok(new) => (new, Ok(())),
            Err(error) => {
                let old = bridges::start(self.inside.as_ref(), &self.shown.in_force());
                (old.unwrap_or_default(), Err(error.to_string()))
            }
        };
        *lock(&self.bridge_statuses) = now.statuses();
        *running = now;
        done
    }

    /// How the bridges are.
    pub(super) fn bridge_status(&self) -> Vec<BridgeStatus> {
        let statuses = lock(&self.bridge_statuses).clone();
        statuses()
    }

    /// Lets the clients go and refuses new ones, or accepts them again. The server goes on.
    pub(super) fn drain(&self, draining: bool) -> DrainState {
        let drain_ms = self.shown.in_force().limits.drain_ms;
        let state = DrainState { draining, drain_ms };
        if self.stops.load(Ordering::Relaxed) {
            return DrainState { draining: true, ..state };
        }
        let changes = self.switchboard.set_draining(draining) != draining;
        // Once more for a shard that did not hear the first order.
        let over_ms = draining.then_some(drain_ms);
        if !self.switchboard.tell_all(|| Mail::Evacuate(over_ms)) {
            tell!(event::DRAIN_UNHEARD);
        }
        match draining {
            true if changes => tell!(event::DRAIN_BEGUN, ms = drain_ms),
            false if changes => tell!(event::DRAIN_ENDED),
            _ => {}
        }
        state
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log_changes(reloaded: &Reloaded) {
    for change in &reloaded.needs_restart {
        let admin::ConfigChange { key, old, new, .. } = change;
        tell!(event::KEY_NEEDS_RESTART, key, old, new);
    }
    for change in &reloaded.applied {
        let admin::ConfigChange { key, old, new, .. } = change;
        tell!(event::KEY_CHANGED, key, old, new);
    }
}

/// Parts that could not follow.
#[derive(Default)]
struct Failures(Vec<FailedChange>);

impl Failures {
    fn add(&mut self, what: &str, error: impl Display) {
        self.0.push(FailedChange { what: what.to_owned(), error: error.to_string() });
    }
}
