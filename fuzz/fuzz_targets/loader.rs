//! `checks::loader` under libFuzzer, with its allocations counted.
#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

use std::alloc::{GlobalAlloc, Layout, System};

use checks::memory::{given, taken};

/// The system's allocator, counted.
struct Counting;

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
        given(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::loader::loader(bytes));
