"""Sessions by hand: what is sent again, in which order, with which identifiers, and when not.

Every test runs at the versions it names, by raw packets, because no library lets a test withhold
an acknowledgement.
"""

import functools
import time

import mqtt.wire as wire
from mqtt.broker import IS_HOLDLINE, Case, holdline_only
from mqtt.wire import (CONNACK, DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, UNSUBACK,
                       V31, V311, V5, Closed, Will)

ALL = (V31, V311, V5)


def lasting(version, expiry=3600):
    """How a client connects whose session is to be kept."""
    return {"clean": False, "props": {"session_expiry": expiry} if version == V5 else None}


def at(*versions):
    """Runs a test at each version, with a name for its clients and topics."""
    def wrap(test):
        @functools.wraps(test)
        def run(self):
            for version in versions:
                with self.subTest(version=version):
                    test(self, version, f"{self.name}{version}")
        return run
    return wrap


class Sessions(Case):
    def keeper(self, name, version, *filters, **how):
        """A client with a session that is kept, subscribed."""
        client = self.opened(name, version, **{**lasting(version), **how})
        client.subscribe(*(filters or [(f"{name}/#", 2)]))
        return client

    def restarts(self):
        """The ways over which a session lasts: nothing, a stop and a kill of the server."""
        yield "nothing", lambda: None
        yield "stop", lambda: self.broker.restart()
        if IS_HOLDLINE:
            yield "kill", lambda: self.broker.restart(kill=True)

    # -- acknowledgements withheld

    @at(*ALL)
    def test_an_unacknowledged_message_of_qos_1_comes_again_marked(self, version, name):
        for way, restart in self.restarts():
            client = self.keeper(f"{name}{way}", version, (f"{name}/#", 1))
            writer = self.opened("w", version)
            for number in range(5):
                writer.publish(f"{name}/a", str(number), 1)
            first = [client.expect(PUBLISH) for _ in range(5)]
            client.send(wire.acknowledge(PUBACK, first[0].id))
            client.ping()
            client.close()
            restart()
            client = self.opened(f"{name}{way}", version, **lasting(version))
            self.assertEqual(client.connack.present, version != V31)
            again = [client.expect(PUBLISH) for _ in range(4)]
            if way == "kill" and again[0].payload == b"0":  # its end may not have been written
                client.send(wire.acknowledge(PUBACK, again.pop(0).id))
                again.append(client.expect(PUBLISH))
            self.assertEqual([each.payload for each in again], [b"1", b"2", b"3", b"4"])
            self.assertEqual([each.id for each in again], [each.id for each in first[1:]])
            self.assertTrue(all(each.dup for each in again), again)
            client.send(*[wire.acknowledge(PUBACK, each.id) for each in again])
            client.ping()
            client.close()
            client = self.opened(f"{name}{way}", version, **lasting(version))
            client.ping()  # nothing comes before it

    @holdline_only("mosquitto sends what was released again")
    @at(*ALL)
    def test_an_unacknowledged_message_of_qos_2_comes_again_once_only(self, version, name):
        for way, restart in self.restarts():
            client = self.keeper(f"{name}{way}", version)
            writer = self.opened("w", version)
            for number in range(3):
                writer.publish(f"{name}{way}/a", str(number), 2)
            first = [client.expect(PUBLISH) for _ in range(3)]
            client.send(wire.acknowledge(PUBREC, first[0].id))
            self.assertEqual(client.expect(PUBREL).id, first[0].id)
            client.close()
            restart()
            client = self.opened(f"{name}{way}", version, **lasting(version))
            found = [client.read() for _ in range(3)]
            released = [each.id for each in found if each.kind == PUBREL]
            again = [each for each in found if each.kind == PUBLISH]
            self.assertEqual(released, [first[0].id])
            self.assertEqual([each.payload for each in again], [b"1", b"2"])
            self.assertEqual([each.id for each in again], [each.id for each in first[1:]])
            client.send(wire.acknowledge(PUBCOMP, first[0].id))
            for each in again:
                client.send(wire.acknowledge(PUBREC, each.id))
                self.assertEqual(client.expect(PUBREL).id, each.id)
                client.send(wire.acknowledge(PUBCOMP, each.id))
            client.ping()
            client.close()
            restart()
            client = self.opened(f"{name}{way}", version, **lasting(version))
            client.send(wire.packet(wire.PINGREQ, 0, b""))
            while (found := client.read()).kind != wire.PINGRESP:
                # The last of the exchange may not have been written when it was killed.
                self.assertEqual((found.kind, way), (PUBREL, "kill"))
                client.send(wire.acknowledge(PUBCOMP, found.id))

    @at(*ALL)
    def test_a_publish_of_qos_2_that_is_sent_again_is_delivered_once(self, version, name):
        for way, restart in self.restarts():
            reader = self.keeper(f"{name}r{way}", version, (f"{name}/{way}", 2))
            writer = self.opened(f"{name}w{way}", version, **lasting(version))
            sent = wire.publish(version, f"{name}/{way}", b"once", 2, id=9)
            writer.send(sent)
            self.assertEqual(writer.expect(PUBREC).id, 9)
            reader.close()
            writer.close()
            restart()
            reader = self.opened(f"{name}r{way}", version, **lasting(version))
            writer = self.opened(f"{name}w{way}", version, **lasting(version))
            again = wire.publish(version, f"{name}/{way}", b"once", 2, dup=True, id=9)
            writer.send(again)
            self.assertEqual(writer.expect(PUBREC).id, 9)
            writer.send(wire.acknowledge(PUBREL, 9))
            self.assertEqual(writer.expect(PUBCOMP).id, 9)
            writer.publish(f"{name}/{way}", b"next", 2)
            self.assertEqual(reader.take().payload, b"once")
            self.assertEqual(reader.take().payload, b"next")
            writer.close()
            reader.close()

    @at(*ALL)
    def test_an_identifier_is_free_again_after_its_end(self, version, name):
        client = self.opened(name, version)
        client.subscribe((f"{name}/a", 0))
        for number in range(300):
            qos = 1 + number % 2
            client.send(wire.publish(version, f"{name}/a", str(number), qos, id=5))
            kinds = []
            while sorted(kinds) != sorted([PUBLISH] + ([PUBREC, PUBCOMP], [PUBACK])[qos == 1]):
                kinds.append(client.read().kind)
                self.assertLess(len(kinds), 4)
                if kinds[-1] == PUBREC:
                    client.send(wire.acknowledge(PUBREL, 5))

    @at(*ALL)
    def test_pubacks_come_in_the_order_of_the_publishes(self, version, name):
        client = self.opened(name, version)
        client.send(*[wire.publish(version, f"{name}/a", b"x", 1 + at % 2, at % 3 == 0, id=at)
                      for at in range(1, 101)])
        found = [client.read() for _ in range(100)]
        self.assertEqual([each.id for each in found], list(range(1, 101)))
        kinds = [PUBREC if at % 2 else PUBACK for at in range(1, 101)]
        self.assertEqual([each.kind for each in found], kinds)

    # -- flow

    @holdline_only("mosquitto 2.0.11 counts a PUBREC as the end")
    def test_no_more_is_sent_than_the_client_takes_at_once(self):
        name = self.name
        client = self.opened(name, V5, props={"receive_max": 3})
        client.subscribe((f"{name}/#", 2))
        writer = self.opened5("w")
        for number in range(10):
            writer.publish(f"{name}/a", str(number), 1 + number % 2)
        first = [client.expect(PUBLISH) for _ in range(3)]
        self.quiet(client)
        writer.publish(f"{name}/a", b"zero", 0)  # QoS 0 is not held back
        self.assertEqual(client.expect(PUBLISH).payload, b"zero")
        client.send(wire.acknowledge(PUBACK, first[0].id))
        self.assertEqual(client.expect(PUBLISH).payload, b"3")
        client.send(wire.acknowledge(PUBREC, first[1].id))
        self.assertEqual(client.expect(PUBREL).id, first[1].id)
        self.quiet(client)
        client.send(wire.acknowledge(PUBCOMP, first[1].id))
        self.assertEqual(client.expect(PUBLISH).payload, b"4")

    def test_a_pubrec_with_a_failure_ends_the_message(self):
        name = self.name
        client = self.opened(name, V5, props={"receive_max": 1})
        client.subscribe((f"{name}/#", 2))
        writer = self.opened5("w")
        writer.publish(f"{name}/a", b"refused", 2)
        writer.publish(f"{name}/a", b"next", 2)
        first = client.expect(PUBLISH)
        client.send(wire.acknowledge(PUBREC, first.id, V5, 0x83))
        self.assertEqual(client.expect(PUBLISH).payload, b"next")

    # -- take-over and expiry

    @at(*ALL)
    def test_a_second_connection_takes_the_session_over(self, version, name):
        first = self.keeper(name, version)
        second = self.opened(name, version, **lasting(version))
        self.assertEqual(second.connack.present, version != V31)
        found = first.until_closed()
        self.assertEqual([each.code for each in found],
                         [0x8E] if version == V5 and IS_HOLDLINE else [])
        second.publish(f"{name}/a", b"mine", 0)
        self.assertEqual(second.take().payload, b"mine")

    @at(*ALL)
    def test_a_clean_second_connection_ends_the_session(self, version, name):
        self.keeper(name, version)
        second = self.opened(name, version, clean=True)
        self.assertFalse(second.connack.present)
        second.publish(f"{name}/a", b"nobody", 0)
        second.ping()
        second.leave()
        third = self.opened(name, version, **lasting(version))
        self.assertFalse(third.connack.present)

    def test_a_session_of_5_goes_on_in_3_and_back(self):
        name = self.name
        self.keeper(name, V5).leave()
        self.opened("w").publish(f"{name}/a", b"one", 1)
        client = self.opened(name, V311, clean=False)
        self.assertTrue(client.connack.present)
        self.assertEqual(client.take().payload, b"one")
        client.leave()
        client = self.opened(name, V5, **lasting(V5))
        self.assertTrue(client.connack.present)

    @holdline_only("mosquitto keeps no such limit here")
    def test_a_session_expires_after_a_restart_too(self):
        client = self.opened(self.name, V5, **lasting(V5, 2))
        client.subscribe("x")
        client.leave()
        self.broker.restart(kill=True)
        time.sleep(3)
        client = self.opened(self.name, V5, **lasting(V5, 2))
        self.assertFalse(client.connack.present)

    @holdline_only("mosquitto lets it pass")
    def test_a_farewell_may_not_make_a_session_of_none(self):
        client = self.opened5(self.name)
        client.send(wire.disconnect(V5, 0, {"session_expiry": 100}))
        found = client.until_closed()
        self.assertEqual([(each.kind, each.code) for each in found], [(DISCONNECT, 0x82)])

    @holdline_only("mosquitto forgets shared ones")
    @at(*ALL)
    def test_subscriptions_last_over_a_restart(self, version, name):
        client = self.keeper(name, version, (f"{name}/+/a", 1), (f"{name}/b/#", 2),
                             (f"$share/g/{name}/c", 1))
        client.leave()
        self.broker.restart()
        client = self.opened(name, version, **lasting(version))
        writer = self.opened("w", version)
        for topic in ("x/a", "b", "b/c/d", "c"):
            writer.publish(f"{name}/{topic}", topic, 2)
        found = sorted((each.payload, each.qos) for each in [client.take() for _ in range(4)])
        self.assertEqual(found, [(b"b", 2), (b"b/c/d", 2), (b"c", 1), (b"x/a", 1)])
        client.send(wire.unsubscribe(version, [f"{name}/+/a"], 3))
        self.assertEqual(client.expect(UNSUBACK).id, 3)
        client.leave()
        self.broker.restart()
        client = self.opened(name, version, **lasting(version))
        self.opened("w", version).publish(f"{name}/x/a", b"gone", 1)
        client.ping()

    @at(V311, V5)
    def test_ids_of_sessions_are_any_text(self, version, name):
        for odd in ("ö/#", "+", "$SYS", "a b", "x" * 200, "日本"):
            client = self.opened(odd + name[-5:], version, **lasting(version))
            client.subscribe((f"{name}/odd", 1))
            client.leave()
            again = self.opened(odd + name[-5:], version, **lasting(version))
            self.assertTrue(again.connack.present)
            again.leave()
            self.opened(odd + name[-5:], version).leave()

    # -- empty identifiers

    def test_an_empty_identifier_is_given_one(self):
        one, two = self.opened5(), self.opened5()
        ids = {each.connack.props["assigned_id"] for each in (one, two)}
        self.assertEqual(len(ids), 2)
        plain = self.opened("", V311)
        plain.ping()
        self.assertNotIn("assigned_id", self.opened5("given").connack.props)

    def test_an_assigned_identifier_brings_its_session_back(self):
        client = self.opened("", V5, **lasting(V5))
        given = client.connack.props["assigned_id"]
        client.leave()
        self.assertTrue(self.opened(given, V5, **lasting(V5)).connack.present)

    def test_an_empty_identifier_that_would_be_kept_is_refused_in_3_1_1(self):
        client = self.wire(V311)
        client.send(wire.connect(V311, "", clean=False))
        self.assertEqual(client.expect(CONNACK).code, 2)
        self.assertEqual(client.until_closed(), [])


class Wills(Case):
    def ending(self, name, version, **how):
        will = Will(f"{self.name}/{name}", b"will", how.pop("qos", 1), how.pop("retain", False),
                    how.pop("will_props", {}))
        return self.opened(f"{self.name}{name}", version, will=will, **how)

    def reader(self, version=V5):
        reader = self.opened(f"{self.name}reader{version}", version)
        reader.subscribe((f"{self.name}/#", 2))
        return reader

    def test_ends_that_publish_the_will(self):
        ends = {"close": lambda client: client.close(), "reset": lambda client: client.reset(),
                "malformed": lambda client: client.send(b"\x00\x00"),
                "takeover": lambda client: self.opened(f"{self.name}takeover", client.version)}
        for version in ALL:
            reader = self.reader(version)
            for name, end in ends.items():
                with self.subTest(name, version=version):
                    end(self.ending(name, version))
                    found = reader.take()
                    self.assertEqual((found.topic, found.payload), (f"{self.name}/{name}", b"will"))
                    self.assertFalse(found.retain)
            with self.subTest("silence", version=version):
                self.ending("silence", version, keep_alive=1)
                self.assertEqual(reader.take(8).topic, f"{self.name}/silence")

    def test_a_farewell_takes_the_will_back(self):
        for version in ALL:
            reader = self.reader(version)
            self.ending("polite", version).leave()
            self.ending("asked", V5).leave(reason=4)
            self.assertEqual(reader.take().topic, f"{self.name}/asked")

    def test_a_will_takes_its_properties_along(self):
        reader = self.reader()
        props = {"content_type": "t", "response_topic": "r", "correlation": b"c", "expiry": 50,
                 "payload_format": 1, "user": [("a", "b"), ("a", "c")]}
        self.ending("props", V5, will_props=props).close()
        found = reader.take().props
        self.assertIn(found.pop("expiry"), (48, 49, 50))
        props.pop("expiry")
        self.assertEqual({key: found.get(key) for key in props}, props)

    def test_a_delayed_will_comes_when_its_session_ends(self):
        reader = self.reader()
        self.ending("ends", V5, will_props={"will_delay": 300},
                    props={"session_expiry": 1}).close()
        self.assertEqual(reader.take().topic, f"{self.name}/ends")

    @holdline_only("mosquitto forgets that will")
    def test_a_clean_start_publishes_the_delayed_will_of_the_session_before(self):
        reader = self.reader()
        self.ending("clean", V5, will_props={"will_delay": 30},
                    props={"session_expiry": 60}).close()
        self.opened(f"{self.name}clean", V5)
        self.assertEqual(reader.take().topic, f"{self.name}/clean")

    @holdline_only("mosquitto forgets wills")
    def test_wills_are_published_after_a_kill_of_the_server(self):
        for version in ALL:
            self.ending(f"kill{version}", version)
            reader = self.opened(f"{self.name}keeper", V5, **lasting(V5))
            reader.subscribe((f"{self.name}/#", 2))
            self.broker.restart(kill=True)
            reader = self.opened(f"{self.name}keeper", V5, **lasting(V5))
            self.assertEqual(reader.take().topic, f"{self.name}/kill{version}")
            reader.leave()

    @holdline_only("mosquitto forgets wills")
    def test_a_delayed_will_outlives_a_kill_of_the_server(self):
        self.ending("late", V5, will_props={"will_delay": 3}, props={"session_expiry": 60})
        self.broker.restart(kill=True)
        reader = self.reader()
        self.assertEqual(reader.take(12).topic, f"{self.name}/late")

    @holdline_only("mosquitto forgets wills")
    def test_a_will_that_was_taken_back_stays_back_over_a_kill(self):
        self.ending("back", V5).leave()
        self.broker.restart(kill=True)
        reader = self.reader()
        self.opened5("w").publish(f"{self.name}/end", b"", 1)
        self.assertEqual(reader.take().topic, f"{self.name}/end")

    def test_a_will_to_a_topic_with_wildcards_is_refused(self):
        for version in ALL:
            client = self.wire(version)
            client.send(wire.connect(version, "w", will=Will("a/#", b"")))
            try:
                found = client.expect(CONNACK)
                self.assertNotEqual(found.code, 0)
            except Closed:
                pass
