// Package wire turns the frames of MIOP 7 into values and back.
package wire

// The frames of MIOP 7 (docs/wire/miop.md, section 5): pure functions between bytes and values.
//
//	u16 version | u8 flags | u8 opcode [ u32 length [ u32 seq ] varint properties payload ]

import "encoding/binary"

// Opcodes (section 3).
const (
	OpPing = iota
	OpPong
	OpBind
	OpMsg
	OpMsgAck
	OpUnbind
	OpBindAck
	OpUnbindAck
	OpReport
	OpReportAck
	OpKick
	OpRedirect
	OpChallenge
	OpAuth
	OpConfig
	OpPull
	OpGoAway
	OpError
)

// Flags of a frame (section 5.1).
const (
	FlagBody           = 0x01
	FlagSeq            = 0x02
	FlagAckReq         = 0x04
	FlagCompressed     = 0x08
	FlagMore           = 0x10
	FlagDup            = 0x20
	FlagMustUnderstand = 0x80
)

// Limits (section 8).
const (
	version         = 7
	propsBytesMax   = 8 << 10
	ValueBytesMax   = 512
	addressesMax    = 4
	addressBytesMax = 64
	TagsMax         = 64
	NameBytesMax    = 64
	ProductBytesMax = 32

	FrameBytesUnbound = 4 << 10
	FrameBytesDefault = 64 << 10
	FrameBytesMost    = 1 << 20
)

// Fault is the name of what is wrong with a frame (section 9).
type Fault string

func (f Fault) Error() string { return "miop: the server sent a bad frame: " + string(f) }

const (
	FaultUnknownVersion   Fault = "unknown_version"
	FaultNewerVersion     Fault = "newer_version"
	FaultVersionChanged   Fault = "version_changed"
	FaultTooLarge         Fault = "too_large"
	FaultMustUnderstand   Fault = "must_understand"
	FaultBadFlags         Fault = "bad_flags"
	FaultBadLength        Fault = "bad_length"
	FaultEmptyBlock       Fault = "empty_block"
	FaultBadProperty      Fault = "bad_property"
	FaultCriticalProperty Fault = "critical_property"
	FaultMissingProperty  Fault = "missing_property"
	FaultBadRecord        Fault = "bad_record"
	FaultOutOfOrder       Fault = "out_of_order"
)

// Frame is one frame of either direction. Its slices refer to the bytes that it was read from.
type Frame struct {
	Flags   byte // ACK_REQ and DUP; BODY and SEQ follow from the rest
	Opcode  byte
	Seq     uint32
	HasSeq  bool
	Props   Properties
	Payload []byte
}

// Append writes the frame behind b.
func (f *Frame) Append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, version, f.Flags, f.Opcode)
	if !f.HasSeq && len(f.Props) == 0 && len(f.Payload) == 0 {
		return b
	}
	b = append(b, 0, 0, 0, 0)
	b[start+2] |= FlagBody
	if f.HasSeq {
		b[start+2] |= FlagSeq
		b = binary.BigEndian.AppendUint32(b, f.Seq)
	}
	block := f.Props.Append(nil)
	b = appendVarint(b, uint32(len(block)))
	b = append(b, block...)
	b = append(b, f.Payload...)
	binary.BigEndian.PutUint32(b[start+4:], uint32(len(b)-start-8))
	return b
}

// ParseFrame reads the frame at the front of b and returns its length; 0: more bytes are needed.
// A frame of more than max bytes is a fault as soon as its length is known.
func ParseFrame(b []byte, max int) (f Frame, length int, err error) {
	if err := checkVersion(b); err != nil {
		return f, 0, err
	}
	if len(b) < 4 {
		return f, 0, nil
	}
	flags := b[2]
	if flags&FlagMustUnderstand != 0 {
		return f, 0, FaultMustUnderstand
	}
	if flags&(FlagCompressed|FlagMore) != 0 || flags&(FlagSeq|FlagBody) == FlagSeq {
		return f, 0, FaultBadFlags
	}
	f.Flags, f.Opcode = flags&(FlagAckReq|FlagDup), b[3]
	if flags&FlagBody == 0 {
		return f, 4, f.check()
	}
	if len(b) < 8 {
		return f, 0, nil
	}
	end := uint64(binary.BigEndian.Uint32(b[4:])) + 8
	if end > uint64(max) {
		return f, 0, FaultTooLarge
	}
	if uint64(len(b)) < end {
		return f, 0, nil
	}
	if f.Opcode > OpError {
		return f, int(end), nil
	}
	if err = f.parseBody(b[8:end], flags&FlagSeq != 0); err == nil {
		err = f.check()
	}
	return f, int(end), err
}

// required names the property without which a frame of the server means nothing.
var required = map[byte]byte{
	OpBindAck: KeyResult, OpChallenge: KeyServerNonce, OpReportAck: KeyReportSeq,
}

func (f *Frame) check() error {
	if key, there := required[f.Opcode]; there && f.Props.Bytes(key) == nil {
		return FaultMissingProperty
	}
	return nil
}

func checkVersion(b []byte) error {
	switch {
	case len(b) > 0 && b[0] != 0:
		return FaultUnknownVersion
	case len(b) > 1 && b[1] > version:
		return FaultNewerVersion
	case len(b) > 1 && (b[1] == 5 || b[1] == 6):
		return FaultVersionChanged
	case len(b) > 1 && b[1] < version:
		return FaultUnknownVersion
	}
	return nil
}

func (f *Frame) parseBody(body []byte, hasSeq bool) error {
	if hasSeq {
		if len(body) < 4 {
			return FaultBadLength
		}
		f.Seq, f.HasSeq, body = binary.BigEndian.Uint32(body), true, body[4:]
	}
	block, rest, err := readBlock(body)
	if err != nil {
		return err
	}
	if len(block) > propsBytesMax {
		return FaultTooLarge
	}
	f.Payload = rest
	f.Props, err = parseProperties(block)
	return err
}

// Varints (section 5.3).

func appendVarint(b []byte, number uint32) []byte {
	for number > 0x7f {
		b = append(b, byte(number)|0x80)
		number >>= 7
	}
	return append(b, byte(number))
}

// readVarint accepts the shortest form of a number of 32 bits, and nothing else.
func readVarint(b []byte) (number uint32, rest []byte, err error) {
	var wide uint64
	for at := 0; at < len(b) && at < 5; at++ {
		wide |= uint64(b[at]&0x7f) << (7 * at)
		if b[at]&0x80 != 0 {
			continue
		}
		if wide > 0xffffffff || (at > 0 && b[at] == 0) {
			return 0, nil, FaultBadLength
		}
		return uint32(wide), b[at+1:], nil
	}
	return 0, nil, FaultBadLength
}

// readBlock takes a varint and as many bytes off the front of b.
func readBlock(b []byte) (block, rest []byte, err error) {
	length, rest, err := readVarint(b)
	if err != nil || uint64(length) > uint64(len(rest)) {
		return nil, nil, FaultBadLength
	}
	return rest[:length], rest[length:], nil
}

// Record is one push in the payload of a MSG (section 5.5).
type Record struct {
	ID       uint64
	AppID    uint32
	Flags    byte
	ExpireAt uint32
	Collapse []byte
	Body     []byte
}

const (
	RecordSilent     = 0x02
	RecordHigh       = 0x04
	RecordCompressed = 0x08
	recordHeadBytes  = 17
)

func (r *Record) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.ID)
	b = binary.BigEndian.AppendUint32(b, r.AppID)
	b = append(b, r.Flags)
	b = binary.BigEndian.AppendUint32(b, r.ExpireAt)
	b = append(appendVarint(b, uint32(len(r.Collapse))), r.Collapse...)
	return append(appendVarint(b, uint32(len(r.Body))), r.Body...)
}

// ParseRecords reads all records of a MSG, at least one.
func ParseRecords(payload []byte) ([]Record, error) {
	if len(payload) == 0 {
		return nil, FaultEmptyBlock
	}
	var records []Record
	for len(payload) > 0 {
		if len(payload) < recordHeadBytes {
			return nil, FaultBadRecord
		}
		r := Record{
			ID:       binary.BigEndian.Uint64(payload),
			AppID:    binary.BigEndian.Uint32(payload[8:]),
			Flags:    payload[12],
			ExpireAt: binary.BigEndian.Uint32(payload[13:]),
		}
		var err error
		if r.Collapse, payload, err = readBlock(payload[recordHeadBytes:]); err != nil {
			return nil, FaultBadRecord
		}
		if r.Body, payload, err = readBlock(payload); err != nil || r.Flags&RecordCompressed != 0 {
			return nil, FaultBadRecord
		}
		records = append(records, r)
	}
	return records, nil
}
