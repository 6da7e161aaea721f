//! How long a broker takes from being spawned on an empty store to answering its first send.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use broker_client::{Client, ClientOptions, ConnectionOptions, Destination, Message, Producer};
use system_tests::cluster::{Broker, Maker, NameServer};

use crate::side::options;

/// Name of this row, for `--only`.
pub(crate) const NAME: &str = "start";
const GIVE_UP: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(1);

/// Milliseconds of each of `count` starts.
pub(crate) fn measure(maker: Maker, count: usize) -> Result<Vec<f64>> {
    let folder = tempfile::Builder::new().prefix("tandem-start-").tempdir()?;
    let name_server = NameServer::start(maker, &folder.path().join("namesrv"))?;
    let home = folder.path().join("broker");
    let mut broker = Broker::start(maker, options(), &home, &name_server.address())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut taken = Vec::new();
    for _ in 0..count {
        broker.stop()?;
        std::fs::remove_dir_all(broker.store_folder()).context("empty the store")?;
        let address = broker.address();
        let begin = Instant::now();
        broker.spawn()?;
        runtime.block_on(first_send(&address, begin))?;
        taken.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(taken)
}

/// Tries until a send is answered.
async fn first_send(address: &str, begin: Instant) -> Result<()> {
    let connection = ConnectionOptions {
        connect_within: Duration::from_millis(200),
        ..ConnectionOptions::default()
    };
    let client = Client::new(ClientOptions { connection, ..ClientOptions::default() });
    let producer = Producer::new(&client, "cost_start");
    let to = Destination::new(address, 0);
    let message = Message::new("CostStart", vec![b'x'; 1024]).tag("tag").keys("key");
    loop {
        match producer.send_to(&to, &message).await {
            Ok(_) => return Ok(()),
            Err(error) if begin.elapsed() > GIVE_UP => bail!("no send succeeded: {error}"),
            Err(_not_yet) => tokio::time::sleep(POLL).await,
        }
    }
}
