// Figures of what was measured. Nothing here asks anybody or draws anything: numbers in, numbers and sentences out.

/** The value below which this share of the numbers lies; null of nothing. */
export function quantile(numbers, share) {
  const sorted = numbers.filter(Number.isFinite).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const at = (sorted.length - 1) * share;
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - below);
}

export const median = (numbers) => quantile(numbers, 0.5);

/** The mean of all but the longest twentieth, as draft-ietf-ippm-responsiveness has it. */
export function trimmedMean(numbers) {
  const sorted = numbers.filter(Number.isFinite).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const keep = Math.max(1, Math.floor(sorted.length * 0.95));
  return sorted.slice(0, keep).reduce((sum, n) => sum + n, 0) / keep;
}

/** Round trips a minute, by the draft's formula; null before each part has a figure. */
export function responsiveness({ tcp, tls, http, loaded }) {
  const parts = [trimmedMean(tcp), trimmedMean(http)];
  const overTls = trimmedMean(tls ?? []);
  if (overTls !== null) parts.push(overTls);
  const within = trimmedMean(loaded);
  if (parts.includes(null) || within === null) return null;
  const foreign = parts.reduce((sum, n) => sum + n, 0) / parts.length;
  return (60000 / Math.max(foreign, 0.001) + 60000 / Math.max(within, 0.001)) / 2;
}

/** Three digits. */
export function short(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size >= 100) return Math.round(number).toString();
  if (size >= 10) return number.toFixed(1);
  return number.toFixed(2);
}

/** Bits a second between two looks, in Mbit/s. */
export function rate(looks, key, from, to) {
  const within = looks.filter((look) => look.ms >= from && look.ms <= to);
  if (within.length < 2) return null;
  const first = within[0];
  const last = within[within.length - 1];
  const seconds = (last.ms - first.ms) / 1000;
  return seconds > 0 ? ((last[key] - first[key]) * 8) / seconds / 1e6 : null;
}

/** Times of at least 0.4 s in which nothing moved, between two moments. */
export function stalls(looks, key, from, to) {
  let count = 0;
  let since = null;
  let bytes = null;
  const within = looks.filter((look) => look.ms >= from && look.ms <= to);
  const over = (until) => since !== null && until - since >= 400;
  for (const look of within) {
    if (bytes === null || look[key] > bytes) {
      // From the look that saw the last bytes to the one that sees new ones something moved within.
      if (over(look.ms - 200)) count += 1;
      bytes = look[key];
      since = look.ms;
    }
  }
  const last = within[within.length - 1];
  return count + (last && over(last.ms) ? 1 : 0);
}

const BREAKS = 200;
const SUFFERS = 60;

/** What it means for a person: how bad, a sentence, why, and the command that mends it. */
export function verdict(result) {
  const { down, up, idle, downDelay, upDelay, rpm } = result;
  const added = (delay) => (delay === null || idle === null ? null : Math.max(0, delay - idle));
  const worse = { up: added(upDelay), down: added(downDelay) };
  const ways = [];
  if (worse.up !== null) ways.push({ word: "upload", ms: worse.up });
  if (worse.down !== null) ways.push({ word: "download", ms: worse.down });
  if (!ways.length) return { kind: "warn", head: "Too little came back to judge this line.", why: "No request was answered beside the load.", fix: null };
  ways.sort((a, b) => b.ms - a.ms);
  const worst = ways[0];
  const also = ways[1] && ways[1].ms >= SUFFERS ? `, and ${short(ways[1].ms)} ms more while you ${ways[1].word}` : "";
  const minute = rpm === null ? "" : ` ${Math.round(rpm)} round trips a minute: ${word(rpm)}.`;
  const line = up !== null && down !== null ? `${lineRate(up)}/${lineRate(down)}` : null;
  const fix = line === null ? null : `quell shape plan --dev DEVICE --line ${line}`;
  if (worst.ms >= BREAKS) {
    return { kind: "bad", head: `Calls will break while you ${worst.word}: ${short(worst.ms)} ms more${also}.`,
      why: `A small request takes ${short(idle)} ms on the idle line. The rest is a queue that the load fills.${minute}`, fix };
  }
  if (worst.ms >= SUFFERS) {
    return { kind: "warn", head: `Calls and games will feel it while you ${worst.word}: ${short(worst.ms)} ms more${also}.`,
      why: `A small request takes ${short(idle)} ms on the idle line. The rest is a queue that the load fills.${minute}`, fix };
  }
  return { kind: "good", head: `Calls stay good while the line is full: ${worst.ms < 1 ? "less than 1" : `at most ${short(worst.ms)}`} ms more.`,
    why: `A small request takes ${short(idle)} ms on the idle line.${minute}`, fix: null };
}

/** The draft's words for 1000 and 6000; below that a call suffers. */
export function word(rpm) {
  if (rpm >= 6000) return "excellent";
  if (rpm >= 1000) return "good";
  return rpm >= 300 ? "fair" : "poor";
}

/** Mbit/s as a line's rate is written. */
function lineRate(mbit) {
  return mbit >= 100 ? Math.round(mbit).toString() : Number(mbit.toPrecision(2)).toString();
}
