"""What watches a server: alerts and dashboard name metrics that a running server has, in
expressions that Prometheus takes, and each alert fires when it should and not before.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

import fixture
from fixture import Case
from cluster import nats
from mqtt.broker import free_port
from test_metrics import TOOL

ALERTS = os.path.join(fixture.ROOT, "docs", "alerts.yml")
SCRIPT = os.path.join(fixture.ROOT, "scripts", "dashboard.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import dashboard  # noqa: E402

# By alert: what Prometheus would have scraped each minute, in promtool's notation, and after how
# many minutes it has to fire. `0+9x20` grows by nine a minute, `5x20` stays five.
FIRES = {
    "HoldlineDown": ({"up": "0x20"}, 2),
    "HoldlineStoreFailed": ({"holdline_store_failed": "1x20"}, 1),
    "HoldlineStoreFull": ({"holdline_store_full": "1x20"}, 3),
    "HoldlineStoreFilling": ({"holdline_store_used_percent": "70x20"}, 7),
    "HoldlineAcceptFailures": ({"holdline_accept_failures_total": "0+1x20"}, 12),
    "HoldlineConnectionsLost": ({"holdline_connections": "2000x10 1300x10"}, 12),
    "HoldlineMemoryShort": ({"holdline_memory_pressure": "1x20"}, 2),
    "HoldlineCertificateExpires": (
        {"holdline_certificate_expiry_timestamp_seconds": "864000x20"}, 2),
    "HoldlineCertificateExpired": (
        {"holdline_certificate_expiry_timestamp_seconds": "0x20"}, 2),
    "HoldlineBusy": ({'holdline_connections_closed_total{reason="busy"}': "0+90x30"}, 17),
    "HoldlineSlowConsumers": (
        {'holdline_connections_closed_total{reason="slow_consumer"}': "0+2x20"}, 10),
    "HoldlineMessagesDropped": ({'holdline_messages_dropped_total{reason="queue_bytes"}': "0+2x30",
                                 "holdline_deliveries_total": "0+1000x30"}, 17),
    "HoldlineLoginsRefused": ({"holdline_sessions_refused_total": "0+90x20",
                               "holdline_binds_refused_total": "0x20",
                               "holdline_chat_logins_refused_total": "0x20"}, 12),
    "HoldlineTurnLong": ({"holdline_shard_turn_seconds_max": "0.06x20"}, 12),
    "HoldlineStoreSlow": (
        {'holdline_phase_seconds_bucket{of="chat",phase="store",le="0.1"}': "0+90x30",
         'holdline_phase_seconds_bucket{of="chat",phase="store",le="0.25"}': "0+100x30",
         'holdline_phase_seconds_bucket{of="chat",phase="store",le="+Inf"}': "0+100x30"}, 17),
    "HoldlineMailboxFull": ({"holdline_mailbox_full_total": "0+1x20"}, 6),
    "HoldlineDirectoryAway": ({'holdline_presence_circuit{state="closed"}': "0x20"}, 6),
    "HoldlineDirectoryBehind": ({"holdline_presence_lag_seconds": "31x20"}, 6),
    "HoldlineAccountsAway": ({"holdline_accounts_database_up": "0x20"}, 6),
    "HoldlineLdapAway": ({"holdline_access_ldap_up": "0x20"}, 6),
    "HoldlineArchiveBehind": ({"holdline_archive_waiting_seconds": "301x20",
                               "holdline_archive_lost_total": "0x20"}, 6),
    "HoldlineDeadLetters": (
        {'holdline_webhook_dead_letters_total{hook="0",result="kept"}': "0+1x20"}, 5),
    "HoldlineBridgeDown": ({"holdline_bridges": "2x20", "holdline_bridges_online": "1x20"}, 11),
    "HoldlineBackupOld": ({"holdline_backup_newest_timestamp_seconds": "0x90",
                           "holdline_backup_interval_seconds": "60x90"}, 65),
    "HoldlineNoLeader": ({"holdline_cluster_has_leader": "0x20"}, 2),
    "HoldlineNatsAway": ({"holdline_cluster_connected": "0x20"}, 2),
    "HoldlineIsolated": ({"holdline_cluster_isolated": "1x20"}, 1),
    "HoldlineFollowersMissing": ({"holdline_cluster_followers_missing": "1x20"}, 11),
    "HoldlineFollowerBehind": ({"holdline_cluster_lag": "100001x20"}, 6),
    "HoldlineStreamFilling": ({"holdline_cluster_stream_bytes_max": "700000001x20"}, 3),
    "HoldlineStreamFull": ({"holdline_cluster_stream_full": "1x20"}, 1),
    "HoldlineClocksDiffer": ({"holdline_cluster_clock_skew_seconds": "300x20"}, 6),
    "HoldlineNodeUnreachable": ({"holdline_cluster_unreachable_addresses": "1x20"}, 6),
    "HoldlineAcknowledgedLost": (
        {"holdline_cluster_acknowledged_lost_unseen": "3x20"}, 1),
    "HoldlineRecordsLost": ({"holdline_log_lines_lost_total": "0+1x20",
                             "holdline_api_audit_log_lost_total": "0x20"}, 5),
    "HoldlineErrorLogged": (
        {'holdline_log_events_total{event="message_damaged",level="error"}': "0+1x20"}, 5),
    "HoldlineDefect": ({"holdline_impossible_total": "0+1x20"}, 5),
    "HoldlineAlarmCritical": ({"holdline_alarms_critical": "1x20"}, 4),
    "HoldlineAlarmActive": ({"holdline_alarms_active": "1x20",
                             "holdline_alarms_critical": "0x20"}, 17),
}
# The same of a server that is well, with a little of everything: nobody is called.
WELL = {
    "up": "1x30", "holdline_store_failed": "0x30", "holdline_store_full": "0x30",
    "holdline_store_used_percent": "69x30",
    "holdline_backup_newest_timestamp_seconds": "0+60x30",
    "holdline_backup_interval_seconds": "86400x30",
    "holdline_cluster_has_leader": "1x30", "holdline_cluster_connected": "1x30",
    "holdline_cluster_isolated": "0x30", "holdline_cluster_followers_missing": "0x30",
    "holdline_cluster_acknowledged_lost_total": "7x30",
    "holdline_cluster_acknowledged_lost_unseen": "0x30", "holdline_cluster_stream_full": "0x30",
    "holdline_cluster_clock_skew_seconds": "2x30", "holdline_cluster_unreachable_addresses": "0x30",
    "holdline_cluster_lag": "100x30", "holdline_cluster_stream_bytes_max": "20000000x30",
    "holdline_accept_failures_total": "0x30", "holdline_connections": "2000x10 1500x20",
    "holdline_memory_pressure": "0x30",
    'holdline_log_events_total{event="client_turned_away",level="warn"}': "0+1x30",
    'holdline_log_events_total{event="message_damaged",level="error"}': "0x30",
    'holdline_connections_closed_total{reason="busy"}': "0+30x30",
    'holdline_connections_closed_total{reason="slow_consumer"}': "0+0.5x30",
    'holdline_messages_dropped_total{reason="queue_bytes"}': "0+1x30",
    "holdline_deliveries_total": "0+2000x30",
    "holdline_sessions_refused_total": "0+10x30", "holdline_binds_refused_total": "0+10x30",
    "holdline_chat_logins_refused_total": "0x30", "holdline_shard_turn_seconds_max": "0.04x30",
    'holdline_phase_seconds_bucket{of="chat",phase="store",le="0.1"}': "0+100x30",
    'holdline_phase_seconds_bucket{of="chat",phase="store",le="+Inf"}': "0+100x30",
    "holdline_mailbox_full_total": "0x30", 'holdline_presence_circuit{state="closed"}': "1x30",
    "holdline_presence_lag_seconds": "1x30", "holdline_bridges": "2x30",
    "holdline_accounts_database_up": "1x30", "holdline_access_ldap_up": "1x30",
    "holdline_archive_waiting_seconds": "2x30",
    "holdline_archive_lost_total": "3x30",
    'holdline_webhook_dead_letters_total{hook="0",result="kept"}': "3x30",
    "holdline_bridges_online": "2x30", "holdline_log_lines_lost_total": "2x30",
    "holdline_api_audit_log_lost_total": "0x30", "holdline_impossible_total": "0x30",
    "holdline_alarms_critical": "0x30", "holdline_alarms_active": "1x12 0x18",
}


def rules():
    """The alerts' names, and their expressions."""
    with open(ALERTS, encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"- alert: (\w+)\n +expr: (?:>-\n)?(.*?)\n +(?:for|labels):", text, re.S)
    assert len(found) == text.count("- alert:")
    return dict(found)


def curves():
    """The dashboard's expressions, by panel."""
    with open(dashboard.FILE, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    return [(panel["title"], target["expr"])
            for panel in panels for target in panel.get("targets", [])]


def labelled(name):
    """A series of the job that the rules look at."""
    metric, _, labels = name.partition("{")
    more = ', instance="a:7080", job="holdline"}'
    return metric + "{" + (labels[:-1] + more if labels else more.removeprefix(", "))


def selections(expression):
    """(metric, label, value) of what an expression selects by equality or by a row of words."""
    for metric, inside in re.findall(r"\b((?:holdline|process)_\w+)\{([^}]*)\}", expression):
        for label, value in re.findall(r'(\w+)=~?"([^"$]*)"', inside):
            for word in value.split("|"):
                yield metric, label, word


def everything():
    """A server's configuration with all that has metrics of its own. Nobody is behind directory,
    databases, webhook and bridge: what is told of them is there even so."""
    return ({"presence": {"directory": "redis://127.0.0.1:1"},
             "accounts": {"store": "mysql://u@127.0.0.1:1/d"},
             "chat": {"archive": "mysql://u@127.0.0.1:1/d"},
             "bridge.up": {"addresses": ["127.0.0.1:1"], "topics": ["a/# out 0"]},
             "listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt"}},
            '[[webhook]]\nurl = "http://127.0.0.1:1/"\n')


def started(case):
    """Such a server, with scheduled backups and an LDAP server that is away."""
    copies = tempfile.TemporaryDirectory(prefix="holdline-copies-")
    case.addCleanup(copies.cleanup)
    changes, tail = everything()
    ldap = {"urls": ["ldap://127.0.0.1:9"], "base": "dc=x"}
    return case.start({**changes, "backup": {"folder": copies.name}, "access.ldap": ldap}, tail)


def filled_in(expression):
    """An expression of the dashboard as Grafana asks it."""
    return (expression.replace("$__rate_interval", "1m").replace("$job", "holdline")
            .replace("$instance", ".*"))


class Names(Case):
    SHARED = False

    def test_every_metric_of_alerts_and_dashboard_is_one_of_a_server(self):
        server = started(self)
        page = server.metrics() + nats.follower(self).metrics()
        there = set(re.findall(r"^# TYPE (\w+) ", page, re.M))
        there |= {f"{name}_bucket" for name in re.findall(r"^# TYPE (\w+) histogram$", page, re.M)}
        asked = [*rules().items(), *curves()]
        for where, expression in asked:
            with self.subTest(where):
                named = dashboard.names(expression)
                self.assertTrue(named or "up{" in expression, expression)
                self.assertEqual(named - there, set())
                for metric, label, value in selections(expression):
                    sample = rf'^{metric}\{{(?:[^}}]*,)?{label}="{value}"[,}}]'
                    self.assertRegex(page, re.compile(sample, re.M), expression)

    def test_a_metric_that_no_server_has_would_be_noticed(self):
        self.assertEqual(dashboard.names('sum by (x) (rate(holdline_no_such_total{a="b"}[5m]))'),
                         {"holdline_no_such_total"})

    def test_the_dashboard_is_what_its_script_prints(self):
        with open(dashboard.FILE, encoding="utf-8") as file:
            self.assertEqual(file.read(), dashboard.text(), "scripts/dashboard.py --write")


@unittest.skipUnless(os.access(TOOL, os.X_OK), "promtool could not be had: IT WAS NOT TRIED")
class Rules(unittest.TestCase):
    maxDiff = None

    def told(self, *words):
        told = subprocess.run([TOOL, *words], capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        return told.stdout

    def test_prometheus_takes_the_alerts(self):
        self.assertIn(f"{len(rules())} rules found", self.told("check", "rules", ALERTS))

    def test_prometheus_takes_every_expression_of_the_dashboard(self):
        shown = [filled_in(expression) for _, expression in curves()]
        recorded = [{"record": f"panel:{number}", "expr": expression}
                    for number, expression in enumerate(shown)]
        self.check({"groups": [{"name": "panels", "rules": recorded}]}, "check", "rules")

    def check(self, content, *words):
        """What is JSON is YAML, too."""
        with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            return self.told(*words, file.name)

    def case(self, series, minutes, expected):
        firing = 'ALERTS{alertstate="firing"}'
        samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
        return {"interval": "1m",
                "input_series": [{"series": labelled(name), "values": values}
                                 for name, values in series.items()],
                "promql_expr_test": [{"expr": f"count by (alertname) ({firing})",
                                      "eval_time": f"{minutes}m", "exp_samples": samples}]}

    def test_each_alert_fires_when_it_should_and_none_of_a_server_that_is_well(self):
        self.assertEqual(set(FIRES), set(rules()))
        cases = [self.case(series, minutes, [name]) for name, (series, minutes) in FIRES.items()]
        cases += [self.case(WELL, minutes, []) for minutes in (5, 15, 25)]
        others = {"holdline_binds_refused_total": "0x1500",
                  "holdline_chat_logins_refused_total": "0x1500"}
        for refused, expected in (("0+90x1500", []),  # a second and a half, as the day before
                                  ("0+6x1450 8700+90x50", ["HoldlineLoginsRefused"])):
            series = {"holdline_sessions_refused_total": refused, **others}
            cases.append(self.case(series, 1480, expected))
        self.check({"rule_files": [ALERTS], "evaluation_interval": "1m", "tests": cases},
                   "test", "rules")


PROMETHEUS = os.path.join(os.path.dirname(TOOL), "prometheus")


@unittest.skipUnless(os.access(PROMETHEUS, os.X_OK), "Prometheus is not there: IT WAS NOT TRIED")
class Scraped(Case):
    """A Prometheus beside a server: it has a curve for every panel, and no fault with any rule."""

    SHARED = False

    def prometheus(self, server):
        folder = tempfile.TemporaryDirectory(prefix="holdline-prometheus-")
        self.addCleanup(folder.cleanup)
        host, port = server.ports["api"]
        job = {"job_name": "holdline", "authorization": {"credentials": server.token},
               "static_configs": [{"targets": [f"{host}:{port}"]}]}
        file = os.path.join(folder.name, "prometheus.yml")
        with open(file, "w", encoding="utf-8") as opened:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                       "scrape_configs": [job], "rule_files": [ALERTS]}, opened)
        self.address = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [PROMETHEUS, f"--config.file={file}", f"--storage.tsdb.path={folder.name}/tsdb",
             f"--web.listen-address={self.address}", "--log.level=error"],
            preexec_fn=fixture.end_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def asks(self, path, **query):
        """What Prometheus answers; None while it does not."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=fixture.DEADLINE_S) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def curve(self, expression):
        return (self.asks("query", query=expression) or {}).get("result")

    def test_every_panel_has_a_curve_and_every_rule_is_well(self):
        server = started(self)
        self.prometheus(server)
        fixture.poll(lambda: self.curve('up{job="holdline"} == 1'), "it is scraped", 60)
        with server.device() as device:
            device.bind("till-1")
            server.push("till-1")
            fixture.poll(lambda: self.curve("holdline_presence_online > 0"), "it is seen", 60)
            for panel, expression in curves():
                # What did not happen has no curve there, and that it is asked for without a fault
                # is seen without the condition.
                asked = filled_in(expression).removesuffix(" > 0")
                fixture.poll(lambda: self.curve(asked), f"{panel}: {asked}", 60)
        fixture.poll(lambda: self.health() == dict.fromkeys(rules(), "ok"), "all rules hold", 60)
        wanted = {"HoldlineDirectoryAway", "HoldlineBridgeDown"}
        fixture.poll(lambda: wanted <= self.pending(), "what is away is noticed", 60)

    def health(self):
        groups = (self.asks("rules") or {"groups": []})["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def pending(self):
        alerts = (self.asks("alerts") or {"alerts": []})["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts}
