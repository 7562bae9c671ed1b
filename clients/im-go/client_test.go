package im

// Behaviour that the conformance suite cannot see: the order of actions, options, callbacks.

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"holdline.example/im/internal/wire"
	"holdline.example/im/pb"
)

func answer(frame *pb.ServerFrame) []byte {
	body, err := proto.Marshal(frame)
	if err != nil {
		panic(err)
	}
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

func loggedIn() []byte {
	terms := &pb.LoggedIn{Account: "ann@a.example", SilenceS: 60, PageMessagesMax: 8,
		TextBytesMax: 1_000, ExtraBytesMax: 100, RequestsMax: 8}
	return answer(&pb.ServerFrame{Answer: &pb.ServerFrame_LoggedIn{LoggedIn: terms}})
}

func message(place uint64) []byte {
	said := &pb.ChatMessage{Id: place, Seq: place, From: "bob@a.example", To: "ann@a.example",
		ClientId: make([]byte, 16), Content: &pb.Content{Text: "hi"}}
	entry := &pb.InboxEntry{Seq: place, Message: said}
	return answer(&pb.ServerFrame{Answer: &pb.ServerFrame_Message{Message: entry}})
}

func refused(reason pb.Reason) []byte {
	return answer(&pb.ServerFrame{Answer: &pb.ServerFrame_Refused{
		Refused: &pb.Refused{Reason: reason}}})
}

func onlineMachine() *machine {
	m := newMachine(&Options{Addresses: []string{"127.0.0.1:1"}, Account: "ann", Device: "phone"},
		func() float64 { return 0.5 }, func() string { return "nonce" })
	m.start(0)
	m.connected(0, Credentials{}, true)
	m.received(0, loggedIn())
	m.takeActions(0)
	return m
}

func TestAMessageIsSavedBeforeItIsSent(t *testing.T) {
	m := onlineMachine()
	if err := m.send(&queued{[16]byte{1}, "bob", &pb.Content{Text: "hi"}}); err != nil {
		t.Fatal(err)
	}
	actions := m.takeActions(0)
	_, isSave := actions[0].(actSave)
	_, isWrite := actions[1].(actWrite)
	if len(actions) != 2 || !isSave || !isWrite {
		t.Fatalf("%#v", actions)
	}
}

func TestTheStateOfAnotherAccountIsNotUsed(t *testing.T) {
	m := onlineMachine()
	if err := m.send(&queued{[16]byte{1}, "bob", &pb.Content{Text: "hi"}}); err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]int{"ann": 1, "carol": 0} {
		other := newMachine(&Options{Account: account, Device: "phone"}, nil, nil)
		if err := other.restore(m.state()); err != nil || len(other.outbox.queue) != want {
			t.Errorf("%s: %d, %v", account, len(other.outbox.queue), err)
		}
	}
	for _, bad := range []string{"{", "[]", `{"v":9}`,
		`{"v":1,"of":["ann","phone"],"queue":[{"client_id":"x"}]}`} {
		if onlineMachine().restore([]byte(bad)) == nil {
			t.Error("read: " + bad)
		}
	}
}

func TestADamagedFrameIsAFrameAFaultOrIncomplete(t *testing.T) {
	source := rand.New(rand.NewSource(1))
	faults := map[wire.Fault]bool{}
	for round := 0; round < 20_000; round++ {
		data := append([]byte(nil), [][]byte{loggedIn(), message(7)}[round%2]...)
		for count := source.Intn(3); count >= 0; count-- {
			data[source.Intn(len(data))] = byte(source.Intn(256))
		}
		_, length, err := wire.Decode(data, wire.FrameBytesMax)
		var fault wire.Fault
		if errors.As(err, &fault) {
			faults[fault] = true
		} else if err != nil || length > len(data) {
			t.Fatal(length, err)
		}
	}
	if !faults["malformed"] || len(faults) > 3 {
		t.Error(faults)
	}
}

func TestNonsenseIsRefusedWhenTheClientIsMade(t *testing.T) {
	good := Options{Addresses: []string{"127.0.0.1:1"}, Account: "ann", Device: "phone",
		OnMessage: func(Message) error { return nil }}
	client, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Options){
		"no address": func(o *Options) { o.Addresses = nil },
		"no port":    func(o *Options) { o.Addresses = []string{"here"} },
		"no account": func(o *Options) { o.Account = "" },
		"no handler": func(o *Options) { o.OnMessage = nil },
		"a pin":      func(o *Options) { o.Pins = []string{"sha256/x"} },
		"a proxy":    func(o *Options) { o.Proxy = "ftp://x:1" },
	} {
		bad := good
		spoil(&bad)
		if _, err := New(bad); err == nil {
			t.Error("accepted: " + name)
		}
	}
	if client.SendAs("beef", "bob", &pb.Content{}) == nil {
		t.Error("a short client id")
	}
	if _, err := client.Send("bob", "\xff"); err == nil {
		t.Error("a text that is not UTF-8")
	}
	if _, err := client.Request(context.Background(), &pb.ClientFrame{}); err == nil {
		t.Error("a request without a connection")
	}
}

// serve plays a server: it answers each Login with these bytes.
func serve(t *testing.T, said []byte) (address string, acknowledged chan uint64) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	acknowledged = make(chan uint64, 16)
	go func() {
		for {
			stream, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { stream.Close() })
			go func() {
				in := bufio.NewReader(stream)
				_, _ = in.Discard(len(wire.Preface))
				for {
					size, err := binary.ReadUvarint(in)
					body := make([]byte, size)
					if _, bad := io.ReadFull(in, body); err != nil || bad != nil {
						return
					}
					frame := &pb.ClientFrame{}
					if proto.Unmarshal(body, frame) != nil {
						return
					}
					if frame.GetLogin() != nil {
						_, _ = stream.Write(said)
					} else if it := frame.GetAcknowledge(); it != nil {
						acknowledged <- it.Upto
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), acknowledged
}

func TestAHandlerThatFailsKeepsItsMessage(t *testing.T) {
	address, _ := serve(t, append(loggedIn(), append(message(1), message(2)...)...))
	store, seen := FileStore(filepath.Join(t.TempDir(), "state")), make(chan uint64, 2)
	options := Options{Addresses: []string{address}, Account: "ann", Device: "phone", Store: store,
		OnMessage: func(m Message) error {
			seen <- m.Place
			if m.Place == 2 {
				return errors.New("disk full")
			}
			return nil
		}}
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- client.Run(context.Background()) }()
	<-seen
	<-seen
	client.Flush()
	client.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	again, err := New(options)
	if err != nil || again.machine.inbox.done != 1 {
		t.Error(again.machine.inbox.done, err)
	}
}

func TestARefusalIsReturned(t *testing.T) {
	address, _ := serve(t, refused(pb.Reason_REASON_NOT_AUTHORIZED))
	client, err := New(Options{Addresses: []string{address}, Account: "ann", Device: "phone",
		OnMessage: func(Message) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	var end *EndedError
	if err := client.Run(context.Background()); !errors.As(err, &end) || end.Why != "not_authorized" {
		t.Error(err)
	}
}
