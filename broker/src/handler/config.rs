//! Reading and changing the settings of the running broker (26, 25).

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::json;
use broker_store::{Store, StoreConfig};

use super::Refusal;
use crate::config::{
    BrokerConfig, Live, Origin, RUN_TIME_KEYS, Table, TableError, edit, parse_properties,
    write_properties,
};
use crate::net::Answer;

/// What a change asks of others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changed {
    /// What the name servers are told, or who they are, was named: they must hear of it at once.
    pub registration: bool,
    /// What the operator should be told.
    pub remark: Option<String>,
}

/// 26: all settings as properties text, with their version.
pub fn read(live: &Live, store: &Store) -> Result<Answer, Refusal> {
    let table = table(live, store);
    let texts: Vec<(&str, String)> =
        table.settings().iter().map(|setting| (&*setting.key, setting.text())).collect();
    let text = write_properties(texts.iter().map(|(key, value)| (*key, &**value)));
    let version = json::to_vec(&*live.version())?;
    let answer = Answer::ok_body(text.into_bytes());
    Ok(answer.with("version", String::from_utf8_lossy(&version)))
}

fn table(live: &Live, store: &Store) -> Table {
    Table::default().with_values(&**live.broker()).with_values(&*store.config())
}

/// 25: changes settings. All of them are checked before any is changed. Those that count at once
/// do; the others are written into the configuration file for the next start, and refused where
/// there is none. Keys that say where files are never change by this way. `now` is in milliseconds.
pub fn update(
    live: &Live,
    store: &Store,
    now: i64,
    request: &Frame<'_>,
) -> Result<Changed, Refusal> {
    let text = std::str::from_utf8(request.body)
        .map_err(|_| Refusal::error("the settings are not UTF-8 text"))?;
    let changes = parse_properties(text);
    if request.body.is_empty() {
        return Ok(Changed::default());
    }
    if changes.is_empty() {
        return Err(Refusal::error("string2Properties error"));
    }
    let mut version = live.version();
    let plan = plan(live, store, &changes)?;
    if let (None, [_, ..]) = (live.file(), &*plan.at_next_start) {
        return Err(Refusal::error(format!(
            "{} can't be changed while the broker runs, and there is no configuration file to \
             write it into",
            plan.at_next_start.join(", ")
        )));
    }
    for (key, value) in &plan.of_store {
        store.reconfigure(key, value).map_err(Refusal::error)?;
    }
    live.replace(plan.broker);
    version.advance(now);
    tracing::info!(keys = ?changes.iter().map(|(key, _)| key).collect::<Vec<_>>(), "settings changed");
    let mut remarks = Vec::new();
    if !plan.at_next_start.is_empty() {
        remarks.push(format!("counts from the next start: {}", plan.at_next_start.join(", ")));
    }
    if let Err(error) = write_file(live, store, &changes) {
        tracing::error!(error, "changed settings are not in the configuration file");
        if !plan.at_next_start.is_empty() {
            return Err(Refusal::error(error));
        }
        remarks.push(error);
    }
    Ok(Changed {
        registration: changes
            .iter()
            .any(|(key, _)| matches!(&**key, "brokerPermission" | "namesrvAddr")),
        remark: (!remarks.is_empty()).then(|| remarks.join("; ")),
    })
}

/// A change that was checked.
struct Plan {
    /// The broker's settings with what counts at once.
    broker: BrokerConfig,
    /// What the store changes at once.
    of_store: Vec<(String, String)>,
    /// Keys that only count after a start.
    at_next_start: Vec<String>,
}

fn plan(live: &Live, store: &Store, changes: &[(String, String)]) -> Result<Plan, Refusal> {
    let mut all = table(live, store);
    let mut at_once = table(live, store);
    let mut of_store = Vec::new();
    let mut at_next_start = Vec::new();
    for (key, value) in changes {
        refuse_unchangeable(key, value)?;
        let present = all.find(key).map(|setting| setting.text());
        all.set(key, value, Origin::Admin).map_err(Refusal::error)?;
        let present = present.unwrap_or_default();
        if RUN_TIME_KEYS.contains(&&**key) {
            at_once.set(key, value, Origin::Admin).map_err(Refusal::error)?;
        } else if store.reconfigure(key, &present).map_err(Refusal::error)? {
            // Setting the present value has shown that the store takes the key while it runs.
            of_store.push((key.clone(), value.clone()));
        } else if present != *value {
            at_next_start.push(key.clone());
        }
    }
    let whole = |table: &Table| -> Result<BrokerConfig, TableError> { table.section() };
    let broker_after_start = whole(&all).map_err(Refusal::error)?;
    let for_store: StoreConfig = all.section().map_err(Refusal::error)?;
    for_store.check().map_err(Refusal::error)?;
    let broker = whole(&at_once).map_err(Refusal::error)?;
    // A broker may have been started past a rule (on a port that the system chose); a change is
    // refused for what it would break itself.
    if live.broker().validate().is_ok() {
        broker_after_start.validate().map_err(Refusal::error)?;
        broker.validate().map_err(Refusal::error)?;
    }
    Ok(Plan { broker, of_store, at_next_start })
}

/// Who may send this request is not thereby allowed to choose what files the broker writes.
fn refuse_unchangeable(key: &str, value: &str) -> Result<(), Refusal> {
    let lower = key.to_ascii_lowercase();
    if lower.contains("path") || matches!(&*lower, "rocketmqhome" | "configblacklist") {
        let remark = format!("Can not update config in black list: {key}");
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    if value.chars().any(char::is_control) {
        return Err(Refusal::error(format!("{key}: a value can't hold line breaks")));
    }
    Ok(())
}

fn write_file(live: &Live, store: &Store, changes: &[(String, String)]) -> Result<(), String> {
    let Some(path) = live.file() else { return Ok(()) };
    let failed = |error: String| format!("{} is not changed: {error}", path.display());
    let files = store.files();
    let text = files.read(path).map_err(|error| failed(error.to_string()))?;
    let edited = edit(&String::from_utf8_lossy(&text), changes).map_err(failed)?;
    files.write_durably(path, edited.as_bytes()).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests;
