package miop

import (
	"encoding/binary"

	"holdline.example/miop/internal/wire"
)

// Kinds of proof and capabilities (docs/wire/miop.md, section 5.4).
const (
	authHmac        = 1
	authToken       = 2
	authCertificate = 3
	capPulls        = 2
)

// bind is the BIND of a new connection. The proof comes along with the session's token, so that an
// expired session costs no second round trip.
func (m *machine) bind(token string) *wire.Frame {
	cfg := m.cfg
	var caps uint32
	if cfg.Pulls {
		caps = capPulls
	}
	m.claim = wire.Claim{Product: cfg.Product, Device: cfg.Device, Caps: caps}
	var p wire.Properties
	p.Add(wire.KeyDeviceID, []byte(cfg.Device))
	p.Add(wire.KeyProductKey, []byte(cfg.Product))
	if cfg.secret != nil {
		m.claim.ClientTs = uint64(m.port.wallMs() + m.clockMs)
		m.claim.ClientNonce = m.port.nonce()
		p.AddNumber(wire.KeyClientTs, m.claim.ClientTs)
	}
	var wish [6]byte
	binary.BigEndian.PutUint16(wish[:], uint16(cfg.wishS))
	binary.BigEndian.PutUint16(wish[2:], uint16(cfg.shortestS))
	binary.BigEndian.PutUint16(wish[4:], uint16(cfg.longestS))
	p.Add(wire.KeyHeartbeatWish, wish[:])
	m.addProof(&p, token)
	if m.token != nil {
		p.Add(wire.KeyResumeToken, m.token)
		p.AddNumber(wire.KeySessionEpoch, m.epoch)
	}
	if caps != 0 {
		p.AddNumber(wire.KeyCaps, uint64(caps))
	}
	if cfg.Window != 0 {
		p.AddNumber(wire.KeyMaxInflight, uint64(cfg.Window))
	}
	for _, tag := range cfg.Tags {
		p.Add(wire.KeyTag, []byte(tag))
	}
	if cfg.Tags != nil && len(cfg.Tags) == 0 {
		p.Add(wire.KeyTag, nil)
	}
	return &wire.Frame{Opcode: wire.OpBind, Props: p}
}

func (m *machine) addProof(p *wire.Properties, token string) {
	cfg := m.cfg
	switch {
	case cfg.secret != nil:
		p.Add(wire.KeyClientNonce, m.claim.ClientNonce[:])
		p.AddNumber(wire.KeyAuthType, authHmac)
		if cfg.KeyID != 0 {
			p.AddNumber(wire.KeyKeyID, uint64(cfg.KeyID))
		}
		p.Add(wire.KeyMac, m.claim.Mac(cfg.secret, nil))
	case token != "":
		p.AddNumber(wire.KeyAuthType, authToken)
		p.Add(wire.KeyToken, []byte(token))
	case cfg.TLS != nil && (len(cfg.TLS.Certificates) > 0 || cfg.TLS.GetClientCertificate != nil):
		p.AddNumber(wire.KeyAuthType, authCertificate)
	}
}
