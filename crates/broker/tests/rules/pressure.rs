//! Services that the broker gives up when memory is short, level by level, and those that it never
//! gives up.

use crate::harness::{BrokerHarness, connect, durable, message, retained};
use model::counters::{ProcessCounter, TopicCounter};
use model::pressure::Pressure;
use model::session::*;
use model::topic::Qos;

#[test]
fn each_level_gives_up_more_and_what_is_answered_holds() {
    for (level, qos0, stored) in [
        (Pressure::Calm, true, true),
        (Pressure::Connections, true, true),
        (Pressure::Qos0, false, true),
        (Pressure::Stores, false, false),
    ] {
        let mut world = BrokerHarness::new(1);
        let publisher = world.client(connect("publisher"));
        let there = world.client(connect("there"));
        let away = world.client(durable("away"));
        world.subscribe(&there, "t", Qos::AtLeastOnce);
        world.subscribe(&away, "t", Qos::AtLeastOnce);
        world.cut(&away);
        world.nodes[0].broker.press(level);
        world.send(&publisher, 0, message("t", Qos::AtMostOnce, "light"));
        let light = world.payloads(&there);
        assert_eq!(light == ["light"], qos0, "{level:?}");
        world.send(&publisher, 7, message("t", Qos::AtLeastOnce, "heavy"));
        assert!(world.taken(&publisher).is_some(), "{level:?}: it is answered");
        assert_eq!(world.payloads(&there), ["heavy"], "{level:?}: who is there gets it");
        world.send(&publisher, 8, retained("kept", Qos::AtLeastOnce, "kept"));
        let (_, result) = world.taken(&publisher).expect("an answer");
        let expected = if stored { None } else { Some(Denial::Quota) };
        assert_eq!(result.err(), expected, "{level:?}");
        let lost = world.dropped(Drop::QueueBytes) + world.count(TopicCounter::RetainedRefused);
        assert_eq!(lost, if stored { 0 } else { 2 }, "{level:?}: it is counted");
        assert_eq!(world.count(TopicCounter::PressedPublishes), u64::from(!qos0), "{level:?}");
        assert_eq!(
            world.count(ProcessCounter::PressedStores),
            if stored { 0 } else { 2 },
            "{level:?}"
        );
        world.nodes[0].broker.press(Pressure::Calm);
        let away = world.client(durable("away"));
        let waited = world.payloads(&away);
        assert_eq!(waited.contains(&"heavy".to_owned()), stored, "{level:?}: {waited:?}");
    }
}
