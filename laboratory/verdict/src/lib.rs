//! The judge of a run: whether its rules held, which limit it met, whether its figures can be
//! trusted, and what two runs differ in.
//!
//! All functions here take values: a [`lab::run::Run`] goes in, sentences and numbers come out. It
//! reads no clock and no file, knows no terminal and no page, and says the same about the same run
//! every time. A column that a run does not have silences whoever would have looked at it; nothing
//! is guessed from its absence.
//!
//! The invariant: what cannot be known is `None` and never a pass; every finding has the figures
//! that show it; and a limit is named only where a counter or a setting stands behind the name.
//!
//! Start with [`check`] and [`Rule`], then [`findings`], [`first_limit`] and [`compare`].

mod case;
mod columns;
mod compare;
mod figure;
mod findings;
mod fit;
#[cfg(test)]
mod made;
pub mod message_figures;
pub mod presence_figures;
mod rule;
mod saturation;
mod scope;
mod summary;
mod window;
mod words;

pub use case::{BROKEN, MENDED};
pub use compare::{compare, compare_anyway};
pub use figure::{Aspect, Figure, Meaning, Measure, Plain, Point, figures};
pub use findings::{findings, first_limit};
pub use rule::{Operator, Rule, check, why_unknown};
pub use saturation::saturation;
pub use scope::Scope;
pub use summary::summary;
