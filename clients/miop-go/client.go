// Package miop receives pushes from a Holdline server over MIOP 7.
//
// A Client keeps one connection, comes back when it is lost, hands out each push once, and
// acknowledges it when the application has it. See the README for a quick start.
package miop

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	mathrand "math/rand"
	"net"
	"strconv"
	"sync"
	"time"
)

// Version of this library.
const Version = "0.1.0"

// ackDelay is how long acknowledgements wait at most for those of pushes that are there already.
const ackDelay = 100 * time.Millisecond

// Clock is the time of a Client.
type Clock interface {
	Now() time.Time
	// WakeAt arranges for one call of wake, in place of the one arranged before. The zero time
	// arranges for none. It does not call wake itself.
	WakeAt(at time.Time, wake func())
}

// Client is one device. All methods may be called from any goroutine.
type Client struct {
	cfg    *settings
	clock  Clock
	begin  time.Time
	events *queue

	mu         sync.Mutex // of all below
	machine    *machine
	link       *link
	cancelDial context.CancelFunc
	fault      error // of the last connection
	isRunning  bool
	over       chan struct{} // closed when Run has to return
	why        error
}

// New checks the options and loads the stored state. It does not connect.
func New(options Options) (*Client, error) {
	cfg, err := check(options)
	if err != nil {
		return nil, err
	}
	record, err := cfg.Store.Load()
	if err != nil {
		return nil, err
	}
	memory, err := decodeMemory(record, cfg.identity())
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, clock: cfg.Clock, events: newQueue(), over: make(chan struct{})}
	if c.clock == nil {
		c.clock = &systemClock{}
	}
	random := cfg.Random
	if random == nil {
		random = mathrand.New(mathrand.NewSource(seed())).Float64
	}
	c.begin = c.clock.Now()
	c.machine = newMachine(cfg, memory, outside{c}, random)
	return c, nil
}

// Run connects and stays connected until the context ends, Close was called, or the server ends
// the client for good: then it returns an *EndedError. It can be called once.
//
// When the context ends, the connection is dropped without a word. The session and what was not
// acknowledged are there for the next Run of a client with the same Store.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.isRunning {
		c.mu.Unlock()
		return errors.New("miop: Run was called before")
	}
	c.isRunning = true
	c.mu.Unlock()
	go c.events.run()
	defer c.events.close()
	c.turn(c.machine.start)
	select {
	case <-c.over:
	case <-ctx.Done():
		c.abort()
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Close tells the server that the device leaves; Run then returns nil, after five seconds at most.
func (c *Client) Close() { c.turn(c.machine.stop) }

// Ack acknowledges a push (ManualAck), when the application has stored it.
func (c *Client) Ack(id uint64) error { return c.settle(id, true) }

// Reject gives a push back (ManualAck): it is handed out again when the server sends it again.
func (c *Client) Reject(id uint64) error { return c.settle(id, false) }

func (c *Client) settle(id uint64, has bool) (err error) {
	c.turn(func(int64) {
		if !c.machine.settle(id, has) {
			err = ErrUnknown
		}
	})
	return err
}

// Report sends bytes to the application's server. They wait for a connection, and outlive this
// process if the Store does. The client id that it returns comes back in OnStored.
func (c *Client) Report(body []byte) (clientID string, err error) {
	var name [16]byte
	if _, err := rand.Read(name[:]); err != nil {
		return "", err
	}
	clientID = hex.EncodeToString(name[:])
	return clientID, c.ReportAs(clientID, body)
}

// ReportAs is Report with a client id of the application's. One that waits already is not queued
// again, so a call whose outcome is not known may be repeated.
func (c *Client) ReportAs(clientID string, body []byte) (err error) {
	c.turn(func(now int64) { err = c.machine.report(now, body, clientID) })
	return err
}

// Opened reports that the user opened a push: a Report with a client id of its own, so that it is
// queued once.
func (c *Client) Opened(id uint64) (clientID string, err error) {
	return c.reportPush(1, "opened", id)
}

// Dismissed reports that the user dismissed a push, likewise.
func (c *Client) Dismissed(id uint64) (clientID string, err error) {
	return c.reportPush(2, "dismissed", id)
}

// reportPush sends the form of MIOP 5.10.
func (c *Client) reportPush(what byte, word string, id uint64) (string, error) {
	body := binary.BigEndian.AppendUint64([]byte("\x00miop\x00"+string(rune(what))), id)
	clientID := word + "-" + strconv.FormatUint(id, 10)
	return clientID, c.ReportAs(clientID, body)
}

// Pull asks for up to count stored pushes (Pulls); 0: as many as the server likes.
func (c *Client) Pull(count uint16) (err error) {
	c.turn(func(now int64) { err = c.machine.pull(now, count) })
	return err
}

// Nudge says that the network is there again or that the device woke up: a client that waits
// connects at once, and a connection that seems to be there has to prove it.
func (c *Client) Nudge() { c.turn(c.machine.nudge) }

// SetNetwork says that the device is on another network now.
func (c *Client) SetNetwork(name string) {
	c.turn(func(now int64) { c.machine.onNetwork(now, name) })
}

// Flush waits until callbacks that are due have returned, and what was decided was handed to the
// system. It must not be called from a callback.
func (c *Client) Flush() {
	c.drain()
	c.events.wait()
}

// ---- turns --------------------------------------------------------------------------------------

// turn lets the machine do something, and then stores and sends what follows.
func (c *Client) turn(do func(now int64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do(c.now())
	c.machine.flush(c.now())
	c.arm()
}

// step is a turn after which acknowledgements may wait for more.
func (c *Client) step(do func(now int64) (isComplete bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if do(c.now()) {
		c.machine.flush(c.now())
	}
	c.arm()
}

func (c *Client) now() int64 { return c.clock.Now().Sub(c.begin).Milliseconds() }

func (c *Client) arm() {
	at := c.machine.wakeAt()
	if at == never {
		c.clock.WakeAt(time.Time{}, nil)
		return
	}
	c.clock.WakeAt(c.at(at), func() { c.turn(c.machine.tick) })
}

func (c *Client) at(ms int64) time.Time { return c.begin.Add(time.Duration(ms) * time.Millisecond) }

// received handles what has arrived, frame by frame. Pushes are handed out here, without the lock:
// while the application works on one, nothing more is read, and heartbeats go on.
func (c *Client) received(conn uint64, bytes []byte) {
	c.turn(func(now int64) { c.machine.feed(now, conn, bytes) })
	since := c.clock.Now()
	for {
		var opcode byte
		var pushes []Push
		var found bool
		c.step(func(now int64) bool {
			opcode, pushes, found = c.machine.step(now, conn)
			c.machine.isHandling = len(pushes) > 0
			return !found || len(pushes) == 0 && !c.machine.isPushNext()
		})
		if !found {
			return
		}
		wanted := c.handOut(pushes)
		c.step(func(now int64) bool {
			c.machine.isHandling = false
			for at, push := range pushes {
				if !wanted[at] || !c.cfg.ManualAck {
					c.machine.settle(push.ID, wanted[at])
				}
			}
			isLate := c.clock.Now().Sub(since) > ackDelay
			return isLate || c.cfg.OnFrame != nil || !c.machine.isPushNext()
		})
		if c.cfg.OnFrame != nil {
			c.drain()
			c.cfg.OnFrame(opcode)
		}
	}
}

func (c *Client) handOut(pushes []Push) (wanted []bool) {
	for _, push := range pushes {
		wanted = append(wanted, c.cfg.OnPush(push) == nil)
	}
	return wanted
}

func (c *Client) dial(ctx context.Context, conn uint64, address string) {
	token, why := "", ""
	var err error
	if c.cfg.Token != nil {
		if token, err = c.cfg.Token(ctx); err != nil {
			why = "credentials_failed"
		}
	}
	var stream net.Conn
	if err == nil {
		if stream, err = c.cfg.dial(ctx, address); err != nil {
			why = "connect_failed"
			if errors.Is(err, errPin) {
				why = "pin_mismatch"
			}
		}
	}
	if err == nil && token != "" && !isSafe(c.cfg, stream) {
		stream.Close()
		err, why = errors.New("miop: a Token needs TLS"), "insecure"
	}
	if err != nil {
		c.turn(func(now int64) {
			c.fault = err
			c.machine.closed(now, conn, why)
		})
		return
	}
	c.turn(func(now int64) {
		if conn != c.machine.conn || c.machine.phase != connecting {
			stream.Close()
			return
		}
		c.link = newLink(stream)
		c.machine.connected(now, conn, token)
		go c.read(c.link, conn)
	})
}

// isSafe: a server that redirects cannot make the client show its token to a network.
func isSafe(cfg *settings, stream net.Conn) bool {
	host, _, err := net.SplitHostPort(stream.RemoteAddr().String())
	// Behind a proxy every address is of another machine.
	return cfg.TLS != nil || (err == nil && cfg.proxy == nil && isLoopback(host))
}

func (c *Client) read(link *link, conn uint64) {
	buffer := make([]byte, 16<<10)
	for {
		count, err := link.stream.Read(buffer)
		if count > 0 {
			c.received(conn, buffer[:count])
		}
		if err != nil {
			link.abort()
			c.turn(func(now int64) { c.machine.closed(now, conn, "lost") })
			return
		}
	}
}

func (c *Client) drain() {
	c.mu.Lock()
	link := c.link
	c.mu.Unlock()
	if link != nil {
		link.drain()
	}
}

// abort drops everything, as the end of the process would.
func (c *Client) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machine.conn++
	c.machine.phase, c.machine.deadline = ended, never
	if c.cancelDial != nil {
		c.cancelDial()
	}
	if c.link != nil {
		c.link.abort()
	}
	c.clock.WakeAt(time.Time{}, nil)
}

// ---- the port of the machine --------------------------------------------------------------------

// outside is what the machine calls, with the lock held.
type outside struct{ c *Client }

func (o outside) connect(conn uint64, address string) {
	ctx, cancel := context.WithCancel(context.Background())
	o.c.cancelDial, o.c.fault = cancel, nil
	go o.c.dial(ctx, conn, address)
}

func (o outside) write(frames []byte) { o.c.link.write(frames) }

func (o outside) disconnect() {
	if o.c.cancelDial != nil {
		o.c.cancelDial()
		o.c.cancelDial = nil
	}
	if o.c.link != nil {
		o.c.link.close()
	}
}

func (o outside) state(s State) {
	s.Until = time.Time{}
	if s.Name == Waiting {
		s.Until, s.Fault = o.c.at(o.c.machine.deadline), o.c.fault
	}
	if o.c.cfg.OnState != nil {
		o.c.events.add(func() { o.c.cfg.OnState(s) })
	}
	if s.Name == Ended {
		if s.Result != 0 {
			o.c.why = &EndedError{s.Why, s.Result}
		}
		close(o.c.over)
	}
}

func (o outside) stored(clientID string) {
	if o.c.cfg.OnStored != nil {
		o.c.events.add(func() { o.c.cfg.OnStored(clientID) })
	}
}

func (o outside) pulled(remaining int) {
	if o.c.cfg.OnPulled != nil {
		o.c.events.add(func() { o.c.cfg.OnPulled(remaining) })
	}
}

func (o outside) save(record []byte) error { return o.c.cfg.Store.Save(record) }

func (o outside) wallMs() int64 { return o.c.clock.Now().UnixMilli() }

func (o outside) nonce() (nonce [16]byte) {
	if _, err := rand.Read(nonce[:]); err != nil {
		panic(err) // a system without randomness cannot prove anything
	}
	return nonce
}

func seed() int64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:])
	var number int64
	for _, b := range bytes {
		number = number<<8 | int64(b)
	}
	return number
}

// systemClock is the machine's.
type systemClock struct{ timer *time.Timer }

func (*systemClock) Now() time.Time { return time.Now() }

func (s *systemClock) WakeAt(at time.Time, wake func()) {
	if s.timer != nil {
		s.timer.Stop()
	}
	if !at.IsZero() {
		s.timer = time.AfterFunc(time.Until(at), wake)
	}
}
