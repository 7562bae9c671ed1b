//! Wishes of onlookers: more clients, another rate, a cut, a pause, the end.
//!
//! Every wish becomes a note, so that the report shows what was changed by hand. The invariant: no
//! wish takes a run beyond what a plan may ask for.

use super::{End, Runner};
use crate::run::check::{CLIENTS_MAX, RATE_MAX};
use crate::run::watch::WISHES_MAX;
use lab::order::OnlookerRequest;
use lab::order::Order;
use lab::plan::Pace;

/// Allowed factors of a rate in one wish.
const FACTORS: (f64, f64) = (0.01, 100.0);

impl Runner<'_> {
    /// Carries out what is wished.
    pub(super) fn wishes(&mut self) {
        let wishes = self.parts.watch.wishes();
        if wishes.len() > WISHES_MAX {
            let left = wishes.len() - WISHES_MAX;
            self.note(format!("by hand: {left} commands at the same time were too many"));
        }
        for wish in wishes.into_iter().take(WISHES_MAX) {
            match wish {
                OnlookerRequest::Add { group, clients } => self.add(&group, clients),
                OnlookerRequest::Rate { group, factor } => self.rate(&group, factor),
                OnlookerRequest::Cut { share, how } => {
                    let share = share.clamp(0.0, 1.0);
                    let word =
                        match self.parts.generator.order(&Order::Cut { group: None, share, how }) {
                            Ok(()) => String::new(),
                            Err(why) => format!(" (refused: {why})"),
                        };
                    self.note(format!(
                        "by hand: {:.1} % of all links {how:?}{word}",
                        share * 100.0
                    ));
                }
                OnlookerRequest::Pause => {
                    self.paused = !self.paused;
                    self.note(if self.paused { "by hand: paused" } else { "by hand: continued" });
                    self.send_all(!self.paused);
                }
                OnlookerRequest::Quit { now } => {
                    self.end.get_or_insert(End::Wished { now });
                }
            }
        }
    }

    fn add(&mut self, group: &str, clients: u32) {
        let first = self.plan.groups.first().map(|group| group.name.clone()).unwrap_or_default();
        let group = if group.is_empty() { first } else { group.to_owned() };
        let all: u64 = self.wanted.values().map(|count| u64::from(*count)).sum();
        if all + u64::from(clients) > CLIENTS_MAX {
            return self.note(format!("by hand: {clients} more clients would be too many"));
        }
        let wanted = self.wanted.get(&group).copied().unwrap_or(0).saturating_add(clients);
        let arrival = self.planned().arrive;
        let order = Order::Arrive { group: group.clone(), clients: wanted, arrival };
        match self.parts.generator.order(&order) {
            Ok(()) => {
                self.note(format!("by hand: {clients} more clients of {group}, {wanted} in all"));
                self.wanted.insert(group, wanted);
            }
            Err(why) => self.note(format!("by hand: no more clients of {group}: {why}")),
        }
    }

    fn rate(&mut self, group: &str, factor: f64) {
        if !factor.is_finite() {
            return;
        }
        let factor = factor.clamp(FACTORS.0, FACTORS.1);
        let groups = self.traffic.iter_mut();
        for (_, traffic) in groups.filter(|(name, _)| group.is_empty() || *name == group) {
            for sent in traffic {
                match &mut sent.pace {
                    Pace::PerS(per_s) => *per_s = (*per_s * factor).min(RATE_MAX),
                    Pace::Wave { low, high, .. } => {
                        *low = (*low * factor).min(RATE_MAX);
                        *high = (*high * factor).min(RATE_MAX);
                    }
                    Pace::Every(every) => every.0 = every.0.div_f64(factor),
                    Pace::Window(window) => {
                        *window = (f64::from(*window) * factor).round().clamp(1.0, 65_535.0) as u16;
                    }
                }
            }
        }
        let whose = if group.is_empty() { "all groups" } else { group };
        self.note(format!("by hand: rates of {whose} times {factor}"));
        if !self.paused && self.part == crate::run::StagePart::Holding {
            self.send_all(true);
        }
    }
}
