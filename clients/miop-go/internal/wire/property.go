package wire

// Properties of a frame (docs/wire/miop.md, section 5.4): key, length, value. The table of Widths
// decides what is well formed; unknown keys below 128 are skipped, others are a fault.

import (
	"encoding/binary"
	"unicode/utf8"
)

// Keys of properties.
const (
	KeyDeviceID      = 1
	KeyProductKey    = 2
	KeyClientTs      = 3
	KeyHeartbeatWish = 4
	KeyHeartbeat     = 5
	KeyClientNonce   = 6
	KeyServerNonce   = 7
	KeyAuthType      = 8
	KeyKeyID         = 9
	KeyMac           = 10
	KeyToken         = 11
	KeyResumeToken   = 12
	KeyLastMsgID     = 13
	KeySessionEpoch  = 14
	KeyResult        = 15
	KeyReason        = 16
	KeyRetryAfterMs  = 17
	KeyAddr          = 19
	KeyCaps          = 20
	KeyMaxFrame      = 21
	KeyMaxInflight   = 22
	KeyAckTimeoutMs  = 23
	KeyOfflineCount  = 27
	KeyServerTime    = 28
	KeyTag           = 30
	KeyCount         = 31
	KeyReportSeq     = 33
	KeyCritical      = 128
)

const anyWidth = 0

// Widths has the bytes of each known value; a key that is not in it is unknown or reserved.
var Widths = map[byte]int{
	KeyDeviceID: anyWidth, KeyProductKey: anyWidth, KeyClientTs: 8, KeyHeartbeatWish: 6,
	KeyHeartbeat: 2, KeyClientNonce: 16, KeyServerNonce: 16, KeyAuthType: 1, KeyKeyID: 4,
	KeyMac: 32, KeyToken: anyWidth, KeyResumeToken: 32, KeyLastMsgID: 8, KeySessionEpoch: 8,
	KeyResult: 1, KeyReason: anyWidth, KeyRetryAfterMs: 4, KeyAddr: anyWidth, KeyCaps: 4,
	KeyMaxFrame: 4, KeyMaxInflight: 2, KeyAckTimeoutMs: 4, KeyOfflineCount: 4, KeyServerTime: 8,
	KeyTag: anyWidth, KeyCount: 2, KeyReportSeq: 4,
}

type Property struct {
	Key   byte
	Value []byte
}

// Properties are in the order of the wire.
type Properties []Property

func (p Properties) Append(b []byte) []byte {
	for _, it := range p {
		b = appendVarint(append(b, it.Key), uint32(len(it.Value)))
		b = append(b, it.Value...)
	}
	return b
}

func parseProperties(block []byte) (Properties, error) {
	var all Properties
	for len(block) > 0 {
		key := block[0]
		value, rest, err := readBlock(block[1:])
		if err != nil {
			return nil, err
		}
		block = rest
		if len(value) > ValueBytesMax {
			return nil, FaultBadProperty
		}
		width, known := Widths[key]
		if !known {
			if key >= KeyCritical {
				return nil, FaultCriticalProperty
			}
			continue
		}
		if err := all.admit(key, width, value); err != nil {
			return nil, err
		}
		all = append(all, Property{key, value})
	}
	return all, nil
}

// admit says whether a value is well formed, and may stand behind those that are there.
func (p Properties) admit(key byte, width int, value []byte) error {
	switch key {
	case KeyAddr:
		well := len(value) > 0 && len(value) <= addressBytesMax && utf8.Valid(value)
		if !well || p.Count(key) == addressesMax {
			return FaultBadProperty
		}
		return nil
	case KeyTag:
		if p.Count(key) == TagsMax {
			return FaultTooLarge
		}
		return nil
	}
	if (width != anyWidth && len(value) != width) || p.Count(key) > 0 {
		return FaultBadProperty
	}
	return nil
}

func (p Properties) Count(key byte) (count int) {
	for _, it := range p {
		if it.Key == key {
			count++
		}
	}
	return count
}

// Bytes is the value of a key, nil when it is absent.
func (p Properties) Bytes(key byte) []byte {
	for _, it := range p {
		if it.Key == key {
			return it.Value
		}
	}
	return nil
}

// Number is the value of a key as an unsigned integer of its width.
func (p Properties) Number(key byte) (number uint64, there bool) {
	value := p.Bytes(key)
	for _, digit := range value {
		number = number<<8 | uint64(digit)
	}
	return number, value != nil
}

// Texts has all values of a key that may be repeated.
func (p Properties) Texts(key byte) (texts []string) {
	for _, it := range p {
		if it.Key == key {
			texts = append(texts, string(it.Value))
		}
	}
	return texts
}

func (p *Properties) Add(key byte, value []byte) {
	*p = append(*p, Property{key, value})
}

func (p *Properties) AddNumber(key byte, number uint64) {
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], number)
	p.Add(key, wide[8-Widths[key]:])
}

// IsName says whether a device id, product key or tag is well formed (section 8).
func IsName(text string, bytesMax int) bool {
	if text == "" || len(text) > bytesMax {
		return false
	}
	for at := 0; at < len(text); at++ {
		c := text[at]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		digit := c >= '0' && c <= '9'
		switch {
		case letter, digit, c == '.', c == '_', c == '-', c == '+', c == ':', c == '/', c == '=':
		default:
			return false
		}
	}
	return true
}
