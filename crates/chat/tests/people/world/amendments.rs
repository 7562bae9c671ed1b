//! Edits and reactions: who makes them, and that everyone gets the present states of messages.

use super::recalls::name_of;
use super::{Device, PEOPLE, Said, World, person};
use model::account::AccountAddress;
use model::chat::{
    ChatFault, ChatMessage, ChatRequest, ClientMessageId, Content, Quote, Recall, SearchPage,
    SearchRange, TargetMessage,
};
use model::timeline::Seq;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The words that mark texts of tests as edits and reactions.
const EDIT: &str = "edit";
const REACT: &str = "react";

/// The word that marks a text of tests as a quoting one.
const QUOTE: &str = "quote";

/// The quote of a text, if it has one.
pub fn quote_of(text: &str) -> Option<Box<Quote>> {
    let words: Vec<&str> = text.splitn(4, ':').collect();
    let [QUOTE, seq, id, _] = words[..] else { return None };
    Some(Box::new(Quote::of(seq.parse().ok()?, id.parse().ok()?)))
}

/// The content that such a text stands for; `None`: it is not an amendment.
pub fn amendment_of(text: &str) -> Option<Content> {
    let words: Vec<&str> = text.splitn(4, ':').collect();
    let [word, seq, id, said] = words[..] else { return None };
    let kind = match word {
        EDIT => Content::EDIT,
        REACT => Content::REACTION,
        _ => return None,
    };
    let (seq, id) = (seq.parse().ok()?, id.parse().ok()?);
    let extra = TargetMessage { seq, id, name: "".into() }.extra(b"");
    Some(Content { kind, extra, ..Content::text(said) })
}

/// The text that stands for an edit of a message, or for a reaction.
fn text_of(word: &str, message: &ChatMessage, said: &str) -> String {
    format!("{word}:{}:{}:{said}", message.seq, message.id)
}

impl World {
    /// Lets a device edit a message, mostly of its own account, react to one or quote one.
    pub(super) fn amends(&mut self, at: usize) {
        let device = &self.devices[at];
        let (strangers, edits) = (self.rng.one_in(12), self.rng.one_in(2));
        let all = device.has.values().filter(|it| {
            let may = !edits || strangers || it.from == device.account;
            may && (strangers || it.content.kind == Content::TEXT)
        });
        let all: Vec<_> = all.collect();
        if all.is_empty() {
            return;
        }
        let message = all[self.rng.below(all.len() as u64) as usize].clone();
        let is_out = message.from == device.account || message.to.is_group();
        let with = if is_out { message.to.clone() } else { message.from.clone() };
        let text = match edits {
            true => text_of(EDIT, &message, &format!("edited {}", self.tried.len())),
            false if self.rng.one_in(3) => {
                text_of(QUOTE, &message, &format!("quoting {}", self.tried.len()))
            }
            false => text_of(REACT, &message, ["👍", "👍 🎉", ""][self.rng.below(3) as usize]),
        };
        self.say_text(at, with, text);
    }

    /// Sends a device's edit of a message that it has, without waiting for the answer.
    pub fn begins_to_edit(&mut self, at: usize, message: &ChatMessage, text: &str) {
        self.say_text(at, message.to.clone(), text_of(EDIT, message, text));
    }

    /// Sends a device's reaction to a message that it has, without waiting for the answer.
    pub fn begins_to_react(&mut self, at: usize, message: &ChatMessage, emoji: &str) {
        self.say_text(at, message.to.clone(), text_of(REACT, message, emoji));
    }

    /// Sends a device's edit of a message that it has; returns the answer, when everything is at
    /// rest.
    pub fn edits(
        &mut self,
        at: usize,
        with: &AccountAddress,
        (message, text): (&ChatMessage, &str),
    ) -> Result<(), ChatFault> {
        self.says_to(at, with, &text_of(EDIT, message, text))
    }

    /// Sends the same text from several devices, before any of them is answered.
    pub fn says_at_once(&mut self, all: &[usize], with: &AccountAddress, text: &str) {
        all.iter().for_each(|at| self.say_text(*at, with.clone(), text.into()));
        self.rest();
    }

    /// Sends a device's quote of a message that it has; returns the answer, when everything is at
    /// rest.
    pub fn quotes(
        &mut self,
        at: usize,
        with: &AccountAddress,
        (message, text): (&ChatMessage, &str),
    ) -> Result<(), ChatFault> {
        self.says_to(at, with, &text_of(QUOTE, message, text))
    }

    /// Sends a device's reaction to a message that it has; returns the answer, when everything is
    /// at rest.
    pub fn reacts(
        &mut self,
        at: usize,
        with: &AccountAddress,
        (message, emoji): (&ChatMessage, &str),
    ) -> Result<(), ChatFault> {
        self.says_to(at, with, &text_of(REACT, message, emoji))
    }

    /// Makes a device's search; returns the answer, when everything is at rest.
    pub fn searches(&mut self, at: usize, range: SearchRange) -> Result<SearchPage, ChatFault> {
        let session = self.devices[at].session.expect("it is here");
        let (number, range) = (self.devices[at].number(), Box::new(range));
        self.ask(at, ChatRequest::Search { session, number, range });
        self.rest();
        let device = &mut self.devices[at];
        device.failed.take().map_or_else(|| Ok(device.found.take().expect("answered")), Err)
    }

    /// All messages of a device's inbox.
    pub fn has(&self, at: usize) -> Vec<Arc<ChatMessage>> {
        self.devices[at].has.values().cloned().collect()
    }

    /// Checks that a reader of the whole inbox gets the present states of messages.
    pub(super) fn check_amendments(&mut self) -> usize {
        let first = |n| self.devices.iter().position(|it| it.account == person(n)).expect("one");
        let readers: Vec<usize> = (0..PEOPLE).map(first).collect();
        for &at in &readers {
            self.devices[at].forgets();
            while let Some(request) = self.devices[at].owes() {
                self.ask(at, request);
                self.rest();
            }
        }
        let all = readers.iter().flat_map(|at| self.devices[*at].has.values());
        let told: BTreeSet<Said> = all.map(|it| (it.from.clone(), it.client_id)).collect();
        readers.iter().map(|at| self.check_reader(&self.devices[*at], &told)).sum()
    }

    /// Checks that both parties of a conversation learn of a recalled message.
    fn check_tombstones(device: &Device) {
        let all = device.has.values().filter(|it| !it.to.is_group());
        for gone in all.clone().filter(|it| it.content.kind == Content::RECALLED) {
            let is_told = |it: &Arc<ChatMessage>| {
                let of = Recall::of(&it.content).map(|recall| (recall.seq, recall.id));
                of == Some((gone.seq, gone.id))
            };
            assert!(all.clone().any(is_told), "{} is not told that {gone:?}", device.account);
        }
    }

    /// Kills the process when the logs have carried out this many calls; then all devices log in.
    pub fn dies_after(&mut self, calls: usize) {
        self.calm = true;
        for _ in 0..calls {
            let busy = (0..self.shards.len()).find(|shard| self.shards[*shard].is_busy());
            let Some(shard) = busy else { break };
            self.shards[shard].log_works(&mut self.rng);
            self.shards[shard].completes(self.now);
            self.collect(shard);
            while self.post.values().any(|bags| !bags.is_empty()) {
                self.a_bag_arrives();
            }
        }
        self.dies();
        self.heal();
    }

    /// Checks that a quote names its message and the sender, and contains none of the message's
    /// text.
    fn check_quotes(device: &Device) {
        let is_it = |message: &ChatMessage, seq, with: &ChatMessage| {
            let is_of_both = message.to == with.to && message.from == with.from
                || message.to == with.from && message.from == with.to
                || message.to == with.to && with.to.is_group();
            message.seq == seq && is_of_both
        };
        for quoting in device.has.values() {
            let Some(quote) = quoting.content.quote.as_deref() else { continue };
            assert_eq!(&*quote.text, "", "it is stored nowhere: {quoting:?}");
            let mut all = device.has.values();
            let Some(quoted) = all.find(|it| is_it(it, quote.target.seq, quoting)) else {
                continue; // the message was sent before the account was a member
            };
            assert_eq!(quote.target.id, quoted.id, "{quoting:?}");
            assert_eq!(quote.from.as_ref(), Some(&quoted.from), "{quoting:?}");
        }
    }

    fn check_reader(&self, device: &Device, told_to_some: &BTreeSet<Said>) -> usize {
        World::check_quotes(device);
        World::check_tombstones(device);
        let gone: BTreeSet<_> = self.recalled.iter().map(|(of, _)| of.clone()).collect();
        // A former member does not learn of later amendments.
        let mut said = BTreeMap::<_, Vec<(Seq, &Arc<ChatMessage>)>>::new();
        for message in device.has.values() {
            if let Some(target) = message.content.target() {
                let mut name = name_of(message);
                name.2 = target.seq;
                if gone.contains(&name) && message.content.kind == Content::EDIT {
                    assert_eq!(&*message.content.text, "", "{message:?} was called back");
                }
                said.entry(name).or_default().push((message.seq, message));
            }
        }
        let told: BTreeSet<Said> =
            device.has.values().map(|it| (it.from.clone(), it.client_id)).collect();
        let untold = |word: &str, message: &ChatMessage, by: Option<&AccountAddress>| {
            let head = text_of(word, message, "");
            let all = self.tried.iter().filter(|(said, _)| !told.contains(said));
            let all = all.filter(|(said, _)| told_to_some.contains(said));
            let all = all.filter(|(said, _)| by.is_none_or(|by| said.0 == *by));
            let texts = all.filter_map(|(_, (_, text))| text.strip_prefix(&*head));
            texts.map(String::from).collect::<BTreeSet<String>>()
        };
        let mut amended = 0;
        for message in device.has.values().filter(|it| it.content.kind == Content::TEXT) {
            let all = said.get(&name_of(message)).map_or(&[][..], |all| all);
            let edits = all.iter().filter(|(_, it)| it.content.kind == Content::EDIT);
            let last = edits.clone().next_back().map(|(_, it)| self.tried_text(it, EDIT));
            let first = self.tried[&(message.from.clone(), message.client_id)].1.clone();
            let is = &*message.content.text;
            let may = untold(EDIT, message, Some(&message.from));
            let expected = last.clone().unwrap_or(first);
            assert!(is == expected || may.contains(is), "{message:?} is {expected}, or {may:?}");
            let amends = message.amended.as_deref().cloned().unwrap_or_default();
            assert!(last.is_none() || amends.edited_ms > 0, "{message:?} was edited");
            for (_, edit) in edits {
                assert_eq!(edit.from, message.from, "nobody edits what another has said");
                assert_eq!(&*edit.content.text, is, "an edit says what its message is now");
            }
            amended += usize::from(message.amended.is_some());
            for n in 0..PEOPLE {
                let mut reactions =
                    all.iter().filter(|(_, it)| it.content.kind == Content::REACTION);
                let last = reactions.rfind(|(_, it)| it.from == person(n));
                let last = last.map_or("", |(_, it)| &*it.content.text);
                let is = amends.reactions.iter().find(|it| it.by == person(n));
                let is = is.map_or("", |it| &*it.emoji);
                let may = untold(REACT, message, Some(&person(n)));
                assert!(is == last || may.contains(is), "{message:?}: {last}, or {may:?}");
            }
        }
        amended
    }

    /// The text that the sender of a device's message tried to send.
    fn tried_text(&self, message: &ChatMessage, word: &str) -> String {
        let (_, text) = &self.tried[&(message.from.clone(), message.client_id)];
        let target = message.content.target().expect("an amendment");
        let head = format!("{word}:{}:{}:", target.seq, target.id);
        text.strip_prefix(&*head).expect("of that message").into()
    }

    /// Sends a device's text that stands for an amendment or a quote.
    fn say_text(&mut self, at: usize, to: AccountAddress, text: String) {
        let id = ClientMessageId((self.tried.len() as u128).to_be_bytes());
        let said = (self.devices[at].account.clone(), id);
        self.tried.insert(said.clone(), (to.clone(), text.clone()));
        self.say_this(at, said, to, text);
    }
}
