//! The topics' settings and `topics.json`, which keeps them; who asks for a topic by name gets a
//! handle that stays the same while the settings change.
//!
//! A topic is in the file before anybody can find it in the table, so no message is ever accepted
//! for a topic that a restart would forget.

mod boot;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;

use ahash::RandomState;
use arc_swap::{ArcSwap, Guard};
use broker_protocol::body::{DataVersion, TopicConfig, TopicConfigs, TopicFilterType};
use broker_protocol::{name, perm};
use broker_store::Queue;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::state_file::{StateFile, StateFileError};

pub use boot::BootTopics;

#[cfg(test)]
mod tests;

/// How many topics the table takes; it guards memory and disk against made up names.
pub const TOPICS_MAX: usize = 200_000;
/// How many queues a topic may have.
pub const QUEUES_MAX: i32 = 65_535;
/// Queues whose handles a topic keeps at hand; those beyond are looked up in the store.
const CACHED_QUEUES_MAX: usize = 1024;

/// Why a topic could not be made or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// The name breaks the rules.
    #[error("{0}")]
    Name(String),
    /// Fewer than 0 or more than [`QUEUES_MAX`] queues.
    #[error("a topic has 0 to {QUEUES_MAX} queues")]
    Queues,
    /// A permission with bits that mean nothing.
    #[error("perm {0} is no permission: 2 is write, 4 is read, 1 is inherit, or a sum of them")]
    Perm(i32),
    /// The table holds [`TOPICS_MAX`] topics already.
    #[error("the broker keeps no more than {TOPICS_MAX} topics")]
    Full,
    /// The file could not be written; nothing has changed.
    #[error("topics.json could not be written: {0}")]
    File(String),
}

/// One topic. Its settings change in place, so a holder of the handle always reads current ones.
#[derive(Debug)]
pub struct Topic {
    name: Arc<str>,
    sendable: bool,
    settings: ArcSwap<Settings>,
    /// What went in and out; lives as long as the handle.
    pub counters: crate::stats::TopicCounters,
}

/// The settings of a topic at one moment, with handles of its queues.
#[derive(Debug)]
pub struct Settings {
    /// As topics.json keeps them.
    pub config: Arc<TopicConfig>,
    queues: Box<[OnceLock<Arc<Queue>>]>,
}

impl Topic {
    fn new(config: Arc<TopicConfig>) -> Arc<Topic> {
        Arc::new(Topic {
            name: Arc::clone(&config.topic_name),
            sendable: !name::is_unsendable(&config.topic_name),
            settings: ArcSwap::from_pointee(Settings::new(config)),
            counters: Default::default(),
        })
    }

    /// The topic's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The settings as they are now. The guard is for the length of one request.
    pub fn settings(&self) -> Guard<Arc<Settings>> {
        self.settings.load()
    }

    /// The settings as they are now, without queue handles.
    pub fn config(&self) -> Arc<TopicConfig> {
        Arc::clone(&self.settings.load().config)
    }

    /// Whether producers may send to it; a few of the system's topics are closed to them.
    pub fn is_sendable(&self) -> bool {
        self.sendable
    }
}

impl Settings {
    fn new(config: Arc<TopicConfig>) -> Settings {
        let queues = config.read_queue_nums.max(config.write_queue_nums);
        let cached = usize::try_from(queues).unwrap_or(0).min(CACHED_QUEUES_MAX);
        Settings { config, queues: (0..cached).map(|_| OnceLock::new()).collect() }
    }

    /// The handle of a queue, asked of the store when it is not at hand. Which ids are legal is the
    /// caller's question.
    pub fn queue(&self, queue_id: i32, make: impl FnOnce() -> Arc<Queue>) -> Arc<Queue> {
        match usize::try_from(queue_id).ok().and_then(|index| self.queues.get(index)) {
            Some(cached) => Arc::clone(cached.get_or_init(make)),
            None => make(),
        }
    }

    /// Queues that may be sent to or read, whichever are more: ids beyond are illegal.
    pub fn queue_count(&self) -> i32 {
        self.config.read_queue_nums.max(self.config.write_queue_nums)
    }

    /// Whether messages of the topic carry several tags.
    pub fn multi_tags(&self) -> bool {
        self.config.topic_filter_type == TopicFilterType::MultiTag
    }

    /// The settings in the words of RocketMQ's error texts.
    pub fn text(&self) -> String {
        let config = &self.config;
        format!(
            "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}, \
             topicFilterType={}, topicSysFlag={}, order={}]",
            config.topic_name,
            config.read_queue_nums,
            config.write_queue_nums,
            perm::text(config.perm),
            config.topic_filter_type.as_str(),
            config.topic_sys_flag,
            config.order
        )
    }
}

/// What a producer asks for when its topic does not exist.
#[derive(Debug, Clone, Copy)]
pub struct CreateOnSend<'a> {
    /// The topic sent to.
    pub topic: &'a str,
    /// The topic whose settings the new one takes, normally TBW102.
    pub default_topic: &'a str,
    /// Queues the producer wants.
    pub queues: i32,
    /// Sys flag of the new topic, from the producer's unit mode.
    pub sys_flag: i32,
    /// Whether TBW102 may be inherited from.
    pub auto_create: bool,
}

/// All topics.
#[derive(Debug)]
pub struct Topics {
    table: RwLock<HashMap<Arc<str>, Arc<Topic>, RandomState>>,
    version: Mutex<DataVersion>,
    file: StateFile,
    /// Changes that wait to be written; whoever gets the writer's lock writes them all.
    pending: Mutex<Vec<Arc<Ticket>>>,
    writer: Mutex<()>,
    changes: watch::Sender<u64>,
    /// Topics of this broker that nobody may change or delete, beside those of every broker.
    own_system_topics: [String; 3],
}

/// One wanted change and, once it is written, its outcome.
#[derive(Debug)]
struct Ticket {
    change: Change,
    outcome: OnceLock<Result<Option<Arc<Topic>>, TopicError>>,
}

#[derive(Debug)]
enum Change {
    /// Makes the topic unless it is there already.
    Create(Arc<TopicConfig>),
    /// Makes the topic or replaces its settings.
    Update(Arc<TopicConfig>),
    Delete(String),
}

impl Change {
    fn topic(&self) -> &str {
        match self {
            Change::Create(config) | Change::Update(config) => &config.topic_name,
            Change::Delete(name) => name,
        }
    }
}

impl Topics {
    /// Reads the table from its file and adds the topics that every broker has.
    ///
    /// # Errors
    /// When neither the file nor its backup can be read.
    pub fn load(file: StateFile, boot: &BootTopics<'_>) -> Result<Topics, StateFileError> {
        let stored: TopicConfigs = file.load()?.unwrap_or_default();
        let mut table: HashMap<Arc<str>, Arc<Topic>, RandomState> = HashMap::default();
        for (name, mut config) in stored.topic_config_table {
            // The key is what the topic is looked up by.
            Arc::make_mut(&mut config).topic_name = name;
            let topic = Topic::new(config);
            table.insert(Arc::clone(&topic.name), topic);
        }
        for config in boot.configs() {
            let fresh = || Topic::new(Arc::new(config.clone()));
            table.entry(Arc::clone(&config.topic_name)).or_insert_with(fresh);
        }
        Ok(Topics {
            table: RwLock::new(table),
            version: Mutex::new(stored.data_version),
            file,
            pending: Mutex::default(),
            writer: Mutex::default(),
            changes: watch::Sender::new(0),
            own_system_topics: boot.own_system_topics(),
        })
    }

    /// The topic, if it exists. A hash lookup without allocation.
    pub fn find(&self, name: &str) -> Option<Arc<Topic>> {
        self.table.read().get(name).cloned()
    }

    /// True for topics that the system keeps for itself, this broker's own included.
    pub fn is_system(&self, topic: &str) -> bool {
        name::is_system_topic(topic) || self.own_system_topics.iter().any(|own| own == topic)
    }

    /// The topics that the system keeps for itself: those of every broker, then this broker's own.
    pub fn system_topics(&self) -> Vec<Arc<str>> {
        let own = self.own_system_topics.iter().map(|own| Arc::from(&**own));
        name::system_topics().map(Arc::from).chain(own).collect()
    }

    /// Makes the topic of a send by the rules of automatic creation; None where they forbid it.
    /// Writes the file, so it belongs on the blocking pool. `now` is in milliseconds.
    ///
    /// # Errors
    /// When the name is refused, the table is full or the file could not be written.
    pub fn create_on_send(
        &self,
        wanted: CreateOnSend<'_>,
        now: i64,
    ) -> Result<Option<Arc<Topic>>, TopicError> {
        if let Some(topic) = self.find(wanted.topic) {
            return Ok(Some(topic));
        }
        if wanted.default_topic == name::AUTO_CREATE_TOPIC && !wanted.auto_create {
            return Ok(None);
        }
        let Some(default) = self.find(wanted.default_topic) else { return Ok(None) };
        let default = default.settings();
        let queues = wanted.queues.min(default.config.write_queue_nums);
        if !perm::is_inherited(default.config.perm) || queues <= 0 {
            return Ok(None);
        }
        let config = TopicConfig {
            perm: default.config.perm & !perm::INHERIT,
            topic_filter_type: default.config.topic_filter_type,
            topic_sys_flag: wanted.sys_flag,
            ..TopicConfig::new(wanted.topic, queues)
        };
        self.create(config, now).map(Some)
    }

    /// Makes the topic with these settings unless it exists; the present one is left as it is.
    /// Writes the file, so it belongs on the blocking pool. `now` is in milliseconds.
    ///
    /// # Errors
    /// When the name is refused, the table is full or the file could not be written.
    pub fn create(&self, config: TopicConfig, now: i64) -> Result<Arc<Topic>, TopicError> {
        if let Some(topic) = self.find(&config.topic_name) {
            return Ok(topic);
        }
        check(&config)?;
        self.change(Change::Create(Arc::new(config)), now)?.ok_or(TopicError::Full)
    }

    /// The retry topic of a group, made with `queues` queues when it does not exist.
    ///
    /// # Errors
    /// As [`Topics::create`].
    pub fn create_retry(
        &self,
        group: &str,
        queues: i32,
        sys_flag: i32,
        now: i64,
    ) -> Result<Arc<Topic>, TopicError> {
        self.create(consumer_topic(name::retry_topic(group), queues, sys_flag), now)
    }

    /// The dead-letter topic of a group, made with one queue when it does not exist.
    ///
    /// # Errors
    /// As [`Topics::create`].
    pub fn create_dlq(&self, group: &str, now: i64) -> Result<Arc<Topic>, TopicError> {
        self.create(consumer_topic(name::dlq_topic(group), 1, 0), now)
    }

    /// Makes the topic or replaces its settings. Writes the file, so it belongs on the blocking
    /// pool. `now` is in milliseconds.
    ///
    /// # Errors
    /// When the name is refused, the table is full or the file could not be written.
    pub fn update(&self, config: TopicConfig, now: i64) -> Result<Arc<Topic>, TopicError> {
        check(&config)?;
        self.change(Change::Update(Arc::new(config)), now)?.ok_or(TopicError::Full)
    }

    /// Forgets the topic; its messages are the store's business. False when it was not known.
    ///
    /// # Errors
    /// When the file could not be written.
    pub fn delete(&self, name: &str, now: i64) -> Result<bool, TopicError> {
        if self.find(name).is_none() {
            return Ok(false);
        }
        self.change(Change::Delete(name.to_owned()), now)?;
        Ok(true)
    }

    /// All settings with their version.
    pub fn snapshot(&self) -> TopicConfigs {
        // The version first: a change in between makes it too old, and the next comparison heals
        // that; a version too new would hide the change.
        let data_version = self.data_version();
        let table = self.table.read();
        let configs =
            table.values().map(|topic| (Arc::clone(&topic.name), topic.config())).collect();
        TopicConfigs { data_version, topic_config_table: configs }
    }

    /// All handles, in no order.
    pub fn all(&self) -> Vec<Arc<Topic>> {
        self.table.read().values().cloned().collect()
    }

    /// Topics in the table.
    pub fn count(&self) -> usize {
        self.table.read().len()
    }

    /// The version of the settings; each change makes it greater.
    pub fn data_version(&self) -> DataVersion {
        *self.version.lock()
    }

    /// Makes the version greater although no topic has changed: name servers take a table over only
    /// when its version is new to them. The file gets it with the next change. `now` is in
    /// milliseconds.
    pub fn renew_version(&self, now: i64) {
        self.version.lock().advance(now);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Wakes after each change; the number counts them.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How many changes there were so far.
    pub fn change_count(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Writes the change to the file, then lets everybody see it. Changes that arrive while a
    /// write is on its way are written together by the next.
    fn change(&self, change: Change, now: i64) -> Result<Option<Arc<Topic>>, TopicError> {
        let ticket = Arc::new(Ticket { change, outcome: OnceLock::new() });
        self.pending.lock().push(Arc::clone(&ticket));
        let writer = self.writer.lock();
        if ticket.outcome.get().is_none() {
            let tickets = std::mem::take(&mut *self.pending.lock());
            self.write(&tickets, now);
        }
        drop(writer);
        ticket.outcome.get().cloned().unwrap_or(Ok(None))
    }

    fn write(&self, tickets: &[Arc<Ticket>], now: i64) {
        let mut next = self.snapshot();
        next.data_version.advance(now);
        let mut applied = Vec::new();
        for ticket in tickets {
            let table = &mut next.topic_config_table;
            match &ticket.change {
                Change::Create(config) if table.contains_key(&config.topic_name) => {}
                Change::Create(config) | Change::Update(config) => {
                    if table.len() >= TOPICS_MAX && !table.contains_key(&config.topic_name) {
                        let _ = ticket.outcome.set(Err(TopicError::Full));
                        continue;
                    }
                    table.insert(Arc::clone(&config.topic_name), Arc::clone(config));
                }
                Change::Delete(name) => drop(table.remove(&**name)),
            }
            applied.push(ticket);
        }
        if applied.is_empty() {
            return;
        }
        if let Err(error) = self.file.save(&next) {
            let error = TopicError::File(error.to_string());
            for ticket in applied {
                let _ = ticket.outcome.set(Err(error.clone()));
            }
            return;
        }
        for ticket in applied {
            let topic = self.apply(&ticket.change);
            let _ = ticket.outcome.set(Ok(topic));
        }
        *self.version.lock() = next.data_version;
        self.changes.send_modify(|count| *count += 1);
    }

    fn apply(&self, change: &Change) -> Option<Arc<Topic>> {
        let mut table = self.table.write();
        let present = table.get(change.topic()).cloned();
        match (change, present) {
            (Change::Create(_), Some(topic)) => Some(topic),
            (Change::Update(config), Some(topic)) => {
                topic.settings.store(Arc::new(Settings::new(Arc::clone(config))));
                Some(topic)
            }
            (Change::Create(config) | Change::Update(config), None) => {
                let topic = Topic::new(Arc::clone(config));
                table.insert(Arc::clone(&topic.name), Arc::clone(&topic));
                Some(topic)
            }
            (Change::Delete(name), _) => {
                table.remove(&**name);
                None
            }
        }
    }
}

fn check(config: &TopicConfig) -> Result<(), TopicError> {
    name::check_topic(&config.topic_name).map_err(|error| TopicError::Name(error.to_string()))?;
    if config.perm & !(perm::READ | perm::WRITE | perm::INHERIT) != 0 {
        return Err(TopicError::Perm(config.perm));
    }
    let legal = 0..=QUEUES_MAX;
    if legal.contains(&config.read_queue_nums) && legal.contains(&config.write_queue_nums) {
        Ok(())
    } else {
        Err(TopicError::Queues)
    }
}

fn consumer_topic(name: String, queues: i32, sys_flag: i32) -> TopicConfig {
    TopicConfig { topic_sys_flag: sys_flag, ..TopicConfig::new(name, queues) }
}
