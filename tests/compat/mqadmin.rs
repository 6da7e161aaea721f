//! mqadmin 4.9.8 shows the same for the same state, whether our brokers or Apache's hold it.
//!
//! One list of commands is run against a cluster of each maker. Addresses, times, ids and figures
//! that differ by nature are replaced; what is left must be equal, line by line.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use system_tests::apache::{Admin, online_command};
use system_tests::cluster::{BrokerOptions, Cluster, Maker};
use system_tests::process::{Process, wait_until};

use crate::clients::peer;

const TOPIC: &str = "AdminTopic";
const GROUP: &str = "AdminGroup";
const PRODUCERS: &str = "AdminProducers";
const WAIT: Duration = Duration::from_secs(120);

/// A command as it was typed, and what it printed.
struct Shown {
    command: String,
    text: String,
}

/// One maker's cluster with mqadmin at hand.
struct Session {
    admin: Admin,
    cluster: Cluster,
    shown: Vec<Shown>,
}

impl Session {
    fn start(maker: Maker) -> Session {
        let cluster = Cluster::start(maker, vec![BrokerOptions::master("broker-a")]).unwrap();
        let admin = Admin::start(&cluster.folder().join("admin"), &cluster.address()).unwrap();
        Session { admin, cluster, shown: Vec::new() }
    }

    /// Runs a command and keeps what it shows. `BROKER` stands for the broker's address.
    fn show(&mut self, line: &str) -> String {
        let text = self.ask(line);
        self.shown.push(Shown { command: line.to_owned(), text: text.clone() });
        text
    }

    /// Runs a command whose answer is not compared.
    fn ask(&mut self, line: &str) -> String {
        let line = line.replace("BROKER", &self.cluster.brokers[0].address());
        let words: Vec<&str> = line.split(' ').collect();
        self.admin.run(&words).unwrap()
    }

    /// Repeats a command until it shows `text`, then keeps that answer.
    fn show_when(&mut self, line: &str, text: &str) {
        let mut last = String::new();
        let seen = wait_until(line, WAIT, || {
            last = self.ask(line);
            last.contains(text)
        });
        assert!(seen.is_ok(), "{line} never shows {text:?} but\n{last}");
        self.shown.push(Shown { command: line.to_owned(), text: last });
    }
}

/// Clients that stay online, and the ids of what they sent: (unique, offset) for each message.
struct Online {
    process: Process,
    ids: Vec<(String, String)>,
}

fn go_online(session: &Session) -> Online {
    let folder = session.cluster.folder().join("online");
    let mut command = online_command(&folder).unwrap();
    command.args([&session.cluster.address(), TOPIC, "broker-a", PRODUCERS, GROUP, "6"]);
    let mut process = Process::spawn("online", &command, &folder.join("out")).unwrap();
    let log = process.log_file().to_path_buf();
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    process.wait_until("consumed", WAIT, || text().contains("consumed")).unwrap();
    let ids = text()
        .lines()
        .filter_map(|line| line.strip_prefix("sent ")?.split_once(' '))
        .map(|(unique, offset)| (unique.to_owned(), offset.to_owned()))
        .collect();
    Online { process, ids }
}

fn transcript(maker: Maker) -> Vec<Shown> {
    let mut session = Session::start(maker);
    session.show("updateTopic -c DefaultCluster -t AdminTopic -r 4 -w 4");
    session.show("updateSubGroup -c DefaultCluster -g AdminGroup");
    session.show_when("topicRoute -t AdminTopic", "broker-a");
    let mut online = go_online(&session);
    let (unique, offset) = online.ids[1].clone();
    session.show("clusterList");
    session.show("clusterList -m");
    session.show("topicList");
    session.show("topicList -c");
    session.show("topicStatus -t AdminTopic");
    session.show("topicRoute -t AdminTopic -l");
    session.show("topicRoute -t NoSuchTopic");
    session.show("brokerStatus -b BROKER");
    session.show("getBrokerConfig -b BROKER");
    session.show_when("consumerProgress -g AdminGroup", "%RETRY%AdminGroup");
    session.show("consumerProgress -g AdminGroup -s true");
    session.show("consumerProgress");
    session.show("consumerProgress -g NoSuchGroup");
    session.show("consumerConnection -g AdminGroup");
    session.show("consumerConnection -g NoSuchGroup");
    session.show("producerConnection -g AdminProducers -t AdminTopic");
    session.show("producerConnection -g NoSuchGroup -t AdminTopic");
    for command in [
        format!("queryMsgById -i {offset}"),
        format!("queryMsgByUniqueKey -t AdminTopic -i {unique}"),
        format!("queryMsgByUniqueKey -t AdminTopic -a -i {unique}"),
    ] {
        session.show(&command);
    }
    session.show_when("queryMsgByKey -t AdminTopic -k key-1", "#Message");
    session.show("queryMsgByKey -t AdminTopic -k no-such-key");
    session.show("queryMsgByOffset -t AdminTopic -b broker-a -i 0 -o 2");
    session.show("queryMsgByOffset -t AdminTopic -b broker-a -i 0 -o 77");
    session.show("printMsg -t AdminTopic -d true");
    session.show("printMsg -t AdminTopic -d true -s tag-1");
    change(&mut session);
    session.show("resetOffsetByTime -g AdminGroup -t AdminTopic -s 0");
    online.process.terminate(WAIT).unwrap();
    session.show_when("consumerConnection -g AdminGroup", "not online");
    offline(&mut session);
    session.shown
}

/// Everything that changes something, each followed by a look at it.
fn change(session: &mut Session) {
    session.show("updateTopicPerm -b BROKER -t AdminTopic -p 4");
    session.show("topicRoute -t AdminTopic");
    session.show("updateTopicPerm -c DefaultCluster -t AdminTopic -p 6");
    session.show("topicRoute -t AdminTopic");
    session.show("updateTopic -b BROKER -t WideTopic -r 8 -w 8 -o true");
    session.show_when("topicRoute -t WideTopic", "broker-a");
    session.show("updateTopic -b BROKER -t bad*name -r 8 -w 8");
    session.show("updateTopic -b BROKER -t TBW102 -r 8 -w 8");
    session.show("updateBrokerConfig -b BROKER -k flushConsumerOffsetInterval -v 3000");
    session.show("getBrokerConfig -b BROKER");
    session.show("getBrokerConfig -c DefaultCluster");
    session.show("wipeWritePerm -b broker-a");
    session.show("topicRoute -t AdminTopic");
    session.show("addWritePerm -b broker-a");
    session.show("topicRoute -t AdminTopic");
    session.show("wipeWritePerm -b no-such-broker");
}

/// What is done to a group while nobody of it is online, and taking everything away.
fn offline(session: &mut Session) {
    session.show("resetOffsetByTime -g AdminGroup -t AdminTopic -s 0");
    session.show("consumerProgress -g AdminGroup");
    session.show("resetOffsetByTime -g AdminGroup -t AdminTopic -s now");
    session.show("consumerProgress -g AdminGroup");
    session.show("updateSubGroup -b BROKER -g OtherGroup -r 3 -q 2");
    session.show("topicRoute -t %RETRY%OtherGroup");
    session.show("deleteSubGroup -b BROKER -g OtherGroup");
    session.show("deleteSubGroup -c DefaultCluster -g AdminGroup -r true");
    session.show("deleteTopic -c DefaultCluster -t AdminTopic");
    session.show("deleteTopic -c DefaultCluster -t WideTopic");
    session.show("topicStatus -t AdminTopic");
    session.show("topicList");
}

/// What a figure, an id or an address of either maker looks like, and what stands for it.
fn normalised(text: &str) -> String {
    const RULES: [(&str, &str); 15] = [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "TIME"),
        (r"\b1\d{12}\b", "TIME"),
        (r"127\.0\.0\.1@\S+|\S+@\d+#\d+", "CLIENT"),
        (r"(\d+\.){3}\d+:\d+", "ADDRESS"),
        (r"\b[0-9A-F]{56}\b|\b[0-9A-F]{32}\b", "ID"),
        (r"/tmp/tandem-cluster-\w+", "FOLDER"),
        (r"bodyCRC=-?\d+", "bodyCRC"),
        (r"Consume TPS: \S+", "Consume TPS"),
        // clusterList: loads, waits, hours since the first message, disk use
        (r"\d+\.\d\d\(\d+,\d+ms\) +\d+\.\d\d\(\d+,\d+ms\) +\d+ +\S+ +\d\.\d+", "LOAD"),
        (r"(?m)^\tat .*$|^\t\.\.\. .*$", ""),
        // How many topics a wipe changes: Apache makes one for transactions, a minute after start.
        (r"OK, [1-9]\d*", "OK, SOME"),
        (r"(?m)^.*RMQ_SYS_TRANS_HALF_TOPIC.*\n", ""),
        (r"[ \t]+", " "),
        (r" +\n|\n\n+", "\n"),
        // What a reset found as progress: the client may have read again since the one before.
        (r"(?m)^(broker-a \d+ \d+) \d+ (\d+ \d+)$", "$1 PROGRESS $2"),
    ];
    let mut text = text.to_owned();
    for (pattern, stands_for) in RULES {
        text = Regex::new(pattern).unwrap().replace_all(&text, stands_for).into_owned();
    }
    text
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// `key : value` and `key = value` lines.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once([':', '=']));
    lines.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Figures that a broker's status must show alike; the rest depends on machine and moment.
const STATUS: [&str; 11] = [
    "brokerVersion",
    "brokerVersionDesc",
    "commitLogMaxOffset",
    "commitLogMinOffset",
    "dispatchBehindBytes",
    "msgGetTotalTodayNow",
    "msgPutTotalTodayNow",
    "putMessageAverageSize",
    "putMessageSizeTotal",
    "putMessageTimesTotal",
    "startAcceptSendRequestTimeStamp",
];

fn compare_status(apache: &str, ours: &str, differences: &mut Vec<String>) {
    let (apache, ours) = (pairs(apache), pairs(ours));
    for key in apache.keys().filter(|key| !key.contains('/') && !ours.contains_key(*key)) {
        differences.push(format!("brokerStatus lacks {key}"));
    }
    for key in STATUS {
        if apache.get(key) != ours.get(key) {
            let (theirs, ours) = (apache.get(key), ours.get(key));
            differences.push(format!("brokerStatus {key}: {theirs:?}, ours {ours:?}"));
        }
    }
}

/// What both have must be equal, but for paths and ports, and where ours differs on purpose.
fn compare_config(apache: &str, ours: &str, differences: &mut Vec<String>) {
    let (apache, ours) = (pairs(&normalised(apache)), pairs(&normalised(ours)));
    let differs = |key: &str| key.contains("Port") || OWN_DEFAULTS.contains(&key);
    let mut common = 0;
    for (key, value) in ours.iter().filter(|(key, _)| !differs(key)) {
        let Some(theirs) = apache.get(key) else { continue };
        common += 1;
        if theirs != value {
            differences.push(format!("getBrokerConfig {key}: {theirs}, ours {value}"));
        }
    }
    assert!(common > 20, "only {common} settings in common:\n{ours:#?}");
}

/// Settings whose default is ours on purpose.
const OWN_DEFAULTS: [&str; 0] = [];

#[test]
fn mqadmin_shows_the_same_for_the_same_state() {
    let apache = transcript(Maker::Apache);
    let ours = transcript(peer());
    let mut differences = Vec::new();
    assert_eq!(apache.len(), ours.len());
    for (theirs, ours) in apache.iter().zip(&ours) {
        assert!(!theirs.text.contains("usage:"), "{}: {}", theirs.command, theirs.text);
        match ours.command.split(' ').next() {
            Some("brokerStatus") => compare_status(&theirs.text, &ours.text, &mut differences),
            Some("getBrokerConfig") => compare_config(&theirs.text, &ours.text, &mut differences),
            command => {
                let (mut expected, mut found) = (normalised(&theirs.text), normalised(&ours.text));
                // These print what Java's hash tables hold, in no order.
                if matches!(command, Some("topicList" | "consumerConnection")) {
                    (expected, found) = (sorted(&expected), sorted(&found));
                }
                if expected != found {
                    let command = &ours.command;
                    differences.push(format!(
                        "$ {command}\n--- Apache shows\n{expected}\n--- ours shows\n{found}"
                    ));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn no_administrator_moves_the_store() {
    let mut session = Session::start(Maker::Tandem);
    let said = session.ask("updateBrokerConfig -b BROKER -k storePathRootDir -v /elsewhere");
    assert!(said.contains("storePathRootDir") && said.contains("CODE: 16"), "{said}");
    let shown = session.ask("getBrokerConfig -b BROKER");
    assert!(!shown.contains("/elsewhere"), "{shown}");
}
