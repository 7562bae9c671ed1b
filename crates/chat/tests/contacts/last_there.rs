//! Last activity of people, and who may query it, on one to three shards.

use crate::nodes::world;
use crate::world::World;
use model::chat::*;

const ANN: usize = 0;
const ANNS_TABLET: usize = 1;
const BOB: usize = 2;
const CARL: usize = 4;

/// Seconds since a person was online, by a device's query.
fn last(world: &mut World, at: usize, of: Option<u32>) -> Result<u64, NodesFault> {
    match world.nodes(at, of, NodesAsk::LastThere)? {
        NodesFound::LastThere { ago_s } => Ok(ago_s),
        other => panic!("{other:?}"),
    }
}

fn passes(world: &mut World, s: u64) {
    world.rest();
    world.pass_ms(s * 1_000);
    world.rest();
}

#[test]
fn who_sees_somebody_hears_when_that_was_last_there_and_nobody_else_does() {
    for shards in 1..=3 {
        let mut world = world(shards);
        let ann = Some(0);
        assert_eq!((last(&mut world, BOB, ann), last(&mut world, ANN, None)), (Ok(0), Ok(0)));
        world.connect(ANNS_TABLET);
        world.rest();
        world.presents(ANNS_TABLET, Some(-1));
        world.rest();
        world.disconnect(ANN);
        passes(&mut world, 60);
        assert_eq!(last(&mut world, BOB, ann), Ok(0), "another device is there");
        world.presents(ANNS_TABLET, None);
        passes(&mut world, 90);
        let ago_s = last(&mut world, BOB, ann).expect("told");
        assert!((90..99).contains(&ago_s), "{ago_s}");
        world.disconnect(ANNS_TABLET);
        passes(&mut world, 10);
        let ago_s = last(&mut world, BOB, ann).expect("told");
        assert!((100..115).contains(&ago_s), "it had gone before: {ago_s}");
        // An account that may not see the presence gets the answer for a missing account, except
        // for the name of the fault.
        assert_eq!(last(&mut world, CARL, ann), Err(NodesFault::NotSubscribed));
        assert_eq!(last(&mut world, CARL, Some(9)), Err(NodesFault::UnknownAccount));
        world.connect(ANN);
        world.rest();
        assert!(last(&mut world, BOB, ann).is_ok_and(|ago_s| ago_s >= 100), "it only logged in");
        world.presents(ANN, Some(1));
        world.rest();
        assert_eq!(last(&mut world, BOB, ann), Ok(0));
        world.orders(ANN, 1, ContactOrder::Block).expect("done");
        assert_eq!(last(&mut world, BOB, ann), Err(NodesFault::UnknownAccount));
    }
}

#[test]
fn after_a_start_it_is_not_known_of_whoever_went_before() {
    let mut world = world(2);
    world.disconnect(ANN);
    world.rest();
    assert!(last(&mut world, BOB, Some(0)).is_ok());
    world.kill();
    world.connect(BOB);
    world.rest();
    assert_eq!(last(&mut world, BOB, Some(0)), Err(NodesFault::UnknownItem));
}
