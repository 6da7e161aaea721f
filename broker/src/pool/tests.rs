//! The pool alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use super::*;

/// Occupies one thread of the pool until the returned sender is dropped.
fn occupy(pool: &Pool) -> std::sync::mpsc::SyncSender<()> {
    let (release, wait) = sync_channel::<()>(0);
    let (started, start) = sync_channel(1);
    pool.run(move || {
        started.send(()).unwrap();
        let _released = wait.recv();
    })
    .unwrap();
    start.recv().unwrap();
    release
}

#[test]
fn every_job_runs_once() {
    let pool = Pool::new("test", 3, 1000);
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..500 {
        let done = Arc::clone(&done);
        pool.run(move || {
            done.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    }
    assert!(pool.stop(Duration::from_secs(20)));
    assert_eq!(done.load(Ordering::SeqCst), 500);
}

#[test]
fn a_full_queue_refuses_at_once() {
    let pool = Pool::new("test", 1, 2);
    let release = occupy(&pool);
    assert_eq!(pool.run(|| {}), Ok(()));
    assert_eq!(pool.run(|| {}), Ok(()));
    assert_eq!(pool.run(|| {}), Err(PoolFull));
    assert_eq!((pool.queued(), pool.capacity()), (2, 2));
    drop(release);
    assert!(pool.stop(Duration::from_secs(20)));
    assert_eq!(pool.queued(), 0);
}

#[test]
fn large_requests_fill_the_queue_by_their_bytes() {
    let pool = Pool::new("test", 1, 10);
    let release = occupy(&pool);
    let half = WAITING_BYTES_MAX / 2;
    assert_eq!(pool.run_sized(half, Box::new(|| {})), Ok(()));
    assert_eq!(pool.run_sized(half + 1, Box::new(|| {})), Err(PoolFull));
    assert_eq!(pool.run_sized(half, Box::new(|| {})), Ok(()));
    assert_eq!(pool.run_sized(1, Box::new(|| {})), Err(PoolFull));
    drop(release);
    assert!(pool.stop(Duration::from_secs(20)));
    assert_eq!(pool.shared.state.lock().waiting_bytes, 0);
}

#[test]
fn a_job_does_not_wait_behind_a_blocked_one() {
    let pool = Pool::new("test", 2, 10);
    let _blocked = occupy(&pool);
    let (done, wait) = sync_channel(1);
    pool.run(move || done.send(()).unwrap()).unwrap();
    wait.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn a_job_that_panics_costs_no_other_job() {
    let pool = Pool::new("test", 1, 10);
    let (done, wait) = sync_channel(1);
    pool.run(|| panic!("on purpose")).unwrap();
    pool.run(move || done.send(()).unwrap()).unwrap();
    wait.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(pool.stop(Duration::from_secs(20)));
}

#[test]
fn a_stopped_pool_takes_nothing_and_does_not_wait_for_ever() {
    let pool = Pool::new("test", 1, 10);
    let release = occupy(&pool);
    assert!(!pool.stop(Duration::from_millis(1)));
    assert_eq!(pool.run(|| {}), Err(PoolFull));
    drop(release);
    assert!(pool.stop(Duration::from_secs(20)));
}
