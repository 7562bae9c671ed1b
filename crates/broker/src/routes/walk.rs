//! A walk through the filters of a table that match a topic, which may stop and go on later.
//!
//! At each level of a topic name a filter has `#`, `+` or the level itself, in this order. Where a
//! walk stopped is the branch it took at each level, so that it goes on rightly though the table
//! was changed meanwhile: filters that are there all the time are visited once.

use super::record::{EXACT, NOTHING, flag, level_end};
use super::table::{FilterTable, LEVELS_MAX, ROOT};
use std::ops::ControlFlow;

/// Where a walk stopped, and how much of it may be done.
#[derive(Debug)]
pub struct WalkPlace {
    /// The branches to the record with which it goes on, the last one first. None: its beginning.
    branches: Vec<Branch>,
    /// Records that may be looked at, whether they match or not.
    left: usize,
}

/// Looks that bring every walk on: its way back to where it stopped is no longer.
pub const LOOKS_MIN: usize = 4 * LEVELS_MAX;

/// Parts of a filter that match a level of a topic name, in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Branch {
    /// The filter ends before the level.
    End,
    Hash,
    Plus,
    Level,
}

impl Default for WalkPlace {
    /// The beginning of a walk without a bound.
    fn default() -> WalkPlace {
        WalkPlace { branches: Vec::new(), left: usize::MAX }
    }
}

impl WalkPlace {
    /// Whether nothing was looked at yet.
    pub fn is_start(&self) -> bool {
        self.branches.is_empty()
    }

    /// From here on it may look at so many records, or at [`LOOKS_MIN`] if that is more: then it
    /// stops.
    pub fn allow(&mut self, looks: usize) {
        self.left = looks.max(LOOKS_MIN);
    }

    /// How many of so many it has looked at.
    pub fn looked_at(&self, looks: usize) -> usize {
        looks.max(LOOKS_MIN) - self.left
    }

    /// Where the level below goes on, and so where this one does.
    fn pop(&mut self, first: Branch) -> Branch {
        self.branches.pop().unwrap_or(first)
    }

    /// The walk stops at or below this branch.
    fn stop(&mut self, branch: Branch) -> ControlFlow<()> {
        self.branches.push(branch);
        ControlFlow::Break(())
    }

    /// The next branch is new.
    fn start(&mut self) {
        self.branches.clear();
    }

    /// One more record is looked at, if it may be.
    fn look(&mut self) -> ControlFlow<()> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

impl FilterTable {
    /// Tells the number of every filter that matches a topic name and has a subscription, from
    /// `place` on. When `visit` breaks, the walk stops in front of the filter that it was called
    /// with: with that one the next walk from `place` begins. It stops, too, when it has looked at
    /// as many records as it may.
    pub fn each_match(
        &self,
        topic: &str,
        place: &mut WalkPlace,
        visit: &mut impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if place.branches.last().is_none_or(|branch| *branch == Branch::End) {
            place.start();
            if let Some(number) = self.find(EXACT, topic.as_bytes())
                && self.tell(number, visit).is_break()
            {
                return place.stop(Branch::End);
            }
        }
        self.each_wild_match(topic, place, visit)
    }

    /// As [`each_match`](Self::each_match), for filters with wildcards only.
    pub fn each_wild_match(
        &self,
        topic: &str,
        place: &mut WalkPlace,
        visit: &mut impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let root = self.records.at(ROOT);
        if root.count() == 0 {
            place.start();
            return ControlFlow::Continue(());
        }
        // A wildcard in front does not match names of the server's own (MQTT5 4.7.2-1).
        let hidden = if topic.starts_with('$') { flag::PLUS | flag::HASH } else { 0 };
        self.walk((ROOT, root.children & !hidden), topic, place, visit)
    }

    /// Follows `rest` of a topic name below a node with these flags.
    fn walk(
        &self,
        (node, flags): (u32, u32),
        rest: &str,
        place: &mut WalkPlace,
        visit: &mut impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (level, next) = match rest.split_once('/') {
            Some((level, next)) => (level, Some(next)),
            None => (rest, None),
        };
        let from = place.pop(Branch::Hash);
        if from <= Branch::Hash
            && flags & flag::HASH != 0
            && self.tell_child(node, b"#", visit).is_break()
        {
            return place.stop(Branch::Hash);
        }
        if from <= Branch::Plus {
            if flags & flag::PLUS != 0
                && let Some(number) = self.find(node, b"+")
                && self.step(number, next, place, visit).is_break()
            {
                return place.stop(Branch::Plus);
            }
            place.start();
        }
        if let Some(number) = self.find(node, level.as_bytes())
            && self.step(number, next, place, visit).is_break()
        {
            return place.stop(Branch::Level);
        }
        place.start();
        ControlFlow::Continue(())
    }

    /// Goes on below a record whose level has matched.
    fn step(
        &self,
        number: u32,
        rest: Option<&str>,
        place: &mut WalkPlace,
        visit: &mut impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        place.look()?;
        let record = self.records.at(number);
        if record.is_leaf() {
            place.start();
            let text = self.text(record);
            let end = level_end(text, usize::from(record.level_at));
            return match tail_matches(text.get(end + 1..), rest) {
                true => self.tell(number, visit),
                false => ControlFlow::Continue(()),
            };
        }
        if let Some(rest) = rest {
            return self.walk((number, record.children), rest, place, visit);
        }
        if place.pop(Branch::End) == Branch::End && self.tell(number, visit).is_break() {
            return place.stop(Branch::End);
        }
        if record.children & flag::HASH != 0 && self.tell_child(number, b"#", visit).is_break() {
            return place.stop(Branch::Hash);
        }
        ControlFlow::Continue(())
    }

    fn tell_child(
        &self,
        node: u32,
        level: &[u8],
        visit: &mut impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self.find(node, level) {
            Some(number) => self.tell(number, visit),
            None => ControlFlow::Continue(()),
        }
    }

    fn tell(&self, number: u32, visit: &mut impl FnMut(u32) -> ControlFlow<()>) -> ControlFlow<()> {
        match self.records.at(number).held() {
            NOTHING => ControlFlow::Continue(()),
            _ => visit(number),
        }
    }
}

/// Whether what is left of a filter matches what is left of a name, behind a level that matched.
fn tail_matches(tail: Option<&[u8]>, rest: Option<&str>) -> bool {
    let Some(tail) = tail else { return rest.is_none() };
    let Some(rest) = rest else { return tail == b"#" };
    let is_separator = |byte: &u8| *byte == b'/';
    let mut levels = rest.as_bytes().split(is_separator);
    for wanted in tail.split(is_separator) {
        match (wanted, levels.next()) {
            (b"#", _) => return true,
            (b"+", Some(_)) => {}
            (wanted, Some(level)) if wanted == level => {}
            _ => return false,
        }
    }
    levels.next().is_none()
}
