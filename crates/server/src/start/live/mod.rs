//! Changes of a running server: a reload of its configuration, and a drain.
//!
//! A reload reads the file, derives from it the configuration that is in force from then on
//! ([`Config::following`]: live keys are new, the others stay), and hands each part of the server
//! what is new for it. Limits reach a shard as one message, so that it changes them between two of
//! its acts: nothing is shared or locked on its way. Invariant: what is shown as in force
//! ([`ShownConfig`]) is in force, and whatever is not is in the answer.

mod listener_draft;
pub(super) mod listeners;
pub(super) mod shown_config;
pub(super) mod webhooks;

use super::bridges::{self, Inside};
use super::storage::backups::Backups;
use super::{
    ServerOutside, StartError, doors, fit_descriptors, folder, periodic, services, topics,
};
use crate::access::Entrance;
use crate::bridge::Bridges;
use crate::config::{Changes, Config, ListenSection};
use crate::shard_logic::Mail;
use crate::switchboard::Switchboard;
use crate::switchboard::moderation::Moderation;
use admin::{
    ApiHandle, BridgeStatus, BridgeStatuses, CertificateStatus, DrainState, FailedChange,
    ReloadPreview, Reloaded,
};
use listeners::{ListenerPlan, Listeners};
use model::product::Product;
use model::{event, tell};
use proto_xmpp::server::Advertised;
use shown_config::{ShownConfig, changes};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use webhooks::ReportPlaces;

/// The parts of a server that follow a reload.
pub(super) struct Live {
    pub(super) switchboard: Switchboard<ServerOutside>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) entrance: Arc<Entrance>,
    pub(super) moderation: Arc<Moderation>,
    pub(super) advertised: Arc<Advertised>,
    pub(super) inside: Inside,
    pub(super) bridges: Mutex<Bridges>,
    pub(super) backups: Arc<Backups>,
    pub(super) reports: ReportPlaces,
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

    /// Reads the configuration and says what a reload would do.
    pub(super) fn preview_file(&self) -> Result<ReloadPreview, String> {
        self.shown.read().map(|new| self.preview(&new))
    }

    /// Preview of a reload. Files that the configuration names are read, and ports of new listeners
    /// are looked at.
    pub(super) fn preview(&self, new: &Config) -> ReloadPreview {
        let _one = lock(&self.one);
        let old = self.shown.in_force();
        let next = old.following(new);
        let mut problems: Vec<String> = goes_together(&next).err().into_iter().collect();
        problems.extend(super::unusable(new));
        match self.effective(&next) {
            Ok(effective) => problems.extend(self.listeners.problems(&effective)),
            Err(error) => problems.push(error),
        }
        let Changes { live, restart } = old.diff(new);
        ReloadPreview {
            file: file_of(new),
            changes: changes(live, true).into_iter().chain(changes(restart, false)).collect(),
            problems,
            warnings: warnings(new, &super::certificates(new)),
        }
    }

    /// Applies what can change while the server runs, and logs what cannot. Files that the
    /// configuration names are read again in any case.
    pub(super) fn reload(&self, new: Config) -> Result<Reloaded, String> {
        let _one = lock(&self.one);
        let old = self.shown.in_force();
        let mut next = old.following(&new);
        goes_together(&next)?;
        let mut failed = Failures::default();
        check_bridges(&old, &mut next, &mut failed);
        let mut effective = self.effective(&next)?;
        // What may fail without a change comes first.
        let mut plan = self.listeners.plan(&effective)?;
        self.read_certificates(&mut failed);
        if !self.set_access((&old, &new), &mut next, &plan.sections, &mut failed) {
            // Who may come in by a listener is a part of access.
            drop(plan);
            (next.listen, next.tls) = (old.listen.clone(), old.tls.clone());
            if old.bridges != next.bridges {
                keep_bridges(
                    "unchanged, because [access] is".into(),
                    (&old, &mut next),
                    &mut failed,
                );
            }
            effective = self.effective(&next)?;
            plan = self.listeners.no_plan();
        }
        self.set_limits(&effective, plan, &mut failed);
        self.set_products(&old, &next, &mut failed);
        self.set_api(&next, &mut failed);
        self.set_words(&old, &mut next, &mut failed);
        self.set_bridges(&old, &mut next, &mut failed);
        self.set_backups(&old, &mut next, &mut failed);
        self.set_webhooks(&old, &mut next, &mut failed);
        tell_of_federation(&old, &next, &mut failed);
        let tls = self.listeners.tls();
        periodic::certificates::warn(&tls);
        let reloaded = Reloaded {
            file: file_of(&new),
            applied: changes(old.diff(&next).live, true),
            needs_restart: changes(next.diff(&new).restart, false),
            failed: failed.0,
            warnings: warnings(&new, &periodic::certificates::statuses(&tls)),
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

    /// A configuration as the server's parts take it: with connections that the descriptors allow,
    /// and with the listener of bridges.
    fn effective(&self, config: &Config) -> Result<Config, String> {
        let mut effective = config.clone();
        fit_descriptors(&mut effective).map_err(|error| error.to_string())?;
        Ok(self.inside.in_front_of(effective))
    }

    fn read_certificates(&self, failed: &mut Failures) {
        for (name, tls) in &self.listeners.tls() {
            match tls.reload() {
                Ok(()) => tell!(event::CERTIFICATES_READ, listener = name),
                Err(error) => {
                    tell!(event::CERTIFICATES_REFUSED, listener = name, %error);
                    failed.add(&format!("certificates of [listen.{name}]"), error);
                }
            }
        }
    }

    /// Limits and listeners.
    fn set_limits(&self, effective: &Config, plan: ListenerPlan<'_>, failed: &mut Failures) {
        let limits = Arc::new(effective.limits.clone());
        let profiles = doors::profiles(effective, &plan.sections, &self.advertised);
        self.tell_shards(|| Mail::Configure(limits.clone(), profiles.clone()), "limits", failed);
        self.memory_max.store(limits.memory_max, Ordering::Relaxed);
        self.entrance.set_limits(&limits.chat);
        self.moderation.set_limits(&limits.chat);
        if let Some(api) = self.api.get() {
            api.set_limits(&limits, &effective.api.limits);
        }
        crate::log::recent::set_max(effective.api.limits.log_lines_max as usize);
        self.listeners.set_limits(effective);
        for wrong in self.listeners.carry_out(plan, &profiles) {
            failed.add("[listen]", wrong);
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

    /// False: the old ones stay in force.
    fn set_access(
        &self,
        (old, new): (&Config, &Config),
        next: &mut Config,
        listeners: &[ListenSection],
        failed: &mut Failures,
    ) -> bool {
        let mut asked = next.clone();
        // Those in force go on until the restart, and those of the file begin with it: neither name
        // may be had by anybody meanwhile.
        asked.chat.administrators.extend(new.chat.administrators.iter().cloned());
        let asked = self.inside.in_front_of(asked);
        match self.entrance.reload(topics::access_settings(&asked, listeners)) {
            Ok(()) => tell!(event::ACCESS_READ),
            Err(error) => {
                tell!(event::ACCESS_REFUSED, error);
                failed.add("[access]", error);
                (next.access, next.bans) = (old.access.clone(), old.bans.clone());
                if old.listen != next.listen {
                    failed.add("[listen]", "unchanged, because [access] is");
                }
                return false;
            }
        }
        true
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

    /// Bridges that are new or differ begin or connect anew; the others are not touched.
    fn set_bridges(&self, old: &Config, next: &mut Config, failed: &mut Failures) {
        if old.bridges == next.bridges {
            return;
        }
        let mut running = lock(&self.bridges);
        let mut done = bridges::change(&mut running, &self.inside, next);
        if done.is_err() && bridges::change(&mut running, &self.inside, old).is_err() {
            // The first error says what there is to do about the second.
            done = done.map_err(|error| StartError(format!("{error}; a bridge has ended")));
        }
        *lock(&self.bridge_statuses) = running.statuses();
        if let Err(error) = done {
            keep_bridges(error.to_string(), (old, next), failed);
        }
    }

    fn set_backups(&self, old: &Config, next: &mut Config, failed: &mut Failures) {
        if old.backup == next.backup {
            return;
        }
        if let Err(error) = self.backups.change(&next.backup) {
            tell!(event::CHANGE_FAILED, key = "[backup]", %error);
            failed.add("[backup]", error);
            next.backup.clone_from(&old.backup);
        }
    }

    /// Webhooks begin, change and end; those that stay go on where they are.
    fn set_webhooks(&self, old: &Config, next: &mut Config, failed: &mut Failures) {
        let changed = old.webhooks != next.webhooks;
        let asked = self.api.get().filter(|_| changed);
        if let Some(Err(error)) = asked.map(|api| api.set_webhooks(services::webhooks(next))) {
            tell!(event::CHANGE_FAILED, key = "[[webhook]]", %error);
            failed.add("[[webhook]]", error);
            next.webhooks.clone_from(&old.webhooks);
            return;
        }
        if (changed || self.reports.is_behind())
            && let Err(error) = self.reports.set(next)
        {
            tell!(event::CHANGE_FAILED, key = "[[webhook]]", error);
            failed.add("[[webhook]]", error);
        }
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

/// Whether the limits of a reload go with those that need a restart.
fn goes_together(next: &Config) -> Result<(), String> {
    next.limits.check().map_err(|rule| {
        format!("with the values that need a restart, {rule}: restart, or change both later")
    })
}

fn file_of(config: &Config) -> Option<String> {
    config.file.as_ref().map(|file| file.display().to_string())
}

/// Warnings for the operator, a sentence each, as `holdline check` prints them.
fn warnings(config: &Config, certificates: &[CertificateStatus]) -> Vec<String> {
    let expiring = certificates.iter().filter_map(CertificateStatus::warning);
    config.warnings.iter().cloned().chain(expiring).collect()
}

/// Bridges whose files cannot be used are not begun, and those that run stay.
fn check_bridges(old: &Config, next: &mut Config, failed: &mut Failures) {
    let changed = old.bridges != next.bridges;
    if let Some(error) = next.bridges.iter().filter(|_| changed).find_map(bridges::unusable) {
        keep_bridges(error, (old, next), failed);
    }
}

fn keep_bridges(error: String, (old, next): (&Config, &mut Config), failed: &mut Failures) {
    tell!(event::CHANGE_FAILED, key = "[bridge]", error);
    failed.add("[bridge]", error);
    next.bridges.clone_from(&old.bridges);
}

/// Streams to other servers, whose certificate may be that of `[tls]`, keep theirs.
fn tell_of_federation(old: &Config, next: &Config, failed: &mut Failures) {
    let files = |config: &Config| (config.tls.certificate.clone(), config.tls.key.clone());
    let is_own = next.federation.certificate.is_some();
    if doors::foreign_domains(next).is_any() && !is_own && files(old) != files(next) {
        failed.add("[federation]", "streams to other servers use the old files until a restart");
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
