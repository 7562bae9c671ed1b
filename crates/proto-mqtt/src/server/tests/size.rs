//! Memory of an idle connection.

use super::harness::ServerHarness;
use crate::codec::Version;
use crate::server::Server;

/// A table of protocols as `server::machines` has it, with a neighbour of sixteen bytes.
#[expect(dead_code, reason = "only its size is looked at")]
enum Table {
    Other(Other),
    Mqtt(Server),
}

#[expect(dead_code, reason = "only its size is looked at")]
enum Other {
    Idle { name: u64, number: u32, kind: u16, version: Version },
    Busy(Box<u64>),
}

#[test]
fn a_machine_finds_room_beside_one_of_sixteen_bytes() {
    assert_eq!(size_of::<Other>(), 16);
    assert_eq!(size_of::<Server>(), 12);
    assert_eq!(size_of::<Table>(), 16);
    assert_eq!(size_of::<Option<Table>>(), 16);
}

#[test]
fn an_idle_client_without_terms_of_its_own_has_no_box() {
    for version in Version::ALL {
        let harness = ServerHarness::strict().bound(version);
        assert!(harness.machine.is_idle(), "{version:?}");
    }
}
