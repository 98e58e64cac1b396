// The page: buttons, words, and where figures go.

import { Refused, TOTAL_MS, ask, measure, useKey } from "./measure.js";
import { short } from "./figures.js";
import { draw } from "./picture.js";
import { forget, keep, kept, own, sent } from "./history.js";
import { proof } from "./secret.js";
import { linkTo, pictureOf, shared } from "./share.js";

const at = (id) => document.getElementById(id);
const say = (text) => { at("status").textContent = text.slice(0, 1).toUpperCase() + text.slice(1); };
const PHASES = { idle: "Asking on the idle line …", download: "Downloading, and asking beside it …", upload: "Uploading, and asking beside it …" };

let nonce = null;
let shown = null;
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
    const body = JSON.stringify({ nonce, proof: proof(at("secret").value, location.host, nonce) });
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
  at("advice").hidden = true;
  at("share").hidden = true;
  at("drawn").hidden = false;
  for (const id of ["down", "up", "idle", "down-delay", "up-delay", "rpm"]) at(id).textContent = "–";
  for (const id of ["idle-peak", "down-peak", "up-peak"]) at(id).textContent = "";
  last = { seen: last.seen, phases: [] };
  say("Asking for a place …");
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
    at("progress").hidden = true;
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
  if (told.full) say(`Busy: others measure, as many as may at once (some may share this address). It asks again in ${told.full} seconds, by itself.`);
  if (told.phase) {
    last.phases.push({ name: told.phase, from: told.from, ms: told.ms });
    say(PHASES[told.phase]);
  }
  if (told.seen) {
    last.seen = told.seen;
    progress(told.seen);
    live(told.seen);
    draw(at("picture"), told.seen, last.phases);
  }
}

/** How far it is, and how long it takes still: what a queue takes to drain between two phases is not counted. */
function progress(seen) {
  const now = seen.down[seen.down.length - 1]?.ms ?? 0;
  const done = last.phases.reduce((sum, one) => sum + Math.min(one.ms, Math.max(0, now - one.from)), 0);
  at("bar").value = done / TOTAL_MS;
  at("left").textContent = `${Math.ceil((TOTAL_MS - done) / 1000)} s left`;
  at("progress").hidden = false;
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
  // The grade goes by what 95 of 100 took at most, and not by the median.
  for (const [id, p95, most] of [["idle-peak", null, result.idleMost], ["down-peak", result.downP95, result.downMost], ["up-peak", result.upP95, result.upMost]]) {
    const parts = [Number.isFinite(p95) ? `95 of 100: ${short(p95)}` : "", Number.isFinite(most) ? `peak ${short(most)}` : ""];
    at(id).textContent = parts.filter(Boolean).join(", ");
  }
  const { judged } = result;
  shown = result;
  at("verdict").className = judged.kind;
  at("grade").textContent = judged.grade ?? "?";
  at("verdict-head").textContent = judged.sentence;
  at("uses").replaceChildren(...judged.uses.map(({ use, outcome, means }) => {
    const item = document.createElement("li");
    item.className = outcome;
    const name = document.createElement("b");
    name.textContent = `${use.slice(0, 1).toUpperCase()}${use.slice(1)} ${outcome}`;
    item.append(name, ` ${means}`);
    return item;
  }));
  at("advice").hidden = !judged.mends;
  if (judged.line) {
    const { up, down } = judged.line;
    const part = (rate) => Number((Number(rate) * 0.9).toPrecision(2)).toString();
    command("plan", `quell shape plan --dev DEVICE --line ${up}/${down}`);
    command("recipe", `quell shape recipe --for openwrt --line ${up}/${down}`);
    at("limit-up").textContent = `${part(up)} Mbit/s`;
    at("limit-down").textContent = `${part(down)} Mbit/s`;
  }
  at("share").hidden = false;
  at("link").hidden = true;
  at("verdict").hidden = false;
  const count = (n, words) => (n === null ? "–" : `${n} ${words}`);
  at("more-figures").hidden = false;
  rows(at("more").tBodies[0], [
    ["95 of 100 requests took at most: downloading, uploading", `${[result.downP95, result.upP95].map(short).join(", ")} ms`],
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

/** A command to copy, of which no word is cut in two at the end of a line. */
function command(id, text) {
  at(id).replaceChildren(...text.split(" ").flatMap((word, n) => {
    const whole = document.createElement("span");
    whole.textContent = word;
    return n ? [" ", whole] : [whole];
  }));
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
  at("history-note").textContent = all.length ? "Mbit/s and ms. What this browser measured is kept in it; the server’s log has a line of each." : "Nothing yet. What you measure is kept in this browser; the server’s log has a line of each.";
  at("history").tBodies[0].replaceChildren(...all.map((one) => {
    const row = document.createElement("tr");
    const when = new Date(one.at);
    const time = Number.isNaN(when.getTime()) ? "–" : when.toLocaleString([], { dateStyle: "short", timeStyle: "short" });
    const cells = [one.from ? `${time} ${one.from}` : time, short(one.down), short(one.up), short(one.idle), short(one.loaded), one.grade ?? "–"];
    row.append(...cells.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return row;
  }));
}

/** A result that somebody shared is in the address itself. */
function showShared() {
  const result = shared(location.hash);
  if (!result) return false;
  show(result);
  say(`Shared: measured ${new Date(result.at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}.`);
  return true;
}

function shareLink() {
  const field = at("link");
  field.value = linkTo(shown);
  field.hidden = false;
  field.select();
  // Without TLS there is no other way to the clipboard; else it is there to be copied.
  const copied = document.execCommand("copy");
  say(copied ? "The link is copied. Who opens it sees these figures." : "Copy the link: who opens it sees these figures.");
}

async function sharePicture() {
  const file = await pictureOf(shown, short);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "quell.png";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say("The picture is saved.");
}

at("server").textContent = location.host;
at("ask").addEventListener("submit", enter);
at("start").addEventListener("click", start);
at("stop").addEventListener("click", () => running?.abort());
at("share-link").addEventListener("click", shareLink);
at("share-picture").addEventListener("click", () => sharePicture().catch(() => say("This browser can’t draw the picture.")));
at("clear").addEventListener("click", () => {
  forget();
  history().catch(() => {});
  say("Forgotten.");
  at("start").focus();
});
addEventListener("resize", () => draw(at("picture"), last.seen, last.phases));
// Who has pressed since hears of the test, and not behind that of the page, however late the server's greeting is.
const greet = (text) => { if (document.body.dataset.state === "ready") say(text); };
const wasShared = showShared();
hello().then((told) => { if (!told.secret && !wasShared) greet("Ready."); }).catch(() => greet("The server does not answer."));
document.body.dataset.state = "ready";
