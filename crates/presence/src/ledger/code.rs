//! A state in one byte: protocols by their number, ends by their reason's.

use model::close::CloseReason;
use model::presence::OnlineState;

const OFFLINE: u8 = 0x80;

const _: () = assert!(CloseReason::COUNT <= OFFLINE as usize, "reasons have seven bits");

/// The number of the protocol that stands for those after the 127th.
const OTHER: u8 = OFFLINE - 1;

/// The protocols that were seen, by number.
#[derive(Default)]
pub(crate) struct Codes {
    protocols: Vec<&'static str>,
}

impl Codes {
    /// The byte of a state.
    pub(crate) fn encode(&mut self, state: OnlineState) -> u8 {
        let protocol = match state {
            OnlineState::Offline(reason) => return OFFLINE + reason as u8,
            OnlineState::Online(protocol) => protocol,
        };
        if let Some(number) = self.protocols.iter().position(|&known| known == protocol) {
            return number as u8;
        }
        if self.protocols.len() == usize::from(OTHER) {
            return OTHER;
        }
        self.protocols.push(protocol);
        self.protocols.len() as u8 - 1
    }

    /// The state of a byte that was made here.
    pub(crate) fn decode(&self, code: u8) -> OnlineState {
        if !is_online(code) {
            return OnlineState::Offline(CloseReason::ALL[usize::from(code - OFFLINE)]);
        }
        OnlineState::Online(self.protocols.get(usize::from(code)).copied().unwrap_or("other"))
    }
}

/// Whether it is the byte of one that is online.
pub(crate) const fn is_online(code: u8) -> bool {
    code < OFFLINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_its_byte() {
        let mut codes = Codes::default();
        let online = ["miop7", "mqtt5"].map(OnlineState::Online);
        let offline = CloseReason::ALL.iter().map(|&reason| OnlineState::Offline(reason));
        for state in online.into_iter().chain(offline) {
            let code = codes.encode(state);
            assert_eq!((codes.decode(code), is_online(code)), (state, state.is_online()));
        }
    }

    #[test]
    fn too_many_protocols_share_one_name() {
        let mut codes = Codes::default();
        for n in 0..200 {
            let name: &'static str = Box::leak(format!("p{n}").into_boxed_str());
            let code = codes.encode(OnlineState::Online(name));
            let known = if n < 127 { name } else { "other" };
            assert_eq!(codes.decode(code), OnlineState::Online(known));
        }
    }
}
