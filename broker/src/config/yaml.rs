//! The one door to the YAML library, so that another one can take its place.

/// Reads a YAML mapping of scalars into pairs, in order; lists and mappings as values are refused.
///
/// # Errors
/// A sentence that says what was found where.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let value: serde_yaml::Value = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    let mapping = match value {
        serde_yaml::Value::Null => return Ok(Vec::new()),
        serde_yaml::Value::Mapping(mapping) => mapping,
        _ => return Err("expected lines of `key: value`".to_owned()),
    };
    mapping
        .into_iter()
        .map(|(key, value)| {
            let key = scalar(&key).ok_or("a key is no plain word")?;
            let value = scalar(&value).ok_or_else(|| format!("{key}: the value is no scalar"))?;
            Ok((key, value))
        })
        .collect()
}

fn scalar(value: &serde_yaml::Value) -> Option<String> {
    match value {
        serde_yaml::Value::String(text) => Some(text.clone()),
        serde_yaml::Value::Bool(truth) => Some(truth.to_string()),
        serde_yaml::Value::Number(number) => Some(number.to_string()),
        serde_yaml::Value::Null => Some(String::new()),
        _ => None,
    }
}
