//go:build !wasm

package abi

import "fmt"

// Outside of a component an address is a number for a block, so that unit tests can read what was written.
type nativeBlock struct {
	address uint32
	bytes   []byte
}

var nativeBlocks []nativeBlock

func addressOf(bytes []byte) uint32 {
	next := uint32(8)
	if count := len(nativeBlocks); count > 0 {
		last := nativeBlocks[count-1]
		next = (last.address + uint32(len(last.bytes)) + 15) &^ 7
	}
	nativeBlocks = append(nativeBlocks, nativeBlock{next, bytes})
	return next
}

func bytesAt(address, length uint32) []byte {
	if length == 0 {
		return nil
	}
	for _, block := range nativeBlocks {
		end := block.address + uint32(len(block.bytes))
		if address >= block.address && address+length <= end {
			return block.bytes[address-block.address:][:length]
		}
	}
	panic(fmt.Sprintf("nothing was written at %d", address))
}
