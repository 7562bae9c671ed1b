//! Routes of chat: accounts and what is done in their names, groups, broadcasts.

use super::{Of, Route, delete, get, post, put};
use crate::fault::Refusal::{self, Busy, ChatRefused, NoAnswer, NotFound, TooFast};
use crate::routes::chat::{export, moves};
use crate::routes::{broadcasts, chat};
use crate::tokens::scope::Scope::{Admin, Chat, Manage, Read};

/// Refusals of a route that finds something and may be refused by chat.
const CHANGES: &[Refusal] = &[NotFound, ChatRefused, Busy, NoAnswer];

/// Refusals of a route that sends.
const SENDS: &[Refusal] = &[NotFound, ChatRefused, TooFast, Busy, NoAnswer];

/// Refusals of a route that reads.
const FINDS: &[Refusal] = &[NotFound, Busy, NoAnswer];

/// Accounts.
#[rustfmt::skip] // a row a route
pub(super) fn accounts() -> Vec<Route> {
    use Of::Other;
    vec![
        get("/v1/chat/accounts/{account}", chat::account)
            .wants(&[Read, Chat], Other).refuses(FINDS)
            .told("getChatAccount", "A chat account", "The account."),
        put("/v1/chat/accounts/{account}", chat::open).wants(&[Chat], Other).refuses(CHANGES)
            .told("openChatAccount", "Create a chat account before its first login",
                "It exists: others can write to it, and the API can act for it. An existing one is \
                 unchanged; one being erased must be completely erased first (`erasing`)."),
        delete("/v1/chat/accounts/{account}", chat::erase)
            .wants(&[Admin], Other).refuses(CHANGES)
            .told("eraseChatAccount", "Erase an account",
                "The progress. Repeat the call until `erased`, or until the account is unknown.")
            .more("The erasure is on stable storage, the account's sessions have ended, nobody can \
                   log in with its name, and the name is no longer in the user database. Then its \
                   messages are recalled in every conversation; it leaves its groups (a group that \
                   it owns is handed over, or dissolved if it is the only member), and its \
                   contacts, PEP nodes and all its rows are deleted. A restart does not interrupt \
                   the erasure. The call is recorded in the audit log."),
        post("/v1/chat/accounts/{account}/kick", chat::kick)
            .wants(&[Manage], Other).refuses(&[Busy, NoAnswer])
            .told("kickChatAccount", "End an account's chat sessions", "Number of ended sessions."),
        put("/v1/chat/accounts/{account}/mute", chat::mute).wants(&[Manage], Other)
            .refuses(CHANGES)
            .told("muteChatAccount", "Mute an account for a time",
                "The account is muted, on stable storage: its messages are refused as `silenced`, \
                 over every protocol."),
        delete("/v1/chat/accounts/{account}/mute", chat::unmute)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("unmuteChatAccount", "Unmute an account", "The account may send again."),
        get("/v1/chat/accounts/{account}/conversations", chat::conversations)
            .wants(&[Chat], Other).watched().refuses(FINDS)
            .told("listConversations", "An account's conversations, with unread counts", "A page."),
        get("/v1/chat/accounts/{account}/contacts", chat::contacts)
            .wants(&[Chat], Other).refuses(FINDS)
            .told("listContacts", "An account's contacts", "A page."),
        get("/v1/chat/accounts/{account}/history", chat::history)
            .wants(&[Chat], Other).watched().refuses(CHANGES)
            .told("getHistory", "Messages between two accounts, or in one of the account's groups",
                "A page: from `after` forwards, or from `before` backwards.")
            .more("The call is recorded in the audit log, without message contents."),
        get("/v1/chat/accounts/{account}/export", export::export)
            .wants(&[Admin], Other).watched().refuses(FINDS)
            .told("exportChatAccount", "Export all data of an account",
                "JSON lines, generated while they are read: the account, its settings, contacts, \
                 conversations, groups, push registrations (without tokens), PEP nodes with their \
                 items, then its whole inbox, with file references. The last line is `end`; \
                 without it the export is incomplete.")
            .more("The call is recorded in the audit log. It counts in `[api] streams_max`."),
        post("/v1/chat/moves", moves::moves).wants(&[Admin], Other).refuses(&[Busy, NoAnswer])
            .told("moveChat", "Import accounts' data from another server",
                "The result for each. A repeated import duplicates nothing: messages not newer \
                 than the last of their conversation are skipped.")
            .more("Contact requests and approvals are applied as if the accounts sent them, in any \
                   order. Messages keep their times: import all of them in that order, a group \
                   before its messages, and before the accounts chat here. Webhooks, push \
                   notifications and other domains are not triggered."),
        post("/v1/chat/accounts/{account}/messages", chat::send)
            .wants(&[Chat], Other).refuses(SENDS)
            .told("sendMessage", "Send a message as an account",
                "The message is on stable storage. The rules for the account's devices apply: \
                 blocks, mutes, limits, filters. The account `system` is the server's own: it is \
                 exempt, and can write to groups without being a member."),
        post("/v1/chat/accounts/{account}/recall", chat::recall)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("recallMessage", "Recall a message between two accounts",
                "Later pages do not contain the message, whoever sent it and however old it is."),
    ]
}

/// Messages to many accounts.
#[rustfmt::skip] // a row a route
pub(super) fn broadcasts() -> Vec<Route> {
    use Of::Other;
    vec![
        post("/v1/chat/broadcasts", broadcasts::begin).wants(&[Chat], Other).refuses(&[Busy])
            .told("beginBroadcast", "Send a message to many accounts",
                "The broadcast has begun: `GET` it to see its progress.")
            .more("Sent in slices of 64, to each account as its own message. A restart ends a \
                   broadcast; begun again with the same `client_id`, no account gets it twice. At \
                   most four run at once, and the latest 64 are remembered."),
        get("/v1/chat/broadcasts", broadcasts::list).wants(&[Read, Chat], Other)
            .told("listBroadcasts", "Recent broadcasts", "The newest first."),
        get("/v1/chat/broadcasts/{broadcast}", broadcasts::one)
            .wants(&[Read, Chat], Other).refuses(&[NotFound])
            .told("getBroadcast", "Progress of a broadcast", "Its counts."),
        delete("/v1/chat/broadcasts/{broadcast}", broadcasts::cancel)
            .wants(&[Chat], Other).refuses(&[NotFound])
            .told("cancelBroadcast", "Cancel a broadcast",
                "No further slice is sent; sent messages remain."),
    ]
}

/// Chatrooms.
#[rustfmt::skip] // a row a route
pub(super) fn chatrooms() -> Vec<Route> {
    use Of::Other;
    vec![
        get("/v1/chat/chatrooms", chat::chatrooms).wants(&[Read, Chat], Other)
            .refuses(&[Busy, NoAnswer])
            .told("listChatrooms", "Chatrooms", "A page, by address."),
        post("/v1/chat/chatrooms/{room}/changes", chat::change_chatroom)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("changeChatroom", "Change a chatroom or its members", "Done, on stable storage.")
            .more("`create`, `rename`, `announce`, `promote`, `demote`, `mute`, `unmute`, `kick`, \
                   `ban`, `unban`, `quiet`, `open`, `close`. A chatroom created in this way \
                   belongs to the server's own account; to write to it, send a message as that \
                   account."),
    ]
}

/// Groups, which rooms of XMPP are.
#[rustfmt::skip] // a row a route
pub(super) fn groups() -> Vec<Route> {
    use Of::Other;
    vec![
        post("/v1/chat/groups", chat::make_group).wants(&[Chat], Other).refuses(CHANGES)
            .told("makeGroup", "Create a group as its owner", "The group is created."),
        get("/v1/chat/groups", chat::groups).wants(&[Read, Chat], Other).refuses(FINDS)
            .told("listGroups", "All groups", "A page; `next` is present unless it is the last."),
        get("/v1/chat/groups/{group}", chat::group).wants(&[Read, Chat], Other).refuses(CHANGES)
            .told("getGroup", "A group, with a page of its members",
                "If the version differs from the query's, the list starts anew."),
        post("/v1/chat/groups/{group}/changes", chat::change)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("changeGroup", "Change a group or its members",
                "Done; the server's own account notifies every member.")
            .more("`add`, `remove`, `hand-over`, `add-owner`, `remove-owner`, `promote`, `demote`, \
                   `mute`, `unmute`, `close`, `open`, `rename`, `set`, `dissolve`. Owners \
                   cannot be muted, and the last owner cannot be removed: make another one first."),
        get("/v1/chat/groups/{group}/history", chat::group_history)
            .wants(&[Chat], Other).watched().refuses(CHANGES)
            .told("getGroupHistory", "Messages of a group", "A page.")
            .more("The call is recorded in the audit log, without message contents."),
        post("/v1/chat/groups/{group}/recall", chat::group_recall)
            .wants(&[Manage], Other).refuses(CHANGES)
            .told("recallGroupMessage", "Recall a message of a group",
                "Later pages no longer contain the message."),
    ]
}
