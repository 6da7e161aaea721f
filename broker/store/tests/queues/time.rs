//! Questions about time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use broker_store::Store;
use broker_store::env::{self, Clock, Env};

use crate::support::*;

/// A clock that only a test moves.
#[derive(Debug)]
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

fn touch(folder: &std::path::Path, older: bool) {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 1, "more than one file");
    if older {
        files.reverse();
    }
    for (age, path) in files.iter().enumerate() {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        let when =
            std::time::SystemTime::now() - std::time::Duration::from_secs(age as u64 * 9_000);
        file.set_modified(when).unwrap();
    }
}

#[test]
fn the_first_message_not_older_is_found_whatever_the_files_dates() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(HandClock(AtomicI64::new(1_000)));
    let env = Env { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..env::os() };
    let mut config = config(folder.path());
    // Five units a file.
    config.mapped_file_size_consume_queue = 100;
    let store = open_with(config, env);
    let queue = store.queue("T", 0);
    assert_eq!(store.offset_by_time(&queue, 5), 0);
    assert_eq!(store.earliest_store_time(&queue), -1);
    for number in 0..10 {
        // The last two are stored in the same millisecond.
        clock.0.store(1_000 + number.min(8) * 100, Ordering::SeqCst);
        send(&store, "T", "x", "");
    }
    settle(&store);
    for older in [true, false] {
        touch(&folder.path().join("consumequeue/T/0"), older);
        check(&store);
    }
}

fn check(store: &Store) {
    let queue = store.queue("T", 0);
    let at = |timestamp| store.offset_by_time(&queue, timestamp);
    for number in 0..9 {
        assert_eq!(at(1_000 + number * 100), number);
        assert_eq!(at(999 + number * 100), number);
        assert_eq!(at(1_001 + number * 100), if number == 8 { 10 } else { number + 1 });
    }
    assert_eq!((at(0), at(i64::MIN), at(i64::MAX)), (0, 0, 10));
    assert_eq!(store.earliest_store_time(&queue), 1_000);
}
