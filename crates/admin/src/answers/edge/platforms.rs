//! Push services of platforms: their status.

use crate::platforms::PlatformStatus;
use schemars::JsonSchema;
use serde::Serialize;

/// All platforms.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PlatformList {
    /// The platforms of the configuration.
    pub(crate) platforms: Vec<PlatformStatus>,
}
