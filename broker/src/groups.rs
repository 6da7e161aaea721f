//! The consumer groups' settings and `subscriptionGroup.json`, which keeps them. Who of a group is
//! online is in [`crate::clients`], how far it has read in [`crate::offsets`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use arc_swap::ArcSwap;
use broker_protocol::body::{DataVersion, SubscriptionGroupConfig, SubscriptionGroups};
use broker_protocol::name;
use parking_lot::{Mutex, RwLock};

use crate::state_file::{StateFile, StateFileError};

/// How many groups the table takes; it guards memory and disk against a client that makes up names.
pub const GROUPS_MAX: usize = 200_000;

/// One group. Its settings change in place, so a holder of the handle always reads the current
/// ones.
#[derive(Debug)]
pub struct Group {
    name: Arc<str>,
    config: ArcSwap<SubscriptionGroupConfig>,
}

impl Group {
    fn new(config: Arc<SubscriptionGroupConfig>) -> Arc<Group> {
        let name = Arc::clone(&config.group_name);
        Arc::new(Group { name, config: ArcSwap::new(config) })
    }

    /// The group's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The settings as they are now.
    #[must_use]
    pub fn config(&self) -> Arc<SubscriptionGroupConfig> {
        self.config.load_full()
    }
}

/// Why a group could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The name breaks the rules, or its retry or dead-letter topic would.
    #[error("{0}")]
    Name(String),
    /// The table holds [`GROUPS_MAX`] groups already.
    #[error("the broker keeps no more than {GROUPS_MAX} groups")]
    Full,
    /// The file could not be written. The change is in force, and in the file with the next one.
    #[error(transparent)]
    File(#[from] StateFileError),
}

type Table = HashMap<Arc<str>, Arc<Group>, RandomState>;

/// The settings of every group. Every change is in the file before the call returns.
#[derive(Debug)]
pub struct Groups {
    table: RwLock<Table>,
    version: Mutex<DataVersion>,
    file: StateFile,
    /// Counts the changes made in memory.
    changes: AtomicU64,
    /// How many of them are in the file. Whoever holds the lock writes for all that wait for it.
    written: Mutex<u64>,
}

impl Groups {
    /// Reads the table from its file and adds the groups that every broker has. `now` (milliseconds
    /// since 1970) becomes the version of a table that was never written.
    ///
    /// # Errors
    /// When neither the file nor its backup can be read.
    pub fn load(file: StateFile, now: i64) -> Result<Groups, StateFileError> {
        let stored: Option<SubscriptionGroups> = file.load()?;
        let stored = stored.unwrap_or_else(|| SubscriptionGroups {
            data_version: DataVersion { timestamp: now, ..DataVersion::default() },
            ..SubscriptionGroups::default()
        });
        let mut table = Table::default();
        for (name, config) in stored.subscription_group_table {
            // The key is what a group is looked up by; a value that says otherwise is an accident.
            let config = if config.group_name == name {
                config
            } else {
                let group_name = Arc::clone(&name);
                Arc::new(SubscriptionGroupConfig { group_name, ..(*config).clone() })
            };
            table.insert(name, Group::new(config));
        }
        for built_in in name::BUILT_IN_GROUPS {
            let fresh = || Group::new(Arc::new(SubscriptionGroupConfig::new(built_in)));
            table.entry(Arc::from(built_in)).or_insert_with(fresh);
        }
        Ok(Groups {
            table: RwLock::new(table),
            version: Mutex::new(stored.data_version),
            file,
            changes: AtomicU64::new(0),
            written: Mutex::new(0),
        })
    }

    /// The group, if it is known. A hash lookup without allocation.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Group>> {
        self.table.read().get(name).cloned()
    }

    /// The group, made with default settings when it is not known and `auto_create` (or its name,
    /// which is a system group's) allows. Writes the file when it makes one, so it belongs on the
    /// blocking pool. `now` is in milliseconds.
    ///
    /// # Errors
    /// When the name is refused or the table is full. A failed write is logged only: the group is
    /// in use already.
    pub fn find_or_create(
        &self,
        name: &str,
        auto_create: bool,
        now: i64,
    ) -> Result<Option<Arc<Group>>, GroupError> {
        if let Some(group) = self.find(name) {
            return Ok(Some(group));
        }
        if !auto_create && !name::is_system_group(name) {
            return Ok(None);
        }
        check_group_name(name)?;
        let config = Arc::new(SubscriptionGroupConfig::new(name));
        let group = match self.change(now, |table| insert_new(table, config)) {
            Ok(group) => group,
            Err(GroupError::File(error)) => {
                tracing::error!(group = name, %error, "group made, but its file could not be written");
                return Ok(self.find(name));
            }
            Err(error) => return Err(error),
        };
        tracing::info!(group = name, "group made by its first use");
        Ok(Some(group))
    }

    /// Makes the group or replaces its settings.
    ///
    /// # Errors
    /// When the name is refused, the table is full or the file could not be written.
    pub fn update(&self, config: SubscriptionGroupConfig, now: i64) -> Result<(), GroupError> {
        check_group_name(&config.group_name)?;
        let config = Arc::new(config);
        self.change(now, |table| {
            let group = insert_new(table, Arc::clone(&config))?;
            group.config.store(config);
            Ok(())
        })
    }

    /// Forgets the group's settings; false when it was not known.
    ///
    /// # Errors
    /// When the file could not be written.
    pub fn delete(&self, name: &str, now: i64) -> Result<bool, GroupError> {
        if self.find(name).is_none() {
            return Ok(false);
        }
        self.change(now, |table| {
            table.remove(name);
            Ok(())
        })?;
        Ok(true)
    }

    /// All groups with the version of the table, as the file and GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    /// (201) have it.
    #[must_use]
    pub fn snapshot(&self) -> SubscriptionGroups {
        let table = self.table.read();
        let configs = table.iter().map(|(name, group)| (Arc::clone(name), group.config()));
        SubscriptionGroups {
            subscription_group_table: configs.collect(),
            data_version: *self.version.lock(),
        }
    }

    /// All groups, in no order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Group>> {
        self.table.read().values().cloned().collect()
    }

    /// How many groups are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table.read().len()
    }

    fn change<T>(
        &self,
        now: i64,
        edit: impl FnOnce(&mut Table) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        let mut table = self.table.write();
        let edited = edit(&mut table)?;
        self.version.lock().advance(now);
        let change = self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        drop(table);
        self.write(change)?;
        Ok(edited)
    }

    /// Sees to it that the change is in the file. Many groups that are made at once are written
    /// together: the first writes its own, the next one all that came meanwhile.
    fn write(&self, change: u64) -> Result<(), StateFileError> {
        let mut written = self.written.lock();
        if *written >= change {
            return Ok(());
        }
        let latest = self.changes.load(Ordering::Acquire);
        self.file.save(&self.snapshot())?;
        *written = latest;
        Ok(())
    }
}

fn insert_new(
    table: &mut Table,
    config: Arc<SubscriptionGroupConfig>,
) -> Result<Arc<Group>, GroupError> {
    if let Some(group) = table.get(&*config.group_name) {
        return Ok(group.clone());
    }
    if table.len() >= GROUPS_MAX {
        return Err(GroupError::Full);
    }
    let group = Group::new(config);
    table.insert(group.name.clone(), group.clone());
    Ok(group)
}

/// Refuses a name that breaks the rules for names, and one so long that its retry or dead-letter
/// topic would be no topic: what such a group fails to consume would have nowhere to go.
///
/// # Errors
/// [`GroupError::Name`] with a text for the client.
pub fn check_group_name(group: &str) -> Result<(), GroupError> {
    name::check_group(group).map_err(|error| GroupError::Name(error.to_string()))
}

#[cfg(test)]
mod tests;
