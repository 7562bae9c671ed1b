// Command conformance shows this library to clients/conformance: JSON lines on standard input and
// output, as the README there specifies.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"holdline.example/im"
	"holdline.example/im/internal/wire"
	"holdline.example/im/pb"
)

type command struct {
	N         int    `json:"n"`
	Do        string `json:"do"`
	Bytes     string `json:"bytes"`
	Method    string `json:"method"`
	Nonce     string `json:"nonce"`
	Challenge string `json:"challenge"`
	Ms        int64  `json:"ms"`
	To        string `json:"to"`
	Text      string `json:"text"`
	ClientID  string `json:"client_id"`
	Seq       uint64 `json:"seq"`
	With      string `json:"with"`
	Count     uint32 `json:"count"`
	Name      string `json:"name"`

	Addresses   []string `json:"addresses"`
	Account     string   `json:"account"`
	Device      string   `json:"device"`
	Password    string   `json:"password"`
	Token       string   `json:"token"`
	LoginToken  string   `json:"login_token"`
	SilenceS    uint32   `json:"silence_s"`
	Acknowledge string   `json:"acknowledge"`
	Random      *float64 `json:"random"`
	State       string   `json:"state"`
	TLS         *secure  `json:"tls"`
	Proxy       string   `json:"proxy"`
}

type secure struct {
	CA   string   `json:"ca"`
	Name string   `json:"name"`
	Pins []string `json:"pins"`
}

type answer map[string]any

// driver has one client at a time.
type driver struct {
	mu     sync.Mutex // of the output
	out    *json.Encoder
	client *im.Client
	clock  *clock
	store  *im.MemoryStore
	cancel context.CancelFunc
	life   int // of the client: what one that was killed still says is not printed
	asks   int
}

func main() {
	d := &driver{out: json.NewEncoder(os.Stdout)}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		reply, err := d.do(&c)
		if d.client != nil {
			d.client.Flush()
		}
		if c.Do == "time" && err == nil {
			reply = answer{"next": d.clock.next()}
		}
		if reply == nil {
			reply = answer{}
		}
		var refused *im.Error
		if errors.As(err, &refused) {
			reply["error"] = refused.Code
		} else if err != nil {
			reply["error"] = err.Error()
		}
		reply["n"] = c.N
		d.print(reply)
	}
}

func (d *driver) print(what answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.out.Encode(what); err != nil {
		os.Exit(1)
	}
}

func (d *driver) do(c *command) (answer, error) {
	switch c.Do {
	case "hello":
		return answer{"library": "im-go", "version": im.Version,
			"features": []string{"manual", "heartbeat", "schema", "tls", "pins", "socks5", "http_connect", "detail"}}, nil
	case "decode":
		return decode(must(hex.DecodeString(c.Bytes))), nil
	case "schema":
		return answer{"fields": schema()}, nil
	case "prove":
		return prove(c), nil
	case "open":
		return nil, d.open(c)
	case "time":
		d.client.Flush()
		// A turn that began before arms its timer at its end: so until nothing is due.
		for d.clock.set(c.Ms); d.clock.isDue(); d.clock.set(c.Ms) {
			d.client.Flush()
		}
		return nil, nil
	case "kill":
		d.client.Flush()
		d.nextLife()
		d.cancel()
		d.client = nil
		return answer{"state": string(must(d.store.Load()))}, nil
	case "acknowledge":
		if !d.client.Ack(c.Seq) {
			return nil, errors.New("unknown")
		}
		return nil, nil
	case "send":
		return d.send(c)
	case "history":
		return d.history(c), nil
	case "network":
		d.client.SetNetwork(c.Name)
		return nil, nil
	case "nudge":
		d.client.Nudge()
		return nil, nil
	case "close":
		d.client.Close()
		return nil, nil
	}
	return nil, errors.New("unknown command " + c.Do)
}

func decode(data []byte) answer {
	frame, length, err := wire.Decode(data, wire.FrameBytesMax)
	var fault wire.Fault
	switch {
	case errors.As(err, &fault):
		return answer{"fault": string(fault)}
	case length == 0:
		return answer{"more": true}
	}
	text := must(protojson.MarshalOptions{UseProtoNames: true}.Marshal(frame))
	out := answer{"answer": nil, "length": length, "json": json.RawMessage(text)}
	if name, _ := wire.Inside(frame); name != "" {
		out["answer"] = name
	}
	return out
}

func schema() map[string]int {
	fields := map[string]int{}
	messages := pb.File_im_proto.Messages()
	for at := 0; at < messages.Len(); at++ {
		message := messages.Get(at)
		for of := 0; of < message.Fields().Len(); of++ {
			field := message.Fields().Get(of)
			fields[string(message.Name())+"."+string(field.Name())] = int(field.Number())
		}
	}
	return fields
}

func prove(c *command) answer {
	if c.Token != "" {
		first, proof := wire.HashedToken(c.Account, c.Token)
		return answer{"first": hex.EncodeToString(first), "proof": hex.EncodeToString(proof)}
	}
	scram := wire.NewScram(c.Account, c.Password, c.Nonce)
	data, proof, _ := scram.Answer([]byte(c.Challenge))
	return answer{"first": string(scram.First()), "answer": string(data), "proof": string(proof)}
}

func (d *driver) open(c *command) error {
	life := d.nextLife()
	d.clock = &clock{begin: time.UnixMilli(0)}
	d.clock.now = d.clock.begin
	d.store = &im.MemoryStore{}
	if c.State != "" {
		if err := d.store.Save([]byte(c.State)); err != nil {
			return err
		}
	}
	random := 0.5
	if c.Random != nil {
		random = *c.Random
	}
	o := im.Options{Addresses: c.Addresses, Account: c.Account, Device: c.Device, Proxy: c.Proxy,
		Proof: im.Credentials{Password: c.Password, Token: c.Token, LoginToken: c.LoginToken},
		Store: d.store, SilenceS: c.SilenceS, ManualAck: c.Acknowledge == "manual", Clock: d.clock,
		Random: func() float64 { return random }}
	if c.TLS != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(must(os.ReadFile(c.TLS.CA)))
		o.TLS, o.Pins = &tls.Config{RootCAs: pool, ServerName: c.TLS.Name}, c.TLS.Pins
	}
	d.listen(&o, life)
	client, err := im.New(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.client, d.cancel = client, cancel
	go client.Run(ctx)
	return nil
}

func (d *driver) send(c *command) (answer, error) {
	if c.ClientID == "" {
		id, err := d.client.Send(c.To, c.Text)
		return answer{"client_id": id}, err
	}
	content := &pb.Content{Kind: 1, Text: c.Text}
	return answer{"client_id": c.ClientID}, d.client.SendAs(c.ClientID, c.To, content)
}

// history is asked from here, and its answer awaited elsewhere.
func (d *driver) history(c *command) answer {
	d.asks++
	ask, client, life := d.asks, d.client, d.life
	asked := make(chan struct{})
	go func() {
		messages, hasMore, err := client.History(onceAsked{context.Background(), asked}, c.With,
			c.Count, 0)
		texts := []string{}
		for _, message := range messages {
			texts = append(texts, message.GetContent().GetText())
		}
		what := answer{"event": "history", "ask": ask, "texts": texts, "more": hasMore}
		var refused *im.Error
		if errors.As(err, &refused) {
			what = answer{"event": "history", "ask": ask, "error": refused.Code}
		}
		select {
		case <-asked:
		default:
			close(asked)
		}
		d.say(life, what)
	}()
	<-asked
	return answer{"ask": ask}
}

// onceAsked tells when a request waits for its answer.
type onceAsked struct {
	context.Context
	asked chan struct{}
}

func (o onceAsked) Done() <-chan struct{} {
	close(o.asked)
	return o.Context.Done()
}

func (d *driver) nextLife() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	return d.life
}

func (d *driver) say(life int, what answer) {
	d.mu.Lock()
	alive := d.life == life
	d.mu.Unlock()
	if alive {
		d.print(what)
	}
}

// listen prints what happens to a client while it lives.
func (d *driver) listen(o *im.Options, life int) {
	say := func(what answer) { d.say(life, what) }
	begin := d.clock.begin
	o.OnMessage = func(m im.Message) error {
		say(answer{"event": "message", "seq": m.Place, "id": strconv.FormatUint(m.Raw.GetId(), 10),
			"from": m.Sender, "to": m.Raw.GetTo(), "text": m.Text,
			"client_id": hex.EncodeToString(m.Raw.GetClientId())})
		return nil
	}
	o.OnEvent = func(e im.Event) { say(answer{"event": "event", "seq": e.Place, "with": e.Peer}) }
	o.OnSent = func(s im.Sent) {
		say(answer{"event": "sent", "client_id": s.ClientID, "id": strconv.FormatUint(s.ID, 10),
			"seq": s.Seq})
	}
	o.OnFailed = func(f im.Failed) {
		say(answer{"event": "failed", "client_id": f.ClientID, "why": f.Err.Code})
	}
	o.OnFrame = func(name string) { say(answer{"event": "frame", "answer": name}) }
	o.OnState = func(s im.State) {
		what := answer{"event": "state", "state": s.Name, "address": s.Address,
			"account": s.Account, "why": s.Why}
		if s.Name == im.Waiting {
			what["until"], what["detail"] = s.Until.Sub(begin).Milliseconds(), fmt.Sprint(s.Fault)
		}
		say(what)
	}
}
