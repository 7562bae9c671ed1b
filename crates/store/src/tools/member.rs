//! Which node of a cluster a data folder belongs to: to be shown, set, and made for a new node.
//!
//! A folder that belongs to node 0 is a lone server's. Invariant: a folder that has data keeps its
//! secret and its number of logs.

use super::{Means, take};
use crate::OpenError;
use crate::data::folder::{Format, Layout, check_format};
use crate::data::{Place, Secrets};
use crate::files::write_whole;
use model::id::NodeId;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The file with the name of the cluster that a folder belongs to.
const CLUSTER_NAME: &str = "cluster.name";

/// Owner of a data folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The node, 0 for a lone server.
    pub node: NodeId,
    /// How many logs it has.
    pub logs: u16,
    /// The fingerprint of its cluster's secret.
    pub fingerprint: u64,
}

/// Owner of a folder, also of one that is in use; `None`: it has no data yet.
pub fn read(path: &Path, means: &Means) -> Result<Option<Member>, OpenError> {
    if means.files.names(path).is_err() {
        return Ok(None);
    }
    match check_format(path, &*means.files)? {
        Format::First => Ok(None),
        Format::Made(Layout { logs, cluster, node, .. }) => {
            Ok(Some(Member { node, logs, fingerprint: cluster }))
        }
    }
}

/// A folder that no server uses, and none can use while this lives.
pub struct HeldFolder {
    _place: Place,
}

/// Holds a folder that no server uses.
pub fn hold(path: &Path, means: &Means) -> Result<HeldFolder, OpenError> {
    take(path, means).map(|(place, _)| HeldFolder { _place: place })
}

/// The name of the cluster that a folder belongs to, if it was noted.
pub fn cluster_name(path: &Path, means: &Means) -> Result<Option<String>, OpenError> {
    let file = path.join(CLUSTER_NAME);
    match means.files.read(&file) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::at(&file, error)),
    }
}

/// Notes the name of the cluster that a folder belongs to; none: of no cluster.
pub fn note_cluster_name(path: &Path, name: Option<&str>, means: &Means) -> Result<(), OpenError> {
    let file = path.join(CLUSTER_NAME);
    let noted = match name {
        Some(name) => write_whole(&*means.files, &file, format!("{name}\n").as_bytes()),
        None => match means.files.remove(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        },
    };
    noted.map_err(|error| OpenError::at(&file, error))
}

/// Gives a folder that no server uses to this node.
pub fn set_node(path: &Path, node: NodeId, means: &Means) -> Result<(), OpenError> {
    let (mut place, logs) = take(path, means)?;
    place.check_whole()?;
    place.node = node;
    place.write_format(logs, false)
}

/// Makes the folder of a new node, with so many empty logs, or takes one without data. Where it
/// has a cluster's secret already, it must be this one.
pub fn make(
    path: &Path,
    secrets: Secrets,
    (node, logs): (NodeId, u16),
    means: &Means,
) -> Result<(), OpenError> {
    let (files, states) = (Arc::clone(&means.files), Arc::clone(&means.states));
    let (mut place, format) = Place::take(path, secrets, files, states)?;
    if format != Format::First || place.secrets.cluster.bytes() != secrets.cluster.bytes() {
        return Err(OpenError::HasCluster { path: path.into() });
    }
    place.node = node;
    place.begin(logs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Folder, Settings};
    use crate::files::Disk;

    fn node(number: u16) -> NodeId {
        NodeId::new(number).expect("a node")
    }

    #[test]
    fn a_folder_is_made_for_a_node_and_given_to_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, means) = (folder.path().join("data"), Means::default());
        assert_eq!(read(&path, &means).expect("read"), None);
        let secrets = Secrets::of([7; 64]);
        make(&path, secrets, (node(2), 3), &means).expect("made");
        let fingerprint = secrets.cluster.fingerprint();
        let member = Member { node: node(2), logs: 3, fingerprint };
        assert_eq!(read(&path, &means).expect("read"), Some(member));
        assert!(make(&path, secrets, (node(3), 3), &means).is_err(), "it is made");
        set_node(&path, node(5), &means).expect("set");
        let settings = Settings::new(Secrets::of([9; 64]), 3);
        let opened = Folder::open(&path, settings, Arc::new(Disk)).expect("open");
        assert_eq!((opened.node, opened.logs_on_disk()), (node(5), 3));
        assert_eq!(opened.secrets.cluster.fingerprint(), fingerprint);
        assert!(set_node(&path, node(6), &means).is_err(), "it is in use");
        assert!(matches!(hold(&path, &means), Err(OpenError::Locked { .. })));
        drop(opened);
        let held = hold(&path, &means).expect("nobody uses it");
        assert!(set_node(&path, node(6), &means).is_err(), "it is held");
        drop(held);
        set_node(&path, node(6), &means).expect("set");
    }

    #[test]
    fn a_folder_remembers_the_name_of_its_cluster() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, means) = (folder.path(), Means::default());
        assert_eq!(cluster_name(path, &means).expect("read"), None);
        note_cluster_name(path, Some("east"), &means).expect("written");
        assert_eq!(cluster_name(path, &means).expect("read").as_deref(), Some("east"));
        note_cluster_name(path, None, &means).expect("removed");
        note_cluster_name(path, None, &means).expect("nothing to remove");
        assert_eq!(cluster_name(path, &means).expect("read"), None);
    }

    #[test]
    fn a_secret_that_was_set_before_must_be_the_clusters() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, means) = (folder.path().join("data"), Means::default());
        let (ours, theirs) = (Secrets::of([7; 64]), Secrets::of([8; 64]));
        crate::tools::secret::set(&path, ours.cluster, &means).expect("set");
        assert!(make(&path, theirs, (node(2), 1), &means).is_err());
        make(&path, ours, (node(2), 1), &means).expect("the same one");
    }
}
