package miop

// Reports: the queue that outlives connections and restarts, and what of it is in flight.
//
// A Report keeps its number over connections, so that a receiver recognises a repeated one by
// device and number. After a refusal nothing is sent for a pause, of which a half is random.

const (
	reportsMax       = 256
	reportsBytesMax  = 1 << 20
	inFlightMax      = 16
	pauseFirstMs     = 5_000
	pauseLongestMs   = 300_000
	clientIDBytesMax = 64
	// Bytes of a REPORT beside its body: header, length, number, no properties.
	reportHeadBytes = 13
)

type reports struct {
	waiting  []report
	bytes    int
	nextSeq  *uint32
	random   func() float64
	pauseMs  int64
	pausedTo int64
}

func (r *reports) begin(m *memory, random func() float64) {
	r.waiting, r.nextSeq, r.random, r.pauseMs = m.reports, &m.nextReport, random, pauseFirstMs
	for _, it := range r.waiting {
		r.bytes += len(it.Body)
	}
}

// queue adds a Report, unless its client id waits already.
func (r *reports) queue(body []byte, clientID string, frameMax int) (isNew bool, err error) {
	for _, it := range r.waiting {
		if it.ClientID == clientID {
			return false, nil
		}
	}
	if len(body)+reportHeadBytes > frameMax || len(clientID) > clientIDBytesMax {
		return false, ErrTooLarge
	}
	if len(r.waiting) >= reportsMax || r.bytes+len(body) > reportsBytesMax {
		return false, ErrQueueFull
	}
	r.waiting = append(r.waiting, report{Seq: *r.nextSeq, ClientID: clientID,
		Body: append([]byte{}, body...)})
	r.bytes += len(body)
	*r.nextSeq = seqAfter(*r.nextSeq)
	return true, nil
}

// unqueue takes back the one that was queued last: it could not be stored.
func (r *reports) unqueue() {
	last := r.waiting[len(r.waiting)-1]
	r.waiting, *r.nextSeq = r.waiting[:len(r.waiting)-1], last.Seq
	r.bytes -= len(last.Body)
}

// seqAfter: numbers rise by one from 1 and wrap.
func seqAfter(seq uint32) uint32 {
	if seq+1 == 0 {
		return 1
	}
	return seq + 1
}

// connected: what was in flight on the last connection is sent again.
func (r *reports) connected() {
	for at := range r.waiting {
		r.waiting[at].isSent = false
	}
	r.pausedTo = 0
}

// next is a Report to be sent now, which is then in flight. One that is larger than this server
// accepts waits for another server: it would end the connection.
func (r *reports) next(now int64, frameMax int) *report {
	if now < r.pausedTo {
		return nil
	}
	r.pausedTo = 0
	inFlight, first := 0, -1
	for at := range r.waiting {
		if r.waiting[at].isSent {
			inFlight++
		} else if first < 0 && len(r.waiting[at].Body)+reportHeadBytes <= frameMax {
			first = at
		}
	}
	if first < 0 || inFlight >= inFlightMax {
		return nil
	}
	r.waiting[first].isSent = true
	return &r.waiting[first]
}

// taken: the server has all up to a number, of those that it did not refuse.
func (r *reports) taken(upTo uint32, port port) (any bool) {
	kept := make([]report, 0, len(r.waiting))
	for _, it := range r.waiting {
		if !it.isSent || int32(upTo-it.Seq) < 0 {
			kept = append(kept, it)
			continue
		}
		any = true
		r.bytes -= len(it.Body)
		port.stored(it.ClientID)
	}
	if any {
		r.pauseMs = pauseFirstMs
	}
	r.waiting = kept
	return any
}

// refused: the server did not accept this one now.
func (r *reports) refused(now int64, seq uint32) {
	for at := range r.waiting {
		if r.waiting[at].Seq == seq && r.waiting[at].isSent {
			r.waiting[at].isSent = false
			half := float64(r.pauseMs) / 2
			r.pausedTo = now + int64(half+r.random()*half)
			r.pauseMs = minOf(r.pauseMs*2, pauseLongestMs)
		}
	}
}

// wakeAt is when a Report waits for nothing but time.
func (r *reports) wakeAt() int64 {
	if r.pausedTo == 0 {
		return never
	}
	for _, it := range r.waiting {
		if !it.isSent {
			return r.pausedTo
		}
	}
	return never
}
