// MQTT.js, told by lines. See drivers.py for what is said both ways.
'use strict';
const fs = require('fs');
const mqtt = require('mqtt');

const clients = new Map();

function say(name, event, fields = {}) {
  const line = new URLSearchParams({ as: name, event });
  for (const [key, value] of Object.entries(fields)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) line.append(key, String(each));
    }
  }
  process.stdout.write(line.toString() + '\n');
}

function number(line, key) {
  return line.has(key) ? Number(line.get(key)) : undefined;
}

// Without the keys that have no value.
function only(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function connect(name, line) {
  const version = number(line, 'version');
  const tls = line.has('ca');
  const options = {
    protocol: line.has('ws') ? (tls ? 'wss' : 'ws') : tls ? 'mqtts' : 'mqtt',
    host: line.get('host'), port: number(line, 'port'), path: line.get('ws') ?? undefined,
    clientId: line.get('id') ?? '', protocolVersion: version,
    protocolId: version === 3 ? 'MQIsdp' : 'MQTT', clean: number(line, 'clean') !== 0,
    keepalive: number(line, 'keep_alive') ?? 60, reconnectPeriod: 0,
    username: line.get('user') ?? undefined, password: line.get('password') ?? undefined,
  };
  if (tls) {
    options.ca = fs.readFileSync(line.get('ca'));
    if (line.has('cert')) options.cert = fs.readFileSync(line.get('cert'));
    if (line.has('key')) options.key = fs.readFileSync(line.get('key'));
  }
  if (line.has('will_topic')) {
    options.will = {
      topic: line.get('will_topic'), payload: line.get('will_payload') ?? '',
      qos: number(line, 'will_qos') ?? 0, retain: number(line, 'will_retain') === 1,
    };
    if (version === 5 && line.has('will_delay')) {
      options.will.properties = { willDelayInterval: number(line, 'will_delay') };
    }
  }
  if (version === 5) {
    options.properties = only({
      sessionExpiryInterval: number(line, 'expiry'), receiveMaximum: number(line, 'receive_max'),
      maximumPacketSize: number(line, 'packet_max'), topicAliasMaximum: number(line, 'alias_max'),
    });
  }
  const state = { client: mqtt.connect(options), leaving: false, up: false, version };
  clients.set(name, state);
  listen(name, state);
}

function listen(name, state) {
  let refused = false;
  state.client.on('connect', (ack) => {
    state.up = true;
    const props = ack.properties ?? {};
    say(name, 'connected', {
      present: ack.sessionPresent ? 1 : 0, assigned_id: props.assignedClientIdentifier,
      server_keep_alive: props.serverKeepAlive, receive_max: props.receiveMaximum,
      alias_max: props.topicAliasMaximum, packet_max: props.maximumPacketSize,
      session_expiry: props.sessionExpiryInterval, reason: props.reasonString,
    });
  });
  state.client.on('message', (topic, payload, packet) => {
    const props = packet.properties ?? {};
    const users = Object.entries(props.userProperties ?? {}).flatMap(
      ([key, value]) => (Array.isArray(value) ? value : [value]).map((each) => `${key}:${each}`));
    say(name, 'message', {
      topic, payload: payload.toString(), qos: packet.qos, retain: packet.retain ? 1 : 0,
      dup: packet.dup ? 1 : 0, content_type: props.contentType,
      response_topic: props.responseTopic, correlation: props.correlationData,
      expiry: props.messageExpiryInterval, user_property: users,
      payload_format: props.payloadFormatIndicator === undefined ? undefined
        : Number(props.payloadFormatIndicator),
      subscription_id: props.subscriptionIdentifier,
    });
  });
  state.client.on('error', (error) => {
    if (!state.up && !refused) {
      refused = true;
      say(name, 'refused', { code: error.code, why: error.message });
    }
  });
  state.client.on('disconnect', (packet) => { state.farewell = packet; });
  state.client.on('close', () => {
    if (state.leaving) return;
    if (state.up) {
      const props = state.farewell?.properties ?? {};
      say(name, 'lost', { code: state.farewell?.reasonCode, why: props.reasonString });
    } else if (!refused) {
      refused = true;
      say(name, 'refused', { why: 'closed' });
    }
    state.up = false;
  });
}

const failed = (name) => (error) => say(name, 'failed', { why: error.message });

const commands = {
  async subscribe(name, state, line) {
    const options = { qos: number(line, 'qos') ?? 0 };
    if (state.version === 5) {
      options.nl = number(line, 'no_local') === 1;
      options.rap = number(line, 'as_published') === 1;
      options.rh = number(line, 'handling') ?? 0;
      if (line.has('subscription_id')) {
        options.properties = { subscriptionIdentifier: number(line, 'subscription_id') };
      }
    }
    // Asked with a callback: a code above 0x80 is an answer here, not an error.
    state.client.subscribe(line.get('filter'), options, (error, granted, packet) => {
      const codes = packet?.granted ?? (granted ?? []).map((each) => each.qos);
      if (error && !codes.length) failed(name)(error);
      else say(name, 'subscribed', { code: codes, why: packet?.properties?.reasonString });
    });
  },
  async unsubscribe(name, state, line) {
    const packet = await state.client.unsubscribeAsync(line.get('filter'));
    say(name, 'unsubscribed', { code: packet?.granted });
  },
  async publish(name, state, line) {
    const users = {};
    for (const pair of line.getAll('user_property')) {
      const [key, value] = [pair.slice(0, pair.indexOf(':')), pair.slice(pair.indexOf(':') + 1)];
      (users[key] ??= []).push(value);
    }
    const options = { qos: number(line, 'qos') ?? 0, retain: number(line, 'retain') === 1 };
    if (state.version === 5) {
      options.properties = only({
        messageExpiryInterval: number(line, 'expiry'), contentType: line.get('type') ?? undefined,
        responseTopic: line.get('response_topic') ?? undefined,
        correlationData: line.has('correlation') ? Buffer.from(line.get('correlation')) : undefined,
        payloadFormatIndicator: line.has('payload_format')
          ? number(line, 'payload_format') === 1 : undefined,
        topicAlias: number(line, 'alias'),
        userProperties: Object.keys(users).length ? users : undefined,
      });
    }
    const count = number(line, 'count') ?? 1;
    const sent = [];
    for (let at = 0; at < count; at += 1) {
      const payload = line.get('payload') ?? '';
      sent.push(state.client.publishAsync(
        line.get('topic'), count > 1 ? payload.replace('%', at) : payload, options));
    }
    const packets = await Promise.all(sent);
    say(name, 'published', {
      code: packets.at(-1)?.reasonCode ?? 0, why: packets.at(-1)?.properties?.reasonString });
  },
  async disconnect(name, state, line) {
    state.leaving = true;
    const options = {};
    if (state.version === 5) {
      options.reasonCode = number(line, 'code') ?? 0;
      options.properties = only({ sessionExpiryInterval: number(line, 'expiry') });
    }
    await state.client.endAsync(false, options);
    say(name, 'disconnected');
  },
};

require('readline').createInterface({ input: process.stdin }).on('line', (text) => {
  const line = new URLSearchParams(text);
  const name = line.get('as');
  try {
    if (line.get('do') === 'connect') connect(name, line);
    else commands[line.get('do')](name, clients.get(name), line).catch(failed(name));
  } catch (error) {
    failed(name)(error);
  }
}).on('close', () => process.exit(0));
