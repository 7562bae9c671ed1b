"""What 5.0 added, through every library that speaks it."""

import time

from mqtt import drivers
from mqtt.broker import IS_HOLDLINE
from mqtt.test_clients import Library
from mqtt.wire import V5


class Scenarios:
    def needs(self, *libraries):
        """Skips where a library cannot be asked for it."""
        if self.LIBRARY not in libraries:
            self.skipTest(f"{self.LIBRARY} cannot be asked for it")

    def test_properties_of_a_message_reach_the_reader(self):
        reader, writer = self.connected("reader"), self.connected("writer")
        self.subscribed(reader, self.topic("p"), 1)
        pairs = ["one:1", "two:zwei ö", "one:again"]
        if self.LIBRARY == "mqtt-js":
            pairs = ["one:1", "one:again", "two:zwei ö"]  # it groups them by name
        writer.publish(self.topic("p"), "body", 1, type="text/plain", correlation="c:1",
                       response_topic=self.topic("answer"), payload_format=1, expiry=100,
                       user_property=pairs)
        found = reader.message()
        self.assertEqual(found.get("content_type"), "text/plain")
        self.assertEqual(found.get("response_topic"), self.topic("answer"))
        self.assertEqual(found.get("correlation"), "c:1")
        self.assertEqual(found.get("user_propertys"), pairs)
        self.assertIn(int(found.get("expiry", -1)), range(98, 101))
        if self.LIBRARY != "paho-java":  # it does not show it
            self.assertEqual(found.get("payload_format"), "1")

    def test_a_request_is_answered_where_it_wishes(self):
        asker, answerer = self.connected("asker"), self.connected("answerer")
        self.subscribed(answerer, self.topic("ask"), 1)
        self.subscribed(asker, self.topic("answer", "7"), 1)
        asker.publish(self.topic("ask"), "?", 1, response_topic=self.topic("answer", "7"),
                      correlation="number 7")
        ask = answerer.message()
        answerer.publish(ask["response_topic"], "!", 1, correlation=ask["correlation"])
        answer = asker.message()
        self.assertEqual((answer["payload"], answer["correlation"]), ("!", "number 7"))

    def test_a_message_that_expired_is_not_delivered(self):
        sleeper = self.connected("sleeper", clean=False, expiry=3600)
        self.subscribed(sleeper, self.topic("#"), 1)
        sleeper.disconnect()
        writer = self.connected("writer")
        began = time.monotonic()
        writer.publish(self.topic("x"), "short", 1, expiry=1)
        writer.publish(self.topic("x"), "long", 1, expiry=100)
        time.sleep(2.2)
        again = self.connected("sleeper", clean=False, expiry=3600)
        found = again.message()
        self.assertEqual(found["payload"], "long")
        waited = time.monotonic() - began
        if "expiry" in found:
            self.assertIn(int(found["expiry"]), range(100 - int(waited) - 2, 99))

    def test_a_session_ends_after_its_expiry(self):
        client = self.connected("short", clean=False, expiry=1)
        self.subscribed(client, self.topic("#"), 1)
        client.disconnect()
        time.sleep(2.5)
        again = self.connected("short", clean=False, expiry=1)
        self.assertEqual(again.connack["present"], "0")

    def test_a_session_without_expiry_ends_with_its_connection(self):
        client = self.connected("none", clean=False)
        self.gone("none", client)
        self.assertEqual(self.connected("none", clean=False).connack["present"], "0")

    def test_the_expiry_can_be_changed_with_the_farewell(self):
        self.needs("paho-python", "mqtt-js", "paho-go", "paho-java", "hivemq")
        client = self.connected("changed", clean=False, expiry=3600)
        self.gone("changed", client, expiry=0)
        again = self.connected("changed", clean=False, expiry=3600)
        self.assertEqual(again.connack["present"], "0")
        self.gone("changed", again, expiry=1800)
        self.assertEqual(self.connected("changed", clean=False).connack["present"], "1")

    def test_an_empty_id_is_given_one(self):
        if self.LIBRARY == "rumqttc":
            self.skipTest("it refuses an empty identifier itself")
        ids = {self.connected().connack.get("assigned_id") for _ in range(3)}
        self.assertEqual(len(ids), 3)
        self.assertTrue(all(ids), ids)

    def test_no_local(self):
        client, other = self.connected("one"), self.connected("other")
        self.subscribed(client, self.topic("#"), 1, no_local=1)
        client.publish(self.topic("x"), "mine", 1)
        other.publish(self.topic("x"), "theirs", 1)
        self.assertEqual(client.message()["payload"], "theirs")

    def test_retain_as_published(self):
        as_is, plain = self.connected("as-is"), self.connected("plain")
        self.subscribed(as_is, self.topic("#"), 1, as_published=1)
        self.subscribed(plain, self.topic("#"), 1)
        plain.publish(self.topic("x"), "kept", 1, retain=True)
        self.assertEqual(as_is.message()["retain"], "1")
        self.assertEqual(plain.message()["retain"], "0")

    def test_retain_handling(self):
        writer = self.connected("writer")
        writer.publish(self.topic("x"), "kept", 1, retain=True)
        reader = self.connected("reader")
        self.subscribed(reader, self.topic("x"), 1, handling=1)
        self.assertEqual(reader.message()["payload"], "kept")
        self.subscribed(reader, self.topic("x"), 1, handling=1)
        never = self.connected("never")
        self.subscribed(never, self.topic("x"), 1, handling=2)
        for client in (reader, never):
            writer.publish(self.topic("x"), "live", 1)
            self.assertEqual(client.message()["payload"], "live")
        self.subscribed(reader, self.topic("x"), 1, handling=0)
        found = reader.take(2)
        self.assertEqual([each["payload"] for each in found], ["live", "kept"])

    def test_subscription_identifiers(self):
        self.needs("paho-python", "mqtt-js", "paho-go", "rumqttc")
        reader, writer = self.connected("reader"), self.connected("writer")
        self.subscribed(reader, self.topic("x"), 1, subscription_id=7)
        writer.publish(self.topic("x"), "one", 1)
        self.assertIn("7", reader.message()["subscription_id"])
        self.subscribed(reader, self.topic("x"), 1, subscription_id=268_435_455)
        writer.publish(self.topic("x"), "two", 1)
        self.assertIn("268435455", reader.message()["subscription_id"])

    def test_a_packet_larger_than_the_reader_takes_is_not_sent(self):
        reader = self.connected("small", packet_max=200)
        writer = self.connected("writer")
        self.subscribed(reader, self.topic("#"), 1)
        for qos in range(3):
            writer.publish(self.topic("x"), "x" * 300, qos)
        writer.publish(self.topic("x"), "fits", 1)
        self.assertEqual(reader.message()["payload"], "fits")

    def test_a_reader_with_a_window_of_one_gets_everything_in_order(self):
        self.needs("paho-python", "mqtt-js", "paho-go", "paho-java", "hivemq")
        reader = self.connected("narrow", receive_max=1)
        self.subscribed(reader, self.topic("#"), 2)
        writer = self.connected("writer")
        for qos in (1, 2):
            writer.publish(self.topic("x"), f"{qos}-%", qos, count=30)
        found = [each["payload"] for each in reader.take(60)]
        for qos in (1, 2):
            wanted = [f"{qos}-{number}" for number in range(30)]
            self.assertEqual([each for each in found if each[0] == str(qos)], wanted)

    def test_topic_aliases_of_the_client(self):
        self.needs("paho-python", "paho-go")
        writer, reader = self.connected("writer"), self.connected("reader")
        self.subscribed(reader, self.topic("#"), 1)
        self.assertGreater(int(writer.connack.get("alias_max", 0)), 2)
        writer.publish(self.topic("long", "name"), "one", 1, alias=2)
        writer.publish(self.topic("other"), "two", 1, alias=2)
        writer.publish("", "three", 1, alias=2)
        topics = [each["topic"] for each in reader.take(3)]
        self.assertEqual(topics, [self.topic("long", "name"), *[self.topic("other")] * 2])

    def test_topic_aliases_of_the_server_are_understood(self):
        reader, writer = self.connected("reader", alias_max=3), self.connected("writer")
        self.subscribed(reader, self.topic("#"), 1)
        wanted = []
        for number in range(30):
            topic = self.topic("t" * 30, str(number % 5))
            writer.publish(topic, str(number), number % 3)
            wanted.append((topic, str(number)))
        found = [(each["topic"], each["payload"]) for each in reader.take(30)]
        self.assertEqual(sorted(found), sorted(wanted))

    def test_a_will_with_a_delay_waits_for_it(self):
        reader = self.connected("reader")
        self.subscribed(reader, self.topic("#"), 1)
        mortal = self.mortal("mortal", clean=False, expiry=60, will_topic=self.topic("will"),
                             will_payload="gone", will_qos=1, will_delay=2)
        mortal.driver.kill()
        began = time.monotonic()
        self.assertEqual(reader.message()["payload"], "gone")
        self.assertGreater(time.monotonic() - began, 0.9)

    def test_a_will_with_a_delay_is_dropped_when_the_client_is_back(self):
        reader = self.connected("reader")
        self.subscribed(reader, self.topic("#"), 1)
        mortal = self.mortal("mortal", clean=False, expiry=60, will_topic=self.topic("will"),
                             will_payload="gone", will_qos=1, will_delay=2)
        mortal.driver.kill()
        again = self.connected("mortal", clean=False, expiry=60)
        self.assertEqual(again.connack["present"], "1")
        time.sleep(3)
        again.publish(self.topic("end"), "end", 1)
        self.assertEqual(reader.message()["payload"], "end")

    def test_a_farewell_can_ask_for_the_will(self):
        self.needs("paho-python", "mqtt-js", "paho-go", "paho-java", "hivemq")
        reader = self.connected("reader")
        self.subscribed(reader, self.topic("#"), 1)
        leaver = self.connected("leaver", will_topic=self.topic("will"), will_payload="asked for",
                                will_qos=1)
        leaver.disconnect(code=4)
        self.assertEqual(reader.message()["payload"], "asked for")

    def test_a_publish_that_nobody_reads_says_so(self):
        self.needs("paho-python", "paho-go", "hivemq")
        if not IS_HOLDLINE:
            self.skipTest("mosquitto 2.0.11 says so too late for these")
        writer = self.connected("writer")
        self.assertEqual(writer.publish(self.topic("nobody"), "x", 1).get("code"), str(0x10))


CLASSES = []
for library, (_, _, versions) in drivers.LIBRARIES.items():
    if V5 in versions:
        name = "Features" + "".join(part.capitalize() for part in library.split("-"))
        made = type(name, (Scenarios, Library), {"LIBRARY": library, "VERSION": V5,
                                                 "__module__": __name__})
        globals()[name] = made
        CLASSES.append(name)
del made, Library  # or they would be run twice
