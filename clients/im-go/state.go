package im

// What a client stores: its place in the inbox, and messages that wait. JSON.

import (
	"encoding/hex"
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/proto"

	"holdline.example/im/pb"
)

type savedState struct {
	V        int           `json:"v"`
	Of       [2]string     `json:"of"` // account and device
	Last     *uint64       `json:"last"`
	Queue    []savedQueued `json:"queue"`
	Networks []network     `json:"networks,omitempty"`
}

type savedQueued struct {
	ClientID string `json:"client_id"`
	To       string `json:"to"`
	Content  []byte `json:"content"`
}

func (m *machine) state() []byte {
	state := savedState{V: 1, Of: [2]string{m.options.Account, m.options.Device},
		Queue: []savedQueued{}}
	if m.inbox.isKnown {
		state.Last = &m.inbox.done
	}
	for _, it := range m.outbox.queue {
		content, err := proto.Marshal(it.content)
		if err != nil {
			panic(err) // it was checked when it was given
		}
		state.Queue = append(state.Queue,
			savedQueued{hex.EncodeToString(it.clientID[:]), it.to, content})
	}
	m.networks[len(m.networks)-1].interval = m.heartbeat.interval
	state.Networks = m.networks
	record, err := json.Marshal(state)
	if err != nil {
		panic(err) // nothing in it cannot be JSON
	}
	return record
}

// restore goes on from a stored state, if it is of this device.
func (m *machine) restore(record []byte) error {
	if len(record) == 0 {
		return nil
	}
	var state savedState
	if err := json.Unmarshal(record, &state); err != nil || state.V != 1 {
		return errors.New("im: the stored state cannot be read")
	}
	if state.Of != [2]string{m.options.Account, m.options.Device} {
		return nil
	}
	if state.Last != nil {
		m.inbox.last, m.inbox.done, m.inbox.isKnown = *state.Last, *state.Last, true
	}
	for _, it := range state.Queue {
		id, err := clientIDOf(it.ClientID)
		content := &pb.Content{}
		if err == nil {
			err = proto.Unmarshal(it.Content, content)
		}
		if err != nil {
			return errors.New("im: the stored state cannot be read")
		}
		m.outbox.queue = append(m.outbox.queue, &queued{id, it.To, content})
	}
	if len(state.Networks) > 0 {
		m.networks, m.heartbeat.interval = state.Networks, interval{}
		current := m.networks[len(m.networks)-1]
		m.heartbeat.use(current.interval)
		m.use("")
	}
	m.saved = m.current()
	return nil
}

func clientIDOf(text string) (id [16]byte, err error) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != len(id) {
		return id, errors.New("im: a client id has 32 hexadecimal digits")
	}
	copy(id[:], bytes)
	return id, nil
}
