package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

var someone = ownerOf{Name: "a", Stack: "dev", Project: "shop"}

func ledgerOf(t *testing.T, c cloud) (entries []entry) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		t.Fatal("the last line of the ledger is not whole")
	}
	for line := range bytes.Lines(text) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		entries = append(entries, e)
	}
	return entries
}

func TestLedgerLinesAreWholeUnderConcurrentAppends(t *testing.T) {
	const writers, lines = 16, 25
	c := cloud{filepath.Join(t.TempDir(), "made", "on-demand")}
	// Longer than a page, so that a torn write has room to show.
	reason := strings.Repeat("long ", 2000)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for l := range lines {
				if err := c.note("create", fmt.Sprintf("%d-%d", w, l), someone, reason); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	seen := map[string]bool{}
	for _, e := range ledgerOf(t, c) {
		if e.Reason != reason || e.ownerOf != someone || e.Op != "create" || e.Time.IsZero() {
			t.Errorf("the line of %s is not what was written", e.ID)
		}
		seen[e.ID] = true
	}
	if len(seen) != writers*lines {
		t.Errorf("%d different lines, want %d", len(seen), writers*lines)
	}
}

func TestThingRoundTrip(t *testing.T) {
	c := cloud{t.TempDir()}
	for _, id := range []string{"plain-0a1b2c3d", "with/slash-0a1b2c3d", "../up-0a1b2c3d"} {
		want := record{
			ID: id, ownerOf: someone, Generation: 3,
			Properties: map[string]any{"value": "v", "createSeconds": 1.5, "failCreateOnce": true},
		}
		if err := c.put(want); err != nil {
			t.Fatal(err)
		}
		got, err := c.get(id)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	files, err := os.ReadDir(filepath.Join(c.dir, "things"))
	if err != nil || len(files) != 3 {
		t.Errorf("%d files in things (%v), want 3 and no draft left", len(files), err)
	}
}

func TestGoneIsToldFromBroken(t *testing.T) {
	c := cloud{t.TempDir()}
	if _, err := c.get("x"); !errors.Is(err, errGone) {
		t.Errorf("get before anything was made: %v", err)
	}
	if err := c.remove("x"); !errors.Is(err, errGone) {
		t.Errorf("remove before anything was made: %v", err)
	}
	if err := c.put(record{ID: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.thingPath("x"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.get("x"); err == nil || errors.Is(err, errGone) {
		t.Errorf("get of a broken file: %v", err)
	}
	if err := c.remove("x"); err != nil {
		t.Errorf("remove: %v", err)
	}
	if _, err := c.get("x"); !errors.Is(err, errGone) {
		t.Errorf("get after remove: %v", err)
	}
}

func TestSealsOpenOnlyToTheValueBehindThem(t *testing.T) {
	clear := map[string]any{"value": "v", "secret": "hunter2", "noise": 7.0}
	stored := sealed(clear, map[string]bool{"secret": true, "noise": true})
	// echo -n hunter2 | sha256sum
	const sum = "sha256:f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7"
	if stored["secret"] != sum || stored["value"] != "v" {
		t.Errorf("stored %v", stored)
	}
	if got := unsealed(stored, clear); !reflect.DeepEqual(got, clear) {
		t.Errorf("unsealed %v, want %v", got, clear)
	}
	if got := unsealed(stored, map[string]any{"secret": "other"}); got["secret"] != sum {
		t.Errorf("another secret must not open the seal: %v", got)
	}
}

func TestFirstTimeIsOncePerResource(t *testing.T) {
	c := cloud{t.TempDir()}
	other := ownerOf{Name: "b", Stack: "dev", Project: "shop"}
	for i, ask := range []struct {
		who  ownerOf
		want bool
	}{{someone, true}, {someone, false}, {other, true}, {someone, false}} {
		if got, err := c.firstTime(ask.who); err != nil || got != ask.want {
			t.Errorf("question %d: %v, %v; want %v", i, got, err, ask.want)
		}
	}
}

// everythingIn is the text of all files, to look for what must not be there.
func everythingIn(t *testing.T, c cloud) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(c.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(c.dir), path)
		all.WriteString(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
