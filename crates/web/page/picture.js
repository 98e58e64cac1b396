// Draws what is measured while it is measured: rates above, delays below, one time for both.

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 300;
const LEFT = 44;
const RIGHT = 8;
const TOP = { from: 26, to: 150 };
const BELOW = { from: 176, to: 276 };
const SECONDS = 21;

function element(name, attributes, text) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A round number not below this one. */
function round(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
}

/** The rates of a counter, a point a look. */
function steps(looks, key, time) {
  const points = [];
  for (let n = 2; n < looks.length; n += 1) {
    const [a, b] = [looks[n - 2], looks[n]];
    const seconds = (b[time] - a[time]) / 1000;
    if (seconds > 0) points.push({ x: b[time] / 1000, y: Math.max(0, ((b[key] - a[key]) * 8) / seconds / 1e6) });
  }
  return points;
}

/** Draws into `place`. */
export function draw(place, seen, phases) {
  if (!phases.length) return;
  const width = Math.max(300, Math.round(place.clientWidth || 340));
  const last = Math.max(seen.down.length ? seen.down[seen.down.length - 1].ms / 1000 : 0, SECONDS);
  const x = (seconds) => LEFT + (seconds / last) * (width - LEFT - RIGHT);
  const rates = { down: steps(seen.down, "got", "ms"), up: steps(seen.looks.map((l) => ({ at: l.here, up: l.up })), "up", "at") };
  const mostRate = round(Math.max(0.1, ...rates.down.map((p) => p.y), ...rates.up.map((p) => p.y)));
  const mostDelay = round(Math.max(1, ...seen.pings.map((p) => p.ms)));
  const y = (panel, part) => panel.to - Math.min(1, part) * (panel.to - panel.from);
  const svg = element("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": told(seen, phases, mostRate, mostDelay) });
  for (const [panel, most, unit] of [[TOP, mostRate, "Mbit/s"], [BELOW, mostDelay, "ms"]]) {
    for (const part of [0, 0.5, 1]) {
      const at = y(panel, part);
      svg.append(element("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      svg.append(element("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, String(Number((most * part).toPrecision(3)))));
    }
    svg.append(element("text", { x: 0, y: panel.from - 10 }, unit));
  }
  for (const phase of phases) {
    const at = x(phase.from / 1000);
    svg.append(element("line", { class: "phase", x1: at, x2: at, y1: TOP.from, y2: BELOW.to }));
    svg.append(element("text", { x: at + 4, y: TOP.from - 10 }, phase.name));
  }
  const seconds = width < 420 ? [0, 10, 20] : [0, 5, 10, 15, 20];
  for (const second of seconds) svg.append(element("text", { x: x(second), y: HEIGHT - 6, "text-anchor": second ? "middle" : "start" }, `${second} s`));
  for (const [name, points] of Object.entries(rates)) {
    const phase = phases.find((one) => one.name === (name === "down" ? "download" : "upload"));
    if (!phase) continue;
    const own = points.filter((p) => p.x * 1000 >= phase.from && p.x * 1000 <= phase.from + phase.ms + 600);
    if (own.length > 1) svg.append(element("polyline", { class: name, points: own.map((p) => `${x(p.x).toFixed(1)},${y(TOP, p.y / mostRate).toFixed(1)}`).join(" ") }));
  }
  for (const ping of seen.pings) svg.append(element("circle", { class: "dot", r: 2, cx: x(ping.at / 1000).toFixed(1), cy: y(BELOW, ping.ms / mostDelay).toFixed(1) }));
  place.replaceChildren(svg);
}

function told(seen, phases, rate, delay) {
  const now = phases.length ? phases[phases.length - 1].name : "nothing yet";
  return `Rates up to ${rate} Mbit/s and the delays of ${seen.pings.length} requests up to ${delay} ms, over time; last: ${now}. The figures stand above as text.`;
}
