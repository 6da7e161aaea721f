//! What a broker is told about itself, its topics and its clients.

use serde::{Deserialize, Serialize};

/// A broker's own settings. RocketMQ's keys and defaults, 4.9.3, unless said otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct BrokerConfig {
    /// Name of the cluster this broker registers under.
    pub broker_cluster_name: String,
    /// Name of the broker group; a master and its slaves share it. Default: the host's name.
    pub broker_name: String,
    /// Number of this broker in its group: 0 is the master.
    pub broker_id: i64,
    /// Address that clients are given, and the host in message ids. Default: this host's own address.
    #[serde(rename = "brokerIP1")]
    pub broker_ip1: String,
    /// Address that slaves of this group dial for replication. Default: `brokerIP1`'s default.
    #[serde(rename = "brokerIP2")]
    pub broker_ip2: String,
    /// Address the ports are opened on.
    pub bind_address: String,
    /// Port for clients. The VIP port is two below it, the replication port one above it.
    pub listen_port: u16,
    /// Port of `/metrics`, `/healthz` and `/readyz`; 0 turns it off. (Tandem's own key.)
    pub http_listen_port: u16,
    /// Name servers, `host:port` separated by semicolons. Names are resolved again at each registration.
    /// Can be changed at run time.
    pub namesrv_addr: String,
    /// What clients may do with every topic here: 4 read, 2 write, 6 both. Can be changed at run time.
    pub broker_permission: i32,
    /// Queues of the template topic `TBW102`, an upper bound for topics that a first send creates.
    pub default_topic_queue_nums: i32,
    /// A send to an unknown topic creates it. Can be changed at run time.
    pub auto_create_topic_enable: bool,
    /// The topic named like the cluster can be written to.
    pub cluster_topic_enable: bool,
    /// The topic named like the broker can be written to.
    pub broker_topic_enable: bool,
    /// A consumer of an unknown group creates the group. Can be changed at run time.
    pub auto_create_subscription_group: bool,
    /// The topic for client traces exists from the start.
    pub trace_topic_enable: bool,
    /// Name of the topic for client traces.
    pub msg_trace_topic_name: String,
    /// Clients are told to send traces. Can be changed at run time.
    pub trace_on: bool,
    /// Region that clients put into their traces.
    pub region_id: String,
    /// How often consumer offsets are written to disk, in milliseconds. Can be changed at run time.
    pub flush_consumer_offset_interval: u64,
    /// How often the progress of the delay levels is written to disk, in milliseconds.
    pub flush_delay_offset_interval: u64,
    /// A pull that finds nothing is held until a message arrives or its time is up. Can be changed at run time.
    pub long_polling_enable: bool,
    /// How long a pull is held when long polling is off, in milliseconds. Can be changed at run time.
    pub short_polling_time_mills: u64,
    /// Consumers are told when members join or leave their group. Can be changed at run time.
    pub notify_consumer_ids_changed_enable: bool,
    /// How often the broker registers at its name servers, in milliseconds (10,000 to 60,000).
    /// Can be changed at run time.
    pub register_name_server_period: u64,
    /// How long one registration may take, in milliseconds. Can be changed at run time.
    pub register_broker_timeout_mills: u64,
    /// Slow readers of old messages are sent to a slave. Can be changed at run time.
    pub slave_read_enable: bool,
    /// Time in milliseconds since 1970 before which sends are refused; 0 accepts at once. Can be changed at run time.
    pub start_accept_send_request_time_stamp: i64,
    /// A link without traffic for this many seconds is closed.
    pub server_channel_max_idle_time_seconds: u64,
    /// Most links open at once; more are closed at accept. (Tandem's own key.)
    pub max_connections: usize,
    /// Most requests that wait for the blocking pool; more are answered SYSTEM_BUSY. (Tandem's own key.)
    pub admin_queue_capacity: usize,
    /// Most pulls held at once; more are answered PULL_NOT_FOUND without being held. (Tandem's own key.)
    pub pull_hold_capacity: usize,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        let address = own_address();
        BrokerConfig {
            broker_cluster_name: "DefaultCluster".to_owned(),
            broker_name: host_name(),
            broker_id: 0,
            broker_ip1: address.clone(),
            broker_ip2: address,
            bind_address: "0.0.0.0".to_owned(),
            listen_port: 10911,
            http_listen_port: 5557,
            namesrv_addr: String::new(),
            broker_permission: 6,
            default_topic_queue_nums: 8,
            auto_create_topic_enable: true,
            cluster_topic_enable: true,
            broker_topic_enable: true,
            auto_create_subscription_group: true,
            trace_topic_enable: false,
            msg_trace_topic_name: "RMQ_SYS_TRACE_TOPIC".to_owned(),
            trace_on: true,
            region_id: "DefaultRegion".to_owned(),
            flush_consumer_offset_interval: 5000,
            flush_delay_offset_interval: 10_000,
            long_polling_enable: true,
            short_polling_time_mills: 1000,
            notify_consumer_ids_changed_enable: true,
            register_name_server_period: 30_000,
            register_broker_timeout_mills: 6000,
            slave_read_enable: false,
            start_accept_send_request_time_stamp: 0,
            server_channel_max_idle_time_seconds: 120,
            max_connections: 20_000,
            admin_queue_capacity: 10_000,
            pull_hold_capacity: 100_000,
        }
    }
}

impl BrokerConfig {
    /// The port of the VIP listener: same requests as the main one but pulls.
    pub fn vip_port(&self) -> u16 {
        self.listen_port.saturating_sub(2)
    }

    /// The port replication will use; it is announced at registration already, as 4.9 does.
    pub fn ha_port(&self) -> u16 {
        self.listen_port.saturating_add(1)
    }

    /// What no later layer has to check again.
    ///
    /// # Errors
    /// A sentence that names the key, the value and what would be right.
    pub fn validate(&self) -> Result<(), String> {
        use broker_protocol::name;
        if self.listen_port < 3 || self.listen_port > u16::MAX - 1 {
            return Err(format!(
                "listenPort={} leaves no room for the VIP port two below and the replication port one above it",
                self.listen_port
            ));
        }
        for (key, value) in
            [("brokerClusterName", &self.broker_cluster_name), ("brokerName", &self.broker_name)]
        {
            if let Err(reason) = name::check_topic(value) {
                return Err(format!(
                    "{key}={value}: {reason}; topics of that name are made at start"
                ));
            }
        }
        if self.broker_id < 0 {
            return Err(format!("brokerId={} is negative; 0 is a master", self.broker_id));
        }
        if self.broker_permission & !6 != 0 {
            return Err(format!(
                "brokerPermission={}: 2 is write, 4 is read, 6 is both",
                self.broker_permission
            ));
        }
        if !(10_000..=60_000).contains(&self.register_name_server_period) {
            return Err(format!(
                "registerNameServerPeriod={} is outside 10000 to 60000 ms",
                self.register_name_server_period
            ));
        }
        if self.default_topic_queue_nums < 1 {
            return Err(format!(
                "defaultTopicQueueNums={} must be at least 1",
                self.default_topic_queue_nums
            ));
        }
        for server in self.name_servers() {
            let port = server.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none() {
                return Err(format!(
                    "namesrvAddr: {server:?} is no host:port; several are separated by ';'"
                ));
            }
        }
        Ok(())
    }

    /// The name servers of `namesrvAddr`, blanks and empty parts left out.
    pub fn name_servers(&self) -> impl Iterator<Item = &str> {
        self.namesrv_addr.split(';').map(str::trim).filter(|server| !server.is_empty())
    }
}

/// The host's name made fit for a broker name: what the name rules refuse becomes `_`.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let fit: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
        .take(100)
        .collect();
    if fit.is_empty() { "DEFAULT_BROKER".to_owned() } else { fit }
}

fn own_address() -> String {
    local_ip_address::local_ip()
        .map_or_else(|_| "127.0.0.1".to_owned(), |address| address.to_string())
}
