"""The same scenarios through every client library, at every version that it speaks.

A class is made for each pair below, so that a run says which library failed at what. Ends that
must be abrupt are made by killing the process of the client.
"""

import os
import tempfile
import time

import certificates
from fixture import poll
from mqtt import drivers
from mqtt.broker import IS_HOLDLINE, Broker, Case
from mqtt.wire import V31, V311, V5

USERS = {"ada": "analytical engine", "bob": "b:=&%ö"}
AWAY = {V31: {"clean": False}, V311: {"clean": False}, V5: {"clean": False, "expiry": 3600}}
WEB_SOCKETS = {("paho-python", V31), ("paho-python", V311), ("paho-python", V5),
               ("mqtt-js", V31), ("mqtt-js", V311), ("mqtt-js", V5), ("paho-go", V311),
               ("hivemq", V311), ("hivemq", V5)}


class Library(Case):
    """What the classes below share: a broker, one process with clients, certificates."""

    LIBRARY, VERSION = None, None

    @classmethod
    def setUpClass(cls):
        cls.driver = drivers.Driver(cls.LIBRARY)
        cls.addClassCleanup(cls.driver.kill)
        folder = tempfile.TemporaryDirectory(prefix="holdline-mqtt-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.authority = certificates.Authority(folder.name)
        cls.client_pair = cls.authority.issue("device-7", file="client")
        cls.p12 = os.path.join(folder.name, "client.p12")
        certificates.openssl("pkcs12", "-export", "-in", cls.client_pair[0], "-inkey",
                             cls.client_pair[1], "-passout", "pass:e2e", "-out", cls.p12)
        cls.broker = Broker(tls=cls.authority, users=USERS, anonymous=True)
        cls.addClassCleanup(cls.broker.close)

    @classmethod
    def tearDownClass(cls):
        pass

    @classmethod
    def another_driver(cls):
        return drivers.Driver(cls.LIBRARY)

    def client(self, id=None, driver=None, door="mqtt", **how):
        """A client that is not connected yet."""
        return drivers.Client(driver or self.driver, self.VERSION, self.broker.address(door),
                              id=f"{self.name}-{id}" if id else None, **how)

    def connected(self, id=None, driver=None, door="mqtt", **how):
        client = self.client(id, driver, door, **how)
        client.connack = client.connect()
        return client

    def mortal(self, id, **how):
        """A connected client with a process of its own: `client.driver.kill()` cuts it off."""
        driver = self.another_driver()
        self.addCleanup(driver.kill)
        return self.connected(id, driver, **how)

    def gone(self, id, client, **how):
        """Disconnects a client, and returns when the server has seen it: otherwise the next
        connection may be read first."""
        client.disconnect(**how)
        if IS_HOLDLINE:
            def is_gone():
                status, found = self.broker.server.api("GET", f"/v1/clients/{self.name}-{id}")
                return status == 404 or not found["online"]
            poll(is_gone, f"{id} is gone")

    def topic(self, *levels):
        return "/".join([self.name, *levels])

    def subscribed(self, client, filter, qos=0, **how):
        answer = client.subscribe(filter, qos, **how)
        self.assertEqual(answer["code"], str(qos))

    def payloads(self, messages):
        return [message["payload"] for message in messages]


class Scenarios:
    """What every library must be able to do."""

    def test_a_message_at_each_qos_to_each_qos(self):
        reader, writer = self.connected("reader"), self.connected("writer")
        for granted in range(3):
            self.subscribed(reader, self.topic(str(granted), "+"), granted)
        for granted in range(3):
            for qos in range(3):
                topic = self.topic(str(granted), str(qos))
                writer.publish(topic, f"ö {granted}{qos} &=%", qos)
                found = reader.message()
                self.assertEqual(found["topic"], topic)
                self.assertEqual(found["payload"], f"ö {granted}{qos} &=%")
                self.assertEqual(found["qos"], str(min(granted, qos)))
                self.assertEqual(found["retain"], "0")
        self.assertEqual(reader.waiting(), [])

    def test_many_messages_keep_their_order_at_each_qos(self):
        reader, writer = self.connected("reader"), self.connected("writer")
        self.subscribed(reader, self.topic("#"), 2)
        for qos in range(3):
            writer.publish(self.topic(str(qos)), "m%", qos, count=200)
            found = self.payloads(reader.take(200))
            self.assertEqual(found, [f"m{number}" for number in range(200)])
        self.assertEqual(reader.waiting(), [])

    def test_an_unsubscribed_filter_brings_nothing_more(self):
        reader, writer = self.connected("reader"), self.connected("writer")
        self.subscribed(reader, self.topic("a"), 1)
        self.subscribed(reader, self.topic("b"), 1)
        reader.unsubscribe(self.topic("a"))
        writer.publish(self.topic("a"), "no", 1)
        writer.publish(self.topic("b"), "yes", 1)
        self.assertEqual(reader.message()["payload"], "yes")

    # -- sessions

    def sleeper(self):
        """A client that subscribed, left and keeps its session."""
        reader = self.connected("sleeper", **AWAY[self.VERSION])
        self.subscribed(reader, self.topic("#"), 2)
        reader.disconnect()
        return self.client("sleeper", **AWAY[self.VERSION])

    def woken(self, sleeper):
        answer = sleeper.connect()
        if self.VERSION != V31:  # its CONNACK has no such flag
            self.assertEqual(answer["present"], "1")

    def fill(self, qos, count=20):
        writer = self.connected(f"writer{qos}")
        writer.publish(self.topic(f"q{qos}"), f"{qos}-%", qos, count=count)
        writer.disconnect()

    def emptied(self, sleeper, qoses=(1, 2), count=20):
        """The messages of `fill` come, each once, in their order."""
        found = sleeper.take(count * len(qoses))
        for qos in qoses:
            payloads = [each["payload"] for each in found if each["qos"] == str(qos)]
            self.assertEqual(payloads, [f"{qos}-{number}" for number in range(count)])
        self.assertEqual(sleeper.waiting(), [])

    def test_messages_wait_for_a_session_that_is_away(self):
        sleeper = self.sleeper()
        self.fill(1)
        self.fill(2)
        self.woken(sleeper)
        self.emptied(sleeper)

    def over_a_restart(self, kill):
        sleeper = self.sleeper()
        self.fill(1)
        self.fill(2)
        if not IS_HOLDLINE:
            time.sleep(1.2)  # mosquitto saves once a second
        self.broker.restart(kill)
        self.woken(sleeper)
        self.emptied(sleeper)
        self.fill(1)
        self.emptied(sleeper, (1,))
        sleeper.disconnect()

    def test_messages_wait_over_a_stop_of_the_server(self):
        self.over_a_restart(kill=False)

    def test_messages_wait_over_a_kill_of_the_server(self):
        self.over_a_restart(kill=True)

    def test_a_client_is_told_when_the_server_goes(self):
        client = self.connected("one")
        self.broker.stop()
        try:
            client.expect("lost")
        finally:
            self.broker.start()
        again = self.connected("one")
        again.disconnect()

    def test_a_clean_client_has_nothing_of_its_session_before(self):
        first = self.connected("sleeper", **AWAY[self.VERSION])
        self.subscribed(first, self.topic("#"), 1)
        first.disconnect()
        again = self.connected("sleeper", clean=True)
        self.assertEqual(again.connack["present"], "0")
        writer = self.connected("writer")
        writer.publish(self.topic("x"), "not for it", 1)
        self.subscribed(again, self.topic("y"), 1)
        writer.publish(self.topic("y"), "for it", 1)
        self.assertEqual(again.message()["payload"], "for it")

    def test_a_second_client_of_one_id_ends_the_first(self):
        first = self.mortal("same")
        second = self.connected("same")
        said = first.expect("lost")
        # Paho Python does not read the code of a DISCONNECT without properties.
        if self.VERSION == V5 and said.get("code", "0") != "0" and IS_HOLDLINE:
            self.assertEqual(said["code"], str(0x8E))
        self.subscribed(second, self.topic("x"), 1)
        second.publish(self.topic("x"), "alive", 1)
        self.assertEqual(second.message()["payload"], "alive")

    # -- wills

    def test_a_will_is_published_after_an_abrupt_end(self):
        reader = self.connected("reader")
        self.subscribed(reader, self.topic("will"), 2)
        for qos in range(3):
            mortal = self.mortal(f"mortal{qos}", will_topic=self.topic("will"),
                                 will_payload=f"gone {qos}", will_qos=qos)
            mortal.driver.kill()
            found = reader.message()
            self.assertEqual((found["payload"], found["qos"]), (f"gone {qos}", str(qos)))

    def test_a_will_is_not_published_after_a_farewell(self):
        reader = self.connected("reader")
        self.subscribed(reader, self.topic("#"), 1)
        polite = self.connected("polite", will_topic=self.topic("will"), will_payload="no",
                                will_qos=1)
        polite.disconnect()
        writer = self.connected("writer")
        writer.publish(self.topic("after"), "after", 1)
        self.assertEqual(reader.message()["payload"], "after")

    def test_a_retained_will_stays(self):
        mortal = self.mortal("mortal", will_topic=self.topic("state"), will_payload="offline",
                             will_qos=1, will_retain=True)
        reader = self.connected("reader")
        self.subscribed(reader, self.topic("#"), 1)
        mortal.driver.kill()
        self.assertEqual(reader.message()["payload"], "offline")
        later = self.connected("later")
        later.subscribe(self.topic("state"), 1)
        found = later.message()
        self.assertEqual((found["payload"], found["retain"]), ("offline", "1"))

    # -- retained

    def test_a_retained_message_is_there_for_later_and_can_be_cleared(self):
        writer, live = self.connected("writer"), self.connected("live")
        self.subscribed(live, self.topic("#"), 1)
        for number in range(3):
            writer.publish(self.topic("r", str(number)), f"kept {number}", number, retain=True)
            self.assertEqual(live.message()["retain"], "0")
        writer.publish(self.topic("r", "1"), "newer", 1, retain=True)
        self.assertEqual(live.message()["payload"], "newer")
        later = self.connected("later")
        self.subscribed(later, self.topic("#"), 1)
        found = later.take(3)
        self.assertEqual(sorted((each["payload"], each["retain"], each["qos"]) for each in found),
                         [("kept 0", "1", "0"), ("kept 2", "1", "1"), ("newer", "1", "1")])
        for number in range(3):
            writer.publish(self.topic("r", str(number)), "", 1, retain=True)
        self.assertEqual(len(later.take(3)), 3)
        last = self.connected("last")
        self.subscribed(last, self.topic("#"), 1)
        writer.publish(self.topic("end"), "end", 1)
        self.assertEqual(last.message()["payload"], "end")

    # -- shared subscriptions

    def test_members_of_a_shared_subscription_get_each_message_once(self):
        members = [self.connected(f"member{number}") for number in range(3)]
        alone = self.connected("alone")
        for member in members:
            self.subscribed(member, f"$share/team/{self.topic('#')}", 1)
        self.subscribed(alone, self.topic("#"), 1)
        writer = self.connected("writer")
        writer.publish(self.topic("work"), "w%", 1, count=60)
        wanted = [f"w{number}" for number in range(60)]
        self.assertEqual(self.payloads(alone.take(60)), wanted)

        def all_came():
            return sum(len(member.waiting()) for member in members) == 60
        poll(all_came, "the members have all of it")
        shares = [self.payloads(member.waiting()) for member in members]
        self.assertEqual(sorted(sum(shares, []), key=lambda each: int(each[1:])), wanted)
        self.assertTrue(all(shares), f"some member got nothing: {shares}")

    def test_the_work_of_a_member_that_was_cut_off_goes_to_another(self):
        mortal = self.mortal("mortal")
        other = self.connected("other")
        for member in (mortal, other):
            self.subscribed(member, f"$share/team/{self.topic('#')}", 1)
        mortal.driver.kill()
        writer = self.connected("writer")

        def other_has_it_all():
            writer.publish(self.topic("work"), "again", 1)
            writer.publish(self.topic("work"), "again", 1)
            try:
                return other.take(2, 1)
            except AssertionError:
                return None
        poll(other_has_it_all, "everything goes to the member that is left")

    # -- doors

    def test_a_user_comes_in_by_name_and_password(self):
        for user, word in USERS.items():
            client = self.connected(user, user=user, password=word)
            self.subscribed(client, self.topic(user), 1)
            client.publish(self.topic(user), user, 1)
            self.assertEqual(client.message()["payload"], user)
            client.disconnect()

    def test_a_wrong_password_is_refused(self):
        said = self.client("ada", user="ada", password="difference engine").refused()
        if "code" in said and self.LIBRARY not in ("paho-java", "mqtt-js"):
            self.assertIn(int(said["code"]), (4, 5, 0x86, 0x87))
        self.client("eve", user="eve", password="x").refused()

    def around(self, client):
        """A message to itself, larger than a TLS record."""
        client.subscribe(self.topic("tls"), 1)
        payload = "x" * 40_000
        client.publish(self.topic("tls"), payload, 1)
        self.assertEqual(client.message()["payload"], payload)

    def test_tls(self):
        client = self.connected("tls", door="mqtts", ca=self.authority.certificate)
        self.around(client)

    def test_tls_of_another_authority_is_refused_by_the_client(self):
        with tempfile.TemporaryDirectory(prefix="holdline-mqtt-tls-") as folder:
            other = certificates.Authority(folder)
            self.client("tls", door="mqtts", ca=other.certificate).refused()

    def test_mutual_tls(self):
        cert, key = self.client_pair
        client = self.connected("mutual", door="mutual", ca=self.authority.certificate, cert=cert,
                                key=key, p12=self.p12)
        self.around(client)

    def test_mutual_tls_without_a_certificate_is_refused(self):
        self.client("mutual", door="mutual", ca=self.authority.certificate).refused()

    def test_websocket(self):
        if (self.LIBRARY, self.VERSION) not in WEB_SOCKETS:
            self.skipTest(f"{self.LIBRARY} is not asked to")
        client = self.connected("ws", door="ws", ws="/mqtt")
        self.around(client)
        client.disconnect()
        client = self.connected("wss", door="wss", ws="/mqtt", ca=self.authority.certificate)
        self.around(client)


CLASSES = []
for library, (_, _, versions) in drivers.LIBRARIES.items():
    for version in versions:
        name = "".join(part.capitalize() for part in library.split("-"))
        name += {V31: "31", V311: "311", V5: "5"}[version]
        made = type(name, (Scenarios, Library), {"LIBRARY": library, "VERSION": version,
                                                 "__module__": __name__})
        globals()[name] = made
        CLASSES.append(name)
del made  # or it would be run twice
