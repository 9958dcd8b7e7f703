package shellytest

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	shelly "shelly-plugin"
)

const (
	mostKey    = 512
	mostValue  = 1 << 20
	mostListed = 1_000
)

// store keeps the revisions of the values that a Host has stored.
type store struct {
	host      *Host
	revisions map[string]uint64
	newest    uint64
}

func checkKey(key string) error {
	if len(key) < 1 || len(key) > mostKey {
		return shelly.Invalid("a key has 1 to %d bytes, this one %d", mostKey, len(key))
	}
	return nil
}

func (kv *store) revision(key string) *uint64 {
	if _, has := kv.host.Stored[key]; !has {
		return nil
	}
	revision := kv.revisions[key]
	return &revision
}

func (kv *store) set(key string, value *[]byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if value == nil {
		delete(kv.host.Stored, key)
		return nil
	}
	if len(*value) > mostValue {
		return shelly.TooLarge("the value of `%s` has %d bytes, the bound is %d", key, len(*value), mostValue)
	}
	kv.newest++
	kv.revisions[key] = kv.newest
	kv.host.Stored[key] = slices.Clone(*value)
	return nil
}

func (kv *store) compareAndSwap(key string, expected *uint64, value *[]byte) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	current := kv.revision(key)
	isEqual := current == nil && expected == nil || current != nil && expected != nil && *current == *expected
	if !isEqual {
		return false, nil
	}
	return true, kv.set(key, value)
}

func (kv *store) keys(prefix string, after *string) []string {
	found := []string{}
	for key := range kv.host.Stored {
		if strings.HasPrefix(key, prefix) && (after == nil || key > *after) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found[:min(len(found), mostListed)]
}

// Files are the files that a plugin finds, by their absolute paths, and those that it has written.
type Files map[string][]byte

// tree returns the files as a file system, whose paths have no slash at their beginning.
func (files Files) tree() fstest.MapFS {
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[below(name)] = &fstest.MapFile{Data: content}
	}
	return tree
}

func below(name string) string {
	if clean := strings.TrimPrefix(path.Clean("/"+name), "/"); clean != "" {
		return clean
	}
	return "."
}

func (files Files) read(name string) ([]byte, error) { return files.tree().ReadFile(below(name)) }

func (files Files) list(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(files.tree(), below(name))
}

func (files Files) write(name string, content []byte) error {
	clean := path.Clean("/" + name)
	for there := range files {
		if strings.HasPrefix(path.Clean("/"+there), strings.TrimSuffix(clean, "/")+"/") {
			return shelly.Invalid("`%s` is a folder", name)
		}
	}
	// The key may be written in another way.
	for there := range files {
		if path.Clean("/"+there) == clean {
			delete(files, there)
		}
	}
	files[clean] = slices.Clone(content)
	return nil
}
