//! The suite: named cases, each one behaviour of the port, each in every way of getting there.
//!
//! A case is given in two halves: what happens, and what must be so afterwards. Between them the
//! store is left alone, restarted, killed, tidied or several of these, and what must be so is
//! looked at again: so every behaviour is tested across restarts and crashes without saying so.
//! Each run has a store of its own. A failure names the case and the way.

mod appends;
mod cursors;
mod limits;
mod once;
mod pages;
mod removals;
mod retention;
mod rosters;
mod rows;
mod trial;

use super::{KilledWork, LogOptions, Subject};
use trial::Trial;

/// One behaviour.
struct Case {
    /// The sentence it proves.
    name: &'static str,
    /// Options with which the store is made.
    options: fn() -> LogOptions,
    /// Calls of the first half.
    given: fn(&mut Trial<'_>),
    /// Checks of the second half: they must hold then, and still after the way. It may not change
    /// anything that it looks at.
    then: fn(&mut Trial<'_>),
}

/// Event of a store between the halves of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Nothing.
    AtOnce,
    /// The store is closed and opened.
    Restart,
    /// The store is killed.
    Crash,
    /// The store does its maintenance.
    Tidy,
    /// The store does its maintenance and is killed.
    TidyCrash,
    /// The store is killed, does its maintenance, is killed again and closed and opened.
    CrashTidyCrashRestart,
}

impl Way {
    /// Every way.
    pub const ALL: [Way; 6] = [
        Way::AtOnce,
        Way::Restart,
        Way::Crash,
        Way::Tidy,
        Way::TidyCrash,
        Way::CrashTidyCrashRestart,
    ];

    fn go(self, subject: &mut dyn Subject) {
        let now_s = subject.now_s();
        let tidy = |subject: &mut dyn Subject| subject.tidy(now_s + 1);
        let crash = |subject: &mut dyn Subject| {
            subject.crash(KilledWork::Nothing, 0);
        };
        match self {
            Way::AtOnce => {}
            Way::Restart => subject.restart(),
            Way::Crash => crash(subject),
            Way::Tidy => tidy(subject),
            Way::TidyCrash => {
                tidy(subject);
                crash(subject);
            }
            Way::CrashTidyCrashRestart => {
                crash(subject);
                tidy(subject);
                crash(subject);
                subject.restart();
            }
        }
    }
}

/// Holds stores to every case in every way. `make` makes an empty one.
///
/// # Panics
/// At the first that is not as it must be, with the case, the way and what was found.
pub fn suite(make: &mut dyn FnMut(LogOptions) -> Box<dyn Subject>) {
    suite_in(&Way::ALL, make);
}

/// Holds stores to every case in these ways.
///
/// # Panics
/// As [`suite`].
pub fn suite_in(ways: &[Way], make: &mut dyn FnMut(LogOptions) -> Box<dyn Subject>) {
    let tidies = make(LogOptions::default()).can_end_tidy();
    for case in cases(tidies) {
        for &way in ways {
            let mut subject = make((case.options)());
            let mut trial = Trial::new(subject.as_mut(), case.name, None);
            (case.given)(&mut trial);
            (case.then)(&mut trial);
            let mut trial = Trial::new(subject.as_mut(), case.name, Some(way));
            trial.go(way);
            (case.then)(&mut trial);
        }
    }
}

/// All cases, or those that do not need the end of maintenance.
fn cases(tidies: bool) -> impl Iterator<Item = &'static Case> {
    let always = [
        appends::CASES,
        pages::CASES,
        removals::CASES,
        cursors::CASES,
        rows::CASES,
        rosters::CASES,
        once::CASES,
        limits::CASES,
    ];
    let tidied = [removals::TIDIED, rosters::TIDIED, limits::TIDIED, retention::TIDIED];
    let tidied = tidied.map(|cases| match tidies {
        true => cases,
        false => &[],
    });
    always.into_iter().chain(tidied).flatten()
}
