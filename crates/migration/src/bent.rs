//! Files bent at random: they are read or refused, and nothing panics.

use crate::lua::Table;
use crate::xep_0227;
use base::prng::Prng;

/// Valid inputs, one of each kind.
const SEEDS: [&[u8]; 4] = [
    b"return {\n\t[\"iteration_count\"] = 10000;\n\t[\"salt\"] = \"c\\195\\164\\n\";\n\
      \t[\"stored_key\"] = \"0a0b\";\n\t[\"more\"] = { \"x\"; { [7] = -1.5e3 }; y = nil };\n};\n",
    b"return { password = 'it\\'s', disabled = true }",
    b"<?xml version='1.0' encoding='UTF-8'?><server-data xmlns='urn:xmpp:pie:0'><host jid='a'>\
      <user name='ann' password='scram:AAAA,AAAA,AAAA,1'/><user name='b&#x41;' password='&lt;'>\
      <query xmlns='jabber:iq:roster'><item jid='x@y'/></query></user></host></server-data>",
    b"<host xmlns='urn:xmpp:pie:0' xmlns:xi='http://www.w3.org/2001/XInclude' jid='a'><user \
      name='ann'><scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-SHA-1'>\
      <iter-count>4096</iter-count><salt>QQ==</salt><server-key>QUFB</server-key><stored-key>\
      <![CDATA[QUFB]]></stored-key></scram-credentials><!-- x --></user></host>",
];

#[test]
fn whatever_a_file_has_nothing_panics() {
    for seed in 0..4_000 {
        let mut rng = Prng::new(seed);
        let mut bytes = SEEDS[rng.below(SEEDS.len() as u64) as usize].to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64 + 1) as usize;
            match rng.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, rng.draw() as u8),
                2 if at < bytes.len() => bytes[at] = rng.draw() as u8,
                _ => {
                    let other = SEEDS[rng.below(SEEDS.len() as u64) as usize];
                    bytes.extend_from_slice(&other[..rng.below(other.len() as u64) as usize]);
                }
            }
        }
        let _ = Table::read(&bytes);
        let _ = xep_0227::read(vec![("f".into(), &*bytes)], None);
    }
}

#[test]
fn each_of_them_is_read_as_it_stands() {
    assert!(SEEDS[..2].iter().all(|file| Table::read(file).is_ok()));
    let read = |file: &&[u8]| xep_0227::read(vec![("f".into(), *file)], None);
    assert!(SEEDS[2..].iter().all(|file| read(file).is_ok()));
}
