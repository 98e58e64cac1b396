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

const OUTCOMES = ["works", "suffers", "breaks"];

/** How a use fares: 0 works, 1 suffers, 2 breaks. */
const outcome = (value, [works, breaks]) => (value >= breaks ? 2 : value >= works ? 1 : 0);

function listed(names) {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names.join("");
}

/** A to F, a sentence, and what it means for a call, a game and a page: the rule of Quell's crate `grade`, whose numbers (`uses`, `least_samples`) the
 *  server tells. Null of too few answers. */
export function assess({ idle, p50, p95, loss, samples, load }, rule) {
  if (samples < rule.least_samples || idle === null || p95 === null) return null;
  const added = Math.max(0, p95 - idle);
  const uses = rule.uses.map((one) => ({
    use: one.use,
    outcome: Math.max(outcome(added, one.added_ms), outcome(loss, one.loss)),
    cost: one.use === "page" ? Math.max(0, p50 - idle) * 10 : added,
  }));
  const [call, game, page] = uses.map((one) => one.outcome);
  const grade = call === 2 ? "F" : page > 0 ? "D" : call > 0 ? "C" : game > 0 ? "B" : "A";
  const those = (of, verb) => {
    const names = uses.filter((one) => one.outcome === of).map((one) => `${one.use}s`);
    return names.length ? [`${listed(names)} ${verb}`] : [];
  };
  const said = [...those(0, "work"), ...those(1, "suffer"), ...those(2, "break")].join(", ");
  const more = added < 1 ? "less than 1 ms added (p95)" : `${added.toFixed(added < 10 ? 1 : 0)} ms added (p95)`;
  const percent = loss > 0 && loss < 0.0005 ? "<0.1" : loss === 1 ? "100" : (loss * 100).toFixed(1);
  const lost = loss > 0 ? `, ${percent} % lost` : "";
  const beside = load ? ` ${load}` : "";
  return { grade, added, sentence: `${said.slice(0, 1).toUpperCase()}${said.slice(1)}${beside}: ${more}${lost}.`,
    uses: uses.map((one) => ({ ...one, outcome: OUTCOMES[one.outcome] })) };
}

/** The worse direction decides. Where one has too few answers, as behind a long queue, both are taken together. */
function worse(result, rule) {
  const of = (way, load) => ({ idle: result.idle, p50: result[`${way}Delay`], p95: result[`${way}P95`], loss: 0, samples: result[`${way}Count`], load });
  const ways = [assess(of("up", "beside a full upload"), rule), assess(of("down", "beside a full download"), rule)];
  if (ways.includes(null)) ways.push(assess(of("both", "beside a full line"), rule));
  return ways.filter(Boolean).sort((a, b) => b.added - a.added)[0] ?? null;
}

const COSTS = { call: "until the other hears", game: "until a move counts", page: "until a page is there" };

/** What it means for a person: a grade, a sentence, each use, and the line's rates as commands and settings want them. */
export function verdict(result, rule) {
  const { down, up } = result;
  const worst = worse(result, rule);
  const uses = (worst?.uses ?? []).map((one) => ({ ...one, means: `+${one.cost.toFixed(0)} ms ${COSTS[one.use]}` }));
  const line = up !== null && down !== null ? { up: lineRate(up), down: lineRate(down) } : null;
  if (!worst) return { grade: null, kind: "warn", sentence: "Too little came back to judge this line.", uses, line, mends: line !== null };
  const kind = worst.grade === "A" ? "good" : worst.grade === "D" || worst.grade === "F" ? "bad" : "warn";
  return { grade: worst.grade, kind, sentence: worst.sentence, uses, line, mends: line !== null && kind !== "good" };
}

/** Mbit/s as a line's rate is written. */
function lineRate(mbit) {
  return mbit >= 100 ? Math.round(mbit).toString() : Number(mbit.toPrecision(2)).toString();
}
