//! Faults of requests of chat: the only list of them.

mod rate;

pub use rate::REFUSED_PAUSE;

/// Declares the faults once: variant, word in answers and the log, meaning.
macro_rules! faults {
    ($($variant:ident $name:literal $meaning:literal;)+) => {
        /// Why something was not done that a session asked for.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ChatFault { $(#[doc = $meaning] $variant,)+ }

        impl ChatFault {
            /// All of them.
            pub const ALL: &'static [ChatFault] = &[$(ChatFault::$variant,)+];

            /// The word in answers and the log.
            pub const fn name(self) -> &'static str {
                match self { $(ChatFault::$variant => $name,)+ }
            }

            /// What it means, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(ChatFault::$variant => $meaning,)+ }
            }
        }
    };
}

faults! {
    UnknownAccount "unknown_account" "There is no such account.";
    Conflict "conflict" "The message's id was used before for another message.";
    TooLarge "too_large" "The message is larger than allowed.";
    Invalid "invalid" "The request makes no sense: no text and no extra, a count of zero.";
    Busy "busy" "Too much at once, or no answer in time: ask again, with the same id.";
    StoreFull "store_full" "The log has no room.";
    StoreFailed "store_failed" "The log takes nothing until a restart.";
    NotMember "not_member" "There is no such group, or the account is no member of it.";
    Forbidden "forbidden" "A member of this role may not do that; or the message is another's.";
    Muted "muted" "The member is muted, or the group is closed.";
    GroupFull "group_full" "The group may not have so many members.";
    Unchanged "unchanged" "It is so already.";
    UnknownMessage "unknown_message" "There is no such message of the account.";
    TooLate "too_late" "The message is too old to be called back, or edited.";
    ContactsFull "contacts_full" "The account may not have so many contacts.";
    Blocked "blocked" "The account has blocked whom it is for.";
    Silenced "silenced" "An operator has muted the account.";
    RateLimited "rate_limited" "The account, or the group, says too much at once: ask again later.";
    Rejected "rejected" "What is said is not allowed here.";
    PushFull "push_full" "The account may not register so many devices to be woken.";
    NoGateway "no_gateway" "The server has no gateway for pushes.";
    UnknownDevice "unknown_device" "There is no such device to be woken.";
    BadCode "bad_code" "The code is not the one that was pushed to the device, or too old.";
    MediaOff "media_off" "This server has no storage for files.";
    TypeRefused "type_refused" "Files of this type are not taken.";
    UploadQuota "upload_quota" "The account may upload no more today.";
    ReadersUntold "readers_untold" "The group has more members than those of whom that is told.";
    ReadsPrivate "reads_private" "Whoever does not share what it has read is told of nobody.";
    NoChatroom "no_chatroom" "There is no such chatroom.";
    ChatroomFull "chatroom_full" "The chatroom may not have so many members.";
    ChatroomBanned "chatroom_banned" "The account is banned from the chatroom.";
    NotInChatroom "not_in_chatroom" "The device is not in the chatroom.";
    ChatroomsFull "chatrooms_full" "One chatroom, or list of one, more than may be.";
    NoSession "no_session" "Who asks is no device of an account of this server.";
    GroupBanned "group_banned" "The account is banned from the group.";
    BansFull "bans_full" "No more may be banned from the group.";
    PublicFull "public_full" "No more groups may be public.";
    TemporaryFull "temporary_full" "No more groups may be temporary.";
    InvitationNeeded "invitation_needed" "Somebody who is named is not added, but invited.";
    GroupsFull "groups_full" "The account may not have made so many groups.";
}

/// A message was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendRejected {
    /// The request's.
    pub number: u32,
    /// Reason why not.
    pub why: ChatFault,
    /// For people, at most [`REASON_BYTES_MAX`](super::REASON_BYTES_MAX) bytes; may be empty.
    pub reason: Box<str>,
    /// Milliseconds after which to try again; zero: nothing is known of that.
    pub retry_after_ms: u32,
}
