package miop

// The decisions of a client: what to send when, and what becomes of what arrives.
//
//	idle ─start─► connecting ─► binding ─► bound ─stop─► closing ─► ended
//	                 ▲    │         │        │
//	                 │    └─────────┴────────┴─► waiting, or ended with a final result
//	                 └──────────────────────────────┘
//
// It knows no socket, no clock and no goroutine: time is an argument in milliseconds, and what is
// to be done is a call of its port. What a connection still says after its end is recognised by
// its number, and ignored.

import (
	"encoding/binary"
	"errors"

	"holdline.example/miop/internal/wire"
)

type phase int

const (
	idle phase = iota
	waiting
	connecting
	binding
	bound
	closing
	ended
)

// How long the other side may take, milliseconds.
const (
	connectMs = 15_000
	bindMs    = 15_000
	pongMs    = 30_000
	nudgeMs   = 10_000
	// A PING that is later than this tests no interval.
	lateMs  = 30_000
	closeMs = 5_000
)

const (
	never = int64(1)<<62 - 1
	// A hint of the server counts as at most an hour.
	hintMaxMs = 3_600_000
	// A session of at least this length was a good one: the next wait is short again.
	goodSessionMs = 10_000
	// Pushes that the application may hold, whatever a server sends.
	outstandingMax = 1024
)

// port is the outside of a machine.
type port interface {
	connect(conn uint64, address string)
	write(frames []byte)
	// disconnect closes the connection once what was written is sent, or gives up making it.
	disconnect()
	state(State)
	// stored: the server has taken a Report.
	stored(clientID string)
	pulled(remaining int)
	// save stores the record, so that it survives a crash.
	save(record []byte) error
	wallMs() int64
	nonce() [16]byte
}

// ending is how a connection ends, as far as the server has said so.
type ending struct {
	result Result // 0: it has not
	// retryMs is a hint; never without one.
	retryMs   int64
	addresses []string
	timeMs    int64 // the server's clock, 0: not said
}

type machine struct {
	cfg  *settings
	port port
	*memory
	addresses addresses
	reports   reports
	heartbeat heartbeat
	backoff   backoff

	phase phase
	conn  uint64
	// deadline of the phase: of a wait its end, of a connection the time at which it is given up.
	deadline int64
	// attempts to connect since a session ended.
	attempts int
	// clockMs is what the server's clock is ahead of ours, once it has refused ours.
	clockMs int64
	isClock bool

	in           []byte
	claim        wire.Claim
	isChallenged bool
	notice       ending // of an ERROR, if the server closes after it
	frameMax     int
	boundAt      int64
	saidAt       int64
	heardAt      int64
	awaitsPong   bool
	// testedS is the silence before the PING that is not answered yet; 0: it tests nothing.
	testedS int64

	isHandling  bool            // the application works on a push
	outstanding map[uint64]bool // handed to the application, which has not settled them
	toAck       []uint64
	isDirty     bool
}

func newMachine(cfg *settings, m *memory, port port, random func() float64) *machine {
	made := &machine{cfg: cfg, memory: m, port: port, deadline: never,
		addresses:   addresses{configured: cfg.addresses},
		backoff:     backoff{cfg.backoffFirstMs, cfg.backoffLongestMs, cfg.backoffFirstMs, random},
		heartbeat:   heartbeat{shortestS: cfg.shortestS, firstS: cfg.firstS, longestS: cfg.longestS},
		outstanding: map[uint64]bool{}, frameMax: wire.FrameBytesDefault}
	made.reports.begin(m, random)
	made.heartbeat.use(m.known(cfg.network))
	return made
}

// ---- from the application -----------------------------------------------------------------------

func (m *machine) start(now int64) {
	if m.phase == idle {
		m.connect(now)
	}
}

// stop says good-bye, if there is somebody to say it to.
func (m *machine) stop(now int64) {
	switch m.phase {
	case bound:
		m.port.state(State{Name: Closing})
		m.phase, m.deadline = closing, now+closeMs
		m.flush(now)
		m.send(now, &wire.Frame{Opcode: wire.OpUnbind})
	case closing, ended:
	default:
		m.finish("closed", 0)
	}
}

// settle is the application's answer to a push: it has it, or it wants it again.
func (m *machine) settle(id uint64, has bool) bool {
	if !m.outstanding[id] {
		return false
	}
	delete(m.outstanding, id)
	if has {
		m.seen.add(id)
		m.toAck = append(m.toAck, id)
		m.isDirty = true
	}
	return true
}

func (m *machine) report(now int64, body []byte, clientID string) error {
	isNew, err := m.reports.queue(body, clientID, m.frameMax)
	if err != nil || !isNew {
		return err
	}
	m.isDirty = true
	if err := m.remember(); err != nil {
		m.reports.unqueue()
		return err
	}
	m.sendReports(now)
	return nil
}

func (m *machine) pull(now int64, count uint16) error {
	if m.phase != bound {
		return ErrNotBound
	}
	var props wire.Properties
	if count > 0 {
		props.AddNumber(wire.KeyCount, uint64(count))
	}
	m.send(now, &wire.Frame{Opcode: wire.OpPull, Props: props})
	return nil
}

// nudge: the network is there again, or the device woke up. A client that waits tries at once, and
// a connection that seems to be there has to prove it.
func (m *machine) nudge(now int64) {
	switch m.phase {
	case waiting:
		m.connect(now)
	case bound:
		if !m.awaitsPong {
			m.ping(now, 0)
		}
		m.deadline = minOf(m.deadline, now+nudgeMs)
	}
}

func (m *machine) onNetwork(now int64, name string) {
	m.cfg.network = name
	m.heartbeat.use(m.known(name))
	m.learn(name, m.heartbeat.interval)
	m.isDirty, m.testedS = true, 0
	m.nudge(now)
}

// ---- the connection -----------------------------------------------------------------------------

func (m *machine) connect(now int64) {
	m.conn++
	m.attempts++
	m.phase, m.deadline = connecting, now+connectMs
	address := m.addresses.take()
	m.port.state(State{Name: Connecting, Address: address})
	m.port.connect(m.conn, address)
}

// connected: the connection is there. The token is the proof of a client with one.
func (m *machine) connected(now int64, conn uint64, token string) {
	if conn != m.conn || m.phase != connecting {
		return
	}
	m.in, m.toAck, m.notice, m.isChallenged = nil, nil, ending{retryMs: never}, false
	m.frameMax, m.awaitsPong, m.testedS = wire.FrameBytesDefault, false, 0
	m.heardAt = now
	m.phase, m.deadline = binding, now+bindMs
	m.port.state(State{Name: Binding})
	m.send(now, m.bind(token))
}

// closed: the connection ended, or could not be made.
func (m *machine) closed(now int64, conn uint64, why string) {
	if conn != m.conn {
		return
	}
	switch m.phase {
	case closing:
		m.finish("closed", 0)
	case connecting, binding, bound:
		m.lost(now, why)
	}
}

// feed adds what has arrived, in pieces of any size.
func (m *machine) feed(now int64, conn uint64, bytes []byte) {
	if !m.isOpen(conn) {
		return
	}
	m.in = append(m.in, bytes...)
	m.heardAt = now
	if m.awaitsPong {
		m.awaitsPong, m.deadline = false, never
	}
}

func (m *machine) isOpen(conn uint64) bool {
	return conn == m.conn && (m.phase == binding || m.phase == bound || m.phase == closing)
}

// step handles one frame of those that have arrived whole: its opcode, and the pushes in it that
// are new. Without such a frame there is nothing to do.
func (m *machine) step(now int64, conn uint64) (opcode byte, pushes []Push, found bool) {
	if !m.isOpen(conn) {
		return 0, nil, false
	}
	f, length, err := wire.ParseFrame(m.in, m.frameMax)
	if err == nil && length == 0 {
		return 0, nil, false
	}
	if err == nil {
		m.in = m.in[length:]
		if m.phase == binding {
			err = m.answer(now, &f)
		} else {
			pushes, err = m.frame(now, &f)
		}
	}
	var fault wire.Fault
	if errors.As(err, &fault) {
		m.port.disconnect()
		m.lost(now, string(fault))
	}
	return f.Opcode, pushes, true
}

// isPushNext says whether the next frame is there and brings pushes, too.
func (m *machine) isPushNext() bool {
	f, length, err := wire.ParseFrame(m.in, m.frameMax)
	return err == nil && length > 0 && f.Opcode == wire.OpMsg
}

// answer: before the session only these frames mean something.
func (m *machine) answer(now int64, f *wire.Frame) error {
	switch f.Opcode {
	case wire.OpBindAck:
		return m.bindAck(now, f)
	case wire.OpChallenge:
		if m.cfg.secret == nil || m.isChallenged {
			return wire.FaultOutOfOrder
		}
		m.isChallenged = true
		var props wire.Properties
		props.Add(wire.KeyMac, m.claim.Mac(m.cfg.secret, f.Props.Bytes(wire.KeyServerNonce)))
		m.send(now, &wire.Frame{Opcode: wire.OpAuth, Props: props})
	case wire.OpKick, wire.OpRedirect, wire.OpGoAway:
		m.dismissed(now, f)
	case wire.OpError:
		m.fault(now, f)
	default:
		if f.Opcode <= wire.OpError {
			return wire.FaultOutOfOrder
		}
	}
	return nil
}

func (m *machine) bindAck(now int64, f *wire.Frame) error {
	result, _ := f.Props.Number(wire.KeyResult)
	if Result(result) > ResultResumed {
		m.dismissed(now, f)
		return nil
	}
	epoch, hasEpoch := f.Props.Number(wire.KeySessionEpoch)
	token := f.Props.Bytes(wire.KeyResumeToken)
	if _, there := f.Props.Number(wire.KeyHeartbeat); !there || !hasEpoch || token == nil {
		return wire.FaultMissingProperty
	}
	m.epoch, m.token, m.isDirty = epoch, append([]byte{}, token...), true
	m.terms(&f.Props)
	m.heartbeat.bound(m.attempts == 1)
	m.note()
	m.phase, m.deadline, m.boundAt, m.attempts = bound, never, now, 0
	m.isClock = false
	m.addresses.followed = 0
	offline, _ := f.Props.Number(wire.KeyOfflineCount)
	m.port.state(State{Name: Bound, Resumed: Result(result) == ResultResumed,
		HeartbeatS: int(m.heartbeat.agreedS), OfflineCount: int(offline)})
	m.reports.connected()
	m.sendReports(now)
	return nil
}

// terms of a session, in BIND_ACK and CONFIG.
func (m *machine) terms(props *wire.Properties) {
	if seconds, there := props.Number(wire.KeyHeartbeat); there {
		m.heartbeat.agreedS = maxOf(int64(seconds), 1)
	}
	if most, there := props.Number(wire.KeyMaxFrame); there {
		m.frameMax = int(minOf(maxOf(int64(most), wire.FrameBytesUnbound), wire.FrameBytesMost))
	}
}

// frame handles one of a session.
func (m *machine) frame(now int64, f *wire.Frame) ([]Push, error) {
	switch f.Opcode {
	case wire.OpMsg:
		return m.message(f)
	case wire.OpPong:
		m.pong()
	case wire.OpReportAck:
		seq, _ := f.Props.Number(wire.KeyReportSeq)
		if m.reports.taken(uint32(seq), m.port) {
			m.isDirty = true
		}
		m.sendReports(now)
	case wire.OpConfig:
		m.terms(&f.Props)
	case wire.OpPull:
		remaining, _ := f.Props.Number(wire.KeyOfflineCount)
		m.port.pulled(int(remaining))
	case wire.OpKick, wire.OpRedirect, wire.OpGoAway:
		m.dismissed(now, f)
	case wire.OpError:
		m.fault(now, f)
	case wire.OpUnbindAck:
		if m.phase != closing {
			return nil, wire.FaultOutOfOrder
		}
		m.port.disconnect()
		m.finish("closed", 0)
	default:
		if f.Opcode <= wire.OpError {
			return nil, wire.FaultOutOfOrder
		}
	}
	return nil, nil
}

// message takes out what is new. What was acknowledged before is acknowledged again, since the
// server has not read that; what the application holds waits for the application.
func (m *machine) message(f *wire.Frame) (pushes []Push, err error) {
	records, err := wire.ParseRecords(f.Payload)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if m.seen.has[r.ID] {
			m.toAck = append(m.toAck, r.ID)
			continue
		}
		if m.outstanding[r.ID] || len(m.outstanding) >= outstandingMax {
			continue
		}
		m.outstanding[r.ID] = true
		pushes = append(pushes, Push{ID: r.ID, AppID: r.AppID,
			Silent: r.Flags&wire.RecordSilent != 0, High: r.Flags&wire.RecordHigh != 0,
			ExpireAt: r.ExpireAt, CollapseKey: string(r.Collapse),
			Body: append([]byte{}, r.Body...)})
	}
	return pushes, nil
}

// flush stores what happened, and then acknowledges it: with the ids of the pushes, since
// last_msg_id covers others that the application may still hold.
func (m *machine) flush(now int64) {
	if m.remember() != nil {
		return // nothing is acknowledged that is not stored; the next flush tries again
	}
	if len(m.toAck) == 0 || (m.phase != bound && m.phase != closing) {
		return
	}
	ack := &wire.Frame{Opcode: wire.OpMsgAck}
	for _, id := range m.toAck {
		ack.Payload = binary.BigEndian.AppendUint64(ack.Payload, id)
	}
	m.toAck = nil
	m.send(now, ack)
}

func (m *machine) remember() error {
	if !m.isDirty {
		return nil
	}
	m.memory.reports = m.reports.waiting
	err := m.port.save(m.memory.encode(m.cfg.identity()))
	m.isDirty = err != nil
	return err
}

// sendReports sends what there is room for.
func (m *machine) sendReports(now int64) {
	if m.phase != bound {
		return
	}
	for {
		next := m.reports.next(now, m.frameMax)
		if next == nil {
			return
		}
		m.send(now, &wire.Frame{Opcode: wire.OpReport, Seq: next.Seq, HasSeq: true,
			Payload: next.Body})
	}
}

func (m *machine) send(now int64, f *wire.Frame) {
	m.saidAt = now
	m.port.write(f.Append(nil))
}
