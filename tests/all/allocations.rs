//! The allocator of the tests: it forwards to the system's and counts what a thread holds while a test measures it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct CountingAllocator;

/// Memory of one thread: other tests run in others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadMemory {
    /// The most bytes that it held at once, beside those from before.
    pub peak: i64,
    /// All bytes that it asked for, one after the other: what it did with memory.
    pub asked: i64,
    held: i64,
}

thread_local! {
    static MEASURED: Cell<Option<ThreadMemory>> = const { Cell::new(None) };
}

/// Does some work, and counts what this thread allocates for it.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, ThreadMemory) {
    MEASURED.set(Some(ThreadMemory::default()));
    let done = work();
    (done, MEASURED.take().unwrap_or_default())
}

/// Counts bytes that came, as a number below zero those that went.
fn count(bytes: i64) {
    // A thread that ends may free what it has when its own variables are gone.
    let _ = MEASURED.try_with(|measured| {
        if let Some(mut memory) = measured.get() {
            memory.held += bytes;
            memory.asked += bytes.max(0);
            memory.peak = memory.peak.max(memory.held);
            measured.set(Some(memory));
        }
    });
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: the system's allocator does all of it; what counts allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller promises what is wanted.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size));
        count(-signed(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[test]
fn thread_allocations_are_counted_with_their_peak() {
    let (_, nothing) = measure(|| ());
    assert_eq!(nothing, ThreadMemory::default());
    let (kept, memory) = measure(|| {
        drop(vec![0_u8; 1_000]);
        vec![0_u8; 300]
    });
    assert_eq!((memory.peak, memory.asked, memory.held, kept.len()), (1_000, 1_300, 300, 300));
}
