//! Where a topic's queues are.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_protocol::body::{MessageQueue, QueueData, TopicRouteData};
use broker_protocol::perm;

/// Id of a master among the brokers of one name.
const MASTER: i64 = 0;

/// The route of one topic, as a name server gave it.
#[derive(Clone, Debug)]
pub struct Route {
    topic: Arc<str>,
    queues: Vec<QueueData>,
    /// Broker name -> id -> address.
    brokers: BTreeMap<Arc<str>, BTreeMap<i64, Arc<str>>>,
}

/// A queue of a broker, by address: where a send goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Address of the broker.
    pub address: String,
    /// Queue of the topic; below 0 the broker chooses one.
    pub queue_id: i32,
}

impl Destination {
    /// A queue of the broker at `address`.
    pub fn new(address: impl Into<String>, queue_id: i32) -> Self {
        Self { address: address.into(), queue_id }
    }
}

impl Route {
    pub(crate) fn new(topic: &str, data: TopicRouteData) -> Self {
        // Java sorts, so that all clients see the queues in the same order.
        let mut queues = data.queue_datas;
        queues.sort_by(|a, b| a.broker_name.cmp(&b.broker_name));
        let brokers =
            data.broker_datas.into_iter().map(|b| (b.broker_name, b.broker_addrs)).collect();
        Self { topic: topic.into(), queues, brokers }
    }

    /// Every queue that takes sends: of masters, with write permission.
    pub fn destinations(&self) -> Vec<Destination> {
        let mut destinations = Vec::new();
        for queues in self.queues.iter().filter(|queues| perm::is_writable(queues.perm)) {
            let Some(address) = self.master(&queues.broker_name) else { continue };
            destinations
                .extend((0..queues.write_queue_nums).map(|id| Destination::new(address, id)));
        }
        destinations
    }

    /// Every queue that can be pulled from.
    pub fn readable_queues(&self) -> Vec<MessageQueue> {
        let readable = self.queues.iter().filter(|queues| perm::is_readable(queues.perm));
        readable
            .flat_map(|queues| {
                (0..queues.read_queue_nums).map(|id| {
                    MessageQueue::new(Arc::clone(&self.topic), Arc::clone(&queues.broker_name), id)
                })
            })
            .collect()
    }

    /// Address of the master of a name.
    pub fn master(&self, broker_name: &str) -> Option<&str> {
        self.brokers.get(broker_name)?.get(&MASTER).map(|address| &**address)
    }

    /// Address to pull from: of the broker with this id, or else the master, or else any of that
    /// name, as Java's client chooses.
    pub fn reader(&self, broker_name: &str, broker_id: i64) -> Option<&str> {
        let brokers = self.brokers.get(broker_name)?;
        let address = brokers.get(&broker_id).or_else(|| brokers.values().next());
        address.map(|address| &**address)
    }

    /// Addresses of all brokers that have the topic, slaves too.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.brokers.values().flat_map(|brokers| brokers.values()).map(|address| &**address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> Route {
        let data = broker_protocol::json::from_slice(
            br#"{"brokerDatas":[
                {"brokerAddrs":{0:"a:1",1:"a:2"},"brokerName":"a","cluster":"c"},
                {"brokerAddrs":{3:"b:2"},"brokerName":"b","cluster":"c"}],
              "queueDatas":[
                {"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":1},
                {"brokerName":"a","perm":6,"readQueueNums":2,"writeQueueNums":1}]}"#,
        );
        Route::new("T", data.unwrap())
    }

    #[test]
    fn sends_go_to_masters_only() {
        assert_eq!(route().destinations(), [Destination::new("a:1", 0)]);
    }

    #[test]
    fn pulls_go_where_they_are_told_and_else_to_whoever_is_left() {
        let route = route();
        let names: Vec<_> = route
            .readable_queues()
            .iter()
            .map(|queue| format!("{}:{}", queue.broker_name, queue.queue_id))
            .collect();
        assert_eq!(names, ["a:0", "a:1", "b:0"]);
        assert_eq!(route.reader("a", 1), Some("a:2"));
        assert_eq!(route.reader("a", 9), Some("a:1"));
        assert_eq!(route.reader("b", 0), Some("b:2"));
        assert_eq!(route.reader("c", 0), None);
    }

    #[test]
    fn queues_without_permission_are_left_out() {
        let mut route = route();
        for queues in &mut route.queues {
            queues.perm = perm::READ;
        }
        assert!(route.destinations().is_empty());
        for queues in &mut route.queues {
            queues.perm = perm::WRITE;
        }
        assert!(route.readable_queues().is_empty());
    }
}
