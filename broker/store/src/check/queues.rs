//! The queues, compared with the records one by one and then counted: a unit that no record asked
//! for points to nothing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ahash::RandomState;
use broker_protocol::properties::name as property;
use broker_protocol::record::RecordView;
use broker_protocol::tags;

use super::{Report, list};
use crate::consume_queue::{Slot, UNIT_LEN};
use crate::env::FileSystem;
use crate::error::StoreError;

/// Units read at a time.
const PAGE_UNITS: u64 = 200;

/// Every queue with files.
pub(super) struct Queues {
    queues: HashMap<String, HashMap<i32, QueueFiles>, RandomState>,
}

/// One queue.
#[derive(Default)]
struct QueueFiles {
    /// Start byte and path of each file.
    row: Vec<(u64, PathBuf)>,
    file_len: u64,
    /// Index after the last unit.
    end: i64,
    /// Units that a record asked for.
    asked: u64,
    page: Vec<u8>,
    page_at: u64,
}

impl Queues {
    pub(super) fn open(
        files: &dyn FileSystem,
        folder: &Path,
        report: &mut Report,
    ) -> Result<Queues, StoreError> {
        let mut queues = Queues { queues: HashMap::default() };
        for (topic, _) in list(files, folder, true)? {
            let folder = folder.join(&topic);
            let mut ids = HashMap::new();
            for (id, _) in list(files, &folder, true)? {
                let folder = folder.join(&id);
                match id.parse::<i32>() {
                    Ok(number) => {
                        let queue = QueueFiles::open(files, &folder, report)?;
                        report.queues += u64::from(!queue.row.is_empty());
                        ids.insert(number, queue);
                    }
                    Err(_) => report.problem(&folder, 0, "not a queue's number"),
                }
            }
            queues.queues.insert(topic, ids);
        }
        Ok(queues)
    }

    /// Compares a record with its unit.
    pub(super) fn compare(
        &mut self,
        files: &dyn FileSystem,
        record: &RecordView<'_>,
        tagged: bool,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let queue = self.queues.get_mut(record.topic).and_then(|ids| ids.get_mut(&record.queue_id));
        let Some(queue) = queue.filter(|queue| !queue.row.is_empty()) else {
            // Deleted; or so new that a kill came before its first unit.
            let count =
                if report.unclean { &mut report.not_dispatched } else { &mut report.orphans };
            *count += 1;
            return Ok(());
        };
        let (index, offset) = (record.queue_offset, record.physical_offset as u64);
        if index >= queue.end {
            report.not_dispatched += 1;
            return Ok(());
        }
        let (path, at) = queue.place(index);
        match queue.slot(files, index)? {
            Slot::Unit(unit) if unit.physical_offset == offset => {
                queue.asked += 1;
                report.units += 1;
                if unit.size as usize != record.bytes.len() {
                    let what = format!("says {} bytes of the record at {offset}", unit.size);
                    report.problem(&path, at, what);
                }
                let code = record.properties.get(property::TAGS).map_or(0, tags::tags_code);
                if tagged && unit.tags_code != code {
                    let what = format!("has another tag than the record at {offset}");
                    report.problem(&path, at, what);
                }
            }
            // The topic was deleted and made anew, or the index lies before the kept files.
            Slot::Unit(unit) if unit.physical_offset > offset => report.orphans += 1,
            Slot::Empty if path.as_os_str().is_empty() => report.orphans += 1,
            Slot::Unit(_) | Slot::Blank | Slot::Empty => {
                let what =
                    format!("no unit of the record at {offset}, offset {index} of its queue");
                report.problem(&path, at, what);
            }
        }
        Ok(())
    }

    /// Counts the units that no record asked for.
    pub(super) fn finish(
        &mut self,
        files: &dyn FileSystem,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        for queue in self.queues.values_mut().flat_map(HashMap::values_mut) {
            let Some((start, path)) = queue.row.first().cloned() else { continue };
            let mut kept = 0;
            for index in (start / UNIT_LEN) as i64..queue.end {
                match queue.slot(files, index)? {
                    Slot::Unit(unit) if unit.end() > report.log_end => {
                        let (path, at) = queue.place(index);
                        let what =
                            format!("points to {}, behind the log's end", unit.physical_offset);
                        report.problem(&path, at, what);
                    }
                    Slot::Unit(unit) => kept += u64::from(unit.physical_offset >= report.log_start),
                    Slot::Blank | Slot::Empty => {}
                }
            }
            if kept > queue.asked {
                let what = format!("{} units point to no record of the queue", kept - queue.asked);
                report.problem(&path, 0, what);
            }
        }
        Ok(())
    }
}

impl QueueFiles {
    fn open(
        files: &dyn FileSystem,
        folder: &Path,
        report: &mut Report,
    ) -> Result<QueueFiles, StoreError> {
        let mut queue = QueueFiles::default();
        for (name, len) in list(files, folder, false)? {
            let path = folder.join(&name);
            let Ok(start) = name.parse::<u64>() else {
                report.problem(&path, 0, "no file of a queue");
                continue;
            };
            if queue.file_len == 0 {
                queue.file_len = len;
            }
            let expected = queue.row.last().map_or(start, |(last, _)| last + queue.file_len);
            if len != queue.file_len || len % UNIT_LEN != 0 {
                report.problem(&path, 0, format!("{len} bytes long"));
            } else if start != expected {
                report.problem(&path, 0, "the file before it is missing");
            }
            queue.row.push((start, path));
        }
        // The end is in the last file that has a unit.
        for file in (0..queue.row.len()).rev() {
            let first = (queue.row[file].0 / UNIT_LEN) as i64;
            let units = (queue.file_len / UNIT_LEN) as i64;
            for index in first..first + units {
                if queue.slot(files, index)? != Slot::Empty {
                    queue.end = index + 1;
                }
            }
            if queue.end > 0 {
                break;
            }
        }
        Ok(queue)
    }

    /// File and byte of a unit; an empty path if no file holds it.
    fn place(&self, index: i64) -> (PathBuf, u64) {
        let byte = index.max(0) as u64 * UNIT_LEN;
        match self.row.iter().rev().find(|(start, _)| *start <= byte) {
            Some((start, path)) if byte < start + self.file_len => (path.clone(), byte - start),
            _ => (PathBuf::new(), 0),
        }
    }

    fn slot(&mut self, files: &dyn FileSystem, index: i64) -> Result<Slot, StoreError> {
        let byte = index.max(0) as u64 * UNIT_LEN;
        let held = self.page_at..self.page_at + self.page.len() as u64;
        if !held.contains(&byte) {
            let (path, at) = self.place(index);
            if path.as_os_str().is_empty() {
                return Ok(Slot::Empty);
            }
            let len = (self.file_len - at).min(PAGE_UNITS * UNIT_LEN);
            self.page.resize(len as usize, 0);
            self.page_at = byte;
            let read = files.open_to_read(&path).and_then(|file| file.read_at(&mut self.page, at));
            read.map_err(|error| StoreError::io("read", &path, error))?;
        }
        let at = (byte - self.page_at) as usize;
        Ok(Slot::decode(index, self.page.get(at..).unwrap_or_default()))
    }
}
