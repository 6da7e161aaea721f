//! Key-value configuration, and the name server's own settings.

use std::sync::Arc;

use broker_protocol::code::response;
use broker_protocol::request::name_server as header;

use super::{decode, json_body};
use crate::config::{NameServerConfig, Origin, Setting, Table, parse_properties, write_properties};
use crate::nameserver::State;
use crate::nameserver::kv_config::KvError;
use crate::net::{Answer, OwnedFrame};

/// Keys that name files: nobody on the network says where this process writes.
const REFUSED: [&str; 4] = ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];
/// Keys that may change while the server runs.
const CHANGEABLE: [&str; 1] = ["orderMessageEnable"];

/// 100: store a value.
pub(in crate::nameserver) fn put_kv(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<header::PutKvConfig<'_>>(&request.frame()) {
        Ok(header) => done(state.kv.put(&header.namespace, &header.key, &header.value)),
        Err(answer) => answer,
    }
}

/// 101: one value.
pub(in crate::nameserver) fn find_kv(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<header::KvKey<'_>>(&request.frame()) {
        Ok(header) => match state.kv.find(&header.namespace, &header.key) {
            Some(value) => Answer::ok().with("value", value),
            None => Answer {
                empty_header: true,
                ..Answer::error(
                    response::QUERY_NOT_FOUND,
                    format!("No config item, Namespace: {} Key: {}", header.namespace, header.key),
                )
            },
        },
        Err(answer) => answer,
    }
}

/// 102: remove a value.
pub(in crate::nameserver) fn delete_kv(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<header::KvKey<'_>>(&request.frame()) {
        Ok(header) => done(state.kv.delete(&header.namespace, &header.key)),
        Err(answer) => answer,
    }
}

/// 219: all values of a namespace.
pub(in crate::nameserver) fn list_kv(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<header::GetKvList<'_>>(&request.frame()) {
        Ok(header) => match state.kv.namespace(&header.namespace) {
            Some(table) => json_body(&table),
            None => Answer::error(
                response::QUERY_NOT_FOUND,
                format!("No config item, Namespace: {}", header.namespace),
            ),
        },
        Err(answer) => answer,
    }
}

fn done(outcome: Result<(), KvError>) -> Answer {
    match outcome {
        Ok(()) => Answer::ok(),
        Err(error) => {
            if let KvError::Write(error) = &error {
                tracing::error!(%error, "key-value configuration not written");
            }
            Answer::error(response::SYSTEM_ERROR, error.to_string())
        }
    }
}

/// 319: the settings.
pub(in crate::nameserver) fn show_config(state: &State, _request: &mut OwnedFrame) -> Answer {
    let table = match table_of(&state.config.load()) {
        Ok(table) => table,
        Err(answer) => return answer,
    };
    let texts: Vec<(String, String)> =
        table.settings().iter().map(|setting| (setting.key.clone(), setting.text())).collect();
    let pairs = texts.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Answer::ok_body(write_properties(pairs).into_bytes())
}

/// 318: change settings until the next start. All or none.
pub(in crate::nameserver) fn update_config(state: &State, request: &mut OwnedFrame) -> Answer {
    let body = request.frame().body.to_vec();
    let Ok(text) = std::str::from_utf8(&body) else {
        return Answer::error(response::SYSTEM_ERROR, "the settings are not UTF-8 text");
    };
    let changes = parse_properties(text);
    if let Some((key, _)) = changes.iter().find(|(key, _)| REFUSED.contains(&key.as_str())) {
        return Answer::error(
            response::NO_PERMISSION,
            format!("Can not update config in black list: {key}"),
        );
    }
    let _changing = state.changing.lock();
    match changed(&state.config.load(), &changes) {
        Ok(config) => {
            state.config.store(Arc::new(config));
            Answer::ok()
        }
        Err(answer) => answer,
    }
}

/// The settings with the changes put in.
fn changed(
    config: &NameServerConfig,
    changes: &[(String, String)],
) -> Result<NameServerConfig, Answer> {
    let refuse = |text: String| Answer::error(response::SYSTEM_ERROR, text);
    let mut table = table_of(config)?;
    for (key, value) in changes {
        // As in Apache's, a key that nobody knows is passed over: mqadmin sends its whole file.
        let Some(setting) = table.find(key) else { continue };
        if setting.text() != *value && !CHANGEABLE.contains(&key.as_str()) {
            return Err(refuse(format!("{key} can't be changed while the name server runs")));
        }
        table.set(key, value, Origin::Admin).map_err(|error| refuse(error.to_string()))?;
    }
    table.section().map_err(|error| refuse(error.to_string()))
}

/// The settings as a table of texts.
fn table_of(config: &NameServerConfig) -> Result<Table, Answer> {
    let refuse = |text: String| Answer::error(response::SYSTEM_ERROR, text);
    let mut table = Table::default().with_section::<NameServerConfig>();
    let values = serde_json::to_value(config).map_err(|error| refuse(error.to_string()))?;
    for (key, value) in values.as_object().into_iter().flatten() {
        let (key, value, origin) = (key.clone(), value.clone(), Origin::Default);
        let setting = Setting { key, value, origin };
        table
            .set(&setting.key, &setting.text(), Origin::Default)
            .map_err(|error| refuse(error.to_string()))?;
    }
    Ok(table)
}
