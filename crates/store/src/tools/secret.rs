//! The secret of the cluster whose a data folder is: to be shown, and to be given to a new node.
//!
//! All that is stored is named under it, so it is set before anything is stored and never changed.
//! Invariant: a folder that has data keeps the secret it has.

use super::Means;
use crate::OpenError;
use crate::data::folder;
use base::secret::ClusterSecret;
use std::path::Path;

/// The secret of a folder, also of one that is in use.
pub fn read(path: &Path, means: &Means) -> Result<ClusterSecret, OpenError> {
    folder::cluster_of(path, &*means.files)
}

/// Makes a folder, or takes one without data, and has it begin with this secret.
pub fn set(path: &Path, secret: ClusterSecret, means: &Means) -> Result<(), OpenError> {
    folder::set_cluster(path, secret, &*means.files)
}
