//! How a row finds, grows and drops its files.

use super::*;
use crate::env;

const LEN: u64 = 4096;

fn row(folder: &Path, starts: &[u64]) -> Segments {
    let files = env::os().files;
    let segments = Segments::open(&*files, folder, LEN).unwrap();
    for start in starts {
        let file = MappedFile::create(&*files, segments.path_of(*start), *start, LEN, LEN).unwrap();
        segments.push(Arc::new(file));
    }
    segments
}

#[test]
fn offsets_are_found_in_their_file() {
    let folder = tempfile::tempdir().unwrap();
    assert!(row(&folder.path().join("missing"), &[]).row().is_empty());
    let segments = row(folder.path(), &[8192, 12_288, 16_384]);
    assert_eq!((segments.start(), segments.end()), (Some(8192), Some(20_480)));
    let found = |offset| segments.find(offset).map(|file| file.start());
    assert_eq!((found(8191), found(8192), found(12_287)), (None, Some(8192), Some(8192)));
    assert_eq!((found(20_479), found(20_480), found(u64::MAX)), (Some(16_384), None, None));
    assert_eq!(segments.with(12_300, |file, at| (file.start(), at)), Some((12_288, 12)));
    drop(segments);
    let again = row(folder.path(), &[]);
    assert_eq!((again.start(), again.end()), (Some(8192), Some(20_480)));
}

#[test]
#[should_panic(expected = "a row has no gap")]
fn a_gap_cannot_be_made() {
    let folder = tempfile::tempdir().unwrap();
    row(folder.path(), &[0, 8192]);
}

#[test]
fn files_go_from_the_front_but_never_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let files = env::os().files;
    let segments = row(folder.path(), &[0, 4096, 8192]);
    assert_eq!(segments.remove_first(&*files).unwrap().unwrap().start(), 0);
    assert_eq!(segments.remove_first(&*files).unwrap().unwrap().start(), 4096);
    assert!(segments.remove_first(&*files).unwrap().is_none());
    assert_eq!(files.list(folder.path()).unwrap().len(), 1);
    segments.remove_all(&*files).unwrap();
    assert_eq!(segments.start(), None);
}

#[test]
fn a_file_that_cannot_be_removed_stays_in_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let segments = row(folder.path(), &[0, 4096]);
    std::fs::remove_file(segments.path_of(0)).unwrap();
    assert!(segments.remove_first(&*env::os().files).is_err());
    assert_eq!(segments.start(), Some(0));
}

#[test]
fn a_row_ends_where_it_is_truncated() {
    for (end, starts) in [(5000, vec![0, 4096]), (4096, vec![0, 4096]), (0, vec![0])] {
        let folder = tempfile::tempdir().unwrap();
        let files = env::os().files;
        drop(row(folder.path(), &[0, 4096, 8192]));
        let mut segments = row(folder.path(), &[]);
        segments.truncate(&*files, end, Beyond::Anything).unwrap();
        let left: Vec<u64> = segments.row().iter().map(|file| file.start()).collect();
        assert_eq!(left, starts);
        let last = segments.last().unwrap();
        assert_eq!(last.start() + last.published() as u64, end);
    }
}
