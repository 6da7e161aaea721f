//! What the mapping promises: published bytes stay as they are, everything else is refused.

use super::*;
use crate::env;
use crate::env::faults::FaultyFiles;

const LEN: usize = 4 * PAGE;

fn make(folder: &Path) -> MappedFile {
    let files = env::os().files;
    MappedFile::create(&*files, folder.join("file"), 100, LEN as u64, LEN as u64).unwrap()
}

fn open(folder: &Path) -> MappedFile {
    MappedFile::open(&*env::os().files, folder.join("file"), 100).unwrap()
}

#[test]
fn readers_see_what_is_published_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = make(folder.path());
    assert_eq!((file.start(), file.end(), file.len()), (100, 100 + LEN as u64, LEN));
    file.write(0, 5, |bytes| bytes.copy_from_slice(b"hello"));
    assert_eq!(file.bytes(0, 1), None);
    assert!(file.slice(0, 1).is_none());
    file.publish(5);
    assert_eq!(file.bytes(1, 4), Some(&b"ello"[..]));
    assert_eq!(file.bytes(1, 5), None);
    assert_eq!(file.bytes(usize::MAX, 2), None);
    assert_eq!(file.slice(0, 5).unwrap(), "hello");
    file.sync(0..5).unwrap();
    assert_eq!(std::fs::read(file.path()).unwrap()[..6], *b"hello\0");
}

#[test]
fn slices_outlive_the_file_and_the_handle() {
    let folder = tempfile::tempdir().unwrap();
    let file = make(folder.path());
    file.write(0, 3, |bytes| bytes.fill(7));
    file.publish(3);
    let slice = file.slice(1, 2).unwrap();
    std::fs::remove_file(file.path()).unwrap();
    drop(file);
    assert_eq!(slice, [7, 7][..]);
}

#[test]
#[should_panic(expected = "below the published mark")]
fn published_bytes_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = make(folder.path());
    file.publish(10);
    file.write(9, 2, |_| ());
}

#[test]
#[should_panic(expected = "beyond the allocated")]
fn bytes_without_blocks_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    open(folder.path()).write(LEN, 1, |_| ());
}

#[test]
#[should_panic(expected = "two writers")]
fn a_second_writer_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let file = make(folder.path());
    file.write(0, 4, |_| file.write(4, 4, |_| ()));
}

#[test]
#[should_panic(expected = "publish 3, 4 published")]
fn the_mark_never_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = make(folder.path());
    file.publish(4);
    file.publish(3);
}

#[test]
fn a_cut_zeroes_what_follows_and_waits_for_no_reader() {
    let folder = tempfile::tempdir().unwrap();
    let file = make(folder.path());
    file.write(0, LEN, |bytes| bytes.fill(7));
    file.publish(LEN);
    drop(file);
    let mut file = open(folder.path());
    assert_eq!((file.published(), file.allocated()), (LEN, 0));
    let lent = file.slice(0, 10).unwrap();
    assert_eq!(file.cut(5000).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    drop(lent);
    file.cut(5000).unwrap();
    assert_eq!(file.published(), 5000);
    let bytes = std::fs::read(file.path()).unwrap();
    assert!(bytes[..5000].iter().all(|byte| *byte == 7));
    assert!(bytes[5000..].iter().all(|byte| *byte == 0));
    assert_eq!(bytes.len(), LEN);
    file.allocate(LEN).unwrap();
    file.write(5000, 4, |bytes| {
        assert_eq!(bytes, [0; 4]);
        bytes.fill(9);
    });
}

#[test]
fn populating_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = make(folder.path());
    file.write(0, 3 * PAGE, |bytes| bytes.fill(7));
    file.populate(PAGE + 1..LEN + 99).unwrap();
    file.touch(0..LEN);
    file.publish(LEN);
    assert!(file.bytes(0, 3 * PAGE).unwrap().iter().all(|byte| *byte == 7));
    assert!(file.bytes(3 * PAGE, PAGE).unwrap().iter().all(|byte| *byte == 0));
    assert!(file.is_cached(0, LEN));
}

#[test]
fn a_file_that_gets_no_blocks_or_no_map_is_not_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let path = folder.path().join("file");
    files.set(|faults| faults.no_space = true);
    let error = MappedFile::create(&files, path.clone(), 0, 4096, 4096).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(MappedWords::create(&files, path.clone(), 4096, 4096).is_err());
    files.set(|faults| (faults.no_space, faults.no_maps) = (false, true));
    assert!(MappedFile::create(&files, path.clone(), 0, 4096, 4096).is_err());
    assert!(!path.exists());
    files.set(|faults| faults.no_maps = false);
    MappedFile::create(&files, path.clone(), 0, 4096, 4096).unwrap();
    let error = MappedFile::create(&files, path, 0, 4096, 4096).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn words_are_in_network_order_and_inside_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = env::os().files;
    let words = MappedWords::create(&*files, folder.path().join("words"), 4096, 4096).unwrap();
    assert!(words.store(8, 0x0102_0304));
    assert_eq!(words.load(8), Some(0x0102_0304));
    assert_eq!((words.load(7), words.load(4096), words.load(usize::MAX - 3)), (None, None, None));
    assert!(!words.store(4096, 1) && !words.store(2, 1));
    words.sync(0..4096).unwrap();
    assert_eq!(std::fs::read(words.path()).unwrap()[8..12], [1, 2, 3, 4]);
}
