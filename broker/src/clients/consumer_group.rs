//! One consumer group that is online: its members and what it reads. A group has one subscription
//! to a topic, the newest that any member sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahash::RandomState;
use broker_protocol::body::{
    ConsumeFromWhere, ConsumeType, ConsumerData, MessageModel, SubscriptionData,
};
use broker_protocol::tags::TagFilter;
use broker_protocol::version::Language;
use parking_lot::RwLock;

use crate::net::Peer;

/// One consumer that is online.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its connection.
    pub peer: Arc<Peer>,
    /// The id it calls itself by.
    pub client_id: Arc<str>,
    /// Its language.
    pub language: Language,
    /// The protocol version it reports.
    pub version: i32,
    /// When it was last heard of, in milliseconds.
    pub heard_at: i64,
}

/// A subscription with its filter, parsed once for all pulls.
#[derive(Debug)]
pub struct Subscription {
    /// As the client sent it.
    pub data: SubscriptionData,
    /// What a message's tags must match; matches everything for an expression that is not one of
    /// tags.
    pub filter: TagFilter,
}

impl Subscription {
    /// Prepares a subscription for pulls.
    #[must_use]
    pub fn new(data: SubscriptionData) -> Subscription {
        // The hashes are made here from the text: not every client counts as Java does. The ones
        // that it sent serve where there is no text.
        let filter = match TagFilter::parse(&data.sub_string) {
            _ if !is_by_tags(&data) => TagFilter::All,
            Ok(TagFilter::All) if data.sub_string.is_empty() && !data.code_set.is_empty() => {
                TagFilter::from_codes(data.code_set.iter().copied())
            }
            Ok(filter) => filter,
            Err(_) => TagFilter::from_codes(data.code_set.iter().copied()),
        };
        Subscription { data, filter }
    }
}

/// Whether the expression is one of tags, which is what an empty type means too.
fn is_by_tags(data: &SubscriptionData) -> bool {
    matches!(&*data.expression_type, "" | "TAG")
}

/// A group with at least one member online.
#[derive(Debug)]
pub struct ConsumerGroup {
    name: Arc<str>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    subscriptions: HashMap<Arc<str>, Arc<Subscription>, RandomState>,
    consume_type: ConsumeType,
    message_model: MessageModel,
    consume_from_where: ConsumeFromWhere,
    /// Topics on which members disagreed and that were warned of.
    warned: HashSet<Arc<str>, RandomState>,
}

impl ConsumerGroup {
    pub(super) fn new(name: Arc<str>) -> ConsumerGroup {
        ConsumerGroup { name, state: RwLock::default() }
    }

    /// The group's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Adds or renews a member and takes over its subscriptions (unless it sent none on purpose).
    /// True when the group has a new member or another set of topics, so that every member must
    /// share the queues out again.
    pub(super) fn register(&self, member: Member, data: &ConsumerData) -> bool {
        let mut state = self.state.write();
        state.consume_type = data.consume_type;
        state.message_model = data.message_model;
        state.consume_from_where = data.consume_from_where;
        let joined = match state.members.iter_mut().find(|known| known.peer.id == member.peer.id) {
            Some(known) => {
                *known = member;
                false
            }
            None => {
                state.members.push(member);
                true
            }
        };
        let topics_changed = self.subscribe(&mut state, data);
        joined || topics_changed
    }

    fn subscribe(&self, state: &mut State, data: &ConsumerData) -> bool {
        let mut topics_changed = false;
        for sent in &data.subscription_data_set {
            let known = state.subscriptions.get(&*sent.topic).cloned();
            if let Some(known) = &known {
                if known.data.sub_string != sent.sub_string {
                    self.warn_of_conflict(state, &sent.topic, &known.data.sub_string, sent);
                }
                if sent.sub_version <= known.data.sub_version {
                    continue;
                }
            }
            topics_changed |= known.is_none();
            let subscription = Arc::new(Subscription::new(sent.clone()));
            state.subscriptions.insert(Arc::clone(&sent.topic), subscription);
        }
        let before = state.subscriptions.len();
        state.subscriptions.retain(|topic, _| {
            data.subscription_data_set.iter().any(|sent| *sent.topic == **topic)
        });
        topics_changed || state.subscriptions.len() != before
    }

    /// Members that read one topic by different expressions lose messages: the queues of one are
    /// filtered by the expression of the other. Told once for each topic, because it comes back
    /// with every heartbeat.
    fn warn_of_conflict(
        &self,
        state: &mut State,
        topic: &str,
        known: &str,
        sent: &SubscriptionData,
    ) {
        if state.members.len() < 2 || !state.warned.insert(Arc::from(topic)) {
            return;
        }
        tracing::warn!(
            group = &*self.name,
            topic,
            one = known,
            other = &*sent.sub_string,
            "members of a group subscribe to a topic differently; the newest subscription serves all of them"
        );
    }

    /// Takes the connection out; true when that leaves the group empty.
    pub(super) fn remove(&self, peer_id: u64) -> bool {
        let mut state = self.state.write();
        state.members.retain(|member| member.peer.id != peer_id);
        state.members.is_empty()
    }

    pub(super) fn silent_members(&self, silent_since: i64) -> Vec<Member> {
        let state = self.state.read();
        state.members.iter().filter(|member| member.heard_at < silent_since).cloned().collect()
    }

    /// The group's subscription to the topic.
    #[must_use]
    pub fn subscription(&self, topic: &str) -> Option<Arc<Subscription>> {
        self.state.read().subscriptions.get(topic).cloned()
    }

    /// All subscriptions, in no order.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<Arc<Subscription>> {
        self.state.read().subscriptions.values().cloned().collect()
    }

    /// The members whose connection lives.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        let state = self.state.read();
        state.members.iter().filter(|member| member.peer.is_alive()).cloned().collect()
    }

    /// The member with the client id, if its connection lives. After a reconnect the newest
    /// connection counts.
    #[must_use]
    pub fn member(&self, client_id: &str) -> Option<Member> {
        let state = self.state.read();
        let mut newest_first = state.members.iter().rev();
        newest_first.find(|m| *m.client_id == *client_id && m.peer.is_alive()).cloned()
    }

    /// The ids of the members whose connection lives, sorted, each once: a client that has just
    /// come back by a new connection is one client.
    #[must_use]
    pub fn client_ids(&self) -> Vec<Arc<str>> {
        let mut ids: Vec<Arc<str>> = self.members().into_iter().map(|m| m.client_id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether the members push to a listener or pull by themselves, as they last said.
    #[must_use]
    pub fn consume_type(&self) -> ConsumeType {
        self.state.read().consume_type
    }

    /// Whether the members share the queues out or each reads all, as they last said.
    #[must_use]
    pub fn message_model(&self) -> MessageModel {
        self.state.read().message_model
    }

    /// Where the members begin without progress, as they last said.
    #[must_use]
    pub fn consume_from_where(&self) -> ConsumeFromWhere {
        self.state.read().consume_from_where
    }
}
