//! Prints what the store costs: opening an empty one, and appending 1 KiB records, in nanoseconds
//! each. `cargo run --release -p broker-store --example append_cost -- FOLDER [RECORDS] [THREADS]`;
//! the folder must be empty or missing.

#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use broker_store::{NewRecord, Store, StoreConfig, env};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("name a folder")?);
    let records: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let threads: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;

    let started = Instant::now();
    let config = StoreConfig { store_path_root_dir: folder, ..StoreConfig::default() };
    let store = Store::open(config, env::os())?;
    println!("open: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let started = Instant::now();
    append(&store, 1)?;
    println!("first append: {} ns", started.elapsed().as_nanos());

    let started = Instant::now();
    let each = records / threads;
    let done: Result<(), String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| append(&store, each).map_err(|error| error.to_string())))
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "panicked")?)
    });
    done?;
    let took = started.elapsed().as_secs_f64();
    println!("append: {:.0} ns each, {threads} threads", took * 1e9 / (each * threads) as f64);
    let started = Instant::now();
    while store.dispatched() < store.max_offset() {
        std::thread::yield_now();
    }
    println!("dispatched {:.1} ms later", started.elapsed().as_secs_f64() * 1e3);
    println!("{:?}", store.status());
    store.shutdown();
    Ok(())
}

fn append(store: &Store, records: u64) -> Result<(), broker_store::AppendError> {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    let queues: Vec<_> = (0..4).map(|id| store.queue("Topic", id)).collect();
    let body = [7; 1024];
    for index in 0..records {
        let record = NewRecord {
            queue: &queues[index as usize % queues.len()],
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &body,
            properties:
                b"UNIQ_KEY\x017F000001000000000000000000000001\x02KEYS\x01key\x02TAGS\x01tag",
        };
        store.append(&record)?;
    }
    Ok(())
}
