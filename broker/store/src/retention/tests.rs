//! Which files go, and when.

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use super::*;
use crate::Store;
use crate::env::Space;
use crate::env::faults::FaultyFiles;
use crate::store::tests::{config, new, queue};

const HOUR: Duration = Duration::from_secs(3600);

/// Files of the log, oldest first.
fn log_files(root: &Path) -> Vec<String> {
    let files = std::fs::read_dir(root.join("commitlog")).unwrap();
    let mut names: Vec<_> =
        files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A store with at least five filled files, everything on disk; the cleaner only runs when told.
fn filled(root: &Path, files: &FaultyFiles, change: impl FnOnce(&mut StoreConfig)) -> Store {
    let mut config = StoreConfig {
        clean_resource_interval: 3_600_000,
        delete_commit_log_files_interval: 0,
        delete_when: String::new(),
        ..config(root)
    };
    change(&mut config);
    let store = Store::open(config, files.env()).unwrap();
    let queue = queue("Topic");
    while store.max_offset() < 6 * (16 << 10) {
        // The next file may not be ready yet.
        let _ = store.append(&new(&queue, &[7; 3000]));
    }
    let shared = &store.shared;
    shared.flusher.flush(&shared.log, &shared.checkpoint, &shared.health).unwrap();
    store
}

fn make_old(root: &Path, name: &str) {
    let file = File::options().write(true).open(root.join("commitlog").join(name)).unwrap();
    file.set_modified(SystemTime::now() - 100 * HOUR).unwrap();
}

fn run(store: &Store) -> bool {
    let shared = &store.shared;
    let config = shared.config.load_full();
    shared.retention.measure(&shared.env, &config, &shared.health);
    shared.retention.clean_log(&shared.env, &config, &shared.log)
}

/// Waits for the queues, without which no file may go.
fn dispatched(store: &Store) {
    while store.dispatched() < store.max_offset() {
        std::thread::yield_now();
    }
}

#[test]
fn expired_files_go_oldest_first_when_the_disk_is_filled() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = filled(folder.path(), &files, |config| config.disk_max_used_space_ratio = 75);
    dispatched(&store);
    let before = log_files(folder.path());
    make_old(folder.path(), &before[0]);
    make_old(folder.path(), &before[1]);
    make_old(folder.path(), &before[3]);

    files.set(|faults| faults.space = Some(Space { total: 100, available: 30 }));
    assert!(!run(&store), "70 % is fine");
    files.set(|faults| faults.space = Some(Space { total: 100, available: 20 }));
    assert!(run(&store));
    assert_eq!(store.min_offset(), 2 * (16 << 10));
    let left = log_files(folder.path());
    assert_eq!(left[0], before[2], "the third isn't expired, so the fourth stays too");
    assert!(store.message_at(0).is_none());
    assert!(store.message_at(store.min_offset()).is_some());
    assert_eq!(store.writable(), Ok(()));
    assert!(!run(&store));
}

#[test]
fn unexpired_files_go_beyond_the_forced_ratio_but_never_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = filled(folder.path(), &files, |config| {
        config.disk_space_clean_forcibly_ratio = 85;
        config.clean_file_forcibly_enable = false;
    });
    dispatched(&store);
    files.set(|faults| faults.space = Some(Space { total: 100, available: 10 }));
    assert!(!run(&store));
    assert_eq!(store.reconfigure("cleanFileForciblyEnable", "true"), Ok(true));
    assert!(run(&store));
    let last = store.max_offset() / (16 << 10) * (16 << 10);
    assert_eq!(store.min_offset(), last);
    assert!(!run(&store), "the last file stays");
    assert!(store.message_at(last).is_some());
    store.append(&new(&queue("Topic"), b"still")).unwrap();
}

#[test]
fn a_lent_slice_outlives_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = filled(folder.path(), &files, |config| config.disk_space_clean_forcibly_ratio = 85);
    dispatched(&store);
    let lent = store.message_at(0).unwrap();
    let copy = lent.to_vec();
    files.set(|faults| faults.space = Some(Space { total: 100, available: 10 }));
    assert!(run(&store));
    assert_eq!(lent, copy);
}

#[test]
fn what_is_not_on_disk_stays() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = filled(folder.path(), &files, |config| {
        config.disk_space_clean_forcibly_ratio = 85;
        config.flush_interval_commit_log = 3_600_000;
    });
    dispatched(&store);
    let flushed = store.flushed();
    let queue = queue("Topic");
    while store.max_offset() < flushed + 3 * (16 << 10) {
        let _ = store.append(&new(&queue, &[7; 3000]));
    }
    dispatched(&store);
    files.set(|faults| faults.space = Some(Space { total: 100, available: 10 }));
    assert!(run(&store));
    assert_eq!(store.min_offset(), flushed / (16 << 10) * (16 << 10));
}

#[test]
fn a_manual_request_deletes_expired_files_at_any_hour() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = filled(folder.path(), &files, |_| {});
    dispatched(&store);
    let before = log_files(folder.path());
    make_old(folder.path(), &before[0]);
    store.delete_expired_now();
    while store.min_offset() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(store.min_offset(), 16 << 10);
}

#[test]
fn hours_are_local_and_separated_by_semicolons() {
    let hours = |text: &str| StoreConfig { delete_when: text.to_owned(), ..StoreConfig::default() };
    assert_eq!(hours("04").delete_hours(), Some(vec![4]));
    assert_eq!(hours(" 23; 0 ;").delete_hours(), Some(vec![23, 0]));
    assert_eq!(hours("").delete_hours(), Some(vec![]));
    for bad in ["24", "-1", "four", "4,5"] {
        let error = hours(bad).check().unwrap_err();
        assert!(error.to_string().starts_with("deleteWhen:"), "{error}");
    }
    let now_ms = 1_700_000_000_000;
    let hour = TimeZone::system().to_datetime(Timestamp::from_millisecond(now_ms).unwrap()).hour();
    let next = (hour + 1) % 24;
    assert!(is_hour(&[next, hour], now_ms));
    assert!(!is_hour(&[next], now_ms) && !is_hour(&[], now_ms));
    assert!(is_hour(&[next], now_ms + 3_600_000));
}
