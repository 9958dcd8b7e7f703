// The world `words` in Go. Its types are simple enough to be written down by hand: see the canonical ABI.
package main

import (
	"fmt"
	"strings"
	"structs"
	"unsafe"
)

// The host writes the arguments of a call here. They are at most 1 MiB of JSON; in memory they can be larger: a list of empty
// strings is three bytes of JSON each and eight bytes here.
var arguments [4 << 20]byte

// How much of it the arguments of this call take.
var used uintptr

// Gives the host memory for arguments. While it asks, no import may be called: Go's allocator calls some when it makes memory
// larger or collects, so arguments never come from there. What does not fit gets an address that the host refuses.
//
// It is not called `cabi_realloc`: what joins the two versions of WASI calls that before Go's runtime has begun.
//
//go:wasmexport cabi_export_realloc
func reallocate(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	base := uintptr(unsafe.Pointer(&arguments))
	start := (base + used + uintptr(align) - 1) &^ (uintptr(align) - 1)
	end := start + uintptr(size)
	if end > base+uintptr(len(arguments)) {
		return unsafe.Pointer(^uintptr(0) &^ (uintptr(align) - 1))
	}
	copy(arguments[start-base:], unsafe.Slice((*byte)(old), oldSize))
	used = end - base
	return unsafe.Pointer(start)
}

// As it lies in memory: a pointer there has 32 bits, and Go's own have 64.
type counted struct {
	_       structs.HostLayout
	words   uint32
	longest uint32
	length  uint32
}

var result counted

//go:wasmexport count-words
func countWords(text string) unsafe.Pointer {
	words := strings.Fields(text)
	longest := ""
	for _, word := range words {
		if len(word) > len(longest) {
			longest = word
		}
	}
	fmt.Println(len(words), "words in Go")
	// Part of the arguments, which stay where they are until the host has read the result.
	at := uintptr(unsafe.Pointer(unsafe.StringData(longest)))
	result = counted{words: uint32(len(words)), longest: uint32(at), length: uint32(len(longest))}
	return unsafe.Pointer(&result)
}

// The host calls it when it has read the result: the next call of this instance has the whole memory for its arguments.
//
//go:wasmexport cabi_post_count-words
func forget(unsafe.Pointer) {
	used = 0
}

func main() {}
