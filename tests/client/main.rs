//! The project's own client against Apache's broker and name server, and against ours: the same
//! steps with the same outcome.

mod load;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use broker_client::{
    Client, ClientOptions, ConnectionOptions, Consumer, ConsumerOptions, Destination, Message,
    Producer, Pull, PullStatus, Route, SendStatus,
};
use broker_protocol::body::{MessageQueue, SubscriptionGroupConfig, TopicConfig};
use broker_protocol::frame::Serialize;
use system_tests::cluster::{BrokerOptions, Cluster, Maker};

#[test]
fn against_apache() {
    exercise(Maker::Apache).unwrap();
}

#[test]
fn against_ours() {
    exercise(Maker::Tandem).unwrap();
}

/// Everything that the client offers, once with each way to write headers.
fn exercise(maker: Maker) -> Result<()> {
    let mut cluster = Cluster::start(maker, vec![BrokerOptions::master("broker-a")])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for serialize in [Serialize::Json, Serialize::Binary] {
        let steps = Steps::new(&cluster, serialize);
        runtime
            .block_on(steps.run())
            .with_context(|| format!("{maker:?} with {serialize:?}\n{}", cluster.logs()))?;
    }
    load::exercise(&mut cluster).with_context(|| format!("{maker:?} under load"))
}

struct Steps {
    client: Client,
    address: String,
    topic: String,
    group: String,
}

impl Steps {
    fn new(cluster: &Cluster, serialize: Serialize) -> Self {
        let connection = ConnectionOptions { serialize, ..ConnectionOptions::default() };
        let options =
            ClientOptions { connection, ..ClientOptions::name_servers(&cluster.address()) };
        Self {
            client: Client::new(options),
            address: cluster.brokers[0].address(),
            topic: format!("Client{serialize:?}"),
            group: format!("client_{serialize:?}"),
        }
    }

    async fn run(&self) -> Result<()> {
        self.topics().await.context("topics")?;
        self.sends_and_pulls().await.context("sends and pulls")?;
        self.batches().await.context("batches")?;
        self.queries().await.context("queries")?;
        self.groups().await.context("groups")?;
        self.figures().await.context("figures")?;
        self.new_topics().await.context("new topics")
    }

    async fn topics(&self) -> Result<()> {
        let admin = self.client.admin();
        let cluster = admin.cluster_info().await?;
        let broker = cluster.broker_addr_table.get("broker-a").context("the broker is known")?;
        ensure!(broker.broker_addrs.get(&0).map(|a| &**a) == Some(self.address.as_str()));
        admin.update_topic(&self.address, &TopicConfig::new(self.topic.as_str(), 2)).await?;
        let configs = admin.topic_configs(&self.address).await?;
        let config = configs.topic_config_table.get(self.topic.as_str()).context("listed")?;
        ensure!(config.write_queue_nums == 2 && config.perm == 6, "{config:?}");
        let route = self.await_route().await?;
        ensure!(
            route.destinations()
                == [Destination::new(&*self.address, 0), Destination::new(&*self.address, 1)]
        );
        ensure!(admin.topic_route("NoSuchTopic").await?.is_none());
        Ok(())
    }

    /// Ours tells the name server of a new topic behind its answer: asks until it is known.
    async fn await_route(&self) -> Result<Arc<Route>> {
        for _ in 0..200 {
            match self.client.fresh_route(&self.topic).await {
                Err(error) if error.is_topic_missing() => {}
                outcome => return Ok(outcome?),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("the name server never heard of {}", self.topic)
    }

    fn destination(&self, queue_id: i32) -> Destination {
        Destination::new(&*self.address, queue_id)
    }

    async fn sends_and_pulls(&self) -> Result<()> {
        let producer = Producer::new(&self.client, "client_producer");
        let message =
            Message::new(&*self.topic, "a body").tag("TagA").keys("one two").property("p", "ä€");
        for n in 0..4 {
            let receipt = producer.send(&message).await?;
            ensure!(receipt.status == SendStatus::Stored);
            ensure!((receipt.queue_id, receipt.queue_offset) == (n % 2, i64::from(n / 2)));
        }
        self.await_end(1, 2).await?;
        let consumer = self.consumer("TagB");
        consumer.heartbeat(&self.address).await?;
        let pull = |expression| Pull {
            topic: &self.topic,
            queue_id: 1,
            offset: 0,
            max: 32,
            hold: None,
            expression,
            commit: None,
        };
        let pulled = consumer.pull(&self.address, &pull(Some("*"))).await?;
        ensure!(pulled.status == PullStatus::Found && pulled.next_offset == 2, "{pulled:?}");
        ensure!((pulled.min_offset, pulled.max_offset) == (0, 2));
        let [first, _] = pulled.messages.as_slice() else { anyhow::bail!("{pulled:?}") };
        ensure!(&first.body[..] == b"a body" && first.body_is_intact);
        ensure!((first.tag(), first.keys()) == (Some("TagA"), Some("one two")));
        ensure!(first.property("p") == Some("ä€"));
        let pulled = consumer.pull(&self.address, &pull(None)).await?;
        ensure!(pulled.status == PullStatus::NoMatchedMessage, "{pulled:?}");
        let beyond = Pull { offset: 1000, ..pull(Some("*")) };
        let pulled = consumer.pull(&self.address, &beyond).await?;
        // Apache 4.9 leads back to the first message then, Apache 5 and ours to the end.
        ensure!(pulled.status == PullStatus::OffsetMoved, "{pulled:?}");
        ensure!([0, 2].contains(&pulled.next_offset), "{pulled:?}");
        self.held_pull(&consumer, &producer).await.context("a held pull")
    }

    /// Queues are written behind the log: asks until a queue ends where it should.
    async fn await_end(&self, queue_id: i32, end: i64) -> Result<()> {
        for _ in 0..200 {
            let found =
                self.client.admin().max_offset(&self.address, &self.topic, queue_id).await?;
            if found == end {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("queue {queue_id} never ended at {end}")
    }

    /// A pull at the end of a queue is held until a message arrives.
    async fn held_pull(&self, consumer: &Consumer, producer: &Producer) -> Result<()> {
        self.await_end(0, 2).await?;
        let held = Pull {
            topic: &self.topic,
            queue_id: 0,
            offset: 2,
            max: 32,
            hold: Some(Duration::from_secs(20)),
            expression: Some("*"),
            commit: Some(2),
        };
        let send = async {
            // Should it overtake the pull, it is found at once.
            let to = self.destination(0);
            producer.send_to(&to, &Message::new(&*self.topic, "late")).await
        };
        let (pulled, sent) = tokio::join!(consumer.pull(&self.address, &held), send);
        ensure!(sent?.queue_offset == 2);
        let pulled = pulled?;
        ensure!(pulled.status == PullStatus::Found && &pulled.messages[0].body[..] == b"late");
        ensure!(consumer.committed(&self.address, &self.topic, 0).await? == Some(2));
        consumer.commit(&self.address, &self.topic, 0, 3).await?;
        ensure!(consumer.committed(&self.address, &self.topic, 0).await? == Some(3));
        Ok(())
    }

    async fn batches(&self) -> Result<()> {
        let producer = Producer::new(&self.client, "client_producer");
        let messages: Vec<Message> = (0..3)
            .map(|n| Message::new(&*self.topic, format!("batch {n}")).keys(format!("key{n}")))
            .collect();
        let receipt = producer.send_batch(&self.destination(1), &messages).await?;
        ensure!((receipt.queue_id, receipt.queue_offset) == (1, 2), "{receipt:?}");
        ensure!(receipt.offset_ids.len() == 3 && receipt.unique_ids.len() == 3);
        for (n, id) in receipt.offset_ids.iter().enumerate() {
            let stored = self.client.admin().view_message_by_id(id).await?;
            ensure!(stored.body == format!("batch {n}").as_bytes());
            ensure!(stored.unique_id() == Some(receipt.unique_ids[n].as_str()));
        }
        let id = producer
            .send_oneway(&self.destination(1), &Message::new(&*self.topic, "one-way"))
            .await?;
        let found = self.await_indexed(&id, true).await?;
        ensure!(&found[0].body[..] == b"one-way");
        Ok(())
    }

    async fn queries(&self) -> Result<()> {
        let found = self.await_indexed("two", false).await?;
        ensure!(found.len() == 4, "{}", found.len());
        let admin = self.client.admin();
        let nothing = admin
            .query_messages(&self.address, &self.topic, "nothing", false, 32, 0, i64::MAX)
            .await?;
        ensure!(nothing.messages.is_empty());
        let offset = |time| admin.search_offset(&self.address, &self.topic, 0, time);
        ensure!(offset(0).await? == 0);
        // Apache names the last message then, we name the end.
        let end = offset(found[0].store_timestamp + 3_600_000).await?;
        ensure!((2..=3).contains(&end), "{end}");
        ensure!(admin.min_offset(&self.address, &self.topic, 0).await? == 0);
        ensure!(admin.max_offset(&self.address, &self.topic, 0).await? == 3);
        let earliest = admin.earliest_store_time(&self.address, &self.topic, 0).await?;
        ensure!(found.iter().any(|message| message.store_timestamp == earliest));
        let outcome = admin.view_message(&self.address, 1 << 40).await;
        ensure!(outcome.is_err_and(|error| error.code() == Some(1)));
        Ok(())
    }

    /// The index is written behind the log: asks until a key is found.
    async fn await_indexed(
        &self,
        key: &str,
        unique: bool,
    ) -> Result<Vec<broker_client::StoredMessage>> {
        let admin = self.client.admin();
        for _ in 0..200 {
            let found = admin
                .query_messages(&self.address, &self.topic, key, unique, 32, 0, i64::MAX)
                .await?;
            if !found.messages.is_empty() {
                return Ok(found.messages);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("{key} was not indexed")
    }

    fn consumer(&self, expression: &str) -> Consumer {
        let options = ConsumerOptions::pushed(&self.group).subscribe(&self.topic, expression);
        Consumer::new(&self.client, options)
    }

    async fn groups(&self) -> Result<()> {
        let admin = self.client.admin();
        let consumer = self.consumer("*");
        consumer.heartbeat(&self.address).await?;
        let ids = admin.consumer_ids(&self.address, &self.group).await?.consumer_id_list;
        ensure!(ids.iter().map(|id| &**id).eq([self.client.id()]), "{ids:?}");
        let members = admin.consumer_connections(&self.address, &self.group).await?;
        ensure!(members.subscription_table.contains_key(self.topic.as_str()), "{members:?}");
        self.client.producer_heartbeat(&self.address, "client_producer").await?;
        let producers = admin.producer_connections(&self.address, "client_producer").await?;
        ensure!(producers.connection_set.len() == 1, "{producers:?}");

        let queues: Vec<MessageQueue> =
            (0..2).map(|id| MessageQueue::new(self.topic.as_str(), "broker-a", id)).collect();
        let mut locked = consumer.lock(&self.address, &queues).await?;
        locked.sort();
        ensure!(locked == queues, "{locked:?}");
        consumer.unlock(&self.address, &queues).await?;

        let stats = admin.consume_stats(&self.address, &self.group, Some(&self.topic)).await?;
        let progress = stats.offset_table.get(&queues[0]).context("progress of queue 0")?;
        ensure!((progress.broker_offset, progress.consumer_offset) == (3, 3), "{progress:?}");
        let groups = admin.topic_groups(&self.address, &self.topic).await?.group_list;
        ensure!(groups.iter().any(|group| **group == *self.group), "{groups:?}");

        let pull = Pull {
            topic: &self.topic,
            queue_id: 0,
            offset: 0,
            max: 1,
            hold: None,
            expression: Some("*"),
            commit: None,
        };
        let pulled = consumer.pull(&self.address, &pull).await?;
        consumer.send_back(&self.address, &pulled.messages[0], 1).await?;
        let retry = format!("%RETRY%{}", self.group);
        ensure!(admin.topic_configs(&self.address).await?.topic_config_table.contains_key(&*retry));

        consumer.unregister(&self.address).await?;
        let error = admin.consumer_ids(&self.address, &self.group).await;
        ensure!(error.is_err() || error.is_ok_and(|ids| ids.consumer_id_list.is_empty()));

        let config = SubscriptionGroupConfig::new("client_made");
        admin.update_group(&self.address, &config).await?;
        let groups = admin.groups(&self.address).await?;
        ensure!(groups.subscription_group_table.contains_key("client_made"));
        admin.delete_group(&self.address, "client_made", false).await?;
        Ok(())
    }

    async fn figures(&self) -> Result<()> {
        let admin = self.client.admin();
        let info = admin.runtime_info(&self.address).await?;
        ensure!(info.contains_key("bootTimestamp"), "{info:?}");
        let config = admin.broker_config(&self.address).await?;
        ensure!(config.get("brokerName").map(String::as_str) == Some("broker-a"));
        admin.update_broker_config(&self.address, &[("flushIntervalCommitLog", "501")]).await?;
        let config = admin.broker_config(&self.address).await?;
        ensure!(config.get("flushIntervalCommitLog").map(String::as_str) == Some("501"));
        let stats = admin.topic_stats(&self.address, &self.topic).await?;
        let queue = MessageQueue::new(self.topic.as_str(), "broker-a", 0);
        ensure!(stats.offset_table.get(&queue).is_some_and(|q| q.max_offset == 3), "{stats:?}");
        let [server] = self.client.options().name_servers.as_slice() else {
            anyhow::bail!("one name server")
        };
        admin.put_kv(server, "space", "key", "value").await?;
        ensure!(admin.kv("space", "key").await?.as_deref() == Some("value"));
        admin.delete_kv(server, "space", "key").await?;
        ensure!(admin.kv("space", "key").await?.is_none());
        Ok(())
    }

    /// A topic that nobody made exists after the first send to it.
    async fn new_topics(&self) -> Result<()> {
        let producer = Producer::new(&self.client, "client_producer");
        let topic = format!("{}New", self.topic);
        let receipt = producer.send(&Message::new(&*topic, "first")).await?;
        ensure!(receipt.status == SendStatus::Stored && receipt.queue_offset == 0);
        let admin = self.client.admin();
        let configs = admin.topic_configs(&self.address).await?;
        let config = configs.topic_config_table.get(topic.as_str()).context("made")?;
        ensure!(config.write_queue_nums == 4, "{config:?}");
        admin.delete_topic(&self.address, &topic).await?;
        let configs = admin.topic_configs(&self.address).await?;
        ensure!(!configs.topic_config_table.contains_key(topic.as_str()));
        let to = Destination::new(&*self.address, 99);
        let outcome = producer.send_to(&to, &Message::new(&*self.topic, "x")).await;
        let illegal = "queueId[99] is illegal";
        ensure!(outcome.is_err_and(|error| error.to_string().contains(illegal)));
        Ok(())
    }
}
