package im

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"holdline.example/im/pb"
)

// Credentials prove an account: one of these, or nothing.
type Credentials struct {
	// Password is proved by SCRAM-SHA-256, which does not show it. A server without SCRAM gets it
	// only over TLS, or on this machine.
	Password string
	// Token of an identity provider; it is sent as it is.
	Token string
	// LoginToken that RequestToken gave to this device; it is proved and not shown.
	LoginToken string
}

// String hides the secrets.
func (Credentials) String() string { return "Credentials(…)" }

// Options of a client. Addresses, Account, Device and OnMessage are required.
type Options struct {
	// Addresses of servers, host:port, tried in turn.
	Addresses []string
	// Account is a name, or name@domain; Device the device's own name, the same each time.
	Account, Device string

	// Proof of the account. Token and LoginToken are sent only over TLS, or to this machine.
	Proof Credentials
	// Credentials is called before each connection instead, so it may fetch a new token.
	Credentials func(context.Context) (Credentials, error)

	// TLS encrypts the connection. Without a ServerName the certificate must be for the host of
	// the first address, also where the server sends the client elsewhere.
	TLS *tls.Config
	// Pins are sha256/BASE64 of public keys (SubjectPublicKeyInfo). With pins, one key of the
	// server's verified certificates must be among them.
	Pins []string
	// Proxy is socks5://user:password@host:port or http://user:password@host:port (CONNECT).
	Proxy string

	// OnMessage gets each message once, one at a time, in the order of the inbox. It is
	// acknowledged when OnMessage returns nil; after an error it comes again in a new process.
	OnMessage func(Message) error
	// ManualAck leaves the acknowledgement of messages and events to Client.Ack.
	ManualAck bool
	// OnEvent gets what else is in the inbox: read cursors and settings. These and the following
	// are called in order with OnMessage, from one goroutine, and may be nil.
	OnEvent func(Event)
	// OnSent: a message is stored. OnFailed: the server refused it, and it is given up.
	OnSent   func(Sent)
	OnFailed func(Failed)
	// OnTold gets what has no place in the inbox: presence, typing, chatrooms.
	OnTold  func(Told)
	OnState func(State)

	// Store keeps the client's state; nil: in memory. OnStoreError hears of a Save that failed: the
	// client goes on, and saves again with the next change.
	Store        Store
	OnStoreError func(error)
	// SilenceS is the longest silence of the client that it asks for, seconds; 0: the server's.
	SilenceS uint32

	// Clock and Random (from 0 up to 1, for jitter) are for tests; nil: the system's. OnFrame is
	// called after each frame that was handled, with the name of its answer.
	Clock   Clock
	Random  func() float64
	OnFrame func(answer string)
}

// Names of states.
const (
	Connecting = "connecting"
	Online     = "online"
	Waiting    = "waiting"
	Ended      = "ended"
)

// State is what a client does now.
type State struct {
	Name string
	// Address of Connecting.
	Address string
	// Account of Online, with its domain.
	Account string
	// Until is the end of Waiting.
	Until time.Time
	// Why of Waiting and Ended: a word of IM 8.1, or unreachable, disconnected, timed_out,
	// pin_mismatch, insecure, credentials_failed, server_malformed, server_not_proved, closed.
	Why string
	// Fault, of Waiting: what was wrong with the connection; nil if that is not known.
	Fault error

	untilMs int64
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

// Message is a message of the inbox.
type Message struct {
	// Place in the inbox.
	Place uint64
	// Peer is the conversation: the other account, or the group. Sender said it.
	Peer, Sender string
	Text         string
	// Raw is the protocol's own message, with everything that is not here.
	Raw *pb.ChatMessage
}

func newMessage(entry *pb.InboxEntry, account string) Message {
	raw := entry.GetMessage()
	it := Message{Place: entry.GetSeq(), Peer: raw.GetFrom(), Sender: raw.GetFrom(),
		Text: raw.GetContent().GetText(), Raw: raw}
	_, domain, _ := strings.Cut(raw.GetTo(), "@")
	isMany := strings.HasPrefix(domain, "conference.") || strings.HasPrefix(domain, "live.")
	if it.Sender == account || isMany {
		it.Peer = raw.GetTo()
	}
	return it
}

// Event is something else at a place of the inbox (IM 11.1).
type Event struct {
	Place uint64
	Peer  string
	Raw   *pb.InboxEvent
}

// Sent says that a message is stored.
type Sent struct {
	// ClientID is what Send returned.
	ClientID, To string
	// ID is the server's number for it, Seq its place in the conversation.
	ID, Seq, AtMs uint64
}

// Failed says that a message is given up.
type Failed struct {
	ClientID, To string
	Err          *Error
}

// Told is something without a place in the inbox: the name of the frame's answer, and the frame.
type Told struct {
	Name  string
	Frame *pb.ServerFrame
}

func hexID(id [16]byte) string { return hex.EncodeToString(id[:]) }

// settings are options that were checked.
type settings struct {
	Options
	serverName string
	proxy      *url.URL
}

func check(o Options) (*settings, error) {
	s := &settings{Options: o}
	if err := checkName("Account", o.Account, 320); err != nil {
		return nil, err
	}
	if err := checkName("Device", o.Device, 64); err != nil {
		return nil, err
	}
	if o.OnMessage == nil {
		return nil, errors.New("im: OnMessage is missing")
	}
	if s.Store == nil {
		s.Store = &MemoryStore{}
	}
	return s, s.checkConnection()
}

func checkName(what, name string, bytesMax int) error {
	if name != "" && len(name) <= bytesMax && utf8.ValidString(name) {
		return nil
	}
	return fmt.Errorf("im: %s has 1 to %d bytes of UTF-8, not %q", what, bytesMax, name)
}

func (s *settings) checkConnection() error {
	if len(s.Addresses) == 0 {
		return errors.New("im: Addresses is empty")
	}
	for _, address := range s.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return errors.New("im: an address is not host:port: " + address)
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
			return errors.New("im: Pins are " + pinPrefix + "BASE64, and need TLS")
		}
	}
	if s.Proxy != "" {
		proxy, err := url.Parse(s.Proxy)
		if err != nil || (proxy.Scheme != "socks5" && proxy.Scheme != "http") || proxy.Port() == "" {
			return errors.New("im: Proxy is socks5://host:port or http://host:port")
		}
		s.proxy = proxy
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
