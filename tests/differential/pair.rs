//! The two peers side by side: every step asks both the same and keeps where they differ. What the
//! steps are is in the scripts; how an answer becomes comparable is in `plain`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_client::connection::{ServerAnswer, ServerRequest, ServerRequestHandler};
use broker_client::{Connection, ConnectionOptions, Reply};
use broker_protocol::code::request as code;
use broker_protocol::frame::Serialize;
use system_tests::cluster::Cluster;

use crate::plain::{self, Plain};

/// How long an answer may take; whoever takes longer has not answered.
const ANSWER: Duration = Duration::from_secs(8);
/// The longest wait for what happens behind the answers.
const SETTLE: Duration = Duration::from_secs(10);

/// What one side tells a client unasked.
type Notices = Arc<std::sync::Mutex<Vec<String>>>;

/// One peer, its connections and its names.
struct Side {
    broker: Connection,
    name_server: Connection,
    options: ConnectionOptions,
    notices: Notices,
    broker_address: String,
    name_server_address: String,
}

/// Whom a step asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Broker,
    NameServer,
}

/// A request for both sides; a value may differ where the sides name things differently.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    code: i32,
    fields: Vec<(String, [String; 2])>,
    body: [Vec<u8>; 2],
    patience: Duration,
}

impl Ask {
    pub(crate) fn new(code: i32) -> Ask {
        Ask { code, fields: Vec::new(), body: Default::default(), patience: ANSWER }
    }

    /// The same fields under another code.
    pub(crate) fn code(mut self, code: i32) -> Ask {
        self.code = code;
        self
    }

    /// Sets a field; an earlier value is replaced.
    pub(crate) fn with(self, key: &str, value: impl ToString) -> Ask {
        let value = value.to_string();
        self.each(key, [value.clone(), value])
    }

    /// Sets a field to what each side calls it.
    pub(crate) fn each(self, key: &str, values: [String; 2]) -> Ask {
        let mut ask = self.without(key);
        ask.fields.push((key.to_owned(), values));
        ask
    }

    pub(crate) fn without(mut self, key: &str) -> Ask {
        self.fields.retain(|(known, _)| known != key);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Ask {
        let body = body.into();
        self.body = [body.clone(), body];
        self
    }

    /// For requests that one side may leave without an answer.
    pub(crate) fn patience(mut self, patience: Duration) -> Ask {
        self.patience = patience;
        self
    }
}

/// A step whose answers are not the same.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) step: String,
    pub(crate) apache: Plain,
    pub(crate) ours: Plain,
}

/// Apache's side and ours, in this order everywhere.
pub(crate) struct Pair {
    sides: [Side; 2],
    /// Begins every name that a round makes, so that the rounds do not meet.
    pub(crate) mark: &'static str,
    pub(crate) differences: Vec<Difference>,
    pub(crate) steps: usize,
}

impl Pair {
    pub(crate) async fn connect(
        clusters: [&Cluster; 2],
        serialize: Serialize,
        mark: &'static str,
    ) -> Pair {
        let [apache, ours] = clusters;
        Pair {
            sides: [Side::connect(apache, serialize).await, Side::connect(ours, serialize).await],
            mark,
            differences: Vec::new(),
            steps: 0,
        }
    }

    /// A topic or group of this round.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.mark)
    }

    /// Asks both brokers and compares.
    pub(crate) async fn ask(&mut self, step: &str, ask: Ask) -> [Option<Reply>; 2] {
        self.compare(Whom::Broker, step, ask).await
    }

    /// Asks both name servers and compares.
    pub(crate) async fn ask_name_server(&mut self, step: &str, ask: Ask) -> [Option<Reply>; 2] {
        self.compare(Whom::NameServer, step, ask).await
    }

    async fn compare(&mut self, whom: Whom, step: &str, ask: Ask) -> [Option<Reply>; 2] {
        let replies = self.call(whom, &ask).await;
        let apache = self.plain(0, ask.code, replies[0].as_ref());
        let ours = self.plain(1, ask.code, replies[1].as_ref());
        self.note(step, apache, ours);
        replies
    }

    /// Asks both brokers without comparing: for steps that only prepare.
    pub(crate) async fn prepare(&mut self, ask: Ask) -> [Option<Reply>; 2] {
        self.call(Whom::Broker, &ask).await
    }

    /// The same at the name servers.
    pub(crate) async fn prepare_name_server(&mut self, ask: Ask) -> [Option<Reply>; 2] {
        self.call(Whom::NameServer, &ask).await
    }

    async fn call(&mut self, whom: Whom, ask: &Ask) -> [Option<Reply>; 2] {
        let [apache, ours] = &mut self.sides;
        let (apache, ours) = tokio::join!(apache.call(whom, ask, 0), ours.call(whom, ask, 1));
        [apache, ours]
    }

    fn plain(&self, side: usize, code: i32, reply: Option<&Reply>) -> Plain {
        let side = &self.sides[side];
        plain::of(code, reply, &side.broker_address, &side.name_server_address, self.mark)
    }

    fn note(&mut self, step: &str, mut apache: Plain, mut ours: Plain) {
        self.steps += 1;
        plain::level(&mut apache, &mut ours);
        if apache != ours {
            self.differences.push(Difference { step: step.to_owned(), apache, ours });
        }
    }

    /// Waits until both queues end at `end`: queues are filled behind the sends.
    pub(crate) async fn settle(&mut self, topic: &str, queue_id: i32, end: i64) {
        let ask = Ask::new(code::GET_MAX_OFFSET).with("topic", topic).with("queueId", queue_id);
        let started = Instant::now();
        loop {
            let ends = self.prepare(ask.clone()).await.map(|reply| {
                let fields = reply.map(|reply| reply.fields()).unwrap_or_default();
                fields.into_iter().find(|(key, _)| key == "offset").map(|(_, value)| value)
            });
            if ends.iter().all(|found| found.as_deref() == Some(&*end.to_string())) {
                return;
            }
            if started.elapsed() > SETTLE {
                let [apache, ours] = ends.map(|end| Plain::of_text(&end.unwrap_or_default()));
                let step = format!("the end {end} of {topic}, queue {queue_id}");
                self.differences.push(Difference { step, apache, ours });
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Compares what the sides have told their client since the last time, at least `count` notices.
    pub(crate) async fn notices(&mut self, step: &str, count: usize) {
        let started = Instant::now();
        let told = |side: &Side| side.notices.lock().unwrap().len();
        while self.sides.iter().any(|side| told(side) < count) && started.elapsed() < SETTLE / 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let [apache, ours] = [0, 1].map(|index| {
            let side: &Side = &self.sides[index];
            let mut lines = std::mem::take(&mut *side.notices.lock().unwrap());
            lines.sort();
            let text = lines.join("\n");
            let (broker, name_server) = (&side.broker_address, &side.name_server_address);
            Plain::of_text(&plain::levelled(&text, broker, name_server, self.mark))
        });
        self.note(step, apache, ours);
    }
}

impl Side {
    async fn connect(cluster: &Cluster, serialize: Serialize) -> Side {
        let notices = Notices::default();
        let handler: Arc<ServerRequestHandler> = {
            let notices = Arc::clone(&notices);
            Arc::new(move |request| answer(&notices, &request))
        };
        let options = ConnectionOptions { serialize, handler: Some(handler), ..Default::default() };
        let broker_address = cluster.brokers[0].address();
        let name_server_address = cluster.address();
        Side {
            broker: Connection::connect(&broker_address, options.clone()).await.unwrap(),
            name_server: Connection::connect(&name_server_address, options.clone()).await.unwrap(),
            options,
            notices,
            broker_address,
            name_server_address,
        }
    }

    /// The answer; none when the peer closes the connection instead or stays silent.
    async fn call(&mut self, whom: Whom, ask: &Ask, side: usize) -> Option<Reply> {
        let (connection, address) = match whom {
            Whom::Broker => (&mut self.broker, &self.broker_address),
            Whom::NameServer => (&mut self.name_server, &self.name_server_address),
        };
        if !connection.is_open() {
            *connection = Connection::connect(address, self.options.clone()).await.unwrap();
        }
        let fields: Vec<(&str, &str)> =
            ask.fields.iter().map(|(key, values)| (&**key, &*values[side])).collect();
        let answered =
            connection.call_within(ask.code, &*fields, &ask.body[side], ask.patience).await;
        answered.ok()
    }
}

/// The consumer that both brokers talk to: it notes what it is told and answers what it is asked.
fn answer(notices: &Notices, request: &ServerRequest) -> Option<ServerAnswer> {
    let mut fields = request.fields.clone();
    fields.sort();
    let body = plain::body_text(request.code, &request.body);
    notices.lock().unwrap().push(format!("{} {fields:?} {body}", request.code));
    let body = match request.code {
        code::GET_CONSUMER_STATUS_FROM_CLIENT => {
            r#"{"messageQueueTable":{{"brokerName":"diff","queueId":0,"topic":"T"}:5}}"#
        }
        code::GET_CONSUMER_RUNNING_INFO => r#"{"properties":{"a":"b"}}"#,
        code::CONSUME_MESSAGE_DIRECTLY => r#"{"consumeResult":"CR_SUCCESS"}"#,
        _ => return None,
    };
    Some(ServerAnswer { code: 0, remark: None, body: body.as_bytes().to_vec() })
}
