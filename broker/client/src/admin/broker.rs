//! A broker as a whole: figures and configuration.

use std::collections::BTreeMap;

use broker_protocol::body::{BrokerStatsData, ConsumerOffsetTable, DelayOffsetTable, KvTable};
use broker_protocol::code::request;
use broker_protocol::header::NoHeader;
use broker_protocol::request::admin::ViewBrokerStatsData;

use super::Admin;
use crate::error::ClientError;

impl Admin<'_> {
    /// Figures of a running broker, by name.
    pub async fn runtime_info(
        &self,
        address: &str,
    ) -> Result<BTreeMap<String, String>, ClientError> {
        let code = request::GET_BROKER_RUNTIME_INFO;
        let reply = self.client.call(address, code, &NoHeader, &[]).await?;
        Ok(reply.json::<KvTable>()?.table)
    }

    /// The configuration of a running broker.
    pub async fn broker_config(
        &self,
        address: &str,
    ) -> Result<BTreeMap<String, String>, ClientError> {
        let reply = self.client.call(address, request::GET_BROKER_CONFIG, &NoHeader, &[]).await?;
        let text = std::str::from_utf8(&reply.body).map_err(|error| reply.malformed(error))?;
        Ok(properties(text))
    }

    /// Changes values of a running broker's configuration.
    pub async fn update_broker_config(
        &self,
        address: &str,
        values: &[(&str, &str)],
    ) -> Result<(), ClientError> {
        let text: String = values.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        let code = request::UPDATE_BROKER_CONFIG;
        self.client.call(address, code, &NoHeader, text.as_bytes()).await?;
        Ok(())
    }

    /// A figure of the broker over the last day, hour and minute: `name` such as
    /// `TOPIC_PUT_NUMS`, `key` such as a topic.
    pub async fn broker_stats(
        &self,
        address: &str,
        name: &str,
        key: &str,
    ) -> Result<BrokerStatsData, ClientError> {
        let header = ViewBrokerStatsData { stats_name: name.into(), stats_key: key.into() };
        let code = request::VIEW_BROKER_STATS_DATA;
        self.client.call(address, code, &header, &[]).await?.json()
    }

    /// The progress of all groups.
    pub async fn all_consumer_offsets(
        &self,
        address: &str,
    ) -> Result<ConsumerOffsetTable, ClientError> {
        let code = request::GET_ALL_CONSUMER_OFFSET;
        self.client.call(address, code, &NoHeader, &[]).await?.json()
    }

    /// The progress of the delay levels.
    pub async fn all_delay_offsets(&self, address: &str) -> Result<DelayOffsetTable, ClientError> {
        let code = request::GET_ALL_DELAY_OFFSET;
        self.client.call(address, code, &NoHeader, &[]).await?.json()
    }
}

/// Lines of `key=value`. Brokers write neither escapes nor continued lines.
fn properties(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_equals_signs_and_be_empty() {
        let read = properties("a=1\n# note\nb=x=y\nc=\nnothing\n");
        let expected = [("a", "1"), ("b", "x=y"), ("c", "")];
        let expected = expected.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(read, BTreeMap::from(expected));
    }
}
