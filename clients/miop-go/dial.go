package miop

// How a connection is made: through a proxy, with TLS, to a server whose key is known.

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

const pinPrefix = "sha256/"

var errPin = errors.New("miop: no key of the server is pinned")

// dial returns a connection that is ready for MIOP. A context that ends closes it meanwhile.
func (s *settings) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := s.dialPlain(ctx, address)
	if err != nil {
		return nil, err
	}
	if s.TLS == nil {
		return conn, nil
	}
	config := s.TLS.Clone()
	config.ServerName = s.serverName
	config.NextProtos = []string{"miop/7"}
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if verify != nil {
			if err := verify(state); err != nil {
				return err
			}
		}
		return s.checkPins(&state)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// checkPins looks for a pinned key in the chains that were verified; where the configuration
// verifies none, only the server's own key counts.
func (s *settings) checkPins(state *tls.ConnectionState) error {
	if len(s.Pins) == 0 {
		return nil
	}
	chains := state.VerifiedChains
	if len(chains) == 0 {
		chains = append(chains, state.PeerCertificates[:1])
	}
	for _, chain := range chains {
		for _, certificate := range chain {
			digest := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
			found := pinPrefix + base64.StdEncoding.EncodeToString(digest[:])
			for _, pin := range s.Pins {
				if pin == found {
					return nil
				}
			}
		}
	}
	return errPin
}

func (s *settings) dialPlain(ctx context.Context, address string) (net.Conn, error) {
	// Go's own keep-alive would wake the device each 15 s, and keep alive what the heartbeat tests.
	dialer := net.Dialer{KeepAlive: -1}
	if s.proxy == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}
	conn, err := dialer.DialContext(ctx, "tcp", s.proxy.Host)
	if err != nil {
		return nil, err
	}
	// The proxy is spoken to by reads and writes that know no context.
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-ctx.Done():
			conn.Close()
		case <-done:
		}
	}()
	if s.proxy.Scheme == "socks5" {
		err = socks5(conn, s.proxy.User, address)
	} else {
		err = httpConnect(conn, s.proxy.User, address)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

var errProxy = errors.New("miop: the proxy refused the connection")

// socks5 asks a proxy for a connection (RFC 1928, RFC 1929); the proxy resolves the name.
func socks5(conn net.Conn, user *url.Userinfo, address string) error {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || len(host) > 255 {
		return errProxy
	}
	const noPassword, password = 0, 2
	method := byte(noPassword)
	if user != nil {
		method = password
	}
	answer, err := exchange(conn, []byte{5, 1, method}, 2)
	if err != nil {
		return err
	}
	if answer[0] != 5 || answer[1] != method {
		return errProxy
	}
	if user != nil {
		secret, _ := user.Password()
		name := user.Username()
		if len(name) > 255 || len(secret) > 255 {
			return errProxy
		}
		request := append([]byte{1, byte(len(name))}, name...)
		request = append(append(request, byte(len(secret))), secret...)
		if answer, err = exchange(conn, request, 2); err != nil {
			return err
		}
		if answer[1] != 0 {
			return errProxy
		}
	}
	request := append([]byte{5, 1, 0, 3, byte(len(host))}, host...)
	request = binary.BigEndian.AppendUint16(request, uint16(port))
	if answer, err = exchange(conn, request, 5); err != nil {
		return err
	}
	if answer[1] != 0 {
		return errProxy
	}
	// The address that follows is of no interest: 4 bytes, 16, or as many as its first one says,
	// which was read already; then a port.
	rest := map[byte]int{1: 4 + 2 - 1, 4: 16 + 2 - 1, 3: int(answer[4]) + 2}[answer[3]]
	_, err = exchange(conn, nil, rest)
	return err
}

// exchange writes a request and reads an answer of so many bytes.
func exchange(conn net.Conn, request []byte, bytes int) ([]byte, error) {
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	answer := make([]byte, bytes)
	for read := 0; read < bytes; {
		count, err := conn.Read(answer[read:])
		if err != nil {
			return nil, err
		}
		read += count
	}
	return answer, nil
}

// httpConnect asks a proxy for a tunnel (RFC 9110 9.3.6).
func httpConnect(conn net.Conn, user *url.Userinfo, address string) error {
	request := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if user != nil {
		secret, _ := user.Password()
		both := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + secret))
		request += "Proxy-Authorization: Basic " + both + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return err
	}
	// The server does not speak before the device, so nothing of it can be in this buffer.
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: "CONNECT"})
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errProxy
	}
	return nil
}
