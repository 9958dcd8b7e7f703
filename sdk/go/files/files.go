// Package files reads and writes the files that are granted. plugin.toml asks for `files = "read"` or `files = "write"` under
// [wants]. In a component the functions of the package os do the same; those of this package work in unit tests, too.
package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"

	shelly "shelly-plugin"
	"shelly-plugin/internal/calls"
)

// Read returns the content of a file.
func Read(path string) ([]byte, error) {
	content, err := calls.FileRead(path)
	return content, errorOf(path, err)
}

// Write replaces the content of a file, or creates it.
func Write(path string, content []byte) error { return errorOf(path, calls.FileWrite(path, content)) }

// List returns the entries of a folder, in the order of their names.
func List(path string) ([]fs.DirEntry, error) {
	entries, err := calls.FileList(path)
	return entries, errorOf(path, err)
}

// Rewrite proposes new content for a file whose content is known. A person sees the difference; if the file has other content
// by then, nothing is changed. The plugin needs no writable folder for it.
func Rewrite(path string, old, content []byte) shelly.FileChange {
	sum := sha256.Sum256(old)
	return shelly.FileChange{Path: path, Expected: shelly.Some(hex.EncodeToString(sum[:])), Act: shelly.WriteFile(content)}
}

// Create proposes a new file.
func Create(path string, content []byte) shelly.FileChange {
	return shelly.FileChange{Path: path, Act: shelly.WriteFile(content)}
}

func errorOf(path string, err error) error {
	var failure *shelly.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return shelly.NotFound("there is no file `%s`", path)
	case errors.Is(err, fs.ErrPermission):
		return shelly.Denied("the file `%s` is not granted", path)
	default:
		return shelly.Other("`%s`: %v", path, err)
	}
}
