//! Buffers that connections borrow while they have bytes in hand, kept per worker thread, so that
//! an idle connection holds none.

use std::cell::RefCell;

/// Room offered to each read: 64 pipelined requests of 1 KiB arrive in one system call.
pub(super) const READ_SIZE: usize = 128 * 1024;
/// Buffers kept per worker thread; two are in use at a time, input and output.
const KEPT: usize = 4;
/// A buffer that grew beyond this goes back to the allocator.
const KEPT_CAPACITY_MAX: usize = 2 * READ_SIZE;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with at least [`READ_SIZE`] bytes of capacity.
pub(super) fn take() -> Vec<u8> {
    SPARE.with(|spare| spare.borrow_mut().pop()).unwrap_or_else(|| Vec::with_capacity(READ_SIZE))
}

/// Gives a buffer back to this thread.
pub(super) fn give_back(mut buffer: Vec<u8>) {
    let capacity = buffer.capacity();
    if !(READ_SIZE..=KEPT_CAPACITY_MAX).contains(&capacity) {
        return;
    }
    buffer.clear();
    SPARE.with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT {
            spare.push(buffer);
        }
    });
}
