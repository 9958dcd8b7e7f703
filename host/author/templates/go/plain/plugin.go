//go:build wasm

package main

import "unsafe"

// The function `count` of wit/@{id}.wit. For other types than these see the canonical ABI of the component model, or let
// wit-bindgen-go write this file.
//
//go:wasmexport count
func count(text unsafe.Pointer, length uint32) unsafe.Pointer {
	counted := countText(textOf(text, length))
	// A record of three u32.
	result := newLayout(12)
	result.number(0, counted.Words)
	result.number(4, counted.Lines)
	result.number(8, counted.Characters)
	return result.address()
}

// The host calls it when it has read the result.
//
//go:wasmexport cabi_post_count
func afterCount(unsafe.Pointer) {
	forget()
}
