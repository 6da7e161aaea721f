//! Answers in a form that two peers have in common: addresses, times, places in the log and the
//! order of what has no order are taken out, everything else stays.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use broker_client::Reply;
use broker_protocol::code::request as code;
use broker_protocol::json;
use broker_protocol::record::{Peek, RecordView, peek};
use regex::Regex;
use serde_json::Value;

/// An answer, made comparable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plain {
    /// `None`: there was no answer.
    pub(crate) code: Option<i32>,
    pub(crate) remark: String,
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Plain {
    pub(crate) fn of_text(text: &str) -> Plain {
        Plain { code: Some(0), body: text.to_owned(), ..Plain::default() }
    }
}

impl std::fmt::Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "code {code}")?,
            None => write!(f, "no answer")?,
        }
        write!(f, " remark [{}] fields {:?} body [{}]", self.remark, self.fields, self.body)
    }
}

/// The comparable form of an answer to a request of this code.
pub(crate) fn of(
    request: i32,
    reply: Option<&Reply>,
    broker: &str,
    names: &str,
    mark: &str,
) -> Plain {
    let Some(reply) = reply else { return Plain::default() };
    let level = |text: &str| levelled(text, broker, names, mark);
    let fields = reply.fields().into_iter();
    Plain {
        code: Some(reply.code),
        remark: level(remark(reply)),
        fields: fields.map(|(key, value)| level_field(&key, &level(&value))).collect(),
        body: level(&body_text(request, &reply.body)),
    }
}

/// What the answer says, but for what Apache has left over from its making or adds for beginners.
fn remark(reply: &Reply) -> &str {
    let said = reply.remark.as_deref().unwrap_or_default();
    let said = if reply.code == 0 && said == "not set any response code" { "" } else { said };
    let link = said.find("\nSee http://rocketmq.apache.org/docs/faq/");
    link.and_then(|at| said.get(..at)).unwrap_or(said).trim_end_matches([' ', ','])
}

fn level_field(key: &str, value: &str) -> (String, String) {
    let value = match key {
        "indexLastUpdatePhyoffset" => "<place>",
        "indexLastUpdateTimestamp" => "<time>",
        "version" => "<version>",
        _ => value,
    };
    (key.to_owned(), value.to_owned())
}

/// A Java exception as a remark says where it was thrown; ours say what is wrong. Both are some
/// text, and their code is compared. A refusal of ours may say more than Apache's.
pub(crate) fn level(apache: &mut Plain, ours: &mut Plain) {
    static EXCEPTION: OnceLock<Regex> = OnceLock::new();
    let exception = EXCEPTION
        .get_or_init(|| Regex::new(r"^(java|com|org|sun)\.[\w.$]+(Exception|Error)\b").unwrap());
    if apache.code != ours.code || apache.code == Some(0) {
        return;
    }
    let all = apache.remark.trim_end_matches('.');
    // Apache's text of code 13 names limits that are not the ones which count.
    let is_told_better = all.starts_with("the message is illegal, maybe msg body")
        || !all.is_empty() && ours.remark.starts_with(all);
    if is_told_better && !ours.remark.is_empty() {
        apache.remark.clone_from(&ours.remark);
    }
    if exception.is_match(&apache.remark) && !ours.remark.is_empty() {
        apache.remark = "<explanation>".to_owned();
        ours.remark.clone_from(&apache.remark);
        // Thrown before the header was made.
        ours.fields.retain(|key, _| apache.fields.contains_key(key));
    }
}

/// A text without the names that only one side has.
pub(crate) fn levelled(text: &str, broker: &str, names: &str, mark: &str) -> String {
    static RULES: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let rule = |pattern: &str, by: &'static str| (Regex::new(pattern).unwrap(), by);
        vec![
            rule(r"/?127\.0\.0\.1:\d+", "<address>"),
            rule(r"\b7F000001[0-9A-F]{24}\b", "<id>"),
            rule(r"\b1[789]\d{11}\b", "<time>"),
            rule(r"\d{4}-\d\d-\d\d#\d\d:\d\d:\d\d:\d{3}", "<time text>"),
        ]
    });
    let mut text = text.replace(broker, "<broker>").replace(names, "<name server>");
    text = text.replace(mark, "~");
    for (pattern, by) in rules {
        text = pattern.replace_all(&text, *by).into_owned();
    }
    text
}

/// A body of whatever kind the request's answers have.
pub(crate) fn body_text(request: i32, body: &[u8]) -> String {
    match request {
        _ if body.is_empty() => String::new(),
        // Each side shows the settings that it has.
        code::GET_BROKER_CONFIG | code::GET_NAMESRV_CONFIG => "<settings>".to_owned(),
        _ if matches!(peek(body), Peek::Record(_)) => records_text(body),
        _ => match json::from_slice::<Value>(body) {
            Ok(value) => json_text(request, value),
            Err(error) => format!("{} ({error})", String::from_utf8_lossy(body)),
        },
    }
}

fn json_text(request: i32, mut value: Value) -> String {
    level_json("", &mut value);
    if request == code::GET_BROKER_RUNTIME_INFO {
        let table = value["table"].as_object().cloned().unwrap_or_default();
        // A ratio is also shown for each path, which both sides have their own of.
        // A level has a figure where it has messages.
        let is_common = |key: &&String| !key.contains('/') && !key.starts_with("schedule");
        let keys = table.keys().filter(is_common);
        return keys.cloned().collect::<Vec<_>>().join(" ");
    }
    value.to_string()
}

/// Takes out what no two runs have in common, and sorts sets. Null members are none.
fn level_json(key: &str, value: &mut Value) {
    if matches!(key, "counter" | "timestamp" | "physicOffset" | "consumeTps" | "tps" | "delayTime")
    {
        *value = "<number>".into();
        return;
    }
    match value {
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| level_json("", element));
            elements.sort_by_key(ToString::to_string);
        }
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.iter_mut().for_each(|(key, member)| level_json(key, member));
        }
        _ => {}
    }
}

/// A long text by its length.
fn shown(text: String) -> String {
    if text.len() > 100 { format!("{} bytes", text.len()) } else { text }
}

fn records_text(mut body: &[u8]) -> String {
    let mut lines = Vec::new();
    while !body.is_empty() {
        let Ok(record) = RecordView::parse(body) else {
            lines.push(format!("{} bytes that are no record", body.len()));
            break;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut properties: Vec<String> = record
            .properties
            .iter()
            .map(|(key, value)| format!("{}={}", text(key), shown(text(value))))
            .collect();
        properties.sort();
        let content = shown(text(record.body));
        lines.push(format!(
            "{} queue {} offset {} flag {} sysFlag {} times {} prepared {} intact {} body {content} \
             properties {}",
            record.topic,
            record.queue_id,
            record.queue_offset,
            record.flag,
            record.sys_flag,
            record.reconsume_times,
            record.prepared_transaction_offset,
            record.body_is_intact(),
            properties.join(" ")
        ));
        body = &body[record.bytes.len()..];
    }
    lines.join("\n")
}
