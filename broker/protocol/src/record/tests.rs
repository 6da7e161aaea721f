//! Records written by Apache RocketMQ 4.9.3 are read, and written again byte for byte.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::{properties::Properties, sys_flag};

/// Ten records of a store that Apache RocketMQ 4.9.3 wrote: plain, tag, keys, Unicode, compressed,
/// from a batch, delayed, half, committed, op.
const STORED: &[u8] = include_bytes!("../../testdata/records-4.9.3.bin");

fn stored() -> Vec<RecordView<'static>> {
    let mut rest = STORED;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let record = RecordView::parse(rest).unwrap();
        rest = &rest[record.bytes.len()..];
        records.push(record);
    }
    records
}

fn parts<'a>(record: &RecordView<'a>) -> RecordParts<'a> {
    RecordParts {
        topic: record.topic,
        queue_id: record.queue_id,
        flag: record.flag,
        queue_offset: record.queue_offset,
        physical_offset: record.physical_offset,
        sys_flag: record.sys_flag,
        born_timestamp: record.born_timestamp,
        born_host: record.born_host,
        store_timestamp: record.store_timestamp,
        store_host: record.store_host,
        reconsume_times: record.reconsume_times,
        prepared_transaction_offset: record.prepared_transaction_offset,
        body_crc: record.body_crc,
        body: record.body,
        properties: record.properties.raw(),
    }
}

#[test]
fn apaches_records_are_read() {
    let records = stored();
    let topics: Vec<&str> = records.iter().map(|record| record.topic).collect();
    assert_eq!(
        topics,
        [
            "FixPlain",
            "FixTag",
            "FixKey",
            "FixUnicode",
            "FixUnicode",
            "FixBatch",
            "SCHEDULE_TOPIC_XXXX",
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "FixTx",
            "RMQ_SYS_TRANS_OP_HALF_TOPIC"
        ]
    );
    assert!(records.iter().all(RecordView::body_is_intact));
    assert_eq!(records[0].physical_offset, 0);
    assert_eq!(records[0].queue_id, 2);
    assert_eq!(records[0].store_host, "127.0.0.1:12911".parse::<SocketAddr>().unwrap());
    assert_eq!(records[1].properties.get("TAGS"), Some("TagA"));
    assert_eq!(records[2].properties.get("KEYS"), Some("key-0 shared"));
    assert_eq!(records[3].properties.get("имя"), Some("значение"));
    assert_eq!(records[4].sys_flag, sys_flag::COMPRESSED);
    assert_eq!(records[6].properties.get("REAL_TOPIC"), Some("FixDelay"));
    assert_eq!(sys_flag::transaction(records[8].sys_flag), sys_flag::TRANSACTION_COMMIT);
}

#[test]
fn apaches_records_are_written_byte_for_byte() {
    for record in stored() {
        let parts = parts(&record);
        assert_eq!(parts.encoded_len(), record.bytes.len());
        let mut slot = vec![0xEE; record.bytes.len() + 3];
        assert_eq!(parts.encode_into(&mut slot), Ok(record.bytes.len()));
        assert_eq!(&slot[..record.bytes.len()], record.bytes);
        assert_eq!(&slot[record.bytes.len()..], [0xEE; 3], "nothing beyond the record");
        assert_eq!(crc(record.body), record.body_crc);
    }
}

#[test]
fn fields_filled_in_later_land_where_the_view_reads_them() {
    for host in ["10.0.0.1:5", "[fd00::1]:5", "[::ffff:10.0.0.1]:5"] {
        let born_host: SocketAddr = host.parse().unwrap();
        let record = stored()[0];
        let parts = RecordParts { born_host, ..parts(&record) };
        let mut slot = vec![0; parts.encoded_len()];
        parts.encode_into(&mut slot).unwrap();
        patch(&mut slot, born_host, 77, 1 << 40, 99);
        let view = RecordView::parse(&slot).unwrap();
        assert_eq!(
            (view.queue_offset, view.physical_offset, view.store_timestamp),
            (77, 1 << 40, 99)
        );
        assert_eq!(view.born_host, SocketAddr::new(born_host.ip().to_canonical(), 5));
        assert_eq!(view.body, record.body);
    }
}

#[test]
fn version_two_is_read() {
    let record = stored()[0];
    let topic_at = 88 + record.body.len();
    let mut bytes = record.bytes.to_vec();
    bytes.insert(topic_at, 0);
    let total = (bytes.len() as i32).to_be_bytes();
    bytes[..4].copy_from_slice(&total);
    bytes[4..8].copy_from_slice(&MAGIC_V2.to_be_bytes());
    let view = RecordView::parse(&bytes).unwrap();
    assert_eq!((view.topic, view.body), (record.topic, record.body));
}

#[test]
fn limits_are_kept_when_writing() {
    let record = stored()[0];
    let mut slot = vec![0; 100_000];
    let long = "t".repeat(128);
    let topic = RecordParts { topic: &long, ..parts(&record) };
    assert_eq!(topic.encode_into(&mut slot), Err(RecordError::TopicTooLong(128)));
    let topic = RecordParts { topic: &long[..127], ..parts(&record) };
    assert!(topic.encode_into(&mut slot).is_ok());
    let long = [b'p'; 32_768];
    let properties = RecordParts { properties: &long, ..parts(&record) };
    assert_eq!(properties.encode_into(&mut slot), Err(RecordError::PropertiesTooLong(32_768)));
    let properties = RecordParts { properties: &long[..32_767], ..parts(&record) };
    assert!(properties.encode_into(&mut slot).is_ok());

    let mut short = vec![0; record.bytes.len() - 1];
    let error = RecordError::Truncated { needed: record.bytes.len(), available: short.len() };
    assert_eq!(parts(&record).encode_into(&mut short), Err(error));
    assert!(short.iter().all(|byte| *byte == 0), "nothing is written");
}

#[test]
fn damage_is_told_apart() {
    let record = stored()[0].bytes;
    let damaged = |at: usize, bytes: &[u8]| {
        let mut copy = record.to_vec();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        RecordView::parse(&copy).map(|view| view.body_is_intact())
    };
    assert_eq!(damaged(4, &[0; 4]), Err(RecordError::Magic(0)));
    assert_eq!(damaged(0, &[0xFF; 4]), Err(RecordError::Length("totalSize")));
    assert!(matches!(damaged(0, &[0x7F; 4]), Err(RecordError::Truncated { .. })));
    assert_eq!(damaged(84, &[0xFF; 4]), Err(RecordError::Length("body")));
    assert!(matches!(damaged(84, &[0x7F; 4]), Err(RecordError::Truncated { .. })));
    assert_eq!(damaged(89, &[0x80]), Err(RecordError::Length("topic")));
    assert_eq!(damaged(90, &[0xFF]), Err(RecordError::Topic));
    assert_eq!(damaged(98, &[0x80]), Err(RecordError::Length("properties")));
    assert_eq!(damaged(99, &[0x00]), Err(RecordError::Length("totalSize")));
    assert_eq!(damaged(88, &[record[88] ^ 1]), Ok(false));
}

#[test]
fn places_in_a_file_are_told_apart() {
    let record = stored()[0].bytes;
    assert_eq!(peek(record), Peek::Record(185));
    assert_eq!(peek(&[0; 8]), Peek::Unwritten);
    assert_eq!(peek(&record[..7]), Peek::Other);
    assert_eq!(peek(&[0xFF; 8]), Peek::Other);
    assert_eq!(peek(&[0, 0, 0, 9, 1, 2, 3, 4]), Peek::Other);
    let mut rest = vec![7; 40];
    write_blank(&mut rest).unwrap();
    assert_eq!(peek(&rest), Peek::Blank(40));
    assert_eq!(rest[8], 7);
    assert!(write_blank(&mut [0; 7]).is_err());
}

#[test]
fn batches_are_read_as_written() {
    let mut body = Vec::new();
    write_batch_message(&mut body, 3, b"one", b"KEYS\x01a").unwrap();
    write_batch_message(&mut body, -1, b"", b"").unwrap();
    assert_eq!(body.len(), batch_message_len(b"one", b"KEYS\x01a") + batch_message_len(b"", b""));
    let messages: Vec<_> = BatchMessages::new(&body).collect::<Result<_, _>>().unwrap();
    assert_eq!(
        messages,
        [
            BatchMessage { flag: 3, body: b"one", properties: Properties::new(b"KEYS\x01a") },
            BatchMessage { flag: -1, body: b"", properties: Properties::new(b"") },
        ]
    );
    // Cut anywhere but between messages, it ends with an error and ends.
    let first = batch_message_len(b"one", b"KEYS\x01a");
    for cut in (1..body.len()).filter(|cut| *cut != first) {
        let read: Vec<_> = BatchMessages::new(&body[..cut]).collect();
        assert!(read.last().unwrap().is_err(), "{cut}");
        assert_eq!(read.len(), if cut < first { 1 } else { 2 });
    }
    let long = [b'p'; 32_768];
    let error = RecordError::PropertiesTooLong(32_768);
    assert_eq!(write_batch_message(&mut body, 0, b"", &long), Err(error));
}

proptest! {
    #[test]
    fn any_record_is_read_as_written(
        topic in "[%|a-zA-Z0-9_-]{0,127}",
        body in any::<Vec<u8>>(),
        properties in any::<Vec<u8>>(),
        (queue_id, flag, sys, times) in any::<(i32, i32, i32, i32)>(),
        (queue_offset, physical, born, store, prepared) in any::<(i64, i64, i64, i64, i64)>(),
        (born_ip, store_ip) in any::<(std::net::IpAddr, std::net::IpAddr)>(),
        port in any::<u16>(),
    ) {
        let parts = RecordParts {
            topic: &topic, queue_id, flag, queue_offset, physical_offset: physical, sys_flag: sys,
            born_timestamp: born, born_host: SocketAddr::new(born_ip.to_canonical(), port),
            store_timestamp: store, store_host: SocketAddr::new(store_ip.to_canonical(), port),
            reconsume_times: times, prepared_transaction_offset: prepared,
            body_crc: crc(&body), body: &body, properties: &properties,
        };
        let mut slot = vec![0; parts.encoded_len()];
        let len = parts.encode_into(&mut slot).unwrap();
        prop_assert_eq!(len, slot.len());
        let view = RecordView::parse(&slot).unwrap();
        prop_assert!(view.body_is_intact());
        prop_assert_eq!(view.sys_flag, stored_sys_flag(sys, parts.born_host, parts.store_host));
        prop_assert_eq!(view.born_host, parts.born_host);
        prop_assert_eq!(view.store_host, parts.store_host);
        let mut again = vec![0; slot.len()];
        self::parts(&view).encode_into(&mut again).unwrap();
        prop_assert_eq!(again, slot);
    }

    #[test]
    fn any_bytes_are_judged(
        bytes in any::<Vec<u8>>(),
        at in 0_usize..200,
        damage in any::<[u8; 4]>(),
    ) {
        let _ = RecordView::parse(&bytes);
        let _ = peek(&bytes);
        let _ = BatchMessages::new(&bytes).count();
        let mut record = stored()[0].bytes.to_vec();
        if let Some(to) = record.get_mut(at..at + 4) {
            to.copy_from_slice(&damage);
        }
        let _ = RecordView::parse(&record);
    }
}
