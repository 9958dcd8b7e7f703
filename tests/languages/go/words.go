// The world `words` in Go. Its types are simple enough to be written down by hand: see the canonical ABI.
package main

import (
	"fmt"
	"strings"
	"structs"
	"unsafe"
)

// What the host hands over lies here until the call is over: so that it is not collected.
var held [][]byte

// Under this name it is for what the host hands over alone, and not for what joins the two versions of WASI, which asks for
// memory before Go's runtime has begun.
//
//go:wasmexport cabi_export_realloc
func realloc(old unsafe.Pointer, oldSize, align, size uint32) unsafe.Pointer {
	bytes := make([]byte, size+align)
	held = append(held, bytes)
	at := unsafe.Pointer(unsafe.SliceData(bytes))
	return unsafe.Add(at, -uintptr(at)&uintptr(align-1))
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
	at := uintptr(unsafe.Pointer(unsafe.StringData(longest)))
	result = counted{words: uint32(len(words)), longest: uint32(at), length: uint32(len(longest))}
	return unsafe.Pointer(&result)
}

func main() {}
