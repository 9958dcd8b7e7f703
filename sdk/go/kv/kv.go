// Package kv is a key-value store for bytes that outlast a call. wit/plugin.wit imports `kv`, and plugin.toml asks for
// `kv = true` under [wants]. The config decides whether the store belongs to the run, the session, the agent or the plugin.
package kv

import (
	"encoding/json"

	shelly "shelly-plugin"
	"shelly-plugin/internal/calls"
)

// Entry is a value and its revision, which changes with every write of the key.
type Entry = calls.KVEntry

// Get reads a value; nil if there is none. Keys have 1 to 512 bytes.
func Get(key string) (*Entry, error) { return calls.KVGet(key) }

// Set writes a value, whatever the key holds. Bounds: 1 MiB a value, 64 MiB and 65,536 keys a store.
func Set(key string, value []byte) error { return calls.KVSet(key, &value) }

// Remove removes a key if it exists.
func Remove(key string) error { return calls.KVSet(key, nil) }

// CompareAndSwap writes a value, or removes it if it is nil, if the key still has this revision; with a nil revision, if it
// does not exist. Otherwise it changes nothing and returns false.
func CompareAndSwap(key string, expected *uint64, value []byte) (bool, error) {
	if value == nil {
		return calls.KVCompareAndSwap(key, expected, nil)
	}
	return calls.KVCompareAndSwap(key, expected, &value)
}

// Keys returns the keys that start with a prefix and come after another key, in byte order; from the first one if `after` is
// empty. Bound: 1,000 a call.
func Keys(prefix, after string) ([]string, error) {
	if after == "" {
		return calls.KVKeys(prefix, nil)
	}
	return calls.KVKeys(prefix, &after)
}

// Read reads a value that Put or Update has written; the default if there is none.
func Read[T any](key string, fallback T) (T, error) {
	entry, err := Get(key)
	if err != nil || entry == nil {
		return fallback, err
	}
	return parse[T](key, entry.Value)
}

// Put writes a value as JSON.
func Put[T any](key string, value T) error {
	text, err := write(key, value)
	if err != nil {
		return err
	}
	return Set(key, text)
}

// Update changes a value that is stored as JSON, and returns the new one. `change` gets the default if there is none; it is
// called again if another call has written the key meanwhile, so it must have no side effects.
func Update[T any](key string, fallback T, change func(T) T) (T, error) {
	for {
		entry, err := Get(key)
		if err != nil {
			return fallback, err
		}
		value, revision := fallback, (*uint64)(nil)
		if entry != nil {
			revision = &entry.Revision
			if value, err = parse[T](key, entry.Value); err != nil {
				return fallback, err
			}
		}
		value = change(value)
		text, err := write(key, value)
		if err != nil {
			return fallback, err
		}
		if isWritten, err := CompareAndSwap(key, revision, text); err != nil || isWritten {
			return value, err
		}
	}
}

func parse[T any](key string, text []byte) (T, error) {
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		return value, shelly.Other("the value of `%s` is not the expected JSON: %v", key, err)
	}
	return value, nil
}

func write[T any](key string, value T) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, shelly.Other("the value of `%s` cannot be written as JSON: %v", key, err)
	}
	return text, nil
}
