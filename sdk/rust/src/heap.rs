//! Where a guest's memory comes from.
//!
//! An instance lives for one call, and most calls need little. A memory that grows costs more than all of that: the host
//! has to open pages, and to take them away again after the call. So the first bytes come from what is left behind the data
//! in the memory that an instance begins with, and are hardly ever used twice; when that is used up, the standard
//! library's allocator goes on.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    marker::PhantomData,
    ops::Range,
    ptr,
};

/// The memory that is there from the beginning, and that nothing else uses.
pub trait Room {
    /// Its addresses.
    fn addresses() -> Range<usize>;
}

/// An allocator for one thread.
pub struct Heap<R> {
    /// What comes next in the room; before its beginning nothing is taken yet.
    next: Cell<usize>,
    room: PhantomData<R>,
}

// SAFETY: a guest has one thread: components without threads have no other way to run.
#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
unsafe impl<R> Sync for Heap<R> {}

impl<R: Room> Heap<R> {
    /// Nothing is taken yet.
    pub const fn new() -> Heap<R> {
        Heap { next: Cell::new(0), room: PhantomData }
    }

    /// From here on, or from the room's beginning; none if it does not fit.
    fn take(&self, from: usize, layout: Layout) -> Option<*mut u8> {
        let room = R::addresses();
        let start = from.max(room.start).checked_next_multiple_of(layout.align())?;
        let end = start.checked_add(layout.size()).filter(|end| *end <= room.end)?;
        self.next.set(end);
        Some(ptr::with_exposed_provenance_mut(start))
    }

    /// Whether this was taken from the room, and whether it was taken last.
    fn has(&self, memory: *mut u8, layout: Layout) -> (bool, bool) {
        let start = memory.addr();
        (R::addresses().contains(&start), start + layout.size() == self.next.get())
    }
}

// SAFETY: what is taken from the room lies between its addresses, aligned, and behind all that was taken before and not
// given back; everything else is the system's.
unsafe impl<R: Room> GlobalAlloc for Heap<R> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        self.take(self.next.get(), layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match self.has(memory, layout) {
            // SAFETY: the caller's; it is none of the room's.
            (false, _) => unsafe { System.dealloc(memory, layout) },
            (true, true) => self.next.set(memory.addr()),
            (true, false) => {}
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (is_ours, is_last) = self.has(memory, layout);
        if !is_ours {
            // SAFETY: the caller's; it is none of the room's.
            return unsafe { System.realloc(memory, layout, size) };
        }
        // SAFETY: the caller has checked that the size is one of a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_last && let Some(same) = self.take(memory.addr(), wanted) {
            return same;
        }
        if size <= layout.size() {
            return memory;
        }
        // SAFETY: the new place is as large, and another one.
        unsafe {
            let new = self.alloc(wanted);
            if !new.is_null() {
                ptr::copy_nonoverlapping(memory, new, layout.size());
            }
            new
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod instance {
    use super::{Heap, Range, Room, ptr};

    unsafe extern "C" {
        /// The linker puts it behind stack and data.
        static __heap_base: u8;
        /// The linker puts it at the end of the memory that an instance begins with.
        static __heap_end: u8;
    }

    struct Left;

    impl Room for Left {
        fn addresses() -> Range<usize> {
            ptr::addr_of!(__heap_base).addr()..ptr::addr_of!(__heap_end).addr()
        }
    }

    #[global_allocator]
    static HEAP: Heap<Left> = Heap::new();
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1_024;

    struct Kilobyte;

    impl Room for Kilobyte {
        fn addresses() -> Range<usize> {
            // Tests run side by side, each on a thread of its own.
            thread_local! {
                static START: usize = {
                    let layout = Layout::from_size_align(SIZE, 64).unwrap();
                    // SAFETY: it has a size.
                    unsafe { System.alloc(layout) }.expose_provenance()
                };
            }
            let start = START.with(|start| *start);
            start..start + SIZE
        }
    }

    /// The place of an allocation in the room; none if it is the system's.
    fn place(memory: *mut u8) -> Option<usize> {
        let room = Kilobyte::addresses();
        room.contains(&memory.addr()).then(|| memory.addr() - room.start)
    }

    #[test]
    fn bump_heap_serves_from_its_room_and_then_the_system() {
        let heap = Heap::<Kilobyte>::new();
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let mut all = Vec::new();
        for (size, align, expected) in [
            (1, 1, Some(0)),
            (8, 8, Some(8)),
            (1, 64, Some(64)),
            (2_000, 8, None),
            (900, 4, Some(68)),
            (57, 1, None),
            (56, 1, Some(968)),
            (1, 1, None),
        ] {
            let layout = layout(size, align);
            // SAFETY: it has a size, and so much is written.
            let memory = unsafe { heap.alloc(layout) };
            assert_eq!(place(memory), expected, "{size}");
            unsafe { memory.write_bytes(all.len() as u8, size) };
            all.push((memory, layout));
        }
        for (at, (memory, layout)) in all.iter().enumerate() {
            // SAFETY: it was written, and is given back once.
            let bytes = unsafe { std::slice::from_raw_parts(*memory, layout.size()) };
            assert!(bytes.iter().all(|byte| usize::from(*byte) == at), "{at} was written over");
        }
        for (memory, layout) in all {
            // SAFETY: it is this heap's.
            unsafe { heap.dealloc(memory, layout) };
        }
    }

    #[test]
    fn bump_heap_resizes_the_last_allocation_in_place() {
        let heap = Heap::<Kilobyte>::new();
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        // SAFETY: layouts are those of the allocations.
        unsafe {
            let first = heap.alloc(layout(16));
            first.write_bytes(7, 16);
            let grown = heap.realloc(first, layout(16), 32);
            assert_eq!(place(grown), Some(0), "it is the last");
            let second = heap.alloc(layout(8));
            assert_eq!(place(second), Some(32));
            assert_eq!(heap.realloc(grown, layout(32), 24), grown, "what shrinks stays");
            let moved = heap.realloc(grown, layout(24), 48);
            assert_eq!(place(moved), Some(40));
            assert_eq!(*moved.cast::<[u8; 16]>(), [7; 16]);
            heap.dealloc(moved, layout(48));
            assert_eq!(place(heap.alloc(layout(8))), Some(40), "the last is given back");
            let far = heap.realloc(second, layout(8), 4_000);
            assert_eq!(place(far), None);
            let farther = heap.realloc(far, layout(4_000), 8_000);
            heap.dealloc(farther, layout(8_000));
            let zeros = heap.alloc_zeroed(layout(8));
            assert_eq!(*zeros.cast::<[u8; 8]>(), [0; 8]);
        }
    }
}
