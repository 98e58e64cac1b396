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
    const { at, down, up, idle, downDelay, upDelay, rpm } = result;
    localStorage.setItem(NAME, JSON.stringify([...kept(), { at, down, up, idle, downDelay, upDelay, rpm }].slice(-MOST)));
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
  return { at: one.at_s * 1000, down: one.down_mbit, up: one.up_mbit, idle: one.idle_ms, loaded: one.loaded_ms, rpm: null, from: `the command line: ${one.what}` };
}

/** A result of this browser, as a row. */
export function own(one) {
  const delays = [one.downDelay, one.upDelay].filter(Number.isFinite);
  return { at: one.at, down: one.down, up: one.up, idle: one.idle, loaded: delays.length ? Math.max(...delays) : null, rpm: one.rpm, from: "this browser" };
}
