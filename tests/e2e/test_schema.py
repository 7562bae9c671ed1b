"""The API is what its description says: Schemathesis reads /openapi.json and asks everything in it.

Each operation is asked with the description's examples, with values at the edges of what it allows
and beyond them, and with some at random (the same ones each time). A failure inside, an answer or a
status that is not described, what should have been refused and was not, and the other way round,
are named with the request that shows them.
"""

import os
import re
import subprocess
import sys
import unittest

import fixture
from fixture import Case
from mqtt.drivers import BUILT

TOOL = os.path.join(BUILT, "schemathesis")
RUN = "from schemathesis.cli import schemathesis; schemathesis()"
DEADLINE_S = 600

# What the schema does not say, so that generators understand it: that one of several fields is wanted, or goes with another one only;
# addresses and networks; time zones; that a message has a text or something beside it; what a group's domain is.
ASKED_FREELY = ("GET /v1/presence", "GET /v1/presence/history", "POST /v1/presence",
                "GET /v1/presence/stored", "POST /v1/presence/stored", "POST /v1/tokens",
                "PUT /v1/products/{product}",
                "GET /v1/chat/accounts/{account}/history", "GET /v1/chat/groups/{group}/history",
                "POST /v1/chat/accounts/{account}/messages", "POST /v1/chat/groups",
                "POST /v1/chat/groups/{group}/changes",
                "GET /v1/bans", "POST /v1/bans", "DELETE /v1/bans/{kind}/{subject}",
                "GET /v1/disconnections", "GET /v1/clients", "POST /v1/pushes", "POST /v1/publish",
                "POST /v1/schedules", "PUT /v1/device/zone",
                "PUT /v1/products/{product}/devices/{device}/zone",
                "GET /v1/chat/chatrooms", "POST /v1/chat/chatrooms/{room}/changes",
                "GET /v1/chat/groups/{group}", "POST /v1/chat/groups/{group}/recall",
                "POST /v1/chat/accounts/{account}/recall",
                "POST /v1/device/kick", "POST /v1/products/{product}/devices/{device}/kick")
SETTINGS = """
[generation]
deterministic = true
max-examples = 8
database = "none"
# A URL ends at a U+0000 for some, and . and .. are gone before it is sent.
allow-x00 = false
""" + "".join(f"""
[[operations]]
include-name = "{name}"
checks.positive_data_acceptance.enabled = false
""" for name in ASKED_FREELY) + """
# What one of many is not is told with that one, and the others are done.
[[operations]]
include-name = "POST /v1/chat/moves"
checks.negative_data_rejection.enabled = false
checks.positive_data_acceptance.enabled = false
"""

# To JSON Schema 7.0 is an integer, and no program writes one so.
HOOKS = """
import schemathesis

def whole(value):
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

@schemathesis.hook
def map_body(context, body):
    return whole(body)
"""


@unittest.skipUnless(os.path.isdir(TOOL), "Schemathesis could not be installed: IT WAS NOT TRIED")
class Schema(Case):
    SHARED = False

    def test_the_api_is_as_it_is_described(self):
        self.server = self.start({
            "listen.mqtt": {"address": "127.0.0.1:0", "protocol": "mqtt"},
            # As long as the description has it, which knows no configuration.
            "mqtt": {"client_id_bytes_max": 480, "topic_bytes_max": 65535,
                     "delay_s_max": 4294967295},
        })
        settings = os.path.join(self.server.folder, "schemathesis.toml")
        for path, text in ((settings, SETTINGS),
                           (os.path.join(self.server.folder, "whole_numbers.py"), HOOKS)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        host, port = self.server.ports["api"]
        url = f"http://{host}:{port}"
        answer = subprocess.run(
            [sys.executable, "-c", RUN, "--config-file", settings, "run", f"{url}/openapi.json",
             "--url", url, "-H", f"Authorization: Bearer {self.server.token}",
             "--exclude-path", "/v1/events",  # it has no end
             "--exclude-path", "/v1/overview/stream",  # nor has this one
             "--exclude-path", "/v1/trace",  # this one ends after minutes
             "--exclude-path", "/v1/chat/broadcasts",  # a few at once, and one more is 503
             "--exclude-path", "/v1/backup",  # it would write where the schema allows: anywhere
             "--exclude-path", "/v1/drain",  # the server would refuse clients from then on
             "--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--no-color"],
            env=fixture.environment({"PYTHONPATH": f"{TOOL}:{self.server.folder}",
                                     "SCHEMATHESIS_HOOKS": "whole_numbers"}), cwd=self.server.folder, text=True,
            capture_output=True, timeout=DEADLINE_S, check=False)
        told = answer.stdout + answer.stderr
        self.assertEqual(answer.returncode, 0, told)
        tried = re.search(r"Tested: (\d+)", told)
        self.assertGreaterEqual(int(tried[1]), 60, told)
