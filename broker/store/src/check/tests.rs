//! A sound store has no problem; each kind of damage is found where it is.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::env;
use crate::store::tests::{config, new, open};
use crate::{NewRecord, Store};

/// A closed store with two queues, keys, several files of each kind; returns where a record in the
/// middle starts.
fn filled(root: &Path) -> u64 {
    let store = open(root);
    let mut middle = 0;
    for index in 0..150u8 {
        let queue = store.queue(if index % 3 == 0 { "One" } else { "Two" }, 0);
        let properties = format!("UNIQ_KEY\u{1}{index}\u{2}KEYS\u{1}a b{index}\u{2}TAGS\u{1}t");
        let body = vec![index; 200];
        let record = NewRecord { properties: properties.as_bytes(), ..new(&queue, &body) };
        let appended = append(&store, &record);
        if index == 75 {
            middle = appended;
        }
    }
    store.shutdown();
    middle
}

fn append(store: &Store, record: &NewRecord<'_>) -> u64 {
    loop {
        // The next file may not be ready yet.
        if let Ok(appended) = store.append(record) {
            return appended.physical_offset;
        }
    }
}

fn verify(root: &Path) -> Report {
    super::verify(&config(root), &env::os().files).unwrap()
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

fn first_file(folder: &Path) -> PathBuf {
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files[0].clone()
}

#[test]
fn a_sound_store_has_no_problem_and_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    fs::remove_file(folder.path().join("lock")).unwrap();
    let report = verify(folder.path());
    assert_eq!(report.problems, []);
    assert!(report.is_sound() && !report.unclean && report.torn.is_none());
    assert_eq!(report.durable, Some(report.log_end));
    assert_eq!((report.records, report.units, report.queues), (150, 150, 2));
    assert_eq!((report.not_dispatched, report.orphans), (0, 0));
    assert!(report.log_files > 2 && report.index_files > 1);
    assert_eq!(report.index_entries, 3 * 150);
    assert!(!folder.path().join("lock").exists(), "nothing is made");
    assert!(!folder.path().join("abort").exists());
}

#[test]
fn a_killed_store_is_sound_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let queue = store.queue("Topic", 3);
    for _ in 0..20 {
        append(&store, &new(&queue, b"body"));
    }
    drop(store);
    let report = verify(folder.path());
    assert_eq!(report.problems, []);
    assert!(report.unclean);
    assert_eq!(report.units + report.not_dispatched, 20);
}

#[test]
fn each_damage_is_found_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let middle = filled(folder.path());
    let root = folder.path();
    let log = root.join(format!("commitlog/{:020}", middle / 16384 * 16384));
    let log_at = middle % 16384;
    let queue = first_file(&root.join("consumequeue/Two/0"));
    let index = first_file(&root.join("index"));
    let (slots, fifth) = (40 + 100 * 4, 5 * 20);
    type Case<'a> = (&'a Path, u64, &'a [u8], &'a Path, u64, &'a str);
    let cases: [Case<'_>; 6] = [
        (&log, log_at + 100, &[255], &log, log_at, "checksum"),
        (&log, log_at + 1, &[1], &log, log_at, "synced up to"),
        (&queue, 20 * 7 + 11, &[1], &queue, 20 * 7, "says"),
        (&queue, 20 * 7 + 19, &[1], &queue, 20 * 7, "another tag"),
        (&queue, 20 * 7, &[0; 20], &queue, 20 * 7, "no unit of the record"),
        (&index, slots + fifth, &[0x12, 0x34], &index, slots + fifth, "a key that the record"),
    ];
    for (file, at, bytes, told, told_at, words) in cases {
        let good = fs::read(file).unwrap();
        overwrite(file, at, bytes);
        let report = verify(root);
        let found = report.problems.iter().any(|problem| {
            problem.path == told && problem.at == told_at && problem.what.contains(words)
        });
        assert!(found, "{words}: {:?}", report.problems);
        assert!(report.problem_count >= 1 && report.problems.len() <= PROBLEMS_TOLD_MAX);
        fs::write(file, good).unwrap();
    }
    assert!(verify(root).is_sound());
}

#[test]
fn units_and_entries_of_no_record_are_found() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let root = folder.path();
    // The log's last file goes, and with it the mark that would tell.
    let mut files: Vec<_> = fs::read_dir(root.join("commitlog")).unwrap().collect();
    files.sort_by_key(|entry| entry.as_ref().unwrap().path());
    fs::remove_file(files.last().unwrap().as_ref().unwrap().path()).unwrap();
    fs::remove_file(root.join("checkpoint")).unwrap();
    let report = verify(root);
    assert_eq!(report.durable, None);
    let told = |words| report.problems.iter().any(|problem| problem.what.contains(words));
    assert!(told("behind the log's end"), "{:?}", report.problems);
    assert!(told("behind the last record"), "{:?}", report.problems);
}

#[test]
fn what_is_no_store_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nothing");
    let error = super::verify(&config(&missing), &env::os().files).unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
    let report = verify(folder.path());
    assert_eq!((report.records, report.log_files, report.problem_count), (0, 0, 0));
}
