//! Peers that send garbage, stop in the middle or cut their bytes anywhere: nobody else notices, and
//! every stored body is the one that was sent.

use std::io::{Read, Write};

use broker_protocol::code::request;
use broker_protocol::record::crc;

use crate::server::{Client, Server, message};

#[test]
fn foreign_protocols_and_hostile_lengths_close_their_own_link_only() {
    let server = Server::start();
    let mut good = server.connect();
    good.store("orders", 0, b"x", "");
    let binary_header = |header: &[u8]| {
        let mut frame = u32::try_from(4 + header.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(&(1 << 24 | u32::try_from(header.len()).unwrap()).to_be_bytes());
        frame.extend_from_slice(header);
        frame
    };
    let fixed = [0, 10, 0, 1, 143, 0, 0, 0, 1, 0, 0, 0, 0];
    let with = |lengths: &[u8]| binary_header(&[&fixed[..], lengths].concat());
    let hostile: Vec<Vec<u8>> = vec![
        b"GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3],
        vec![0xFF; 8],
        // Length just over 16 MiB.
        vec![0x01, 0, 0, 0, 0, 0, 0, 0],
        // Header longer than its frame.
        vec![0, 0, 0, 8, 0, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4],
        // Remark of 2 GiB; remark that is negative; fields that are negative.
        with(&[0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]),
        with(&[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]),
        with(&[0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]),
    ];
    for bytes in &hostile {
        let mut client = server.connect();
        client.socket.write_all(bytes).unwrap();
        match client.socket.read(&mut [0; 16]) {
            Ok(count) => assert_eq!(count, 0, "{bytes:?}"),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{bytes:?}");
            }
        }
    }
    assert_eq!(good.store("orders", 0, b"y", ""), 1);
}

#[test]
fn every_stored_body_is_the_one_that_was_sent_however_it_was_cut() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let server = Server::start();
    server.connect().store("orders", 0, b"first", "");
    let sent: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50)
            .map(|number| {
                let client = server.connect();
                scope.spawn(move || send_in_pieces(client, seed ^ number))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // The properties of each record carry the checksum of the body that the client meant.
    let store = &server.broker().rooms().store;
    let (mut at, mut checked) = (store.min_offset(), 0);
    while at < store.max_offset() {
        let bytes = store.message_at(at).unwrap();
        let record = crate::server::Record::parse(&bytes);
        if let Some(meant) = record.properties.get("crc") {
            assert_eq!(crc(&record.body).to_string(), *meant);
            checked += 1;
        }
        at += u64::try_from(bytes.len()).unwrap();
    }
    assert!(checked >= sent, "{checked} of {sent}");
}

/// Sends some messages in pieces of random size, then half of one, and goes. Returns how many were
/// answered.
fn send_in_pieces(mut client: Client, seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut answered = 0;
    for _ in 0..random.usize(1..8) {
        let mut bytes = Vec::new();
        let count = random.usize(1..10);
        for _ in 0..count {
            bytes.extend(frame(&mut client, &mut random));
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random.usize(1..=rest.len()));
            client.socket.write_all(piece).unwrap();
            rest = after;
        }
        for _ in 0..count {
            assert_eq!(client.receive().code, 0);
            answered += 1;
        }
    }
    let last = frame(&mut client, &mut random);
    client.socket.write_all(&last[..random.usize(1..last.len())]).unwrap();
    answered
}

fn frame(client: &mut Client, random: &mut fastrand::Rng) -> Vec<u8> {
    let body: Vec<u8> = (0..random.usize(0..5000)).map(|_| random.u8(..)).collect();
    let mut header = message("orders", 0);
    header.properties = Some(format!("crc\u{1}{}", crc(&body)).into());
    client.frame(request::SEND_MESSAGE_V2, &header, &body).1
}
