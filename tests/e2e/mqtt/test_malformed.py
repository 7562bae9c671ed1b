"""Packets that break the standard's rules, against the answers of the golden vectors.

The table is crates/proto-mqtt/vectors/1-malformed.txt, which the codec's own tests read too: here
the same bytes go through a socket, and the same answer has to come out before the end.
"""

import random
import socket
import time

import mqtt.wire as wire
from mqtt import vectors
from mqtt.broker import IS_HOLDLINE, Case, holdline_only
from mqtt.wire import CONNACK, DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, SUBACK, V31, V311, V5
from mqtt.wire import Closed

VERSIONS = {"3.1": V31, "3.1.1": V311, "5": V5}
CODES = {"malformed_packet": 0x81, "protocol_error": 0x82, "unsupported_protocol_version": 0x84,
         "client_identifier_not_valid": 0x85, "packet_too_large": 0x95, "topic_name_invalid": 0x90,
         "topic_filter_invalid": 0x8F, "bad_authentication_method": 0x8C,
         "topic_alias_invalid": 0x94, "receive_maximum_exceeded": 0x93}


class Table(Case):
    """A server's own limits are the defaults, so vectors that set a limit are tried elsewhere."""

    PLAN = {"changes": {"listen.mqtt": {"believe_names": True}}, "limits": {"flaps_max": 65535}}

    def wanted(self, fields):
        """What must come before the end, as (kind, code), and the version to read it in."""
        word, _, code = fields["answer"].partition(" ")
        version = VERSIONS[fields.get("version", "5")]
        if word == "close":
            return [], version
        if word == "old_connack":
            return [(CONNACK, int(code))], V311
        if word == "connack":
            return [(CONNACK, CODES[code])], V5
        assert word == "disconnect", fields
        return [(DISCONNECT, CODES[code])], V5

    def try_one(self, fields):
        wanted, version = self.wanted(fields)
        if fields.get("first"):
            client = self.wire(version)
        else:
            client = self.opened(f"v{random.random()}", version)
        if fields["answer"].startswith("old_connack"):
            client.version = V311
        elif fields["answer"].startswith("connack"):
            client.version = V5
        client.send(vectors.data(fields["bytes"]))
        # Some end inside a packet that the server may wait for: it knows better already.
        found = client.until_closed(5)
        client.close()
        self.assertEqual([(packet.kind, packet.code) for packet in found], wanted, found)

    def of_table(self, pick):
        count = 0
        for fields in vectors.read("1-malformed.txt"):
            limits = [key for key in fields if key.endswith("_max") or key == "strict_text"]
            if "answer" not in fields or fields.get("from") == "server" or limits:
                continue
            if fields["fault"] in ("bridge_bit", "client_id_long"):
                continue  # bridges of mosquitto mark themselves so: every listener takes both
            if pick(fields):
                count += 1
                with self.subTest(fields["name"]):
                    self.try_one(fields)
        self.assertGreater(count, 20)

    @holdline_only("the answers are ours; mosquitto lets some of these pass")
    def test_a_malformed_first_packet_is_answered_as_the_table_says(self):
        self.of_table(lambda fields: "first" in fields)

    @holdline_only("the answers are ours; mosquitto lets some of these pass")
    def test_a_malformed_later_packet_of_3_is_answered_as_the_table_says(self):
        self.of_table(lambda fields: "first" not in fields and fields.get("version", "5") != "5")

    @holdline_only("the answers are ours; mosquitto lets some of these pass")
    def test_a_malformed_later_packet_of_5_is_answered_as_the_table_says(self):
        self.of_table(lambda fields: "first" not in fields and fields.get("version", "5") == "5")

    @holdline_only("mosquitto ends some of these at once")
    def test_a_packet_that_is_not_whole_is_waited_for(self):
        clients = []
        for fields in vectors.read("1-malformed.txt"):
            if "more" in fields and fields["bytes"] and "268,435,455" not in fields["name"]:
                version = VERSIONS[fields.get("version", "5")]
                first = "first" in fields or fields["bytes"].startswith("10")
                name = f"wait{len(clients)}"
                client = self.wire(version) if first else self.opened(name, version)
                client.send(vectors.data(fields["bytes"]))
                clients.append((fields["name"], client))
        self.broker.settle()
        for name, client in clients:
            with self.subTest(name):
                self.assertTrue(client.is_idle())

    @holdline_only("mosquitto is stricter with wills and control characters")
    def test_a_connect_that_is_good_is_taken(self):
        count = 0
        for fields in vectors.read("2-good.txt"):
            kind = fields.get("means", "").partition(" ")[0]
            if "first" not in fields or kind != "connect" or "from" in fields:
                continue
            if any(key.endswith("_max") for key in fields) or "method=" in fields["means"]:
                continue  # an exchange that this broker does not have is refused
            if len(vectors.data(fields["bytes"])) > 256:
                continue  # a client identifier above the server's own limit
            version = next((number for word, number in (("mqtt5", V5), ("mqtt311", V311))
                            if word in fields["means"]), V31)
            with self.subTest(fields["name"]):
                client = self.wire(version)
                client.send(vectors.data(fields["bytes"]))
                self.assertEqual(client.expect(CONNACK).code, 0)
                client.ping()
                client.leave()
                # The next one may be of another user with the same identifier.
                for id in ("d", "device-1"):
                    self.broker.server.api("DELETE", f"/v1/clients/{id}?session=true")
                count += 1
        self.assertGreater(count, 3)


def dialogue(version, name):
    """Bytes of a client that subscribes to its own topic and publishes at every QoS."""
    return [wire.connect(version, name), wire.subscribe(version, [(f"split/{name}", 2)], 7),
            wire.publish(version, f"split/{name}", b"zero"),
            wire.publish(version, f"split/{name}", b"one", 1, id=8),
            wire.publish(version, f"split/{name}", b"two" * 100, 2, id=9),
            wire.acknowledge(wire.PUBREL, 9), wire.packet(wire.PINGREQ, 0, b"")]


class Pieces(Case):
    PLAN = {"limits": {"flaps_max": 65535}}

    def answered(self, client):
        """Reads the answers to a dialogue, in whatever order the standard leaves open."""
        seen, payloads = [], []
        wanted = {wire.PINGRESP, SUBACK, PUBACK, PUBCOMP}
        while len(payloads) < 3 or not wanted <= set(seen):
            packet = client.read()
            seen.append(packet.kind)
            if packet.kind == PUBLISH:
                payloads.append(packet.payload)
        self.assertEqual(sorted(payloads), [b"one", b"two" * 100, b"zero"])
        self.assertEqual(seen[0], CONNACK)
        self.assertIn(PUBREC, seen)

    def test_a_dialogue_in_single_bytes(self):
        for version in (V31, V311, V5):
            client = self.wire(version)
            for byte in b"".join(dialogue(version, f"bytes{version}")):
                client.send(bytes([byte]))
            self.answered(client)

    def test_a_dialogue_cut_in_two_at_every_byte(self):
        for version in (V31, V311, V5):
            whole = b"".join(dialogue(version, "c"))
            for at in range(1, len(whole), 3 if version == V31 else 1):
                client = self.wire(version)
                client.send(whole[:at])
                client.send(whole[at:])
                self.answered(client)
                client.close()

    def test_a_dialogue_in_one_write_before_the_connack(self):
        for version in (V31, V311, V5):
            client = self.wire(version)
            client.send(*dialogue(version, f"one{version}"))
            self.answered(client)

    def test_a_packet_of_the_largest_size_allowed_goes_through(self):
        reader = self.opened("large-reader", V5)
        reader.subscribe("large")
        writer = self.opened("large-writer", V5)
        payload = random.Random(1).randbytes(1024 * 1024 - 4 - 2 - 5 - 1 - 1)
        writer.send(wire.publish(V5, "large", payload))
        self.assertEqual(reader.take().payload, payload)


class Order(Case):
    """What is wrong by its place, not by its form."""

    PLAN = {"limits": {"flaps_max": 65535}}

    def ends(self, client, code=None):
        found = client.until_closed(5)
        if client.version == V5 and code is not None:
            self.assertEqual([packet.kind for packet in found], [DISCONNECT], found)
            self.assertEqual(found[0].code, code)
        else:
            self.assertEqual(found, [])

    @holdline_only("the codes are ours")
    def test_a_second_connect_ends_the_connection(self):
        for version in (V31, V311, V5):
            client = self.opened(f"second{version}", version)
            client.send(wire.connect(version, f"second{version}"))
            self.ends(client, 0x82)

    def test_a_first_packet_that_is_no_connect_ends_the_connection_without_a_word(self):
        firsts = [wire.publish(V311, "a", b"x"), wire.subscribe(V311, ["#"]),
                  wire.packet(wire.PINGREQ, 0, b""), wire.packet(wire.DISCONNECT, 0, b""),
                  wire.acknowledge(PUBACK, 1), wire.packet(CONNACK, 0, b"\0\0")]
        for first in firsts:
            client = self.wire(V311)
            client.send(first)
            self.ends(client)

    def test_garbage_ends_the_connection_and_harms_nobody(self):
        dice = random.Random(4)
        bystander = self.opened("bystander")
        for _ in range(200):
            client = self.wire(V5)
            try:
                client.send(dice.randbytes(dice.randrange(1, 400)))
                client.socket.shutdown(socket.SHUT_WR)
                while client.socket.recv(4096):
                    pass
            except (OSError, Closed):
                pass
            client.close()
        bystander.ping()

    def test_garbage_after_the_connect_ends_the_connection_and_harms_nobody(self):
        dice = random.Random(5)
        bystander = self.opened("bystander2")
        bystander.subscribe("mine/#")
        for number in range(200):
            client = self.opened(f"garbage{number % 7}", dice.choice((V31, V311, V5)))
            try:
                client.send(dice.randbytes(dice.randrange(1, 400)))
                client.socket.shutdown(socket.SHUT_WR)
                while client.socket.recv(4096):
                    pass
            except (OSError, Closed):
                pass
            client.close()
        bystander.ping()

    def test_acknowledgements_of_nothing_are_harmless(self):
        for version in (V31, V311, V5):
            client = self.opened(f"nothing{version}", version)
            client.send(wire.acknowledge(PUBACK, 77), wire.acknowledge(PUBCOMP, 78))
            client.ping()

    def test_a_pubrel_of_nothing_is_completed(self):
        for version in (V31, V311, V5):
            client = self.opened(f"rel{version}", version)
            client.send(wire.acknowledge(wire.PUBREL, 77))
            answer = client.expect(PUBCOMP)
            self.assertEqual(answer.id, 77)
            self.assertIn(answer.code, (0, 0x92))

    @holdline_only("mosquitto releases what it does not know in silence")
    def test_a_pubrec_of_nothing_is_released_with_its_reason(self):
        client = self.opened5("rec")
        client.send(wire.acknowledge(PUBREC, 77))
        answer = client.expect(wire.PUBREL)
        self.assertEqual((answer.id, answer.code), (77, 0x92))

    @holdline_only("mosquitto warns only")
    def test_more_than_the_receive_maximum_ends_a_client_of_5(self):
        client = self.opened5("greedy")
        most = client.connack.props.get("receive_max", 65535)
        many = [wire.publish(V5, "greedy", b"x", 2, id=number) for number in range(1, most + 2)]
        client.send(*many)
        end = client.until_closed()[-1]
        self.assertEqual((end.kind, end.code), (DISCONNECT, 0x93))

    def test_a_client_of_3_with_many_unreleased_publishes_goes_on(self):
        client = self.opened("patient")
        many = [wire.publish(V311, "patient", b"x", 2, id=number) for number in range(1, 3001)]
        client.send(*many[:900])
        for number in range(1, 901):
            self.assertEqual(client.expect(PUBREC).id, number)
        client.send(*[wire.acknowledge(wire.PUBREL, number) for number in range(1, 901)])
        for number in range(1, 901):
            self.assertEqual(client.expect(PUBCOMP).id, number)
        client.ping()

    @holdline_only("mosquitto has no such alias")
    def test_a_topic_alias_above_the_maximum_ends_the_connection(self):
        client = self.opened5("alias")
        most = client.connack.props.get("alias_max", 0)
        client.send(wire.publish(V5, "a", b"x", props={"alias": most + 1}))
        self.ends(client, 0x94)

    @holdline_only("the code is ours")
    def test_a_topic_alias_that_is_not_known_ends_the_connection(self):
        client = self.opened5("alias2")
        client.send(wire.publish(V5, "", b"x", props={"alias": 3}))
        found = client.until_closed()
        self.assertEqual(found[-1].kind, DISCONNECT)
        self.assertIn(found[-1].code, (0x82, 0x94))


class Sizes(Case):
    PLAN = {"limits": {"packet_bytes_max": 4096, "connect_bytes_max": 4096},
            "conf": "max_packet_size 4096"}

    @holdline_only("the codes are ours")
    def test_a_packet_above_the_limit_is_refused_by_its_header(self):
        for version in (V31, V311, V5):
            client = self.opened(f"over{version}", version)
            client.send(wire.publish(version, "t", b"x" * 4096)[:10])
            found = client.until_closed(5)
            self.assertEqual([packet.code for packet in found], [0x95] if version == V5 else [])

    @holdline_only("mosquitto does not say it")
    def test_a_client_of_5_is_told_the_limit(self):
        self.assertEqual(self.opened5("told").connack.props.get("packet_max"), 4096)

    def test_a_packet_at_the_limit_is_taken(self):
        for version in (V311, V5):
            client = self.opened(f"at{version}", version)
            client.subscribe("at")
            head = len(wire.publish(version, "at", b"x" * 4000)) - 4000
            client.send(wire.publish(version, "at", b"x" * (4096 - head)))
            self.assertEqual(len(client.take().payload), 4096 - head)


class Silence(Case):
    PLAN = {"changes": {"limits": {"bind_ms_max": 1000}}}

    @holdline_only("mosquitto waits longer")
    def test_a_connect_that_never_comes_ends_the_connection(self):
        clients = [self.wire(V311) for _ in range(3)]
        clients[1].send(b"\x10")
        clients[2].send(wire.connect(V311, "cut")[:-1])
        for client in clients:
            self.assertEqual(client.until_closed(5), [])

    def test_a_silent_client_ends_after_one_and_a_half_keep_alives(self):
        for version in (V31, V311, V5):
            began = time.monotonic()  # before the server's clock begins, however late we go on
            client = self.opened(f"silent{version}", version, keep_alive=1)
            found = client.until_closed()
            self.assertGreater(time.monotonic() - began, 1.4)
            if version == V5 and IS_HOLDLINE:  # mosquitto just ends
                self.assertEqual([packet.code for packet in found], [0x8D])

    def test_a_client_that_pings_in_time_stays(self):
        client = self.opened("pings", keep_alive=2)
        for _ in range(8):
            time.sleep(0.5)
            self.assertEqual(client.told(), [])

    def test_keep_alive_zero_is_no_limit(self):
        client = self.opened("zero", keep_alive=0)
        ending = self.opened("one", keep_alive=1)
        ending.until_closed(8)
        self.assertEqual(client.told(), [])
