//! The one list of answers that are not Apache's on purpose.

use crate::pair::Difference;

/// Steps that are answered otherwise than Apache answers them.
struct Deliberate {
    /// Why.
    #[expect(dead_code, reason = "for the reader of the table")]
    reason: &'static str,
    /// What our answer shows; another answer is a failure again.
    ours: &'static str,
    /// The steps' names; of a name that ends in `*` the begin.
    steps: &'static [&'static str],
}

const fn meant(
    reason: &'static str,
    ours: &'static str,
    steps: &'static [&'static str],
) -> Deliberate {
    Deliberate { reason, ours, steps }
}

const DELIBERATE: &[Deliberate] = &[
    meant(
        "a request without a field that it needs is refused; Apache goes on with null",
        "is missing]",
        &["*"],
    ),
    meant(
        "the topic of an existing queue needs no default topic",
        "code 0",
        &["send: no default topic"],
    ),
    meant(
        "no topic is made that nothing could be sent to",
        "code 17",
        &["send: no queues wanted", "send: fewer than no queues wanted"],
    ),
    meant(
        "Apache's own clients refuse these topics, so the broker does too",
        "code 16",
        &["send: half topic", "send: offset moved topic", "send: self test topic"],
    ),
    meant("maxMessageSize is a limit of the body alone", "code 0", &["send: body at the limit"]),
    meant(
        "a batch that is no batch is illegal (13), as is a delayed or retried one",
        "code 13",
        &[
            "batch: no message",
            "batch: torn",
            "batch: with a delayed message",
            "batch: to a retry topic",
            "send with delay level \"soon\"",
        ],
    ),
    meant(
        "a retry or pull of a group whose name could make no retry topic is refused",
        "code 26",
        &[
            "send to the retry topic of nobody",
            "send to a retry topic that is too long",
            "pull: group with odd letters",
            "pull: empty group",
        ],
    ),
    meant(
        "such a group can't be made by an operator either",
        "The specified group",
        &["group: a group with odd letters", "group: an empty name"],
    ),
    meant("a dead letter has no delay: it is there at once", "", &["dead letters of send backs"]),
    meant(
        "an offset above the end goes to the end, not back to 0",
        "\"nextBeginOffset\": \"5\"",
        &["pull: one above the end", "pull: far above the end"],
    ),
    meant(
        "a senseless number of messages is taken for the nearest sensible one",
        "code 0",
        &["pull: fewer than no message wanted", "pull: more than any"],
    ),
    meant(
        "SQL filters are not built yet and refused as what can't be parsed",
        "code 23",
        &["pull: SQL", "pull: an unknown kind of expression", "check a SQL subscription"],
    ),
    meant(
        "progress on a topic that is gone would be wrong for the next one of that name",
        "code 17",
        &["commit on an unknown topic"],
    ),
    meant(
        "no progress is below 0 or on a queue below 0",
        "",
        &[
            "commit below 0",
            "commit on a negative queue",
            "progress on a negative queue, committed",
            "who reads an unknown topic",
        ],
    ),
    meant(
        "the first message stored at a time or later, and the end after the last one",
        "",
        &["offset by time *", "offset by time: the far future", "reset to the far future"],
    ),
    meant(
        "a key finds the messages that bear it, not those whose key has the same hash",
        "body U3",
        &["query by key: a key whose hash another has"],
    ),
    meant(
        "a queue that does not exist is told and not made",
        "code 1",
        &["units of an unknown topic", "units of a queue beyond"],
    ),
    meant(
        "null is read as empty; a type hint is a field like any other",
        "code 0",
        &[
            "heartbeat: null*",
            "heartbeat: a type hint",
            "heartbeat: producers",
            "connections after heartbeat *",
            "members after heartbeat *",
            "notices of heartbeats",
            "lock: null queues",
            "lock: a queue of nulls",
            "unlock: an empty object",
            "unlock: null queues",
        ],
    ),
    meant(
        "a filter of groups shows, and does not delete progress as Apache's does",
        "",
        &["correction without filters", "who has read the topic"],
    ),
    meant(
        "a group need not have progress on each queue to be reset; offline is told as such",
        "",
        &["reset of an unknown group", "reset without progress", "notices of resets"],
    ),
    meant(
        "an ordered topic is made ordered at once",
        "",
        &["stats of ordered topics", "stats without a word of order"],
    ),
    meant(
        "queues that may still be read are shown, though nothing more is written to them",
        "\\\"queueId\\\":1",
        &["queues of a made topic"],
    ),
    meant("figures of the 5.x tools are there as well", "getTransferredTps", &["figures*"]),
    meant(
        "a property that comes twice is stored as it came; who reads it takes the last",
        "a=b a=c",
        &["what sends with properties have stored"],
    ),
    meant(
        "a queue that is only read still takes no new message",
        "is illegal",
        &["send to a queue that is only read", "send to a shrunk queue"],
    ),
    meant("so it holds what it held", "\"maxOffset\": \"1\"", &["pull a queue that is only read"]),
    meant(
        "a body of another shape is refused, not taken for an empty one",
        "is no JSON that this request takes",
        &["group: an array for a name", "group: an array"],
    ),
    meant(
        "the topics whose permission changed are counted",
        "TopicCount\": \"1\"",
        &["wipe", "add"],
    ),
    meant("a refused send makes no topic", "code 17", &["retry topic of a group without settings"]),
    meant(
        "whole tables hold what other steps have decided",
        "",
        &["all topics", "all groups", "all progress", "all delays", "stats of all groups"],
    ),
    meant("a setting that does not exist is told", "unknown key", &["change an unknown setting"]),
    meant(
        "what may not be written, broker or topic, takes no send of any kind",
        "code 16",
        &["send where nothing may be written", "send: topic that may not be written"],
    ),
    meant(
        "write permission comes back where it was, and not where it never was",
        "\"perm\":4",
        &["route that never had write permission"],
    ),
    meant(
        "nobody on the network says where files are",
        "code 16",
        &["change a name server's paths"],
    ),
    meant(
        "an unknown code is answered; Apache's name server stays silent",
        "code 3",
        &["code * at a name server"],
    ),
];

/// What must not be so: differences nobody decided on, and decisions that nothing shows any more.
pub(crate) fn judge(differences: &[Difference]) -> Vec<String> {
    let is_meant = |difference: &Difference, entry: &Deliberate, step: &str| {
        names(step, &difference.step) && difference.ours.to_string().contains(entry.ours)
    };
    let is_decided = |difference: &&Difference| {
        DELIBERATE
            .iter()
            .any(|entry| entry.steps.iter().any(|step| is_meant(difference, entry, step)))
    };
    let undecided = differences.iter().filter(|difference| !is_decided(difference));
    let undecided =
        undecided.map(|d| format!("{}\n  apache: {}\n  ours:   {}", d.step, d.apache, d.ours));
    let decisions = DELIBERATE.iter().flat_map(|entry| entry.steps.iter().map(move |s| (entry, s)));
    let unused = decisions
        .filter(|(entry, step)| !differences.iter().any(|d| is_meant(d, entry, step)))
        .map(|(_, step)| format!("{step}: nothing differs as the table says"));
    undecided.chain(unused).collect()
}

/// Whether a step's name is this one, of which a `*` stands for anything.
fn names(pattern: &str, step: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == step,
        Some((begin, end)) => step.starts_with(begin) && step.ends_with(end),
    }
}
