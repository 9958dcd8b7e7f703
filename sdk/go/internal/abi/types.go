package abi

import (
	"fmt"
	"math"
)

// Layout is the size and the alignment of a type in memory.
type Layout struct{ Size, Align uint32 }

// Type is a type of the contract: how its values are written to and read from memory.
type Type[T any] struct {
	Layout
	// Lower writes a value. `to` has the size of the type, and zeros.
	Lower func(frame *Frame, to []byte, value T)
	// Lift reads a value, and copies all of it.
	Lift func(from []byte) T
}

func alignUp(at, align uint32) uint32 { return (at + align - 1) &^ (align - 1) }

// Number is an integer, an enum or a set of flags, with its size in the contract.
func Number[N ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int32](size uint32) Type[N] {
	return Type[N]{
		Layout{size, size},
		func(_ *Frame, to []byte, value N) { putNumber(to, uint64(value)) },
		func(from []byte) N { return N(getNumber(from)) },
	}
}

// The types without parts.
var (
	U8  = Number[uint8](1)
	U16 = Number[uint16](2)
	U32 = Number[uint32](4)
	U64 = Number[uint64](8)
	S32 = Number[int32](4)

	Bool = Type[bool]{
		Layout{1, 1},
		func(_ *Frame, to []byte, value bool) {
			if value {
				to[0] = 1
			}
		},
		func(from []byte) bool { return from[0] != 0 },
	}
	F32 = Type[float32]{
		Layout{4, 4},
		func(_ *Frame, to []byte, value float32) { putNumber(to, uint64(math.Float32bits(value))) },
		func(from []byte) float32 { return math.Float32frombits(uint32(getNumber(from))) },
	}
	Text = Type[string]{
		Layout{8, 4},
		func(frame *Frame, to []byte, value string) { putList(frame, to, []byte(value), len(value)) },
		func(from []byte) string { return string(bytesAt(addressAndLength(from))) },
	}
	Bytes = Type[[]byte]{
		Layout{8, 4},
		func(frame *Frame, to []byte, value []byte) { putList(frame, to, value, len(value)) },
		func(from []byte) []byte { return append([]byte(nil), bytesAt(addressAndLength(from))...) },
	}
	// Unit is the type of no value.
	Unit = Type[struct{}]{
		Layout{0, 1},
		func(*Frame, []byte, struct{}) {},
		func([]byte) struct{} { return struct{}{} },
	}
)

func putList(frame *Frame, to, bytes []byte, length int) {
	putNumber(to[:4], uint64(frame.keep(bytes)))
	putNumber(to[4:8], uint64(length))
}

func addressAndLength(from []byte) (uint32, uint32) {
	return uint32(getNumber(from[:4])), uint32(getNumber(from[4:8]))
}

// As is a type whose values are those of another under a Go type of its own.
func As[T, U any](of Type[U], lower func(T) U, lift func(U) T) Type[T] {
	return Type[T]{
		of.Layout,
		func(frame *Frame, to []byte, value T) { of.Lower(frame, to, lower(value)) },
		func(from []byte) T { return lift(of.Lift(from)) },
	}
}

// List is a list of values.
func List[T any](of Type[T]) Type[[]T] {
	return Type[[]T]{
		Layout{8, 4},
		func(frame *Frame, to []byte, values []T) {
			var block []byte
			if size := of.Size * uint32(len(values)); size > 0 {
				block = frame.Block(size)
			}
			for at, value := range values {
				of.Lower(frame, block[uint32(at)*of.Size:][:of.Size], value)
			}
			putList(frame, to, block, len(values))
		},
		func(from []byte) []T {
			address, length := addressAndLength(from)
			return liftList(of, address, length)
		},
	}
}

func liftList[T any](of Type[T], address, length uint32) []T {
	values := make([]T, 0, length)
	bytes := bytesAt(address, length*of.Size)
	for at := range length {
		values = append(values, of.Lift(bytes[at*of.Size:][:of.Size]))
	}
	return values
}

// Option is a value or none.
func Option[T any](of Type[T]) Type[*T] {
	offset := alignUp(1, of.Align)
	return Type[*T]{
		Layout{alignUp(offset+of.Size, of.Align), of.Align},
		func(frame *Frame, to []byte, value *T) {
			if value != nil {
				to[0] = 1
				of.Lower(frame, to[offset:][:of.Size], *value)
			}
		},
		func(from []byte) *T {
			if from[0] == 0 {
				return nil
			}
			value := of.Lift(from[offset:][:of.Size])
			return &value
		},
	}
}

// Field is a field of a record.
type Field[R any] struct {
	Layout
	lower func(frame *Frame, to []byte, record *R)
	lift  func(from []byte, record *R)
}

// In is a field of this type, at the place that a function names.
func In[R, T any](of Type[T], place func(*R) *T) Field[R] {
	return Field[R]{
		of.Layout,
		func(frame *Frame, to []byte, record *R) { of.Lower(frame, to, *place(record)) },
		func(from []byte, record *R) { *place(record) = of.Lift(from) },
	}
}

// Record is a record with these fields, in the order of the contract.
func Record[R any](fields ...Field[R]) Type[R] {
	layout := Layout{0, 1}
	offsets := make([]uint32, len(fields))
	for at, field := range fields {
		offsets[at] = alignUp(layout.Size, field.Align)
		layout = Layout{offsets[at] + field.Size, max(layout.Align, field.Align)}
	}
	layout.Size = alignUp(layout.Size, layout.Align)
	return Type[R]{
		layout,
		func(frame *Frame, to []byte, record R) {
			for at, field := range fields {
				field.lower(frame, to[offsets[at]:][:field.Size], &record)
			}
		},
		func(from []byte) R {
			var record R
			for at, field := range fields {
				field.lift(from[offsets[at]:][:field.Size], &record)
			}
			return record
		},
	}
}

// Case is a case of a variant.
type Case[V any] struct {
	Layout
	is    func(value V) bool
	lower func(frame *Frame, to []byte, value V)
	lift  func(from []byte) V
}

// When is a case with a payload: `unwrap` returns false for values of other cases.
func When[V, T any](of Type[T], wrap func(T) V, unwrap func(V) (T, bool)) Case[V] {
	return Case[V]{
		of.Layout,
		func(value V) bool {
			_, is := unwrap(value)
			return is
		},
		func(frame *Frame, to []byte, value V) {
			payload, _ := unwrap(value)
			of.Lower(frame, to, payload)
		},
		func(from []byte) V { return wrap(of.Lift(from)) },
	}
}

// Of is a case whose payload is the Go type itself, of an interface V.
func Of[V, T any](of Type[T]) Case[V] {
	return When(of, func(payload T) V { return any(payload).(V) }, func(value V) (T, bool) {
		payload, is := any(value).(T)
		return payload, is
	})
}

// Variant is one of these cases, in the order of the contract.
func Variant[V any](cases ...Case[V]) Type[V] {
	size, align := uint32(0), uint32(1)
	for _, each := range cases {
		size, align = max(size, each.Size), max(align, each.Align)
	}
	offset := alignUp(1, align)
	return Type[V]{
		Layout{alignUp(offset+size, align), align},
		func(frame *Frame, to []byte, value V) {
			for at, each := range cases {
				if each.is(value) {
					to[0] = byte(at)
					each.lower(frame, to[offset:][:each.Size], value)
					return
				}
			}
			panic(fmt.Sprintf("a value of type %T is none that the contract has here", value))
		},
		func(from []byte) V {
			each := cases[from[0]]
			return each.lift(from[offset:][:each.Size])
		},
	}
}

// Result is a value or an error; Err is nil if it is a value.
type Result[T, E any] struct {
	Value T
	Err   *E
}

// ResultOf is a result of these types.
func ResultOf[T, E any](value Type[T], err Type[E]) Type[Result[T, E]] {
	return Variant(
		When(value,
			func(value T) Result[T, E] { return Result[T, E]{Value: value} },
			func(of Result[T, E]) (T, bool) { return of.Value, of.Err == nil }),
		When(err,
			func(err E) Result[T, E] { return Result[T, E]{Err: &err} },
			func(of Result[T, E]) (E, bool) {
				if of.Err == nil {
					var none E
					return none, false
				}
				return *of.Err, true
			}),
	)
}
