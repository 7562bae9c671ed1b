//! An export of an account of chat: lines of JSON, made as they are read.
//!
//! ```text
//! account, settings ─► contacts ─► conversations, groups ─► pushes ─► nodes, items ─► inbox ─► end
//! ```
//! Each part is asked for by errands, a page at a time, when the reader has taken the one before:
//! nothing of it waits here. Invariant: an export whose last line is `end` has all that was there
//! when it began, and nothing twice; one that could not be read ends with `fault`, also because a
//! page did not go on where the one before ended.

use super::{Part, errand, run};
use crate::answers::chat::Account;
use crate::answers::chat::export::*;
use crate::api::{Api, Shared};
use crate::describe::{AnswerBody, Answers, Operation};
use crate::fault::Fault;
use crate::guard::Visitor;
use crate::routes::chat as routes;
use crate::table::About;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ContactsRange, Content, ItemsChosen, ItemsWanted, MembersRange, NodeSpace,
    NodesAsk, NodesFault, NodesFound,
};
use model::limits::seats::SourceSeat;
use model::media::FileNote;
use model::ports::chat::ErrandWhat;
use model::timeline::Seq;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Data requested at once.
const PAGE: u16 = 64;

/// How often what is busy is asked again, and after which pause.
const TRIES_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Lines of JSON.
pub(crate) struct Lines(Response);

impl IntoResponse for Lines {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Answers for Lines {
    fn answers(operation: &mut Operation<'_>) {
        let of = vec![operation.schemas.written.subschema_for::<ExportLine>()];
        operation.content = AnswerBody::pieces(&["application/x-ndjson"], of);
    }
}

/// Next request.
enum Step {
    Settings,
    Contacts {
        after: u64,
        since: u64,
    },
    Conversations {
        before: Seq,
        groups: bool,
    },
    /// Groups of which it is asked whether the account is still a member.
    Members(VecDeque<AccountAddress>, Option<Seq>),
    Pushes,
    Nodes,
    /// How each of these is that is published.
    Published {
        left: VecDeque<Box<str>>,
        nodes: Vec<(NodeSpace, Box<str>)>,
    },
    Kept(Vec<(NodeSpace, Box<str>)>),
    Items {
        nodes: VecDeque<(NodeSpace, Box<str>)>,
        after: Option<Box<str>>,
    },
    Inbox {
        after: Seq,
    },
    End {
        upto: Seq,
    },
    Over,
}

/// An export that is under way.
struct Export {
    api: Arc<Shared>,
    by: AccountAddress,
    step: Step,
    /// Lines that were written.
    lines: u64,
    _permit: SourceSeat,
}

/// `GET /v1/chat/accounts/{account}/export`
pub(crate) async fn export(
    State(api): Api,
    Extension(visitor): Extension<Visitor>,
    path: Part,
) -> Result<(Extension<About>, Lines), Fault> {
    let by = routes::of(&api, path)?;
    let permit = api.stream_seat(&visitor)?;
    let status = routes::status(&api, &by).await?;
    let about = Extension(About(format!("{by} export")));
    let first = line(&ExportLine::Account(Account::new(by.as_str(), &status)));
    let export = Export { api, by, step: Step::Settings, lines: 1, _permit: permit };
    let told = stream::unfold((Some(first), export), |(first, mut export)| async {
        if let Some(first) = first {
            return Some((Ok::<_, Infallible>(first), (None, export)));
        }
        let text = export.next().await?;
        Some((Ok(text), (None, export)))
    });
    let response = ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(told));
    Ok((about, Lines(response.into_response())))
}

fn line(line: &ExportLine) -> String {
    let mut text = serde_json::to_string(line).expect("text for keys");
    text.push('\n');
    text
}

impl Export {
    /// The next lines; `None` behind the last.
    async fn next(&mut self) -> Option<String> {
        if matches!(self.step, Step::Over) {
            return None;
        }
        let lines = match self.page().await {
            Ok(lines) => lines,
            Err(fault) => {
                self.step = Step::Over;
                vec![ExportLine::Fault(FaultTold { code: fault.code().into() })]
            }
        };
        self.lines += lines.len() as u64;
        Some(lines.iter().map(line).collect())
    }

    /// Asks in the account's name; what is busy is asked again.
    async fn ask(&self, what: ErrandWhat) -> Result<ChatDelivery, Fault> {
        let mut tries = 0;
        loop {
            let told = run(&self.api, errand(self.by.clone(), what.clone())).await;
            let fault = match told {
                Ok(told @ ChatDelivery::Failed { .. }) => routes::fault(&told),
                Ok(told) => return Ok(told),
                Err(fault) => fault,
            };
            tries += 1;
            if !fault.comes_back() || tries >= TRIES_MAX {
                return Err(fault);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn page(&mut self) -> Result<Vec<ExportLine>, Fault> {
        match std::mem::replace(&mut self.step, Step::Over) {
            Step::Settings => self.settings().await,
            Step::Contacts { after, since } => self.contacts((after, since)).await,
            Step::Conversations { before, groups } => self.conversations(before, groups).await,
            Step::Members(groups, next) => self.members(groups, next).await,
            Step::Pushes => self.pushes().await,
            Step::Nodes => self.nodes().await,
            Step::Published { left, nodes } => self.published(left, nodes).await,
            Step::Kept(nodes) => self.kept(nodes).await,
            Step::Items { nodes, after } => self.items(nodes, after).await,
            Step::Inbox { after } => self.inbox(after).await,
            Step::End { upto } => Ok(vec![ExportLine::End(EndTold { lines: self.lines, upto })]),
            Step::Over => Ok(Vec::new()),
        }
    }

    async fn settings(&mut self) -> Result<Vec<ExportLine>, Fault> {
        let told = self.ask(ErrandWhat::Privacy).await?;
        let ChatDelivery::Privacy { state, .. } = told else { return unexpected(&told) };
        let (shares_reads, adding) = (state.shares_reads, state.adding.name());
        let told = self.ask(ErrandWhat::Pushes).await?;
        let ChatDelivery::PushStatus(status) = &told else { return unexpected(&told) };
        let quiet = status
            .quiet
            .map(|it| [i32::from(it.from_min), i32::from(it.to_min), i32::from(it.offset_min)]);
        self.step = Step::Contacts { after: 0, since: 0 };
        Ok(vec![ExportLine::Settings(Settings { shares_reads, adding, quiet })])
    }

    async fn contacts(&mut self, (after, since): (u64, u64)) -> Result<Vec<ExportLine>, Fault> {
        let range = ContactsRange { after, since, count: PAGE };
        let told = self.ask(ErrandWhat::Contacts(range)).await?;
        let ChatDelivery::ContactsPage(page) = &told else { return unexpected(&told) };
        self.step = match page.more {
            true if page.upto <= after => return unexpected(&told),
            true => Step::Contacts { after: page.upto, since: page.since },
            false => Step::Conversations { before: Seq::MAX, groups: false },
        };
        let there = page.contacts.iter().filter(|contact| !contact.is_gone());
        Ok(there.map(|contact| ExportLine::Contact((&**contact).into())).collect())
    }

    /// All conversations that are not hidden; then those with groups, hidden ones too.
    async fn conversations(&mut self, before: Seq, groups: bool) -> Result<Vec<ExportLine>, Fault> {
        let told = self.ask(ErrandWhat::Conversations { before, count: PAGE, groups }).await?;
        let ChatDelivery::Conversations(page) = &told else { return unexpected(&told) };
        let next = page.conversations.last().filter(|_| page.more).map(|last| last.place);
        if next.is_some_and(|next| next >= before) {
            return unexpected(&told);
        }
        if groups {
            let all = page.conversations.iter().map(|it| it.with.clone()).collect();
            self.step = Step::Members(all, next);
            let hidden = page.conversations.iter().filter(|it| it.hidden);
            return Ok(hidden.map(|it| ExportLine::Conversation(it.into())).collect());
        }
        self.step = match next {
            Some(before) => Step::Conversations { before, groups },
            None => Step::Conversations { before: Seq::MAX, groups: true },
        };
        Ok(page.conversations.iter().map(|it| ExportLine::Conversation(it.into())).collect())
    }

    async fn members(
        &mut self,
        mut groups: VecDeque<AccountAddress>,
        next: Option<Seq>,
    ) -> Result<Vec<ExportLine>, Fault> {
        let Some(group) = groups.pop_front() else {
            self.step = match next {
                Some(before) => Step::Conversations { before, groups: true },
                None => Step::Pushes,
            };
            return Ok(Vec::new());
        };
        let range =
            MembersRange { group: group.into(), version: 0, from: 0, count: 1, banned: false };
        let told = self.ask(ErrandWhat::Members(Box::new(range))).await;
        self.step = Step::Members(groups, next);
        match told {
            Ok(ChatDelivery::Members(page)) => Ok(vec![ExportLine::Group((&*page).into())]),
            Ok(told) => unexpected(&told),
            // The account has left the group.
            Err(fault) if fault.code() == Fault::unknown("group").code() => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }

    async fn pushes(&mut self) -> Result<Vec<ExportLine>, Fault> {
        let told = self.ask(ErrandWhat::Pushes).await?;
        let ChatDelivery::PushStatus(status) = &told else { return unexpected(&told) };
        self.step = Step::Nodes;
        Ok(status.registrations.iter().map(|it| ExportLine::Push(it.into())).collect())
    }

    /// Asks for nodes, which is answered by what was found, or why not.
    async fn ask_nodes(&self, ask: NodesAsk) -> Result<Result<NodesFound, NodesFault>, Fault> {
        match self.ask(ErrandWhat::Nodes(Box::new(ask))).await? {
            ChatDelivery::Nodes(answer) => Ok(answer.result),
            told => unexpected(&told),
        }
    }

    async fn names(&self, ask: NodesAsk) -> Result<Box<[Box<str>]>, Fault> {
        match self.ask_nodes(ask).await? {
            Ok(NodesFound::Names(names)) => Ok(names),
            _ => Err(Fault::busy()),
        }
    }

    async fn nodes(&mut self) -> Result<Vec<ExportLine>, Fault> {
        let left = self.names(NodesAsk::Names).await?.into_vec().into();
        self.step = Step::Published { left, nodes: Vec::new() };
        Ok(Vec::new())
    }

    async fn published(
        &mut self,
        mut left: VecDeque<Box<str>>,
        mut nodes: Vec<(NodeSpace, Box<str>)>,
    ) -> Result<Vec<ExportLine>, Fault> {
        let Some(name) = left.pop_front() else {
            self.step = Step::Kept(nodes);
            return Ok(Vec::new());
        };
        let found = self.ask_nodes(NodesAsk::Node(name.clone())).await?;
        let mut lines = Vec::new();
        // A node that was deleted meanwhile is skipped.
        if let Ok(NodesFound::Node(found)) = found {
            lines.push(ExportLine::Node(NodeTold::new(&name, Some(&found.config))));
            nodes.push((NodeSpace::Published, name));
        }
        self.step = Step::Published { left, nodes };
        Ok(lines)
    }

    async fn kept(
        &mut self,
        mut nodes: Vec<(NodeSpace, Box<str>)>,
    ) -> Result<Vec<ExportLine>, Fault> {
        let names = self.names(NodesAsk::KeptNames).await?;
        let lines = names.iter().map(|name| ExportLine::Node(NodeTold::new(name, None)));
        let lines = lines.collect();
        nodes.extend(names.into_iter().map(|name| (NodeSpace::Kept, name)));
        self.step = Step::Items { nodes: nodes.into(), after: None };
        Ok(lines)
    }

    async fn items(
        &mut self,
        mut nodes: VecDeque<(NodeSpace, Box<str>)>,
        after: Option<Box<str>>,
    ) -> Result<Vec<ExportLine>, Fault> {
        let Some((space, node)) = nodes.front().cloned() else {
            self.step = Step::Inbox { after: 0 };
            return Ok(Vec::new());
        };
        let which = ItemsChosen::After(after, PAGE.into());
        let wanted = ItemsWanted { space, node: node.clone(), which };
        let found = self.ask_nodes(NodesAsk::Items([wanted].into())).await?;
        let Ok(NodesFound::Items(parts)) = found else { return Err(Fault::busy()) };
        // A node that has gone meanwhile has no items.
        let items = parts.into_iter().flatten().next().map(|part| part.items).unwrap_or_default();
        let last = items.last().map(|item| item.id.clone());
        if last.is_none() {
            nodes.pop_front();
        }
        self.step = Step::Items { nodes, after: last };
        let of = (&*node, space == NodeSpace::Kept);
        Ok(items.iter().map(|item| ExportLine::Item(ItemTold::new(of, item))).collect())
    }

    async fn inbox(&mut self, after: Seq) -> Result<Vec<ExportLine>, Fault> {
        let told = self.ask(ErrandWhat::Inbox { after, count: PAGE }).await?;
        let ChatDelivery::Page(page) = &told else { return unexpected(&told) };
        let mut lines = Vec::new();
        for (place, message) in &page.messages {
            let place = *place;
            let message_told = MessageTold { place, message: (&**message).into() };
            lines.push((place, ExportLine::Message(message_told)));
            if message.content.kind == Content::FILE
                && let Some(note) = FileNote::parse(&message.content.extra)
            {
                lines.push((place, ExportLine::File(FileTold::new(place, &note))));
            }
        }
        let events = page.events.iter();
        lines.extend(
            events.map(|(place, it)| (*place, ExportLine::Event(EventTold::new(*place, it)))),
        );
        lines.sort_by_key(|(place, _)| *place);
        self.step = match page.upto > after {
            true => Step::Inbox { after: page.upto },
            false => Step::End { upto: page.upto },
        };
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }
}

fn unexpected<T>(told: &ChatDelivery) -> Result<T, Fault> {
    Err(routes::fault(told))
}
