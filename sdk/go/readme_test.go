package shelly_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEachProgramOfTheReadmeIsCompiledAndTested(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var compiled strings.Builder
	paths, _ := filepath.Glob("internal/readme/*/*.go")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		compiled.Write(text)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 6 {
		t.Errorf("the page has %d programs", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(compiled.String(), block[1]) {
			t.Errorf("no file of internal/readme has this program of the page:\n%s", block[1])
		}
	}
}
