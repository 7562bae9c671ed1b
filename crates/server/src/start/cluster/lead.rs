//! The parts with which a server starts that leads a cluster; a server that is alone has the same
//! with nothing in it.
//!
//! This is the only place where the two differ at the start. Invariant: acknowledgements reach the
//! logs before anything waits for them.

use admin::{ClusterReading, MetricReading, Readings};
use model::ports::lead::LeadProof;
use std::sync::Arc;
use store::data::{Logs, OpenFolder};

/// Parts with which a server starts, beside its configuration, to serve the logs of a cluster.
pub struct Lead {
    /// The folder, open already.
    pub(in crate::start) folder: Option<Box<OpenFolder>>,
    /// Called once the logs run.
    pub(in crate::start) opened: Box<dyn FnOnce(Arc<Logs>)>,
    /// Called about each second, if all shards have turned since.
    pub(in crate::start) turned: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Proof that the node leads, for answers without a write.
    pub(in crate::start) proof: LeadProof,
    /// The cluster.
    pub(in crate::start) view: ClusterReading,
    /// Its figures.
    pub(in crate::start) readings: Readings,
}

impl Lead {
    /// That of a server that is alone.
    pub(in crate::start) fn alone() -> Lead {
        Lead {
            folder: None,
            opened: Box::new(drop),
            turned: None,
            proof: LeadProof::default(),
            view: Arc::new(|| None),
            readings: Arc::new(Vec::<MetricReading>::new),
        }
    }

    /// How many logs its folder has, and thus how many shards the server has.
    pub(in crate::start) fn logs(&self) -> Option<usize> {
        self.folder.as_ref().map(|folder| folder.logs_on_disk().into())
    }
}
