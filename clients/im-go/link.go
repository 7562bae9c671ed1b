package im

import (
	"net"
	"sync"
	"time"
)

// farewell is how long a connection that is to be closed may take to send what was written.
const farewell = 5 * time.Second

// link writes to a connection from a goroutine of its own, so that a slow network holds up nobody.
// What waits is bounded by what a machine sends: a window of requests and messages.
type link struct {
	stream  net.Conn
	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte
	isBusy  bool
	isOver  bool // after what waits
	isDead  bool
}

func newLink(stream net.Conn) *link {
	l := &link{stream: stream}
	l.changed = sync.NewCond(&l.mu)
	go l.run()
	return l
}

func (l *link) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.isDead {
		if len(l.waiting) > 0 {
			l.writeOut()
		} else if l.isOver {
			l.isDead = true
		} else {
			l.changed.Wait()
		}
	}
	l.stream.Close()
	l.changed.Broadcast()
}

// writeOut sends what waits, without the lock.
func (l *link) writeOut() {
	bytes := l.waiting
	l.waiting, l.isBusy = nil, true
	l.mu.Unlock()
	_, err := l.stream.Write(bytes)
	l.mu.Lock()
	l.isBusy, l.isDead = false, l.isDead || err != nil
	l.changed.Broadcast()
}

func (l *link) write(bytes []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isOver && !l.isDead {
		l.waiting = append(l.waiting, bytes...)
		l.changed.Broadcast()
	}
}

// close ends the connection when what waits is sent.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isOver = true
	_ = l.stream.SetWriteDeadline(time.Now().Add(farewell))
	l.changed.Broadcast()
}

// abort ends the connection at once.
func (l *link) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isDead = true
	l.stream.Close()
	l.changed.Broadcast()
}

// drain waits until everything was handed to the system, or cannot be.
func (l *link) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.isDead && (l.isBusy || len(l.waiting) > 0 || l.isOver) {
		l.changed.Wait()
	}
}

// queue runs callbacks in order, in one goroutine.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []func()
	isBusy  bool
	isOver  bool
	// rest is called when nothing waits, and at least after each restEvery callbacks.
	rest func()
}

const restEvery = 32

func newQueue(rest func()) *queue {
	q := &queue{rest: rest}
	q.changed = sync.NewCond(&q.mu)
	return q
}

func (q *queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for count := 1; ; count++ {
		if len(q.waiting) > 0 {
			next := q.waiting[0]
			q.waiting, q.isBusy = q.waiting[1:], true
			isRest := len(q.waiting) == 0 || count%restEvery == 0
			q.mu.Unlock()
			next()
			if isRest {
				q.rest()
			}
			q.mu.Lock()
			q.isBusy = false
			q.changed.Broadcast()
		} else if q.isOver {
			return
		} else {
			q.changed.Wait()
		}
	}
}

func (q *queue) add(do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, do)
	q.changed.Broadcast()
}

// close lets it end after what waits.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isOver = true
	q.changed.Broadcast()
}

// waitBelow waits until fewer callbacks wait.
func (q *queue) waitBelow(count int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) >= count && !q.isOver {
		q.changed.Wait()
	}
}

// wait until what is due has run.
func (q *queue) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.isBusy || len(q.waiting) > 0 {
		q.changed.Wait()
	}
}
