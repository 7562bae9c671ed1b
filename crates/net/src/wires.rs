//! Two protocols for the tests, which begin as MIOP and MQTT do.

use model::limits::Limits;
use model::link::{FrameLimits, Protocol, WireProfile};

/// Both protocols.
pub(crate) const WIRES: [WireProfile; 2] = [FRAMES, PACKETS];

/// One whose frames all count.
const FRAMES: WireProfile = WireProfile {
    protocol: Protocol::Miop,
    begins: |bytes| bytes[0] == 0x00,
    begins_alone: |_| false,
    alpn: &["miop/7"],
    subprotocols: &["miop"],
    frames: |limits| FrameLimits {
        unbound_bytes_max: limits.frame_bytes_unbound_max as usize,
        bytes_max: limits.frame_bytes_max as usize,
        out_bytes_max: limits.out_bytes_max as usize,
        out_frames_max: limits.out_frames_max as usize,
        counts_shared_alone: false,
        backlog_bytes_max: usize::MAX,
    },
    asks_tls: true,
    text_messages: false,
};

/// One whose small packets count by their bytes, and which may be much larger.
const PACKETS: WireProfile = WireProfile {
    protocol: Protocol::Mqtt,
    begins: |bytes| bytes[0] == 0x10,
    begins_alone: |bytes| bytes[0] >> 4 == 1,
    alpn: &["mqtt"],
    subprotocols: &["mqtt", "mqttv3.1"],
    frames: packet_limits,
    asks_tls: false,
    text_messages: false,
};

fn packet_limits(limits: &Limits) -> FrameLimits {
    let packet = limits.topics.packet_bytes_max as usize;
    FrameLimits {
        unbound_bytes_max: packet.min(limits.topics.connect_bytes_max as usize),
        bytes_max: packet,
        out_bytes_max: packet.max(limits.out_bytes_max as usize) + packet,
        out_frames_max: limits.out_frames_max as usize,
        counts_shared_alone: true,
        backlog_bytes_max: limits.topics.qos0_backlog_bytes_max as usize,
    }
}
