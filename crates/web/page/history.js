// What was measured before: in this browser alone, and what `quell flow HOST --web` sent to the server.

const NAME = "quell-history";
const MOST = 50;

export function kept() {
  try {
    const all = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return Array.isArray(all) ? all.filter((one) => one && Number.isFinite(one.at)).slice(-MOST) : [];
  } catch {
    return [];
  }
}

/** Keeps a result; whether the browser lets us. */
export function keep(result) {
  try {
    const { at, down, up, idle, downP95, upP95, rpm, judged } = result;
    const loaded = Math.max(...[downP95, upP95].filter(Number.isFinite), 0) || null;
    localStorage.setItem(NAME, JSON.stringify([...kept(), { at, down, up, idle, loaded, rpm, grade: judged.grade }].slice(-MOST)));
    return true;
  } catch {
    return false;
  }
}

export function forget() {
  try {
    localStorage.removeItem(NAME);
  } catch {
    // Then nothing was kept.
  }
}

/** A result of a command line, as a row. */
export function sent(one) {
  return { at: one.at_s * 1000, down: one.down_mbit, up: one.up_mbit, idle: one.idle_ms, loaded: one.loaded_ms, grade: null, from: `the command line: ${one.what}` };
}

/** A result of this browser, as a row. */
export function own(one) {
  return { at: one.at, down: one.down, up: one.up, idle: one.idle, loaded: one.loaded, grade: one.grade, from: "" };
}
