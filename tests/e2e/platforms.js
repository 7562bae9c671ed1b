// Stand-ins of push services, with nothing but Node's own modules. They check what a server sends
// as the services do, decrypt it with the subscriber's key, and answer as they are told.
//
// It prints a line of JSON for each thing that happens, and reads lines of JSON as orders. It answers
// each order by one line; {"done": true} where nothing else is named:
//   {"subscribe": NAME}      a Web Push subscription; it is printed
//   {"account": true}        the file of a service account of FCM; it is printed
//   {"apns": {certificate, key, authority, signer}}   Apple's service, with the files of its own
//       certificate and key, the authority of apps' certificates, and the team's public key; its port
//       is printed
//   {"answers": [{status, headers, body, hang}, ...]}   the next answers to pushes
//   {"token_answers": [...]}                            the next answers to requests for tokens
//   {"release": STATUS}                                 the answer to requests that hang
// Usage: node platforms.js

"use strict";
const fs = require("node:fs");
const http = require("node:http");
const http2 = require("node:http2");
const crypto = require("node:crypto");
const readline = require("node:readline");

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const answers = [];
const tokenAnswers = [];
const accessTokens = new Set();
let account;
const subscribers = new Map();
const hanging = new Set();

class Fault extends Error {}

function must(holds, what) {
  if (!holds) throw new Fault(what);
}

const parsed = (part) => JSON.parse(Buffer.from(part, "base64url").toString());

// A JSON Web Token, whose signature must be that of the key.
function token(text, algorithm, key) {
  const parts = text.split(".");
  must(parts.length === 3, "a token has three parts");
  const [header, claims] = parts.slice(0, 2).map(parsed);
  must(header.alg === algorithm, `the algorithm is ${header.alg}`);
  const signed = Buffer.from(parts.slice(0, 2).join("."));
  const options = algorithm === "ES256" ? { key, dsaEncoding: "ieee-p1363" } : key;
  must(crypto.verify("sha256", signed, options, Buffer.from(parts[2], "base64url")),
    "the signature is not that of the key");
  return [header, claims];
}

function point(bytes) {
  must(bytes.length === 65 && bytes[0] === 4, "a public key is an uncompressed point");
  const [x, y] = [bytes.subarray(1, 33), bytes.subarray(33)].map((it) => it.toString("base64url"));
  return crypto.createPublicKey({ key: { kty: "EC", crv: "P-256", x, y }, format: "jwk" });
}

const hkdf = (salt, secret, info, length) =>
  Buffer.from(crypto.hkdfSync("sha256", secret, salt, info, length));

// RFC 8291, as a browser does it.
function decrypted(body, { ecdh, secret }) {
  const [salt, length] = [body.subarray(0, 16), body[20]];
  must(body.readUInt32BE(16) >= 18 && length === 65, "the head is that of aes128gcm");
  must(body.length <= 4096, `the body has ${body.length} bytes`);
  const [theirs, sealed] = [body.subarray(21, 21 + length), body.subarray(21 + length)];
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), ecdh.getPublicKey(), theirs]);
  const input = hkdf(secret, ecdh.computeSecret(theirs), info, 32);
  const key = hkdf(salt, input, "Content-Encoding: aes128gcm\0", 16);
  const nonce = hkdf(salt, input, "Content-Encoding: nonce\0", 12);
  const cipher = crypto.createDecipheriv("aes-128-gcm", key, nonce);
  cipher.setAuthTag(sealed.subarray(-16));
  const text = Buffer.concat([cipher.update(sealed.subarray(0, -16)), cipher.final()]);
  const end = text.lastIndexOf(2);
  must(end >= 0 && text.subarray(end + 1).every((byte) => byte === 0), "the record ends with 2");
  return text.subarray(0, end).toString();
}

function webPush(request, body, port) {
  const name = request.url.split("/").pop();
  const subscriber = subscribers.get(name);
  must(subscriber, `nobody has subscribed as ${name}`);
  const given = /^vapid t=([^,]+), ?k=([^,]+)$/.exec(request.headers.authorization || "");
  must(given, "Authorization is that of RFC 8292");
  const key = point(Buffer.from(given[2], "base64url"));
  const [, claims] = token(given[1], "ES256", key);
  must(claims.aud === `http://127.0.0.1:${port}`, `the audience is ${claims.aud}`);
  const left = claims.exp - Date.now() / 1000;
  must(left > 0 && left <= 86400, `the token ends in ${left} s`);
  must(/^mailto:/.test(claims.sub), "the subject is an address");
  must(request.headers["content-encoding"] === "aes128gcm", "the encoding is aes128gcm");
  const { ttl, topic, urgency } = request.headers;
  must(/^[0-9]+$/.test(ttl), "TTL is required");
  must(topic === undefined || /^[A-Za-z0-9_-]{1,32}$/.test(topic), `the topic is ${topic}`);
  return { to: name, key: given[2], ttl: Number(ttl), topic, urgency,
    text: JSON.parse(decrypted(body, subscriber)) };
}

// An access token of OAuth 2.0, by a service account's signature or by a secret.
function accessToken(request, body, port) {
  const form = new URLSearchParams(body.toString());
  const grant = form.get("grant_type");
  if (grant === "client_credentials") {
    must(form.get("client_id") === "10001" && form.get("client_secret") === "huawei-secret",
      "the app's id and secret are those of the test");
  } else {
    must(grant === "urn:ietf:params:oauth:grant-type:jwt-bearer", `the grant is ${grant}`);
    const [header, claims] = token(form.get("assertion"), "RS256", account.publicKey);
    must(header.kid === "key-1" && claims.iss === account.file.client_email, "it is the account's");
    must(claims.aud === `http://127.0.0.1:${port}/token`, `the audience is ${claims.aud}`);
    must(claims.scope === "https://www.googleapis.com/auth/firebase.messaging", "the scope");
    must(claims.exp - claims.iat <= 3600 && Math.abs(claims.iat - Date.now() / 1000) < 60, "its time");
  }
  const access = crypto.randomBytes(12).toString("hex");
  accessTokens.add(access);
  return { access_token: access, expires_in: 3600, token_type: "Bearer" };
}

function bearer(request) {
  const [scheme, access] = (request.headers.authorization || "").split(" ");
  must(scheme === "Bearer" && accessTokens.has(access), "the access token is one of ours");
  return access;
}

function fcm(request, body) {
  const access = bearer(request);
  must(request.url === "/v1/projects/shop-1/messages:send", `the path is ${request.url}`);
  const { message } = JSON.parse(body);
  must(Object.values(message.data).every((it) => typeof it === "string"), "data are texts");
  must(body.length <= 4096 && /^[0-9]+s$/.test(message.android.ttl), "size and time to live");
  return { to: message.token, access, ...message };
}

function huawei(request, body) {
  const access = bearer(request);
  const { message, validate_only: dry } = JSON.parse(body);
  must(dry === false && message.token.length === 1, "one token");
  return { to: message.token[0], access, text: JSON.parse(message.data), android: message.android };
}

function xiaomi(request, body) {
  must(request.headers.authorization === "key=xiaomi-secret", "the app's secret");
  const form = Object.fromEntries(new URLSearchParams(body.toString()));
  must(form.restricted_package_name === "org.example.shop", "the app's package");
  return { to: form.registration_id, text: JSON.parse(form.payload), form };
}

// Apple: a token of the team's key, or the certificate of the app.
function apns(headers, body, files, socket) {
  const [, to] = /^\/3\/device\/([0-9a-f]+)$/.exec(headers[":path"]) || [];
  must(headers[":method"] === "POST" && to, `the path is ${headers[":path"]}`);
  const subject = socket.getPeerCertificate().subject;
  if (headers.authorization) {
    const [scheme, text] = headers.authorization.split(" ");
    const [header, claims] = token(text, "ES256", fs.readFileSync(files.signer));
    must(scheme === "bearer" && header.kid === "KEY1" && claims.iss === "TEAM1", "key and team");
    must(Math.abs(claims.iat - Date.now() / 1000) < 3600, `signed at ${claims.iat}`);
  } else {
    must(socket.authorized && subject.CN === "push", "neither a token nor a certificate");
  }
  must(headers["apns-topic"] === "org.example.shop", `the topic is ${headers["apns-topic"]}`);
  must(Buffer.byteLength(headers["apns-collapse-id"]) <= 64, "the collapse id is short");
  must(body.length <= 4096, `the payload has ${body.length} bytes`);
  const payload = JSON.parse(body);
  const type = headers["apns-push-type"];
  must((type === "alert") === Boolean(payload.aps.alert || payload.aps.badge), `the type is ${type}`);
  must(type !== "background" || headers["apns-priority"] === "5", "in the background it is 5");
  return { to, type, payload, priority: headers["apns-priority"], by: subject && subject.CN,
    expiration: Number(headers["apns-expiration"]), session: socket.remotePort };
}

function apple(files) {
  const [cert, key, ca] = [files.certificate, files.key, files.authority].map(
    (file) => file && fs.readFileSync(file));
  const service = http2.createSecureServer(
    { cert, key, ca, requestCert: Boolean(ca), rejectUnauthorized: false });
  service.on("stream", (stream, headers) => {
    const parts = [];
    stream.on("data", (part) => parts.push(part));
    stream.on("error", () => {});
    stream.on("end", () => {
      let answer = answers.shift() || { status: 200 };
      try {
        const what = apns(headers, Buffer.concat(parts), files, stream.session.socket);
        say({ kind: "apns", status: answer.hang ? "hangs" : answer.status, ...what });
      } catch (fault) {
        say({ fault: fault.stack });
        answer = { status: 400 };
      }
      if (answer.hang) return;
      if (answer.away) return void stream.session.destroy();
      stream.respond({ ":status": answer.status, ...answer.headers });
      stream.end(answer.body || "");
      if (answer.ends) stream.session.close();
    });
  });
  service.listen(0, "127.0.0.1", () => say({ apns: service.address().port }));
}

// What a path is, and the answer to a push that is accepted.
const SERVICES = [
  [/^\/push\//, "webpush", webPush, { status: 201 }],
  [/^\/v1\/projects\//, "fcm", fcm, { status: 200, body: '{"name": "projects/shop-1/messages/1"}' }],
  [/^\/v1\/10001\/messages:send$/, "huawei", huawei,
    { status: 200, body: '{"code": "80000000", "msg": "Success"}' }],
  [/^\/v3\/message\/regid$/, "xiaomi", xiaomi, { status: 200, body: '{"result": "ok", "code": 0}' }],
];

const server = http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const [body, port] = [Buffer.concat(parts), server.address().port];
    const isToken = /^\/token$|^\/oauth2\/v3\/token$/.test(request.url);
    let answer = (isToken ? tokenAnswers : answers).shift();
    try {
      if (isToken) {
        const granted = accessToken(request, body, port);
        say({ kind: "token", status: answer ? answer.status : 200 });
        answer = answer || { status: 200, body: JSON.stringify(granted) };
      } else {
        const [, kind, read, accepted] = SERVICES.find(([path]) => path.test(request.url)) || [];
        must(kind, `no service has the path ${request.url}`);
        const what = read(request, body, port);
        answer = answer || accepted;
        say({ kind, status: answer.hang ? "hangs" : answer.status, ...what });
      }
    } catch (fault) {
      say({ fault: fault.stack });
      answer = { status: 400 };
    }
    if (answer.forget) accessTokens.clear();
    if (answer.hang) return void hanging.add(response);
    response.writeHead(answer.status, answer.headers || {});
    response.end(answer.body || "");
  });
});

server.listen(0, "127.0.0.1", () => say({ port: server.address().port }));

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const order = JSON.parse(line);
  if (order.answers) answers.push(...order.answers);
  if (order.token_answers) tokenAnswers.push(...order.token_answers);
  if (order.release) {
    for (const response of hanging) response.writeHead(order.release).end();
    hanging.clear();
  }
  if (order.answers || order.token_answers || order.release) say({ done: true });
  if (order.apns) apple(order.apns);
  if (order.account) {
    const { publicKey, privateKey } = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 });
    const file = { type: "service_account", project_id: "shop-1", private_key_id: "key-1",
      private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
      client_email: "push@shop-1.example",
      token_uri: `http://127.0.0.1:${server.address().port}/token` };
    account = { publicKey, file };
    say(file);
  }
  if (order.subscribe) {
    const ecdh = crypto.createECDH("prime256v1");
    ecdh.generateKeys();
    const secret = crypto.randomBytes(16);
    subscribers.set(order.subscribe, { ecdh, secret });
    say({ endpoint: `http://127.0.0.1:${server.address().port}/push/${order.subscribe}`,
      expirationTime: null,
      keys: { p256dh: ecdh.getPublicKey("base64url"), auth: secret.toString("base64url") } });
  }
}).on("close", () => process.exit(0));
