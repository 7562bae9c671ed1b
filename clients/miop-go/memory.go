package miop

// The state that a client keeps across restarts, in one small record, and the form of that record.

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
)

const (
	// Acknowledged ids that are remembered: several windows, and what a server that was killed
	// may have forgotten of our acknowledgements.
	seenMax     = 256
	networksMax = 16
)

type memory struct {
	epoch      uint64
	token      []byte
	seen       seen
	networks   []network // the longest unused one first
	nextReport uint32
	reports    []report
}

type network struct {
	Name string `json:"name"`
	interval
}

type report struct {
	Seq      uint32 `json:"seq"`
	ClientID string `json:"client_id"`
	Body     []byte `json:"body"`
	// isSent: it is in flight on this connection.
	isSent bool
}

// saved is the record, in JSON; the version is that of this form.
type saved struct {
	Version    int       `json:"version"`
	Device     string    `json:"device"`
	Epoch      uint64    `json:"epoch,string,omitempty"`
	Token      []byte    `json:"token,omitempty"`
	Seen       string    `json:"seen,omitempty"`
	Networks   []network `json:"networks,omitempty"`
	NextReport uint32    `json:"next_report"`
	Reports    []report  `json:"reports,omitempty"`
}

func (m *memory) encode(device string) []byte {
	ids := make([]byte, 0, 8*len(m.seen.order))
	for _, id := range m.seen.inOrder() {
		ids = binary.BigEndian.AppendUint64(ids, id)
	}
	record, err := json.Marshal(saved{1, device, m.epoch, m.token,
		base64.StdEncoding.EncodeToString(ids), m.networks, m.nextReport, m.reports})
	if err != nil {
		panic(err) // numbers, texts and bytes can always be encoded
	}
	return record
}

// decodeMemory reads a record. That of another device is not used: its ids, its session and its
// Reports are not ours.
func decodeMemory(record []byte, device string) (*memory, error) {
	m := &memory{nextReport: 1}
	if len(record) == 0 {
		return m, nil
	}
	var s saved
	if err := json.Unmarshal(record, &s); err != nil {
		return nil, errors.New("miop: the stored state is damaged: " + err.Error())
	}
	if s.Version != 1 {
		return nil, errors.New("miop: the stored state was written by a newer version")
	}
	if s.Device != device {
		return m, nil
	}
	ids, err := base64.StdEncoding.DecodeString(s.Seen)
	if err != nil || len(ids)%8 != 0 {
		return nil, errors.New("miop: the stored state is damaged: seen")
	}
	for ; len(ids) > 0; ids = ids[8:] {
		m.seen.add(binary.BigEndian.Uint64(ids))
	}
	m.epoch, m.token, m.networks = s.Epoch, s.Token, s.Networks
	m.nextReport, m.reports = s.NextReport, s.Reports
	return m, nil
}

// known is what was learned about a network.
func (m *memory) known(name string) interval {
	for _, it := range m.networks {
		if it.Name == name {
			return it.interval
		}
	}
	return interval{}
}

// learn remembers it, as the one used last.
func (m *memory) learn(name string, what interval) {
	kept := make([]network, 0, networksMax)
	for _, it := range m.networks {
		if it.Name != name {
			kept = append(kept, it)
		}
	}
	if len(kept) == networksMax {
		kept = kept[1:]
	}
	m.networks = append(kept, network{name, what})
}

// seen has the ids that were acknowledged last.
type seen struct {
	order []uint64 // a ring once it is full
	next  int
	has   map[uint64]bool
}

func (s *seen) add(id uint64) {
	if s.has[id] {
		return
	}
	if s.has == nil {
		s.has = map[uint64]bool{}
	}
	s.has[id] = true
	if len(s.order) < seenMax {
		s.order = append(s.order, id)
		return
	}
	delete(s.has, s.order[s.next])
	s.order[s.next] = id
	s.next = (s.next + 1) % seenMax
}

// inOrder has the oldest first.
func (s *seen) inOrder() []uint64 {
	return append(append([]uint64{}, s.order[s.next:]...), s.order[:s.next]...)
}
