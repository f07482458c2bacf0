package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cloud is a directory that plays the part of a cloud. It is made of plain
// files so that a test can look into it, and can change it behind Pulumi's
// back, with nothing but a text editor.
type cloud struct{ dir string }

// ownerOf says which Pulumi resource something in the cloud belongs to.
type ownerOf struct {
	Name    string `json:"name"`
	Stack   string `json:"stack,omitempty"`
	Project string `json:"project,omitempty"`
}

// record is what a thing really is: the content of things/<id>.json.
type record struct {
	ID string `json:"id"`
	ownerOf
	Generation int            `json:"generation"`
	Properties map[string]any `json:"properties"`
}

// entry is one line of the ledger.
type entry struct {
	Time time.Time `json:"time"`
	Op   string    `json:"op"`
	ID   string    `json:"id"`
	ownerOf
	Reason string `json:"reason,omitempty"`
}

// errGone tells a missing thing from a cloud that cannot be read.
var errGone = errors.New("no such thing")

// openCloud looks the directory up each time, so that a test can point one
// process at several clouds.
func openCloud() cloud {
	if dir := os.Getenv("PKOTEST_CLOUD"); dir != "" {
		return cloud{dir}
	}
	return cloud{"/tmp/pkotest-cloud"}
}

// newID is random, so that a replacement never has the id of what it replaces.
func newID(name string) string {
	var suffix [4]byte
	rand.Read(suffix[:]) // never fails: crypto/rand ends the process instead
	return name + "-" + hex.EncodeToString(suffix[:])
}

// note appends one line to the ledger. The line goes out in one write with
// O_APPEND, so that lines of parallel providers do not mix, and it is synced,
// so that it outlives a provider that is killed right afterwards.
func (c cloud) note(op, id string, who ownerOf, reason string) error {
	line, err := json.Marshal(entry{time.Now().UTC(), op, id, who, reason})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(c.dir, "ledger.jsonl")
	return writeSynced(path, os.O_APPEND, append(line, '\n'))
}

// put writes the thing under another name first and then renames it, so that
// a reader sees the old thing or the new one, never half of one.
func (c cloud) put(r record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := c.thingPath(r.ID)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	draft := path + ".draft"
	if err := writeSynced(draft, os.O_TRUNC, append(text, '\n')); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

// get returns errGone for a thing that is not there.
func (c cloud) get(id string) (record, error) {
	var r record
	text, err := os.ReadFile(c.thingPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return r, errGone
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("the file of thing %s: %w", id, err)
	}
	return r, nil
}

// remove returns errGone for a thing that is not there.
func (c cloud) remove(id string) error {
	err := os.Remove(c.thingPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return errGone
	}
	return err
}

// firstTime is true once for each resource, and false ever after. The answer
// is kept as a file, because each run of Pulumi starts a new provider.
func (c cloud) firstTime(who ownerOf) (bool, error) {
	path := filepath.Join(c.dir, "failed-once",
		url.PathEscape(who.Project+"."+who.Stack+"."+who.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	err := writeSynced(path, os.O_EXCL, nil)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// thingPath escapes the id, because a resource name may hold a slash.
func (c cloud) thingPath(id string) string {
	return filepath.Join(c.dir, "things", url.PathEscape(id)+".json")
}

func writeSynced(path string, flags int, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// sealMark starts every value that stands for a secret.
const sealMark = "sha256:"

// seal is what the cloud keeps in the place of a secret value. A text is
// hashed as it is, so that a test can work the hash out with sha256sum.
func seal(value any) string {
	text, ok := value.(string)
	if !ok {
		encoded, _ := json.Marshal(value) // the value came out of JSON
		text = string(encoded)
	}
	sum := sha256.Sum256([]byte(text))
	return sealMark + hex.EncodeToString(sum[:])
}

// sealed copies the properties, with a seal in the place of each secret one.
func sealed(properties map[string]any, secret map[string]bool) map[string]any {
	out := make(map[string]any, len(properties))
	for name, value := range properties {
		if secret[name] {
			value = seal(value)
		}
		out[name] = value
	}
	return out
}

// unsealed puts back the values that are known to be behind the seals. A seal
// that fits no known value stays: the secret was changed behind Pulumi's back,
// and the seal is all that can be told of it.
func unsealed(stored, known map[string]any) map[string]any {
	out := make(map[string]any, len(stored))
	for name, value := range stored {
		text, isText := value.(string)
		guess, isKnown := known[name]
		if isText && isKnown && strings.HasPrefix(text, sealMark) && seal(guess) == text {
			value = guess
		}
		out[name] = value
	}
	return out
}
