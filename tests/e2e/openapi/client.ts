// Uses the client that openapi-generator made for TypeScript: URL and token are its arguments.
//
// It prints what it was answered, as JSON.

import {
  ClientsApi, Configuration, EventsApi, PushesApi, ResponseError, ServerApi, UsersApi, type ApiError,
} from './holdline/index';

const [url, token] = process.argv.slice(2);
const made = (accessToken: string) => new Configuration({ basePath: url, accessToken });

/** The code of the error that a call ends with. */
async function code(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    const told = await error.response.json() as ApiError;
    return told.error.code;
  }
  throw new Error('it was answered');
}

async function main() {
  const right = made(token);
  const page = await new ClientsApi(right).listClients({ limit: 10 });
  const users = new UsersApi(right);
  const user = await users.putUser({
    user: 'typescript',
    userChange: { password: 'correct horse', rules: [{ action: 'read', filter: 'prices/#' }] },
  });
  const pushed = await new PushesApi(right).push({
    pushOrder: { product: 'demo', device: 'typescript-1', body: 'hello' },
  });
  if (!('outcomes' in pushed)) throw new Error('a push to a device has an outcome for it');
  const now = await new ServerApi(right).status();
  const { webhooks } = await new EventsApi(right).listWebhooks();
  if (webhooks.length > 0) throw new Error('no webhook is configured');
  console.log(JSON.stringify({
    clients: page.clients.map(one => one.clientId),
    next: page.next,
    user: [user.name, user.hasPassword, user.rules.map(rule => rule.filter)],
    push: pushed.outcomes.map(one => [one.device, one.outcome]),
    version: now.version,
    errors: [await code(users.getUser({ user: 'nobody' })), await code(new UsersApi(made('x')).getUser({ user: 'nobody' }))],
  }));
}

void main();
