"""Metrics that are pushed by OTLP: a collector of the test's own, which reads them with the
messages of OpenTelemetry, as strictly as protobuf's JSON is read.
"""

import http.server
import os
import re
import socket
import sys
import threading
import unittest

import fixture
from fixture import DEADLINE_S, Case, poll

BUILT = os.environ.get("HOLDLINE_E2E_CLIENTS") or os.path.join(fixture.TARGET, "e2e-clients")


def messages():
    """OpenTelemetry's message of an export, and the reader of protobuf's JSON."""
    sys.path.insert(0, os.path.join(BUILT, "schemathesis"))
    try:
        from google.protobuf import json_format
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
    except ImportError as error:
        raise unittest.SkipTest(f"{error}: NO EXPORT WAS READ") from None
    return json_format, metrics_service_pb2.ExportMetricsServiceRequest


class Collector:
    """Takes exports, or refuses them with a status, or does not answer until it is let go."""

    def __init__(self):
        self.taken, self.status, self.go = [], 200, threading.Event()
        self.go.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.go.wait(DEADLINE_S)
                outer.taken.append((self.path, self.headers["Content-Type"], body))
                self.send_response(outer.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def do_CONNECT(self):
                outer.taken.append((self.path, None, b""))
                self.send_error(502)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = "http://127.0.0.1:%d/v1/metrics" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()


class Exports(Case):
    SHARED = False

    def setUp(self):
        super().setUp()
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def server_with(self, env=None, **more):
        api = {"address": "127.0.0.1:0", "otlp_url": self.collector.url,
               "otlp_interval_s": 1, **more}
        return self.start({"api": api}, env=env)

    def read(self):
        """The newest export: metrics by name."""
        json_format, request = messages()
        path, kind, body = self.collector.taken[-1]
        self.assertEqual((path, kind), ("/v1/metrics", "application/json"))
        told = json_format.Parse(body, request())
        resource, = told.resource_metrics
        attributes = {it.key: it.value.string_value for it in resource.resource.attributes}
        self.assertEqual(attributes["service.name"], "holdline")
        scope, = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}

    def test_a_collector_gets_what_the_page_of_metrics_says(self):
        messages()
        server = self.server_with()
        for name in ("one", "two", "three"):
            self.bound(name, server=server)

        def seen():
            binds = self.read().get("holdline_binds_total") if self.collector.taken else None
            return binds and binds.sum.data_points[0].as_double == 3
        poll(seen, "three binds are told")
        told, page = self.read(), server.metrics()
        families = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
        self.assertEqual(set(told), set(families))
        for name, kind in families.items():
            wanted = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[kind]
            self.assertEqual(told[name].WhichOneof("data"), wanted, name)
            self.assertIn(f"# HELP {name} {told[name].description}\n", page)
        self.assertTrue(told["holdline_binds_total"].sum.is_monotonic)
        self.assertEqual(told["holdline_connections"].gauge.data_points[0].as_double, 3)
        logins = [point for point in told["holdline_phase_seconds"].histogram.data_points
                  if {(it.key, it.value.string_value) for it in point.attributes}
                  == {("of", "miop"), ("phase", "login")}]
        point, = logins
        self.assertEqual((point.count, sum(point.bucket_counts)), (3, 3))
        self.assertEqual(len(point.bucket_counts), len(point.explicit_bounds) + 1)
        self.assertGreater(point.time_unix_nano, point.start_time_unix_nano)

    def test_a_collector_that_refuses_or_is_gone_disturbs_nothing_and_is_told_once(self):
        server = self.server_with()
        poll(lambda: server.reading("otlp_exports_total") > 0, "it takes one")
        self.collector.status = 503
        poll(lambda: server.reading("otlp_failures_total") > 2, "it refuses some")
        self.assertEqual(server.log.count("the collector does not accept metrics"), 1)
        self.collector.status = 200
        server.logged("the collector accepts metrics again")
        self.bound("somebody", server=server)

    def test_a_collector_that_does_not_answer_holds_up_nobody_nor_the_end(self):
        self.collector.go.clear()
        server = self.server_with(otlp_ms_max=300)
        poll(lambda: server.reading("otlp_failures_total") > 1, "it is given up in time")
        self.bound("somebody", server=server)
        self.assertEqual(server.stop(), 0)

    def test_a_proxy_of_the_environment_is_asked_only_where_that_is_set(self):
        proxy, names = Collector(), ("HTTP_PROXY", "ALL_PROXY")
        self.addCleanup(proxy.close)
        env = {name: proxy.url.removesuffix("/v1/metrics") for name in names}
        env |= {"NO_PROXY": "", "no_proxy": ""}
        for is_set, asked, left in ((False, self.collector, proxy), (True, proxy, self.collector)):
            with self.subTest(is_set=is_set):
                asked.taken.clear()
                left.taken.clear()
                server = self.server_with(env, proxy_from_environment=is_set)
                poll(lambda: server.reading("otlp_exports_total")
                     + server.reading("otlp_failures_total") > 1, "some were sent")
                self.assertTrue(asked.taken)
                self.assertEqual(left.taken, [])
                server.stop()

    def test_nobody_is_there_at_the_beginning(self):
        taken = socket.create_server(("127.0.0.1", 0))
        address = taken.getsockname()
        taken.close()
        server = self.server_with(otlp_url="http://127.0.0.1:%d/v1/metrics" % address[1])
        poll(lambda: server.reading("otlp_failures_total") > 0, "it fails")
        self.bound("somebody", server=server)

    def test_it_is_off_by_default_and_takes_no_user_in_its_address(self):
        self.assertNotIn("holdline_otlp", self.start().metrics())
        with self.assertRaisesRegex(AssertionError, "without user and query"):
            self.start({"api": {"address": "127.0.0.1:0", "otlp_url": "http://a:b@127.0.0.1/"}})
