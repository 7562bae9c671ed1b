"""Properties of 5.0 by hand: what a client may ask for, and what it must then not be sent."""

import mqtt.wire as wire
from mqtt.broker import Case, holdline_only
from mqtt.test_sessions import lasting
from mqtt.wire import CONNACK, DISCONNECT, PUBACK, PUBLISH, PUBREC, SUBACK, V311, V5


class Properties(Case):
    @holdline_only("mosquitto does not look")
    def test_a_payload_that_is_not_what_it_says_is_refused(self):
        for qos in range(3):
            client = self.opened5(f"{self.name}{qos}")
            client.send(wire.publish(V5, self.name, b"\xff\xfe", qos, props={"payload_format": 1}))
            self.assertEqual(client.read().code, 0x99)
        client = self.opened5(self.name)
        self.assertEqual(client.publish(self.name, b"\xff", 1, props={"payload_format": 0}).code,
                         0x10)

    def test_no_reasons_for_a_client_that_wants_none(self):
        client = self.opened5(self.name, props={"problem_information": 0})
        client.subscribe("x")
        for packet in (wire.publish(V5, self.name, b"x", 1, id=3),
                       wire.publish(V5, "$SYS/x", b"x", 1, id=4)):
            client.send(packet)
            answer = client.expect(PUBACK)
            self.assertNotIn("reason", answer.props)
            self.assertNotIn("user", answer.props)

    def test_response_information_only_when_it_is_asked_for(self):
        self.assertNotIn("response_information", self.opened5(self.name).connack.props)
        asked = self.opened5(f"{self.name}2", props={"response_information_wanted": 1})
        if "response_information" in asked.connack.props:
            prefix = asked.connack.props["response_information"]
            self.assertNotIn("#", prefix)
            self.assertTrue(prefix)

    def test_a_puback_with_a_failure_ends_the_message(self):
        client = self.opened5(self.name, **lasting(V5))
        client.subscribe((f"{self.name}/#", 1))
        self.opened5("w").publish(f"{self.name}/a", b"x", 1)
        found = client.expect(PUBLISH)
        client.send(wire.acknowledge(PUBACK, found.id, V5, 0x83))
        client.ping()
        client.leave()
        client = self.opened5(self.name, **lasting(V5))
        client.ping()

    def test_user_properties_of_acknowledgements_are_allowed(self):
        client = self.opened5(self.name)
        client.subscribe((f"{self.name}/#", 2))
        writer = self.opened5("w")
        props = {"reason": "because", "user": [("a", "b"), ("a", "b")]}
        for qos in (1, 2):
            writer.publish(f"{self.name}/a", b"x", qos)
            found = client.expect(PUBLISH)
            kind = PUBACK if qos == 1 else PUBREC
            client.send(wire.acknowledge(kind, found.id, V5, 0x10 if qos == 1 else 0, props))
            if qos == 2:
                client.expect(wire.PUBREL)
                client.send(wire.acknowledge(wire.PUBCOMP, found.id, V5, 0, props))
        client.ping()

    def test_expiry_counts_while_a_message_waits_even_over_a_restart(self):
        client = self.opened5(self.name, **lasting(V5))
        client.subscribe((f"{self.name}/#", 1))
        client.leave()
        writer = self.opened5("w")
        writer.publish(f"{self.name}/a", b"short", 1, props={"expiry": 2})
        writer.publish(f"{self.name}/a", b"long", 1, props={"expiry": 100})
        self.broker.restart()
        wire.time.sleep(2.5)
        client = self.opened5(self.name, **lasting(V5))
        found = client.take()
        self.assertEqual(found.payload, b"long")
        self.assertIn(found.props["expiry"], range(90, 99))

    def test_a_subscription_that_is_renewed_gets_retained_messages_as_it_asks(self):
        writer = self.opened5("w")
        writer.publish(f"{self.name}/a", b"kept", 1, retain=True)
        client = self.opened5(self.name, **lasting(V5))
        client.subscribe((f"{self.name}/#", 0x11))  # retain handling 1: new, so sent
        self.assertTrue(client.take().retain)
        client.leave()
        client = self.opened5(self.name, **lasting(V5))
        client.subscribe((f"{self.name}/#", 0x11))  # the session had it
        self.quiet(client)
        client.subscribe((f"{self.name}/#", 0x01))
        self.assertTrue(client.take().retain)

    def test_a_subscription_is_renewed_without_a_gap(self):
        client = self.opened5(self.name)
        client.subscribe((f"{self.name}/#", 1))
        writer = self.opened5("w")
        for number in range(200):
            writer.publish(f"{self.name}/a", str(number), 1)
            if number % 20 == 0:
                client.send(wire.subscribe(V5, [(f"{self.name}/#", 0x21)], number + 1000))
        payloads = []
        while len(payloads) < 200:
            found = client.read()
            if found.kind == PUBLISH:
                payloads.append(int(found.payload))
                client.send(wire.acknowledge(PUBACK, found.id))
            else:
                self.assertEqual(found.kind, SUBACK)
        self.assertEqual(payloads, list(range(200)))

    def test_what_was_sent_before_an_unsubscribe_comes_to_its_end(self):
        client = self.opened5(self.name)
        client.subscribe((f"{self.name}/#", 2))
        self.opened5("w").publish(f"{self.name}/a", b"x", 2)
        found = client.expect(PUBLISH)
        client.send(wire.unsubscribe(V5, [f"{self.name}/#"], 9))
        self.assertEqual(client.expect(wire.UNSUBACK).codes, [0])
        client.send(wire.acknowledge(PUBREC, found.id))
        self.assertEqual(client.expect(wire.PUBREL).code, 0)
        client.send(wire.acknowledge(wire.PUBCOMP, found.id))
        client.ping()

    @holdline_only("mosquitto forgets what does not fit")
    def test_a_packet_size_holds_for_every_packet(self):
        client = self.opened5(self.name, props={"packet_max": 60})
        client.subscribe((f"{self.name}/#", 1))
        writer = self.opened5("w")
        long = {"user": [("name", "x" * 100)]}
        writer.publish(f"{self.name}/a", b"x", 1, props=long)
        writer.publish(f"{self.name}/a", b"fits", 1)
        found = client.take()
        self.assertEqual(found.payload, b"fits")
        self.assertLessEqual(found.bytes, 60)
        for bad in ("x" * 1025, "$share/g"):
            client = self.opened5(self.name, props={"packet_max": 30})
            client.send(wire.subscribe(V5, [bad]))
            self.assertTrue(all(each.bytes <= 30 for each in client.until_closed()))

    @holdline_only("mosquitto lets it pass")
    def test_a_window_or_packet_size_of_nothing_is_an_error(self):
        for props in ({"receive_max": 0}, {"packet_max": 0}):
            client = self.wire(V5)
            client.send(wire.connect(V5, self.name, props=props))
            self.assertEqual(client.expect(CONNACK).code, 0x82)

    @holdline_only("mosquitto 2.0.11 has another code")
    def test_an_auth_packet_without_a_method_ends_the_connection(self):
        client = self.opened5(self.name)
        client.send(wire.packet(wire.AUTH, 0, b"\x19\x00"))
        found = client.until_closed()
        self.assertEqual([(each.kind, each.code) for each in found], [(DISCONNECT, 0x82)])

    def test_a_session_for_ever_is_cut_to_what_the_server_keeps(self):
        answer = self.opened5(self.name, clean=False, props={"session_expiry": 0xFFFFFFFF}).connack
        cut = answer.props.get("session_expiry", 0xFFFFFFFF)
        self.assertGreater(cut, 3600)

    def test_messages_of_5_reach_3_without_their_properties(self):
        old = self.opened(self.name, V311)
        old.subscribe((f"{self.name}/#", 1))
        props = {"user": [("a", "b")], "content_type": "t", "expiry": 9, "response_topic": "r"}
        self.opened5("w").publish(f"{self.name}/a", b"plain", 1, props=props)
        self.assertEqual(old.take().payload, b"plain")
