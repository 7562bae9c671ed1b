//! Faults of requests of chat: the only list of them.

use base::encoding::Encoding;

mod rate;

pub use rate::REFUSED_PAUSE;

/// Declares the faults once: variant, word in answers and the log, meaning.
macro_rules! faults {
    (
        $($variant:ident $name:literal $meaning:literal;)+
        => $($of_room:ident $room_name:literal $room_meaning:literal;)+
    ) => {
        /// Why a request of a chat session was refused.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ChatFault {
            $(#[doc = $meaning] $variant,)+
            $(#[doc = $room_meaning] $of_room,)+
        }

        impl ChatFault {
            /// All reasons, but those of requests that only XMPP makes.
            pub const ALL: &'static [ChatFault] = &[$(ChatFault::$variant,)+];

            /// Reasons of requests that only XMPP makes.
            pub const OF_ROOMS: &'static [ChatFault] = &[$(ChatFault::$of_room,)+];

            /// The word in answers and the log.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ChatFault::$variant => $name,)+
                    $(ChatFault::$of_room => $room_name,)+
                }
            }

            /// Meaning, for people.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(ChatFault::$variant => $meaning,)+
                    $(ChatFault::$of_room => $room_meaning,)+
                }
            }
        }
    };
}

faults! {
    UnknownAccount "unknown_account" "Unknown account.";
    Conflict "conflict" "The message id was used before for another message.";
    TooLarge "too_large" "The message is larger than allowed.";
    Invalid "invalid" "Invalid request: neither text nor extra, or a count of zero.";
    Busy "busy" "Too many requests at once, or no answer in time: retry with the same id.";
    StoreFull "store_full" "The log is full.";
    StoreFailed "store_failed" "The log failed: writes are refused until the server restarts.";
    NotMember "not_member" "Unknown group, or the account is not a member.";
    Forbidden "forbidden"
        "The member's role does not permit it, or the message is from another account.";
    Muted "muted" "The member is muted, or the group is closed.";
    GroupFull "group_full" "The group has the maximum number of members.";
    Unchanged "unchanged" "Nothing to change: it is already so.";
    UnknownMessage "unknown_message" "The account has no such message.";
    TooLate "too_late" "The message is too old to recall or edit.";
    ContactsFull "contacts_full" "The account has the maximum number of contacts.";
    Blocked "blocked" "The account has blocked the recipient.";
    Silenced "silenced" "An operator has muted the account.";
    RateLimited "rate_limited" "The account or the group exceeded its rate limit: retry later.";
    Rejected "rejected" "The message was rejected by the server's rules.";
    PushFull "push_full" "The account has the maximum number of devices for push notifications.";
    NoGateway "no_gateway" "The server has no push gateway.";
    UnknownDevice "unknown_device" "Unknown device: it is not registered for push notifications.";
    BadCode "bad_code" "The code is wrong or expired: it is not the one pushed to the device.";
    MediaOff "media_off" "This server has no storage for files.";
    TypeRefused "type_refused" "Files of this type are not accepted.";
    UploadQuota "upload_quota" "The account reached its upload quota for today.";
    ReadersUntold "readers_untold" "The group is too large to show who has read a message.";
    ReadsPrivate "reads_private"
        "An account that hides what it has read cannot see what others have read.";
    NoChatroom "no_chatroom" "Unknown chatroom.";
    ChatroomFull "chatroom_full" "The chatroom has the maximum number of participants.";
    ChatroomBanned "chatroom_banned" "The account is banned from the chatroom.";
    NotInChatroom "not_in_chatroom" "The device is not in the chatroom.";
    ChatroomsFull "chatrooms_full"
        "The maximum number of chatrooms, or of entries in a list of one, is reached.";
    NoSession "no_session" "The request does not come from a device of an account on this server.";
    GroupBanned "group_banned" "The account is banned from the group.";
    BansFull "bans_full" "The group has the maximum number of banned accounts.";
    PublicFull "public_full" "The maximum number of public groups is reached.";
    TemporaryFull "temporary_full" "The maximum number of temporary groups is reached.";
    InvitationNeeded "invitation_needed" "A named account can only be invited, not added.";
    GroupsFull "groups_full" "The account has created the maximum number of groups.";
    =>
    LastOwner "last_owner" "A group keeps an owner of its server: make another account one first.";
    BadPassword "bad_password" "The room is entered with a password, and it is not this one.";
    Outranked "outranked" "The role of the account concerned, or the wanted one, is too high.";
}

/// A message that was refused.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct SendRejected {
    /// Number of the request.
    pub number: u32,
    /// Why it was refused.
    pub why: ChatFault,
    /// Reason in words for people, at most [`REASON_BYTES_MAX`](super::REASON_BYTES_MAX) bytes; may
    /// be empty.
    pub reason: Box<str>,
    /// Milliseconds after which to retry; zero: unknown.
    pub retry_after_ms: u32,
}
