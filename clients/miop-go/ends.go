package miop

// How connections end, and the clock of a machine.

import "holdline.example/miop/internal/wire"

// fault: an ERROR refuses a Report, or says why the server will close.
func (m *machine) fault(now int64, f *wire.Frame) {
	if seq, there := f.Props.Number(wire.KeyReportSeq); there {
		m.reports.refused(now, uint32(seq))
		return
	}
	m.notice = endingOf(f)
	if m.notice.result == ResultVersion {
		m.port.disconnect()
		m.finish(m.notice.result.String(), m.notice.result)
	}
}

func endingOf(f *wire.Frame) ending {
	result, _ := f.Props.Number(wire.KeyResult)
	timeMs, _ := f.Props.Number(wire.KeyServerTime)
	end := ending{Result(result), never, f.Props.Texts(wire.KeyAddr), int64(timeMs)}
	if hint, there := f.Props.Number(wire.KeyRetryAfterMs); there && hint > 0 {
		end.retryMs = minOf(int64(hint), hintMaxMs)
	}
	return end
}

// dismissed: the server ended the session, or did not begin one.
func (m *machine) dismissed(now int64, f *wire.Frame) {
	end := endingOf(f)
	if f.Opcode == wire.OpGoAway && end.result == 0 {
		end.result = ResultDraining
	}
	m.flush(now)
	m.port.disconnect()
	m.over(now, end, end.result.String())
}

// lost: the connection is gone, or was never there.
func (m *machine) lost(now int64, why string) {
	if m.phase == bound && m.testedS > 0 {
		m.heartbeat.suspectS = m.testedS
	}
	if why == "lost" && m.notice.result != 0 {
		m.over(now, m.notice, m.notice.result.String())
		return
	}
	m.over(now, ending{retryMs: never}, why)
}

// over decides what follows the end of a connection.
func (m *machine) over(now int64, end ending, why string) {
	if m.phase == closing {
		m.finish("closed", 0)
		return
	}
	wasBound := m.phase == bound
	if wasBound && now-m.boundAt >= goodSessionMs {
		m.backoff.reset()
	}
	m.addresses.lost(wasBound, end.addresses)
	m.in = nil
	switch {
	case end.result == ResultClockSkew && end.timeMs != 0 && !m.isClock:
		m.clockMs, m.isClock = end.timeMs-m.port.wallMs(), true
		m.addresses.again()
		m.connect(now)
	case end.result.isFinal() && end.retryMs == never:
		m.finish(why, end.result)
	case end.retryMs == never && m.addresses.follow(end.addresses):
		m.connect(now)
	case end.retryMs == never:
		m.wait(now, m.backoff.next(0), why)
	default:
		m.wait(now, m.backoff.next(end.retryMs), why)
	}
}

func (m *machine) wait(now, forMs int64, why string) {
	m.conn++ // what the old connection still says is ignored
	m.phase, m.deadline = waiting, now+forMs
	m.port.state(State{Name: Waiting, Why: why})
}

func (m *machine) finish(why string, result Result) {
	if m.phase == connecting || m.phase == binding {
		m.port.disconnect()
	}
	if result.isFinal() && result != ResultReplaced {
		m.epoch, m.token, m.isDirty = 0, nil, true // nobody may go on with that session
	}
	m.conn++
	m.phase, m.deadline = ended, never
	_ = m.remember() // what cannot be stored now is found out again
	m.port.state(State{Name: Ended, Why: why, Result: result})
}

// ---- time ---------------------------------------------------------------------------------------

// wakeAt is when tick has something to do; never: not at all.
func (m *machine) wakeAt() int64 {
	at := m.deadline
	if m.phase != bound {
		return at
	}
	if !m.awaitsPong {
		at = minOf(at, m.pingAt())
	}
	return minOf(at, m.reports.wakeAt())
}

// pingAt is the end of a silence in both directions, or of the server's patience with ours.
func (m *machine) pingAt() int64 {
	silent := maxOf(m.saidAt, m.heardAt) + m.heartbeat.intervalS()*1000
	return minOf(silent, m.saidAt+m.heartbeat.agreedS*1000)
}

func (m *machine) tick(now int64) {
	if now >= m.deadline {
		m.expired(now)
		return
	}
	if m.phase != bound {
		return
	}
	if !m.awaitsPong && now >= m.pingAt() {
		testedS := m.heartbeat.intervalS()
		if now-m.heardAt < testedS*1000 || now >= m.pingAt()+lateMs {
			testedS = 0 // the server was heard meanwhile, or the device slept for longer
		}
		m.ping(now, testedS)
	}
	m.sendReports(now)
}

// expired: the deadline of the phase has passed.
func (m *machine) expired(now int64) {
	why := ""
	switch m.phase {
	case waiting:
		m.connect(now)
		return
	case connecting:
		why = "connect_timeout"
	case binding:
		why = "bind_timeout"
	case bound:
		if m.isHandling { // the answer may be there, and is not read while the application works
			m.deadline = now + pongMs
			return
		}
		why = "no_pong"
	case closing:
		m.port.disconnect()
		m.finish("closed", 0)
		return
	default:
		return
	}
	m.port.disconnect()
	m.lost(now, why)
}

func (m *machine) ping(now, testedS int64) {
	m.awaitsPong, m.testedS, m.deadline = true, testedS, now+pongMs
	m.send(now, &wire.Frame{Opcode: wire.OpPing})
}

func (m *machine) pong() {
	if m.testedS > 0 {
		m.heartbeat.lived(m.testedS)
		m.testedS = 0
		m.note()
	}
}

// note remembers what was found out about the network.
func (m *machine) note() {
	if m.known(m.cfg.network) != m.heartbeat.interval {
		m.learn(m.cfg.network, m.heartbeat.interval)
		m.isDirty = true
	}
}
