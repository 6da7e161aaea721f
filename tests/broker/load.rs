//! Many clients that come and go leave nothing behind, and an idle broker costs nothing.

use std::collections::HashSet;
use std::time::Duration;

use broker_client::{Client, ClientError, Message};
use broker_protocol::body::ProducerTable;
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;

use crate::support::{Server, client, member, producer, refusal, until};

const WAVE: usize = 800;

/// Clients of groups that nobody else has: half of them produce, half consume too.
async fn wave(server: &Server, number: usize) -> Vec<Client> {
    let joining: Vec<_> = (0..WAVE)
        .map(|n| {
            let address = server.address().to_owned();
            tokio::spawn(async move {
                let client = client();
                client.producer_heartbeat(&address, &format!("p{number}_{n}")).await.unwrap();
                if n % 8 == 0 {
                    // Few, as consumer groups are kept as such: only their members must go.
                    let consumer = member(&client, &format!("c{n}"), "Waves", "*");
                    consumer.heartbeat(&address).await.unwrap();
                }
                client
            })
        })
        .collect();
    let mut clients = Vec::new();
    for client in joining {
        clients.push(client.await.unwrap());
    }
    clients
}

#[tokio::test]
async fn clients_that_leave_leave_nothing_behind() {
    let mut server = Server::start(&[]);
    server.topic("Waves", 1).await;
    let mut after_first = 0;
    for number in 0..5 {
        let clients = wave(&server, number).await;
        let admin = server.client.admin();
        let one = admin.producer_connections(server.address(), &format!("p{number}_5")).await;
        assert_eq!(one.unwrap().connection_set.len(), 1);
        assert!(server.metric("rocketmq_producer_connections") >= WAVE as f64);
        // Half of them say so, and all links end: in a storm, none of it may be dropped.
        for (n, client) in clients.iter().enumerate() {
            let link = client.connection(server.address()).await.unwrap();
            if n % 2 == 0 {
                let fields = [
                    ("clientID", client.id().to_owned()),
                    ("producerGroup", format!("p{number}_{n}")),
                ];
                link.call(request::UNREGISTER_CLIENT, &fields[..], &[]).await.unwrap();
            }
            link.close();
        }
        drop(clients);
        until("everybody is gone", async || {
            let links = server.metric("rocketmq_producer_connections")
                + server.metric("rocketmq_consumer_connections");
            (links == 0.0).then_some(())
        })
        .await;
        for n in [0, 1, WAVE - 1] {
            let group = format!("p{number}_{n}");
            refusal(admin.producer_connections(server.address(), &group).await);
        }
        refusal(admin.consumer_ids(server.address(), "c0").await);
        let all = server.call(request::GET_ALL_PRODUCER_INFO, &NoHeader, &[]).await;
        if let Ok(all) = all {
            assert!(all.json::<ProducerTable>().unwrap().data.is_empty());
        }
        let memory = server.broker.running().unwrap().anonymous_memory().unwrap();
        if number == 1 {
            after_first = memory;
        }
        if number > 1 {
            let most = after_first + after_first / 10 + (1 << 20);
            assert!(
                memory <= most,
                "wave {number}: {memory} bytes, after the second {after_first}"
            );
        }
    }
}

#[tokio::test]
async fn an_idle_broker_uses_hardly_any_processor_time() {
    let mut server = Server::start(&[]);
    server.topic("Idle", 4).await;
    server.send_numbered("Idle", 0..100).await;
    let consumer = member(&server.client, "idle_group", "Idle", "*");
    consumer.heartbeat(server.address()).await.unwrap();
    let process = server.broker.running().unwrap();
    let before = process.cpu_time().unwrap();
    let window = Duration::from_secs(5);
    tokio::time::sleep(window).await; // what is measured is that nothing happens
    let used = process.cpu_time().unwrap() - before;
    // 3 % of a core, and one tick of the counter.
    assert!(used <= window * 3 / 100 + Duration::from_millis(10), "{used:?} in {window:?}");
}

#[tokio::test]
async fn a_connection_too_many_is_closed_and_the_others_stay() {
    let server = Server::start(&[("maxConnections", "20")]);
    let mut kept = Vec::new();
    for _ in 0..15 {
        let one = client();
        one.producer_heartbeat(server.address(), "crowd").await.unwrap();
        kept.push(one);
    }
    let mut refused = 0;
    for _ in 0..20 {
        let one = client();
        if one.producer_heartbeat(server.address(), "crowd").await.is_err() {
            refused += 1;
        } else {
            kept.push(one);
        }
    }
    assert!(refused > 0, "no connection was refused");
    for one in &kept {
        one.producer_heartbeat(server.address(), "crowd").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orderly_stop_under_load_keeps_every_promise() {
    let mut server = Server::start(&[]);
    server.topic("Stopped", 4).await;
    for round in 0..3 {
        let sending: Vec<_> = (0..8)
            .map(|number| {
                let to = server.queue(number % 4);
                tokio::spawn(async move {
                    let client = client();
                    let producer = producer(&client);
                    let mut promised = Vec::new();
                    loop {
                        let message = Message::new("Stopped", vec![0; 200]);
                        match producer.send_to(&to, &message).await {
                            Ok(receipt) => promised.extend(receipt.unique_ids),
                            Err(error) => return (promised, error),
                        }
                    }
                })
            })
            .collect();
        let enough = server.max_offset("Stopped", 0).await + 100;
        until("some load", async || (server.max_offset("Stopped", 0).await > enough).then_some(()))
            .await;
        assert!(server.stop().await.success());
        let mut promised = HashSet::new();
        for one in sending {
            let (ids, error) = one.await.unwrap();
            promised.extend(ids);
            match error {
                // Clients try another broker.
                ClientError::Refused { code, .. } => {
                    assert_eq!(code, response::SERVICE_NOT_AVAILABLE);
                }
                ClientError::Closed { .. } | ClientError::Connect { .. } => {}
                other => panic!("{other}"),
            }
        }
        assert!(!server.broker.store_folder().join("abort").exists(), "round {round}");
        server.restart();
        for queue in 0..4 {
            for (offset, message) in (0..).zip(server.read_all("Stopped", queue).await) {
                assert_eq!(message.queue_offset, offset, "queue {queue} has a gap");
                promised.remove(message.unique_id().unwrap());
            }
        }
        assert!(promised.is_empty(), "round {round}: {} are gone", promised.len());
    }
}
