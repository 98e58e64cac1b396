// Measures: requests to this server and nobody else.
//
//   control  one long answer: what the server sees, line by line; when it ends, so does the test
//   load     three connections down, or up
//   probes   one kept connection, and one after the other a new one

import { median, quantile, rate, responsiveness, stalls, verdict } from "./figures.js";

const IDLE_MS = 3000;
const LOAD_MS = 8000;
const RAMP_MS = 2000;
/** All phases together. */
export const TOTAL_MS = IDLE_MS + 2 * LOAD_MS;
const LOADERS = 3;
const PING_MS = 100;
const FRESH_MS = 200;
const BLOCK = 1 << 20;
// Longest that it asks for a place.
const PATIENCE_MS = 600_000;

/** The server can't or won't now; its words. */
export class Refused extends Error {}

let key = "1";
export function useKey(given) { key = given; }

export async function ask(path, options = {}) {
  const answer = await fetch(path, { cache: "no-store", ...options, headers: { "X-Quell": key, ...(options.headers ?? {}) } });
  if (!answer.ok) {
    const error = new Refused((await answer.text()).trim().slice(0, 300) || `the server answers ${answer.status}`);
    error.status = answer.status;
    error.again = Number(answer.headers.get("Retry-After")) || 0;
    throw error;
  }
  return answer;
}

/** Measures everything, and judges it by the rule that the server names. `tell` hears of what happens; `signal` ends it. */
export async function measure(tell, signal) {
  const end = new AbortController();
  const stop = () => end.abort();
  signal.addEventListener("abort", stop);
  try {
    return await within(end, tell);
  } finally {
    end.abort();
    signal.removeEventListener("abort", stop);
  }
}

async function within(end, tell) {
  const seen = { looks: [], pings: [], fresh: [], down: [], got: 0, began: 0 };
  const control = await listen(end, tell, seen);
  performance.setResourceTimingBufferSize(10000);
  performance.clearResourceTimings();
  // The first requests open their connections.
  await once(`/web/ping?n=first`, end.signal);
  seen.began = performance.now();
  const probing = probes(end.signal, seen);
  const phase = async (name, ms, load) => {
    const from = performance.now() - seen.began;
    tell({ phase: name, from, ms });
    const own = new AbortController();
    const both = AbortSignal.any([own.signal, end.signal]);
    const loads = load ? Array.from({ length: LOADERS }, () => load(control.test, both, seen)) : [];
    const trouble = Promise.race(loads.length ? loads.map((one) => one.then(() => { throw new Refused("the server ended the test: its time is up, or others came"); })) : [new Promise(() => {})]);
    trouble.catch(() => {});
    await Promise.race([pause(ms, end.signal), control.ended, trouble]);
    own.abort();
    await Promise.allSettled(loads);
    return { from, to: performance.now() - seen.began };
  };
  const ticking = setInterval(() => {
    seen.down.push({ ms: performance.now() - seen.began, got: seen.got });
    tell({ seen });
  }, 250);
  try {
    const idle = await phase("idle", IDLE_MS, null);
    const down = await phase("download", LOAD_MS, download);
    await drained(seen, down, end.signal);
    const up = await phase("upload", LOAD_MS, upload);
    const result = sum(seen, { idle, down, up });
    result.judged = verdict(result, control.rule);
    await report(control.test, result, end.signal);
    return result;
  } finally {
    clearInterval(ticking);
    end.abort();
    await probing;
  }
}

/** The server's log has what was measured. */
async function report(test, result, signal) {
  const { grade, sentence } = result.judged;
  const delays = [result.upP95, result.downP95].filter(Number.isFinite);
  const body = JSON.stringify({
    at_s: Math.floor(result.at / 1000), program: "a browser", what: grade ? `${grade}: ${sentence}` : sentence,
    up_mbit: result.up, down_mbit: result.down, idle_ms: result.idle, loaded_ms: delays.length ? Math.max(...delays) : null, loss_percent: null,
  });
  // Where it is not heard the figures are the same.
  await ask(`/web/measured?t=${test}`, { method: "POST", body, signal }).catch(() => {});
}

/** The load's last packets leave the queue before the next begins. */
async function drained(seen, load, signal) {
  const idle = median(seen.pings.filter((p) => p.at < load.from).map((p) => p.ms)) ?? 10;
  const until = performance.now() + 2000;
  while (performance.now() < until) {
    await pause(200, signal);
    const last = seen.pings[seen.pings.length - 1];
    if (last && last.at > load.to + 100 && last.ms < idle * 2 + 10) return;
  }
}

function sum(seen, { idle, down, up }) {
  const inside = (list, from, to, field) => list.filter((p) => p.at >= from && p.at < to).map((p) => p[field]).filter(Number.isFinite);
  const loaded = (load) => ({ from: load.from + RAMP_MS, to: load.to });
  const [d, u] = [loaded(down), loaded(up)];
  const idles = inside(seen.pings, idle.from, idle.to, "ms");
  const looks = seen.looks;
  const minute = (span, within) => responsiveness({
    tcp: inside(seen.fresh, span.from, span.to, "tcp"), tls: inside(seen.fresh, span.from, span.to, "tls"),
    http: inside(seen.fresh, span.from, span.to, "http"), loaded: within,
  });
  const downPings = inside(seen.pings, d.from, d.to, "ms");
  const upPings = inside(seen.pings, u.from, u.to, "ms");
  const bothPings = [...downPings, ...upPings];
  const server = (span, field) => inside(looks.map((look) => ({ at: look.here, v: look[field] })), span.from, span.to, "v");
  const inDown = server(d, "rtt");
  const before = lookAt(looks, down.from);
  const between = lookAt(looks, down.to);
  const after = lookAt(looks, up.to);
  const downRpm = minute(d, inDown.length ? inDown : downPings);
  const upRpm = minute(u, upPings);
  const known = [downRpm, upRpm].filter((n) => n !== null);
  const spanOf = (span) => [serverTime(looks, span.from), serverTime(looks, span.to)];
  return {
    at: Date.now(),
    down: rate(seen.down.map((look) => ({ ms: look.ms, got: look.got })), "got", d.from, d.to),
    up: rate(looks, "up", ...spanOf(u)),
    idle: median(idles), downDelay: median(downPings), upDelay: median(upPings), bothDelay: median(bothPings),
    downP95: quantile(downPings, 0.95), upP95: quantile(upPings, 0.95), bothP95: quantile(bothPings, 0.95),
    downCount: downPings.length, upCount: upPings.length, bothCount: bothPings.length,
    idleMost: Math.max(...idles, 0) || null,
    downMost: downPings.length ? Math.max(...downPings) : null,
    upMost: upPings.length ? Math.max(...upPings) : null,
    rpm: known.length ? Math.min(...known) : null, downRpm, upRpm,
    again: between && before ? between.again - before.again : null,
    sent: between && before ? between.down - before.down : null,
    disordered: after && between ? after.disordered - between.disordered : null,
    stalls: stalls(looks, "down", ...spanOf(d)) + stalls(looks, "up", ...spanOf(u)),
    tcpDown: median(inDown), least: looks.reduce((least, look) => (look.least !== null && (least === null || look.least < least) ? look.least : least), null),
    pings: seen.pings.length, fresh: seen.fresh.length,
  };
}

function lookAt(looks, ms) {
  let found = null;
  for (const look of looks) if (look.here <= ms || found === null) found = look;
  return found;
}

/** The server's clock at a moment of ours: looks come a queue's length late, and carry the server's own time. */
function serverTime(looks, ms) {
  const offsets = looks.map((look) => look.here - look.ms);
  return ms - Math.min(...offsets);
}

/** A place. Where there is none, of this address perhaps, which others may share, it asks again until there is one. */
async function place(end, tell) {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await ask("/web/test", { signal: end.signal });
    } catch (error) {
      if (error.status !== 503 || !error.again || performance.now() > until) throw error;
      tell({ full: error.again });
      await pause(error.again * 1000, end.signal);
    }
  }
}

/** The control connection: the test's number and the grade's rule first, then what the server sees. */
async function listen(end, tell, seen) {
  const answer = await place(end, tell);
  const lines = linesOf(answer.body.getReader());
  const { value, done } = await lines.next();
  if (done) throw new Refused("the server is busy; try again in a moment");
  const { test, ...rule } = value;
  const ended = (async () => {
    for await (const look of lines) if (seen.began) seen.looks.push({ ...look, here: performance.now() - seen.began });
    throw new Refused("the server ended the test");
  })();
  ended.catch(() => end.abort());
  return { test, rule, ended };
}

async function* linesOf(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    if (text.length > 100000) return;
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

async function download(test, signal, seen) {
  const answer = await ask(`/web/down?t=${test}`, { signal });
  const reader = answer.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    seen.got += value.length;
  }
}

let block = null;
function bytes(size) {
  if (!block) {
    const noise = new Uint8Array(BLOCK);
    for (let at = 0; at < BLOCK; at += 65536) crypto.getRandomValues(noise.subarray(at, at + 65536));
    block = new Blob([noise]);
  }
  return new Blob(Array.from({ length: Math.ceil(size / BLOCK) }, () => block)).slice(0, size);
}

async function upload(test, signal) {
  let size = 256 << 10;
  for (;;) {
    const began = performance.now();
    await ask(`/web/up?t=${test}`, { method: "POST", body: bytes(size), signal, headers: { "Content-Type": "application/octet-stream" } });
    const took = Math.max(performance.now() - began, 1);
    // About a second each: long enough to fill a line, short enough to stop.
    size = Math.round(Math.min(Math.max((size / took) * 1000, 128 << 10, size / 2), 48 << 20, size * 4));
  }
}

/** One request; its times, as the browser's network has them, without the page's own work. */
async function once(path, signal, options = {}) {
  const answer = await ask(path, { signal, ...options });
  await answer.arrayBuffer();
  const name = new URL(path, location.href).href;
  let entries = performance.getEntriesByName(name, "resource");
  // It is written down a moment after the answer is there.
  for (let tries = 0; !entries.length && tries < 5; tries += 1) {
    await new Promise((done) => setTimeout(done, 0));
    entries = performance.getEntriesByName(name, "resource");
  }
  return entries[entries.length - 1] ?? null;
}

async function probes(signal, seen) {
  let number = 0;
  const since = () => performance.now() - seen.began;
  const series = async (path, gap, options, keep) => {
    while (!signal.aborted) {
      const at = since();
      const begun = performance.now();
      number += 1;
      try {
        const entry = await once(`${path}?n=${number}`, signal, options);
        if (entry && entry.requestStart > 0) keep(at, entry);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused) return;
      }
      await pause(Math.max(0, gap - (performance.now() - begun)), signal).catch(() => {});
    }
  };
  await Promise.all([
    series("/web/ping", PING_MS, {}, (at, entry) => {
      const ms = entry.responseStart - entry.requestStart;
      if (ms > 0) seen.pings.push({ at: at + ms, ms });
    }),
    // Without credentials, of which there are none, a browser keeps it apart from the connections that stand: none of those is taken for it.
    series("/web/fresh", FRESH_MS, { credentials: "omit" }, (at, entry) => {
      const http = entry.responseStart - entry.requestStart;
      const secure = entry.secureConnectionStart;
      let tcp = (secure > 0 ? secure : entry.connectEnd) - entry.connectStart;
      const tls = secure > 0 ? entry.connectEnd - secure : NaN;
      if (tcp <= 0) {
        // Below the browser's clock, where all is quick; elsewhere the browser had opened it beforehand, and its handshake is unknown.
        if (http >= 1) return;
        tcp = 0.05;
      }
      seen.fresh.push({ at, tcp, tls, http: Math.max(http, 0.05) });
    }),
  ]);
}

function pause(ms, signal) {
  return new Promise((done, failed) => {
    const timer = setTimeout(over, ms);
    function over() {
      signal.removeEventListener("abort", stopped);
      done();
    }
    function stopped() {
      clearTimeout(timer);
      failed(new DOMException("stopped", "AbortError"));
    }
    if (signal.aborted) stopped();
    else signal.addEventListener("abort", stopped, { once: true });
  });
}
