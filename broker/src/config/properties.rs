//! Java properties text, as Apache's `broker.conf` and the bodies of codes 25, 26, 318 and 319 have it.

/// Reads `key=value` lines into pairs, in order.
///
/// Understands what `java.util.Properties` does as far as configuration files use it: `#` and `!` comments,
/// `=`, `:` or blanks as separator, a backslash that joins lines, and the escapes `\n \t \r \f \\ \: \= \uXXXX`.
/// Blanks inside a value are kept.
pub fn parse_properties(text: &str) -> Vec<(String, String)> {
    logical_lines(text)
        .iter()
        .map(|line| split_line(line))
        .filter(|(key, _)| !key.is_empty())
        .collect()
}

/// Writes pairs as `key=value\n` lines that [`parse_properties`] and Java read back unchanged.
///
/// A line break inside a value is escaped, so no value can add a key.
pub fn write_properties<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        text.push_str(key);
        text.push('=');
        for c in value.chars() {
            match c {
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                other => text.push(other),
            }
        }
        text.push('\n');
    }
    text
}

/// Lines without comments and blanks, joined where one ends in an odd number of backslashes.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut pending = String::new();
    for raw in text.lines() {
        let line = raw.trim_start_matches([' ', '\t', '\u{c}']);
        if pending.is_empty() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = line.chars().rev().take_while(|&c| c == '\\').count();
        if backslashes % 2 == 1 {
            pending.push_str(&line[..line.len() - 1]);
            continue;
        }
        pending.push_str(line);
        lines.push(std::mem::take(&mut pending));
    }
    if !pending.is_empty() {
        lines.push(pending);
    }
    lines
}

fn split_line(line: &str) -> (String, String) {
    let mut escaped = false;
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if matches!(c, '=' | ':' | ' ' | '\t' | '\u{c}') {
            end = at;
            break;
        }
    }
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches([' ', '\t', '\u{c}']);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (unescape(key), unescape(rest.trim_start_matches([' ', '\t', '\u{c}'])).trim_end().to_owned())
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let unit = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(unit.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> (String, String) {
        let mut pairs = parse_properties(text);
        assert_eq!(pairs.len(), 1, "{pairs:?}");
        pairs.remove(0)
    }

    #[test]
    fn separators_comments_and_joined_lines_are_those_of_java() {
        assert_eq!(one("# c\n! d\n\n brokerName = a b \n"), ("brokerName".into(), "a b".into()));
        assert_eq!(one("k:v"), ("k".into(), "v".into()));
        assert_eq!(one("k v w"), ("k".into(), "v w".into()));
        assert_eq!(one("k=a\\\n   b"), ("k".into(), "ab".into()));
        assert_eq!(one("k=\\u0041\\tx\\\\"), ("k".into(), "A\tx\\".into()));
        assert_eq!(one("k=a=b"), ("k".into(), "a=b".into()));
        assert_eq!(one("k="), ("k".into(), "".into()));
    }

    #[test]
    fn a_value_with_line_breaks_adds_no_key() {
        let text = write_properties([("a", "1\nb=2\r\\"), ("c", "3 4")]);
        assert_eq!(
            parse_properties(&text),
            [("a".to_owned(), "1\nb=2\r\\".to_owned()), ("c".to_owned(), "3 4".to_owned())]
        );
    }
}
