//! Stream management (XEP-0198): [`acks`] say what has come, [`resumption`] goes on with a stream
//! after its connection.

pub(super) mod acks;
pub(super) mod resumption;
