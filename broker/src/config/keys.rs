//! A table of settings by key: what the structs declare, filled from text, taken out typed again.
//!
//! The structs' serde names are the keys and their `Default` the defaults, so there is no second list to keep.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::load::Origin;

/// One key with its present value and where that came from.
#[derive(Debug, Clone)]
pub struct Setting {
    /// RocketMQ's camelCase key.
    pub key: String,
    /// The value; its JSON kind is the kind that the key takes.
    pub value: Value,
    /// Where the value came from.
    pub origin: Origin,
}

impl Setting {
    /// The value as a properties file shows it.
    pub fn text(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }
}

/// Why a key and a text don't fit into the table.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TableError {
    /// No section has such a key.
    #[error("unknown key {key}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownKey {
        /// The key as given.
        key: String,
        /// The known key that is spelt most like it.
        nearest: Option<String>,
    },
    /// The text is not of the key's kind.
    #[error("{key}={text}: {reason}")]
    BadValue {
        /// The key as given.
        key: String,
        /// The text as given.
        text: String,
        /// What would be right.
        reason: String,
    },
}

/// The settings of one program.
#[derive(Debug, Clone, Default)]
pub struct Table {
    settings: Vec<Setting>,
}

impl Table {
    /// Adds every key of a section with its default.
    pub fn with_section<T: Serialize + Default>(self) -> Self {
        self.with_values(&T::default())
    }

    /// Adds every key of a section with the value that it has there.
    pub fn with_values<T: Serialize>(mut self, section: &T) -> Self {
        for (key, value) in fields(section) {
            self.settings.push(Setting { key, value, origin: Origin::Default });
        }
        self.settings.sort_by(|a, b| a.key.cmp(&b.key));
        self
    }

    /// All settings by key.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The setting of a key.
    pub fn find(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// Sets a key from text.
    ///
    /// # Errors
    /// When no section has the key, or the text is not of the key's kind.
    pub fn set(&mut self, key: &str, text: &str, origin: Origin) -> Result<(), TableError> {
        let Some(setting) = self.settings.iter_mut().find(|setting| setting.key == key) else {
            let nearest = nearest(key, self.settings.iter().map(|setting| setting.key.as_str()));
            return Err(TableError::UnknownKey { key: key.to_owned(), nearest });
        };
        setting.value = parse_as(&setting.value, text).map_err(|reason| TableError::BadValue {
            key: key.to_owned(),
            text: text.to_owned(),
            reason,
        })?;
        setting.origin = origin;
        Ok(())
    }

    /// One section with the table's values.
    ///
    /// # Errors
    /// When a value is of the right kind but not one that the section takes (an enum's word, a number's range).
    pub fn section<T: Serialize + DeserializeOwned + Default>(&self) -> Result<T, TableError> {
        let mut section = fields(&T::default());
        for setting in &self.settings {
            if let Some(value) = section.get_mut(&setting.key) {
                *value = setting.value.clone();
            }
        }
        // The whole section is tried last only for its value; to name the key in the error, each changed
        // key is tried alone against the defaults first.
        let defaults = fields(&T::default());
        for (key, value) in &section {
            let mut alone = defaults.clone();
            alone.insert(key.clone(), value.clone());
            if let Err(error) = serde_json::from_value::<T>(Value::Object(alone)) {
                let text =
                    Setting { key: key.clone(), value: value.clone(), origin: Origin::Default }
                        .text();
                return Err(TableError::BadValue {
                    key: key.clone(),
                    text,
                    reason: error.to_string(),
                });
            }
        }
        serde_json::from_value(Value::Object(section)).map_err(|error| TableError::BadValue {
            key: String::new(),
            text: String::new(),
            reason: error.to_string(),
        })
    }
}

fn fields<T: Serialize>(section: &T) -> Map<String, Value> {
    match serde_json::to_value(section) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn parse_as(kind: &Value, text: &str) -> Result<Value, String> {
    let trimmed = text.trim();
    match kind {
        Value::Bool(_) => match trimmed.to_ascii_lowercase().as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err("expected true or false".to_owned()),
        },
        Value::Number(number) if number.is_f64() => trimmed
            .parse::<f64>()
            .ok()
            .and_then(|value| serde_json::Number::from_f64(value).map(Value::Number))
            .ok_or_else(|| "expected a number".to_owned()),
        Value::Number(_) => trimmed
            .parse::<u64>()
            .map(Value::from)
            .or_else(|_| trimmed.parse::<i64>().map(Value::from))
            .map_err(|_| "expected a whole number".to_owned()),
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// The known key most like `key`, if any is like it: at most a third of its letters differ.
fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let lower = key.to_ascii_lowercase();
    known
        .map(|candidate| (edit_distance(&lower, &candidate.to_ascii_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .map(|(_, candidate)| candidate.to_owned())
}

/// Levenshtein's distance, by one row of the table at a time.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = if ca == *cb { diagonal } else { 1 + diagonal.min(row[j]).min(row[j + 1]) };
            diagonal = row[j + 1];
            row[j + 1] = cost;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::BrokerConfig;
    use super::*;

    fn table() -> Table {
        Table::default().with_section::<BrokerConfig>()
    }

    #[test]
    fn text_becomes_the_kind_of_the_default() {
        let mut table = table();
        table.set("listenPort", " 20911 ", Origin::Flag).unwrap();
        table.set("autoCreateTopicEnable", "FALSE", Origin::Flag).unwrap();
        table.set("brokerName", "a", Origin::Flag).unwrap();
        let config: BrokerConfig = table.section().unwrap();
        assert_eq!((config.listen_port, config.auto_create_topic_enable), (20911, false));
        assert_eq!(config.broker_name, "a");
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        let error = table().set("brokrName", "a", Origin::Flag).unwrap_err();
        assert_eq!(error.to_string(), "unknown key brokrName; did you mean brokerName?");
        let error = table().set("quux", "a", Origin::Flag).unwrap_err();
        assert_eq!(error.to_string(), "unknown key quux");
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        let mut table = table();
        assert!(table.set("listenPort", "x", Origin::Flag).is_err());
        table.set("listenPort", "70000", Origin::Flag).unwrap();
        let error = table.section::<BrokerConfig>().unwrap_err().to_string();
        assert!(error.starts_with("listenPort=70000: "), "{error}");
    }
}
