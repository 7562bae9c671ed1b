//! Chat: accounts and groups, what is said, and what an operator does about it.
//!
//! A call in the name of an account goes the way that one of its devices would go ([`Errand`]); an
//! operator's change of a group or a message is made by the server's own account. Invariant: every
//! answer of the chat service has a body here, or is a fault.

pub(crate) mod export;
pub(crate) mod moves;

use super::{Asked, Part, asked, part, users};
use crate::answers::chat::{self as answers, Account, Ended, Erasure, Sent};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::orders::chat::{
    self as orders, ChangeBody, ContactsQuery, ConversationsQuery, GroupBody, GroupsQuery,
    HistoryQuery, MembersQuery, MessageBody, MuteBody, RecallBody,
};
use crate::orders::chatrooms::{ChatroomBody, ChatroomsQuery, chatroom as chatroom_of};
use crate::table::About;
use axum::extract::State;
use axum::{Extension, Json};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ClientMessageId, GroupChanged, MembersRange, NewMessage};
use model::ports::chat::{
    ChatAccountStatus, ChatAnswer, ChatCommand, Errand, ErrandWhat, SYSTEM_NAME,
};
use model::ports::control::{Answer, Command};
use model::ports::users::Authority;
use model::timeline::Seq;

type Told<T> = Result<Json<T>, Fault>;

/// An answer, and the account or group that it is about, for the audit log.
type ToldAbout<T> = Result<(Extension<About>, Json<T>), Fault>;

/// `GET /v1/chat/accounts/{account}`
pub(crate) async fn account(State(api): Api, path: Part) -> Told<Account> {
    let account = of(&api, path)?;
    look(&api, &account, ChatCommand::Account(account.clone())).await
}

/// `PUT /v1/chat/accounts/{account}`: makes it, if it is not there.
pub(crate) async fn open(State(api): Api, path: Part) -> Told<Account> {
    let account = of(&api, path)?;
    look(&api, &account, ChatCommand::Open(account.clone())).await
}

/// `POST /v1/chat/accounts/{account}/kick`
pub(crate) async fn kick(State(api): Api, path: Part) -> Told<Ended> {
    match ask(&api, ChatCommand::Kick(of(&api, path)?)).await? {
        ChatAnswer::Ended(ended) => Ok(Json(Ended { ended })),
        _ => Err(Fault::internal()),
    }
}

/// `DELETE /v1/chat/accounts/{account}`: erases the account, or returns how far its erasure is. The
/// name leaves the book once the order to erase is on stable storage.
pub(crate) async fn erase(State(api): Api, path: Part) -> ToldAbout<Erasure> {
    let account = of(&api, path)?;
    let told = ask(&api, ChatCommand::Erase(account.clone())).await?;
    let ChatAnswer::Erasing(status) = told else { return Err(Fault::internal()) };
    let is_own = account.domain() == api.settings.chat_domain;
    let name = if is_own { account.name() } else { account.as_str() }.to_owned();
    let book = name.clone();
    let removed = users::ask(&api, move |users| users.remove(&book, Authority::Admin)).await?;
    let user_removed = removed.map_err(users::fault)?;
    if user_removed {
        users::end_outdated(&api, vec![name]).await;
    }
    if status.is_none() && !user_removed {
        return Err(Fault::unknown("account"));
    }
    let (step, messages) = status.map_or((None, 0), |it| (Some(it.step), it.messages));
    let about = about(&account, "erase", "");
    Ok((about, Json(Erasure { erased: step.is_none(), step, messages, user_removed })))
}

/// `PUT /v1/chat/accounts/{account}/mute`
pub(crate) async fn mute(State(api): Api, path: Part, body: Body<MuteBody>) -> Told<Account> {
    let account = of(&api, path)?;
    let until_s = body.read()?.until_s((api.settings.wall_ms)())?;
    look(&api, &account, ChatCommand::Mute(account.clone(), until_s)).await
}

/// `DELETE /v1/chat/accounts/{account}/mute`
pub(crate) async fn unmute(State(api): Api, path: Part) -> Told<Account> {
    let account = of(&api, path)?;
    look(&api, &account, ChatCommand::Mute(account.clone(), 0)).await
}

/// `GET /v1/chat/accounts/{account}/conversations`
pub(crate) async fn conversations(
    State(api): Api,
    path: Part,
    query: Asked<ConversationsQuery>,
) -> Told<answers::Conversations> {
    let (by, query) = (of(&api, path)?, asked(query)?);
    let (before, groups) = (query.before.unwrap_or(Seq::MAX), query.groups.unwrap_or_default());
    let what = ErrandWhat::Conversations { before, count: orders::page(query.limit)?, groups };
    match run(&api, errand(by, what)).await? {
        ChatDelivery::Conversations(page) => Ok(Json((&*page).into())),
        other => Err(fault(&other)),
    }
}

/// `GET /v1/chat/accounts/{account}/contacts`
pub(crate) async fn contacts(
    State(api): Api,
    path: Part,
    query: Asked<ContactsQuery>,
) -> Told<answers::Contacts> {
    let (by, query) = (of(&api, path)?, asked(query)?);
    match run(&api, errand(by, ErrandWhat::Contacts(query.range()?))).await? {
        ChatDelivery::ContactsPage(page) => Ok(Json((&*page).into())),
        other => Err(fault(&other)),
    }
}

/// `GET /v1/chat/accounts/{account}/history`
pub(crate) async fn history(
    State(api): Api,
    path: Part,
    query: Asked<HistoryQuery>,
) -> Told<answers::History> {
    let (by, query) = (of(&api, path)?, asked(query)?);
    let what = ErrandWhat::History(Box::new(query.range(None)?));
    told_history(run(&api, errand(by, what)).await?)
}

/// `POST /v1/chat/accounts/{account}/messages`: says something in its name.
pub(crate) async fn send(State(api): Api, path: Part, body: Body<MessageBody>) -> ToldAbout<Sent> {
    let by = of(&api, path)?;
    let message = body.read()?.message(&api.limits().chat, || made_up(&api))?;
    let about = about(&by, "to", message.to.as_str());
    Ok((about, Json(say(&api, by, message).await?)))
}

/// `POST /v1/chat/accounts/{account}/recall`: any message of its conversation with another one.
pub(crate) async fn recall(State(api): Api, path: Part, body: Body<RecallBody>) -> ToldAbout<Sent> {
    let (by, body) = (of(&api, path)?, body.read()?);
    let with = body
        .with()?
        .ok_or_else(|| Fault::bad("`with` is missing: the other account of the conversation"))?;
    let about = about(&by, &format!("message {} with", body.seq), with.as_str());
    let what = body.errand(with);
    Ok((about, Json(sent(run(&api, operators(by, what)).await?)?)))
}

/// `GET /v1/chat/groups`: all of them, from one shard after the other.
pub(crate) async fn groups(State(api): Api, query: Asked<GroupsQuery>) -> Told<answers::Groups> {
    let (shard, after, count) = asked(query)?.part()?;
    match ask(&api, ChatCommand::Groups { shard, after, count }).await? {
        ChatAnswer::Groups(page) => Ok(Json(answers::Groups::new(shard, &page))),
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/chat/groups`: makes a group.
pub(crate) async fn make_group(State(api): Api, body: Body<GroupBody>) -> ToldAbout<Sent> {
    let body = body.read()?;
    let owner = orders::account(&body.owner, &api.settings.chat_domain)?;
    let order = body.order(owner.domain(), || made_up(&api))?;
    let what = ErrandWhat::Group(Box::new(order));
    let made = sent(run(&api, errand(owner.clone(), what)).await?)?;
    let group = made.group.clone().unwrap_or_default();
    Ok((about(&owner, "made", &group), Json(made)))
}

/// `GET /v1/chat/groups/{group}`
pub(crate) async fn group(
    State(api): Api,
    path: Part,
    query: Asked<MembersQuery>,
) -> Told<answers::Group> {
    let (group, query) = (of_group(&api, path)?, asked(query)?);
    let count = query.count()?;
    let (version, from) = (query.version.unwrap_or_default(), query.after.unwrap_or_default());
    let range = MembersRange { group: group.clone().into(), version, from, count, banned: false };
    let what = ErrandWhat::Members(Box::new(range));
    match run(&api, operators(system(&api)?, what)).await? {
        ChatDelivery::Members(page) => Ok(Json((&*page).into())),
        other => Err(fault(&other)),
    }
}

/// `POST /v1/chat/groups/{group}/changes`
pub(crate) async fn change(State(api): Api, path: Part, body: Body<ChangeBody>) -> ToldAbout<Sent> {
    let group = of_group(&api, path)?;
    let order = body.read()?.order(&group, || made_up(&api))?;
    let names: Vec<&str> = order.members.iter().map(|member| member.as_str()).collect();
    let about = about(&group, order.verb.word(), &names.join(" "));
    let what = ErrandWhat::Group(Box::new(order));
    Ok((about, Json(sent(run(&api, operators(system(&api)?, what)).await?)?)))
}

/// `GET /v1/chat/groups/{group}/history`
pub(crate) async fn group_history(
    State(api): Api,
    path: Part,
    query: Asked<HistoryQuery>,
) -> Told<answers::History> {
    let (group, query) = (of_group(&api, path)?, asked(query)?);
    let range = query.range(Some(&group))?;
    let what = ErrandWhat::History(Box::new(range));
    told_history(run(&api, operators(system(&api)?, what)).await?)
}

/// `POST /v1/chat/groups/{group}/recall`
pub(crate) async fn group_recall(
    State(api): Api,
    path: Part,
    body: Body<RecallBody>,
) -> ToldAbout<Sent> {
    let (group, body) = (of_group(&api, path)?, body.read()?);
    if body.with()?.is_some() {
        return Err(Fault::bad("omit `with` for a message of a group"));
    }
    let about = about(&group, "message", &body.seq.to_string());
    let what = body.errand(group.into());
    Ok((about, Json(sent(run(&api, operators(system(&api)?, what)).await?)?)))
}

/// `GET /v1/chat/chatrooms`
pub(crate) async fn chatrooms(
    State(api): Api,
    query: Asked<ChatroomsQuery>,
) -> Told<answers::Chatrooms> {
    let query = asked(query)?;
    let after = query.after.as_ref().map(|text| chatroom_of(text, &api.settings.chat_domain));
    let (after, count) = (after.transpose()?, orders::page(query.limit)?);
    // One more than requested shows whether there are more.
    match ask(&api, ChatCommand::Chatrooms { after, count: count + 1 }).await? {
        ChatAnswer::Chatrooms(found) => Ok(Json(answers::Chatrooms::new(&found, count))),
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/chat/chatrooms/{room}/changes`
pub(crate) async fn change_chatroom(
    State(api): Api,
    path: Part,
    body: Body<ChatroomBody>,
) -> ToldAbout<answers::ChatroomDone> {
    let room = chatroom_of(&part(path)?, &api.settings.chat_domain)?;
    let order = body.read()?.order(&room)?;
    let names: Vec<&str> = order.accounts.iter().map(|one| one.as_str()).collect();
    let about = about(&room, order.verb.word(), &names.join(" "));
    let what = ErrandWhat::Chatroom(Box::new(order));
    match run(&api, operators(system(&api)?, what)).await? {
        ChatDelivery::Done { .. } => {
            Ok((about, Json(answers::ChatroomDone { room: room.to_string() })))
        }
        other => Err(fault(&other)),
    }
}

/// Sends a message in the name of an account; the server's own account may write to every account.
pub(crate) async fn say(
    api: &Shared,
    by: AccountAddress,
    message: NewMessage,
) -> Result<Sent, Fault> {
    let is_operators = by.is_system();
    let what = ErrandWhat::Send(Box::new(message));
    sent(run(api, Errand { by, is_operators, what }).await?)
}

fn told_history(told: ChatDelivery) -> Told<answers::History> {
    match told {
        ChatDelivery::History(page) => Ok(Json((&*page).into())),
        other => Err(fault(&other)),
    }
}

/// In the name of an account, as one of its devices.
pub(crate) fn errand(by: AccountAddress, what: ErrandWhat) -> Errand {
    Errand { by, is_operators: false, what }
}

/// In the name of an account, with the rights of an operator.
fn operators(by: AccountAddress, what: ErrandWhat) -> Errand {
    Errand { by, is_operators: true, what }
}

/// Asks; a refusal is a fault.
async fn ask(api: &Shared, command: ChatCommand) -> Result<ChatAnswer, Fault> {
    match api.ask(Command::Chat(command)).await? {
        Answer::Chat(ChatAnswer::StoreFailed) => Err(Fault::store()),
        Answer::Chat(ChatAnswer::MutesFull) => Err(Fault::mutes_full()),
        Answer::Chat(answer) => Ok(answer),
        _ => Err(Fault::internal()),
    }
}

/// An account that is there.
pub(crate) async fn status(
    api: &Shared,
    account: &AccountAddress,
) -> Result<ChatAccountStatus, Fault> {
    match ask(api, ChatCommand::Account(account.clone())).await? {
        ChatAnswer::Account(Some(status)) => Ok(status),
        ChatAnswer::Account(None) => Err(Fault::unknown("account")),
        _ => Err(Fault::internal()),
    }
}

async fn look(api: &Shared, account: &AccountAddress, command: ChatCommand) -> Told<Account> {
    match ask(api, command).await? {
        ChatAnswer::Account(Some(status)) => Ok(Json(Account::new(account.as_str(), &status))),
        ChatAnswer::Account(None) => Err(Fault::unknown("account")),
        ChatAnswer::Erasing(_) => Err(Fault::erasing()),
        _ => Err(Fault::internal()),
    }
}

/// Runs an errand; an unknown account is a fault.
pub(crate) async fn run(api: &Shared, errand: Errand) -> Result<ChatDelivery, Fault> {
    match ask(api, ChatCommand::Errand(Box::new(errand))).await? {
        ChatAnswer::Told(Some(told)) => Ok(*told),
        ChatAnswer::Told(None) => Err(Fault::unknown("account")),
        ChatAnswer::Erasing(_) => Err(Fault::erasing()),
        _ => Err(Fault::internal()),
    }
}

/// A message that was taken, or a change.
fn sent(told: ChatDelivery) -> Result<Sent, Fault> {
    match told {
        ChatDelivery::Sent { id, seq, at_ms, again, .. } => {
            Ok(Sent { group: None, id: id.to_string(), seq, at_ms, again })
        }
        ChatDelivery::Changed(changed) => {
            let GroupChanged { group, id, seq, at_ms, again, .. } = *changed;
            Ok(Sent { group: Some(group.to_string()), id: id.to_string(), seq, at_ms, again })
        }
        other => Err(fault(&other)),
    }
}

/// Answer that a device would have got.
pub(crate) fn fault(told: &ChatDelivery) -> Fault {
    match told {
        ChatDelivery::Failed { why, .. } => Fault::chat(*why),
        ChatDelivery::Rejected(rejected) => Fault::rejected(rejected),
        _ => Fault::internal(),
    }
}

/// An id for a message that came without one.
pub(crate) fn made_up(api: &Shared) -> ClientMessageId {
    let mut bytes = [0; 16];
    (api.settings.random)(&mut bytes);
    ClientMessageId(bytes)
}

/// Subject of a call, for the audit log: without the content of messages.
fn about(whom: &AccountAddress, what: &str, other: &str) -> Extension<About> {
    Extension(About(format!("{whom} {what} {other}").trim_end().to_owned()))
}

/// The account that a path names.
pub(crate) fn of(api: &Shared, path: Part) -> Result<AccountAddress, Fault> {
    orders::account(&part(path)?, &api.settings.chat_domain)
}

fn of_group(api: &Shared, path: Part) -> Result<AccountAddress, Fault> {
    orders::group(&part(path)?, &api.settings.chat_domain)
}

/// The account in which the server itself speaks.
fn system(api: &Shared) -> Result<AccountAddress, Fault> {
    orders::account(SYSTEM_NAME, &api.settings.chat_domain)
}
