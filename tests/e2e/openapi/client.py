"""Uses the client that openapi-python-client made: URL and token are its arguments.

It prints what it was answered, as JSON.
"""

import json
import sys

from holdline_client import AuthenticatedClient
from holdline_client.api.clients import list_clients
from holdline_client.api.events import list_webhooks
from holdline_client.api.pushes import push
from holdline_client.api.server import status
from holdline_client.api.users import get_user, put_user
from holdline_client.models import ApiError, PushOrder, Rule, RuleAction, UserChange

url, token = sys.argv[1:]
with AuthenticatedClient(base_url=url, token=token) as client:
    page = list_clients.sync(client=client, limit=10)
    rule = Rule(action=RuleAction.READ, filter_="prices/#")
    user = put_user.sync("python", client=client,
                         body=UserChange(password="correct horse", rules=[rule]))
    pushed = push.sync(client=client,
                       body=PushOrder(product="demo", device="python-1", body="hello"))
    now = status.sync(client=client)
    unknown = get_user.sync("nobody", client=client)
    assert isinstance(unknown, ApiError), unknown
    refused = get_user.sync("nobody", client=AuthenticatedClient(base_url=url, token="x"))
    assert isinstance(refused, ApiError), refused
    assert list_webhooks.sync(client=client).webhooks == []

print(json.dumps({
    "clients": [one.client_id for one in page.clients],
    "next": page.next_,
    "user": [user.name, user.has_password, [rule.filter_ for rule in user.rules]],
    "push": [[one.device, one.outcome] for one in pushed.outcomes],
    "version": now.version,
    "errors": [unknown.error.code, refused.error.code],
}))
