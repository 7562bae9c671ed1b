"""Pushes that are cancelled, over several shards, kills and other numbers of shards."""

from fixture import Case, poll
from miop import MSG


def shards(count):
    return {"server": {"shards": count, "pin": False}}


class Cancels(Case):
    SHARED = False

    def cancel(self, server, ident, **query):
        path = f"/v1/pushes/{ident}" + "".join(f"?{name}={value}" for name, value in query.items())
        return server.api("DELETE", path)

    def test_a_cancel_recalls_a_push_for_good_whatever_it_was_ordered_for(self):
        server = self.start(shards(3))
        names = [f"away-{at}" for at in range(30)]
        for name in names:
            server.ask("PUT", f"/v1/products/demo/devices/{name}/tags", {"tags": ["t"]})
        here = self.bound("here", server=server, tags=["t"])
        tagged = server.push(body="tagged", tag="t")["id"]
        here.ack(here.expect(MSG).records[0].id)
        poll(lambda: server.ask("GET", f"/v1/pushes/{tagged}")["counts"]["delivered"] == 1,
             "one device has it")
        listed = server.push(body="listed", devices=names)["id"]
        wanted = {tagged: (31, 1, 30), listed: (30, 0, 30)}
        for ident, of in wanted.items():
            status, answer = self.cancel(server, ident)
            self.assertEqual((status, answer["id"], answer["state"]), (200, ident, "cancelled"))
            self.assertEqual(self.counts(answer), of)
        self.assertEqual(server.count("pushes_cancelled_total"), 60)
        for count in (3, 2):
            server.kill()
            server.configure(shards(count))
            server.start()
            self.assertEqual({server.state(name)["waiting"] for name in names}, {0})
            for ident, of in wanted.items():
                for method in ("GET", "DELETE"):
                    answer = server.ask(method, f"/v1/pushes/{ident}")
                    self.assertEqual((answer["state"], self.counts(answer)), ("cancelled", of))
        self.quiet(self.bound(names[0], server=server))

    def counts(self, answer):
        counts = answer["counts"]
        self.assertEqual((counts["pending"], counts["stored"], counts["running"]), (0, 0, False))
        return tuple(counts[name] for name in ("matched", "delivered", "cancelled"))

    def test_a_cancel_of_an_unknown_push_or_one_of_another_product_changes_nothing(self):
        server = self.start({**shards(2), "products.two": {"app_id": 2}})
        kept = server.push("d", "kept")
        for ident, query in ((kept["id"], {"product": "two"}), (77, {}), (kept["id"] + 1, {})):
            status, answer = self.cancel(server, ident, **query)
            self.assertEqual((status, answer["error"]["code"]), (404, "unknown_push"))
        self.assertEqual(self.cancel(server, "x")[0], 400)
        self.assertEqual(server.state("d")["waiting"], 1)
        self.assertEqual(self.cancel(server, kept["id"], product="demo")[0], 200)
        self.assertEqual(server.state("d")["waiting"], 0)
