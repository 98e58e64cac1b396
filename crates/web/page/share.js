// A result to pass on: in a link, which has all of it behind the #, or as a picture that is drawn here. No server keeps it.

const NUMBERS = ["at", "down", "up", "idle", "idleMost", "downDelay", "upDelay", "downMost", "upMost", "downP95", "upP95", "rpm", "downRpm", "upRpm"];
const LONGEST = 4000;

export function linkTo(result) {
  const kept = Object.fromEntries(NUMBERS.map((name) => [name, result[name] === null ? null : Number(result[name]?.toPrecision(name === "at" ? 15 : 5))]));
  const { grade, kind, sentence, uses, line, mends } = result.judged;
  const text = JSON.stringify({ ...kept, judged: { grade, kind, sentence, uses: uses.map(({ use, outcome, means }) => ({ use, outcome, means })), line, mends } });
  const bytes = new TextEncoder().encode(text);
  const base64 = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `${location.origin}/#r=${base64}`;
}

/** The result behind the # of an address; null where there is none, or another thing. */
export function shared(hash) {
  const base64 = /^#r=([\w-]+)$/.exec(hash)?.[1];
  if (!base64 || base64.length > LONGEST) return null;
  try {
    const bytes = Uint8Array.from(atob(base64.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const { judged, ...told } = JSON.parse(new TextDecoder().decode(bytes));
    const result = Object.fromEntries(NUMBERS.map((name) => [name, Number.isFinite(told[name]) ? told[name] : null]));
    const word = (text) => String(text).slice(0, 200);
    const is = (text, all) => (all.includes(text) ? text : null);
    const uses = judged.uses.slice(0, 4).map((one) => ({ use: word(one.use), outcome: is(one.outcome, ["works", "suffers", "breaks"]) ?? "suffers", means: word(one.means) }));
    const line = judged.line ? { up: word(Number(judged.line.up)), down: word(Number(judged.line.down)) } : null;
    return { ...result, again: null, sent: null, disordered: null, stalls: 0, tcpDown: null, least: null, pings: 0, fresh: 0,
      judged: { grade: is(judged.grade, ["A", "B", "C", "D", "F"]), kind: is(judged.kind, ["good", "warn", "bad"]) ?? "warn", sentence: word(judged.sentence), uses, line, mends: Boolean(line && judged.mends) } };
  } catch {
    return null;
  }
}

const COLOURS = { good: "#0a6b3d", warn: "#8a5200", bad: "#a11224" };

/** A picture of 1200 by 630, as pages of messages show them. */
export function pictureOf(result, short) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [1200, 630];
  const c = canvas.getContext("2d");
  const write = (text, x, y, font, colour) => {
    c.font = `${font} system-ui, sans-serif`;
    c.fillStyle = colour;
    c.fillText(text, x, y);
  };
  c.fillStyle = "#ffffff";
  c.fillRect(0, 0, 1200, 630);
  c.fillStyle = COLOURS[result.judged.kind];
  c.fillRect(60, 60, 170, 170);
  c.textAlign = "center";
  write(result.judged.grade ?? "?", 145, 195, "bold 140px", "#ffffff");
  c.textAlign = "left";
  let row = "";
  let y = 105;
  for (const word of result.judged.sentence.split(" ")) {
    c.font = "bold 42px system-ui, sans-serif";
    if (row && c.measureText(`${row} ${word}`).width > 860) {
      write(row, 270, y, "bold 42px", "#17212b");
      [row, y] = ["", y + 54];
    }
    row = row ? `${row} ${word}` : word;
  }
  write(row, 270, y, "bold 42px", "#17212b");
  const figures = [["Download", result.down, "Mbit/s"], ["Upload", result.up, "Mbit/s"], ["Idle", result.idle, "ms"], ["Downloading", result.downP95, "ms"], ["Uploading", result.upP95, "ms"]];
  figures.forEach(([name, value, unit], n) => {
    const x = 60 + n * 220;
    write(name, x, 350, "28px", "#556270");
    write(short(value), x, 415, "bold 60px", "#17212b");
    write(unit, x, 455, "26px", "#556270");
  });
  const when = new Date(result.at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  write(`Delays: 95 of 100 took at most this. Measured ${when} with Quell.`, 60, 560, "26px", "#556270");
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no picture"))), "image/png"));
}
