//! Transients: notices that are stored nowhere (IM 16.1).

use super::WireFault;
use super::content::ContentFields;
use super::group::address;
use super::protobuf::{Body, Sink, Value};
use model::chat::{ChatState, Content, Transient};

/// `Transient`, as a client says it, and `TransientTold`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransientFields<'a> {
    /// Full address of the sender; empty in a client's frame.
    pub from: &'a str,
    /// Device of the sender; empty in a client's frame.
    pub device: &'a str,
    /// Recipient; in a client's frame perhaps without a domain.
    pub to: &'a str,
    /// The number of what the sender does; 0: that is not said.
    pub state: u32,
    /// Further content.
    pub content: ContentFields<'a>,
    /// Number that the answer to a client repeats; 0: it wants no answer.
    pub number: u32,
}

impl<'a> TransientFields<'a> {
    /// Fields of a delivered transient.
    pub fn of(it: &'a Transient) -> TransientFields<'a> {
        let Content { text, extra, .. } = &it.content;
        let is_empty = text.is_empty() && extra.is_empty();
        TransientFields {
            from: it.from.as_str(),
            device: &it.device,
            to: it.to.as_str(),
            state: it.state.map_or(0, state_number),
            content: if is_empty { ContentFields::EMPTY } else { ContentFields::of(&it.content) },
            number: 0,
        }
    }

    /// The transient, if the fields are valid. A state that a later version added is none.
    pub fn transient(&self) -> Result<Transient, WireFault> {
        Ok(Transient {
            from: address(self.from)?,
            device: self.device.into(),
            to: address(self.to)?,
            state: state_of(self.state),
            content: self.content.content().ok_or(WireFault::Range)?,
        })
    }

    pub(super) fn read(value: Value<'a>) -> Result<TransientFields<'a>, WireFault> {
        let content = ContentFields::EMPTY;
        let (state, number) = (0, 0);
        let mut it = TransientFields { from: "", device: "", to: "", state, content, number };
        let mut fields = value.fields()?;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => it.to = value.text()?,
                2 => it.state = value.u32()?,
                3 => it.content = ContentFields::read(value)?,
                4 => it.from = value.text()?,
                5 => it.device = value.text()?,
                6 => it.number = value.u32()?,
                _ => {}
            }
        }
        Ok(it)
    }
}

impl Body for TransientFields<'_> {
    fn put(&self, sink: &mut impl Sink) {
        sink.text(1, self.to);
        sink.u32(2, self.state);
        if self.content != ContentFields::EMPTY {
            sink.body(3, &self.content);
        }
        sink.text(4, self.from);
        sink.text(5, self.device);
        sink.u32(6, self.number);
    }
}

/// The number of a state on the wire (IM 16.1).
pub const fn state_number(state: ChatState) -> u32 {
    match state {
        ChatState::Composing => 1,
        ChatState::Paused => 2,
        ChatState::Active => 3,
        ChatState::Inactive => 4,
        ChatState::Gone => 5,
    }
}

/// The state with this number; `None`: none, or one that a later version added.
pub fn state_of(number: u32) -> Option<ChatState> {
    ChatState::ALL.iter().copied().find(|state| state_number(*state) == number)
}
