//! The reference page of the configuration, made from the structs' own comments.

use serde::Serialize;

use super::Table;

/// The text of a source file with one configuration struct, and the heading its keys go under.
pub struct Room {
    /// Heading of the section.
    pub title: &'static str,
    /// The Rust source that declares the struct.
    pub source: &'static str,
    /// The struct's defaults.
    pub table: Table,
}

impl Room {
    /// The room of a struct `T` that `source` declares.
    pub fn new<T: Serialize + Default>(title: &'static str, source: &'static str) -> Room {
        Room { title, source, table: Table::default().with_section::<T>() }
    }
}

/// The broker's and the name server's own rooms.
pub fn rooms() -> Vec<Room> {
    vec![
        Room::new::<super::BrokerConfig>("Broker", include_str!("broker.rs")),
        Room::new::<broker_store::StoreConfig>("Store", include_str!("../../store/src/config.rs")),
        Room::new::<super::NameServerConfig>("Name server", include_str!("name_server.rs")),
    ]
}

/// One Markdown page: a table of key, default and meaning for each room.
pub fn page(rooms: &[Room]) -> String {
    let mut page = String::from(
        "# Configuration\n\nMade from the comments in the code; `broker config --reference` prints it, and a test compares. Sources, later wins: defaults, \
         the file of `-c`, the environment (`NAMESRV_ADDR`, `TANDEM_` + key), flags (`-n`, `--set key=value`). `broker config` prints the effective values and where each came from.\n",
    );
    for room in rooms {
        page.push_str(&format!(
            "\n## {}\n\n| key | default | meaning |\n| --- | --- | --- |\n",
            room.title
        ));
        for (key, meaning) in documented_fields(room.source) {
            let Some(setting) = room.table.find(&key) else { continue };
            let default = match setting.text() {
                text if is_of_this_host(&key) || text.contains(&super::load::home()) => {
                    "(see meaning)".to_owned()
                }
                text if text.is_empty() => "(empty)".to_owned(),
                text => format!("`{text}`"),
            };
            page.push_str(&format!("| `{key}` | {default} | {} |\n", meaning.replace('|', "\\|")));
        }
    }
    page
}

/// Defaults that differ from host to host don't belong on a page that is compared.
fn is_of_this_host(key: &str) -> bool {
    matches!(key, "brokerName" | "brokerIP1" | "brokerIP2")
}

/// Each public field with its comment, by its serde name.
fn documented_fields(source: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let (mut comment, mut rename) = (Vec::new(), None);
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            comment.push(text);
        } else if let Some(name) = line.strip_prefix("#[serde(rename = \"") {
            rename = name.split('"').next().map(str::to_owned);
        } else if let Some((name, _)) =
            line.strip_prefix("pub ").and_then(|field| field.split_once(": "))
        {
            fields.push((rename.take().unwrap_or_else(|| camel_case(name)), comment.join(" ")));
            comment.clear();
        } else if !line.starts_with("#[") {
            comment.clear();
            rename = None;
        }
    }
    fields
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut key = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        key.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        key.push_str(letters.as_str());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_the_one_the_code_makes() {
        let committed = include_str!("../../../docs/config.md");
        assert_eq!(
            committed,
            page(&rooms()),
            "docs/config.md is stale: cargo run -p broker -- config --reference > docs/config.md"
        );
    }

    #[test]
    fn every_key_of_every_room_has_a_meaning() {
        for room in rooms() {
            let documented = documented_fields(room.source);
            for setting in room.table.settings() {
                let meaning = documented.iter().find(|(key, _)| *key == setting.key);
                assert!(meaning.is_some_and(|(_, text)| text.len() > 10), "{}", setting.key);
            }
        }
    }
}
