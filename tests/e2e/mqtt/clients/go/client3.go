package main

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// client3 speaks 3.1 and 3.1.1.
type client3 struct {
	name   string
	client mqtt.Client
}

func (c *client3) connect(line url.Values) {
	scheme, path := "tcp", ""
	if line.Has("ws") {
		scheme, path = "ws", line.Get("ws")
	}
	options := mqtt.NewClientOptions()
	if line.Has("ca") {
		config, err := tlsConfig(line)
		if err != nil {
			failed(c.name, err)
			return
		}
		options.SetTLSConfig(config)
		scheme = map[string]string{"tcp": "ssl", "ws": "wss"}[scheme]
	}
	options.AddBroker(fmt.Sprintf("%s://%s:%s%s", scheme, line.Get("host"), line.Get("port"), path))
	options.SetClientID(line.Get("id")).SetCleanSession(number(line, "clean", 1) == 1)
	options.SetProtocolVersion(uint(number(line, "version", 4)))
	options.SetKeepAlive(time.Duration(number(line, "keep_alive", 60)) * time.Second)
	options.SetAutoReconnect(false).SetConnectRetry(false).SetConnectTimeout(5 * time.Second)
	options.SetUsername(line.Get("user")).SetPassword(line.Get("password"))
	if line.Has("will_topic") {
		options.SetWill(line.Get("will_topic"), line.Get("will_payload"),
			byte(number(line, "will_qos", 0)), number(line, "will_retain", 0) == 1)
	}
	options.SetDefaultPublishHandler(func(_ mqtt.Client, message mqtt.Message) {
		say(c.name, "message", url.Values{
			"topic": {message.Topic()}, "payload": {string(message.Payload())},
			"qos": {strconv.Itoa(int(message.Qos()))}, "retain": {flag(message.Retained())},
			"dup": {flag(message.Duplicate())}})
	})
	options.SetConnectionLostHandler(func(_ mqtt.Client, err error) {
		say(c.name, "lost", url.Values{"why": {err.Error()}})
	})
	c.client = mqtt.NewClient(options)
	token := c.client.Connect().(*mqtt.ConnectToken)
	token.Wait()
	if token.Error() != nil {
		say(c.name, "refused", url.Values{
			"code": {strconv.Itoa(int(token.ReturnCode()))}, "why": {token.Error().Error()}})
		return
	}
	say(c.name, "connected", url.Values{"present": {flag(token.SessionPresent())}})
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

func (c *client3) subscribe(line url.Values) {
	token := c.client.Subscribe(line.Get("filter"), byte(number(line, "qos", 0)), nil)
	token.Wait()
	// By its filter, which the library has freed of `$share/group/`: there is only one.
	for _, code := range token.(*mqtt.SubscribeToken).Result() {
		say(c.name, "subscribed", url.Values{"code": {strconv.Itoa(int(code))}})
		return
	}
	failed(c.name, fmt.Errorf("no answer: %v", token.Error()))
}

func (c *client3) unsubscribe(line url.Values) {
	token := c.client.Unsubscribe(line.Get("filter"))
	token.Wait()
	c.done("unsubscribed", token.Error())
}

func (c *client3) publish(line url.Values) {
	var last []mqtt.Token
	for _, payload := range payloads(line) {
		last = append(last, c.client.Publish(line.Get("topic"), byte(number(line, "qos", 0)),
			number(line, "retain", 0) == 1, payload))
	}
	for _, token := range last {
		token.Wait()
		if token.Error() != nil {
			failed(c.name, token.Error())
			return
		}
	}
	c.done("published", nil)
}

func (c *client3) disconnect(url.Values) {
	c.client.Disconnect(250)
	c.done("disconnected", nil)
}

func (c *client3) done(event string, err error) {
	if err != nil {
		failed(c.name, err)
		return
	}
	say(c.name, event, nil)
}
