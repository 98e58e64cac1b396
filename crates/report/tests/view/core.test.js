// Tests of core.js; `node --test` runs them.
"use strict";
const { test } = require("node:test");
const assert = require("node:assert/strict");
const core = require("../../src/view/core.js");

function series(count, value) {
  const t = Float64Array.from({ length: count }, (_, i) => i * 1e6);
  const y = Float64Array.from({ length: count }, (_, i) => value(i));
  return { t, y, pyramid: new core.Pyramid(y), shown: (i) => y[i] };
}

test("columns of numbers come out as they went in", () => {
  assert.deepEqual([...core.column([0, null, 9007199254740991, -1.5])], [0, NaN, 9007199254740991, -1.5]);
  assert.deepEqual([...core.times([-5e9, 10, 4000000000])], [-5e9, -4999999990, -999999990]);
});

test("the pyramid knows the extremes of every stretch", () => {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const values = Float64Array.from({ length: 5003 }, () => (random() < 0.1 ? NaN : random()));
  const pyramid = new core.Pyramid(values);
  for (let round = 0; round < 2000; round++) {
    const from = Math.floor(random() * 5003);
    const to = from + Math.floor(random() * (5004 - from));
    const some = [...values.slice(from, to)].filter((v) => !Number.isNaN(v));
    const expected = [Math.min(...some), Math.max(...some)];
    assert.deepEqual(pyramid.range(from, to), expected, `${from}..${to}`);
  }
  assert.deepEqual(pyramid.range(9, 9), [Infinity, -Infinity]);
});

test("one spike among a million is drawn, whatever the width", () => {
  const s = series(1_000_000, (i) => (i === 654321 ? 99 : 1));
  for (const width of [200, 333, 1280]) {
    const picked = core.pick(s, 0, 1e12, width);
    assert.equal(picked.single, false);
    assert.ok(picked.columns.length <= width);
    assert.equal(Math.max(...picked.columns.map((c) => c.most)), 99);
    const spiked = picked.columns.filter((c) => c.most === 99);
    assert.equal(spiked.length, 1);
    assert.equal(spiked[0].x, Math.floor(0.654321 * width));
  }
});

test("every packet is in one column, and no column shares one", () => {
  const s = series(100_000, (i) => i % 17);
  const picked = core.pick(s, 0, 99_999e6, 700);
  let next = 0;
  for (const column of picked.columns) {
    assert.equal(column.from, next);
    next = column.to;
  }
  assert.equal(next, 99_999);
});

test("columns of nothing but losses are left out", () => {
  const s = series(10_000, (i) => (i >= 3000 && i < 5000 ? NaN : i));
  const picked = core.pick(s, 0, 1e10, 1000);
  assert.ok(picked.columns.every((c) => c.x < 300 || c.x >= 500));
  assert.equal(picked.columns.length, 800);
});

test("close up there are packets, with one more at either side so that lines reach the edge", () => {
  const s = series(1_000_000, (i) => i);
  assert.deepEqual(core.pick(s, 500e6, 520e6, 1000), { single: true, from: 499, to: 521 });
});

test("zooming keeps the place under the pointer and stays within the whole", () => {
  const all = [0, 1000];
  assert.deepEqual(core.zoom([0, 1000], 250, 0.5, all, 1), [125, 625]);
  assert.deepEqual(core.zoom([125, 625], 250, 2, all, 1), [0, 1000]);
  assert.deepEqual(core.zoom([0, 100], 0, 3, all, 1), [0, 300]);
  assert.deepEqual(core.zoom([900, 1000], 1000, 3, all, 1), [700, 1000]);
  const closest = core.zoom([500, 502], 501, 0.01, all, 1);
  assert.ok(Math.abs(closest[1] - closest[0] - 1) < 1e-9);
  // In and out again by the wheel ends where it began.
  let range = [300, 400];
  for (let i = 0; i < 9; i++) range = core.zoom(range, 333, 0.8, all, 1e-3);
  for (let i = 0; i < 9; i++) range = core.zoom(range, 333, 1.25, all, 1e-3);
  assert.ok(Math.abs(range[0] - 300) < 1e-6 && Math.abs(range[1] - 400) < 1e-6);
});

test("moving stops at the ends", () => {
  assert.deepEqual(core.pan([10, 20], -50, [0, 100]), [0, 10]);
  assert.deepEqual(core.pan([10, 20], 85, [0, 100]), [90, 100]);
  assert.deepEqual(core.pan([10, 20], 5, [0, 100]), [15, 25]);
});

test("the nearest packet is found, not the nearest in time alone", () => {
  const s = series(100, (i) => (i === 50 ? 10 : 100));
  const px = (t) => t / 1e6;
  const py = (y) => y;
  const time = (x) => x * 1e6;
  assert.equal(core.nearest(s, 52, 10, 8, px, py, time), 50);
  assert.equal(core.nearest(s, 52, 100, 8, px, py, time), 52);
  assert.equal(core.nearest(s, 52, 50, 8, px, py, time), -1);
});

test("ticks are round and lie within", () => {
  assert.deepEqual(core.ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(core.ticks(0.03, 0.11, 4).map((v) => v.toFixed(2)), ["0.04", "0.06", "0.08", "0.10"]);
  assert.deepEqual(core.ticks(5, 5, 4), [5]);
  assert.deepEqual(core.logTicks(0.9, 120, 9), [1, 2, 5, 10, 20, 50, 100]);
  assert.deepEqual(core.logTicks(1, 1e6, 4), [1, 100, 10000, 1e6]);
  assert.equal(core.text(0.30000000000000004, 0.1), "0.3");
  assert.equal(core.text(-0, 1), "0");
});
