//! The door of the store: opens, holds and closes everything. Each operation lives with the part it
//! belongs to; here they are only tied together.

use std::sync::Arc;

use crate::config::StoreConfig;
use crate::env::{Env, FileSystem};

/// An open store. Cheap to clone; the last clone gone, its threads stop.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// What every part of an open store may look at.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: StoreConfig,
    pub(crate) env: Env,
}

impl Store {
    /// The file system that state tables write through.
    pub fn files(&self) -> &Arc<dyn FileSystem> {
        &self.shared.env.files
    }

    /// The settings that the store was opened with.
    pub fn config(&self) -> &StoreConfig {
        &self.shared.config
    }
}
