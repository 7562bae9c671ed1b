package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Claim is what a device proves with a secret of its product (docs/wire/miop.md, section 6.1).
type Claim struct {
	Product, Device string
	ClientTs        uint64
	ClientNonce     [16]byte
	Caps            uint32
}

// Mac signs the claim; serverNonce is that of a CHALLENGE, nil without one.
func (c *Claim) Mac(secret, serverNonce []byte) []byte {
	var ts [8]byte
	var caps [4]byte
	binary.BigEndian.PutUint64(ts[:], c.ClientTs)
	binary.BigEndian.PutUint32(caps[:], c.Caps)
	sum := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte("MIOP7-BIND"), []byte(c.Product), []byte(c.Device), ts[:],
		c.ClientNonce[:], caps[:], nil, serverNonce} {
		var length [2]byte
		binary.BigEndian.PutUint16(length[:], uint16(len(part)))
		sum.Write(length[:])
		sum.Write(part)
	}
	return sum.Sum(nil)
}
