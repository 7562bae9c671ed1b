package im

import (
	"errors"
	"os"
	"path/filepath"
)

// Store keeps one record of a few KiB for a device. The client calls it for one thing at a time.
//
// A push is acknowledged after Save has returned without an error. So if the record survives a
// crash, no push is handed out again that was acknowledged before it, and no Report is lost.
type Store interface {
	// Load returns what Save was given last; nil if nothing was saved.
	Load() ([]byte, error)
	Save(record []byte) error
}

// FileStore keeps the record in a file. A crash leaves the old record or the new one.
type FileStore string

// Load reads the file.
func (path FileStore) Load() ([]byte, error) {
	record, err := os.ReadFile(string(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return record, err
}

// Save writes a file beside it and renames that one. Only its owner may read it, because it
// contains the key of the session.
func (path FileStore) Save(record []byte) error {
	file, err := os.CreateTemp(filepath.Dir(string(path)), filepath.Base(string(path))+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(record)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), string(path))
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// MemoryStore keeps the record until the process ends.
type MemoryStore struct{ record []byte }

// Load returns the record.
func (m *MemoryStore) Load() ([]byte, error) { return m.record, nil }

// Save keeps it.
func (m *MemoryStore) Save(record []byte) error {
	m.record = record
	return nil
}
