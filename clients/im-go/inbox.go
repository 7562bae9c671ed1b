package im

// How far this device is in its account's inbox, and what it does to go on (IM 5).
//
// Invariant: an entry is handed out once in the life of a client, in the inbox's order, without a
// gap but for what this device has sent itself.

const (
	// unacknowledgedMax entries are acknowledged together without waiting for the second.
	unacknowledgedMax = 32
	// acknowledgeMs is the longest that an acknowledgement waits for others (IM 5.5).
	acknowledgeMs = 1_000
	// pullAgainMs after a pull that the server did not do.
	pullAgainMs = 1_000
	// heldMax is the number of unacknowledged entries at which delivery to the application pauses.
	heldMax = 256
)

type inbox struct {
	last uint64 // up to here everything was handed out
	done uint64 // up to here the application has everything
	// isKnown: there is such a place, of a session.
	isKnown       bool
	held          []uint64 // in order
	acknowledged  uint64
	head          uint64
	own           uint64
	acknowledgeAt int64
	pullAt        int64
	isPulling     bool
	mustPull      bool
}

// begin of a session. An inbox that ends before what is known is another one.
func (i *inbox) begin(cursor, head uint64) {
	if !i.isKnown || i.last > head {
		i.last, i.done, i.isKnown, i.held = cursor, cursor, true, nil
	}
	i.acknowledged, i.head, i.own, i.pullAt, i.isPulling = cursor, head, 0, 0, false
	// Until it has pulled up to the head, the server sends nothing by itself (IM 5.2).
	i.mustPull = cursor != head || i.last != cursor
	i.acknowledgeAt = never
	if i.done > cursor {
		i.acknowledgeAt = 0
	}
}

// comes: an entry has come by itself; true if it is the next one.
func (i *inbox) comes(place uint64) bool {
	isBehind := i.mustPull || i.isPulling || i.head > i.last
	if place > i.head {
		i.head = place
	}
	if place <= i.last || i.isFull() {
		return false
	}
	between := place - i.last - 1
	if between > i.own || (between > 0 && isBehind) {
		return false
	}
	i.own -= between
	i.last = place
	return true
}

func (i *inbox) notify(head uint64) {
	if head > i.head {
		i.head = head
	}
}

// page was pulled: everything up to a place.
func (i *inbox) page(upto, head uint64) {
	i.isPulling, i.own = false, 0
	i.notify(head)
	if upto > i.last {
		i.last = upto
	}
	if i.last >= i.head {
		i.mustPull = false
	}
}

func (i *inbox) pullFailed(now int64) { i.isPulling, i.pullAt = false, now+pullAgainMs }

// sentOwn: this device sent a message, whose place it has not passed.
func (i *inbox) sentOwn() { i.own++ }

// release: the application has an entry; false if it does not hold it.
func (i *inbox) release(now int64, place uint64) bool {
	for at, held := range i.held {
		if held == place {
			i.held = append(i.held[:at:at], i.held[at+1:]...)
			i.advance(now)
			return true
		}
	}
	return false
}

// advance: everything before the first entry that is held is done.
func (i *inbox) advance(now int64) {
	done := i.last
	if len(i.held) > 0 {
		done = i.held[0] - 1
	}
	if done > i.done {
		i.done = done
	}
	if i.done > i.acknowledged && i.acknowledgeAt == never {
		i.acknowledgeAt = now + acknowledgeMs
	}
}

// acknowledgement that is due.
func (i *inbox) acknowledgement(now int64) (upto uint64, isDue bool) {
	if i.done <= i.acknowledged ||
		(i.done-i.acknowledged < unacknowledgedMax && now < i.acknowledgeAt) {
		return 0, false
	}
	i.acknowledged, i.acknowledgeAt = i.done, never
	return i.done, true
}

// pull that is due.
func (i *inbox) pull(now int64) (after uint64, isDue bool) {
	if !i.wantsPull() || now < i.pullAt {
		return 0, false
	}
	i.isPulling = true
	return i.last, true
}

func (i *inbox) due() int64 {
	if i.wantsPull() {
		return min64(i.acknowledgeAt, i.pullAt)
	}
	return i.acknowledgeAt
}

func (i *inbox) isFull() bool { return len(i.held) >= heldMax }

func (i *inbox) wantsPull() bool {
	return !i.isPulling && !i.isFull() && (i.mustPull || i.last < i.head)
}
