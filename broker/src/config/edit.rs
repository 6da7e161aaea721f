//! Changing keys in the text of a configuration file, and nothing else in it: comments, order and
//! other keys stay.

use super::load::looks_like_properties;
use super::{parse_properties, write_properties, yaml};

/// The file's text with each of `changes` (key and value) in it, in place of the key's line or at
/// the end.
///
/// # Errors
/// When the text, so changed, would not say just that: a value that goes over several lines, or a
/// key inside other text. A person has to edit such a file.
pub fn edit(text: &str, changes: &[(String, String)]) -> Result<String, String> {
    let properties = text.trim().is_empty() || looks_like_properties(text);
    let mut edited = text.to_owned();
    for (key, value) in changes {
        let line = if properties {
            write_properties([(key.as_str(), value.as_str())])
        } else {
            yaml_line(key, value)?
        };
        edited = with_line(&edited, key, &line);
    }
    let read = |text: &str| -> Result<Vec<(String, String)>, String> {
        let mut pairs = if properties { parse_properties(text) } else { yaml::parse(text)? };
        pairs.sort();
        Ok(pairs)
    };
    let mut wanted = read(text)?;
    wanted.retain(|(key, _)| changes.iter().all(|(changed, _)| changed != key));
    wanted.extend(changes.iter().cloned());
    wanted.sort();
    if read(&edited)? == wanted {
        Ok(edited)
    } else {
        Err("its lines can't be changed one by one".to_owned())
    }
}

fn with_line(text: &str, key: &str, line: &str) -> String {
    let mut edited = String::with_capacity(text.len() + line.len());
    let mut placed = false;
    for old in text.lines() {
        let is_key = old
            .trim_start()
            .strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(['=', ':']));
        if !is_key {
            edited.push_str(old);
            edited.push('\n');
        } else if !placed {
            edited.push_str(line);
            placed = true;
        }
    }
    if !placed {
        edited.push_str(line);
    }
    edited
}

/// Plain words, numbers and truths as they are, all else in quotes, which JSON has as YAML does.
fn yaml_line(key: &str, value: &str) -> Result<String, String> {
    let plain = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric());
    let value = if plain {
        value.to_owned()
    } else {
        serde_json::to_string(value).map_err(|error| error.to_string())?
    };
    Ok(format!("{key}: {value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn a_properties_file_keeps_all_but_the_changed_line() {
        let text = "# ours\nbrokerName = a\nfileReservedTime=48\n\nunknown=1\n";
        let edited = edit(text, &[change("fileReservedTime", "72"), change("traceOn", "false")]);
        let expected = "# ours\nbrokerName = a\nfileReservedTime=72\n\nunknown=1\ntraceOn=false\n";
        assert_eq!(edited.unwrap(), expected);
        assert_eq!(edit("", &[change("traceOn", "false")]).unwrap(), "traceOn=false\n");
    }

    #[test]
    fn a_yaml_file_keeps_all_but_the_changed_line() {
        let text = "# ours\nbrokerName: a\nmessageDelayLevel: \"1s 5s\"\n";
        let edited =
            edit(text, &[change("messageDelayLevel", "1s"), change("deleteWhen", "04;05")]);
        let expected = "# ours\nbrokerName: a\nmessageDelayLevel: 1s\ndeleteWhen: \"04;05\"\n";
        assert_eq!(edited.unwrap(), expected);
    }

    #[test]
    fn a_value_adds_no_key() {
        let edited = edit("a=1\n", &[change("a", "1\nb=2")]).unwrap();
        assert_eq!(parse_properties(&edited), [change("a", "1\nb=2")]);
        let edited = edit("a: 1\n", &[change("a", "1\nb: 2")]).unwrap();
        assert_eq!(yaml::parse(&edited).unwrap(), [change("a", "1\nb: 2")]);
    }

    #[test]
    fn a_file_that_would_say_something_else_is_left_alone() {
        // The second line belongs to the first: replacing one line would leave the other.
        assert!(edit("a=1\\\n  2\nb=3\n", &[change("a", "4")]).is_err());
        assert!(edit("a: >\n  long\n  text\n", &[change("a", "4")]).is_err());
    }
}
