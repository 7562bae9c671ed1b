package miop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"holdline.example/miop/internal/wire"
)

// Options of a client. Addresses, Product, Device and OnPush are required.
type Options struct {
	// Addresses of servers, host:port, tried in turn.
	Addresses []string
	// Product and Device name the device (docs/wire/miop.md, section 8).
	Product, Device string

	// Secret and KeyID prove the device with a secret of its product (HMAC).
	Secret []byte
	KeyID  uint32
	// Token proves it with a token that the API made. It is called for each connection, so it may
	// fetch a new one. Tokens are sent over TLS, or to this machine.
	Token func(context.Context) (string, error)
	// Tags of the device: nil leaves them, an empty list removes them, others replace them.
	Tags []string

	// TLS encrypts the connection. Without a ServerName the certificate must be for the host of
	// the first address, also where the server sends the client elsewhere. With Certificates the
	// device is proved by its certificate.
	TLS *tls.Config
	// Pins are sha256/BASE64 of public keys (SubjectPublicKeyInfo). With pins, one key of the
	// server's verified certificates must be among them.
	Pins []string
	// Proxy is socks5://user:password@host:port or http://user:password@host:port (CONNECT).
	Proxy string

	// OnPush gets each push once. The push is acknowledged when it returns nil; after an error the
	// server sends it again. One push is handed out at a time, in the order of arrival.
	OnPush func(Push) error
	// ManualAck leaves the acknowledgement to Client.Ack and Client.Reject; OnPush then only says
	// with an error that it does not want the push now.
	ManualAck bool
	// OnState, OnStored (the server has taken a Report) and OnPulled (so many stored pushes
	// remain) are called in order, from one goroutine. All may be nil.
	OnState  func(State)
	OnStored func(clientID string)
	OnPulled func(remaining int)

	// Store keeps the client's state; nil: in memory.
	Store Store
	// Window is the wish for unacknowledged pushes at once; 0: the server's.
	Window uint16
	// Pulls: stored pushes are not sent before the client asks for them with Pull.
	Pulls bool
	// Network is where the device is now, in a word of the application's: "home", "cell". The
	// heartbeat that a network lets live is remembered for each.
	Network string
	// Heartbeat: zeros are 30 s, 120 s and 30 min.
	Heartbeat HeartbeatRange
	// HeartbeatWish is the heartbeat that is asked for; 0: the product's default. PINGs are never
	// further apart than what is agreed.
	HeartbeatWish time.Duration
	// BackoffFirst and BackoffLongest bound the waits between attempts; zeros: 1 s and 60 s.
	BackoffFirst, BackoffLongest time.Duration

	// Clock, Random (from 0 up to 1) and OnFrame (after each frame that was handled) are for tests.
	Clock   Clock
	Random  func() float64
	OnFrame func(opcode byte)
}

// HeartbeatRange bounds the heartbeat; First is where the search begins.
type HeartbeatRange struct{ Shortest, First, Longest time.Duration }

// Push is a message of the server.
type Push struct {
	// ID is unique. A push that is handed out again after a crash has the same one.
	ID    uint64
	AppID uint32
	// Silent: show nothing. High: it may have overtaken others.
	Silent, High bool
	// ExpireAt is the Unix second after which the push means nothing; 0: it meant "now".
	ExpireAt uint32
	// CollapseKey: a newer push replaces an older one with the same key; empty: none.
	CollapseKey string
	Body        []byte
}

// Names of states.
const (
	Connecting = "connecting"
	Binding    = "binding"
	Bound      = "bound"
	Waiting    = "waiting"
	Closing    = "closing"
	Ended      = "ended"
)

// State is what a client does now.
type State struct {
	Name string
	// Address of Connecting.
	Address string
	// Of Bound: whether an earlier session goes on, the agreed heartbeat, and stored pushes.
	Resumed      bool
	HeartbeatS   int
	OfflineCount int
	// Until is the end of Waiting.
	Until time.Time
	// Why, of Waiting and Ended: a fault or result of docs/wire/miop.md, or connect_failed,
	// connect_timeout, bind_timeout, lost, no_pong, pin_mismatch, closed.
	Why string
	// Fault, of Waiting: what was wrong with the connection; nil if that is not known.
	Fault error
	// Result of Ended, 0 without one.
	Result Result
}

// String is the name, and why: for logs.
func (s State) String() string {
	switch {
	case s.Why == "":
		return s.Name
	case s.Fault == nil:
		return s.Name + " (" + s.Why + ")"
	default:
		return s.Name + " (" + s.Why + ": " + s.Fault.Error() + ")"
	}
}

// settings are Options that were checked.
type settings struct {
	Options
	addresses                        []string
	secret                           []byte
	network                          string
	shortestS, firstS, longestS      int64
	wishS                            int64
	backoffFirstMs, backoffLongestMs int64
	serverName                       string
	proxy                            *url.URL
}

func (s *settings) identity() string { return s.Product + "\n" + s.Device }

func check(o Options) (*settings, error) {
	s := &settings{Options: o, addresses: append([]string{}, o.Addresses...), secret: o.Secret,
		network: o.Network}
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	if err := s.checkConnection(); err != nil {
		return nil, err
	}
	seconds := func(d time.Duration, none int64) int64 {
		if d <= 0 {
			return none
		}
		return maxOf(1, minOf(int64(d/time.Second), 65_535))
	}
	s.shortestS = seconds(o.Heartbeat.Shortest, 30)
	s.firstS = seconds(o.Heartbeat.First, 120)
	s.longestS = seconds(o.Heartbeat.Longest, 1800)
	s.wishS = seconds(o.HeartbeatWish, 0)
	if s.shortestS > s.longestS {
		return nil, errors.New("miop: Heartbeat.Shortest is longer than Heartbeat.Longest")
	}
	millis := func(d time.Duration, none int64) int64 {
		if d <= 0 {
			return none
		}
		return d.Milliseconds()
	}
	s.backoffFirstMs = millis(o.BackoffFirst, 1_000)
	s.backoffLongestMs = maxOf(millis(o.BackoffLongest, 60_000), s.backoffFirstMs)
	if s.Store == nil {
		s.Store = &MemoryStore{}
	}
	return s, nil
}

func (s *settings) checkNames() error {
	if err := checkName("Product", s.Product, wire.ProductBytesMax); err != nil {
		return err
	}
	if err := checkName("Device", s.Device, wire.NameBytesMax); err != nil {
		return err
	}
	if len(s.Tags) > wire.TagsMax {
		return errors.New("miop: too many Tags")
	}
	for _, tag := range s.Tags {
		if err := checkName("each of Tags", tag, wire.NameBytesMax); err != nil {
			return err
		}
	}
	if s.OnPush == nil {
		return errors.New("miop: OnPush is missing")
	}
	return nil
}

func checkName(what, name string, bytesMax int) error {
	if wire.IsName(name, bytesMax) {
		return nil
	}
	return fmt.Errorf("miop: %s is 1 to %d letters, digits and . _ - + : / =, not %q",
		what, bytesMax, name)
}

func (s *settings) checkConnection() error {
	if len(s.Addresses) == 0 {
		return errors.New("miop: Addresses is empty")
	}
	for _, address := range s.Addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return errors.New("miop: an address is not host:port: " + address)
		}
		if s.Token != nil && s.TLS == nil && (s.Proxy != "" || !isLoopback(host)) {
			return errors.New("miop: a Token needs TLS")
		}
	}
	if s.TLS != nil {
		s.serverName = s.TLS.ServerName
		if s.serverName == "" {
			s.serverName, _, _ = net.SplitHostPort(s.Addresses[0])
		}
	}
	for _, pin := range s.Pins {
		if s.TLS == nil || !strings.HasPrefix(pin, pinPrefix) {
			return errors.New("miop: Pins are " + pinPrefix + "BASE64, and need TLS")
		}
	}
	if s.Proxy != "" {
		proxy, err := url.Parse(s.Proxy)
		if err != nil || (proxy.Scheme != "socks5" && proxy.Scheme != "http") || proxy.Port() == "" {
			return errors.New("miop: Proxy is socks5://host:port or http://host:port")
		}
		s.proxy = proxy
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
