//! An allocator that counts requests while counting is switched on.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
};

/// The system's allocator, counted.
pub struct Counted;

static COUNTS: AtomicBool = AtomicBool::new(false);
static TIMES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The allocations that were requested. A reallocation that grows counts once more with all of its new size: it may be
/// copied.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub times: u64,
    pub bytes: u64,
    /// The most that was held at once beside what was there before.
    pub peak: i64,
}

/// Counts the allocations of all threads while `work` runs.
pub fn count<T>(work: impl FnOnce() -> T) -> (T, Asked) {
    for counter in [&TIMES, &BYTES] {
        counter.store(0, Relaxed);
    }
    for counter in [&HELD, &PEAK] {
        counter.store(0, Relaxed);
    }
    COUNTS.store(true, Relaxed);
    let done = work();
    COUNTS.store(false, Relaxed);
    (done, Asked { times: TIMES.load(Relaxed), bytes: BYTES.load(Relaxed), peak: PEAK.load(Relaxed) })
}

/// Counts from now on. [`held`] tells what is held beside what was there before.
pub fn begin() {
    COUNTS.store(true, Relaxed);
}

/// Counts no more.
pub fn end() {
    COUNTS.store(false, Relaxed);
}

/// Returns the number of allocations.
pub fn times() -> u64 {
    TIMES.load(Relaxed)
}

/// Bytes that are held now.
pub fn held() -> i64 {
    HELD.load(Relaxed)
}

fn came(bytes: usize, more: i64) {
    TIMES.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes as u64, Relaxed);
    PEAK.fetch_max(HELD.fetch_add(more, Relaxed) + more, Relaxed);
}

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            came(layout.size(), layout.size() as i64);
        }
        // SAFETY: the caller promises what is wanted.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            came(layout.size(), layout.size() as i64);
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if COUNTS.load(Relaxed) {
            HELD.fetch_sub(layout.size() as i64, Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            came(size, size as i64 - layout.size() as i64);
        }
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
