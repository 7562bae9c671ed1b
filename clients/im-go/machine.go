package im

// One device of an account: what happens and the time go in, actions come out. It knows no socket,
// timer, disk or randomness.
//
//	idle -> opening -> login -> online -> waiting -> opening ...
//	                                    -> ended

import (
	"bytes"
	"math"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"holdline.example/im/internal/wire"
	"holdline.example/im/pb"
)

const (
	never = int64(math.MaxInt64)
	// connectMs for a connection and the login.
	connectMs = 20_000
	// answerMs is how long a server may take to say anything when it was asked.
	answerMs = 30_000
	// probeMs is the same after a nudge: the connection is likely to be dead.
	probeMs = 10_000
	// lateMs: a Ping that is later than this tests no interval, because the device slept.
	lateMs = 30_000
	// windowMax requests under way at once, if the server allows as many.
	windowMax = 64
	// followedMax ends with the name of another server are followed without a wait.
	followedMax = 3
	// ownToldMax client ids of own messages that were told, and may still be pulled.
	ownToldMax = 1_024
	// silenceS if the server names none.
	silenceS = 60
	// shortestS, firstS and longestS of the interval between signs of life.
	shortestS, firstS, longestS = 30, 120, 1_800
	// pullNumber is the number of pulls; no other request has it.
	pullNumber = uint32(math.MaxUint32)
)

type phase int

const (
	idle phase = iota
	opening
	login
	online
	waiting
	ended
)

// The actions of a machine; besides these State, Sent, Failed, Message, Event and Told.
type (
	actConnect    struct{ address string }
	actDisconnect struct{}
	actWrite      struct{ bytes []byte }
	actSave       struct{ record []byte }
	actAnswer     struct {
		number uint32
		frame  *pb.ServerFrame
		err    error
	}
	actHandled struct{ answer string }
)

type machine struct {
	options *Options
	inbox   inbox
	outbox  outbox
	// networks that are known, the one used last at the end.
	networks  []network
	heartbeat heartbeat
	backoff   backoff
	nonce     func() string

	actions   []any
	asked     map[uint32]bool
	ownTold   map[[16]byte]bool
	ownOrder  [][16]byte
	phase     phase
	data      []byte
	shows     bool // the password, to a server that knows no SCRAM
	scram     *wire.Scram
	expected  []byte
	isSafe    bool
	limits    *pb.LoggedIn
	domain    string
	since     int64
	said      int64
	heard     int64
	attempts  int
	testedS   int64 // the silence before the Ping that is not answered yet; 0: it tests nothing
	due       int64
	dead      int64
	notBefore int64
	number    uint32
	turn      int
	followed  int
	named     []string
	address   string
	saved     stored
}

// stored is a place and a version of the queue.
type stored struct {
	done     uint64
	isKnown  bool
	version  uint64
	network  string
	interval interval
}

func newMachine(options *Options, random func() float64, nonce func() string) *machine {
	m := &machine{options: options, outbox: newOutbox(), backoff: backoff{random: random},
		nonce: nonce, asked: map[uint32]bool{}, ownTold: map[[16]byte]bool{}, due: never,
		dead: never}
	m.inbox.acknowledgeAt = never
	m.heartbeat = heartbeat{shortestS: shortestS, firstS: firstS, longestS: longestS}
	m.use("")
	m.backoff.reset()
	m.saved = m.current()
	return m
}

func (m *machine) current() stored {
	return stored{m.inbox.done, m.inbox.isKnown, m.outbox.version,
		m.networks[len(m.networks)-1].Name, m.heartbeat.interval}
}

// ---- orders -------------------------------------------------------------------------------------

func (m *machine) start(now int64) {
	if m.phase == idle {
		m.open(now)
	}
}

func (m *machine) close(now int64) {
	if m.phase == ended {
		return
	}
	if m.phase == online {
		m.say(now, &pb.ClientFrame{Request: &pb.ClientFrame_Goodbye{Goodbye: &pb.Goodbye{}}}, false)
	}
	m.end("closed")
}

func (m *machine) nudge(now int64) {
	switch {
	case m.phase == waiting && now >= m.notBefore:
		m.open(now)
	case m.phase == online:
		m.ping(now)
		m.dead = min64(m.dead, now+probeMs)
	}
}

// onNetwork: the device is on another network now.
func (m *machine) onNetwork(now int64, name string) {
	m.use(name)
	m.testedS = 0
	m.nudge(now)
}

// use goes on with what is known about a network.
func (m *machine) use(name string) {
	if len(m.networks) > 0 {
		m.networks[len(m.networks)-1].interval = m.heartbeat.interval
	}
	known := network{Name: name}
	for at, it := range m.networks {
		if it.Name == name {
			known = it
			m.networks = append(m.networks[:at:at], m.networks[at+1:]...)
			break
		}
	}
	m.networks = append(m.networks, known)
	if len(m.networks) > networksMax {
		m.networks = m.networks[1:]
	}
	m.heartbeat.use(known.interval)
}

func (m *machine) send(message *queued) error {
	if err := m.outbox.add(message); err != nil {
		return err
	}
	m.giveUpLarge()
	return nil
}

// request asks something; the answer has the number that is returned.
func (m *machine) request(now int64, frame *pb.ClientFrame) (uint32, error) {
	if m.phase != online {
		return 0, &Error{Code: "disconnected"}
	}
	if len(m.asked) >= m.window() {
		return 0, &Error{Code: "queue_full"}
	}
	number := m.takeNumber()
	_, inner := wire.Inside(frame)
	_, err := proto.Marshal(frame)
	if err != nil || inner == nil || !wire.SetNumber(inner, number) {
		return 0, &Error{Code: "invalid"}
	}
	m.asked[number] = true
	m.say(now, frame, true)
	return number, nil
}

func (m *machine) tell(now int64, frame *pb.ClientFrame) {
	_, err := proto.Marshal(frame)
	if m.phase == online && err == nil {
		m.say(now, frame, false)
	}
}

// ---- the connection -----------------------------------------------------------------------------

func (m *machine) connected(now int64, with Credentials, isSafe bool) {
	m.phase, m.isSafe, m.scram, m.expected = login, isSafe, nil, nil
	account := m.options.Account
	name, _, _ := strings.Cut(account, "@")
	it := &pb.Login{Name: account, Device: m.options.Device, SilenceS: m.options.SilenceS}
	switch {
	case with.LoginToken != "":
		it.Method = wire.TokenMethod
		it.Data, m.expected = wire.HashedToken(name, with.LoginToken)
	case with.Token != "":
		it.Password = []byte(with.Token)
	case with.Password != "" && m.shows:
		it.Password = []byte(with.Password)
	case with.Password != "":
		m.scram = wire.NewScram(name, with.Password, m.nonce())
		it.Method, it.Data = wire.ScramMethod, m.scram.First()
	}
	m.act(actWrite{[]byte(wire.Preface)})
	m.say(now, &pb.ClientFrame{Request: &pb.ClientFrame_Login{Login: it}}, false)
}

func (m *machine) received(now int64, data []byte) {
	m.data = append(m.data, data...)
	m.heard, m.dead = now, never
	if m.testedS > 0 {
		m.heartbeat.lived(m.testedS)
		m.testedS = 0
	}
	bytesMax := wire.FrameBytesMax
	if m.limits != nil {
		content := int(m.limits.TextBytesMax) + int(m.limits.ExtraBytesMax)
		if content+wire.BesideContentBytes > bytesMax {
			bytesMax = content + wire.BesideContentBytes
		}
	}
	for m.phase == login || m.phase == online {
		frame, length, err := wire.Decode(m.data, bytesMax)
		if err == nil && length == 0 {
			return
		}
		var name string
		if err == nil {
			m.data = m.data[length:]
			var inner protoreflect.Message
			if name, inner = wire.Inside(frame); name != "" {
				err = m.take(now, name, inner, frame)
			}
		}
		if err != nil {
			m.lose(now, "server_malformed", 0)
			return
		}
		if name != "" {
			m.act(actHandled{name})
		}
	}
}

func (m *machine) lost(now int64, why string) {
	if m.phase == opening || m.phase == login || m.phase == online {
		m.lose(now, why, 0)
	}
}

// ---- time ---------------------------------------------------------------------------------------

func (m *machine) wakeAt() int64 {
	if m.phase != online {
		return m.due
	}
	return min64(min64(m.dead, m.pingAt()), min64(m.inbox.due(), m.outbox.due()))
}

func (m *machine) tick(now int64) {
	switch {
	case m.phase == waiting && now >= m.due:
		m.open(now)
	case m.phase != online && now >= m.due, m.phase == online && now >= m.dead:
		m.lose(now, "timed_out", 0)
	case m.phase == online && now >= m.pingAt():
		silenceS := (now - max64(m.said, m.heard)) / 1_000
		isLate := now >= m.pingAt()+lateMs
		m.ping(now)
		m.testedS = 0
		if silenceS >= m.heartbeat.intervalS() && !isLate {
			m.testedS = silenceS
		}
	}
}

// pingAt is after silence, and in any case before the server has heard nothing for its time.
func (m *machine) pingAt() int64 {
	silent := max64(m.said, m.heard) + m.heartbeat.intervalS()*1_000
	return min64(silent, m.said+m.heartbeat.agreedS*1_000)
}

// takeActions is what is to be done: first what happened, then what is to be stored, then what is
// said because of both.
func (m *machine) takeActions(now int64) []any {
	if m.phase == online {
		m.pump(now)
	}
	actions := m.actions
	m.actions = nil
	if m.current() != m.saved {
		m.saved = m.current()
		at := len(actions)
		for i, action := range actions {
			if _, isWrite := action.(actWrite); isWrite {
				at = i
				break
			}
		}
		actions = append(actions[:at:at], append([]any{actSave{m.state()}}, actions[at:]...)...)
	}
	return actions
}

// ---- frames -------------------------------------------------------------------------------------

func (m *machine) take(
	now int64, name string, inner protoreflect.Message, frame *pb.ServerFrame,
) error {
	if end := frame.GetEnd(); end != nil {
		m.farewell(now, end.Reason, end.Server, end.RetryAfterMs)
		return nil
	}
	if m.phase == login {
		return m.takeInLogin(now, frame)
	}
	number := wire.NumberOf(inner)
	switch it := frame.Answer.(type) {
	case *pb.ServerFrame_LoggedIn, *pb.ServerFrame_Challenge, *pb.ServerFrame_Refused:
		return wire.Fault("out_of_order")
	case *pb.ServerFrame_Message:
		if m.inbox.comes(it.Message.Seq) {
			m.handOut(it.Message)
		}
	case *pb.ServerFrame_Event:
		if m.inbox.comes(it.Event.Seq) {
			m.handOutEvent(it.Event)
		}
	case *pb.ServerFrame_Notify:
		m.inbox.notify(it.Notify.Head)
	case *pb.ServerFrame_Pong:
	default:
		switch page := frame.GetPage(); {
		case page != nil && number == pullNumber:
			m.takePage(page)
		case m.asked[number]:
			m.answered(number, frame)
		case frame.GetSent() != nil:
			m.isStored(frame.GetSent())
		case frame.GetFailed() != nil:
			m.failed(now, frame.GetFailed())
		default:
			m.act(Told{name, frame})
		}
	}
	m.inbox.advance(now)
	return nil
}

func (m *machine) takeInLogin(now int64, frame *pb.ServerFrame) error {
	switch it := frame.Answer.(type) {
	case *pb.ServerFrame_LoggedIn:
		m.loggedIn(now, it.LoggedIn)
	case *pb.ServerFrame_Challenge:
		if m.scram != nil {
			if data, expected, ok := m.scram.Answer(it.Challenge.Data); ok {
				m.expected = expected
				proceed := &pb.ClientFrame_Proceed{Proceed: &pb.Proceed{Data: data}}
				m.say(now, &pb.ClientFrame{Request: proceed}, false)
				return nil
			}
		}
		m.end("server_not_proved")
	case *pb.ServerFrame_Refused:
		m.farewell(now, it.Refused.Reason, it.Refused.Server, it.Refused.RetryAfterMs)
	default:
		return wire.Fault("out_of_order")
	}
	return nil
}

func (m *machine) loggedIn(now int64, terms *pb.LoggedIn) {
	mustProve := m.scram != nil || m.expected != nil
	if mustProve && (m.expected == nil || !bytes.Equal(m.expected, terms.Data)) {
		m.end("server_not_proved")
		return
	}
	if terms.SilenceS == 0 {
		terms.SilenceS = silenceS
	}
	m.phase, m.since, m.limits, m.due = online, now, terms, never
	m.followed, m.named = 0, nil
	m.heard = now
	m.heartbeat.agreedS = int64(terms.SilenceS)
	m.heartbeat.bound(m.attempts == 1)
	m.attempts = 0
	_, m.domain, _ = strings.Cut(terms.Account, "@")
	m.inbox.begin(terms.Cursor, terms.Head)
	m.act(State{Name: Online, Account: terms.Account})
	m.giveUpLarge()
}

func (m *machine) takePage(page *pb.InboxPage) {
	type placed struct {
		place uint64
		out   func()
	}
	var all []placed
	for _, entry := range page.Entries {
		entry := entry
		all = append(all, placed{entry.Seq, func() { m.handOut(entry) }})
	}
	for _, event := range page.Events {
		event := event
		all = append(all, placed{event.Seq, func() { m.handOutEvent(event) }})
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].place < all[b].place })
	for _, it := range all {
		if it.place > m.inbox.last {
			it.out()
		}
	}
	m.inbox.page(page.Upto, page.Head)
}

func (m *machine) handOut(entry *pb.InboxEntry) {
	if m.isOwn(entry.GetMessage()) {
		return
	}
	m.inbox.held = append(m.inbox.held, entry.Seq)
	m.act(newMessage(entry, m.limits.Account))
}

func (m *machine) handOutEvent(event *pb.InboxEvent) {
	m.inbox.held = append(m.inbox.held, event.Seq)
	m.act(Event{Place: event.Seq, Peer: event.With, Raw: event})
}

// isOwn: this device sent it, and it was told when it was stored, or is now.
func (m *machine) isOwn(message *pb.ChatMessage) bool {
	var id [16]byte
	if message.GetFrom() != m.limits.Account || copy(id[:], message.GetClientId()) != len(id) {
		return false
	}
	if m.ownTold[id] {
		return true
	}
	it := m.outbox.take(id)
	if it != nil {
		m.tellSent(it, message.Id, message.Seq, message.AtMs)
	}
	return it != nil
}

func (m *machine) isStored(sent *pb.Sent) {
	it := m.outbox.answered(sent.Number)
	if it == nil {
		return
	}
	_, domain, _ := strings.Cut(it.to, "@")
	// A chatroom's messages are in no inbox.
	if !sent.Again && !strings.HasPrefix(domain, "live.") {
		m.inbox.sentOwn()
	}
	m.tellSent(it, sent.Id, sent.Seq, sent.AtMs)
}

func (m *machine) tellSent(it *queued, id, seq, atMs uint64) {
	m.ownTold[it.clientID] = true
	m.ownOrder = append(m.ownOrder, it.clientID)
	if len(m.ownOrder) > ownToldMax {
		delete(m.ownTold, m.ownOrder[0])
		m.ownOrder = m.ownOrder[1:]
	}
	m.act(Sent{ClientID: hexID(it.clientID), To: it.to, ID: id, Seq: seq, AtMs: atMs})
}

func (m *machine) failed(now int64, it *pb.Failed) {
	code := faultWord(it.Fault)
	switch {
	case it.Number == pullNumber:
		m.inbox.pullFailed(now)
	case passing[code]:
		m.outbox.refused(now, it.Number, int64(it.RetryAfterMs))
	default:
		if given := m.outbox.answered(it.Number); given != nil {
			m.act(Failed{hexID(given.clientID), given.to, &Error{code, it.Reason}})
		}
	}
}

// giveUpLarge gives up what is larger than the server takes.
func (m *machine) giveUpLarge() {
	if m.limits == nil {
		return
	}
	for _, it := range append([]*queued(nil), m.outbox.queue...) {
		if len(it.content.GetText()) > int(m.limits.TextBytesMax) ||
			len(it.content.GetExtra()) > int(m.limits.ExtraBytesMax) {
			m.outbox.take(it.clientID)
			m.act(Failed{hexID(it.clientID), it.to, &Error{Code: "too_large"}})
		}
	}
}

func (m *machine) answered(number uint32, frame *pb.ServerFrame) {
	delete(m.asked, number)
	if failed := frame.GetFailed(); failed != nil {
		err := &Error{faultWord(failed.Fault), failed.Reason}
		m.act(actAnswer{number, nil, err})
		return
	}
	m.act(actAnswer{number, frame, nil})
}

// ---- what is to be said -------------------------------------------------------------------------

func (m *machine) window() int {
	// One of them is the pull's.
	return int(max64(1, min64(windowMax, int64(m.limits.RequestsMax)-1)))
}

func (m *machine) pump(now int64) {
	if upto, isDue := m.inbox.acknowledgement(now); isDue {
		it := &pb.ClientFrame_Acknowledge{Acknowledge: &pb.Acknowledge{Upto: upto}}
		m.say(now, &pb.ClientFrame{Request: it}, false)
	}
	if after, isDue := m.inbox.pull(now); isDue {
		count := m.limits.PageMessagesMax
		if count == 0 {
			count = 1
		}
		it := &pb.ClientFrame_Pull{Pull: &pb.Pull{Number: pullNumber, After: after, Count: count}}
		m.say(now, &pb.ClientFrame{Request: it}, true)
	}
	window := int(max64(1, int64(m.window()-len(m.asked))))
	for it := m.outbox.next(now, m.domain, window); it != nil; {
		number := m.takeNumber()
		m.outbox.underWay[number] = it
		send := &pb.ClientFrame_Send{Send: &pb.Send{Number: number, To: it.to,
			ClientId: it.clientID[:], Content: it.content}}
		m.say(now, &pb.ClientFrame{Request: send}, true)
		it = m.outbox.next(now, m.domain, window)
	}
}

func (m *machine) ping(now int64) {
	m.say(now, &pb.ClientFrame{Request: &pb.ClientFrame_Ping{Ping: &pb.Ping{}}}, true)
}

func (m *machine) say(now int64, frame *pb.ClientFrame, asks bool) {
	m.said = now
	if asks {
		m.dead = min64(m.dead, now+answerMs)
	}
	m.act(actWrite{wire.Encode(frame)})
}

func (m *machine) takeNumber() uint32 {
	m.number = m.number%math.MaxInt32 + 1
	return m.number
}

func (m *machine) act(action any) { m.actions = append(m.actions, action) }

// ---- connections --------------------------------------------------------------------------------

func (m *machine) open(now int64) {
	if len(m.named) > 0 {
		m.address, m.named = m.named[0], m.named[1:]
	} else {
		m.address = m.options.Addresses[m.turn%len(m.options.Addresses)]
		m.turn++
	}
	m.attempts++
	m.phase, m.due, m.data = opening, now+connectMs, nil
	m.act(State{Name: Connecting, Address: m.address})
	m.act(actConnect{m.address})
}

func (m *machine) farewell(now int64, reason pb.Reason, server string, retryAfterMs uint32) {
	why, hintMs := reasonWord(reason), int64(retryAfterMs)
	switch {
	case why == "bad_method" && m.scram != nil && m.isSafe:
		// The server knows no SCRAM: the password is shown over TLS, or to this machine.
		m.shows = true
		m.leave(waiting)
		m.named = append([]string{m.address}, m.named...)
		m.open(now)
	case why == "expired" && m.options.Credentials != nil:
		m.lose(now, why, hintMs)
	case lasting[why]:
		m.end(why)
	case (why == "use_another" || why == "moved") && server != "":
		m.named = append(m.named, server)
		if hintMs == 0 && m.followed < followedMax {
			m.followed++
			m.leave(waiting)
			m.open(now)
			return
		}
		m.lose(now, why, hintMs)
	default:
		m.lose(now, why, hintMs)
	}
}

func (m *machine) lose(now int64, why string, hintMs int64) {
	if m.phase == online {
		m.heartbeat.suspectS, m.testedS = m.testedS, 0
		if now-m.since >= goodSessionMs {
			m.backoff.reset()
		}
	}
	hintMs = min64(hintMs, hintMsMax)
	m.leave(waiting)
	m.due = now + m.backoff.next(hintMs)
	m.notBefore = now + hintMs
	m.act(State{Name: Waiting, untilMs: m.due, Why: why})
}

func (m *machine) end(why string) {
	m.leave(ended)
	m.act(State{Name: Ended, Why: why})
}

func (m *machine) leave(to phase) {
	if m.phase == online {
		m.outbox.lost()
		for number := range m.asked {
			m.act(actAnswer{number, nil, &Error{Code: "disconnected"}})
		}
		m.asked = map[uint32]bool{}
	}
	if m.phase == opening || m.phase == login || m.phase == online {
		m.act(actDisconnect{})
	}
	m.phase, m.due, m.dead, m.limits = to, never, never, nil
}
