//! Namespaces: a prefix `namespace%` in topic and group names that keeps tenants apart.
//!
//! Without a namespace every function returns its argument, borrowed.

use std::borrow::Cow;

use broker_protocol::name::{DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic};

const SEPARATOR: char = '%';

/// A namespace, possibly none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespace(Option<Box<str>>);

impl Namespace {
    /// No namespace.
    pub const NONE: Self = Self(None);

    /// The namespace `name`; an empty name is none.
    pub fn new(name: &str) -> Self {
        Self((!name.is_empty()).then(|| name.into()))
    }

    /// The name that the broker knows a topic or group by. Retry and dead-letter prefixes stay in
    /// front; system names and names that are in the namespace already stay as they are.
    pub fn wrap<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let Some(namespace) = self.0.as_deref() else { return Cow::Borrowed(name) };
        let (prefix, rest) = split_prefix(name);
        let has_it = rest.strip_prefix(namespace).is_some_and(|r| r.starts_with(SEPARATOR));
        if name.is_empty() || has_it || is_system_topic(name) || is_system_group(name) {
            return Cow::Borrowed(name);
        }
        Cow::Owned(format!("{prefix}{namespace}{SEPARATOR}{rest}"))
    }

    /// The name that the application knows a topic or group by.
    pub fn unwrap<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let Some(namespace) = self.0.as_deref() else { return Cow::Borrowed(name) };
        let (prefix, rest) = split_prefix(name);
        let Some(inner) =
            rest.strip_prefix(namespace).and_then(|rest| rest.strip_prefix(SEPARATOR))
        else {
            return Cow::Borrowed(name);
        };
        match prefix {
            "" => Cow::Borrowed(inner),
            prefix => Cow::Owned(format!("{prefix}{inner}")),
        }
    }
}

fn split_prefix(name: &str) -> (&str, &str) {
    [RETRY_PREFIX, DLQ_PREFIX]
        .into_iter()
        .find_map(|prefix| Some((prefix, name.strip_prefix(prefix)?)))
        .unwrap_or(("", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespace_borrows() {
        assert!(matches!(Namespace::NONE.wrap("Orders"), Cow::Borrowed("Orders")));
        assert!(matches!(Namespace::new("").unwrap("a%b"), Cow::Borrowed("a%b")));
    }

    #[test]
    fn prefixes_stay_in_front() {
        let namespace = Namespace::new("shop");
        for (plain, wrapped) in [
            ("Orders", "shop%Orders"),
            ("%RETRY%group", "%RETRY%shop%group"),
            ("%DLQ%group", "%DLQ%shop%group"),
        ] {
            assert_eq!(namespace.wrap(plain), wrapped);
            assert_eq!(namespace.wrap(wrapped), wrapped, "wrapped once");
            assert_eq!(namespace.unwrap(wrapped), plain);
        }
    }

    #[test]
    fn system_names_have_no_namespace() {
        let namespace = Namespace::new("shop");
        for name in ["SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "CID_RMQ_SYS_TRANS", ""] {
            assert_eq!(namespace.wrap(name), name);
        }
    }

    #[test]
    fn other_namespaces_are_not_unwrapped() {
        assert_eq!(Namespace::new("shop").unwrap("shopping%Orders"), "shopping%Orders");
        assert_eq!(Namespace::new("shop").unwrap("Orders"), "Orders");
    }
}
