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

	"holdline.example/miop"
	"holdline.example/miop/internal/wire"
)

type command struct {
	N             int             `json:"n"`
	Do            string          `json:"do"`
	Bytes         string          `json:"bytes"`
	FrameBytesMax int             `json:"frame_bytes_max"`
	Frame         json.RawMessage `json:"frame"`
	Ms            int64           `json:"ms"`
	ID            string          `json:"id"`
	Payload       string          `json:"payload"`
	ClientID      string          `json:"client_id"`
	Count         uint16          `json:"count"`
	Name          string          `json:"name"`
	ServerNonce   string          `json:"server_nonce"`
	ClientTs      string          `json:"client_ts"`
	ClientNonce   string          `json:"client_nonce"`
	options
}

type options struct {
	Addresses   []string `json:"addresses"`
	Product     string   `json:"product"`
	Device      string   `json:"device"`
	Secret      string   `json:"secret"`
	KeyID       uint32   `json:"key_id"`
	Token       string   `json:"token"`
	Tags        []string `json:"tags"`
	Acknowledge string   `json:"acknowledge"`
	Heartbeat   *struct{ Shortest, First, Longest int64 }
	Wish        int64           `json:"heartbeat_wish"`
	MaxInflight uint16          `json:"max_inflight"`
	Pulls       bool            `json:"pulls"`
	Random      *float64        `json:"random"`
	WallMs      *int64          `json:"wall_ms"`
	State       string          `json:"state"`
	TLS         *secure         `json:"tls"`
	Proxy       string          `json:"proxy"`
	Caps        json.RawMessage `json:"caps"`
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
	client *miop.Client
	clock  *clock
	store  *miop.MemoryStore
	cancel context.CancelFunc
	life   int // of the client: what one that was killed still says is not printed
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
		if errors.Is(err, miop.ErrQueueFull) {
			reply["error"] = "queue_full"
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
		return answer{"library": "miop-go", "version": miop.Version,
			"features": []string{"tls", "pins", "socks5", "http_connect", "detail"}}, nil
	case "decode":
		return decode(c)
	case "encode":
		return encode(c)
	case "mac":
		return mac(c)
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
		d.nextLife()
		d.cancel()
		d.client = nil
		return answer{"state": string(must(d.store.Load()))}, nil
	case "acknowledge", "reject":
		id, err := strconv.ParseUint(c.ID, 10, 64)
		if err != nil {
			return nil, err
		}
		if c.Do == "reject" {
			return nil, d.client.Reject(id)
		}
		return nil, d.client.Ack(id)
	case "report":
		body := must(hex.DecodeString(c.Payload))
		if c.ClientID != "" {
			return answer{"client_id": c.ClientID}, d.client.ReportAs(c.ClientID, body)
		}
		name, err := d.client.Report(body)
		return answer{"client_id": name}, err
	case "opened", "dismissed":
		id, err := strconv.ParseUint(c.ID, 10, 64)
		if err != nil {
			return nil, err
		}
		report := d.client.Opened
		if c.Do == "dismissed" {
			report = d.client.Dismissed
		}
		name, err := report(id)
		return answer{"client_id": name}, err
	case "pull":
		return nil, d.client.Pull(c.Count)
	case "nudge":
		d.client.Nudge()
		return nil, nil
	case "network":
		d.client.SetNetwork(c.Name)
		return nil, nil
	case "close":
		d.client.Close()
		return nil, nil
	}
	return nil, errors.New("unknown command " + c.Do)
}

func decode(c *command) (answer, error) {
	max := c.FrameBytesMax
	if max == 0 {
		max = wire.FrameBytesDefault
	}
	f, length, err := wire.ParseFrame(must(hex.DecodeString(c.Bytes)), max)
	var frame map[string]any
	if err == nil && length > 0 {
		frame, err = toJSON(&f)
	}
	var fault wire.Fault
	if errors.As(err, &fault) {
		return answer{"fault": string(fault)}, nil
	}
	if length == 0 {
		return answer{"more": true}, nil
	}
	return answer{"frame": frame, "length": length}, nil
}

func encode(c *command) (answer, error) {
	var in frameJSON
	if err := json.Unmarshal(c.Frame, &in); err != nil {
		return nil, err
	}
	f, err := fromJSON(&in)
	if err != nil {
		return nil, err
	}
	return answer{"bytes": hex.EncodeToString(f.Append(nil))}, nil
}

func mac(c *command) (answer, error) {
	claim := wire.Claim{Product: c.Product, Device: c.Device,
		ClientTs: must(strconv.ParseUint(c.ClientTs, 10, 64))}
	copy(claim.ClientNonce[:], must(hex.DecodeString(c.ClientNonce)))
	if err := json.Unmarshal(c.Caps, &claim.Caps); err != nil {
		return nil, err
	}
	signed := claim.Mac(must(hex.DecodeString(c.Secret)), must(hex.DecodeString(c.ServerNonce)))
	return answer{"mac": hex.EncodeToString(signed)}, nil
}

func (d *driver) open(c *command) error {
	life, wall := d.nextLife(), int64(1_700_000_000_000)
	if c.WallMs != nil {
		wall = *c.WallMs
	}
	d.clock = &clock{begin: time.UnixMilli(wall)}
	d.clock.now = d.clock.begin
	d.store = &miop.MemoryStore{}
	if c.State != "" {
		if err := d.store.Save([]byte(c.State)); err != nil {
			return err
		}
	}
	random := 0.5
	if c.Random != nil {
		random = *c.Random
	}
	o := miop.Options{Addresses: c.Addresses, Product: c.Product, Device: c.Device,
		Tags: c.Tags, Proxy: c.Proxy, Store: d.store, Window: c.MaxInflight, Pulls: c.Pulls,
		ManualAck: c.Acknowledge == "manual", Clock: d.clock,
		Random: func() float64 { return random }}
	if c.Secret != "" {
		o.Secret, o.KeyID = must(hex.DecodeString(c.Secret)), c.KeyID
	}
	if c.Token != "" {
		o.Token = func(context.Context) (string, error) { return c.Token, nil }
	}
	if h := c.Heartbeat; h != nil {
		o.Heartbeat = miop.HeartbeatRange{Shortest: time.Duration(h.Shortest) * time.Second,
			First: time.Duration(h.First) * time.Second, Longest: time.Duration(h.Longest) * time.Second}
	}
	o.HeartbeatWish = time.Duration(c.Wish) * time.Second
	if c.TLS != nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(must(os.ReadFile(c.TLS.CA)))
		o.TLS, o.Pins = &tls.Config{RootCAs: pool, ServerName: c.TLS.Name}, c.TLS.Pins
	}
	d.listen(&o, life)
	client, err := miop.New(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.client, d.cancel = client, cancel
	go client.Run(ctx)
	return nil
}

func (d *driver) nextLife() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.life++
	return d.life
}

// listen prints what happens to a client while it lives.
func (d *driver) listen(o *miop.Options, life int) {
	say := func(what answer) {
		d.mu.Lock()
		alive := d.life == life
		d.mu.Unlock()
		if alive {
			d.print(what)
		}
	}
	begin := d.clock.begin
	o.OnPush = func(p miop.Push) error {
		say(answer{"event": "push", "id": strconv.FormatUint(p.ID, 10), "app_id": p.AppID,
			"silent": p.Silent, "high": p.High, "expire_at": p.ExpireAt,
			"collapse": hex.EncodeToString([]byte(p.CollapseKey)),
			"body":     hex.EncodeToString(p.Body)})
		return nil
	}
	o.OnFrame = func(opcode byte) { say(answer{"event": "frame", "opcode": opcode}) }
	o.OnStored = func(name string) { say(answer{"event": "stored", "client_id": name}) }
	o.OnPulled = func(remaining int) { say(answer{"event": "pulled", "remaining": remaining}) }
	o.OnState = func(s miop.State) {
		what := answer{"event": "state", "state": s.Name}
		switch s.Name {
		case miop.Connecting:
			what["address"] = s.Address
		case miop.Bound:
			what["resumed"], what["heartbeat"] = s.Resumed, s.HeartbeatS
			what["offline_count"] = s.OfflineCount
		case miop.Waiting:
			what["until"], what["why"] = s.Until.Sub(begin).Milliseconds(), s.Why
			what["detail"] = fmt.Sprint(s.Fault)
		case miop.Ended:
			what["why"] = s.Why
			if s.Result != 0 {
				what["result"] = s.Result
			}
		}
		say(what)
	}
}

// clock is set by the suite.
type clock struct {
	mu    sync.Mutex
	begin time.Time
	now   time.Time
	at    time.Time
	wake  func()
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) WakeAt(at time.Time, wake func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.wake = at, wake
}

// set runs what is due at a time.
func (c *clock) set(ms int64) {
	c.mu.Lock()
	c.now = c.begin.Add(time.Duration(ms) * time.Millisecond)
	c.mu.Unlock()
	for c.isDue() {
		c.mu.Lock()
		wake := c.wake
		c.mu.Unlock()
		wake()
	}
}

func (c *clock) isDue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.at.IsZero() && !c.at.After(c.now)
}

// next is the time of the timer, nil without one.
func (c *clock) next() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return nil
	}
	return c.at.Sub(c.begin).Milliseconds()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
