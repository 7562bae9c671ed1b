"""Paho Python, told by lines. See drivers.py for what is said both ways."""

import sys
import threading
from urllib.parse import parse_qsl, urlencode

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

lock = threading.Lock()
clients = {}


def say(name, event, **fields):
    pairs = [("as", name), ("event", event)]
    for key, value in fields.items():
        pairs += [(key, each) for each in (value if isinstance(value, list) else [value])
                  if each is not None]
    with lock:
        sys.stdout.write(urlencode(pairs) + "\n")
        sys.stdout.flush()


def properties(kind, wanted):
    """Properties of a packet from {name of Paho: value or None}."""
    made = Properties(kind)
    for name, value in wanted.items():
        if value is not None:
            setattr(made, name, value)
    return made


class Line(dict):
    """A command: a key is there once, or several times under `all`."""

    def __init__(self, text):
        super().__init__()
        self.all = {}
        for key, value in parse_qsl(text, keep_blank_values=True):
            self[key] = value
            self.all.setdefault(key, []).append(value)

    def number(self, key, default=None):
        return int(self[key]) if key in self else default

    def users(self, key="user_property"):
        pairs = [tuple(each.split(":", 1)) for each in self.all.get(key, [])]
        return pairs or None


class Client:
    def __init__(self, name, line):
        self.name, self.version = name, line.number("version")
        self.v5 = self.version == mqtt.MQTTv5
        clean = line.number("clean", 1) == 1
        transport = "websockets" if "ws" in line else "tcp"
        self.client = client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, line.get("id", ""), None if self.v5 else clean,
            protocol=self.version, transport=transport, reconnect_on_failure=False)
        if "ws" in line:
            client.ws_set_options(path=line["ws"])
        if "user" in line:
            client.username_pw_set(line["user"], line.get("password"))
        if "ca" in line:
            client.tls_set(line["ca"], line.get("cert"), line.get("key"))
        if "will_topic" in line:
            will = None
            if self.v5:
                will = properties(PacketTypes.WILLMESSAGE,
                                  {"WillDelayInterval": line.number("will_delay")})
            client.will_set(line["will_topic"], line.get("will_payload", ""),
                            line.number("will_qos", 0), line.number("will_retain", 0) == 1, will)
        client.max_inflight_messages_set(100)
        client.on_connect, client.on_disconnect = self.connected, self.disconnected
        client.on_message, client.on_publish = self.message, self.published
        client.on_subscribe, client.on_unsubscribe = self.subscribed, self.unsubscribed
        client.on_connect_fail = lambda *_: say(self.name, "refused", why="no connection")
        self.waiting, self.left, self.early, self.leaving = set(), 0, set(), False
        self.up = False
        self.ids = threading.Lock()
        more = {}
        if self.v5:
            more = {"clean_start": clean, "properties": properties(PacketTypes.CONNECT, {
                "SessionExpiryInterval": line.number("expiry"),
                "ReceiveMaximum": line.number("receive_max"),
                "MaximumPacketSize": line.number("packet_max"),
                "TopicAliasMaximum": line.number("alias_max"),
                "RequestResponseInformation": line.number("response_information")})}
        try:
            client.connect(line["host"], int(line["port"]), line.number("keep_alive", 60), **more)
        except OSError as error:
            say(self.name, "refused", why=str(error))
            return
        client.loop_start()

    def connected(self, client, _, flags, reason, props):
        if reason.is_failure:
            self.leaving = True
            say(self.name, "refused", code=reason.value, why=str(reason))
            return
        self.up, fields = True, {}
        if props:
            names = {"assigned_id": "AssignedClientIdentifier", "reason": "ReasonString",
                     "server_keep_alive": "ServerKeepAlive", "receive_max": "ReceiveMaximum",
                     "alias_max": "TopicAliasMaximum", "packet_max": "MaximumPacketSize",
                     "session_expiry": "SessionExpiryInterval",
                     "response_information": "ResponseInformation"}
            fields = {key: getattr(props, name, None) for key, name in names.items()}
        say(self.name, "connected", present=int(flags.session_present), **fields)

    def disconnected(self, client, _, flags, reason, props):
        if self.leaving:
            say(self.name, "disconnected")
        elif not self.up:
            say(self.name, "refused", why=str(reason))
        else:
            why = getattr(props, "ReasonString", None) if props else None
            say(self.name, "lost", code=reason.value, why=why or str(reason))

    def message(self, client, _, message):
        fields, props = {}, message.properties
        if props:
            names = {"content_type": "ContentType", "response_topic": "ResponseTopic",
                     "expiry": "MessageExpiryInterval", "payload_format": "PayloadFormatIndicator",
                     "subscription_id": "SubscriptionIdentifier"}
            fields = {key: getattr(props, name, None) for key, name in names.items()}
            if hasattr(props, "CorrelationData"):
                fields["correlation"] = props.CorrelationData.decode()
            pairs = getattr(props, "UserProperty", [])
            fields["user_property"] = [":".join(pair) for pair in pairs]
        say(self.name, "message", topic=message.topic, payload=message.payload, qos=message.qos,
            retain=int(message.retain), dup=int(message.dup), **fields)

    def published(self, client, _, mid, reason, props):
        with self.ids:
            if mid not in self.waiting:
                self.early.add(mid)
                return
            self.waiting.discard(mid)
            self.left -= 1
            done = self.left == 0
        if done:
            say(self.name, "published", code=getattr(reason, "value", 0),
                why=getattr(props, "ReasonString", None) if props else None)

    def subscribed(self, client, _, mid, reasons, props):
        say(self.name, "subscribed", code=[reason.value for reason in reasons],
            why=getattr(props, "ReasonString", None) if props else None)

    def unsubscribed(self, client, _, mid, reasons, props):
        say(self.name, "unsubscribed", code=[reason.value for reason in reasons])

    def publish(self, line):
        props = None
        if self.v5:
            correlation = line.get("correlation")
            props = properties(PacketTypes.PUBLISH, {
                "MessageExpiryInterval": line.number("expiry"), "ContentType": line.get("type"),
                "ResponseTopic": line.get("response_topic"), "UserProperty": line.users(),
                "CorrelationData": correlation.encode() if correlation else None,
                "PayloadFormatIndicator": line.number("payload_format"),
                "TopicAlias": line.number("alias")})
        count = line.number("count", 1)
        with self.ids:
            self.left = count
        for number in range(count):
            payload = line["payload"].replace("%", str(number)) if count > 1 else line["payload"]
            sent = self.client.publish(line["topic"], payload, line.number("qos", 0),
                                       line.number("retain", 0) == 1, props)
            with self.ids:
                self.waiting.add(sent.mid)
                was_early = sent.mid in self.early
                self.early.discard(sent.mid)
            if was_early:
                self.published(self.client, None, sent.mid, None, None)

    def subscribe(self, line):
        if not self.v5:
            self.client.subscribe(line["filter"], line.number("qos", 0))
            return
        options = SubscribeOptions(line.number("qos", 0), line.number("no_local", 0) == 1,
                                   line.number("as_published", 0) == 1, line.number("handling", 0))
        props = properties(PacketTypes.SUBSCRIBE,
                           {"SubscriptionIdentifier": line.number("subscription_id")})
        self.client.subscribe(line["filter"], options=options, properties=props)

    def unsubscribe(self, line):
        self.client.unsubscribe(line["filter"])

    def disconnect(self, line):
        self.leaving = True
        props, reason = None, None
        if self.v5:
            from paho.mqtt.reasoncodes import ReasonCode
            props = properties(PacketTypes.DISCONNECT,
                               {"SessionExpiryInterval": line.number("expiry")})
            reason = ReasonCode(PacketTypes.DISCONNECT, identifier=line.number("code", 0))
        self.client.disconnect(reason, props)


def main():
    for text in sys.stdin:
        line = Line(text.strip())
        name = line["as"]
        try:
            if line["do"] == "connect":
                clients[name] = Client(name, line)
            else:
                getattr(clients[name], line["do"])(line)
        except Exception as error:  # said, so that the test that waits fails with it
            say(name, "failed", why=repr(error))


main()
