//! Chatrooms, as a client says and hears of them (IM 18).

use super::ImEvent;
use super::word::{ChatroomEntry, ChatroomTold};
use crate::codec::WireFault;
use crate::codec::chatroom::{
    ChatroomOrderFields, JoinFields, JoinedFields, LeaveFields, MissedFields, NewsFields,
    SaidFields, out_of,
};
use crate::codec::client_frame::ClientFrame;
use crate::codec::group::{address, role_of};
use model::chat::{ChatroomAsk, ChatroomOut, GroupRole};
use std::sync::Arc;

/// The frame of what is wanted of a chatroom.
pub(super) fn frame_of(number: u32, ask: &ChatroomAsk) -> ClientFrame<'_> {
    match ask {
        ChatroomAsk::Join { room, history } => ClientFrame::JoinChatroom(JoinFields {
            number,
            room: room.as_str(),
            history: u32::from(*history),
        }),
        ChatroomAsk::Leave(room) => {
            ClientFrame::LeaveChatroom(LeaveFields { number, room: room.as_str() })
        }
        ChatroomAsk::Order(order) => {
            ClientFrame::ChatroomOrder(ChatroomOrderFields::of(number, order))
        }
    }
}

/// The device is in a chatroom, told.
pub(super) fn joined(fields: &JoinedFields<'_>) -> Result<ImEvent, WireFault> {
    let (room, state) = fields.state.state()?;
    let history = fields.history.iter().map(|it| it.message().map(Arc::new));
    Ok(ImEvent::ChatroomJoined(Box::new(ChatroomEntry {
        number: fields.number,
        room,
        state,
        // A role of a later version may do at least what everybody may.
        role: role_of(fields.role).unwrap_or(GroupRole::Member),
        muted: fields.muted,
        history: history.collect::<Result<_, _>>()?,
    })))
}

/// Event for a message in a chatroom.
pub(super) fn said(fields: &SaidFields<'_>) -> Result<ImEvent, WireFault> {
    let message = Arc::new(fields.message.message()?);
    Ok(ImEvent::ChatroomSaid { message, important: fields.important })
}

/// Event for messages of a chatroom that this device was not sent.
pub(super) fn missed(fields: &MissedFields<'_>) -> Result<ImEvent, WireFault> {
    Ok(ImEvent::ChatroomMissed { room: address(fields.room)?, missed: fields.missed })
}

/// News of a chatroom, told.
pub(super) fn news(fields: &NewsFields<'_>) -> Result<ImEvent, WireFault> {
    let (room, state) = fields.state.state()?;
    let what = match fields.out {
        0 => ChatroomTold::State(state),
        // For whatever reason of a later version, it is out.
        out => ChatroomTold::Out(out_of(out).unwrap_or(ChatroomOut::Kicked)),
    };
    Ok(ImEvent::ChatroomNews { room: Box::new(room), what: Box::new(what) })
}
