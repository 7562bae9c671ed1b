// Files: the note of a message, and an upload.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FILE, fileExtra, fileOf, isPicture, putFile } from "../dist/file.js";
import { browser, flushed } from "./fakes.js";

const NOTE = {
  url: "https://a.example/media/x/cat.png?k=v",
  name: "cat: a picture.png",
  type: "image/png",
  bytes: 48_213,
  width: 800,
  height: 600,
  blurhash: "LEHV6nWB2yk8pyo0adR*.7kCMdnj",
};

const of = (text) => fileOf({ kind: FILE, extra: new TextEncoder().encode(text) });

test("a note is read as it was written, and what is not known is skipped", () => {
  assert.deepEqual(fileOf({ kind: FILE, extra: fileExtra(NOTE) }), NOTE);
  const bare = { ...NOTE, name: "", type: "", bytes: 0, width: 0, height: 0, blurhash: "" };
  assert.deepEqual(fileOf({ kind: FILE, extra: fileExtra(bare) }), bare);
  const url = "http://a/b";
  assert.equal(of(`later: more\nurl: ${url}\nbytes: many\nsize: 1\n\n<message/>`).url, url);
  assert.equal(of(`url: ${url}\n\nname: not of the note`).name, "");
  assert.equal(fileOf({ kind: 1, extra: fileExtra(NOTE) }), undefined);
});

test("an address that is none makes no file", () => {
  const long = `http://a/${"x".repeat(4_096)}`;
  for (const bad of ["", "name: x", "url: javascript:alert(1)", "url: https://", "url: http://a b",
    "url: data:image/png;base64,x", "url: http://a/\"><p>", `url: ${long}`]) {
    assert.equal(of(bad), undefined, bad.slice(0, 40));
  }
});

test("a line end in a name makes no line", () => {
  const note = { ...NOTE, name: "x\nurl: http://evil/" };
  assert.equal(fileOf({ kind: FILE, extra: fileExtra(note) }).url, NOTE.url);
});

test("only pictures that run nothing are pictures", () => {
  assert.ok(isPicture("image/PNG") && isPicture("image/webp"));
  assert.ok(!isPicture("image/svg+xml") && !isPicture("text/html") && !isPicture(""));
});

/** A request whose other end is the test. */
class FakeRequest {
  status = 0;
  upload = { onprogress: null };
  said = [];
  open(method, url) { this.said.push(method, url); }
  setRequestHeader(name, value) { this.said.push(`${name}: ${value}`); }
  send(body) { this.body = body; }
  abort() { this.onabort(); }
  answers(status) {
    this.status = status;
    this.onload();
  }
}

const SLOT = { putUrl: "https://a/put", headers: [["Content-Type", "image/png"]], getUrl: "x" };

test("a file is put with its headers, and tells how far it is", async () => {
  const [request, file, seen] = [new FakeRequest(), new Blob(["0123456789"]), []];
  const put = putFile(SLOT, file, { request, onProgress: (...how) => seen.push(how) });
  assert.deepEqual(request.said, ["PUT", "https://a/put", "Content-Type: image/png"]);
  assert.equal(request.body, file);
  request.upload.onprogress({ loaded: 4 });
  request.upload.onprogress({ loaded: 99 });
  request.answers(201);
  await put;
  assert.deepEqual(seen, [[4, 10], [10, 10]]);
});

test("what goes wrong is told by its word, and an upload can be given up", async () => {
  const file = new Blob(["x"]);
  for (const [happens, code] of [
    [(request) => request.answers(403), "upload_failed"],
    [(request) => request.onerror(), "upload_failed"],
    [(_, gone) => gone.abort(), "aborted"],
  ]) {
    const [request, gone] = [new FakeRequest(), new AbortController()];
    const put = putFile(SLOT, file, { request, signal: gone.signal });
    happens(request, gone);
    await assert.rejects(put, { code });
  }
  const request = new FakeRequest();
  const put = putFile(SLOT, file, { request, signal: AbortSignal.abort() });
  await assert.rejects(put, { code: "aborted" });
  assert.deepEqual(request.said, [], "nothing was sent");
});

test("a client asks where to, puts the file there, and sends where it is", async () => {
  const request = new FakeRequest();
  const { client, socket } = browser({ uploadRequest: function () { return request; } });
  assert.equal(client.fileBytesMax, 0, "nobody is there");
  await assert.rejects(client.upload(new Blob(["x"])), { code: "disconnected" });
  client.connect();
  await socket().letsIn({ file_bytes_max: 1_000n, text_bytes_max: 99, extra_bytes_max: 999 });
  assert.equal(client.fileBytesMax, 1_000);
  const file = new Blob(["0123456789"], { type: "image/png;x=y" });
  const upload = client.upload(file, { name: "cat.png" });
  const { number, ...asked } = socket().frames.at(-1).fields;
  assert.deepEqual(asked, { name: "cat.png", type: "image/png", bytes: 10n });
  const headers = [{ name: "Content-Type", value: "image/png" }];
  const urls = { put_url: "https://a/put", get_url: "https://a/get" };
  socket().says("upload", { number, headers, ...urls, put_until_ms: 1n, get_until_ms: 2n });
  await flushed();
  request.answers(201);
  const note = await upload;
  assert.deepEqual([note.url, note.name, note.bytes], ["https://a/get", "cat.png", 10]);
  client.sendFile("bob", { ...note, width: 3, height: 4 }, "a cat");
  const { content } = socket().frames.at(-1).fields;
  assert.deepEqual([content.kind, content.text], [FILE, "a cat"]);
  assert.deepEqual(fileOf(content), { ...note, width: 3, height: 4 });
});

test("a file that the server refuses is not put", async () => {
  const { client, socket } = browser({ uploadRequest: function () { throw new Error("no"); } });
  client.connect();
  await socket().letsIn();
  for (const [fault, code] of [[47, "media_off"], [48, "type_refused"], [49, "upload_quota"]]) {
    const upload = client.upload(new Blob(["x"]), { name: "x" });
    socket().says("failed", { number: socket().frames.at(-1).fields.number, fault, word: code });
    await assert.rejects(upload, { code });
  }
});
