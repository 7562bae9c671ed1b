//! The list: RFCs, and extensions by their numbers.

use super::{Rfc, Xep};
use crate::server::claims;

/// RFCs, by their numbers.
pub const RFCS: &[Rfc] = &[
    Rfc {
        number: 6120,
        name: "Core",
        note: "",
        test: "xmpp/test_login.py::test_tls_begins_within_the_stream",
    },
    Rfc {
        number: 6121,
        name: "Instant Messaging and Presence",
        note: "messages to one device reach all devices of the account, unless they are \
               `<private/>`; presence has one `status`",
        test: "xmpp/test_people.py::test_two_subscribe_and_see_each_other_come_and_go",
    },
    Rfc {
        number: 7395,
        name: "WebSocket",
        note: "",
        test: "xmpp/test_web.py::test_people_in_web_sockets_and_over_tcp_talk",
    },
    Rfc {
        number: 7590,
        name: "Use of TLS",
        note: "",
        test: "xmpp/test_login.py::test_nothing_is_offered_before_tls_and_no_login_taken",
    },
    Rfc {
        number: 7622,
        name: "Address Format",
        note: "names of accounts are ASCII: a to z, digits and . _ + -; domains in U-labels",
        test: "jid.rs::addresses_are_read_and_compared_by_one_policy",
    },
];

/// All extensions, by their numbers.
pub fn xeps() -> Vec<Xep> {
    let mut all: Vec<Xep> = claims().chain(OTHERS).copied().collect();
    all.sort_by_key(|xep| xep.number);
    all
}

/// Extensions that have no file of their own in `server`: they are of stanzas in general, of rooms,
/// or of other ways to connect.
#[rustfmt::skip] // an entry is a paragraph
const OTHERS: &[Xep] = &[
    Xep::complete(4, ("Data Forms", "2.13.2"), "for the forms of other extensions",
        "xmpp/test_rooms.py::test_a_room_is_made_administered_and_destroyed_by_xmpp"),
    Xep::partial(45, ("Multi-User Chat", "1.35.5"),
        "non-anonymous rooms; no registration",
        "xmpp/test_rooms.py::test_a_room_is_made_administered_and_destroyed_by_xmpp"),
    Xep::partial(59, ("Result Set Management", "1.0"), "no counts for archives and lists of rooms",
        "xmpp/test_archive.py::test_it_is_paged_backwards_from_its_end_and_filtered"),
    Xep::partial(66, ("Out of Band Data", "1.5"), "links to files in messages",
        "render/tests.rs::a_file_of_xmpp_is_one_in_im_and_comes_back_as_it_was"),
    Xep::complete(82, ("Date and Time Profiles", "1.1.1"), "",
        "stanza.rs::times_are_those_of_xep_0082"),
    Xep::complete(85, ("Chat State Notifications", "2.1"), "not stored",
        "xmpp/test_words.py::test_people_of_xmpp_and_of_im_see_each_other_type"),
    Xep::complete(114, ("Jabber Component Protocol", "1.6"), "",
        "xmpp/test_components.py::test_people_speak_with_a_component_and_it_with_them"),
    Xep::complete(124, ("Bidirectional-streams Over Synchronous HTTP (BOSH)", "1.11.2"), "",
        "xmpp/test_bosh.py::test_a_session_goes_on_over_many_connections_at_once"),
    Xep::complete(156, ("Discovering Alternative XMPP Connection Methods", "1.4.0"), "by HTTP",
        "xmpp/test_bosh.py::test_host_meta_says_where_xmpp_is"),
    Xep::complete(160, ("Best Practices for Handling Offline Messages", "1.0.1"),
        "all XMPP devices of an account share one position in the inbox",
        "xmpp/test_talk.py::test_who_was_away_is_given_what_waits_in_order_with_its_time"),
    Xep::complete(172, ("User Nickname", "1.1"), "by XEP-0163",
        "xmpp/test_import.py::test_vcards_nodes_and_what_clients_keep_are_there"),
    Xep::complete(178, ("SASL EXTERNAL with Certificates", "1.2"), "",
        "xmpp/test_domains.py::test_who_a_certificate_names_comes_without_a_password"),
    Xep::complete(185, ("Dialback Key Generation", "1.0"), "",
        "xmpp/test_federation.py::test_a_key_of_another_stream_shows_nothing"),
    Xep::complete(203, ("Delayed Delivery", "2.0"), "",
        "xmpp/test_talk.py::test_who_was_away_is_given_what_waits_in_order_with_its_time"),
    Xep::complete(206, ("XMPP Over BOSH", "1.4"), "",
        "xmpp/test_bosh.py::test_a_page_of_another_site_talks_with_strophe"),
    Xep::complete(220, ("Server Dialback", "1.1.1"), "",
        "xmpp/test_prosody.py::test_messages_pass_both_ways"),
    Xep::partial(227, ("Portable Import/Export Format", "1.1"),
        "no rooms, no pending subscription requests; exports have no offline messages, only the \
         archive",
        "xmpp/test_import.py::test_an_export_that_is_imported_elsewhere_gives_the_same_export"),
    Xep::complete(237, ("Roster Versioning", "1.3"), "as RFC 6121 has it",
        "xmpp/test_people.py::\
         test_a_change_is_pushed_to_each_resource_and_versions_say_what_is_new"),
    Xep::complete(249, ("Direct MUC Invitations", "1.2"), "",
        "xmpp/test_rooms.py::test_who_is_removed_is_out_and_who_is_added_is_in"),
    Xep::complete(297, ("Stanza Forwarding", "1.0"), "",
        "xmpp/test_archive.py::test_it_is_paged_backwards_from_its_end_and_filtered"),
    Xep::complete(308, ("Last Message Correction", "1.2.1"), "within `edit_s_max`",
        "xmpp/test_words.py::test_an_edit_is_a_correction_and_a_correction_is_an_edit"),
    Xep::partial(334, ("Message Processing Hints", "0.4.0"), "`store`, `no-store`, `no-copy`",
        "xmpp/test_words.py::test_a_text_that_is_not_to_be_stored_is_not"),
    Xep::complete(368, ("SRV records for XMPP over TLS", "1.1.0"), "",
        "xmpp/test_login.py::test_direct_tls_is_agreed_by_its_name_in_alpn"),
    Xep::partial(372, ("References", "0.4.0"), "mentions",
        "xmpp/test_words.py::test_mentions_in_a_room_are_counted_apart_and_cross_over"),
    Xep::complete(410, ("MUC Self-Ping", "1.1.0"), "",
        "xmpp/test_rooms.py::test_rooms_are_found_and_say_what_they_are"),
    Xep::complete(421, ("Occupant identifiers for semi-anonymous MUCs", "1.0.1"), "",
        "server/tests/rooms/mod.rs::what_is_said_to_a_room_is_sent_and_shown_as_it_comes_back"),
    Xep::complete(424, ("Message Retraction", "0.4.2"), "own messages, within `recall_s_max`",
        "xmpp/test_words.py::test_a_recall_is_a_retraction_and_a_retraction_is_a_recall"),
    Xep::complete(425, ("Moderated Message Retraction", "0.3.0"), "",
        "xmpp/test_authority.py::test_a_moderator_calls_a_message_back_for_everybody"),
    Xep::complete(428, ("Fallback Indication", "0.2.1"), "",
        "xmpp/test_words.py::test_a_quote_is_a_reply_with_its_fallback_and_a_reply_is_a_quote"),
    Xep::complete(440, ("SASL Channel-Binding Type Capability", "1.0.0"), "",
        "xmpp/test_login.py::test_a_login_is_bound_to_its_connection"),
    Xep::complete(444, ("Message Reactions", "0.2.0"), "",
        "xmpp/test_words.py::test_reactions_of_both_are_seen_by_both"),
    Xep::complete(461, ("Message Replies", "0.2.0"), "",
        "xmpp/test_words.py::test_a_quote_is_a_reply_with_its_fallback_and_a_reply_is_a_quote"),
];
