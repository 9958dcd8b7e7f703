//! A guest's memory allocator.
//!
//! An instance lives for one call, and most calls need little memory. Growing the memory costs more than all of a call's
//! allocations: the host has to open pages, and to release them after the call. So the first allocations come from the
//! space behind the data in an instance's initial memory. That space is hardly ever reused. When it is used up, the
//! standard library's allocator takes over.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    marker::PhantomData,
    ops::Range,
    ptr,
};

/// A part of the initial memory that nothing else uses.
pub trait Room {
    /// Returns the range of its addresses.
    fn addresses() -> Range<usize>;
}

/// An allocator for a single thread.
pub struct Heap<R> {
    /// The next free address in the room. An address before the room's beginning means that nothing is allocated yet.
    next: Cell<usize>,
    room: PhantomData<R>,
}

// SAFETY: a guest has one thread, because a component without threads has no other way to run.
#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
unsafe impl<R> Sync for Heap<R> {}

impl<R: Room> Heap<R> {
    /// Creates an allocator that has allocated nothing yet.
    pub const fn new() -> Heap<R> {
        Heap { next: Cell::new(0), room: PhantomData }
    }

    /// Allocates in the room, at `from` or at the room's beginning, whichever is later. Returns `None` if the layout does
    /// not fit.
    fn take(&self, from: usize, layout: Layout) -> Option<*mut u8> {
        let room = R::addresses();
        let start = from.max(room.start).checked_next_multiple_of(layout.align())?;
        let end = start.checked_add(layout.size()).filter(|end| *end <= room.end)?;
        self.next.set(end);
        Some(ptr::with_exposed_provenance_mut(start))
    }

    /// Returns whether this memory was allocated in the room, and whether it was the last such allocation.
    fn has(&self, memory: *mut u8, layout: Layout) -> (bool, bool) {
        let start = memory.addr();
        (R::addresses().contains(&start), start + layout.size() == self.next.get())
    }
}

// SAFETY: each allocation in the room lies between its addresses, is aligned, and comes after all earlier allocations
// that were not given back; all other allocations are the system's.
unsafe impl<R: Room> GlobalAlloc for Heap<R> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`.
        self.take(self.next.get(), layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match self.has(memory, layout) {
            // SAFETY: the caller upholds the contract of `dealloc`, and this memory came from the system.
            (false, _) => unsafe { System.dealloc(memory, layout) },
            (true, true) => self.next.set(memory.addr()),
            (true, false) => {}
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (is_ours, is_last) = self.has(memory, layout);
        if !is_ours {
            // SAFETY: the caller upholds the contract of `realloc`, and this memory came from the system.
            return unsafe { System.realloc(memory, layout, size) };
        }
        // SAFETY: the caller guarantees that the size is valid for a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_last && let Some(same) = self.take(memory.addr(), wanted) {
            return same;
        }
        if size <= layout.size() {
            return memory;
        }
        // SAFETY: the new allocation is at least as large as the old one and does not overlap it.
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
        /// An address that the linker puts behind stack and data.
        static __heap_base: u8;
        /// An address that the linker puts at the end of an instance's initial memory.
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
            // Tests run in parallel, each on its own thread.
            thread_local! {
                static START: usize = {
                    let layout = Layout::from_size_align(SIZE, 64).unwrap();
                    // SAFETY: the layout has a size.
                    unsafe { System.alloc(layout) }.expose_provenance()
                };
            }
            let start = START.with(|start| *start);
            start..start + SIZE
        }
    }

    /// Returns the offset of an allocation in the room; none if it is the system's.
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
            // SAFETY: the layout has a size, and at most that many bytes are written.
            let memory = unsafe { heap.alloc(layout) };
            assert_eq!(place(memory), expected, "{size}");
            unsafe { memory.write_bytes(all.len() as u8, size) };
            all.push((memory, layout));
        }
        for (at, (memory, layout)) in all.iter().enumerate() {
            // SAFETY: the memory was written, and is given back only once.
            let bytes = unsafe { std::slice::from_raw_parts(*memory, layout.size()) };
            assert!(bytes.iter().all(|byte| usize::from(*byte) == at), "{at} was written over");
        }
        for (memory, layout) in all {
            // SAFETY: this heap allocated the memory.
            unsafe { heap.dealloc(memory, layout) };
        }
    }

    #[test]
    fn bump_heap_resizes_the_last_allocation_in_place() {
        let heap = Heap::<Kilobyte>::new();
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        // SAFETY: each layout is that of its allocation.
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
