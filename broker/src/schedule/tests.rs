use std::fs;
use std::path::Path;

use broker_protocol::properties;
use tempfile::TempDir;

use super::*;
use crate::testing::{ManualClock, messages, open_store, put, settle, state_file, until};

const START: i64 = 1_700_000_000_000;
const LEVELS: &str = "1s 5s 10s";

struct World {
    folder: TempDir,
    clock: Arc<ManualClock>,
    store: Store,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let clock = ManualClock::at(START);
        let store = open_store(folder.path(), clock.clone());
        World { folder, clock, store }
    }

    fn schedule(&self) -> Schedule {
        load(self.folder.path(), &self.store, &self.clock).unwrap()
    }

    /// Stores a message that waits for its level to pass.
    fn send(&self, level: i32, body: &str) {
        let mut properties = Vec::new();
        properties::push(&mut properties, "TAGS", "a");
        properties::push(&mut properties, "DELAY", level.to_string());
        self.send_with(level, body, properties);
    }

    fn send_with(&self, level: i32, body: &str, mut properties: Vec<u8>) {
        let levels = DelayLevels::parse(LEVELS).unwrap();
        let (topic, queue) = divert(&levels, level, "orders", 3, &mut properties);
        put(&self.store, &self.store.queue(topic, queue), body.as_bytes(), &properties);
    }

    fn step(&self, schedule: &Schedule, after_ms: i64) -> Duration {
        settle(&self.store);
        self.clock.set(START + after_ms);
        schedule.shared.step(START + after_ms)
    }

    fn delivered(&self) -> Vec<String> {
        messages(&self.store, "orders", 3).into_iter().map(|message| message.body).collect()
    }

    fn write_progress(&self, text: &str) {
        let file = state_file(self.folder.path(), "delayOffset.json");
        fs::create_dir_all(file.path().parent().unwrap()).unwrap();
        fs::write(file.path(), text).unwrap();
    }

    fn read_progress(&self) -> DelayOffsetTable {
        state_file(self.folder.path(), "delayOffset.json").load().unwrap().unwrap()
    }
}

fn load(
    folder: &Path,
    store: &Store,
    clock: &Arc<ManualClock>,
) -> Result<Schedule, StateFileError> {
    let levels = DelayLevels::parse(LEVELS).unwrap();
    let file = state_file(folder, "delayOffset.json");
    let write_queues = Box::new(|topic: &str| (topic == "orders").then_some(4));
    let interval = Duration::from_secs(10);
    Schedule::load(store.clone(), clock.clone(), &levels, interval, file, write_queues)
}

#[test]
fn a_message_is_delivered_when_its_time_has_come_and_not_before() {
    let world = World::new();
    let schedule = world.schedule();
    world.send(1, "one second");
    world.send(2, "five seconds");
    assert_eq!(world.step(&schedule, 950), Duration::from_millis(50));
    assert!(world.delivered().is_empty());
    world.step(&schedule, 1_000);
    assert_eq!(world.delivered(), ["one second"]);
    world.step(&schedule, 4_999);
    assert_eq!(world.delivered(), ["one second"]);
    world.step(&schedule, 5_000);
    assert_eq!(world.delivered(), ["one second", "five seconds"]);
    assert_eq!(schedule.delivered(), 2);
}

#[test]
fn the_delivered_message_is_the_one_that_was_sent() {
    let world = World::new();
    let schedule = world.schedule();
    world.send(1, "body");
    world.step(&schedule, 1_000);
    let waited = &messages(&world.store, SCHEDULE_TOPIC, 0)[0];
    let delivered = &messages(&world.store, "orders", 3)[0];
    assert_eq!(waited, delivered);
    assert_eq!(delivered.property("TAGS").as_deref(), Some("a"));
    // Consumers filter by the tag again, not by the time.
    let queue = world.store.find_queue("orders", 3).unwrap();
    assert_eq!(world.store.queue_units(&queue, 0, 1)[0].tags_code, 97);
}

#[test]
fn a_message_for_a_queue_that_was_given_up_goes_to_one_that_takes_messages() {
    let world = World::new();
    let schedule = world.schedule();
    let levels = DelayLevels::parse(LEVELS).unwrap();
    for (topic, asked) in [("orders", 6), ("unknown", 6)] {
        let mut properties = Vec::new();
        let (wait, queue) = divert(&levels, 1, topic, asked, &mut properties);
        put(&world.store, &world.store.queue(wait, queue), b"x", &properties);
    }
    world.step(&schedule, 1_000);
    assert_eq!(messages(&world.store, "orders", 2).len(), 1);
    // What became of a topic that is gone is not this room's to judge.
    assert_eq!(messages(&world.store, "unknown", 6).len(), 1);
}

#[test]
fn a_level_keeps_its_order() {
    let world = World::new();
    let schedule = world.schedule();
    let bodies: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    bodies.iter().for_each(|body| world.send(1, body));
    world.step(&schedule, 1_000);
    assert_eq!(world.delivered(), bodies);
}

#[test]
fn a_clean_stop_and_start_delivers_each_message_once() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::at(START);
    let store = open_store(folder.path(), clock.clone());
    let schedule = load(folder.path(), &store, &clock).unwrap();
    let world = World { folder, clock, store };
    for n in 0..10 {
        world.clock.set(START + n * 100);
        world.send(1, &n.to_string());
    }
    // Half of them are due.
    world.step(&schedule, 1_400);
    assert_eq!(world.delivered().len(), 5);
    schedule.stop().unwrap();
    world.store.shutdown();
    let World { folder, clock, store } = world;
    drop((schedule, store));

    let store = open_store(folder.path(), clock.clone());
    let world = World { folder, clock, store };
    let schedule = world.schedule();
    world.step(&schedule, 2_000);
    let expected: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    assert_eq!(world.delivered(), expected);
}

#[test]
fn the_thread_delivers_by_itself_and_saves_at_stop() {
    let world = World::new();
    let schedule = world.schedule();
    schedule.start().unwrap();
    world.send(1, "one");
    settle(&world.store);
    world.clock.set(START + 1_000);
    until("it is delivered", || schedule.delivered() == 1);
    schedule.stop().unwrap();
    assert_eq!(world.read_progress().offset_table.get(&1), Some(&1));
    assert_eq!(world.delivered(), ["one"]);
}

#[test]
fn progress_beyond_the_queue_is_corrected() {
    let world = World::new();
    world.write_progress(r#"{"offsetTable":{3:169171,1:-5}}"#);
    for n in 0..10 {
        world.send(3, &format!("old {n}"));
    }
    settle(&world.store);
    let schedule = world.schedule();
    // What is sent before the first look must not be taken for what the progress is beyond.
    assert_eq!(schedule.status()[2], LevelStatus { level: 3, next: 10, max: 10 });
    world.send(3, "new");
    world.send(1, "other level");
    world.step(&schedule, 10_000);
    assert_eq!(world.delivered(), ["other level", "new"]);
    schedule.stop().unwrap();
    assert_eq!(world.read_progress().offset_table.get(&3), Some(&11));
}

#[test]
fn progress_that_leaves_the_queue_while_running_is_corrected() {
    let world = World::new();
    let schedule = world.schedule();
    schedule.shared.levels[0].next.store(1_000, Ordering::SeqCst);
    world.send(1, "stuck");
    world.step(&schedule, 0);
    world.send(1, "next");
    world.step(&schedule, 1_000);
    assert_eq!(world.delivered(), ["next"]);
}

#[test]
fn junk_in_the_file_gives_way_to_its_backup_and_is_an_error_without() {
    let world = World::new();
    world.send(1, "delivered before");
    world.send(1, "due");
    settle(&world.store);
    world.write_progress(r#"{"offsetTable":{1:1}}"#);
    let file = state_file(world.folder.path(), "delayOffset.json");
    let backup = file.path().with_extension("json.bak");
    fs::rename(file.path(), &backup).unwrap();
    fs::write(file.path(), [0; 64]).unwrap();
    let schedule = world.schedule();
    world.step(&schedule, 1_000);
    assert_eq!(world.delivered(), ["due"]);
    fs::write(file.path(), [0; 64]).unwrap();
    fs::write(&backup, [0; 64]).unwrap();
    assert!(load(world.folder.path(), &world.store, &world.clock).is_err());
}

#[test]
fn a_message_that_can_never_be_delivered_does_not_hold_up_its_level() {
    let world = World::new();
    let schedule = world.schedule();
    let queue = world.store.queue(SCHEDULE_TOPIC, 0);
    put(&world.store, &queue, b"no topic", b"DELAY\x011");
    put(&world.store, &queue, b"a path", b"DELAY\x011\x02REAL_TOPIC\x01../x\x02REAL_QID\x010");
    put(&world.store, &queue, b"a queue", b"DELAY\x011\x02REAL_TOPIC\x01t\x02REAL_QID\x01-1");
    world.send(1, "good");
    world.step(&schedule, 1_000);
    assert_eq!(world.delivered(), ["good"]);
    assert_eq!(schedule.skipped(), 3);
}

#[test]
fn a_message_accepted_under_a_higher_limit_is_delivered() {
    let world = World::new();
    let schedule = world.schedule();
    let body = "x".repeat(60_000);
    let mut properties = b"DELAY\x011\x02long\x01".to_vec();
    properties.extend(std::iter::repeat_n(b'p', 32_600));
    world.send_with(1, &body, properties);
    world.send(1, "small");
    world.store.reconfigure("maxMessageSize", "1000").unwrap();
    world.step(&schedule, 1_000);
    assert_eq!(world.delivered(), [body, "small".to_owned()]);
}

#[test]
fn a_time_further_away_than_the_delay_is_due() {
    let world = World::new();
    let schedule = world.schedule();
    world.clock.set(START + 3_600_000);
    world.send(1, "sent before the clock was set back");
    world.step(&schedule, 0);
    assert_eq!(world.delivered().len(), 1);
}

#[test]
fn a_store_that_takes_nothing_makes_the_level_wait() {
    let world = World::new();
    let schedule = world.schedule();
    world.send(1, "one");
    settle(&world.store);
    world.store.shutdown();
    assert_eq!(schedule.shared.step(START + 1_000), LOOK_INTERVAL);
    assert_eq!(schedule.status()[0], LevelStatus { level: 1, next: 0, max: 1 });
    assert_eq!(schedule.skipped(), 0);
}

#[test]
fn the_file_names_only_levels_that_were_used() {
    let world = World::new();
    let schedule = world.schedule();
    world.send(2, "five seconds");
    world.step(&schedule, 5_000);
    schedule.stop().unwrap();
    let file = state_file(world.folder.path(), "delayOffset.json");
    let text = fs::read_to_string(file.path()).unwrap();
    assert_eq!(text, "{\n\t\"offsetTable\":{2:1\n\t}\n}");
}
