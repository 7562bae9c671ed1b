package miop

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdline.example/miop/internal/wire"
)

// script is a server that a test plays by hand, and a client of it.
type script struct {
	t        *testing.T
	listener net.Listener
	conn     net.Conn
	buffer   []byte
	clock    *handClock
	client   *Client
	done     chan error
}

func play(t *testing.T, change func(*Options)) *script {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &script{t: t, listener: listener, clock: &handClock{now: time.UnixMilli(0)},
		done: make(chan error, 1)}
	o := Options{Addresses: []string{listener.Addr().String()}, Product: "demo", Device: "dev-1",
		OnPush: func(Push) error { return nil }, Clock: s.clock}
	change(&o)
	if s.client, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { s.done <- s.client.Run(ctx) }()
	return s
}

func (s *script) bind() {
	s.t.Helper()
	conn, err := s.listener.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	s.conn, s.buffer = conn, nil
	s.expect(wire.OpBind)
	var p wire.Properties
	p.AddNumber(wire.KeyHeartbeat, 300)
	p.Add(wire.KeyResumeToken, make([]byte, 32))
	p.AddNumber(wire.KeySessionEpoch, 1)
	p.AddNumber(wire.KeyResult, 0)
	s.send(&wire.Frame{Opcode: wire.OpBindAck, Props: p})
}

func (s *script) send(f *wire.Frame) {
	s.t.Helper()
	if _, err := s.conn.Write(f.Append(nil)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *script) push(id uint64) {
	r := wire.Record{ID: id, AppID: 1, Body: []byte("hi")}
	s.send(&wire.Frame{Opcode: wire.OpMsg, Payload: r.Append(nil)})
}

func (s *script) expect(opcode byte) {
	s.t.Helper()
	if f := s.next(); f.Opcode != opcode {
		s.t.Fatalf("not opcode %d but %+v", opcode, f)
	}
}

func (s *script) next() wire.Frame {
	s.t.Helper()
	for {
		f, length, err := wire.ParseFrame(s.buffer, wire.FrameBytesDefault)
		if err != nil {
			s.t.Fatal(err)
		}
		if length > 0 {
			s.buffer = s.buffer[length:]
			return f
		}
		some := make([]byte, 4096)
		count, err := s.conn.Read(some)
		if err != nil {
			s.t.Fatal(err)
		}
		s.buffer = append(s.buffer, some[:count]...)
	}
}

// handClock is set by a test.
type handClock struct {
	mu   sync.Mutex
	now  time.Time
	at   time.Time
	wake func()
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) WakeAt(at time.Time, wake func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.wake = at, wake
}

// toNext lets the time of the timer come.
func (c *handClock) toNext() {
	c.mu.Lock()
	c.now = c.at
	wake := c.wake
	c.mu.Unlock()
	wake()
}

type failingStore struct {
	MemoryStore
	mu     sync.Mutex
	fails  bool
	tried  chan struct{}
	refuse error
}

func (f *failingStore) Save(record []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails {
		select {
		case f.tried <- struct{}{}:
		default:
		}
		return f.refuse
	}
	return f.MemoryStore.Save(record)
}

func TestAPushIsNotAcknowledgedBeforeItsIDIsStored(t *testing.T) {
	store := &failingStore{tried: make(chan struct{}, 1), refuse: errors.New("disk full")}
	bound := make(chan bool, 8)
	s := play(t, func(o *Options) {
		o.Store = store
		o.OnState = func(state State) { bound <- state.Name == Bound }
	})
	s.bind()
	for !<-bound {
	}
	s.client.Flush()
	store.mu.Lock()
	store.fails = true
	store.mu.Unlock()
	s.push(7)
	<-store.tried
	s.client.Nudge()
	s.expect(wire.OpPing) // and no acknowledgement before it
	store.mu.Lock()
	store.fails = false
	store.mu.Unlock()
	s.client.Nudge() // any turn tries again
	f := s.next()
	if f.Opcode == wire.OpPing {
		f = s.next()
	}
	if f.Opcode != wire.OpMsgAck || f.Payload[7] != 7 {
		t.Fatalf("not acknowledged: %+v", f)
	}
}

func TestHeartbeatsGoOnWhileAHandlerWorks(t *testing.T) {
	working, finish := make(chan bool), make(chan bool)
	s := play(t, func(o *Options) {
		o.OnPush = func(Push) error {
			working <- true
			<-finish
			return nil
		}
	})
	s.bind()
	s.push(1)
	<-working
	s.clock.toNext()
	s.expect(wire.OpPing)
	s.send(&wire.Frame{Opcode: wire.OpPong}) // unread, for the handler works
	s.clock.toNext()                         // the answer would be due now
	close(finish)
	s.expect(wire.OpMsgAck)
}

func TestAHandlerThatFailsGetsThePushAgain(t *testing.T) {
	var count int
	s := play(t, func(o *Options) {
		o.OnPush = func(Push) error {
			count++
			if count == 1 {
				return errors.New("not now")
			}
			return nil
		}
	})
	s.bind()
	s.push(1)
	s.push(1)
	s.expect(wire.OpMsgAck)
	if count != 2 {
		t.Fatalf("handed out %d times", count)
	}
}

func TestCloseEndsRunAndTheContextDropsTheConnection(t *testing.T) {
	s := play(t, func(*Options) {})
	s.bind()
	s.push(1)
	s.expect(wire.OpMsgAck)
	s.client.Close()
	s.expect(wire.OpUnbind)
	s.send(&wire.Frame{Opcode: wire.OpUnbindAck})
	if err := <-s.done; err != nil {
		t.Fatal(err)
	}
}

func TestAFinalResultIsReturnedByRun(t *testing.T) {
	s := play(t, func(*Options) {})
	s.bind()
	s.push(1)
	s.expect(wire.OpMsgAck)
	var p wire.Properties
	p.AddNumber(wire.KeyResult, uint64(ResultReplaced))
	s.send(&wire.Frame{Opcode: wire.OpKick, Props: p})
	var end *EndedError
	if err := <-s.done; !errors.As(err, &end) || end.Result != ResultReplaced {
		t.Fatal(err)
	}
}

func TestAFileStoreKeepsTheRecordPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	store := FileStore(path)
	if record, err := store.Load(); record != nil || err != nil {
		t.Fatal(record, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := store.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	record, err := store.Load()
	if err != nil || string(record) != "two" {
		t.Fatal(string(record), err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) != 0 {
		t.Fatal(left)
	}
	if err := FileStore(filepath.Join(path, "no", "folder")).Save(nil); err == nil {
		t.Fatal("a folder that does not exist is an error")
	}
}

func TestARecordOfAnotherDeviceIsNotUsed(t *testing.T) {
	m := &memory{nextReport: 5, epoch: 9, token: []byte{1}}
	m.seen.add(77)
	m.learn("home", interval{Now: 90, Good: 60, Bad: 120})
	record := m.encode("demo\na")
	same, err := decodeMemory(record, "demo\na")
	if err != nil || !same.seen.has[77] || same.nextReport != 5 || same.known("home").Now != 90 {
		t.Fatal(same, err)
	}
	other, err := decodeMemory(record, "demo\nb")
	if err != nil || other.seen.has[77] || other.epoch != 0 || other.nextReport != 1 {
		t.Fatal(other, err)
	}
}

func TestADamagedRecordIsAnError(t *testing.T) {
	for _, record := range []string{"{", `{"version":2}`, `{"version":1,"device":"d","seen":"!"}`,
		`{"version":1,"device":"d","seen":"AAAA"}`} {
		if _, err := decodeMemory([]byte(record), "d"); err == nil {
			t.Errorf("accepted: %s", record)
		}
	}
}

func TestAReportThatIsTooLargeForThisServerWaitsAndTheNextOneIsSent(t *testing.T) {
	m := &memory{nextReport: 1}
	var r reports
	r.begin(m, func() float64 { return 0.5 })
	for at, body := range [][]byte{make([]byte, 5000), []byte("small")} {
		if isNew, err := r.queue(body, string(rune('a'+at)), 65536); !isNew || err != nil {
			t.Fatal(isNew, err)
		}
	}
	if next := r.next(0, 4096); next == nil || next.Seq != 2 {
		t.Fatal(next)
	}
	if next := r.next(0, 4096); next != nil {
		t.Fatal(next)
	}
	if next := r.next(0, 65536); next == nil || next.Seq != 1 {
		t.Fatal(next)
	}
}

func TestTheNumberOfAReportWraps(t *testing.T) {
	for seq, next := range map[uint32]uint32{1: 2, 0xffffffff: 1} {
		if got := seqAfter(seq); got != next {
			t.Errorf("after %d comes %d", seq, got)
		}
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	good := func() Options {
		return Options{Addresses: []string{"push.example:7000"}, Product: "p", Device: "d",
			OnPush: func(Push) error { return nil }}
	}
	if _, err := New(good()); err != nil {
		t.Fatal(err)
	}
	for word, change := range map[string]func(*Options){
		"Addresses is empty": func(o *Options) { o.Addresses = nil },
		"not host:port":      func(o *Options) { o.Addresses = []string{"push.example"} },
		"Product":            func(o *Options) { o.Product = "two words" },
		"Device":             func(o *Options) { o.Device = strings.Repeat("d", 65) },
		"OnPush":             func(o *Options) { o.OnPush = nil },
		"Tags":               func(o *Options) { o.Tags = []string{"a", ""} },
		"a Token needs TLS": func(o *Options) {
			// Behind a proxy every address is of another machine.
			o.Token = func(context.Context) (string, error) { return "t", nil }
			o.Addresses, o.Proxy = []string{"127.0.0.1:1"}, "socks5://127.0.0.1:2"
		},
		"Token needs TLS": func(o *Options) {
			o.Token = func(context.Context) (string, error) { return "t", nil }
		},
		"Pins":      func(o *Options) { o.Pins = []string{"sha256/AAAA"} },
		"Proxy":     func(o *Options) { o.Proxy = "ftp://proxy:1" },
		"Heartbeat": func(o *Options) { o.Heartbeat.Shortest = time.Hour },
	} {
		options := good()
		change(&options)
		if _, err := New(options); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}
