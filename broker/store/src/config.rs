//! The store's settings: RocketMQ's keys and defaults (4.9.3), only those that code reads. Checked
//! once when the store opens.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// When a send counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FlushDiskType {
    /// In memory; the disk follows within `flushIntervalCommitLog`. A power loss can lose that
    /// much.
    #[default]
    AsyncFlush,
    /// When fsync has confirmed it.
    SyncFlush,
}

/// Settings of a store. Times are milliseconds, sizes bytes, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StoreConfig {
    /// The store's folder. Default `$HOME/store`.
    pub store_path_root_dir: PathBuf,
    /// The commit log's folder, perhaps on a mount of its own. Default `commitlog` in the root.
    pub store_path_commit_log: Option<PathBuf>,
    /// Length of each commit log file. Default 1 GiB. A store keeps the value it was written with.
    pub mapped_file_size_commit_log: u64,
    /// Length of each ConsumeQueue file, rounded up to whole units of 20. Default 6,000,000.
    pub mapped_file_size_consume_queue: u64,
    /// Whether an acknowledged send is on disk. Default ASYNC_FLUSH.
    pub flush_disk_type: FlushDiskType,
    /// Longest time that appended bytes wait for their fsync under ASYNC_FLUSH. Default 500.
    pub flush_interval_commit_log: u64,
    /// Longest time that ConsumeQueue units wait for their fsync. Default 1000.
    pub flush_interval_consume_queue: u64,
    /// How long a send waits for its fsync before it is answered FLUSH_DISK_TIMEOUT. Default 5000.
    pub sync_flush_timeout: u64,
    /// Longest body. Can be changed at run time. Default 4 MiB. A whole record may have 64 KiB
    /// more.
    pub max_message_size: usize,
    /// Hours of the day, separated by `;`, in which expired files are deleted. Default `04`.
    pub delete_when: String,
    /// Hours that a file is kept after its last change. Can be changed at run time. Default 72.
    pub file_reserved_time: u64,
    /// Filled percentage of the disk above which expired files are deleted at any hour. Default 75.
    pub disk_max_used_space_ratio: u32,
    /// Filled percentage above which the oldest files are deleted although not expired, if
    /// `cleanFileForciblyEnable`. Default 85.
    pub disk_space_clean_forcibly_ratio: u32,
    /// Filled percentage above which sends are refused. Default 90.
    pub disk_space_warning_level_ratio: u32,
    /// Whether unexpired files may be deleted to keep the disk from filling up. Default true.
    pub clean_file_forcibly_enable: bool,
    /// How often the cleaner runs. Default 10,000.
    pub clean_resource_interval: u64,
    /// Pause between two deleted commit log files. Default 100.
    pub delete_commit_log_files_interval: u64,
    /// Pause between two deleted ConsumeQueue files. Default 100.
    pub delete_consume_queue_files_interval: u64,
    /// Whether messages with keys enter the index. Default true.
    pub message_index_enable: bool,
    /// Hash slots of an index file. Default 5,000,000.
    pub max_hash_slot_num: u32,
    /// Entries of an index file. Default 20,000,000.
    pub max_index_num: u32,
    /// Delay of each level, first level first: number and unit (s, m, h, d), separated by spaces.
    pub message_delay_level: String,
    /// Share of the memory, in percent, within which the newest bytes of the log count as cached.
    /// Default 40.
    pub access_message_in_memory_max_ratio: u32,
    /// Longest answer to a pull from memory. Default 256 KiB.
    pub max_transfer_bytes_on_message_in_memory: usize,
    /// Most messages in an answer to a pull from memory. Default 32.
    pub max_transfer_count_on_message_in_memory: usize,
    /// Longest answer to a pull from disk. Default 64 KiB.
    pub max_transfer_bytes_on_message_in_disk: usize,
    /// Most messages in an answer to a pull from disk. Default 8.
    pub max_transfer_count_on_message_in_disk: usize,
    /// Most messages that a query by key answers. Default 64.
    pub max_msgs_num_batch: usize,
    /// Deepest lock time of an append that is still healthy; longer reports as busy. Default 1000.
    pub os_page_cache_busy_time_out_mills: u64,
}

/// 4.9's eighteen levels.
pub const DEFAULT_DELAY_LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        StoreConfig {
            store_path_root_dir: std::env::home_dir().unwrap_or_default().join("store"),
            store_path_commit_log: None,
            mapped_file_size_commit_log: 1 << 30,
            mapped_file_size_consume_queue: 300_000 * 20,
            flush_disk_type: FlushDiskType::AsyncFlush,
            flush_interval_commit_log: 500,
            flush_interval_consume_queue: 1000,
            sync_flush_timeout: 5000,
            max_message_size: 4 << 20,
            delete_when: "04".to_owned(),
            file_reserved_time: 72,
            disk_max_used_space_ratio: 75,
            disk_space_clean_forcibly_ratio: 85,
            disk_space_warning_level_ratio: 90,
            clean_file_forcibly_enable: true,
            clean_resource_interval: 10_000,
            delete_commit_log_files_interval: 100,
            delete_consume_queue_files_interval: 100,
            message_index_enable: true,
            max_hash_slot_num: 5_000_000,
            max_index_num: 20_000_000,
            message_delay_level: DEFAULT_DELAY_LEVELS.to_owned(),
            access_message_in_memory_max_ratio: 40,
            max_transfer_bytes_on_message_in_memory: 256 << 10,
            max_transfer_count_on_message_in_memory: 32,
            max_transfer_bytes_on_message_in_disk: 64 << 10,
            max_transfer_count_on_message_in_disk: 8,
            max_msgs_num_batch: 64,
            os_page_cache_busy_time_out_mills: 1000,
        }
    }
}

impl StoreConfig {
    /// The commit log's folder.
    pub fn commit_log_folder(&self) -> PathBuf {
        match &self.store_path_commit_log {
            Some(path) => path.clone(),
            None => self.store_path_root_dir.join("commitlog"),
        }
    }

    /// The folder of the ConsumeQueues.
    pub fn consume_queue_folder(&self) -> PathBuf {
        self.store_path_root_dir.join("consumequeue")
    }

    /// The folder of the index files.
    pub fn index_folder(&self) -> PathBuf {
        self.store_path_root_dir.join("index")
    }

    /// The folder of the state tables' files.
    pub fn config_folder(&self) -> PathBuf {
        self.store_path_root_dir.join("config")
    }

    /// Length of a ConsumeQueue file: the configured one, rounded up to whole units.
    pub fn consume_queue_file_len(&self) -> u64 {
        self.mapped_file_size_consume_queue.div_ceil(20) * 20
    }

    /// The hours of `deleteWhen`; `None` if one of them is no hour.
    pub(crate) fn delete_hours(&self) -> Option<Vec<i8>> {
        let hours = self.delete_when.split(';').map(str::trim).filter(|text| !text.is_empty());
        let hour = |text: &str| text.parse().ok().filter(|hour| (0..24).contains(hour));
        hours.map(hour).collect()
    }

    /// Refuses values that no store can work with.
    pub fn check(&self) -> Result<(), StoreError> {
        let refuse = |key, reason: &str| Err(StoreError::Config { key, reason: reason.to_owned() });
        if self.store_path_root_dir.as_os_str().is_empty() {
            return refuse("storePathRootDir", "is empty, and HOME isn't set: name a folder");
        }
        if self.mapped_file_size_commit_log < 8192
            || !self.mapped_file_size_commit_log.is_multiple_of(4096)
        {
            return refuse(
                "mappedFileSizeCommitLog",
                "must be a multiple of 4096 and at least 8192",
            );
        }
        if self.mapped_file_size_consume_queue < 20 {
            return refuse("mappedFileSizeConsumeQueue", "must hold at least one unit of 20 bytes");
        }
        if self.commit_log_folder().as_os_str().as_encoded_bytes().contains(&b',') {
            return refuse("storePathCommitLog", "several folders are not supported: name one");
        }
        if self.delete_hours().is_none() {
            return refuse("deleteWhen", "must be hours from 0 to 23, separated by `;`");
        }
        if self.max_hash_slot_num == 0 || self.max_index_num < 2 {
            return refuse("maxHashSlotNum, maxIndexNum", "must be at least 1 and 2");
        }
        for (key, value) in [
            ("diskMaxUsedSpaceRatio", self.disk_max_used_space_ratio),
            ("diskSpaceCleanForciblyRatio", self.disk_space_clean_forcibly_ratio),
            ("diskSpaceWarningLevelRatio", self.disk_space_warning_level_ratio),
            ("accessMessageInMemoryMaxRatio", self.access_message_in_memory_max_ratio),
        ] {
            if value > 100 {
                return refuse(key, "is a percentage, 0 to 100");
            }
        }
        Ok(())
    }

    /// Changes one of the settings that may change while the store runs, by RocketMQ's key. False
    /// if it isn't one of them.
    pub(crate) fn set_at_run_time(&mut self, key: &str, value: &str) -> Result<bool, String> {
        fn parse<T: FromStr>(key: &str, value: &str) -> Result<T, String>
        where
            T::Err: Display,
        {
            value.trim().parse().map_err(|error| format!("{key}={value}: {error}"))
        }
        match key {
            "flushIntervalCommitLog" => self.flush_interval_commit_log = parse(key, value)?,
            "flushIntervalConsumeQueue" => self.flush_interval_consume_queue = parse(key, value)?,
            "syncFlushTimeout" => self.sync_flush_timeout = parse(key, value)?,
            "maxMessageSize" => self.max_message_size = parse(key, value)?,
            "deleteWhen" => self.delete_when = value.trim().to_owned(),
            "fileReservedTime" => self.file_reserved_time = parse(key, value)?,
            "diskMaxUsedSpaceRatio" => self.disk_max_used_space_ratio = parse(key, value)?,
            "diskSpaceCleanForciblyRatio" => {
                self.disk_space_clean_forcibly_ratio = parse(key, value)?;
            }
            "diskSpaceWarningLevelRatio" => {
                self.disk_space_warning_level_ratio = parse(key, value)?;
            }
            "cleanFileForciblyEnable" => self.clean_file_forcibly_enable = parse(key, value)?,
            "cleanResourceInterval" => self.clean_resource_interval = parse(key, value)?,
            "deleteCommitLogFilesInterval" => {
                self.delete_commit_log_files_interval = parse(key, value)?;
            }
            "deleteConsumeQueueFilesInterval" => {
                self.delete_consume_queue_files_interval = parse(key, value)?;
            }
            "messageIndexEnable" => self.message_index_enable = parse(key, value)?,
            "maxTransferBytesOnMessageInMemory" => {
                self.max_transfer_bytes_on_message_in_memory = parse(key, value)?;
            }
            "maxTransferCountOnMessageInMemory" => {
                self.max_transfer_count_on_message_in_memory = parse(key, value)?;
            }
            "maxTransferBytesOnMessageInDisk" => {
                self.max_transfer_bytes_on_message_in_disk = parse(key, value)?;
            }
            "maxTransferCountOnMessageInDisk" => {
                self.max_transfer_count_on_message_in_disk = parse(key, value)?;
            }
            "maxMsgsNumBatch" => self.max_msgs_num_batch = parse(key, value)?,
            "osPageCacheBusyTimeOutMills" => {
                self.os_page_cache_busy_time_out_mills = parse(key, value)?
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}
