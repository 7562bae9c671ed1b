//! Requests and answers by name and number, which are fields of each message of im.proto.

use crate::pb::client_frame::Request;
use crate::pb::server_frame::Answer;

macro_rules! answers {
    ($($kind:ident $name:literal)+; numbered $($numbered:ident)+) => {
        impl Answer {
            /// The name of its field in `ServerFrame`.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Answer::$kind(_) => $name,)+
                }
            }
        }

        /// The request that it answers; `None` if it answers none.
        pub(crate) fn number(answer: &Answer) -> Option<u32> {
            match answer {
                $(Answer::$numbered(it) => Some(it.number),)+
                _ => None,
            }
        }
    };
}

answers! {
    LoggedIn "logged_in" Challenge "challenge" Refused "refused" Sent "sent" Failed "failed"
    Message "message" Notify "notify" Page "page" History "history" End "end" Pong "pong"
    Changed "changed" Members "members" Event "event" MarkedRead "marked_read" Set "set"
    Conversations "conversations" Contacts "contacts" Done "done" Contact "contact"
    Presence "presence" Transient "transient" Found "found" Upload "upload"
    PushStatus "push_status" PushCode "push_code" Readers "readers" Privacy "privacy"
    Delivered "delivered" ChatroomJoined "chatroom_joined" ChatroomMessage "chatroom_message"
    ChatroomMissed "chatroom_missed" ChatroomNews "chatroom_news" Token "token";
    numbered Sent Failed Page History Changed Members MarkedRead Set Conversations Contacts Done
    Found Upload PushStatus PushCode Readers Privacy ChatroomJoined Token
}

macro_rules! requests {
    ($($kind:ident)+) => {
        /// Gives a request its number; false if this one has none.
        pub(crate) fn set_number(request: &mut Request, number: u32) -> bool {
            match request {
                $(Request::$kind(it) => it.number = number,)+
                _ => return false,
            }
            true
        }
    };
}

requests! {
    Send Pull History Group Members MarkRead Set Conversations Recall Contacts Contact Search
    Upload Transient Push PushSettings Readers Privacy ChatroomOrder JoinChatroom LeaveChatroom
    Token
}
