// Paho Go, told by lines: paho.mqtt.golang for 3.1 and 3.1.1, paho.golang for 5. See drivers.py
// for what is said both ways.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A client of either library. Each call says its answer itself.
type client interface {
	connect(line url.Values)
	subscribe(line url.Values)
	unsubscribe(line url.Values)
	publish(line url.Values)
	disconnect(line url.Values)
}

var mouth sync.Mutex

func say(name, event string, fields url.Values) {
	if fields == nil {
		fields = url.Values{}
	}
	fields.Set("as", name)
	fields.Set("event", event)
	mouth.Lock()
	defer mouth.Unlock()
	fmt.Println(fields.Encode())
}

func failed(name string, err error) {
	say(name, "failed", url.Values{"why": {err.Error()}})
}

func number(line url.Values, key string, otherwise int) int {
	if !line.Has(key) {
		return otherwise
	}
	value, err := strconv.Atoi(line.Get(key))
	if err != nil {
		panic(err)
	}
	return value
}

func payloads(line url.Values) []string {
	count := number(line, "count", 1)
	if count == 1 {
		return []string{line.Get("payload")}
	}
	made := make([]string, count)
	for at := range made {
		made[at] = strings.ReplaceAll(line.Get("payload"), "%", strconv.Itoa(at))
	}
	return made
}

func tlsConfig(line url.Values) (*tls.Config, error) {
	pem, err := os.ReadFile(line.Get("ca"))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: line.Get("host")}
	config.RootCAs.AppendCertsFromPEM(pem)
	if line.Has("cert") {
		pair, err := tls.LoadX509KeyPair(line.Get("cert"), line.Get("key"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// work does the commands of one client, one after another.
func work(name string, lines <-chan url.Values) {
	var one client
	for line := range lines {
		switch line.Get("do") {
		case "connect":
			if line.Get("version") == "5" {
				one = &client5{name: name}
			} else {
				one = &client3{name: name}
			}
			one.connect(line)
		case "subscribe":
			one.subscribe(line)
		case "unsubscribe":
			one.unsubscribe(line)
		case "publish":
			one.publish(line)
		case "disconnect":
			one.disconnect(line)
		}
	}
}

func main() {
	clients := map[string]chan url.Values{}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 4<<20)
	for input.Scan() {
		line, err := url.ParseQuery(input.Text())
		if err != nil {
			panic(err)
		}
		name := line.Get("as")
		if clients[name] == nil {
			clients[name] = make(chan url.Values, 16)
			go work(name, clients[name])
		}
		clients[name] <- line
	}
}
