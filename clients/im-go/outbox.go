package im

// Messages that the server has not stored yet, in the order in which they were sent.
//
// One message of a conversation is on its way at a time, so that a conversation keeps its order.
// Each keeps its client id until the server has answered, so that retries never duplicate it
// (IM 4.2).

import (
	"strings"

	"holdline.example/im/pb"
)

const (
	queuedMax      = 256
	queuedBytesMax = 1 << 20
	// againMs after a message that the server could not take now; it doubles.
	againMs    = 1_000
	againMsMax = 30_000
)

// queued is a message that waits.
type queued struct {
	clientID [16]byte
	to       string
	content  *pb.Content
}

func (q *queued) size() int { return len(q.content.GetText()) + len(q.content.GetExtra()) }

type outbox struct {
	queue    []*queued
	underWay map[uint32]*queued
	againAt  int64
	againMs  int64
	version  uint64 // rises with each change of the queue
}

func newOutbox() outbox {
	return outbox{underWay: map[uint32]*queued{}, againAt: never, againMs: againMs}
}

func (o *outbox) add(message *queued) error {
	size := message.size()
	for _, it := range o.queue {
		if it.clientID == message.clientID {
			return nil
		}
		size += it.size()
	}
	if len(o.queue) >= queuedMax || size > queuedBytesMax {
		return &Error{Code: "queue_full"}
	}
	o.queue = append(o.queue, message)
	o.version++
	return nil
}

// next that is to be sent: the first of a conversation that has none on its way.
func (o *outbox) next(now int64, domain string, window int) *queued {
	if o.againAt != never && now < o.againAt {
		return nil
	}
	o.againAt = never
	if len(o.underWay) >= window {
		return nil
	}
	busy := map[string]bool{}
	for _, it := range o.underWay {
		busy[whole(it.to, domain)] = true
	}
	for _, it := range o.queue {
		if !busy[whole(it.to, domain)] {
			return it
		}
	}
	return nil
}

// answered: the server has answered this request for good.
func (o *outbox) answered(number uint32) *queued {
	it := o.underWay[number]
	delete(o.underWay, number)
	o.againMs = againMs
	if it == nil {
		return nil
	}
	return o.take(it.clientID)
}

// refused: the server could not take it now.
func (o *outbox) refused(now int64, number uint32, hintMs int64) {
	if o.underWay[number] != nil {
		delete(o.underWay, number)
		o.againAt = now + max64(o.againMs, hintMs)
		o.againMs = min64(o.againMs*2, againMsMax)
	}
}

// take: it waits no more.
func (o *outbox) take(clientID [16]byte) *queued {
	for at, it := range o.queue {
		if it.clientID == clientID {
			o.queue = append(o.queue[:at:at], o.queue[at+1:]...)
			o.version++
			return it
		}
	}
	return nil
}

func (o *outbox) lost() {
	o.underWay, o.againAt = map[uint32]*queued{}, never
}

func (o *outbox) due() int64 {
	if len(o.queue) == 0 {
		return never
	}
	return o.againAt
}

func whole(to, domain string) string {
	if strings.Contains(to, "@") {
		return to
	}
	return to + "@" + domain
}
