//! Rules of the log: what a file looks like, what is refused, and where recovery cuts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use broker_protocol::record::{MAGIC_BLANK, MAGIC_V1, RecordView};

use super::*;
use crate::env::{self, Clock, Env, OsFiles};
use crate::error::AppendError;
use crate::store::tests::{config, new, open, queue};
use crate::{Store, StoreConfig};

const FILE: u64 = 16 << 10;

fn log_file(root: &Path, start: u64) -> PathBuf {
    root.join("commitlog").join(format!("{start:020}"))
}

/// Appends `count` records of different lengths and forgets the store, as a kill would.
fn fill(root: &Path, count: usize) -> Vec<(Appended, Vec<u8>)> {
    let store = open_unflushed(root);
    append_some(&store, count)
}

/// Nothing is synced after opening.
fn open_unflushed(root: &Path) -> Store {
    let config = StoreConfig { flush_interval_commit_log: 3_600_000, ..config(root) };
    Store::open(config, env::os()).unwrap()
}

fn append_some(store: &Store, count: usize) -> Vec<(Appended, Vec<u8>)> {
    let queue = queue("Topic");
    let append = |index: usize| {
        let body = vec![index as u8 + 1; 100 + index * 37 % 900];
        (store.append(&new(&queue, &body)).unwrap(), body)
    };
    (0..count).map(append).collect()
}

fn check(store: &Store, records: &[(Appended, Vec<u8>)]) {
    for (appended, body) in records {
        let bytes = store.message_at(appended.physical_offset).unwrap();
        assert_eq!(RecordView::parse(&bytes).unwrap().body, body);
    }
}

/// Changes the log's bytes at `offset`.
fn damage(root: &Path, offset: u64, change: impl Fn(&mut [u8])) {
    let path = log_file(root, offset - offset % FILE);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes[(offset % FILE) as usize..]);
    fs::write(&path, bytes).unwrap();
}

/// As if another broker had written the store: no mark of ours.
fn forget_mark(root: &Path) {
    let path = root.join("checkpoint");
    let mut bytes = fs::read(&path).unwrap();
    bytes[64..].fill(0);
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_file_ends_with_a_mark_where_the_next_record_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let queue = queue("T");
    let overhead = store.append(&new(&queue, b"")).unwrap().size as usize;
    // Leaves 8 bytes: the mark and nothing else.
    let rest = FILE as usize - overhead;
    let last = store.append(&new(&queue, &vec![1; rest - overhead - 8])).unwrap();
    assert_eq!(last.end(), FILE - 8);
    let next = store.append(&new(&queue, b"")).unwrap();
    assert_eq!(next.physical_offset, FILE);
    // One byte more and it moves to the next file.
    let rest = FILE as usize - overhead;
    let moved = store.append(&new(&queue, &vec![1; rest - overhead - 7])).unwrap();
    assert_eq!(moved.physical_offset, 2 * FILE);

    let bytes = fs::read(log_file(folder.path(), 0)).unwrap();
    assert_eq!(bytes[FILE as usize - 8..FILE as usize - 4], 8i32.to_be_bytes());
    assert_eq!(bytes[FILE as usize - 4..], MAGIC_BLANK.to_be_bytes());
    let bytes = fs::read(log_file(folder.path(), FILE)).unwrap();
    assert_eq!(bytes[overhead..overhead + 4], (rest as i32).to_be_bytes());
    assert_eq!(bytes[overhead + 4..overhead + 8], MAGIC_BLANK.to_be_bytes());
    assert!(bytes[overhead + 8..].iter().all(|byte| *byte == 0));
    drop(store);
    assert_eq!(open(folder.path()).max_offset(), moved.end());
}

#[test]
fn what_breaks_a_limit_is_refused_and_takes_no_offset() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let fine = queue("Topic");
    let refuse = |record: NewRecord<'_>, words: &str| {
        let error = store.append(&record).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(!matches!(error, AppendError::NotWritable(_) | AppendError::NoFile(_)));
    };
    let long = queue(&"t".repeat(128));
    refuse(new(&long, b""), "128 bytes");
    store.append(&new(&queue(&"t".repeat(127)), b"")).unwrap();
    let properties = vec![b'p'; 32_768];
    refuse(NewRecord { properties: &properties, ..new(&fine, b"") }, "32768");
    refuse(new(&fine, &vec![0; FILE as usize]), "mappedFileSizeCommitLog");
    assert_eq!(store.reconfigure("maxMessageSize", "100"), Ok(true));
    refuse(new(&fine, &[0; 101]), "maxMessageSize allows 100");
    store.append(&new(&fine, &[0; 100])).unwrap();
    assert_eq!(fine.next_offset(), 1);
    assert_eq!(store.reconfigure("maxMessageSize", "many").unwrap_err().split(':').count(), 2);
    assert_eq!(store.reconfigure("storePathRootDir", "/"), Ok(false));
}

#[test]
fn a_batch_lies_side_by_side_in_one_file_or_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (one, two) = (queue("One"), queue("Two"));
    let body = [9; 2000];
    let batch = [new(&one, &body), new(&two, &body), new(&one, &body)];
    let mut appended = Vec::new();
    for _ in 0..5 {
        store.append_batch(&batch, &mut appended).unwrap();
    }
    for batch in appended.chunks(3) {
        assert_eq!(batch[0].end(), batch[1].physical_offset);
        assert_eq!(batch[1].end(), batch[2].physical_offset);
        assert_eq!(batch[0].physical_offset / FILE, (batch[2].end() - 1) / FILE);
        assert_eq!(batch[2].queue_offset, batch[0].queue_offset + 1);
    }
    assert_eq!((one.next_offset(), two.next_offset()), (10, 5));
    let end = store.max_offset();
    let long = [0; 9000];
    for bad in [[new(&one, &long), new(&two, &long)], [new(&one, b""), new(&queue(""), b"")]] {
        let error = store.append_batch(&bad, &mut appended).unwrap_err();
        assert!(matches!(error, AppendError::Illegal(_)), "{error}");
    }
    assert!(store.append_batch(&[], &mut appended).is_err());
    assert_eq!((store.max_offset(), appended.len(), one.next_offset()), (end, 15, 10));
}

#[derive(Debug)]
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

#[test]
fn store_times_never_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(HandClock(AtomicI64::new(1000)));
    let env = || Env { files: Arc::new(OsFiles), clock: Arc::clone(&clock) as _, seed: 1 };
    let store = Store::open(config(folder.path()), env()).unwrap();
    let queue = queue("Topic");
    let at = |store: &Store, ms: i64| {
        clock.0.store(ms, Ordering::Relaxed);
        store.append(&new(&queue, b"")).unwrap().store_timestamp
    };
    assert_eq!(at(&store, 2000), 2000);
    assert_eq!(at(&store, 1500), 2000);
    drop(store);
    let store = Store::open(config(folder.path()), env()).unwrap();
    assert_eq!(at(&store, 1800), 2000);
    store.shutdown();
    drop(store);
    let store = Store::open(config(folder.path()), env()).unwrap();
    assert_eq!(at(&store, 1900), 2000);
    assert_eq!(at(&store, 2001), 2001);
}

#[test]
fn many_appenders_get_places_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let shared = queue("Shared");
    let mut all: Vec<Appended> = std::thread::scope(|scope| {
        let append = |_| {
            scope.spawn(|| {
                let append = |index: usize| {
                    let body = vec![1; index % 500];
                    loop {
                        // The next file may not be ready on a busy machine.
                        match store.append(&new(&shared, &body)) {
                            Ok(appended) => return appended,
                            Err(AppendError::NoFile(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                };
                (0..500).map(append).collect::<Vec<_>>()
            })
        };
        let threads: Vec<_> = (0..4).map(append).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|appended| appended.physical_offset);
    for (index, pair) in all.windows(2).enumerate() {
        let in_place = pair[0].end() == pair[1].physical_offset;
        assert!(in_place || pair[1].physical_offset % FILE == 0);
        assert_eq!(pair[0].queue_offset, index as i64);
    }
    drop(store);
    let store = open(folder.path());
    assert!(all.iter().all(|appended| store.message_at(appended.physical_offset).is_some()));
}

#[test]
fn a_torn_tail_is_cut_and_cannot_come_back() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = tempfile::tempdir().unwrap();
        let records = fill(folder.path(), 60);
        let end = records.last().unwrap().0.end();
        // A power loss: one page of the log never reached the disk, what follows it did.
        let page = random.u64(0..end.div_ceil(4096)) * 4096;
        damage(folder.path(), page, |bytes| bytes[..4096].fill(0));
        let store = open_unflushed(folder.path());
        let cut = store.max_offset();
        let kept: Vec<_> =
            records.iter().filter(|(appended, _)| appended.end() <= page).cloned().collect();
        check(&store, &kept);
        // Where the lost page began in the zeros behind a file's last record, that whole file
        // counts.
        let kept_end = kept.last().map_or(0, |(appended, _)| appended.end());
        assert!(cut >= kept_end && cut <= page.max(kept_end), "seed {seed}");
        let new = append_some(&store, 5);
        assert!(new[0].0.physical_offset >= cut);
        drop(store);
        let store = open_unflushed(folder.path());
        assert_eq!(store.max_offset(), new.last().unwrap().0.end(), "seed {seed}: came back");
        check(&store, &new);
    }
}

#[test]
fn a_cut_at_any_byte_keeps_every_whole_record() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = tempfile::tempdir().unwrap();
        let records = fill(folder.path(), 60);
        let end = records.last().unwrap().0.end();
        let cut = random.u64(0..end);
        let last = log_file(folder.path(), cut - cut % FILE);
        let bytes = fs::read(&last).unwrap();
        let mut kept = bytes[..(cut % FILE) as usize].to_vec();
        kept.resize(FILE as usize, 0);
        fs::write(&last, kept).unwrap();
        let mut start = cut - cut % FILE + FILE;
        while fs::remove_file(log_file(folder.path(), start)).is_ok() {
            start += FILE;
        }
        let store = open_unflushed(folder.path());
        let whole = records.partition_point(|(one, _)| one.end() <= cut);
        check(&store, &records[..whole]);
        for (torn, _) in &records[whole..] {
            assert!(store.message_at(torn.physical_offset).is_none(), "seed {seed}");
        }
        let end = store.max_offset();
        assert_eq!(append_some(&store, 3)[0].0.physical_offset, end);
    }
}

#[test]
fn damage_in_what_was_synced_is_never_served_and_never_cut() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let records = append_some(&store, 60);
    store.shutdown();
    let end = store.max_offset();
    drop(store);
    let bad = &records[30].0;
    damage(folder.path(), bad.physical_offset + 95, |bytes| bytes[0] ^= 4);
    for unclean in [false, true] {
        if unclean {
            fs::write(folder.path().join("abort"), "").unwrap();
        }
        let store = open(folder.path());
        assert_eq!(store.max_offset(), end);
        assert!(store.message_at(bad.physical_offset).is_none());
        assert!(store.record_at(bad.physical_offset, bad.size).is_none());
        assert_eq!(store.status().damaged_reads, 2);
        check(&store, &records[..30]);
        check(&store, &records[31..]);
        store.shutdown();
    }
}

#[test]
fn a_foreign_log_is_not_cut_in_front_of_good_records() {
    let folder = tempfile::tempdir().unwrap();
    let records = fill(folder.path(), 60);
    forget_mark(folder.path());
    let before = fs::read(log_file(folder.path(), FILE)).unwrap();
    let bad = records.iter().find(|(one, _)| one.physical_offset > FILE + 2000).unwrap().0;
    // In the size, in the body, and in the magic.
    for (at, bit) in [(2, 1), (90, 1), (5, 1)] {
        damage(folder.path(), bad.physical_offset + at, |bytes| bytes[0] ^= bit);
        let error = Store::open(config(folder.path()), env::os()).unwrap_err();
        let StoreError::Damaged { offset, path, .. } = &error else { panic!("{error}") };
        assert_eq!((*offset, path), (bad.physical_offset, &log_file(folder.path(), FILE)));
        assert!(error.to_string().contains(&bad.physical_offset.to_string()), "{error}");
        damage(folder.path(), bad.physical_offset + at, |bytes| bytes[0] ^= bit);
        assert_eq!(fs::read(log_file(folder.path(), FILE)).unwrap(), before, "changed");
    }
    // The last record, though, may be torn.
    let last = records.last().unwrap().0;
    damage(folder.path(), last.physical_offset + 90, |bytes| bytes[0] ^= 1);
    assert_eq!(open(folder.path()).max_offset(), last.physical_offset);
}

#[test]
fn older_records_behind_a_foreign_end_are_no_reason_to_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let records = fill(folder.path(), 20);
    // The other broker cut at the tenth record, wrote a shorter one there and zeroed nothing.
    let at = records[10].0.physical_offset;
    damage(folder.path(), at, |bytes| {
        let mut record = bytes[..records[10].0.size as usize].to_vec();
        record[56..64].copy_from_slice(&i64::MAX.to_be_bytes());
        let shorter = record.len() as i32 - 12;
        record[..4].copy_from_slice(&shorter.to_be_bytes());
        let body = i32::from_be_bytes(record[84..88].try_into().unwrap()) - 12;
        record[84..88].copy_from_slice(&body.to_be_bytes());
        let crc = broker_protocol::record::crc(&record[88..88 + body as usize]);
        record[8..12].copy_from_slice(&crc.to_be_bytes());
        record.drain(88..100);
        bytes[..record.len()].copy_from_slice(&record);
    });
    forget_mark(folder.path());
    let store = open(folder.path());
    assert_eq!(store.max_offset(), at + u64::from(records[10].0.size) - 12);
    check(&store, &records[..10]);
}

#[test]
fn a_log_that_lost_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    append_some(&store, 60);
    store.shutdown();
    drop(store);
    let last = (1..).find(|n| !log_file(folder.path(), n * FILE).exists()).unwrap() - 1;
    let refused = || Store::open(config(folder.path()), env::os()).unwrap_err();
    fs::rename(log_file(folder.path(), last * FILE), folder.path().join("aside")).unwrap();
    let error = refused();
    assert!(matches!(error, StoreError::LogTooShort { .. }), "{error}");
    fs::rename(folder.path().join("aside"), log_file(folder.path(), last * FILE)).unwrap();
    fs::rename(log_file(folder.path(), FILE), folder.path().join("aside")).unwrap();
    let error = refused();
    assert!(matches!(error, StoreError::Gap { .. }), "{error}");
    fs::rename(folder.path().join("aside"), log_file(folder.path(), FILE)).unwrap();

    fs::write(log_file(folder.path(), (last + 1) * FILE), [0; 5]).unwrap();
    let error = refused();
    assert!(matches!(error, StoreError::WrongSize { found: 5, expected: FILE, .. }), "{error}");
    assert!(error.to_string().contains(&format!("{:020}", (last + 1) * FILE)), "{error}");
    // Made, but not sized yet when the kill came.
    fs::write(log_file(folder.path(), (last + 1) * FILE), "").unwrap();
    open(folder.path()).shutdown();
    fs::write(folder.path().join("commitlog/notes.txt"), "").unwrap();
    let error = refused();
    assert!(matches!(error, StoreError::StrangeFile { .. }), "{error}");
}

proptest::proptest! {
    #[test]
    fn whatever_stands_in_a_file_is_judged_within_its_bounds(
        mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300),
        magic in proptest::sample::select(vec![MAGIC_V1, MAGIC_BLANK, 0]),
        size in -10i32..400,
    ) {
        if let Some(head) = bytes.get_mut(..8) {
            head[..4].copy_from_slice(&size.to_be_bytes());
            head[4..].copy_from_slice(&magic.to_be_bytes());
        }
        match entry_at(&bytes, 4096, 8192) {
            LogEntry::Record(record) => {
                assert_eq!(record.physical_offset, 4096);
                assert_eq!(record.bytes.len(), size as usize);
            }
            LogEntry::Blank(next) => assert_eq!((magic, next), (MAGIC_BLANK, 8192)),
            LogEntry::Damaged(_) => {}
            LogEntry::End => panic!("only the frontier ends the log"),
        }
    }
}
