//! Vectors, both ways; the schema held against the code; splits; sizes.

mod people;
pub(crate) mod schema;

use super::chatroom::{chatroom_verb_number, chatroom_verb_of, out_number};
use super::client_frame::ClientFrame;
use super::conversation::setting_number;
use super::frame::{OVERHEAD_BYTES_MAX, PAGE_BYTES_MAX, PREFACE, client_bytes_max, preface, split};
use super::group::{role_number, role_of, verb_number, verb_of};
use super::protobuf::Body;
use super::server_frame::ServerFrame;
use super::transient::{state_number, state_of};
use super::*;
use crate::schema::ImSchema;
use model::chat::{
    ChatFault, ChatState, ChatroomOut, ChatroomVerb, DRAFT_BYTES_MAX, GROUP_NAMED_MAX,
    GROUP_TITLE_BYTES_MAX, GroupRole, GroupVerb, MEMBERS_PAGE_MAX, REASON_BYTES_MAX,
};
use model::limits::Limits;
use model::session::Denial;
use testkit::vector::{self, Vector};

const FRAMES: &str = include_str!("../../vectors/2-frames.txt");
const BAD: &str = include_str!("../../vectors/1-malformed.txt");
const DOCUMENT: &str = include_str!("../../../../docs/wire/im.md");

const BYTES_MAX: usize = 1 << 20;

/// The text of a vector's frame, and the frame written anew.
fn again(vector: &Vector) -> (String, Vec<u8>) {
    let bytes = vector.bytes("bytes");
    let (frame, length) = split(&bytes, BYTES_MAX).expect("a frame").expect("a whole one");
    assert_eq!(length, bytes.len(), "{}", vector.name);
    let mut written = Vec::new();
    let text = match vector.need("side") {
        "client" => {
            let frame = ClientFrame::read(frame).expect("well formed");
            frame.write(&mut written);
            schema::text("ClientFrame", &frame)
        }
        _ => {
            let frame = ServerFrame::read(frame).expect("well formed").expect("known");
            frame.write(&mut written);
            schema::text("ServerFrame", &frame)
        }
    };
    (text, written)
}

#[test]
fn frames_of_googles_library_mean_what_they_should_and_are_written_as_they_came() {
    let vectors = vector::read(FRAMES);
    assert!(vectors.len() > 50);
    for vector in &vectors {
        let (text, written) = again(vector);
        assert_eq!(text, vector.need("text"), "{}", vector.name);
        assert_eq!(written, vector.bytes("bytes"), "{}", vector.name);
    }
}

#[test]
fn every_field_of_the_schema_is_in_a_vector() {
    let texts: String = vector::read(FRAMES).iter().map(|v| v.need("text").to_owned()).collect();
    for field in ImSchema::get().all().filter(|line| !line.kind.is_empty()) {
        let field = field.name;
        let named = [format!("{field}:"), format!("{field} {{")];
        assert!(named.iter().any(|name| texts.contains(name)), "{field}");
    }
}

#[test]
fn a_frame_is_not_whole_until_its_last_byte_has_come() {
    for vector in vector::read(FRAMES) {
        let bytes = vector.bytes("bytes");
        for end in 0..bytes.len() {
            assert_eq!(split(&bytes[..end], BYTES_MAX), Ok(None), "{} to {end}", vector.name);
        }
    }
    for end in 0..PREFACE.len() {
        assert_eq!(preface(&PREFACE[..end]), Ok(false));
    }
    assert_eq!(preface(&PREFACE), Ok(true));
}

#[test]
fn a_frame_that_ends_early_is_a_fault_or_another_frame_and_never_a_panic() {
    for vector in vector::read(FRAMES) {
        let bytes = vector.bytes("bytes");
        let (frame, _) = split(&bytes, BYTES_MAX).expect("a frame").expect("a whole one");
        for end in 0..frame.len() {
            let (client, server) =
                (ClientFrame::read(&frame[..end]), ServerFrame::read(&frame[..end]));
            // The one request or answer of a frame is whole, or it is cut off.
            assert!(client.is_err() && (server.is_err() || end == 0), "{}: {end}", vector.name);
        }
    }
}

#[test]
fn what_is_not_known_is_skipped() {
    // Unknown fields of each type, before and behind a known one.
    let unknown: &[&[u8]] = &[
        b"\xf8\x07\x05",
        b"\xf9\x07\x01\0\0\0\0\0\0\0",
        b"\xfa\x07\x03abc",
        b"\xfd\x07\x01\0\0\0",
    ];
    for field in unknown {
        let within = [field, &b"\x08\x2a"[..], field].concat();
        let message = [&[0x32, within.len() as u8][..], &within].concat();
        let frame = [field, &message[..], field].concat();
        assert_eq!(ClientFrame::read(&frame), Ok(ClientFrame::Acknowledge(42)));
        assert_eq!(ServerFrame::read(field), Ok(None), "an answer of a later version");
    }
    assert_eq!(ServerFrame::read(b""), Ok(None));
}

#[test]
fn of_several_requests_in_a_frame_the_last_one_counts() {
    assert_eq!(ClientFrame::read(b"\x3a\x00\x32\x02\x08\x07"), Ok(ClientFrame::Acknowledge(7)));
    assert_eq!(ClientFrame::read(b"\x32\x02\x08\x07\x3a\x00"), Ok(ClientFrame::Ping));
    assert_eq!(ClientFrame::read(b"\x32\x04\x08\x07\x08\x09"), Ok(ClientFrame::Acknowledge(9)));
}

#[test]
fn sizes_are_known_before_a_byte_is_written() {
    for vector in vector::read(FRAMES) {
        let bytes = vector.bytes("bytes");
        let (frame, _) = split(&bytes, BYTES_MAX).expect("a frame").expect("a whole one");
        let size = match vector.need("side") {
            "client" => ClientFrame::read(frame).expect("well formed").size(),
            _ => ServerFrame::read(frame).expect("well formed").expect("known").size(),
        };
        assert_eq!(size, frame.len(), "{}", vector.name);
    }
}

#[test]
fn the_largest_message_fits_into_the_largest_frame() {
    use super::client_frame::SendFields;
    use super::content::quote::QuoteFields;
    use super::content::{ContentFields, MessageFields};
    use model::chat::{EXCERPT_BYTES_MAX, EXTRA_BYTES_MAX, MENTIONS_HARD_MAX, TEXT_BYTES_MAX};
    let (text, extra) = ("x".repeat(64 * 1024), vec![0; 64 * 1024]);
    let domain = ["d".repeat(63), "d".repeat(63), "d".repeat(63), "d".repeat(61)].join(".");
    let address = format!("{}@{}", "n".repeat(64), domain);
    let quoted = "q".repeat(EXCERPT_BYTES_MAX);
    let quote = QuoteFields { seq: u64::MAX, id: u64::MAX, from: &address, text: &quoted };
    let mentions = vec![&*address; MENTIONS_HARD_MAX.into()];
    let of_mentions = mentions.len() * (address.len() + 4);
    let extra = &extra[of_mentions..];
    let content = ContentFields {
        uncounted: true,
        everybody: true,
        quote: Some(quote),
        mentions,
        ..ContentFields::new(u32::MAX, &text, extra)
    };
    assert_eq!(content.content().map(|it| it.beside_bytes()), None, "no such kind");
    let known = ContentFields { kind: 1, ..content.clone() }.content().expect("right");
    assert_eq!(known.beside_bytes(), EXTRA_BYTES_MAX, "what it mentions stands beside it");
    let client_id = [7; 16];
    let content_of_send = content.clone();
    let send = SendFields {
        number: u32::MAX,
        to: &address,
        client_id: &client_id,
        content: content_of_send,
    };
    let size = ClientFrame::Send(send).size() + 5;
    assert!(size <= client_bytes_max(&Limits::default()), "{size}");
    let device = "d".repeat(64);
    let message = MessageFields {
        id: u64::MAX,
        seq: u64::MAX,
        at_ms: u64::MAX,
        from: &address,
        device: &device,
        to: &address,
        client_id: &client_id,
        content,
        edited_ms: 0,
        reactions: Vec::new(),
    };
    let entry = super::content::EntryFields { seq: u64::MAX, message };
    let size = ServerFrame::Message(entry).size();
    assert!(size <= TEXT_BYTES_MAX + EXTRA_BYTES_MAX + OVERHEAD_BYTES_MAX, "{size}");
    assert!(PAGE_BYTES_MAX + size < frame::SERVER_BYTES_MAX);
}

#[test]
fn the_message_with_the_most_reactions_fits_into_a_page_as_the_largest_does() {
    use super::content::quote::QuoteFields;
    use super::content::{ContentFields, MessageFields, ReactionFields};
    use model::chat::*;
    let address = format!("{}@{}", "n".repeat(64), "d".repeat(253));
    let emoji = "e".repeat((EMOJI_BYTES_MAX + 1) * usize::from(EMOJI_HARD_MAX));
    let extra = vec![0; AMENDED_BYTES_HARD_MAX as usize];
    let reaction = ReactionFields { by: &address, emoji: &emoji };
    let quoted = "q".repeat(EXCERPT_BYTES_MAX);
    let quote = QuoteFields { seq: u64::MAX, id: u64::MAX, from: &address, text: &quoted };
    let message = MessageFields {
        id: u64::MAX,
        seq: u64::MAX,
        at_ms: u64::MAX,
        from: &address,
        device: &"d".repeat(64),
        to: &address,
        client_id: &[7; 16],
        content: ContentFields { quote: Some(quote), ..ContentFields::new(1, "", &extra) },
        edited_ms: u64::MAX,
        reactions: vec![reaction; REACTORS_HARD_MAX.into()],
    };
    let size = message.size();
    assert!(size <= TEXT_BYTES_MAX + EXTRA_BYTES_MAX + OVERHEAD_BYTES_MAX, "{size}");
}

#[test]
fn the_longest_draft_fits_into_the_largest_frame_whatever_a_message_may_be() {
    use super::conversation::{ChangeFields, SetFields};
    let (address, draft) =
        (format!("{}@{}", "n".repeat(64), "d".repeat(253)), "d".repeat(DRAFT_BYTES_MAX));
    let change = ChangeFields { setting: u32::MAX, on: true, draft: &draft };
    let set = SetFields { number: u32::MAX, with: &address, change };
    let mut limits = Limits::default();
    (limits.chat.text_bytes_max, limits.chat.extra_bytes_max) = (256, 0);
    let size = ClientFrame::Set(set).size() + 5;
    assert!(size <= client_bytes_max(&limits), "{size}");
}

#[test]
fn the_largest_order_and_the_largest_page_of_members_fit_into_the_largest_frames() {
    use super::group::{GroupFields, MemberFields, MembersPageFields};
    let address = format!("{}@{}", "n".repeat(64), "d".repeat(253));
    let (reason, client_id) = ("t".repeat(REASON_BYTES_MAX), [7; 16]);
    let title = "t".repeat(GROUP_TITLE_BYTES_MAX);
    let order = |count| GroupFields {
        number: u32::MAX,
        group: &address,
        client_id: &client_id,
        verb: u32::MAX,
        title: &reason,
        members: vec![&address; count],
    };
    let mut limits = Limits::default();
    (limits.chat.text_bytes_max, limits.chat.extra_bytes_max) = (256, 0);
    let size = ClientFrame::Group(order(GROUP_NAMED_MAX)).size() + 5;
    assert!(size <= client_bytes_max(&limits), "{size}: whatever a message may be");
    let mut written = Vec::new();
    ClientFrame::Group(order(GROUP_NAMED_MAX + 50)).write(&mut written);
    let (frame, _) = split(&written, BYTES_MAX).expect("a frame").expect("a whole one");
    let read = ClientFrame::read(frame).expect("well formed");
    assert_eq!(read, ClientFrame::Group(order(GROUP_NAMED_MAX + 1)), "one too many is enough");
    let member = MemberFields { address: &address, account: u64::MAX, role: u32::MAX, muted: true };
    let page = MembersPageFields {
        number: u32::MAX,
        group: &address,
        version: u64::MAX,
        title: &title,
        closed: true,
        total: u32::MAX,
        from: u32::MAX,
        members: vec![member; MEMBERS_PAGE_MAX.into()],
        description: &title,
        unlocked: true,
        public: true,
        temporary: true,
    };
    let size = ServerFrame::Members(page).size() + 5;
    assert!(size <= frame::SERVER_BYTES_MAX, "{size}");
}

/// Verbs of orders of IM: `set` is none.
fn ordered_verbs() -> impl Iterator<Item = GroupVerb> {
    GroupVerb::ALL.iter().copied().filter(|verb| *verb != GroupVerb::Set)
}

/// The words of settings, by their numbers.
fn settings() -> Vec<(u32, String)> {
    use model::chat::ConversationChange as Change;
    let all = [
        (Change::Pin(true), "SETTING_PIN"),
        (Change::Mute(true.into()), "SETTING_MUTE"),
        (Change::Hide(true), "SETTING_HIDE"),
        (Change::Draft("".into()), "SETTING_DRAFT"),
    ];
    let word = |(change, word): (Change, &str)| (setting_number(&change), word.to_owned());
    let unspecified = (0, "SETTING_UNSPECIFIED".to_owned());
    std::iter::once(unspecified).chain(all.into_iter().map(word)).collect()
}

#[test]
fn words_are_those_of_the_schema() {
    let reasons = EndReason::ALL.iter().map(|reason| (reason.number(), reason.name()));
    let faults = ChatFault::ALL.iter().map(|fault| (fault_number(*fault), fault.name()));
    let upper = |prefix: &str, name: &str| format!("{prefix}_{}", name.to_uppercase());
    let expected: Vec<_> = reasons.map(|(n, name)| (n, upper("REASON", name))).collect();
    assert_eq!(schema::words("Reason"), expected);
    let mut expected: Vec<_> = faults.map(|(n, name)| (n, upper("FAULT", name))).collect();
    expected.insert(0, (0, "FAULT_UNSPECIFIED".to_owned()));
    assert_eq!(schema::words("Fault"), expected);
    let upper = |prefix: &str, name: &str| upper(prefix, name).replace('-', "_");
    let verbs = ordered_verbs().map(|verb| (verb_number(verb), verb.word()));
    let mut expected: Vec<_> = verbs.map(|(n, name)| (n, upper("GROUP_VERB", name))).collect();
    expected.insert(0, (0, "GROUP_VERB_UNSPECIFIED".to_owned()));
    assert_eq!(schema::words("GroupVerb"), expected);
    let roles = GroupRole::ALL.iter().map(|role| (role_number(*role), role.word()));
    let mut expected: Vec<_> = roles.map(|(n, name)| (n, upper("GROUP_ROLE", name))).collect();
    expected.insert(0, (0, "GROUP_ROLE_UNSPECIFIED".to_owned()));
    assert_eq!(schema::words("GroupRole"), expected);
    let verbs = ChatroomVerb::ALL.iter().map(|verb| (chatroom_verb_number(*verb), verb.word()));
    let mut expected: Vec<_> = verbs.map(|(n, name)| (n, upper("CHATROOM_VERB", name))).collect();
    expected.insert(0, (0, "CHATROOM_VERB_UNSPECIFIED".to_owned()));
    assert_eq!(schema::words("ChatroomVerb"), expected);
    assert_eq!((chatroom_verb_of(0), chatroom_verb_of(14)), (None, None));
    let outs = ChatroomOut::ALL.map(|out| (out_number(out), upper("CHATROOM_OUT", out.word())));
    assert_eq!(schema::words("ChatroomOut")[1..], outs);
    assert_eq!(schema::words("Setting"), settings());
    let states = ChatState::ALL.iter().map(|state| (state_number(*state), state.word()));
    let mut expected: Vec<_> = states.map(|(n, name)| (n, upper("CHAT_STATE", name))).collect();
    expected.insert(0, (0, "CHAT_STATE_UNSPECIFIED".to_owned()));
    assert_eq!(schema::words("ChatState"), expected);
    assert_eq!((state_of(0), state_of(6), state_of(2)), (None, None, Some(ChatState::Paused)));
    assert_eq!((verb_of(0), verb_of(27), role_of(0), role_of(4)), (None, None, None, None));
    assert_eq!((verb_of(5), role_of(3)), (Some(GroupVerb::HandOver), Some(GroupRole::Owner)));
    for &reason in EndReason::ALL {
        assert_eq!(EndReason::of(reason.number()), reason);
    }
    assert_eq!((EndReason::of(999), fault_of(0)), (EndReason::Unspecified, None));
    assert_eq!(fault_of(2), Some(ChatFault::Conflict));
}

#[test]
fn denials_that_a_login_can_meet_have_reasons() {
    for &why in Denial::ALL {
        let reason = EndReason::from(why);
        let renamed = matches!(why, Denial::ClientIdInvalid | Denial::Protocol);
        assert!(
            reason == EndReason::Unspecified || renamed || reason.name() == why.name(),
            "{why:?}"
        );
    }
    assert_eq!(EndReason::from(Denial::ClientIdInvalid), EndReason::NameInvalid);
}

#[test]
fn the_document_has_each_section_each_word_and_each_fault() {
    for vector in [vector::read(FRAMES), vector::read(BAD)].concat() {
        let section = vector.need("section");
        let marks = "#".repeat(2 + section.matches('.').count());
        let heading = format!("\n{marks} {section} ");
        assert!(DOCUMENT.contains(&heading), "{}: no section {heading:?}", vector.name);
    }
    for reason in EndReason::ALL {
        let row = format!("| {} | `{}` | {} |", reason.number(), reason.name(), reason.meaning());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for &fault in ChatFault::ALL {
        let row = format!("| {} | `{}` |", fault_number(fault), fault.name());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for verb in ordered_verbs() {
        let row = format!("| {} | `{}` | ", verb_number(verb), verb.word());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for &role in GroupRole::ALL {
        let row = format!("| {} | `{}` | ", role_number(role), role.word());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for &state in ChatState::ALL {
        let row = format!("| {} | `{}` | ", state_number(state), state.word());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for &verb in ChatroomVerb::ALL {
        let row = format!("| {} | `{}` | ", chatroom_verb_number(verb), verb.word());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for out in ChatroomOut::ALL {
        let row = format!("| {} | `{}` | ", out_number(out), out.word());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for (number, word) in settings().into_iter().skip(1) {
        let word = word.trim_start_matches("SETTING_").to_lowercase();
        let row = format!("| {number} | `{word}` | ");
        assert!(DOCUMENT.contains(&row), "{row}");
    }
    for &fault in WireFault::ALL.iter().filter(|fault| **fault != WireFault::Address) {
        let row = format!("| `{}` | ", fault.name());
        assert!(DOCUMENT.contains(&row), "{row}");
        let bad = vector::read(BAD).iter().any(|vector| vector.need("word") == fault.name());
        assert!(bad, "no vector of {}", fault.name());
    }
}

/// The dumps of the document are frames, and those of a vector.
#[test]
fn the_documents_example_is_what_it_says() {
    let mut count = 0;
    for block in DOCUMENT.split("```dump ").skip(1) {
        let (head, rest) = block.split_once('\n').expect("a heading");
        let (body, _) = rest.split_once("```").expect("an end");
        let (mut hex, mut text) = (String::new(), String::new());
        for line in body.lines() {
            let (bytes, said) = line.split_once('|').unwrap_or((line, ""));
            hex += &format!("{bytes} ");
            text += said.trim();
        }
        let bytes = vector::bytes(&hex).expect("bytes");
        count += 1;
        if head == "preface" {
            assert_eq!(bytes, PREFACE);
            continue;
        }
        let (frame, length) = split(&bytes, BYTES_MAX).expect("a frame").expect("a whole one");
        assert_eq!(length, bytes.len(), "{head}");
        let seen = match head {
            "client" => schema::text("ClientFrame", &ClientFrame::read(frame).expect("right")),
            _ => {
                let frame = ServerFrame::read(frame).expect("right").expect("known");
                schema::text("ServerFrame", &frame)
            }
        };
        let said: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let seen: String = seen.chars().filter(|c| !c.is_whitespace()).collect();
        assert_eq!(seen, said, "{head}");
    }
    assert!(count > 8, "{count}");
}
