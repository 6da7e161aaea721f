//! What a name server is told.

use serde::{Deserialize, Serialize};

/// A name server's settings. RocketMQ's keys and defaults, 4.9.3, unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NameServerConfig {
    /// Address the port is opened on.
    pub bind_address: String,
    /// Port for clients and brokers.
    pub listen_port: u16,
    /// File that keeps the KV configuration. Default: `$HOME/namesrv/kvConfig.json`.
    pub kv_config_path: String,
    /// Routes carry the order configuration of the KV namespace `ORDER_TOPIC_CONFIG`. Can be changed at run time.
    pub order_message_enable: bool,
    /// A link without traffic for this many seconds is closed.
    pub server_channel_max_idle_time_seconds: u64,
    /// A broker that has not registered for this many milliseconds is taken out of the routes. (Tandem's own key.)
    pub broker_expiry_mills: u64,
    /// Most links open at once; more are closed at accept. (Tandem's own key.)
    pub max_connections: usize,
}

impl Default for NameServerConfig {
    fn default() -> Self {
        NameServerConfig {
            bind_address: "0.0.0.0".to_owned(),
            listen_port: 9876,
            kv_config_path: format!("{}/namesrv/kvConfig.json", super::load::home()),
            order_message_enable: false,
            server_channel_max_idle_time_seconds: 120,
            broker_expiry_mills: 120_000,
            max_connections: 20_000,
        }
    }
}
