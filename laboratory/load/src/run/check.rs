//! Validation of a plan before anything is started: names, sizes, rates and rules.
//!
//! A [`PlanProblem`] says which key, what stands there, what is allowed and what to do. Nothing is
//! mended silently. The invariant: a plan that passes here is bounded: in clients, in stages, in
//! time and in what it sends.

mod conversation;
mod part;

use crate::client::xmpp::XMPP_MESSAGE_BYTES_MAX;
use crate::target::{self, Url};
use lab::plan::{Plan, Span, Target, Traffic};
use model::account::AccountAddress;
use std::collections::BTreeSet;
use std::fmt;

/// Stages of a plan, at most.
pub const STAGES_MAX: usize = 256;
/// Groups of a plan, at most.
pub const GROUPS_MAX: usize = 64;
/// Clients of all groups, at most.
pub const CLIENTS_MAX: u64 = 100_000_000;
/// Names of conversations of a plan, at most.
pub const CONVERSATIONS_MAX: usize = 16;
/// Conversations of one name, at most: their addresses fit a line to an agent.
pub const CONVERSATIONS_A_NAME_MAX: u32 = 1_000;
/// Rules of a stage or a plan, at most.
pub const RULES_MAX: usize = 64;
/// Faults of a stage, at most.
pub const FAULTS_MAX: usize = 64;
/// Different things that a group sends, at most.
pub const TRAFFIC_MAX: usize = 16;
/// Connections or messages a second, at most.
pub const RATE_MAX: f64 = 100e6;
/// Bytes of a message's body, at least: the stamp. From 36 on there is room for its number and its
/// checksum.
pub const BODY_BYTES_MIN: u32 = 16;
/// Bytes of a message's body, at most.
pub const BODY_BYTES_MAX: u32 = 16 << 20;
/// Length of a name, at most.
pub const NAME_MAX: usize = 64;
/// Length of a stage's hold or waiting, at most: a month.
pub const TIME_MAX: Span = Span::from_secs(31 * 86_400);

/// A step on the way to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyStep {
    /// A key of a table.
    Key(String),
    /// An entry of a list, by number, with its name (or its number).
    At(usize, String),
}

/// Error in a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanProblem {
    /// The key.
    pub place: Vec<KeyStep>,
    /// The wrong value; empty: none.
    pub value: String,
    /// Allowed values, and the remedy.
    pub need: String,
}

impl PlanProblem {
    /// The key as one word, as `--set` takes it: `stage.hold.arrive.per_s`.
    pub fn key(&self) -> String {
        let words = self.place.iter().map(|step| match step {
            KeyStep::Key(key) => key.as_str(),
            KeyStep::At(_, name) => name.as_str(),
        });
        words.collect::<Vec<_>>().join(".")
    }
}

impl fmt::Display for PlanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.as_str() {
            "" => write!(f, "{}: {}", self.key(), self.need),
            value => write!(f, "{} = {value}: {}", self.key(), self.need),
        }
    }
}

/// A place in the plan while it is walked through.
#[derive(Clone)]
struct At(Vec<KeyStep>);

impl At {
    fn key(&self, key: &str) -> At {
        let mut steps = self.0.clone();
        steps.push(KeyStep::Key(key.to_owned()));
        At(steps)
    }

    fn entry(&self, number: usize, name: &str) -> At {
        let mut steps = self.0.clone();
        steps.push(KeyStep::At(number, name.to_owned()));
        At(steps)
    }

    fn wrong(&self, value: impl fmt::Display, need: impl Into<String>) -> PlanProblem {
        PlanProblem { place: self.0.clone(), value: value.to_string(), need: need.into() }
    }

    fn must(&self, holds: bool, value: impl fmt::Display, need: &str) -> Result<(), PlanProblem> {
        if holds { Ok(()) } else { Err(self.wrong(value, need)) }
    }
}

/// Checks a plan; reports the first error only.
pub fn check(plan: &Plan) -> Result<(), PlanProblem> {
    let root = At(Vec::new());
    name(&root.key("name"), &plan.name)?;
    target(&root.key("target"), &plan.target)?;
    let groups = root.key("group");
    let count = plan.groups.len();
    groups.must(count > 0, "", "a plan has at least one [[group]] of clients: add one")?;
    groups.must(count <= GROUPS_MAX, count, "at most 64 groups; join those that are alike")?;
    let mut known = BTreeSet::new();
    for (number, group) in plan.groups.iter().enumerate() {
        let at = groups.entry(number, &group.name);
        name(&at.key("name"), &group.name)?;
        let fresh = known.insert(group.name.as_str());
        at.key("name").must(fresh, &group.name, "duplicate group name")?;
        part::group(&at, plan, group)?;
    }
    conversation::all(&root.key("conversation"), plan)?;
    let stages = root.key("stage");
    let count = plan.stages.len();
    stages.must(count > 0, "", "a plan has at least one [[stage]]: add one")?;
    stages.must(count <= STAGES_MAX, count, "at most 256 stages; make them larger")?;
    let mut named = BTreeSet::new();
    for (number, stage) in plan.stages.iter().enumerate() {
        let at = stages.entry(number, &stage.name);
        name(&at.key("name"), &stage.name)?;
        let fresh = named.insert(stage.name.as_str());
        at.key("name").must(fresh, &stage.name, "duplicate stage name")?;
        part::stage(&at, plan, stage)?;
        conversation::stage(&at, plan, number)?;
    }
    rules(&root.key("pass"), &plan.pass)
}

fn name(at: &At, name: &str) -> Result<(), PlanProblem> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let fits = !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(word);
    at.must(fits, format!("`{name}`"), "a name must have 1 to 64 letters, digits, `-` and `_`")
}

fn target(at: &At, target: &Target) -> Result<(), PlanProblem> {
    urls(&at.key("url"), &target.url)?;
    for (key, url) in [("metrics", &target.metrics), ("api", &target.api)] {
        if let Some(url) = url {
            let fits = url.starts_with("http://") || url.starts_with("https://");
            at.key(key).must(fits, url, "a URL that starts with http:// or https://")?;
        }
    }
    if let Some(redis) = &target.redis {
        let fits = redis.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        at.key("redis").must(fits, redis, "HOST:PORT, for example 127.0.0.1:6379")?;
    }
    Ok(())
}

fn urls(at: &At, urls: &[String]) -> Result<(), PlanProblem> {
    for (number, url) in urls.iter().enumerate() {
        if let Err(why) = Url::parse(url) {
            let at = at.entry(number, &(number + 1).to_string());
            return Err(at.wrong("", format!("{why}; write for example mqtt://127.0.0.1:1883")));
        }
    }
    Ok(())
}

fn rules(at: &At, rules: &[String]) -> Result<(), PlanProblem> {
    at.must(rules.len() <= RULES_MAX, rules.len(), "at most 64 rules; put some in stages")?;
    for (number, rule) in rules.iter().enumerate() {
        if let Err(why) = verdict::Rule::parse(rule) {
            return Err(at
                .entry(number, &(number + 1).to_string())
                .wrong(format!("`{rule}`"), why));
        }
    }
    Ok(())
}

/// Whether whoever talks (IM, XMPP) does so with accounts, and nobody else goes rounds.
pub fn accounts(plan: &Plan) -> Result<(), String> {
    for group in &plan.groups {
        let urls = if group.url.is_empty() { &plan.target.url } else { &group.url };
        let is_spoken = target::is_chat(urls);
        let sent = plan.stages.iter().flat_map(|stage| stage.traffic.get(&group.name)).flatten();
        if sent.clone().any(|traffic| traffic.loops.is_some()) && !is_spoken {
            let name = &group.name;
            return Err(format!("group {name}: `loops` needs im:// or xmpp://"));
        }
        let mut members = plan.conversations.iter();
        let is_member = |name: &String| *name == group.name;
        if group.scram && !is_spoken {
            return Err(format!("group {}: `scram` needs im:// or xmpp://", group.name));
        }
        let known = |topic: &str| plan.conversations.iter().any(|known| known.name == topic);
        let of_many = |it: &Traffic| it.topic.as_deref().is_some_and(known);
        let has_contacts = |it: &&Traffic| it.contacts.is_some();
        if sent.clone().filter(has_contacts).any(|it| !is_spoken || of_many(it)) {
            return Err(format!("group {}: `contacts` needs im:// or xmpp://", group.name));
        }
        let is_im = target::is_im(urls);
        if is_spoken && !is_im && sent.clone().any(|it| it.bytes > XMPP_MESSAGE_BYTES_MAX) {
            return Err(format!(
                "group {}: over xmpp:// a message has {XMPP_MESSAGE_BYTES_MAX} `bytes` at most",
                group.name
            ));
        }
        if is_spoken && !is_im && (group.audits || !group.subscribe.is_empty()) {
            return Err(format!(
                "group {} has `audits` or `subscribe`: inboxes are looked at, and chatrooms \
                 joined, over im://",
                group.name
            ));
        }
        let is_in =
            members.find(|known| is_member(&known.owner) || known.members.keys().any(is_member));
        if let Some(known) = is_in.filter(|_| !is_im) {
            let (name, known) = (&group.name, &known.name);
            return Err(format!(
                "group {name} is in the conversations `{known}`: those of many are over im://"
            ));
        }
        let topics = sent.filter_map(|traffic| traffic.topic.as_deref());
        let is_one = |topic: &&str| !plan.conversations.iter().any(|known| known.name == **topic);
        for topic in topics.filter(|_| is_spoken).filter(is_one) {
            let one = topic.replace("%i", "0");
            AccountAddress::parse(&one, "localhost").map_err(|why| {
                format!(
                    "group {} sends to `{topic}`, which is no account and no [[conversation]]: \
                     {why}",
                    group.name
                )
            })?;
        }
    }
    Ok(())
}
