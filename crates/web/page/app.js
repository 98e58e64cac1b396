// The page: buttons, words, and where figures go.

import { Refused, ask, measure, useKey } from "./measure.js";
import { short, verdict } from "./figures.js";
import { draw } from "./picture.js";
import { forget, keep, kept, own, sent } from "./history.js";
import { proof } from "./secret.js";

const at = (id) => document.getElementById(id);
const say = (text) => { at("status").textContent = text.slice(0, 1).toUpperCase() + text.slice(1); };
const PHASES = { idle: "Asking on the idle line …", download: "Downloading, and asking beside it …", upload: "Uploading, and asking beside it …" };

let nonce = null;
let running = null;
let last = { seen: { looks: [], pings: [], fresh: [], down: [] }, phases: [] };

async function hello() {
  const told = await (await ask("/web/hello")).json();
  nonce = told.nonce;
  at("ask").hidden = !told.secret;
  at("start").disabled = told.secret || running !== null;
  if (told.secret) say("Type the secret to begin.");
  else await history();
  return told;
}

async function enter(event) {
  event.preventDefault();
  try {
    await hello();
    const body = JSON.stringify({ nonce, proof: proof(at("secret").value, nonce) });
    const { key } = await (await ask("/web/enter", { method: "POST", body })).json();
    useKey(key);
    at("secret").value = "";
    await hello();
    say("Ready.");
    at("start").focus();
  } catch (error) {
    say(error instanceof Refused ? `${error.message}.` : "The server does not answer.");
    at("secret").focus();
  }
}

/** Whether the focus is there and shown, as it is for who uses keys. */
const focused = (id) => at(id).matches(":focus-visible");

async function start() {
  if (running) return;
  let byKeys = focused("start");
  running = new AbortController();
  document.body.dataset.state = "running";
  at("start").disabled = true;
  at("stop").hidden = false;
  at("verdict").hidden = true;
  at("drawn").hidden = false;
  for (const id of ["down", "up", "idle", "down-delay", "up-delay", "rpm"]) at(id).textContent = "–";
  last = { seen: last.seen, phases: [] };
  say("Asking for a turn …");
  try {
    const result = await measure(hear, running.signal);
    show(result);
    const remembers = keep(result);
    say(remembers ? "Done." : "Done. This browser does not let the page remember it.");
    document.body.dataset.result = JSON.stringify(result);
    document.body.dataset.state = "done";
  } catch (error) {
    const stopped = running.signal.aborted;
    say(stopped ? "Stopped." : error instanceof Refused ? `${error.message}.` : "The connection to the server broke.");
    document.body.dataset.state = "failed";
    if (error.status === 401) hello().catch(() => {});
  } finally {
    running = null;
    byKeys ||= focused("stop");
    at("start").disabled = false;
    at("start").textContent = "Measure again";
    // Both buttons lose the focus, one by being off, the other by being gone: who has no mouse would begin at the top again.
    if (byKeys && [document.body, at("stop")].includes(document.activeElement)) at("start").focus({ preventScroll: true });
    at("stop").hidden = true;
    history().catch(() => {});
  }
}

function hear(told) {
  if (told.full) say(`Busy: as many wait as may, of this address (others may share it) or in all. It asks again in ${told.full} seconds, by itself.`);
  if (told.wait) say(told.wait > 1 ? `Busy: ${told.wait - 1} before you. It begins by itself.` : "Busy: you are next. It begins by itself.");
  if (told.phase) {
    last.phases.push({ name: told.phase, from: told.from, ms: told.ms });
    say(PHASES[told.phase]);
  }
  if (told.seen) {
    last.seen = told.seen;
    live(told.seen);
    draw(at("picture"), told.seen, last.phases);
  }
}

/** What can be told before the end. */
function live(seen) {
  const phase = last.phases[last.phases.length - 1]?.name;
  const ping = seen.pings[seen.pings.length - 1];
  const over = (list, key, time) => {
    const [a, b] = [list[list.length - 5], list[list.length - 1]];
    return a && b && b[time] > a[time] ? ((b[key] - a[key]) * 8) / (b[time] - a[time]) / 1000 : null;
  };
  if (phase === "idle" && ping) at("idle").textContent = short(ping.ms);
  if (phase === "download") {
    at("down").textContent = short(over(seen.down, "got", "ms"));
    if (ping) at("down-delay").textContent = short(ping.ms);
  }
  if (phase === "upload") {
    at("up").textContent = short(over(seen.looks, "up", "ms"));
    if (ping) at("up-delay").textContent = short(ping.ms);
  }
}

function show(result) {
  const figures = { down: result.down, up: result.up, idle: result.idle, "down-delay": result.downDelay, "up-delay": result.upDelay };
  for (const [id, value] of Object.entries(figures)) at(id).textContent = short(value);
  at("rpm").textContent = result.rpm === null ? "–" : String(Math.round(result.rpm));
  const judged = verdict(result);
  at("verdict").className = judged.kind;
  at("verdict-head").textContent = judged.head;
  at("verdict-why").textContent = judged.why;
  const fix = at("verdict-fix");
  fix.hidden = !judged.fix;
  if (judged.fix) {
    const code = document.createElement("code");
    code.textContent = judged.fix;
    fix.replaceChildren(code, " on the Linux router behind the modem shows what fixes that.");
  }
  at("verdict").hidden = false;
  const count = (n, words) => (n === null ? "–" : `${n} ${words}`);
  at("more-figures").hidden = false;
  rows(at("more").tBodies[0], [
    ["Longest delay: idle, downloading, uploading", `${[result.idleMost, result.downMost, result.upMost].map(short).join(", ")} ms`],
    ["Round trips a minute, downloading and uploading", [result.downRpm, result.upRpm].map((n) => (n === null ? "–" : Math.round(n))).join(" and ")],
    ["Least round-trip time that the server’s TCP saw", `${short(result.least)} ms`],
    ["TCP’s own round-trip time while downloading", `${short(result.tcpDown)} ms`],
    ["Sent again by the server while downloading", `${count(result.again, "segments")}${result.sent > 0 && result.again !== null ? `, about ${((100 * result.again * 1448) / result.sent).toFixed(2)} %` : ""}`],
    ["Came out of order while uploading", count(result.disordered, "segments")],
    ["Stalls of 0.4 s and more", String(result.stalls)],
    ["Requests that were timed", `${result.pings} on a kept connection, ${result.fresh} on new ones`],
    ["Lost packets", "not to be seen by a browser: see the words below"],
  ]);
}

function rows(body, all) {
  body.replaceChildren(...all.map(([name, value]) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    const cell = document.createElement("td");
    cell.textContent = value;
    row.append(head, cell);
    return row;
  }));
}

async function history() {
  const mine = kept();
  let theirs = [];
  try {
    theirs = await (await ask("/web/results")).json();
  } catch {
    // The page's own history is there without the server.
  }
  const all = [...mine.map(own), ...theirs.map(sent)].sort((a, b) => b.at - a.at).slice(0, 60);
  at("history").classList.toggle("full", all.length > 0);
  at("clear").hidden = mine.length === 0;
  at("history-note").textContent = all.length ? "Mbit/s and ms. What this browser measured is kept in it, and nowhere else." : "Nothing yet. What you measure is kept in this browser, and nowhere else.";
  at("history").tBodies[0].replaceChildren(...all.map((one) => {
    const row = document.createElement("tr");
    const when = new Date(one.at);
    const cells = [Number.isNaN(when.getTime()) ? "–" : when.toLocaleString([], { dateStyle: "short", timeStyle: "short" }),
      short(one.down), short(one.up), short(one.idle), short(one.loaded), one.rpm === null || one.rpm === undefined ? "–" : String(Math.round(one.rpm)), one.from];
    row.append(...cells.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return row;
  }));
}

at("server").textContent = location.host;
at("ask").addEventListener("submit", enter);
at("start").addEventListener("click", start);
at("stop").addEventListener("click", () => running?.abort());
at("clear").addEventListener("click", () => {
  forget();
  history().catch(() => {});
  say("Forgotten.");
  at("start").focus();
});
addEventListener("resize", () => draw(at("picture"), last.seen, last.phases));
// Who has pressed since hears of the test, and not behind that of the page, however late the server's greeting is.
const greet = (text) => { if (document.body.dataset.state === "ready") say(text); };
hello().then((told) => { if (!told.secret) greet("Ready."); }).catch(() => greet("The server does not answer."));
document.body.dataset.state = "ready";
