//go:build wasm

package main

import "unsafe"

// The host writes arguments and results of its functions here. While it asks for memory, no import may be called; Go's
// allocator calls some when it grows or collects, so this memory never comes from there. Arguments are at most 1 MiB.
var arguments [4 << 20]byte

// How much of it this call has used.
var used uintptr

//go:wasmexport cabi_realloc
func reallocate(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	base := uintptr(unsafe.Pointer(&arguments))
	start := (base + used + uintptr(align) - 1) &^ (uintptr(align) - 1)
	end := start + uintptr(size)
	if end > base+uintptr(len(arguments)) {
		// An address that the host refuses.
		return unsafe.Pointer(^uintptr(0) &^ (uintptr(align) - 1))
	}
	copy(arguments[start-base:], unsafe.Slice((*byte)(old), oldSize))
	used = end - base
	return unsafe.Pointer(start)
}

// textOf returns a text that the host has written.
func textOf(at unsafe.Pointer, length uint32) string {
	return unsafe.String((*byte)(at), length)
}

// kept holds the results until the host has read them, so that they are not collected.
var kept [][]byte

// forget is for after a call: the next one of this instance has the whole memory for its arguments.
func forget() {
	used, kept = 0, nil
}

// layout is memory that the host reads: numbers as WebAssembly has them, and addresses of 32 bits.
type layout []byte

func newLayout(size int) layout {
	// Go aligns larger blocks to eight bytes or more, which is all that values need.
	memory := make(layout, max(size, 8))
	kept = append(kept, memory)
	return memory
}

func (memory layout) number(offset int, value uint32) {
	for i := range 4 {
		memory[offset+i] = byte(value >> (8 * i))
	}
}

// pair writes the address and the length of a list or a text.
func (memory layout) pair(offset int, list []byte, length int) {
	if len(list) > 0 {
		memory.number(offset, uint32(uintptr(unsafe.Pointer(&list[0]))))
	}
	memory.number(offset+4, uint32(length))
}

func (memory layout) text(offset int, text string) {
	bytes := []byte(text)
	kept = append(kept, bytes)
	memory.pair(offset, bytes, len(bytes))
}

func (memory layout) address() unsafe.Pointer {
	return unsafe.Pointer(&memory[0])
}
