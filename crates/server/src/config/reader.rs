//! Fills sections from a parsed file and from the environment, and collects what is wrong.
//!
//! Generic over [`Section`]: it knows the shape of the tree (a section, named sections, a list of
//! sections), not what is in it. Of every key that was given it remembers where, so that rules
//! over several keys can point at a line. Invariant: a value that does not fit leaves its field at
//! the default and one problem behind.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml_edit::{Item, TableLike};

use super::problem::{ConfigProblem, HIDDEN, without_password};
use base::setting::{Section, Setting, Shown, Value};
use base::text::quoted;
use base::typo::nearest;

/// Prefix of all environment variables of the server.
const PREFIX: &str = "HOLDLINE_";

/// Variables of that beginning that others read: the command line.
pub(super) const ELSEWHERE: [&str; 3] = ["HOLDLINE_AGENTS_TOKEN", "HOLDLINE_TOKEN", "HOLDLINE_URL"];

/// Where a section is in the tree, as paths and as headers name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sheet {
    /// `limits`, `listen.any`, `webhook.1`.
    pub(super) path: String,
    /// `[limits]`, `[listen.any]`, `[[webhook]]`.
    pub(super) header: String,
    /// Whether environment variables reach it. They do not reach into lists.
    variables: bool,
    /// Where its header is in the file.
    span: Option<Range<usize>>,
}

impl Sheet {
    /// `[name]`.
    pub(super) fn single(name: &str) -> Sheet {
        let header = format!("[{name}]");
        Sheet { path: name.into(), header, variables: true, span: None }
    }

    /// `[section.name]`.
    pub(super) fn named(section: &str, name: &str) -> Sheet {
        let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let plain = !name.is_empty() && name.bytes().all(bare);
        let shown = if plain { name.into() } else { quoted(name) };
        let header = format!("[{section}.{shown}]");
        Sheet { path: format!("{section}.{name}"), header, variables: true, span: None }
    }

    /// `[[list]]` in this section, or at the top; numbers start at 1.
    pub(super) fn nth(within: Option<&Sheet>, list: &str, number: usize) -> Sheet {
        let (path, outer) = match within {
            Some(sheet) => (
                format!("{}.{list}.{number}", sheet.path),
                format!("{}.", sheet.header.trim_matches(['[', ']'])),
            ),
            None => (format!("{list}.{number}"), String::new()),
        };
        Sheet { path, header: format!("[[{outer}{list}]]"), variables: false, span: None }
    }

    fn variable(&self, key: &str) -> String {
        let name = format!("{PREFIX}{}_{key}", self.path);
        let folded = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        name.chars().map(folded).collect()
    }
}

/// Where a value was given and how.
#[derive(Clone)]
struct Origin {
    place: String,
    key: String,
    value: Option<String>,
}

impl Origin {
    fn problem(&self, rule: impl Into<String>, remedy: impl Into<String>) -> ConfigProblem {
        ConfigProblem {
            place: self.place.clone(),
            key: self.key.clone(),
            value: self.value.clone(),
            rule: rule.into(),
            remedy: remedy.into(),
        }
    }
}

struct Variable {
    name: String,
    value: String,
    /// How many keys it fits.
    keys: u32,
}

/// See the module's documentation.
pub(super) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    variables: Vec<Variable>,
    /// Names that variables may have.
    known: Vec<String>,
    /// Keys that were given, by path and name.
    given: BTreeMap<(String, &'static str), Origin>,
    /// Paths of the sections with a problem.
    spoiled: BTreeSet<String>,
    pub(super) problems: Vec<ConfigProblem>,
}

impl<'a> Reader<'a> {
    /// A reader of the file with this name and text, and of these environment variables.
    pub(super) fn new(
        file: &'a str,
        text: &'a str,
        env: impl Iterator<Item = (String, String)>,
    ) -> Reader<'a> {
        let ours = |name: &str| name.starts_with(PREFIX) && !ELSEWHERE.contains(&name);
        let mut variables: Vec<Variable> = env
            .filter(|(name, _)| ours(name))
            .map(|(name, value)| Variable { name, value, keys: 0 })
            .collect();
        variables.sort_by(|a, b| a.name.cmp(&b.name));
        Reader {
            file,
            text,
            variables,
            known: Vec::new(),
            given: BTreeMap::new(),
            spoiled: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    /// Refuses what stands at the top of the file and is no section.
    pub(super) fn top(&mut self, root: &dyn TableLike, sections: &[&str]) {
        for (name, _) in root.iter().filter(|(name, _)| !sections.contains(name)) {
            let shown = if name.is_empty() { "\"\"" } else { name };
            let origin = self.in_file(span_of(root, name), format!("[{shown}]"), None);
            let remedy = match nearest(name, sections.iter().copied()) {
                Some(near) => format!("did you mean [{near}]?"),
                None => format!("the sections are {}", sections.join(", ")),
            };
            self.problems.push(origin.problem("is not a section", remedy));
        }
    }

    /// The section `[name]`, not yet read.
    pub(super) fn outer<'t>(
        &mut self,
        root: &'t dyn TableLike,
        name: &str,
    ) -> (Sheet, Option<&'t dyn TableLike>) {
        let mut sheet = Sheet::single(name);
        sheet.span = span_of(root, name);
        let table = root.get(name).and_then(|item| self.table(item, &sheet));
        (sheet, table)
    }

    /// The section `[outer.name]`.
    pub(super) fn inner<S: Section + Default>(
        &mut self,
        outer: &Sheet,
        within: Option<&dyn TableLike>,
        name: &str,
    ) -> S {
        let mut sheet = Sheet::named(&outer.path, name);
        sheet.span = within.and_then(|table| span_of(table, name));
        let item = within.and_then(|table| table.get(name));
        let table = item.and_then(|item| self.table(item, &sheet));
        let mut section = S::default();
        self.fill(&sheet, table, &[], &mut section);
        section
    }

    /// The section `[name]`.
    pub(super) fn single<S: Section + Default>(&mut self, root: &dyn TableLike, name: &str) -> S {
        self.single_from(root, name, S::default())
    }

    /// As [`single`](Self::single), with the values that hold where the file is silent.
    pub(super) fn single_from<S: Section>(
        &mut self,
        root: &dyn TableLike,
        name: &str,
        mut section: S,
    ) -> S {
        let (sheet, table) = self.outer(root, name);
        self.fill(&sheet, table, &[], &mut section);
        section
    }

    /// The sections `[section.NAME]`, not yet read; at most `max`.
    pub(super) fn named<'t>(
        &mut self,
        root: &'t dyn TableLike,
        section: &str,
        max: usize,
    ) -> Vec<(String, Sheet, &'t dyn TableLike)> {
        let mut outer = Sheet::single(section);
        outer.span = span_of(root, section);
        let Some(table) = root.get(section).and_then(|item| self.table(item, &outer)) else {
            return Vec::new();
        };
        if table.len() > max {
            self.too_many(&outer, table.len(), max);
        }
        let mut found = Vec::new();
        for (name, item) in table.iter().take(max) {
            let mut sheet = Sheet::named(section, name);
            sheet.span = span_of(table, name);
            if let Some(inner) = self.table(item, &sheet) {
                found.push((name.to_string(), sheet, inner));
            }
        }
        found
    }

    /// Section made from its name, unless the name is not allowed.
    pub(super) fn checked<S>(&mut self, made: Result<S, String>, sheet: &Sheet) -> Option<S> {
        made.map_err(|rule| {
            let origin = self.in_file(sheet.span.clone(), sheet.header.clone(), None);
            self.problems.push(origin.problem(rule, "choose another name"));
        })
        .ok()
    }

    /// The sections of a list: `[[list]]`, or `list = [{ … }]`; at most `max`.
    pub(super) fn list<S: Section + Default>(
        &mut self,
        table: &dyn TableLike,
        within: Option<&Sheet>,
        list: &str,
        max: usize,
    ) -> Vec<S> {
        let tables: Vec<(&dyn TableLike, Option<Range<usize>>)> = match table.get(list) {
            None => return Vec::new(),
            Some(Item::ArrayOfTables(tables)) => {
                tables.iter().map(|t| (t as &dyn TableLike, t.span())).collect()
            }
            Some(item) => {
                let inner = item.as_array().map(|array| {
                    array.iter().map(|v| v.as_inline_table().map(|t| (t as _, t.span()))).collect()
                });
                match inner.flatten() {
                    Some(tables) => tables,
                    None => {
                        self.not_a_list(span_of(table, list), within, list);
                        return Vec::new();
                    }
                }
            }
        };
        if tables.len() > max {
            let mut sheet = Sheet::nth(within, list, max + 1);
            sheet.span = tables[max].1.clone();
            self.too_many(&sheet, tables.len(), max);
        }
        let mut sections = Vec::new();
        for (index, (inner, span)) in tables.into_iter().take(max).enumerate() {
            let mut sheet = Sheet::nth(within, list, index + 1);
            sheet.span = span;
            let mut section = S::default();
            self.fill(&sheet, Some(inner), &[], &mut section);
            sections.push(section);
        }
        sections
    }

    /// Fills a section from its table and the environment; the keys in `nested` are read apart.
    pub(super) fn fill<S: Section>(
        &mut self,
        sheet: &Sheet,
        table: Option<&dyn TableLike>,
        nested: &[&str],
        section: &mut S,
    ) {
        let settings = S::settings();
        if let Some(table) = table {
            for (name, item) in table.iter().filter(|(name, _)| !nested.contains(name)) {
                let span = span_of(table, name);
                match settings.iter().copied().find(|setting| setting.name == name) {
                    Some(setting) => {
                        let shown = item.span().filter(|_| item.is_value());
                        let shown = shown.and_then(|span| self.text.get(span)).map(str::to_string);
                        let origin = self.in_file(span, said(sheet, name), shown);
                        self.put(sheet, (setting, &value_of(item)), origin, section);
                    }
                    None => self.unknown::<S>(sheet, name, span, nested),
                }
            }
            let required = settings.iter().filter(|setting| setting.required);
            for setting in required.filter(|setting| !table.contains_key(setting.name)) {
                let origin = self.in_file(sheet.span.clone(), said(sheet, setting.name), None);
                let remedy = format!("it must be {}", setting.kind.allowed());
                self.problems.push(origin.problem("is missing and has no default", remedy));
                self.spoiled.insert(sheet.path.clone());
            }
        }
        if sheet.variables {
            self.override_keys(sheet, section);
        }
    }

    fn override_keys<S: Section>(&mut self, sheet: &Sheet, section: &mut S) {
        for setting in S::settings() {
            let name = sheet.variable(setting.name);
            let found = self.variables.iter_mut().find(|variable| variable.name == name);
            if let Some(variable) = found {
                variable.keys += 1;
                let value = setting.kind.of_text(&variable.value);
                let origin = Origin {
                    place: "environment".into(),
                    key: name.clone(),
                    value: Some(quoted(&variable.value)),
                };
                self.put(sheet, (setting, &value), origin, section);
            }
            self.known.push(name);
        }
    }

    fn put<S: Section>(
        &mut self,
        sheet: &Sheet,
        (setting, value): (&'static Setting, &Value),
        mut origin: Origin,
        section: &mut S,
    ) {
        let Setting { name, kind, .. } = setting;
        match setting.shown {
            Shown::Whole => {}
            Shown::WithoutSecrets => {
                origin.value = origin.value.map(|value| without_password(&value));
            }
            Shown::Never => origin.value = Some(HIDDEN.into()),
        }
        let is_example = !setting.required && setting.shown == Shown::Whole;
        let usual = section.value(name).filter(|_| is_example);
        if !(kind.fits(value) && section.put(name, value)) {
            let rule = format!("must be {}", kind.allowed());
            self.problems.push(origin.problem(rule, kind.remedy(value, usual.as_ref())));
            self.spoiled.insert(sheet.path.clone());
        }
        self.given.insert((sheet.path.clone(), setting.name), origin);
    }

    fn unknown<S: Section>(
        &mut self,
        sheet: &Sheet,
        name: &str,
        span: Option<Range<usize>>,
        nested: &[&str],
    ) {
        let known = S::settings().into_iter().map(|setting| setting.name);
        let known = known.chain(nested.iter().copied());
        let remedy = match nearest(name, known.clone()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the keys are {}", known.collect::<Vec<_>>().join(", ")),
        };
        let origin = self.in_file(span, said(sheet, name), None);
        self.problems.push(origin.problem("is not a key of this section", remedy));
        self.spoiled.insert(sheet.path.clone());
    }

    /// A rule over several keys does not hold. The problem points at the first of `keys` that was
    /// given, or at the first if none was. Where one of their sections has a problem already, it
    /// says nothing: the rule may hold once that is mended.
    pub(super) fn broken(&mut self, keys: &[(&Sheet, &'static str)], rule: &str, remedy: &str) {
        if keys.iter().any(|(sheet, _)| self.spoiled.contains(&sheet.path)) {
            return;
        }
        let given = keys.iter().find_map(|(sheet, key)| self.origin(sheet, key));
        let origin = given.unwrap_or_else(|| {
            let key = keys.first().map_or(String::new(), |(sheet, key)| said(sheet, key));
            self.in_file(keys.first().and_then(|(sheet, _)| sheet.span.clone()), key, None)
        });
        self.problems.push(origin.problem(rule, remedy));
    }

    /// Whether the key was given in the file or the environment.
    fn origin(&self, sheet: &Sheet, key: &'static str) -> Option<Origin> {
        self.given.get(&(sheet.path.clone(), key)).cloned()
    }

    /// Refuses the variables that fit no key, or more than one.
    pub(super) fn finish(&mut self) {
        for variable in self.variables.iter().filter(|variable| variable.keys != 1) {
            let known = self.known.iter().map(String::as_str).chain(ELSEWHERE);
            let (rule, remedy) = match (variable.keys, nearest(&variable.name, known)) {
                (0, near) if near.is_some() || self.begins(&variable.name).is_some() => {
                    let near = self.begins(&variable.name).or(near).unwrap_or_default();
                    ("names no key", format!("did you mean {near}?"))
                }
                (0, _) => ("names no key", "unset it; docs/configuration.md names them".into()),
                _ => ("names several keys", "set them in the file".into()),
            };
            let (place, key) = ("environment".into(), variable.name.clone());
            self.problems.push(Origin { place, key, value: None }.problem(rule, remedy));
        }
    }

    /// The first key whose variable begins with this name, when there is nothing behind it or an
    /// underscore: whoever stopped after the section is shown how to go on.
    fn begins(&self, name: &str) -> Option<&str> {
        let name = name.trim_end_matches('_');
        let mut known = self.known.iter().map(String::as_str);
        known.find(|known| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')))
    }

    fn table<'t>(&mut self, item: &'t Item, sheet: &Sheet) -> Option<&'t dyn TableLike> {
        if item.as_table_like().is_none() {
            let key = sheet.header.trim_matches(['[', ']']).to_string();
            let origin = self.in_file(sheet.span.clone(), key, None);
            let remedy = format!("write {} on a line of its own", sheet.header);
            self.problems.push(origin.problem("must be a section", remedy));
        }
        item.as_table_like()
    }

    fn not_a_list(&mut self, span: Option<Range<usize>>, within: Option<&Sheet>, list: &str) {
        let key = within.map_or(list.to_string(), |sheet| said(sheet, list));
        let header = Sheet::nth(within, list, 1).header;
        let origin = self.in_file(span, key, None);
        self.problems.push(
            origin.problem("must be a list of sections", format!("write {header} above each one")),
        );
    }

    fn too_many(&mut self, sheet: &Sheet, count: usize, max: usize) {
        let origin = self.in_file(sheet.span.clone(), sheet.header.clone(), None);
        let rule = format!("there are {count}, at most {max} are allowed");
        self.problems.push(origin.problem(rule, format!("remove {}", count - max)));
    }

    fn in_file(&self, span: Option<Range<usize>>, key: String, value: Option<String>) -> Origin {
        let place = match span {
            Some(span) => format!("{}:{}", self.file, line(self.text, span.start)),
            None => self.file.into(),
        };
        Origin { place, key, value }
    }
}

/// The line, from 1, of a place in a text.
pub(super) fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn said(sheet: &Sheet, key: &str) -> String {
    format!("{} {}", sheet.header, if key.is_empty() { "\"\"" } else { key })
}

fn span_of(table: &dyn TableLike, name: &str) -> Option<Range<usize>> {
    table.key(name).and_then(|key| key.span())
}

fn value_of(item: &Item) -> Value {
    let texts = |array: &toml_edit::Array| {
        array.iter().map(|value| value.as_str().map(str::to_string)).collect::<Option<Vec<_>>>()
    };
    None.or_else(|| item.as_bool().map(Value::Bool))
        .or_else(|| item.as_integer().and_then(|n| u64::try_from(n).ok()).map(Value::Whole))
        .or_else(|| item.as_str().map(|text| Value::Text(text.into())))
        .or_else(|| item.as_array().and_then(texts).map(Value::List))
        .unwrap_or(Value::Other)
}
