// Which parts of a text are links.

import assert from "node:assert/strict";
import test from "node:test";
import { partsOf } from "../dist/links.js";

const links = (text) => partsOf(text).filter(({ url }) => url !== undefined).map((it) => it.text);

test("web addresses are links, and the parts together are the text", () => {
  for (const text of ["", "no link", "see https://a.example/x?y=1#z, and HTTP://B.example.",
    "（https://a.example/路径）", "https://a.example https://b.example\nhttps://c.example"]) {
    assert.equal(partsOf(text).map((it) => it.text).join(""), text);
  }
  assert.deepEqual(links("see https://a.example/x?y=1#z, and HTTP://B.example."),
    ["https://a.example/x?y=1#z", "HTTP://B.example"]);
  assert.deepEqual(links("请看https://a.example/x。好"), [], "part of a word");
  assert.deepEqual(links("请看 https://a.example/x。好"), ["https://a.example/x"]);
});

test("punctuation around a link is not part of it, and brackets within one are", () => {
  assert.deepEqual(links("(https://a.example/x)"), ["https://a.example/x"]);
  assert.deepEqual(links("https://a.example/x_(y)"), ["https://a.example/x_(y)"]);
  assert.deepEqual(links("**https://a.example/x**!?"), ["https://a.example/x"]);
});

test("nothing else is a link", () => {
  for (const text of ["javascript:alert(1)", "data:text/html,x", "ftp://a.example", "//a.example",
    "www.example.org", "https://", "http://[", "https://bank.example@evil.example/",
    "https://user:pass@a.example/", "xhttps://a.example", "file:///etc/passwd"]) {
    assert.deepEqual(links(text), [], text);
  }
  for (const { url } of partsOf("https://a.example/?q=<script>")) {
    assert.ok(url === undefined || /^https:\/\/a\.example\//.test(url));
  }
});
