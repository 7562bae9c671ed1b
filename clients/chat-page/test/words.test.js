// What the page says, where it is and whom it writes to.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { OWN_WORDS } from "../dist/im/index.js";
import { roleName, sentenceOfChanges, sentenceOfRecall } from "../dist/changes.js";
import { GROUP_ROLES, GROUP_VERBS } from "../dist/im/group.js";
import { isName, namesOf, shortName, socketUrl, typedName, wholeName } from "../dist/place.js";
import { languageOf, sentenceOf, sentenceOfMembers, TEXTS, timeOf, wordOf } from "../dist/words.js";

const page = readFileSync(new URL("../public/chat.html", import.meta.url), "utf8");

test("the first language that there is is spoken, English without one", () => {
  assert.equal(languageOf(["", "de-DE", "zh-Hant-TW", "en"]), "zh");
  assert.equal(languageOf(["EN-gb", "zh"]), "en");
  assert.equal(languageOf(["de"]), "en");
  assert.equal(languageOf([]), "en");
});

test("every word of the page is there in both languages", () => {
  const named = [...page.matchAll(/data-(?:word|label|hint)="([^"]+)"/g)].map(([, name]) => name);
  assert.ok(named.length > 20);
  for (const name of named) {
    const [en, zh] = [wordOf("en", name), wordOf("zh", name)];
    assert.ok(en && zh && en !== zh, name);
  }
});

test("both languages have the same texts, and none is left in the other language", () => {
  for (const [at, en] of TEXTS.en.entries()) {
    const zh = TEXTS.zh[at];
    assert.deepEqual(Object.keys(zh), Object.keys(en));
    const same = Object.keys(en).filter((key) => en[key].trim() === "" || en[key] === zh[key]);
    assert.deepEqual(same, []);
    for (const [key, text] of Object.entries(zh)) assert.match(text, /\p{Script=Han}/u, key);
  }
  assert.deepEqual([1, 3].map((it) => sentenceOfMembers("en", it)), ["1 member", "3 members"]);
});

test("every change of a group is a sentence of its own, in both languages", () => {
  for (const language of ["en", "zh"]) {
    const of = (verb, members, title) =>
      sentenceOfChanges(language, "ann@x", [{ verb, members, title }], "me@x");
    const all = GROUP_VERBS.map((verb) => of(verb, ["bob@x"], "us"));
    assert.equal(new Set(all).size, GROUP_VERBS.length);
    assert.ok(all.every((it) => it.startsWith("ann ")));
    assert.ok(of("add", ["bob@x", "eve@y"], "").includes("eve@y"), "of another domain, whole");
    assert.ok(!of("create", ["ann@x"], "").includes("undefined"));
    assert.equal(new Set(GROUP_ROLES.map((it) => roleName(language, it))).size, 3);
  }
  const made = { verb: "create", members: ["ann@x", "bob@x", "carol@x"], title: "us" };
  const of = (account, ...changes) => sentenceOfChanges("en", "ann@x", changes, account);
  assert.equal(of("me@x", made), "ann created the group “us” with bob, carol");
  assert.equal(of("ann@x", made), "You created the group “us” with bob, carol");
  assert.equal(of("bob@x", made), "ann created the group “us” with you, carol");
  const removed = { verb: "remove", members: ["bob@x"], title: "" };
  assert.equal(of("bob@x", removed), "ann removed you");
  assert.equal(sentenceOfChanges("zh", "ann@x", [removed], "bob@x"), "ann 移除了 你");
  const renamed = { verb: "rename", members: [], title: "Tea" };
  assert.equal(of("ann@x", renamed, removed), "You renamed the group to “Tea”; you removed bob");
  assert.equal(sentenceOfChanges("zh", "ann@x", [removed, renamed], "bob@x"),
    "ann 移除了 你；ann 将群组改名为 “Tea”");
  assert.equal(sentenceOfRecall("en", "ann@x", "ann@x"), "You deleted a message");
});

test("names are parted by what people part them by", () => {
  assert.deepEqual(namesOf(" Bob,carol@x.org  dave；eve "), ["bob", "carol@x.org", "dave", "eve"]);
  for (const text of ["", " , ", "bob, c/d", "bob carol@"]) assert.equal(namesOf(text), undefined);
});

test("what went wrong is a sentence, also when nobody knows it", () => {
  for (const language of ["en", "zh"]) {
    const known = sentenceOf(language, "bad_credentials");
    assert.ok(known.length > 5 && !known.includes("bad_credentials"));
    for (const word of ["unheard_of", "toString", "__proto__"]) {
      assert.ok(sentenceOf(language, word).includes(`(${word})`));
    }
  }
  for (const word of ["insecure", "unreachable", "queue_full", "server_not_proved"]) {
    assert.ok(word in OWN_WORDS && !sentenceOf("en", word).includes(word));
  }
});

test("a time of today is a time, an older one has its day", () => {
  const now = new Date(2026, 4, 3, 15, 30).getTime();
  assert.equal(timeOf("en", now, now), "15:30");
  assert.match(timeOf("en", now - 86_400_000, now), /^2 May,? 15:30$/);
  assert.match(timeOf("zh", now - 86_400_000, now), /5月2日.*15:30/);
});

test("the socket is where the page is", () => {
  assert.equal(socketUrl("http://localhost:7007/chat"), "ws://localhost:7007/im");
  assert.equal(socketUrl("https://a.example/chat/?x#y"), "wss://a.example/im");
});

test("names are taken as they are meant, and addresses shown as short as they can be", () => {
  assert.equal(typedName("  Bob \n"), "bob");
  assert.equal(wholeName("bob", "x"), "bob@x");
  assert.equal(wholeName("bob@y", "x"), "bob@y");
  assert.equal(shortName("bob@x", "x"), "bob");
  assert.equal(shortName("bob@y", "x"), "bob@y");
  assert.equal(shortName("@x", "x"), "@x");
  for (const name of ["bob", "a.b_c+d-1", "bob@host.example"]) assert.ok(isName(name), name);
  for (const name of ["", "Bob", "a b", "@x", "bob@", "a@b@c", "ü", "a".repeat(65)]) {
    assert.ok(!isName(name), name);
  }
});

test("the page asks nobody else for anything and has no script of its own", () => {
  const asked = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => url);
  assert.deepEqual(asked.filter((url) => !url.startsWith("/chat/")), []);
  assert.ok(!/<script(?![^>]* src=)/.test(page) && !/\son[a-z]+=/.test(page));
  assert.ok(!/ style=|<style/.test(page), "the policy would not let it");
});
