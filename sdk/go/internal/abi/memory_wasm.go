//go:build wasm

package abi

import (
	"runtime"
	"unsafe"
)

func addressOf(bytes []byte) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(bytes))))
}

func bytesAt(address, length uint32) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(uintptr(address))), length)
}

// Where the host writes arguments and the results of its functions. While it asks for memory, no import may be called, and
// Go's allocator calls some when it grows or collects: so this memory never comes from there.
var (
	arena []byte
	// The bytes of it that are in use.
	used uintptr
)

// UseArena gives the host this memory to write to, unless it has more already. Each kind calls it with an array of its own.
func UseArena(memory []byte) {
	if len(memory) > len(arena) {
		arena = memory
	}
}

//go:wasmexport cabi_realloc
func reallocate(old, oldSize, align, size uint32) uint32 {
	base, mask := uintptr(unsafe.Pointer(unsafe.SliceData(arena))), uintptr(align)-1
	start := (base + used + mask) &^ mask
	end := start + uintptr(size)
	if end > base+uintptr(len(arena)) {
		// An address that the host refuses.
		return ^uint32(0) &^ uint32(mask)
	}
	copy(arena[start-base:], bytesAt(old, min(oldSize, size)))
	used = end - base
	return uint32(start)
}

// The results of the running call, until the host has read them.
var results Frame

// Answer lowers the result of an exported function. Returns its address.
func Answer[T any](of Type[T], value T) uint32 {
	block := results.Block(of.Size)
	of.Lower(&results, block, value)
	return addressOf(block)
}

// Forget is for after a call: the next one of this instance has the whole memory.
func Forget() {
	used = 0
	results = Frame{}
}

// TextAt returns the text of a parameter.
func TextAt(address, length uint32) string { return string(bytesAt(address, length)) }

// BytesAt returns the bytes of a parameter.
func BytesAt(address, length uint32) []byte { return append([]byte(nil), bytesAt(address, length)...) }

// ListAt returns the list of a parameter.
func ListAt[T any](of Type[T], address, length uint32) []T { return liftList(of, address, length) }

// ValueAt returns the value at an address: the parameters of a function that has too many of them.
func ValueAt[T any](of Type[T], address uint32) T { return of.Lift(bytesAt(address, of.Size)) }

// Call calls an import, which writes its result to an address. Returns the result.
func Call[T any](of Type[T], imported func(result uint32)) T {
	var frame Frame
	before := used
	block := frame.Block(of.Size)
	imported(addressOf(block))
	value := of.Lift(block)
	// What the host has written is copied by now.
	used = before
	runtime.KeepAlive(&frame)
	return value
}

// Lowered is a value that an import reads.
type Lowered struct {
	frame Frame
	block []byte
}

// Lower lowers a value for an import.
func Lower[T any](of Type[T], value T) *Lowered {
	lowered := &Lowered{}
	lowered.block = lowered.frame.Block(of.Size)
	of.Lower(&lowered.frame, lowered.block, value)
	return lowered
}

// Number returns the number of four bytes at an offset: also the address of a text or list, and four bytes later its length.
func (lowered *Lowered) Number(offset uint32) uint32 {
	return uint32(getNumber(lowered.block[offset : offset+4]))
}

// Byte returns the byte at an offset.
func (lowered *Lowered) Byte(offset uint32) uint32 { return uint32(lowered.block[offset]) }

// Keep is for after the import: until then its memory stays.
func (lowered *Lowered) Keep() { runtime.KeepAlive(lowered) }
