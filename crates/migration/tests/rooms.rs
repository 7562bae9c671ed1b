//! Rooms as a Prosody has kept them (0.12.3, `prosody/`): in `named` everybody saw addresses, in
//! `semi` nicks alone. In both Ann, as Annie, says something, Bob does, as Bobby, and Mallory, who
//! is there as `ann`, with what would make it Ann's if Prosody had written it. Then Bob takes back
//! what he has said, in the old way and the new one.

use migration::prosody::walk;
use migration::{MovedItem, MovedRoom, MovedSaid, MovedTime, MovedWhat, Taking};

#[derive(Default)]
struct Kept {
    rooms: Vec<(String, MovedRoom)>,
    said: Vec<(String, MovedSaid)>,
    left: Vec<(String, String)>,
}

impl Taking for Kept {
    fn host(&mut self, host: &str) {
        assert_eq!(host, "b.example");
    }

    fn take(&mut self, item: MovedItem) -> Result<(), String> {
        match item.what {
            MovedWhat::Room(room) => self.rooms.push((item.owner, room)),
            MovedWhat::Said(said) => self.said.push((item.owner, said)),
            what => panic!("{what:?}"),
        }
        Ok(())
    }

    fn leave(&mut self, place: String, why: String) {
        self.left.push((place.rsplit('/').next().unwrap_or_default().to_owned(), why));
    }
}

/// Items found beside b.example, whose rooms have these files.
fn found(files: &[(&str, &[u8])]) -> Kept {
    let folder = tempfile::tempdir().expect("a folder");
    let host = folder.path().join("b%2eexample");
    std::fs::create_dir_all(host.join("accounts")).expect("made");
    for (name, text) in files {
        let file = folder.path().join("conference%2eb%2eexample").join(name);
        std::fs::create_dir_all(file.parent().expect("it has one")).expect("made");
        std::fs::write(file, text).expect("written");
    }
    let mut kept = Kept::default();
    walk(&host, &mut kept).expect("a host");
    kept
}

/// Both rooms.
fn both() -> Kept {
    found(&[
        ("config/named.dat", include_bytes!("prosody/named.dat")),
        ("config/semi.dat", include_bytes!("prosody/semi.dat")),
        ("muc_log/named.list", include_bytes!("prosody/named.list")),
        ("muc_log/semi.list", include_bytes!("prosody/semi.list")),
    ])
}

#[test]
fn what_was_said_in_a_room_comes_with_what_tells_who_said_it() {
    let kept = both();
    assert_eq!(kept.left, []);
    let named: Vec<&MovedSaid> = kept
        .said
        .iter()
        .filter(|(room, _)| room == "named@conference.b.example")
        .map(|(_, said)| said)
        .collect();
    let told: Vec<_> =
        named.iter().map(|said| (&*said.nick, said.address.as_deref().unwrap_or(""))).collect();
    assert_eq!(
        told,
        [
            ("Annie", "ann@b.example"),
            ("Bobby", "bob@b.example"),
            ("ann", "mallory@b.example"),
            ("Bobby", "bob@b.example"),
            ("Bobby", "bob@b.example"),
        ]
    );
    assert_eq!(named[0].at, MovedTime::UnixMs(1_795_813_743_000));
    assert_eq!(named[0].id.as_deref(), Some("Bcsu-xD0RVEMmqHLHcpX5d-h"));
    let stanza = named[1].stanza.write();
    assert!(stanza.contains("<body>two &lt;&amp;&gt;</body>"), "{stanza}");
    assert!(stanza.starts_with("<message xmlns='jabber:client' id='my-id-2' type='groupchat'>"));
    let taken: Vec<_> = named.iter().map(|said| said.retracts.as_deref()).collect();
    assert_eq!(taken, [None, None, None, Some("my-id-2"), Some("my-id-2")]);
    let semi = kept.said.iter().filter(|(room, _)| room == "semi@conference.b.example");
    let addresses: Vec<_> = semi.map(|(_, said)| said.address.clone()).collect();
    assert_eq!(addresses, vec![None; 5], "what Mallory wrote is no address");
}

#[test]
fn ids_of_occupants_tell_whose_they_are_in_either_room() {
    let kept = both();
    for (name, room) in &kept.rooms {
        assert_eq!(room.shows_addresses, name.starts_with("named@"), "{name}");
        let ids = room.occupants.as_ref().expect("it has a salt");
        let here = kept.said.iter().filter(|(of, _)| of == name);
        let who: Vec<&str> = here
            .map(|(_, said)| {
                let id = said.occupant.as_deref().expect("it has one");
                let all = ["ann@b.example", "bob@b.example", "mallory@b.example"];
                all.into_iter().find(|jid| ids.id_of(jid) == id).expect("one of them")
            })
            .collect();
        let names: Vec<&str> = who.iter().filter_map(|jid| jid.split('@').next()).collect();
        assert_eq!(names, ["ann", "bob", "mallory", "bob", "bob"], "{name}");
    }
}

#[test]
fn what_clients_write_like_an_address_is_none() {
    let item = |attributes: &str, rest: &str| {
        let x = "{ name = 'x'; attr = { xmlns = 'http://jabber.org/protocol/muc#user' }; \
                 { name = 'item'; attr = { jid = 'ann@b.example' } } };";
        format!(
            "item({{ name = 'message'; when = 1700000000; attr = {{ type = 'groupchat'; \
             from = 'r@conference.b.example/n/i/c/k'; {attributes} }}; {x} {rest} }});\n"
        )
    };
    let body = "{ name = 'body'; attr = {}; 'hello' };";
    let list = [
        item("", ""),
        item("to = 'r@conference.b.example';", ""),
        item("", body),
        "item({ name = 'message'; when = 1700000000; attr = { type = 'chat' } });\n".into(),
        "item({ name = 'presence'; when = 1700000000; attr = {} });\n".into(),
        "item({ name = 'message'; attr = { type = 'groupchat' } });\n".into(),
    ]
    .concat();
    let kept = found(&[("muc_log/r.list", list.as_bytes()), ("muc_log/%zz.list", b"item({});")]);
    let told: Vec<_> = kept.said.iter().map(|(_, said)| said.address.as_deref()).collect();
    assert_eq!(told, [Some("ann@b.example"), None, None]);
    assert!(kept.said.iter().all(|(room, said)| {
        room == "r@conference.b.example" && said.nick == "n/i/c/k" && said.id.is_none()
    }));
    let left: Vec<_> = kept.left.iter().map(|(place, why)| (&**place, &**why)).collect();
    assert_eq!(
        left,
        [
            ("%zz.list", "its name is not in Prosody's form"),
            ("r.list: item 4", "not a message to a whole room"),
            ("r.list: item 5", "a stanza `presence`, not a message"),
            ("r.list: item 6", "it has no timestamp"),
        ]
    );
}
