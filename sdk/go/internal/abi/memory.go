// Package abi reads and writes values as they lie in memory by the canonical ABI of the component model.
package abi

// Frame keeps the memory of lowered values until the other side has read it.
type Frame struct{ kept [][]byte }

// Block returns empty memory whose address the other side can get.
func (frame *Frame) Block(size uint32) []byte {
	// Go aligns blocks of a multiple of eight bytes to eight bytes, which is all that values need.
	block := make([]byte, max((size+7)&^7, 8))[:size]
	frame.kept = append(frame.kept, block)
	return block
}

// keep returns the address of bytes, which stay where they are until the frame is gone.
func (frame *Frame) keep(bytes []byte) uint32 {
	if len(bytes) == 0 {
		return 0
	}
	frame.kept = append(frame.kept, bytes)
	return addressOf(bytes)
}

func putNumber(to []byte, number uint64) {
	for at := range to {
		to[at] = byte(number >> (8 * at))
	}
}

func getNumber(from []byte) uint64 {
	var number uint64
	for at, part := range from {
		number |= uint64(part) << (8 * at)
	}
	return number
}
