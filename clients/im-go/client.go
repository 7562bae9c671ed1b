// Package im is instant messaging over Holdline's IM protocol: a device of an account that sends
// messages, follows its inbox, and loses and doubles nothing. See the README for a quick start.
package im

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	mathrand "math/rand"

	"google.golang.org/protobuf/proto"

	"holdline.example/im/pb"
)

// Version of this library.
const Version = "0.1.0"

// callbacksMax: with more of them waiting, nothing is read from the server.
const callbacksMax = 1_024

// Clock is the time of a Client.
type Clock interface {
	Now() time.Time
	// WakeAt arranges for one call of wake, in place of the one arranged before. The zero time
	// arranges for none. It does not call wake itself.
	WakeAt(at time.Time, wake func())
}

// Client is one device of an account. All methods may be called from any goroutine.
type Client struct {
	cfg    *settings
	clock  Clock
	begin  time.Time
	events *queue

	mu         sync.Mutex // of all below
	machine    *machine
	link       *link
	conn       uint64 // which connection is the current one
	cancelDial context.CancelFunc
	fault      error // of the last connection
	asked      map[uint32]chan actAnswer
	places     []uint64 // that the application has, since the last turn
	isRunning  bool
	isAborted  bool
	over       chan struct{} // closed when Run has to return
	why        error
}

// New checks the options and loads the stored state. It does not connect.
func New(options Options) (*Client, error) {
	cfg, err := check(options)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, clock: cfg.Clock, asked: map[uint32]chan actAnswer{},
		over: make(chan struct{})}
	c.events = newQueue(c.settle)
	if c.clock == nil {
		c.clock = &systemClock{}
	}
	random := cfg.Random
	if random == nil {
		random = mathrand.New(mathrand.NewSource(seed())).Float64
	}
	c.begin = c.clock.Now()
	c.machine = newMachine(&cfg.Options, random, nonce)
	record, err := cfg.Store.Load()
	if err != nil {
		return nil, err
	}
	return c, c.machine.restore(record)
}

// Run connects and stays connected until the context ends, Close was called, or the server ends
// the client for good: then it returns an *EndedError. It can be called once.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.isRunning {
		c.mu.Unlock()
		return errors.New("im: Run was called before")
	}
	c.isRunning = true
	c.mu.Unlock()
	go c.events.run()
	defer c.events.close()
	c.turn(c.machine.start)
	select {
	case <-c.over:
		c.events.wait()
	case <-ctx.Done():
		c.abort()
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Close says goodbye; Run then returns nil. Messages that are not sent yet stay in the Store.
func (c *Client) Close() { c.turn(c.machine.close) }

// Nudge says that the network is there again or that the device woke up: a client that waits
// connects at once, and a connection that seems to be there has to prove it.
func (c *Client) Nudge() { c.turn(c.machine.nudge) }

// SetNetwork says that the device is on another network now, in a word of the application's: the
// heartbeat that a network lets live is remembered for each.
func (c *Client) SetNetwork(name string) {
	c.turn(func(now int64) { c.machine.onNetwork(now, name) })
}

// Send queues a text to an account or a group and returns its client id, which comes back in OnSent
// or OnFailed. Connections and restarts do not matter, if the Store outlives them.
func (c *Client) Send(to, text string) (clientID string, err error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	clientID = hexID(id)
	return clientID, c.SendAs(clientID, to, &pb.Content{Kind: 1, Text: text})
}

// SendAs is Send with a client id of the application's (32 hexadecimal digits) and any content. One
// that waits already is not queued again, so a call whose outcome is not known may be repeated.
func (c *Client) SendAs(clientID, to string, content *pb.Content) error {
	id, err := clientIDOf(clientID)
	if err != nil {
		return err
	}
	if _, err := proto.Marshal(content); err != nil || !utf8.ValidString(to) {
		return &Error{Code: "invalid"}
	}
	c.turn(func(int64) { err = c.machine.send(&queued{id, to, content}) })
	return err
}

// Ack acknowledges a message or event by its place (ManualAck), when the application has stored it.
func (c *Client) Ack(place uint64) (isHeld bool) {
	c.turn(func(now int64) { isHeld = c.machine.inbox.release(now, place) })
	return isHeld
}

// Request asks the server something and returns the frame that answers it. Its number is the
// library's. Requests are not queued: without a connection the *Error is "disconnected".
func (c *Client) Request(ctx context.Context, frame *pb.ClientFrame) (*pb.ServerFrame, error) {
	answer := make(chan actAnswer, 1)
	var number uint32
	var err error
	c.turn(func(now int64) {
		if number, err = c.machine.request(now, frame); err == nil {
			c.asked[number] = answer
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case it := <-answer:
		return it.frame, it.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, number)
		return nil, ctx.Err()
	}
}

// Tell says something that has no answer, such as a Transient; nothing without a connection.
func (c *Client) Tell(frame *pb.ClientFrame) {
	c.turn(func(now int64) { c.machine.tell(now, frame) })
}

// History is at most count messages of a conversation before a place (0: the end), oldest first,
// and whether there are more.
func (c *Client) History(
	ctx context.Context, peer string, count uint32, before uint64,
) (messages []*pb.ChatMessage, hasMore bool, err error) {
	ask := &pb.History{With: peer, From: before, Backwards: true, Count: count}
	frame, err := c.Request(ctx, &pb.ClientFrame{Request: &pb.ClientFrame_History{History: ask}})
	if err != nil {
		return nil, false, err
	}
	page := frame.GetHistory()
	for at := len(page.GetMessages()) - 1; at >= 0; at-- {
		messages = append(messages, page.Messages[at])
	}
	return messages, page.GetMore(), nil
}

// MarkRead says that the account has read a conversation up to a place.
func (c *Client) MarkRead(ctx context.Context, peer string, upto uint64) error {
	ask := &pb.ClientFrame_MarkRead{MarkRead: &pb.MarkRead{With: peer, Upto: upto}}
	_, err := c.Request(ctx, &pb.ClientFrame{Request: ask})
	return err
}

// RequestToken returns a token by which this device logs in without the password.
func (c *Client) RequestToken(ctx context.Context) (*pb.LoginToken, error) {
	ask := &pb.ClientFrame_Token{Token: &pb.TokenRequest{}}
	frame, err := c.Request(ctx, &pb.ClientFrame{Request: ask})
	return frame.GetToken(), err
}

// Flush waits until callbacks that are due have returned, and what was decided was handed to the
// system. It must not be called from a callback.
func (c *Client) Flush() {
	c.drain()
	c.events.wait()
	c.drain()
}

// ---- turns --------------------------------------------------------------------------------------

// turn lets the machine do something, and then stores, sends and tells what follows.
func (c *Client) turn(do func(now int64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isAborted {
		do = func(int64) {}
	}
	do(c.now())
	var handled []string
	for {
		actions := c.machine.takeActions(c.now())
		for _, action := range actions {
			if it, isHandled := action.(actHandled); isHandled {
				handled = append(handled, it.answer)
			} else {
				c.do(action)
			}
		}
		if len(actions) == 0 {
			if c.machine.wakeAt() > c.now() {
				break
			}
			c.machine.tick(c.now())
		}
	}
	if c.cfg.OnFrame != nil {
		for _, answer := range handled {
			answer := answer
			c.events.add(func() { c.cfg.OnFrame(answer) })
		}
	}
	c.arm()
}

func (c *Client) do(action any) {
	switch it := action.(type) {
	case actWrite:
		c.link.write(it.bytes)
	case actSave:
		if err := c.cfg.Store.Save(it.record); err != nil {
			tell(c.events, c.cfg.OnStoreError, err)
		}
	case actConnect:
		ctx, cancel := context.WithCancel(context.Background())
		c.conn++
		c.cancelDial, c.fault = cancel, nil
		go c.dial(ctx, c.conn, it.address)
	case actDisconnect:
		c.conn++
		c.cancelDial()
		if c.link != nil {
			c.link.close()
		}
	case actAnswer:
		if answer := c.asked[it.number]; answer != nil {
			delete(c.asked, it.number)
			answer <- it
		}
	case Message:
		c.events.add(func() {
			if c.cfg.OnMessage(it) == nil && !c.cfg.ManualAck {
				c.has(it.Place)
			}
		})
	case Event:
		c.events.add(func() {
			if c.cfg.OnEvent != nil {
				c.cfg.OnEvent(it)
			}
			if c.cfg.OnEvent == nil || !c.cfg.ManualAck {
				c.has(it.Place)
			}
		})
	case State:
		c.tellState(it)
	case Sent:
		tell(c.events, c.cfg.OnSent, it)
	case Failed:
		tell(c.events, c.cfg.OnFailed, it)
	case Told:
		tell(c.events, c.cfg.OnTold, it)
	}
}

func (c *Client) tellState(it State) {
	if it.Name == Waiting {
		it.Until, it.Fault = c.at(it.untilMs), c.fault
	}
	tell(c.events, c.cfg.OnState, it)
	if it.Name == Ended {
		if it.Why != "closed" {
			c.why = &EndedError{it.Why}
		}
		close(c.over)
	}
}

func tell[T any](events *queue, handler func(T), what T) {
	if handler != nil {
		events.add(func() { handler(what) })
	}
}

// has is called by callbacks; settle follows when no more of them are due.
func (c *Client) has(place uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places = append(c.places, place)
}

// settle acknowledges together what callbacks have handled.
func (c *Client) settle() {
	c.mu.Lock()
	places := c.places
	c.places = nil
	c.mu.Unlock()
	if len(places) > 0 {
		c.turn(func(now int64) {
			for _, place := range places {
				c.machine.inbox.release(now, place)
			}
		})
	}
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

// ---- the connection -----------------------------------------------------------------------------

func (c *Client) dial(ctx context.Context, conn uint64, address string) {
	proof, why := c.cfg.Proof, ""
	var err error
	if c.cfg.Credentials != nil {
		if proof, err = c.cfg.Credentials(ctx); err != nil {
			why = "credentials_failed"
		}
	}
	var stream net.Conn
	if err == nil {
		if stream, err = c.cfg.dial(ctx, address); err != nil {
			why = "unreachable"
			if errors.Is(err, errPin) {
				why = "pin_mismatch"
			}
		}
	}
	isSafe := err == nil && isSafe(c.cfg, stream)
	if err == nil && proof.Token+proof.LoginToken != "" && !isSafe {
		// A server that names another one cannot make the client show its token to a network.
		stream.Close()
		err, why = errors.New("im: a token needs TLS"), "insecure"
	}
	if why != "" {
		c.ofConnection(conn, func(now int64) {
			c.fault = err
			c.machine.lost(now, why)
		})
		return
	}
	isWanted := c.ofConnection(conn, func(now int64) {
		c.link = newLink(stream)
		go c.read(c.link, conn)
		c.machine.connected(now, proof, isSafe)
	})
	if !isWanted {
		stream.Close()
	}
}

// ofConnection is a turn about a connection; false if it is not the current one any more.
func (c *Client) ofConnection(conn uint64, do func(now int64)) (isCurrent bool) {
	c.turn(func(now int64) {
		if isCurrent = conn == c.conn; isCurrent {
			do(now)
		}
	})
	return isCurrent
}

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
			c.ofConnection(conn, func(now int64) { c.machine.received(now, buffer[:count]) })
			c.events.waitBelow(callbacksMax)
		}
		if err != nil {
			link.abort()
			c.ofConnection(conn, func(now int64) { c.machine.lost(now, "disconnected") })
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
	c.conn++
	c.isAborted = true
	c.machine.phase, c.machine.due = ended, never
	for number, answer := range c.asked {
		delete(c.asked, number)
		answer <- actAnswer{number, nil, &Error{Code: "disconnected"}}
	}
	if c.cancelDial != nil {
		c.cancelDial()
	}
	if c.link != nil {
		c.link.abort()
	}
	c.clock.WakeAt(time.Time{}, nil)
}

func nonce() string {
	var bytes [18]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err) // a system without randomness cannot prove anything
	}
	return hex.EncodeToString(bytes[:])
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
