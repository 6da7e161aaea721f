//! What unit tests of the rooms share: a small store on a clock that the test moves, and tables in
//! a temporary folder.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use broker_protocol::record::RecordView;
use broker_protocol::tags::TagFilter;
use broker_store::env::{self, Clock, Env};
use broker_store::{Appended, ColdReads, NewRecord, Queue, Read, ReadStatus, Store, StoreConfig};

use crate::state_file::StateFile;
use crate::topics::{BootTopics, Topics};

/// A clock that stands until the test moves it.
#[derive(Debug)]
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn at(now_ms: i64) -> Arc<ManualClock> {
        Arc::new(ManualClock(AtomicI64::new(now_ms)))
    }

    pub(crate) fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// A store of small files.
pub(crate) fn open_store(folder: &Path, clock: Arc<dyn Clock>) -> Store {
    let config = StoreConfig {
        store_path_root_dir: folder.to_path_buf(),
        mapped_file_size_commit_log: 1 << 20,
        mapped_file_size_consume_queue: 20_000,
        max_hash_slot_num: 100,
        max_index_num: 400,
        // The machine that runs the tests may be nearly full.
        disk_space_warning_level_ratio: 100,
        disk_max_used_space_ratio: 100,
        disk_space_clean_forcibly_ratio: 100,
        ..StoreConfig::default()
    };
    Store::open(config, Env { clock, ..env::os() }).unwrap()
}

pub(crate) fn state_file(folder: &Path, name: &str) -> StateFile {
    StateFile::new(env::os().files, folder, name)
}

/// A table with the topics of every broker.
pub(crate) fn topics(folder: &Path) -> Arc<Topics> {
    let boot = BootTopics {
        cluster: "c",
        broker: "b",
        default_queues: 8,
        delay_levels: 18,
        auto_create: true,
        cluster_topic: true,
        broker_topic: true,
        trace_topic: None,
    };
    Arc::new(Topics::load(state_file(folder, "topics.json"), &boot).unwrap())
}

pub(crate) fn host() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 10911))
}

pub(crate) fn put(store: &Store, queue: &Arc<Queue>, body: &[u8], properties: &[u8]) -> Appended {
    let record = NewRecord {
        queue,
        flag: 5,
        sys_flag: 0,
        born_timestamp: 7,
        born_host: SocketAddr::from(([10, 0, 0, 9], 4)),
        store_host: host(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
    };
    store.append(&record).unwrap()
}

/// Waits until everything appended is in its queue.
pub(crate) fn settle(store: &Store) {
    until("all is dispatched", || store.dispatched() == store.max_offset());
}

/// Waits until `done`.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A message as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) body: String,
    pub(crate) properties: Vec<u8>,
    pub(crate) flag: i32,
    pub(crate) born_timestamp: i64,
    pub(crate) born_host: SocketAddr,
    pub(crate) store_host: SocketAddr,
    pub(crate) reconsume_times: i32,
}

impl Stored {
    pub(crate) fn property(&self, name: &str) -> Option<String> {
        let properties = broker_protocol::properties::Properties::new(&self.properties);
        properties.get(name).map(str::to_owned)
    }
}

/// All messages of a queue, once everything appended is in it.
pub(crate) fn messages(store: &Store, topic: &str, queue_id: i32) -> Vec<Stored> {
    settle(store);
    let Some(queue) = store.find_queue(topic, queue_id) else { return Vec::new() };
    let mut found = Vec::new();
    let mut offset = queue.min_offset();
    while offset < queue.max_offset() {
        let read =
            Read { offset, max_messages: 32, filter: &TagFilter::All, cold: ColdReads::Allow };
        let outcome = store.read(&queue, &read);
        assert_eq!(outcome.status, ReadStatus::Found);
        offset = outcome.next_offset;
        for slice in outcome.slices {
            let mut rest = &*slice;
            while !rest.is_empty() {
                let record = RecordView::parse(rest).unwrap();
                rest = &rest[record.bytes.len()..];
                found.push(Stored {
                    body: String::from_utf8(record.body.to_vec()).unwrap(),
                    properties: record.properties.raw().to_vec(),
                    flag: record.flag,
                    born_timestamp: record.born_timestamp,
                    born_host: record.born_host,
                    store_host: record.store_host,
                    reconsume_times: record.reconsume_times,
                });
            }
        }
    }
    found
}
