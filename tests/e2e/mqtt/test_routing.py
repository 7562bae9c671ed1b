"""Which message reaches whom: wildcards, overlaps, retained messages, shared groups, $SYS."""

import mqtt.wire as wire
from fixture import poll
from mqtt.broker import IS_HOLDLINE, Case, holdline_only
from mqtt.test_sessions import ALL, at, lasting
from mqtt.wire import PUBACK, UNSUBACK, V311, V5

# Filter, topics that it matches, topics that it does not (MQTT5 4.7).
MATCHES = [
    ("a", ["a"], ["a/", "/a", "A", "aa", "b"]),
    ("#", ["a", "/", "a/b/c", "/a", "a//b"], ["$SYS/x", "$x"]),
    ("+", ["a", "ö"], ["/", "a/b", "$x"]),
    ("a/#", ["a", "a/", "a/b", "a/b/c"], ["b", "aa", "/a"]),
    ("a/+", ["a/", "a/b"], ["a", "a/b/c"]),
    ("a/+/c", ["a/b/c", "a//c"], ["a/c", "a/b/d", "a/b/c/d"]),
    ("+/+", ["a/b", "/", "/a", "a/"], ["a", "a/b/c"]),
    ("/+", ["/a", "/"], ["a", "a/b"]),
    ("+/a/#", ["x/a", "x/a/b/c", "/a"], ["a", "x/b/a", "$x/a"]),
    ("/", ["/"], ["a", "//"]),
    ("a//b", ["a//b"], ["a/b", "a/x/b"]),
    ("$x/#", ["$x", "$x/a"], ["a", "x"]),
    ("$x/+", ["$x/a"], ["$x", "$y/a"]),
    ("日本/+", ["日本/語"], ["日/本"]),
]


class Topics(Case):
    @at(*ALL)
    def test_filters_match_what_the_standard_says(self, version, name):
        writer = self.opened("w", version)
        for filter, yes, no in MATCHES:
            with self.subTest(filter, version=version):
                reader = self.opened(name, version)
                reader.subscribe((filter, 0))
                for topic in no + yes:
                    writer.publish(topic, topic)
                writer.ping()
                marker = yes[0]
                writer.publish(marker, b"end")
                found = []
                while (message := reader.take()).payload != b"end":
                    found.append(message.topic)
                self.assertEqual(found, yes)
                reader.leave()

    @at(*ALL)
    def test_a_filter_that_is_subscribed_again_counts_once(self, version, name):
        client = self.opened(name, version)
        for qos in (0, 2, 1):
            self.assertEqual(client.subscribe((f"{name}/a", qos)), [qos])
        client.publish(f"{name}/a", b"x", 0)
        self.assertEqual(client.take().payload, b"x")
        self.opened("w", version).publish(f"{name}/a", b"y", 2)
        self.assertEqual(client.take().qos, 1)
        client.ping()

    @at(V5)
    def test_overlapping_filters_bring_each_message_with_their_identifiers(self, version, name):
        client = self.opened(name, version)
        client.subscribe((f"{name}/#", 0), props={"subscription_id": 1})
        client.subscribe((f"{name}/+", 2), props={"subscription_id": 2})
        client.subscribe((f"{name}/a", 1), props={"subscription_id": 3})
        client.subscribe((f"{name}/a/#", 1))
        self.opened("w", version).publish(f"{name}/a", b"x", 2)
        found = self.drained(client)
        ids = sorted(id for each in found for id in each.props.get("subscription_id", []))
        self.assertEqual(ids, [1, 2, 3])
        self.assertEqual(max(each.qos for each in found), 2)
        self.assertIn(len(found), (1, 4))

    @at(*ALL)
    def test_overlapping_filters_bring_the_highest_qos(self, version, name):
        client = self.opened(name, version)
        client.subscribe((f"{name}/#", 0), (f"{name}/a", 2), (f"{name}/+", 1))
        self.opened("w", version).publish(f"{name}/a", b"x", 2)
        found = self.drained(client)
        self.assertEqual(max(each.qos for each in found), 2)
        self.assertIn(len(found), (1, 3))

    @at(*ALL)
    def test_many_filters_in_one_packet_are_answered_in_their_order(self, version, name):
        client = self.opened(name, version)
        wanted = [at % 3 for at in range(500)]
        codes = client.subscribe(*[(f"{name}/{at}", qos) for at, qos in enumerate(wanted)])
        self.assertEqual(codes, wanted)
        client.send(wire.unsubscribe(version, [f"{name}/{at}" for at in range(501)], 9))
        answer = client.expect(UNSUBACK)
        if version == V5:
            self.assertEqual(answer.codes, [0] * 500 + [0x11])
        client.publish(f"{name}/0", b"x")
        client.ping()

    def test_a_publish_without_readers_says_so_to_a_client_of_5(self):
        client = self.opened5(self.name)
        self.assertEqual(client.publish(f"{self.name}/nobody", b"x", 1).code, 0x10)
        client.subscribe(f"{self.name}/#")
        client.send(wire.publish(V5, f"{self.name}/somebody", b"x", 1, id=9))
        acks = [each for each in (client.read(), client.read()) if each.kind == PUBACK]
        self.assertEqual(acks[0].code, 0)

    @holdline_only("mosquitto ends a client for a control character")
    def test_topics_with_many_levels_and_odd_names(self):
        client = self.opened(self.name)
        client.subscribe("odd/#")
        for topic in ("odd/" + "/" * 50, "odd/" + "x" * 900, "odd/ ", "odd/\U0001F600", "odd/a\tb"):
            client.publish(topic, b"x")
            self.assertEqual(client.take().topic, topic)

    @holdline_only("the limits are ours")
    def test_a_filter_above_the_limits_ends_the_connection(self):
        for version in ALL:
            for filter in ("x" * 1025, "/".join("y" * 70)):
                client = self.opened(f"{self.name}{version}", version)
                client.send(wire.subscribe(version, [filter]))
                codes = [each.code for each in client.until_closed()]
                self.assertEqual(codes, [0x8F] if version == V5 else [])

    def test_the_server_tells_of_itself(self):
        client = self.opened(self.name)
        client.subscribe("$SYS/#")
        topics = {client.take(15).topic for _ in range(5)}
        self.assertTrue(all(topic.startswith("$SYS/") for topic in topics), topics)

    @holdline_only("mosquitto drops it in silence")
    def test_nobody_publishes_to_sys(self):
        for version in ALL:
            client = self.opened(f"{self.name}{version}", version)
            client.subscribe("$SYS/mine")
            if version == V5:
                self.assertIn(client.publish("$SYS/mine", b"x", 1).code, (0x87, 0x90))
            client.send(wire.publish(version, "$SYS/mine", b"x", 0))
            client.ping()


class Retained(Case):
    def test_only_the_last_message_is_retained(self):
        for version in ALL:
            name = f"{self.name}{version}"
            writer = self.opened("w", version)
            for qos in range(3):
                writer.publish(f"{name}/a", f"{qos}", qos, retain=True)
            reader = self.opened(name, version)
            reader.subscribe((f"{name}/+", 2))
            found = reader.take()
            self.assertEqual((found.payload, found.qos, found.retain), (b"2", 2, True))
            reader.ping()

    def test_an_empty_payload_clears_and_is_delivered_to_readers(self):
        for version in ALL:
            name = f"{self.name}{version}"
            writer = self.opened("w", version)
            writer.publish(f"{name}/a", b"x", 1, retain=True)
            live = self.opened(name, version)
            live.subscribe((f"{name}/a", 1))
            self.assertTrue(live.take().retain)
            writer.publish(f"{name}/a", b"", 1, retain=True)
            found = live.take()
            self.assertEqual((found.payload, found.retain), (b"", False))
            live.subscribe((f"{name}/a", 1))
            live.ping()

    def test_a_message_that_is_not_retained_leaves_the_retained_one(self):
        writer = self.opened("w")
        writer.publish(f"{self.name}/a", b"kept", 1, retain=True)
        writer.publish(f"{self.name}/a", b"passing", 1)
        reader = self.opened(self.name)
        reader.subscribe(f"{self.name}/a")
        self.assertEqual(reader.take().payload, b"kept")

    def test_wildcards_find_retained_messages_as_they_match(self):
        writer = self.opened("w")
        topics = [f"{self.name}/{rest}" for rest in ("a", "a/b", "a/b/c", "b", "", "/")]
        for topic in topics:
            writer.publish(topic, b"x", 1, retain=True)
        wanted = {"#": topics, "a": topics[:1], "a/#": topics[:3], "+": [topics[0], topics[3],
                  topics[4]], "+/b": topics[1:2], "+/+": [topics[1], topics[5]], "nothing": []}
        for filter, found in wanted.items():
            with self.subTest(filter):
                reader = self.opened(self.name)
                reader.subscribe(f"{self.name}/{filter}")
                reader.publish("end", b"")
                got = sorted(each.topic for each in self.drained(reader))
                self.assertEqual(got, sorted(found))

    def test_retained_messages_last_over_restarts(self):
        for kill in (False, True) if IS_HOLDLINE else (False,):
            name = f"{self.name}{kill}"
            writer = self.opened5("w")
            for qos in (1, 2):
                writer.publish(f"{name}/{qos}", b"kept", qos, retain=True,
                               props={"content_type": "t", "user": [("a", "b")]})
            writer.publish(f"{name}/gone", b"x", 1, retain=True)
            writer.publish(f"{name}/gone", b"", 1, retain=True)
            self.broker.restart(kill)
            reader = self.opened5(name)
            reader.subscribe((f"{name}/#", 2))
            found = sorted([reader.take() for _ in range(2)], key=lambda each: each.topic)
            self.assertEqual([each.qos for each in found], [1, 2])
            self.assertEqual(found[0].props, {"content_type": "t", "user": [("a", "b")]})
            reader.ping()

    def test_a_retained_message_expires(self):
        writer = self.opened5("w")
        writer.publish(f"{self.name}/a", b"x", 1, retain=True, props={"expiry": 1})
        writer.publish(f"{self.name}/b", b"y", 1, retain=True, props={"expiry": 60})
        wire.time.sleep(2.2)
        reader = self.opened5(self.name)
        reader.subscribe(f"{self.name}/#")
        found = reader.take()
        self.assertEqual(found.payload, b"y")
        self.assertLess(found.props["expiry"], 60)
        reader.ping()

    def test_a_subscriber_is_told_of_retained_messages_with_its_identifier(self):
        writer = self.opened5("w")
        writer.publish(f"{self.name}/a", b"x", 1, retain=True)
        reader = self.opened5(self.name)
        reader.subscribe((f"{self.name}/#", 0x28), props={"subscription_id": 9})
        self.quiet(reader)  # retain handling 2: none
        reader.subscribe((f"{self.name}/#", 0x08), props={"subscription_id": 10})
        found = reader.take()
        self.assertEqual((found.retain, found.props["subscription_id"]), (True, [10]))

    @holdline_only("mosquitto 2.0.11 tells it")
    def test_a_shared_subscription_is_not_told_of_retained_messages(self):
        writer = self.opened5("w")
        writer.publish(f"{self.name}/a", b"x", 1, retain=True)
        reader = self.opened5(self.name)
        reader.subscribe(f"$share/g/{self.name}/#")
        self.quiet(reader)

    @holdline_only("mosquitto 2.0.11 stalls")
    def test_ten_thousand_retained_messages_reach_a_reader_of_a_small_window(self):
        writer = self.opened5("w")
        payload = b"x" * 100
        for start in range(0, 10_000, 500):
            block = range(start, start + 500)
            writer.send(*[wire.publish(V5, f"{self.name}/{number}", payload, 1, True,
                                       id=number % 500 + 1) for number in block])
            for _ in block:
                writer.expect(PUBACK)
        for qos, window in ((1, 5), (0, 100)):
            reader = self.opened5(f"{self.name}{qos}", props={"receive_max": window})
            reader.subscribe((f"{self.name}/#", qos))
            topics = {reader.take().topic for _ in range(10_000)}
            self.assertEqual(len(topics), 10_000)
            reader.ping()


class Groups(Case):
    def members(self, name, version, count, qos=1, **how):
        members = [self.opened(f"{name}m{number}", version, **how) for number in range(count)]
        for member in members:
            member.subscribe((f"$share/g/{name}/#", qos))
        return members

    @at(*ALL)
    def test_each_message_goes_to_one_member(self, version, name):
        for qos in range(3):
            members = self.members(f"{name}{qos}", version, 3, qos)
            writer = self.opened("w", version)
            for number in range(30):
                writer.publish(f"{name}{qos}/a", str(number), qos)
            shares = [self.drained(member) for member in members]
            found = sorted(int(each.payload) for share in shares for each in share)
            self.assertEqual(found, list(range(30)))
            self.assertTrue(all(shares), [len(share) for share in shares])

    @at(V5)
    def test_groups_and_single_subscribers_are_served_apart(self, version, name):
        clients = [self.opened(f"{name}{at}", version) for at in range(3)]
        clients[0].subscribe((f"$share/one/{name}/#", 1), (f"{name}/#", 1))
        clients[1].subscribe((f"$share/two/{name}/#", 1))
        clients[2].subscribe((f"{name}/a", 1))
        self.opened("w", version).publish(f"{name}/a", b"x", 1)
        self.assertEqual([len(self.drained(client)) for client in clients], [2, 1, 1])

    @holdline_only("mosquitto keeps it for the member that is away")
    @at(V311, V5)
    def test_members_that_are_online_come_first(self, version, name):
        away, here = self.members(name, version, 2, **lasting(version))
        away.leave()
        writer = self.opened("w", version)
        for number in range(10):
            writer.publish(f"{name}/a", str(number), 1)
        self.assertEqual(len(self.drained(here)), 10)

    def work_of_a_member_that_leaves(self, version, name, how):
        lazy, diligent = self.members(name, version, 2, **how)
        writer = self.opened("w", version)
        for number in range(100):
            writer.publish(f"{name}/a", str(number), 1)
        found = {each.payload for each in self.drained(diligent)}
        self.assertLess(len(found), 100)
        lazy.close()
        while len(found) < 100:
            found.add(diligent.take().payload)

    @holdline_only("mosquitto loses it")
    @at(*ALL)
    def test_unacknowledged_work_goes_to_another_member(self, version, name):
        self.work_of_a_member_that_leaves(version, name, {})

    @holdline_only("mosquitto keeps it for the member that is away")
    @at(V311, V5)
    def test_unacknowledged_work_of_a_kept_session_goes_to_another_member(self, version, name):
        self.work_of_a_member_that_leaves(version, name, lasting(version))

    @holdline_only("mosquitto forgets it")
    @at(V311, V5)
    def test_work_waits_for_a_group_whose_members_are_all_away(self, version, name):
        one, two = self.members(name, version, 2, **lasting(version))
        one.leave()
        two.leave()
        writer = self.opened("w", version)
        for number in range(10):
            writer.publish(f"{name}/a", str(number), 1)
        self.broker.restart(kill=True)
        found = set()
        clients = [self.opened(f"{name}m{at}", version, **lasting(version)) for at in range(2)]

        def all_found():
            for client in clients:
                found.update(each.payload for each in self.drained(client))
            return len(found) == 10
        poll(all_found, "the messages come out of the log")

    @at(V5)
    def test_a_member_that_unsubscribes_is_out(self, version, name):
        one, two = self.members(name, version, 2)
        one.send(wire.unsubscribe(version, [f"$share/g/{name}/#"], 5))
        self.assertEqual(one.expect(UNSUBACK).codes, [0])
        writer = self.opened("w", version)
        for number in range(6):
            writer.publish(f"{name}/a", str(number), 1)
        self.assertEqual(len(self.drained(two)), 6)
        self.assertEqual(self.drained(one), [])

    @holdline_only("mosquitto lets it pass")
    def test_no_local_on_a_shared_subscription_ends_the_connection(self):
        client = self.opened5(self.name)
        client.send(wire.subscribe(V5, [(f"$share/g/{self.name}", 5)]))
        self.assertEqual([each.code for each in client.until_closed()], [0x82])
