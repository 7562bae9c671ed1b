package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// client5 speaks 5.
type client5 struct {
	name    string
	client  *paho.Client
	leaving bool
}

func (c *client5) dial(line url.Values) (net.Conn, error) {
	address := net.JoinHostPort(line.Get("host"), line.Get("port"))
	if !line.Has("ca") {
		return net.Dial("tcp", address)
	}
	config, err := tlsConfig(line)
	if err != nil {
		return nil, err
	}
	return tls.Dial("tcp", address, config)
}

func (c *client5) connect(line url.Values) {
	conn, err := c.dial(line)
	if err != nil {
		say(c.name, "refused", url.Values{"why": {err.Error()}})
		return
	}
	c.client = paho.NewClient(paho.ClientConfig{
		ClientID: line.Get("id"), Conn: conn,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){c.message},
		OnClientError: func(err error) {
			if !c.leaving {
				say(c.name, "lost", url.Values{"why": {err.Error()}})
			}
		},
		OnServerDisconnect: func(packet *paho.Disconnect) {
			fields := url.Values{"code": {strconv.Itoa(int(packet.ReasonCode))}}
			if packet.Properties != nil {
				fields.Set("why", packet.Properties.ReasonString)
			}
			say(c.name, "lost", fields)
		},
	})
	ack, err := c.client.Connect(context.Background(), c.packet(line))
	if err != nil {
		fields := url.Values{"why": {err.Error()}}
		if ack != nil {
			fields.Set("code", strconv.Itoa(int(ack.ReasonCode)))
		}
		say(c.name, "refused", fields)
		return
	}
	fields := url.Values{"present": {flag(ack.SessionPresent)}}
	if props := ack.Properties; props != nil {
		put16(fields, "server_keep_alive", props.ServerKeepAlive)
		put16(fields, "receive_max", props.ReceiveMaximum)
		put16(fields, "alias_max", props.TopicAliasMaximum)
		put32(fields, "packet_max", props.MaximumPacketSize)
		put32(fields, "session_expiry", props.SessionExpiryInterval)
		put(fields, "assigned_id", props.AssignedClientID)
		put(fields, "reason", props.ReasonString)
	}
	say(c.name, "connected", fields)
}

func (c *client5) packet(line url.Values) *paho.Connect {
	packet := &paho.Connect{
		ClientID: line.Get("id"), CleanStart: number(line, "clean", 1) == 1,
		KeepAlive: uint16(number(line, "keep_alive", 60)), Properties: &paho.ConnectProperties{
			SessionExpiryInterval: number32(line, "expiry"),
			ReceiveMaximum:        number16(line, "receive_max"),
			MaximumPacketSize:     number32(line, "packet_max"),
			TopicAliasMaximum:     number16(line, "alias_max"),
			RequestProblemInfo:    true,
		},
	}
	if line.Has("user") {
		packet.UsernameFlag, packet.Username = true, line.Get("user")
		packet.PasswordFlag, packet.Password = line.Has("password"), []byte(line.Get("password"))
	}
	if line.Has("will_topic") {
		packet.WillMessage = &paho.WillMessage{
			Topic: line.Get("will_topic"), Payload: []byte(line.Get("will_payload")),
			QoS: byte(number(line, "will_qos", 0)), Retain: number(line, "will_retain", 0) == 1}
		packet.WillProperties = &paho.WillProperties{WillDelayInterval: number32(line, "will_delay")}
	}
	return packet
}

func (c *client5) message(received paho.PublishReceived) (bool, error) {
	message := received.Packet
	fields := url.Values{
		"topic": {message.Topic}, "payload": {string(message.Payload)},
		"qos": {strconv.Itoa(int(message.QoS))}, "retain": {flag(message.Retain)}}
	if props := message.Properties; props != nil {
		put(fields, "content_type", props.ContentType)
		put(fields, "response_topic", props.ResponseTopic)
		put(fields, "correlation", string(props.CorrelationData))
		put32(fields, "expiry", props.MessageExpiry)
		if props.PayloadFormat != nil {
			fields.Set("payload_format", strconv.Itoa(int(*props.PayloadFormat)))
		}
		if props.SubscriptionIdentifier != nil {
			fields.Set("subscription_id", strconv.Itoa(*props.SubscriptionIdentifier))
		}
		for _, pair := range props.User {
			fields.Add("user_property", pair.Key+":"+pair.Value)
		}
	}
	say(c.name, "message", fields)
	return true, nil
}

func (c *client5) subscribe(line url.Values) {
	packet := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{
		Topic: line.Get("filter"), QoS: byte(number(line, "qos", 0)),
		NoLocal:           number(line, "no_local", 0) == 1,
		RetainAsPublished: number(line, "as_published", 0) == 1,
		RetainHandling:    byte(number(line, "handling", 0)),
	}}}
	if line.Has("subscription_id") {
		id := number(line, "subscription_id", 0)
		packet.Properties = &paho.SubscribeProperties{SubscriptionIdentifier: &id}
	}
	answer, err := c.client.Subscribe(limit(), packet)
	if answer == nil {
		failed(c.name, err)
		return
	}
	say(c.name, "subscribed", url.Values{"code": codes(answer.Reasons)})
}

func codes(reasons []byte) (texts []string) {
	for _, reason := range reasons {
		texts = append(texts, strconv.Itoa(int(reason)))
	}
	return texts
}

func (c *client5) unsubscribe(line url.Values) {
	packet := &paho.Unsubscribe{Topics: []string{line.Get("filter")}}
	answer, err := c.client.Unsubscribe(limit(), packet)
	if answer == nil {
		failed(c.name, err)
		return
	}
	say(c.name, "unsubscribed", url.Values{"code": codes(answer.Reasons)})
}

func (c *client5) publish(line url.Values) {
	props := &paho.PublishProperties{
		MessageExpiry: number32(line, "expiry"), ContentType: line.Get("type"),
		ResponseTopic: line.Get("response_topic"), TopicAlias: number16(line, "alias")}
	if line.Has("correlation") {
		props.CorrelationData = []byte(line.Get("correlation"))
	}
	if line.Has("payload_format") {
		format := byte(number(line, "payload_format", 0))
		props.PayloadFormat = &format
	}
	for _, pair := range line["user_property"] {
		key, value, _ := strings.Cut(pair, ":")
		props.User.Add(key, value)
	}
	fields := url.Values{}
	for _, payload := range payloads(line) {
		answer, err := c.client.Publish(limit(), &paho.Publish{
			Topic: line.Get("topic"), QoS: byte(number(line, "qos", 0)), Payload: []byte(payload),
			Retain: number(line, "retain", 0) == 1, Properties: props})
		if answer == nil && err != nil {
			failed(c.name, err)
			return
		}
		if answer != nil {
			fields.Set("code", strconv.Itoa(int(answer.ReasonCode)))
			if answer.Properties != nil {
				put(fields, "why", answer.Properties.ReasonString)
			}
		}
	}
	say(c.name, "published", fields)
}

func (c *client5) disconnect(line url.Values) {
	c.leaving = true
	packet := &paho.Disconnect{ReasonCode: byte(number(line, "code", 0))}
	if line.Has("expiry") {
		packet.Properties = &paho.DisconnectProperties{SessionExpiryInterval: number32(line, "expiry")}
	}
	if err := c.client.Disconnect(packet); err != nil {
		failed(c.name, err)
		return
	}
	say(c.name, "disconnected", nil)
}

func limit() context.Context {
	context, _ := context.WithTimeout(context.Background(), 15*time.Second) //nolint: it ends with us
	return context
}

func number16(line url.Values, key string) *uint16 {
	if !line.Has(key) {
		return nil
	}
	value := uint16(number(line, key, 0))
	return &value
}

func number32(line url.Values, key string) *uint32 {
	if !line.Has(key) {
		return nil
	}
	value := uint32(number(line, key, 0))
	return &value
}

func put(fields url.Values, key, value string) {
	if value != "" {
		fields.Set(key, value)
	}
}

func put16(fields url.Values, key string, value *uint16) {
	if value != nil {
		fields.Set(key, strconv.Itoa(int(*value)))
	}
}

func put32(fields url.Values, key string, value *uint32) {
	if value != nil {
		fields.Set(key, strconv.FormatUint(uint64(*value), 10))
	}
}
