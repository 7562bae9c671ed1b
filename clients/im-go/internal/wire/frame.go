// Package wire has the frames of IM (a length, and as many bytes of protobuf: IM 2), and how a client
// proves who it is.
package wire

import (
	"encoding/binary"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"holdline.example/im/pb"
)

const (
	// Preface is what a client sends first (IM 1.1).
	Preface = "\xc4IM\x01"
	// FrameBytesMax is the largest frame of a server whose limits are the usual ones (IM 2.2).
	FrameBytesMax = 397_312
	// BesideContentBytes is what a frame of a server has beside text and extra of a message.
	BesideContentBytes = 4_096
	lengthBytesMax     = 5
)

// Fault is a word of IM 2.3: the server sent what it must not.
type Fault string

func (f Fault) Error() string { return "im: the server sent a frame that is not IM: " + string(f) }

// Encode is a frame with its length.
func Encode(frame *pb.ClientFrame) []byte {
	body, err := proto.Marshal(frame)
	if err != nil {
		panic(err) // it was checked when it was given
	}
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// Decode reads the frame at the beginning of data; its length is 0 if it is not whole.
func Decode(data []byte, bytesMax int) (*pb.ServerFrame, int, error) {
	size, at := uint64(0), 0
	for ; ; at++ {
		if at == lengthBytesMax {
			return nil, 0, Fault("length")
		}
		if at == len(data) {
			return nil, 0, nil
		}
		size |= uint64(data[at]&0x7f) << (7 * at)
		if data[at] < 0x80 {
			break
		}
	}
	end := uint64(at) + 1 + size
	if end > uint64(bytesMax) {
		return nil, 0, Fault("too_large")
	}
	if uint64(len(data)) < end {
		return nil, 0, nil
	}
	frame := &pb.ServerFrame{}
	if err := proto.Unmarshal(data[at+1:end], frame); err != nil {
		return nil, 0, Fault("malformed")
	}
	return frame, int(end), nil
}

// Inside is the one field of a frame that is set: its name, and its message. The name is empty if
// none is known.
func Inside(frame proto.Message) (string, protoreflect.Message) {
	reflected := frame.ProtoReflect()
	field := reflected.WhichOneof(reflected.Descriptor().Oneofs().Get(0))
	if field == nil {
		return "", nil
	}
	return string(field.Name()), reflected.Get(field).Message()
}

// NumberOf is the number by which a request and its answer belong together; 0: it has none.
func NumberOf(message protoreflect.Message) uint32 {
	field := message.Descriptor().Fields().ByName("number")
	if field == nil {
		return 0
	}
	return uint32(message.Get(field).Uint())
}

func SetNumber(message protoreflect.Message, number uint32) bool {
	field := message.Descriptor().Fields().ByName("number")
	if field != nil {
		message.Set(field, protoreflect.ValueOfUint32(number))
	}
	return field != nil
}
