package wire

// How a client proves who it is: SCRAM-SHA-256 (RFC 5802, RFC 7677) and login tokens (IM 3.5).

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
)

const (
	// ScramMethod and TokenMethod are methods of Login.
	ScramMethod = "SCRAM-SHA-256"
	TokenMethod = "HT-SHA-256-NONE"
	// iterationsMax: a hostile server shall not keep us busy.
	iterationsMax = 1_000_000
)

// Scram is one exchange. Names and passwords are taken as they are, without SASLprep.
type Scram struct{ bare, password, nonce string }

func NewScram(name, password, nonce string) *Scram {
	quoted := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(name)
	return &Scram{"n=" + quoted + ",r=" + nonce, password, nonce}
}

func (s *Scram) First() []byte { return []byte("n,," + s.bare) }

// Answer to a challenge, and what the server must say then; false: it is none to this exchange.
func (s *Scram) Answer(challenge []byte) (data, expected []byte, ok bool) {
	var nonce, salt, count string
	for _, part := range strings.Split(string(challenge), ",") {
		for prefix, field := range map[string]*string{"r=": &nonce, "s=": &salt, "i=": &count} {
			if strings.HasPrefix(part, prefix) {
				*field = part[2:]
			}
		}
	}
	iterations, err := strconv.Atoi(count)
	salted, bad := base64.StdEncoding.DecodeString(salt)
	isOurs := strings.HasPrefix(nonce, s.nonce) && len(nonce) > len(s.nonce)
	if err != nil || bad != nil || !isOurs || iterations < 1 || iterations > iterationsMax {
		return nil, nil, false
	}
	key := stretched([]byte(s.password), salted, iterations)
	clientKey := mac(key, "Client Key")
	last := "c=biws,r=" + nonce
	said := s.bare + "," + string(challenge) + "," + last
	stored := sha256.Sum256(clientKey)
	proof := mac(stored[:], said)
	for at := range proof {
		proof[at] ^= clientKey[at]
	}
	data = []byte(last + ",p=" + base64.StdEncoding.EncodeToString(proof))
	signature := mac(mac(key, "Server Key"), said)
	return data, []byte("v=" + base64.StdEncoding.EncodeToString(signature)), true
}

// HashedToken is the data of Login, and what the server must say then.
func HashedToken(name, token string) (data, expected []byte) {
	key := []byte(token)
	return bytes.Join([][]byte{[]byte(name), mac(key, "Initiator")}, []byte{0}),
		mac(key, "Responder")
}

// stretched is one block of PBKDF2 (RFC 8018 5.2).
func stretched(password, salt []byte, iterations int) []byte {
	hash := hmac.New(sha256.New, password)
	hash.Write(salt)
	hash.Write(binary.BigEndian.AppendUint32(nil, 1))
	block := hash.Sum(nil)
	sum := append([]byte(nil), block...)
	for round := 1; round < iterations; round++ {
		hash.Reset()
		hash.Write(block)
		block = hash.Sum(block[:0])
		for at := range sum {
			sum[at] ^= block[at]
		}
	}
	return sum
}

func mac(key []byte, said string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(said))
	return hash.Sum(nil)
}
