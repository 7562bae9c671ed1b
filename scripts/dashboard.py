#!/usr/bin/env python3
"""Prints docs/grafana/holdline.json, the dashboard for Grafana: `scripts/dashboard.py --write`.

A table of rows and panels, and what Grafana wants around them; a test holds the file to this and
every metric in it to a running server.
"""

import json
import os
import re
import sys

FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                    "docs", "grafana", "holdline.json")
UID = "holdline"
HERE = 'job=~"$job", instance=~"$instance"'


def gauge(metric, labels=""):
    return f"{metric}{{{HERE}{labels and ', ' + labels}}}"


def rate(metric, labels=""):
    return f"rate({gauge(metric, labels)}[$__rate_interval])"


def by(label, expression):
    return f"sum by (instance, {label}) ({expression})"


def permille(labels, label):
    """What half, 99 of a hundred and 999 of a thousand do not exceed, by a label."""
    of = by(f"{label}, le", rate("holdline_phase_seconds_bucket", labels))
    return [(f"histogram_quantile({share}, {of})", f"{{{{{label}}}}} {name}")
            for share, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))]


def each(*metrics, of=rate):
    """A curve for each of these, named by what comes behind holdline_."""
    return [(of(f"holdline_{metric}"), metric.removesuffix("_total")) for metric in metrics]


# Row: (title, what it says, unit, curves as (expression, legend)).
ROWS = {
    "Health": [
        ("Up", "Whether the last scrape succeeded.", "none",
         [(f"up{{{HERE}}}", "up")]),
        ("Full logs, failed logs",
         "Full logs recover when data is deleted; failed ones need a repaired disk and a restart.",
         "none", each("store_full", "store_failed", of=gauge)),
        ("Memory pressure", "0 none, 1 no new connections, 2 also no QoS 0, 3 also no stores.",
         "none", each("memory_pressure", of=gauge)),
        ("Memory of the process", "Resident memory, including files.", "bytes",
         [(gauge("process_resident_memory_bytes"), "resident")]),
        ("Alarms", "Active alarms; `holdline alarms` lists them.", "none",
         each("alarms_active", "alarms_critical", of=gauge)),
    ],
    "Connections": [
        ("Connections", "Open connections.", "short", each("connections", of=gauge)),
        ("Online, by product and protocol", "Devices and clients.", "short",
         [(by("product, protocol", gauge("holdline_presence_online")),
           "{{product}} {{protocol}}")]),
        ("Connects and disconnects", "Per second, by protocol.", "ops",
         [(by("protocol", rate("holdline_presence_arrivals_total")), "{{protocol}} connects"),
          (by("protocol", rate("holdline_presence_departures_total")),
           "{{protocol}} disconnects")]),
        ("Closed connections, by reason", "Per second.", "ops",
         [(by("reason", rate("holdline_connections_closed_total")) + " > 0", "{{reason}}")]),
        ("Refused", "Refused logins and connections, per second.", "ops",
         each("sessions_refused_total", "binds_refused_total", "chat_logins_refused_total",
              "access_source_refused_total", "connections_source_full_total",
              "pressed_connections_total", "accept_failures_total")),
        ("Heartbeats", "Answered, and more than a tenth late.", "ops",
         each("pings_total", "heartbeats_late_total")),
    ],
    "Traffic": [
        ("Bytes", "Received from and sent to sockets.", "Bps",
         each("bytes_received_total", "bytes_sent_total")),
        ("MQTT packets", "Received and sent.", "ops",
         each("packets_received_total", "packets_sent_total")),
        ("MIOP and IM frames, by kind", "Received and sent.", "ops",
         [(by("kind", rate(f"holdline_{of}_frames_{way}_total")) + " > 0",
           f"{of} {{{{kind}}}} {way}")
          for of in ("miop", "im") for way in ("received", "sent")]),
        ("XMPP stanzas, by kind", "Received and sent.", "ops",
         [(by("kind", rate(f"holdline_xmpp_stanzas_{way}_total")) + " > 0",
           f"{{{{kind}}}} {way}") for way in ("received", "sent")]),
        ("Partial socket writes", "Peers that read more slowly than the server sends.",
         "ops", each("short_writes_total")),
    ],
    "Latency": [
        ("Logins", "From the last bytes of a login until it is accepted, by protocol.", "s",
         permille('phase="login"', "of")),
        ("Acknowledgements", "Publish to PUBACK, chat message to stored, push to acknowledged.",
         "s", permille('phase=~"publish|send|acknowledge"', "phase")),
        ("In every inbox", "From a stored chat message until it is in every inbox.", "s",
         permille('phase="distribute"', "of")),
        ("Calls to the logs", "By service.", "s", permille('phase="store"', "of")),
        ("Turns", "Duration of the shards' turns.", "s", permille('phase="turn"', "of")),
        ("Lag of the shards", "Delay of the shards' turns.", "s", permille('phase="lag"', "of")),
    ],
    "Push": [
        ("Pushes", "Sent, resent, acknowledged, stored.", "ops",
         each("pushes_sent_total", "pushes_resent_total", "pushes_delivered_total",
              "pushes_stored_total")),
        ("Undelivered pushes", "Expired, evicted, replaced, rejected, cancelled.", "ops",
         each("pushes_expired_total", "pushes_evicted_total", "pushes_collapsed_total",
              "pushes_rejected_total", "pushes_cancelled_total")),
        ("Queued pushes", "For offline devices, or unacknowledged.", "short",
         each("pushes_waiting", of=gauge)),
        ("Reports", "Accepted and refused.", "ops", each("reports_total", "reports_refused_total")),
    ],
    "MQTT": [
        ("Published, by QoS", "Messages that clients published.", "ops",
         [(by("qos", rate("holdline_publishes_received_total")), "QoS {{qos}}")]),
        ("Deliveries", "Sent, resent, acknowledged.", "ops",
         each("deliveries_total", "deliveries_again_total", "deliveries_acknowledged_total")),
        ("Dropped, by reason", "Messages not delivered to a session.", "ops",
         [(by("reason", rate("holdline_messages_dropped_total")) + " > 0", "{{reason}}")]),
        ("Sessions", "All, and connected.", "short",
         each("sessions", "sessions_online", of=gauge)),
        ("Queued messages", "For sessions, delayed, retained.", "short",
         each("queued_messages", "delayed_messages", "retained_messages", of=gauge)),
        ("Subscriptions", "Including shared ones.", "short", each("subscriptions", of=gauge)),
        ("Publishes refused, answers overdue", "Refused by rules or limits; answered as busy.",
         "ops", each("publishes_refused_total", "answers_overdue_total", "reads_held_total")),
    ],
    "Chat": [
        ("Messages", "Stored, retried, refused, sent to devices, fetched.", "ops",
         each("chat_sent_total", "chat_sent_again_total", "chat_sends_failed_total",
              "chat_delivered_total", "chat_pulled_total")),
        ("Devices of accounts", "Connected now.", "short", each("chat_sessions", of=gauge)),
        ("In transit", "Messages between shards, and to other servers.", "short",
         each("chat_undistributed", "chat_queued_out", of=gauge)),
    ],
    "Store and shards": [
        ("Logs", "On disk, and live data in it.", "bytes",
         each("store_log_bytes", "store_live_bytes", of=gauge)),
        ("Calls queued for the logs", "Rises with a slow disk.", "short",
         each("store_calls_waiting", of=gauge)),
        ("Behind the last checkpoint", "Data that a start would replay.", "bytes",
         each("store_behind_bytes", of=gauge)),
        ("Longest turn", "Of any shard, since the previous scrape.", "s",
         each("shard_turn_seconds_max", of=gauge)),
        ("Messages between shards", "Sent, and refused by a full mailbox.", "ops",
         each("mailbox_messages_total", "mailbox_full_total")),
        ("Shards, busy", "Share of time spent in turns.", "percentunit",
         [(rate("holdline_shard_busy_seconds_total"), "shard {{shard}}")]),
        ("Threads that run shards", "Few while the load is low.", "short",
         each("shard_threads", "shards", of=gauge)),
    ],
    "Services": [
        ("Presence directory", "1 is the state of the circuit breaker. Empty without a directory.",
         "none", [(gauge("holdline_presence_circuit"), "{{state}}")]),
        ("Presence directory, lag", "Age of the oldest transition not yet in the directory.", "s",
         each("presence_lag_seconds", of=gauge)),
        ("Webhooks", "Events by result, and failed requests. Empty without webhooks.", "ops",
         [(rate("holdline_webhook_events_total"), "{{hook}} {{result}}"),
          (rate("holdline_webhook_failures_total"), "{{hook}} failed")]),
        ("Dead letters", "Events given up and stored.", "short",
         [(gauge("holdline_webhook_dead_letters"), "{{hook}}")]),
        ("Bridges", "Enabled, and connected. Empty without bridges.", "short",
         each("bridges", "bridges_online", of=gauge)),
        ("The API", "Connections; evicted and refused ones per second.", "short",
         each("api_connections", of=gauge)
         + each("api_connections_evicted_total", "api_connections_refused_total")),
        ("Lost log lines", "Of the log and of the audit log.", "short",
         each("log_lines_lost_total", "api_audit_log_lost_total", of=gauge)),
    ],
}


def source():
    return {"type": "prometheus", "uid": "${datasource}"}


def panels():
    made, y = [], 0
    for row, entries in ROWS.items():
        made.append({"id": len(made) + 1, "type": "row", "title": row, "collapsed": False,
                     "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []})
        y += 1
        for place, (title, says, unit, curves) in enumerate(entries):
            where = {"x": place % 3 * 8, "y": y + place // 3 * 7, "w": 8, "h": 7}
            made.append({
                "id": len(made) + 1, "type": "timeseries", "title": title, "description": says,
                "datasource": source(), "gridPos": where,
                "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom"},
                            "tooltip": {"mode": "multi", "sort": "desc"}},
                "targets": [{"refId": chr(65 + number), "datasource": source(),
                             "expr": expression, "legendFormat": legend + " {{instance}}"}
                            for number, (expression, legend) in enumerate(curves)]})
        y += (len(entries) + 2) // 3 * 7
    return made


def variable(name, query):
    return {"name": name, "type": "query", "label": name, "datasource": source(), "query": query,
            "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*", "sort": 1,
            "current": {"text": "All", "value": "$__all"}}


def dashboard():
    variables = [
        {"name": "datasource", "type": "datasource", "label": "datasource", "query": "prometheus"},
        variable("job", "label_values(holdline_build_info, job)"),
        variable("instance", 'label_values(holdline_build_info{job=~"$job"}, instance)'),
    ]
    return {"uid": UID, "title": "Holdline", "tags": ["holdline"], "schemaVersion": 39,
            "version": 1, "editable": True, "refresh": "30s", "timezone": "",
            "time": {"from": "now-3h", "to": "now"}, "annotations": {"list": []},
            "templating": {"list": variables}, "panels": panels()}


def text():
    return json.dumps(dashboard(), indent=1) + "\n"


def names(expression):
    """The metrics that an expression names."""
    bare = re.sub(r'\{[^}]*\}|"[^"]*"', "", expression)
    return set(re.findall(r"\b(?:holdline|process)_\w+", bare))


if __name__ == "__main__":
    if "--write" in sys.argv:
        with open(FILE, "w", encoding="utf-8") as file:
            file.write(text())
    else:
        sys.stdout.write(text())
