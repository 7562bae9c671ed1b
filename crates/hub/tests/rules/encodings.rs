//! Encoding of peer messages: golden bytes of each kind, and bytes that are no message.

use base::prng::Prng;
use hub::OrderMessage;
use model::service::Weigh;
use std::path::Path;
use testkit::crossing;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/peer_messages.txt");

#[test]
fn each_kind_of_peer_message_has_the_bytes_that_are_kept() {
    crossing::golden::<OrderMessage>(Path::new(GOLDEN));
}

#[test]
#[ignore = "writes the golden bytes, after a change of the encoding that is wanted"]
fn writes_the_golden_bytes() {
    crossing::write_golden::<OrderMessage>(Path::new(GOLDEN));
}

#[test]
fn bytes_that_are_no_message_are_an_error() {
    crossing::bent(&mut Prng::new(45), |message: &OrderMessage| _ = Weigh::weight(message));
}
