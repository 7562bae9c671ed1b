//! Filters that differ only in their subscriber's own name, kept once for all subscribers.
//!
//! A device `d7` that subscribes to `dev/d7/in` is one of thousands with the form `dev/%c/in`. The
//! form is kept here, with `+` where the name stands; that a device has the form is a number in
//! the device's own record. A topic name that matches a form names the one device to look at, and
//! its record says whether it subscribed. A unique filter costs two bytes, and no table.
//!
//! This module does not know who subscribed. Forms are counted, and limited: what finds no room is
//! an ordinary filter.

use super::table::{FilterTable, RouteSlice};
use super::walk::WalkPlace;
use base::hash::HashKey;
use std::ops::ControlFlow;

/// The number of a form.
pub type FormId = u16;

/// The forms.
pub struct Patterns {
    table: FilterTable,
    forms: Vec<Form>,
    forms_max: u16,
}

/// A filter with a place for a name.
struct Form {
    /// The filter with `+` in that place.
    filter: Box<str>,
    /// Which level, from 0.
    place: u16,
    /// Subscriptions that have it; 0: the number is free.
    subscriptions: u32,
}

impl Patterns {
    /// Makes an empty table of at most `forms_max` forms.
    pub fn new(key: HashKey, forms_max: u16) -> Patterns {
        Patterns { table: FilterTable::new(key), forms: Vec::new(), forms_max }
    }

    /// Forms held.
    pub fn len(&self) -> usize {
        self.table.filters()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a subscription of `name` to `filter`, if the filter has a level that is the name and
    /// there is room for its form. `None`: it is an ordinary filter.
    pub fn insert(&mut self, filter: &str, name: &str) -> Option<FormId> {
        let (form, place) = form_of(filter, name)?;
        let number = match self.position(&form, place) {
            Some(number) => number,
            None => self.add(form, place)?,
        };
        self.forms[number].subscriptions += 1;
        Some(number as FormId)
    }

    /// The form that a subscription of `name` to `filter` has, if there is one.
    pub fn find(&self, filter: &str, name: &str) -> Option<FormId> {
        let (form, place) = form_of(filter, name)?;
        self.position(&form, place).map(|number| number as FormId)
    }

    /// Takes back one [`Patterns::insert`].
    pub fn remove(&mut self, number: FormId) {
        let form = &mut self.forms[usize::from(number)];
        form.subscriptions = form.subscriptions.checked_sub(1).expect("it was inserted");
        if form.subscriptions == 0 {
            let was_in = self.table.remove(&form.filter, u64::from(number));
            debug_assert!(was_in);
            form.filter = Box::default();
        }
    }

    /// The filter that a form is for a name.
    pub fn filter(&self, number: FormId, name: &str) -> String {
        let form = &self.forms[usize::from(number)];
        let place = usize::from(form.place);
        let levels = form.filter.split('/').enumerate();
        let levels: Vec<_> =
            levels.map(|(at, level)| if at == place { name } else { level }).collect();
        levels.join("/")
    }

    /// Tells every form that matches a topic name, with the name in its place. The client of that
    /// name is subscribed if its record has the form.
    pub fn each_match<'t>(&self, topic: &'t str, visit: &mut impl FnMut(FormId, &'t str)) {
        let mut form = |number: u64| {
            let place = usize::from(self.forms[number as usize].place);
            let name = topic.split('/').nth(place).expect("a form has `+` there, so it matched");
            visit(number as FormId, name);
        };
        let all = self.table.each_wild_match(topic, &mut WalkPlace::default(), &mut |filter| {
            self.table.each_held(filter, RouteSlice::ALL, &mut form);
            ControlFlow::Continue(())
        });
        debug_assert!(all.is_continue());
    }

    fn position(&self, filter: &str, place: u16) -> Option<usize> {
        let is_it = |form: &Form| form.place == place && *form.filter == *filter;
        self.forms.iter().position(|form| form.subscriptions > 0 && is_it(form))
    }

    fn add(&mut self, filter: String, place: u16) -> Option<usize> {
        let free = self.forms.iter().position(|form| form.subscriptions == 0);
        let number = free.unwrap_or(self.forms.len());
        if number >= usize::from(self.forms_max) {
            return None;
        }
        self.table.insert(&filter, number as u64).ok()?;
        let form = Form { filter: filter.into_boxed_str(), place, subscriptions: 0 };
        match free {
            Some(number) => self.forms[number] = form,
            None => self.forms.push(form),
        }
        Some(number)
    }
}

/// The filter with `+` in place of the first level that is `name`, and which level that is. A name
/// that is no plain level, or would be one of the server's own, has no form.
fn form_of(filter: &str, name: &str) -> Option<(String, u16)> {
    if name.is_empty() || name.starts_with('$') || name.contains(['/', '+', '#']) {
        return None;
    }
    let place = filter.split('/').position(|level| level == name)?;
    let levels: Vec<_> = filter
        .split('/')
        .enumerate()
        .map(|(at, level)| if at == place { "+" } else { level })
        .collect();
    Some((levels.join("/"), u16::try_from(place).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_forms_are_kept_and_one_that_nobody_has_makes_room() {
        let mut patterns = Patterns::new(HashKey::new(1, 2), 2);
        assert!(patterns.is_empty());
        assert_eq!(patterns.insert("a/c1/x", "c1"), Some(0));
        assert_eq!(patterns.insert("a/c2/x", "c2"), Some(0), "the same form");
        assert_eq!(patterns.insert("b/c1", "c1"), Some(1));
        assert_eq!(patterns.insert("d/c1", "c1"), None, "it is an ordinary filter");
        assert_eq!((patterns.find("d/c1", "c1"), patterns.find("b/c9", "c9")), (None, Some(1)));
        patterns.remove(0);
        assert_eq!((patterns.insert("d/c1", "c1"), patterns.len()), (None, 2));
        patterns.remove(0);
        assert_eq!((patterns.find("a/c2/x", "c2"), patterns.len()), (None, 1));
        assert_eq!((patterns.insert("d/c1", "c1"), patterns.len()), (Some(0), 2));
        assert_eq!(patterns.filter(0, "other"), "d/other");
        let mut found = Vec::new();
        patterns.each_match("b/who", &mut |form, name| found.push((form, name)));
        assert_eq!(found, [(1, "who")]);
    }

    #[test]
    fn a_form_has_a_plus_in_place_of_the_first_level_that_is_the_name() {
        for (filter, name, wanted) in [
            ("dev/c1/in", "c1", Some(("dev/+/in", 1))),
            ("c1/c1", "c1", Some(("+/c1", 0))),
            ("c1", "c1", Some(("+", 0))),
            ("a/c11", "c1", None),
            ("a/b", "", None),
            ("$x/a", "$x", None),
            ("a/+", "+", None),
            ("a/#", "#", None),
            ("a/b", "a/b", None),
        ] {
            let wanted = wanted.map(|(form, place)| (form.to_owned(), place));
            assert_eq!(form_of(filter, name), wanted, "{filter} {name}");
        }
    }
}
