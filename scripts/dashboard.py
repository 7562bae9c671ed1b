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
        ("Up", "Whether the last scrape was answered.", "none",
         [(f"up{{{HERE}}}", "up")]),
        ("Logs without room, logs that failed",
         "Full logs have room again when something goes; failed ones want the disk and a restart.",
         "none", each("store_full", "store_failed", of=gauge)),
        ("Memory pressure", "0 calm, 1 no newcomers, 2 no QoS 0, 3 nothing is queued.", "none",
         each("memory_pressure", of=gauge)),
        ("Memory of the process", "Resident, files included.", "bytes",
         [(gauge("process_resident_memory_bytes"), "resident")]),
    ],
    "Connections": [
        ("Connections", "Open now.", "short", each("connections", of=gauge)),
        ("Online, by product and protocol", "Devices and clients.", "short",
         [(by("product, protocol", gauge("holdline_presence_online")),
           "{{product}} {{protocol}}")]),
        ("Arrivals and departures", "A second, all protocols.", "ops",
         [(by("protocol", rate("holdline_presence_arrivals_total")), "{{protocol}} came"),
          (by("protocol", rate("holdline_presence_departures_total")), "{{protocol}} went")]),
        ("Ends, by reason", "Connections that ended, a second.", "ops",
         [(by("reason", rate("holdline_connections_closed_total")) + " > 0", "{{reason}}")]),
        ("Refused", "Logins and connections turned away, a second.", "ops",
         each("sessions_refused_total", "binds_refused_total", "chat_logins_refused_total",
              "access_source_refused_total", "connections_source_full_total",
              "pressed_connections_total", "accept_failures_total")),
        ("Heartbeats", "Answered, and later than agreed by a tenth or more.", "ops",
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
        ("Sends that the socket did not take whole", "Peers that read more slowly than is sent.",
         "ops", each("short_writes_total")),
    ],
    "Latency": [
        ("Logins", "From the last bytes of a login till one is let in, by protocol.", "s",
         permille('phase="login"', "of")),
        ("Acknowledged", "Published till PUBACK, sent in chat till stored, pushed till there.",
         "s", permille('phase=~"publish|send|acknowledge"', "phase")),
        ("In every inbox", "From a stored message of chat till all have it.", "s",
         permille('phase="distribute"', "of")),
        ("Calls to the logs", "By service.", "s", permille('phase="store"', "of")),
        ("Turns", "Of the shards.", "s", permille('phase="turn"', "of")),
        ("Lag of the shards", "By how much turns begin later than wanted, by a timer or for what "
         "was left over.", "s", permille('phase="lag"', "of")),
    ],
    "Push": [
        ("Pushes", "Sent, sent again, acknowledged, stored.", "ops",
         each("pushes_sent_total", "pushes_resent_total", "pushes_delivered_total",
              "pushes_stored_total")),
        ("Pushes that did not arrive", "Expired, evicted, replaced, not taken on.", "ops",
         each("pushes_expired_total", "pushes_evicted_total", "pushes_collapsed_total",
              "pushes_rejected_total")),
        ("Pushes that wait", "For devices that are away or have not acknowledged.", "short",
         each("pushes_waiting", of=gauge)),
        ("Reports", "Taken and refused.", "ops", each("reports_total", "reports_refused_total")),
    ],
    "MQTT": [
        ("Published, by QoS", "Messages that clients published.", "ops",
         [(by("qos", rate("holdline_publishes_received_total")), "QoS {{qos}}")]),
        ("Deliveries", "Handed to connections, of these again, acknowledged.", "ops",
         each("deliveries_total", "deliveries_again_total", "deliveries_acknowledged_total")),
        ("Dropped, by reason", "Messages not delivered to a session.", "ops",
         [(by("reason", rate("holdline_messages_dropped_total")) + " > 0", "{{reason}}")]),
        ("Sessions", "All, and with a connection.", "short",
         each("sessions", "sessions_online", of=gauge)),
        ("What waits", "For sessions, for later, retained.", "short",
         each("queued_messages", "delayed_messages", "retained_messages", of=gauge)),
        ("Subscriptions", "Shared ones included.", "short", each("subscriptions", of=gauge)),
        ("Publishes refused, answers overdue", "By rules or limits; and those given as busy.",
         "ops", each("publishes_refused_total", "answers_overdue_total", "reads_held_total")),
    ],
    "Chat": [
        ("Messages", "Stored, sent once more, refused, handed to connections, pulled.", "ops",
         each("chat_sent_total", "chat_sent_again_total", "chat_sends_failed_total",
              "chat_delivered_total", "chat_pulled_total")),
        ("Devices of accounts", "Here now.", "short", each("chat_sessions", of=gauge)),
        ("Not there yet", "Messages on their way between shards, and to other servers.", "short",
         each("chat_undistributed", "chat_queued_out", of=gauge)),
    ],
    "Store and shards": [
        ("Logs", "On the disk, and of it alive.", "bytes",
         each("store_log_bytes", "store_live_bytes", of=gauge)),
        ("Calls that wait for the logs", "A slow disk shows here.", "short",
         each("store_calls_waiting", of=gauge)),
        ("Behind the last checkpoint", "What a start would read again.", "bytes",
         each("store_behind_bytes", of=gauge)),
        ("Longest turn", "Of any shard, since the scrape before.", "s",
         each("shard_turn_seconds_max", of=gauge)),
        ("Messages between shards", "And those that found a full mailbox.", "ops",
         each("mailbox_messages_total", "mailbox_full_total")),
        ("Shards, busy", "Share of the time that each spends in turns.", "percentunit",
         [(rate("holdline_shard_busy_seconds_total"), "shard {{shard}}")]),
        ("Threads that run shards", "Few while there is little to do.", "short",
         each("shard_threads", "shards", of=gauge)),
    ],
    "Services": [
        ("Directory of presence", "1 is the state of the circuit. Empty without a directory.",
         "none", [(gauge("holdline_presence_circuit"), "{{state}}")]),
        ("Behind", "Age of the oldest transition that the directory has not taken.", "s",
         each("presence_lag_seconds", of=gauge)),
        ("Webhooks", "Events by result, and requests not taken. Empty without webhooks.", "ops",
         [(rate("holdline_webhook_events_total"), "{{hook}} {{result}}"),
          (rate("holdline_webhook_failures_total"), "{{hook}} not taken")]),
        ("Dead letters", "Events given up and kept.", "short",
         [(gauge("holdline_webhook_dead_letters"), "{{hook}}")]),
        ("Bridges", "Enabled, and with their broker. Empty without bridges.", "short",
         each("bridges", "bridges_online", of=gauge)),
        ("The API", "Connections; evicted and refused ones a second.", "short",
         each("api_connections", of=gauge)
         + each("api_connections_evicted_total", "api_connections_refused_total")),
        ("Lost lines", "Of the log and of the audit log.", "short",
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
