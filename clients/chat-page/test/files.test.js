// Sizes of files, as people read them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { sizeOf } from "../dist/files.js";

test("a size is told in the unit that fits", () => {
  for (const [bytes, told] of [[0, "0 B"], [1, "1 B"], [999, "999 B"], [1_000, "1.0 KB"],
    [48_213, "48.2 KB"], [123_456, "123 KB"], [5_000_000, "5.0 MB"], [2e9, "2.0 GB"]]) {
    assert.equal(sizeOf(bytes), told);
  }
});
