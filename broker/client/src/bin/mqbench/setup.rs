//! Before the load: makes the topics, finds brokers and queues, and the offsets to start from.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use broker_client::consumer::{ConsumerOptions, Subscription, heartbeat_data};
use broker_client::{Client, ClientOptions};
use broker_protocol::body::TopicConfig;

use crate::consume::PulledQueue;
use crate::options::{Common, Consume, From, Produce};

/// Where the load goes.
pub(crate) struct Plan {
    /// Queues to send to.
    pub(crate) sends: Vec<SendTarget>,
    /// Queues to pull from, by broker address.
    pub(crate) pulls: BTreeMap<String, Vec<PulledQueue>>,
    /// Body of the consumers' heartbeats.
    pub(crate) heartbeat: Vec<u8>,
    /// Version of the subscription in it.
    pub(crate) subscription_version: i64,
}

/// One queue to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendTarget {
    pub(crate) address: String,
    pub(crate) topic: String,
    pub(crate) queue_id: i32,
}

/// Prepares topics and finds out where the load goes.
pub(crate) fn plan(
    common: &Common,
    produce: Option<&Produce>,
    consume: Option<&Consume>,
) -> Result<Plan> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start a runtime")?;
    runtime.block_on(async {
        let client = Client::new(ClientOptions::name_servers(&common.name_server));
        let masters = masters(common, &client).await?;
        let mut queues = Vec::new();
        for topic in common.topic_names() {
            queues.extend(topic_queues(common, &client, &masters, &topic).await?);
        }
        let mut plan = Plan {
            sends: Vec::new(),
            pulls: BTreeMap::new(),
            heartbeat: Vec::new(),
            subscription_version: 0,
        };
        if let Some(consume) = consume {
            plan.pulls = pulls(&client, consume, &queues).await?;
            let options = consumer_options(common, consume);
            let data = heartbeat_data(&client, &options);
            plan.subscription_version = options.version;
            plan.heartbeat = broker_protocol::json::to_vec(&data).context("write a heartbeat")?;
        }
        if produce.is_some() {
            plan.sends = queues;
        }
        Ok(plan)
    })
}

/// Addresses of all masters of the cluster, or the one that was given.
async fn masters(common: &Common, client: &Client) -> Result<Vec<String>> {
    if let Some(address) = &common.broker {
        return Ok(vec![address.clone()]);
    }
    let cluster = client.admin().cluster_info().await.with_context(|| {
        format!("ask {} for brokers (or name one with --broker)", common.name_server)
    })?;
    let masters: Vec<String> = cluster
        .broker_addr_table
        .into_values()
        .filter_map(|broker| broker.broker_addrs.get(&0).map(|address| address.to_string()))
        .collect();
    if masters.is_empty() {
        bail!("name server {} knows no master", common.name_server);
    }
    Ok(masters)
}

/// The topic's queues on every master. Made where it is missing, unless told not to; a topic that
/// is there stays as it is, whatever its number of queues.
async fn topic_queues(
    common: &Common,
    client: &Client,
    masters: &[String],
    topic: &str,
) -> Result<Vec<SendTarget>> {
    let mut queues = Vec::new();
    for address in masters {
        for queue_id in queue_ids(common, client, address, topic).await? {
            queues.push(SendTarget { address: address.clone(), topic: topic.to_owned(), queue_id });
        }
    }
    Ok(queues)
}

async fn queue_ids(
    common: &Common,
    client: &Client,
    address: &str,
    topic: &str,
) -> Result<Vec<i32>> {
    let admin = client.admin();
    match admin.topic_stats(address, topic).await {
        Ok(stats) => Ok(stats.offset_table.keys().map(|queue| queue.queue_id).collect()),
        Err(error) if error.is_topic_missing() && !common.no_create => {
            let count = i32::try_from(common.queues)?;
            let created = admin.update_topic(address, &TopicConfig::new(topic, count)).await;
            created.with_context(|| format!("make topic {topic} on {address}"))?;
            Ok((0..count).collect())
        }
        Err(error) => Err(error).with_context(|| format!("ask for topic {topic} on {address}")),
    }
}

async fn pulls(
    client: &Client,
    consume: &Consume,
    queues: &[SendTarget],
) -> Result<BTreeMap<String, Vec<PulledQueue>>> {
    let mut pulls: BTreeMap<String, Vec<PulledQueue>> = BTreeMap::new();
    for queue in queues {
        let admin = client.admin();
        let offset = match consume.from {
            From::Oldest => admin.min_offset(&queue.address, &queue.topic, queue.queue_id).await,
            From::Newest => admin.max_offset(&queue.address, &queue.topic, queue.queue_id).await,
        };
        let offset = offset.with_context(|| {
            format!("find where queue {} of {} begins", queue.queue_id, queue.topic)
        })?;
        pulls.entry(queue.address.clone()).or_default().push(PulledQueue {
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
            offset,
        });
    }
    Ok(pulls)
}

fn consumer_options(common: &Common, consume: &Consume) -> ConsumerOptions {
    let subscriptions = common
        .topic_names()
        .into_iter()
        .map(|topic| Subscription { topic, expression: consume.subscription.clone() })
        .collect();
    ConsumerOptions { subscriptions, ..ConsumerOptions::pushed(&consume.consumer_group) }
}
