//! Routes of chat: accounts and what is done in their names, groups, broadcasts.

use super::{Of, Route, delete, get, post, put};
use crate::fault::Refusal::{self, Busy, ChatRefused, NoAnswer, NotFound, TooFast};
use crate::routes::chat::{export, moves};
use crate::routes::{broadcasts, chat};
use crate::tokens::scope::Scope::{Admin, Chat, Manage, Read};

/// Of a route that finds something and may be told no.
const CHANGES: &[Refusal] = &[NotFound, ChatRefused, Busy, NoAnswer];

/// Of one that sends.
const SENDS: &[Refusal] = &[NotFound, ChatRefused, TooFast, Busy, NoAnswer];

/// Of one that looks.
const FINDS: &[Refusal] = &[NotFound, Busy, NoAnswer];

/// Accounts.
#[rustfmt::skip] // a row a route
pub(super) fn accounts() -> Vec<Route> {
    use Of::Other;
    vec![
        get("/v1/chat/accounts/{account}", chat::account)
            .wants(&[Read, Chat], Other).refuses(FINDS)
            .told("getChatAccount", "An account of chat", "What is known of it."),
        put("/v1/chat/accounts/{account}", chat::open).wants(&[Chat], Other).refuses(CHANGES)
            .told("openChatAccount", "Make an account of chat that nobody has logged in to",
                "It is there: it may be written to, and spoken for. One that was there is as it \
                 was; one that is being erased is not made before that is over (`erasing`)."),
        delete("/v1/chat/accounts/{account}", chat::erase)
            .wants(&[Admin], Other).refuses(CHANGES)
            .told("eraseChatAccount", "Erase an account",
                "How far it is; asked again, until `erased`, or until there is no such account.")
            .more("It is on stable storage that it is to be erased, its sessions have ended, \
                   nobody logs in by its name, and the book has the name no more. Then what \
                   it said is called back, in every conversation; it leaves its groups (one \
                   that it owns is handed over, or dissolved when it is alone), its contacts \
                   and nodes go, and all rows of it. It goes on over a restart. The call is \
                   kept in the audit log."),
        post("/v1/chat/accounts/{account}/kick", chat::kick)
            .wants(&[Manage], Other).refuses(&[Busy, NoAnswer])
            .told("kickChatAccount", "End its sessions of chat", "How many there were."),
        put("/v1/chat/accounts/{account}/mute", chat::mute).wants(&[Manage], Other)
            .refuses(CHANGES)
            .told("muteChatAccount", "Mute an account: it may say nothing for a time",
                "It is muted, on stable storage: what it sends is refused as `silenced`, over \
                 every protocol."),
        delete("/v1/chat/accounts/{account}/mute", chat::unmute)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("unmuteChatAccount", "Lift its mute", "It may say something again."),
        get("/v1/chat/accounts/{account}/conversations", chat::conversations)
            .wants(&[Chat], Other).watched().refuses(FINDS)
            .told("listConversations", "Its conversations, with what is unread", "A page."),
        get("/v1/chat/accounts/{account}/contacts", chat::contacts)
            .wants(&[Chat], Other).refuses(FINDS)
            .told("listContacts", "Whom it knows", "A page."),
        get("/v1/chat/accounts/{account}/history", chat::history)
            .wants(&[Chat], Other).watched().refuses(CHANGES)
            .told("getHistory", "What was said between it and another one, or in a group of it",
                "A page: from `after` forwards, or from `before` backwards.")
            .more("The call is kept in the audit log, and nothing of the messages."),
        get("/v1/chat/accounts/{account}/export", export::export)
            .wants(&[Admin], Other).watched().refuses(FINDS)
            .told("exportChatAccount", "All that is kept of an account",
                "Lines of JSON, read as they are taken: the account, its settings, contacts, \
                 conversations, groups, ways to be woken (without tokens), nodes with their items, \
                 then all of its inbox, with what it was about files. The last line is `end`; with \
                 another one the export is not whole.")
            .more("The call is kept in the audit log. It counts among `[api] streams_max`."),
        post("/v1/chat/moves", moves::moves).wants(&[Admin], Other).refuses(&[Busy, NoAnswer])
            .told("moveChat", "Take in what accounts have on another server",
                "What became of each. Given again, nothing is there twice: a message that is not \
                 newer than the last of its conversation is passed over.")
            .more("Contacts ask and grant as they would themselves, in any order. Messages stand \
                   at their times: bring all in that order, a group before what was said in it, \
                   before people talk here. Webhooks, phones and other domains hear nothing."),
        post("/v1/chat/accounts/{account}/messages", chat::send)
            .wants(&[Chat], Other).refuses(SENDS)
            .told("sendMessage", "Say something in its name",
                "It is on stable storage. What holds for the account's devices holds here: blocks, \
                 mutes, limits, filters. The account `system` is the server's own: nothing stands \
                 in its way, and groups hear it though it is no member."),
        post("/v1/chat/accounts/{account}/recall", chat::recall)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("recallMessage", "Call back a message between it and another one",
                "It is in no page that is asked for afterwards, whoever of the two said it and \
                 however long ago."),
    ]
}

/// Messages to many accounts.
#[rustfmt::skip] // a row a route
pub(super) fn broadcasts() -> Vec<Route> {
    use Of::Other;
    vec![
        post("/v1/chat/broadcasts", broadcasts::begin).wants(&[Chat], Other).refuses(&[Busy])
            .told("beginBroadcast", "Say something to many accounts",
                "It is begun: `GET` it to see how far it is.")
            .more("In slices of 64, each account its own message. It ends with the server; begun \
                   again with the same `client_id` nobody has it twice. Four go on at once, and \
                   the last 64 are remembered."),
        get("/v1/chat/broadcasts", broadcasts::list).wants(&[Read, Chat], Other)
            .told("listBroadcasts", "Broadcasts that are remembered", "The newest first."),
        get("/v1/chat/broadcasts/{broadcast}", broadcasts::one)
            .wants(&[Read, Chat], Other).refuses(&[NotFound])
            .told("getBroadcast", "How far a broadcast is", "Its counts."),
        delete("/v1/chat/broadcasts/{broadcast}", broadcasts::cancel)
            .wants(&[Chat], Other).refuses(&[NotFound])
            .told("cancelBroadcast", "Cancel a broadcast",
                "No further slice is begun; what was sent was sent."),
    ]
}

/// Chatrooms.
#[rustfmt::skip] // a row a route
pub(super) fn chatrooms() -> Vec<Route> {
    use Of::Other;
    vec![
        get("/v1/chat/chatrooms", chat::chatrooms).wants(&[Read, Chat], Other)
            .refuses(&[Busy, NoAnswer])
            .told("listChatrooms", "Chatrooms", "A page, in the order of their addresses."),
        post("/v1/chat/chatrooms/{room}/changes", chat::change_chatroom)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("changeChatroom", "Do something to a chatroom and those who are in it",
                "It is done, on stable storage.")
            .more("`create`, `rename`, `announce`, `promote`, `demote`, `mute`, `unmute`, `kick`, \
                   `ban`, `unban`, `quiet`, `open`, `close`. One that is created so belongs to the \
                   server's own account; to say something there, send a message in that name."),
    ]
}

/// Groups, which rooms of XMPP are.
#[rustfmt::skip] // a row a route
pub(super) fn groups() -> Vec<Route> {
    use Of::Other;
    vec![
        post("/v1/chat/groups", chat::make_group).wants(&[Chat], Other).refuses(CHANGES)
            .told("makeGroup", "Make a group in the name of its owner", "It is made."),
        get("/v1/chat/groups", chat::groups).wants(&[Read, Chat], Other).refuses(FINDS)
            .told("listGroups", "All groups", "A page; while `next` is there, it is not the last."),
        get("/v1/chat/groups/{group}", chat::group).wants(&[Read, Chat], Other).refuses(CHANGES)
            .told("getGroup", "A group, with a page of its members",
                "With another version than the query's the list begins again."),
        post("/v1/chat/groups/{group}/changes", chat::change)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("changeGroup", "Do something to a group and its members",
                "It is done, and every member is told of it by the server's own account.")
            .more("`add`, `remove`, `hand-over`, `promote`, `demote`, `mute`, `unmute`, `close`, \
                   `open`, `rename`, `dissolve`. The owner is not removed or muted: hand the \
                   group over first."),
        get("/v1/chat/groups/{group}/history", chat::group_history)
            .wants(&[Chat], Other).watched().refuses(CHANGES)
            .told("getGroupHistory", "What was said in a group", "A page.")
            .more("The call is kept in the audit log, and nothing of the messages."),
        post("/v1/chat/groups/{group}/recall", chat::group_recall)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("recallGroupMessage", "Call back a message of a group",
                "It is in no page that is asked for afterwards."),
    ]
}
