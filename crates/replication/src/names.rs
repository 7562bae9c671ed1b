//! Names in NATS: of the table, of streams, and of subjects.
//!
//! ```text
//! bucket   HL-NAME-TABLE             keys  cluster, node.N, log.nn
//! stream   HL-NAME-LOG-nn-g          of subject  hl.NAME.log.nn.g
//! core     hl.NAME.beat.N            beats
//!          hl.NAME.ask               how far are you? answered at the reply subject
//!          hl.NAME.copy.N            parts of a base
//! ```

use model::id::NodeId;
use nats::StreamSpec;

/// Longest name of a cluster, bytes.
const NAME_BYTES_MAX: usize = 32;

/// Names of one cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Names {
    name: String,
}

impl Names {
    /// Of a cluster of this name; an error if it is none.
    pub(crate) fn of(name: &str) -> Result<Names, String> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_good) {
            true => Ok(Names { name: name.to_owned() }),
            false => Err(format!(
                "the name {name:?} must be 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"
            )),
        }
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.name
    }

    pub(crate) fn bucket(&self) -> String {
        format!("HL-{}-TABLE", self.name)
    }

    pub(crate) fn stream(&self, log: u16, generation: u32) -> String {
        format!("HL-{}-LOG-{log:02}-{generation}", self.name)
    }

    pub(crate) fn subject(&self, log: u16, generation: u32) -> String {
        format!("hl.{}.log.{log:02}.{generation}", self.name)
    }

    /// The stream of a generation of a log.
    pub(crate) fn spec(&self, log: u16, generation: u32, replicas: u16) -> StreamSpec {
        StreamSpec {
            name: self.stream(log, generation),
            subject: self.subject(log, generation),
            replicas,
            bytes_max: cluster::held::STREAM_BYTES_MAX,
        }
    }

    pub(crate) fn beat(&self, node: NodeId) -> String {
        format!("hl.{}.beat.{}", self.name, node.number())
    }

    pub(crate) fn beats(&self) -> String {
        format!("hl.{}.beat.*", self.name)
    }

    pub(crate) fn ask(&self) -> String {
        format!("hl.{}.ask", self.name)
    }

    pub(crate) fn copy(&self, node: NodeId) -> String {
        format!("hl.{}.copy.{}", self.name, node.number())
    }
}

/// The key of the cluster's value.
pub(crate) const CLUSTER: &str = "cluster";

/// The key of a node's value.
pub(crate) fn node_key(node: NodeId) -> String {
    format!("node.{}", node.number())
}

/// The key of a log's value.
pub(crate) fn log_key(log: u16) -> String {
    format!("log.{log:02}")
}

/// Kind of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Cluster,
    Node(NodeId),
    Log(u16),
}

/// Reads a key; none: of somebody else.
pub(crate) fn read_key(key: &str) -> Option<Key> {
    if key == CLUSTER {
        return Some(Key::Cluster);
    }
    if let Some(number) = key.strip_prefix("node.") {
        return number.parse().ok().and_then(NodeId::new).map(Key::Node);
    }
    key.strip_prefix("log.")?.parse().ok().map(Key::Log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_these_letters() {
        let names = Names::of("east-1").expect("a name");
        assert_eq!(names.bucket(), "HL-east-1-TABLE");
        assert_eq!(names.stream(3, 12), "HL-east-1-LOG-03-12");
        assert_eq!(names.subject(3, 12), "hl.east-1.log.03.12");
        for wrong in ["", "a.b", "a b", "a*", ">", &"x".repeat(33)] {
            assert!(Names::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let node = NodeId::new(7).expect("a node");
        assert_eq!(read_key(&node_key(node)), Some(Key::Node(node)));
        assert_eq!(read_key(&log_key(95)), Some(Key::Log(95)));
        assert_eq!(read_key(CLUSTER), Some(Key::Cluster));
        for other in ["node.x", "node.99999", "log.", "planner", ""] {
            assert_eq!(read_key(other), None, "{other}");
        }
    }
}
