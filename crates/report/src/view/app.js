// The zoomable picture of a run: draws the series of one measurement, or of two over each other, and follows pointer, wheel and keys.
"use strict";
(async () => {
  const core = QuellCore;
  const element = (id) => document.getElementById(id);
  if (!window.DecompressionStream) return (element("readout").textContent = "This browser is older than 2023 and can't unpack the packets.");
  const packed = new Blob([Uint8Array.from(atob(element("packets").textContent), (c) => c.charCodeAt(0))]);
  const doc = await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).json();
  const canvas = element("canvas");
  const pen = canvas.getContext("2d");
  const STATUS = doc.statuses;
  // What a reader is told of a packet that was not simply answered.
  const WORDS = {
    lost: "lost", "lost-up": "lost on the way there", "lost-down": "lost on the way back", late: "answered late", duplicate: "a further reply",
    unfinished: "the measurement was over before its answer was due", unsure: "lost or not: nobody knows", "not-sent": "not sent",
    error: "answered with an error",
  };
  const OK = STATUS.indexOf("ok");
  const DUPLICATE = STATUS.indexOf("duplicate");
  const UNFINISHED = STATUS.indexOf("unfinished");
  const LATE = STATUS.indexOf("late");
  // What is no loss, or not known to be one.
  const OTHERS = [OK, LATE, DUPLICATE, UNFINISHED, STATUS.indexOf("unsure"), STATUS.indexOf("not-sent")];
  const SHORTEST = 1000; // ns of a window

  // ---- the data of one cell ------------------------------------------------------------------------------------------------------

  // Of two measurements the first is orange, and the second, what was done about it, blue: every eighth look has one colour.

  function prepare(panel, second, beside) {
    return (raw, index) => {
      const t = core.times(raw.t);
      const value = core.column(raw.y);
      const status = raw.status ? core.column(raw.status) : null;
      const is = (i) => (status ? status[i] : OK);
      // Of the line: answered packets only. Further replies and losses are drawn apart.
      const y = status ? value.map((v, i) => ([OK, LATE].includes(status[i]) ? v : NaN)) : value;
      const lost = [];
      if (status) for (let i = 0; i < t.length; i++) if (!OTHERS.includes(status[i])) lost.push(i);
      const column = (c) => (c ? core.column(c) : null);
      return {
        name: second ? `${second}: ${raw.name}` : raw.name, slot: beside ? 8 * index + (second ? 0 : 1) : raw.slot, t, y, value, status: is, lost, panel,
        lostAt: Float64Array.from(lost, (i) => t[i]),
        seq: column(raw.seq), up: column(raw.up), down: column(raw.down), bytes: column(raw.bytes),
        pyramid: new core.Pyramid(y),
        shown: (i) => ([OK, LATE, DUPLICATE].includes(is(i)) ? value[i] : NaN),
      };
    };
  }

  let panels = [];
  let all = [0, 1e9];
  const hidden = new Set();
  const view = { t: [0, 1e9], dots: false, scale: "zero", cursor: null, box: null };
  let events = [];

  // The measurement of this number, and over it another one, or none.
  function open(index, beside) {
    const cell = doc.cells[index];
    const other = doc.cells[beside];
    const both = other && beside !== index;
    panels = cell.panels.map((p) => ({ ...p, series: p.series.map(prepare(p, "", both)) }));
    events = cell.events;
    if (both) {
      for (const p of other.panels) {
        let panel = panels.find((one) => one.title === p.title);
        if (!panel) panels.push((panel = { ...p, series: [] }));
        panel.series.push(...p.series.map(prepare(panel, other.name, true)));
      }
      events = [...cell.events, ...other.events.map((e) => ({ ...e, label: `${other.name}: ${e.label}` }))];
    }
    let [from, to] = [Infinity, -Infinity];
    for (const s of panels.flatMap((p) => p.series)) {
      if (s.t.length) [from, to] = [Math.min(from, s.t[0]), Math.max(to, s.t[s.t.length - 1])];
    }
    if (!(from <= to)) [from, to] = [0, 1e9];
    const air = Math.max((to - from) * 0.01, SHORTEST);
    all = [from - air, to + air];
    view.t = [...all];
    view.cursor = null;
    legend();
    draw();
  }

  const drawn = (panel) => panel.series.filter((s) => !hidden.has(s.name));

  // ---- colours and shapes ----------------------------------------------------------------------------------------------------------

  let ink = {};
  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    ink = { ground: of("--bg"), text: of("--ink"), soft: of("--soft"), line: of("--line"), lost: of("--bad") };
    ink.dark = of("--dark") === "1";
  }
  const look = (slot) => doc.looks[slot % doc.looks.length];
  const colour = (slot) => (ink.dark ? look(slot).dark : look(slot).light);

  // ---- geometry ----------------------------------------------------------------------------------------------------------------------

  let size = { w: 0, h: 0 };
  const LEFT = 58;
  const RIGHT = 10;
  const STRIP = 7; // of losses, one for each stream
  function frames() {
    const shownPanels = panels.length || 1;
    const weights = panels.map((p, i) => (i === 0 ? 2 : 1));
    const sum = weights.reduce((a, b) => a + b, 0) || 1;
    const foot = 34;
    const room = size.h - foot - shownPanels * 24;
    let top = 20;
    return panels.map((panel, i) => {
      const strips = panel.kind === "packets" ? drawn(panel).filter((s) => s.lost.length).length * STRIP : 0;
      const h = (room * weights[i]) / sum;
      const frame = { panel, x: LEFT, y: top, w: size.w - LEFT - RIGHT, h: h - strips, strips };
      top += h + 24;
      frame.px = (t) => frame.x + ((t - view.t[0]) / (view.t[1] - view.t[0])) * frame.w;
      frame.time = (x) => view.t[0] + ((x - frame.x) / frame.w) * (view.t[1] - view.t[0]);
      fit(frame);
      return frame;
    });
  }

  // The range of y: of what is seen of the streams that are shown.
  function fit(frame) {
    let [low, high] = [Infinity, -Infinity];
    for (const s of drawn(frame.panel)) {
      const from = Math.max(0, core.lowerBound(s.t, view.t[0]) - (frame.panel.kind === "steps" ? 1 : 0));
      const [a, b] = s.pyramid.range(from, core.lowerBound(s.t, view.t[1]));
      [low, high] = [Math.min(low, a), Math.max(high, b)];
    }
    if (!(low <= high)) [low, high] = [0, 1 / frame.panel.scale];
    const log = view.scale === "log" && low > 0;
    if (log) {
      [low, high] = [low / 1.2, high * 1.2];
    } else {
      const isFromZero = view.scale === "zero";
      if (isFromZero) low = Math.min(0, low);
      const air = (high - low || Math.abs(high) || 1) * 0.08;
      if (!isFromZero) low -= air;
      high += air;
    }
    frame.range = [low, high];
    frame.log = log;
    const at = log ? (v) => Math.log(v / low) / Math.log(high / low) : (v) => (v - low) / (high - low);
    frame.py = (v) => frame.y + frame.h - at(v) * frame.h;
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------------------------

  let asked = false;
  function draw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; paint(); });
  }

  function paint() {
    const ratio = window.devicePixelRatio || 1;
    const box = canvas.getBoundingClientRect();
    size = { w: box.width, h: box.height };
    const [w, h] = [Math.round(size.w * ratio), Math.round(size.h * ratio)];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = ink.ground;
    pen.fillRect(0, 0, size.w, size.h);
    pen.font = "12px system-ui, sans-serif";
    const all = frames();
    all.forEach((frame, i) => {
      axes(frame, i === all.length - 1);
      pen.save();
      pen.beginPath();
      pen.rect(frame.x, frame.y - 1, frame.w, frame.h + frame.strips + 2);
      pen.clip();
      for (const s of drawn(frame.panel)) (frame.panel.kind === "steps" ? steps : packets)(frame, s);
      losses(frame);
      pen.restore();
    });
    if (view.box) {
      const [a, b] = view.box;
      pen.fillStyle = ink.text;
      pen.globalAlpha = 0.12;
      pen.fillRect(Math.min(a, b), 0, Math.abs(b - a), size.h);
      pen.globalAlpha = 1;
    }
    if (view.cursor) mark(all);
  }

  function axes(frame, isLast) {
    const { panel, range } = frame;
    pen.strokeStyle = ink.line;
    pen.lineWidth = 1;
    pen.setLineDash([]);
    pen.fillStyle = ink.text;
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.fillText(`${panel.title}, ${panel.unit}`, 4, frame.y - 7);
    const k = panel.scale;
    const count = Math.max(2, Math.floor(frame.h / 44));
    const marks = frame.log ? core.logTicks(range[0] * k, range[1] * k, count) : core.ticks(range[0] * k, range[1] * k, count);
    const step = marks.length > 1 ? Math.abs(marks[1] - marks[0]) : 0;
    pen.fillStyle = ink.soft;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const v of marks) {
      const y = Math.round(frame.py(v / k)) + 0.5;
      line(frame.x, y, frame.x + frame.w, y);
      pen.fillText(frame.log ? String(Number(v.toPrecision(3))) : core.text(v, step), frame.x - 6, y);
    }
    const seconds = core.ticks(view.t[0] / 1e9, view.t[1] / 1e9, Math.max(3, Math.floor(frame.w / 90)));
    const unit = seconds.length > 1 ? seconds[1] - seconds[0] : 1;
    pen.textBaseline = "top";
    for (const v of seconds) {
      const x = Math.round(frame.px(v * 1e9)) + 0.5;
      line(x, frame.y, x, frame.y + frame.h + frame.strips);
      if (!isLast) continue;
      const words = core.text(v, unit);
      const half = pen.measureText(words).width / 2;
      pen.textAlign = "center";
      pen.fillText(words, Math.min(x, size.w - half - 1), frame.y + frame.h + frame.strips + 5);
    }
    if (isLast) {
      pen.textAlign = "center";
      pen.fillText("Time, s", frame.x + frame.w / 2, frame.y + frame.h + frame.strips + 19);
    }
    pen.textAlign = "left";
    pen.textBaseline = "top";
    for (const event of events) {
      const x = Math.round(frame.px(event.t)) + 0.5;
      if (x < frame.x || x > frame.x + frame.w) continue;
      pen.strokeStyle = ink.soft;
      pen.setLineDash([3, 3]);
      line(x, frame.y, x, frame.y + frame.h);
      pen.setLineDash([]);
      pen.strokeStyle = ink.line;
      const wide = pen.measureText(event.label).width;
      pen.fillStyle = ink.soft;
      pen.fillText(event.label, Math.max(frame.x, Math.min(x + 3, frame.x + frame.w - wide)), frame.y + 2);
    }
  }

  function line(x0, y0, x1, y1) {
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    pen.stroke();
  }

  function packets(frame, s) {
    pen.strokeStyle = pen.fillStyle = colour(s.slot);
    pen.lineWidth = 1.4;
    const picked = core.pick(s, view.t[0], view.t[1], frame.w);
    if (view.dots) return dots(frame, s, picked);
    pen.setLineDash(picked.single ? look(s.slot).dash : []);
    pen.beginPath();
    // A packet between two that were lost has no line to be part of.
    const lone = [];
    if (picked.single) {
      let isOpen = false;
      const isThere = (i) => i >= picked.from && i < picked.to && s.status(i) !== DUPLICATE && !Number.isNaN(s.y[i]);
      for (let i = picked.from; i < picked.to; i++) {
        // A further reply stands apart; a loss is a gap in the line.
        if (s.status(i) === DUPLICATE) continue;
        if (Number.isNaN(s.y[i])) { isOpen = false; continue; }
        const [x, y] = [frame.px(s.t[i]), frame.py(s.y[i])];
        if (isOpen) pen.lineTo(x, y);
        else pen.moveTo(x, y);
        if (!isOpen && !isThere(i + 1)) lone.push([x, y]);
        isOpen = true;
      }
    } else {
      let before = -2;
      for (const c of picked.columns) {
        const x = frame.x + c.x + 0.5;
        if (c.x > before + 1 && hasLoss(frame, s, c, before)) pen.moveTo(x, frame.py(c.first));
        else if (before === -2) pen.moveTo(x, frame.py(c.first));
        else pen.lineTo(x, frame.py(c.first));
        pen.lineTo(x, frame.py(c.least));
        pen.lineTo(x, frame.py(c.most));
        pen.lineTo(x, frame.py(c.last));
        if (c.least === c.most) lone.push([x, frame.py(c.last)]);
        before = c.x;
      }
    }
    pen.stroke();
    pen.setLineDash([]);
    for (const [x, y] of lone) pen.fillRect(x - 0.9, y - 0.9, 1.8, 1.8);
    if (picked.single && picked.to - picked.from < frame.w / 3) dots(frame, s, picked);
  }

  // Whether packets were lost between the last column and this one: then the line has a gap.
  function hasLoss(frame, s, column, before) {
    const from = frame.time(frame.x + before + 1);
    return before >= 0 && core.lowerBound(s.lostAt, s.t[column.from]) > core.lowerBound(s.lostAt, from);
  }

  function dots(frame, s, picked) {
    // At most one dot a place: a million packets need no million dots.
    const wide = Math.ceil(frame.w) + 1;
    const seen = new Uint8Array(wide * (Math.ceil(frame.h) + 1));
    const r = picked.to - picked.from < frame.w ? 2.2 : 1;
    const dot = (x, y, isFurther) => {
      const at = Math.round(y - frame.y) * wide + Math.round(x - frame.x);
      if (!(x >= frame.x && x <= frame.x + frame.w) || seen[at]) return;
      seen[at] = 1;
      if (isFurther) {
        pen.lineWidth = 1.2;
        pen.strokeRect(x - 3, y - 3, 6, 6);
      } else if (r > 2) {
        pen.beginPath();
        pen.arc(x, y, r, 0, 7);
        pen.fill();
      } else {
        pen.fillRect(x - 0.8, y - 0.8, 1.6, 1.6);
      }
    };
    // Of very many an even part, and the extremes of each column.
    const stride = Math.max(1, Math.ceil((picked.to - picked.from) / 15000));
    for (let i = picked.from; i < picked.to; i += stride) {
      const value = s.shown(i);
      if (!Number.isNaN(value)) dot(frame.px(s.t[i]), frame.py(value), s.status(i) === DUPLICATE);
    }
    for (const c of stride > 1 ? picked.columns : []) {
      for (const value of [c.least, c.most]) dot(frame.x + c.x + 0.5, frame.py(value), false);
    }
  }

  function steps(frame, s) {
    pen.strokeStyle = colour(s.slot);
    pen.lineWidth = 1.4;
    const picked = core.pick(s, view.t[0], view.t[1], frame.w);
    pen.setLineDash(picked.single ? look(s.slot).dash : []);
    pen.beginPath();
    let y = null;
    const to = (x, value) => {
      const next = frame.py(value);
      if (y === null) pen.moveTo(x, next);
      else pen.lineTo(x, y), pen.lineTo(x, next);
      y = next;
    };
    if (picked.single) {
      for (let i = picked.from; i < picked.to; i++) if (!Number.isNaN(s.y[i])) to(frame.px(s.t[i]), s.y[i]);
    } else {
      for (const c of picked.columns) for (const v of [c.first, c.least, c.most, c.last]) to(frame.x + c.x + 0.5, v);
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  // A strip below the panel for each stream that lost packets: a mark for each, at least a pixel wide.
  function losses(frame) {
    if (frame.panel.kind !== "packets") return;
    let top = frame.y + frame.h + 1;
    for (const s of drawn(frame.panel)) {
      if (!s.lost.length) continue;
      pen.fillStyle = colour(s.slot);
      let last = -9;
      const end = core.lowerBound(s.lostAt, view.t[1]);
      for (let i = core.lowerBound(s.lostAt, view.t[0]); i < end; i++) {
        const x = Math.floor(frame.px(s.lostAt[i]));
        if (x > last) pen.fillRect(x - 0.5, top, 2, STRIP - 1);
        last = x;
      }
      top += STRIP;
    }
  }

  function mark(all) {
    const { s, i } = view.cursor;
    const frame = all.find((f) => f.panel.series.includes(s));
    if (!frame || hidden.has(s.name)) return;
    const x = frame.px(s.t[i]);
    if (x < frame.x || x > frame.x + frame.w) return;
    const value = s.shown(i);
    pen.strokeStyle = ink.text;
    pen.lineWidth = 1;
    line(x, frame.y, x, frame.y + frame.h + frame.strips);
    if (Number.isNaN(value)) return;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, frame.py(value), 5, 0, 7);
    pen.stroke();
  }

  // ---- words about one packet --------------------------------------------------------------------------------------------------------

  function ms(ns) {
    return `${(ns / 1e6).toFixed(6).replace(/0{1,3}$/, "")} ms`;
  }

  function words(s, i) {
    const at = `${(s.t[i] / 1e9).toFixed(9).replace(/0{1,6}$/, "")} s`;
    if (s.panel.kind === "steps") {
      return `${s.name} · from ${at} · ${Number((s.value[i] * s.panel.scale).toPrecision(6))} ${s.panel.unit}`;
    }
    const parts = [s.name, `packet ${s.seq ? s.seq[i] : i}`, `sent at ${at}`];
    const status = STATUS[s.status(i)];
    if (!Number.isNaN(s.value[i])) parts.push(`RTT ${ms(s.value[i])}`);
    if (status !== "ok") parts.push(WORDS[status] || status);
    if (s.up && !Number.isNaN(s.up[i])) parts.push(`to the reflector ${ms(s.up[i])}`);
    if (s.down && !Number.isNaN(s.down[i])) parts.push(`back ${ms(s.down[i])}`);
    if (s.bytes && s.bytes[i] > 0) parts.push(`${s.bytes[i]} bytes`);
    return parts.join(" · ");
  }

  function point(cursor) {
    view.cursor = cursor;
    element("readout").textContent = cursor ? words(cursor.s, cursor.i) : HINT;
    draw();
  }
  const HINT = 'Point at a packet, or step from packet to packet with the keys "," and ".".';

  function hover(x, y) {
    for (const frame of frames()) {
      if (y < frame.y - 6 || y > frame.y + frame.h + frame.strips + 6) continue;
      let best = null;
      for (const s of drawn(frame.panel)) {
        const i = core.nearest(s, x, y, 24, frame.px, frame.py, frame.time);
        if (i < 0) continue;
        const d = Math.hypot(frame.px(s.t[i]) - x, frame.py(s.shown(i)) - y);
        if (!best || d < best.d) best = { s, i, d };
      }
      // Where nothing was answered nearby: a packet that was lost, in the strips below.
      if (!best && y > frame.y + frame.h - 4) {
        const row = drawn(frame.panel).filter((s) => s.lost.length)[Math.floor((y - frame.y - frame.h) / STRIP)];
        if (row) {
          const at = core.lowerBound(row.lostAt, frame.time(x - 4));
          if (at < row.lost.length && row.lostAt[at] <= frame.time(x + 4)) best = { s: row, i: row.lost[at] };
        }
      }
      return point(best);
    }
    point(null);
  }

  // The next packet of the stream under the cursor, or the first one that is seen.
  function stepTo(by) {
    let { s, i } = view.cursor || {};
    if (!s || hidden.has(s.name)) {
      s = panels.flatMap((p) => drawn(p)).find((one) => one.t.length);
      if (!s) return;
      i = core.lowerBound(s.t, view.t[0]) - (by > 0 ? 1 : 0);
    }
    i = Math.max(0, Math.min(s.t.length - 1, i + by));
    const t = s.t[i];
    if (t < view.t[0] || t > view.t[1]) {
      const half = (view.t[1] - view.t[0]) / 2;
      view.t = core.hold([t - half, t + half], all);
    }
    point({ s, i });
  }

  // ---- pointer, wheel and keys -------------------------------------------------------------------------------------------------------

  const plot = () => ({ x: LEFT, w: Math.max(1, size.w - LEFT - RIGHT) });
  const timeAt = (x) => view.t[0] + ((x - plot().x) / plot().w) * (view.t[1] - view.t[0]);
  function zoomAt(x, factor) {
    view.t = core.zoom(view.t, timeAt(x), factor, all, SHORTEST);
    draw();
  }
  function panBy(pixels) {
    view.t = core.pan(view.t, (-pixels / plot().w) * (view.t[1] - view.t[0]), all);
    draw();
  }
  function reset() {
    view.t = [...all];
    draw();
  }

  const fingers = new Map();
  const at = (e) => {
    const box = canvas.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };
  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) return panBy(-e.deltaX);
    const lines = e.deltaMode === 1 ? 30 : 1;
    zoomAt(at(e).x, Math.exp(Math.max(-1, Math.min(1, e.deltaY * lines * 0.002))));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (e) => {
    if (e.button > 0) return;
    canvas.setPointerCapture(e.pointerId);
    fingers.set(e.pointerId, at(e));
    if (e.shiftKey && fingers.size === 1) view.box = [at(e).x, at(e).x];
    canvas.classList.add("held");
  });
  canvas.addEventListener("pointermove", (e) => {
    const now = at(e);
    const last = fingers.get(e.pointerId);
    if (!last) return hover(now.x, now.y);
    if (view.box) {
      view.box[1] = now.x;
      draw();
    } else if (fingers.size === 1) {
      panBy(now.x - last.x);
    } else {
      const [a, b] = [...fingers.keys()].map((id) => (id === e.pointerId ? now : fingers.get(id)).x);
      const [c, d] = [...fingers.values()].map((f) => f.x);
      panBy((a + b - c - d) / 2);
      zoomAt((a + b) / 2, Math.max(24, Math.abs(c - d)) / Math.max(24, Math.abs(a - b)));
    }
    fingers.set(e.pointerId, now);
  });
  const lift = (e) => {
    if (!fingers.delete(e.pointerId)) return;
    if (view.box) {
      const [a, b] = view.box.map(timeAt).sort((x, y) => x - y);
      if (Math.abs(view.box[1] - view.box[0]) > 4) {
        const middle = (a + b) / 2;
        const half = Math.max(b - a, SHORTEST) / 2;
        view.t = core.hold([Math.max(all[0], middle - half), Math.min(all[1], middle + half)], all);
      }
      view.box = null;
    }
    if (!fingers.size) canvas.classList.remove("held");
    if (e.type === "pointerup") hover(at(e).x, at(e).y);
    draw();
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => fingers.size || point(null));
  canvas.addEventListener("dblclick", reset);

  function scale(name) {
    view.scale = name;
    element("scale").value = name;
    draw();
  }
  function dotsOrLines() {
    view.dots = !view.dots;
    element("dots").setAttribute("aria-pressed", String(view.dots));
    draw();
  }
  const middle = () => plot().x + plot().w / 2;
  const KEYS = {
    "+": () => zoomAt(middle(), 0.7), "=": () => zoomAt(middle(), 0.7), "-": () => zoomAt(middle(), 1 / 0.7),
    ArrowLeft: () => panBy(plot().w / 6), ArrowRight: () => panBy(-plot().w / 6),
    Home: () => panBy(1e9), End: () => panBy(-1e9), 0: reset, Escape: () => { view.box = null; point(null); },
    ",": () => stepTo(-1), ".": () => stepTo(1), l: dotsOrLines,
    y: () => scale({ zero: "fit", fit: "log", log: "zero" }[view.scale]),
  };
  document.addEventListener("keydown", (e) => {
    // Another part of the page is seen.
    if (!canvas.offsetParent) return;
    if (e.ctrlKey || e.metaKey || e.altKey || /^(SELECT|INPUT)$/.test(e.target.tagName)) return;
    const number = Number(e.key);
    if (number >= 1 && number <= 9) {
      const button = element("legend").querySelectorAll("button")[number - 1];
      if (button) button.click();
    } else if (KEYS[e.key]) {
      KEYS[e.key]();
    } else {
      return;
    }
    e.preventDefault();
  });

  // ---- the legend and the buttons ------------------------------------------------------------------------------------------------------

  function swatch(slot) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 26 10");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", "M0 5H26");
    path.setAttribute("stroke", colour(slot));
    path.setAttribute("stroke-width", "3");
    path.setAttribute("stroke-dasharray", look(slot).dash.join(" "));
    svg.append(path);
    return svg;
  }

  function legend() {
    const names = new Map();
    for (const s of panels.flatMap((p) => p.series)) names.set(s.name, [...(names.get(s.name) || []), s]);
    const list = element("legend");
    list.replaceChildren();
    for (const [name, series] of names) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      const lost = series.reduce((n, s) => n + s.lost.length, 0);
      const sent = series.filter((s) => s.panel.kind === "packets").reduce((n, s) => n + s.t.length, 0);
      const label = document.createElement("span");
      label.textContent = lost ? `${name} (${lost} of ${sent} lost)` : name;
      button.append(swatch(series[0].slot), label);
      button.addEventListener("click", () => {
        if (!hidden.delete(name)) hidden.add(name);
        button.setAttribute("aria-pressed", String(!hidden.has(name)));
        draw();
      });
      list.append(button);
    }
  }

  const select = element("cell");
  const besides = element("beside");
  const label = (cell, index) => (index === doc.worst && doc.cells.length > 1 ? `${cell.name} (the worst)` : cell.name);
  doc.cells.forEach((cell, index) => select.append(new Option(label(cell, index), index)));
  besides.append(new Option("nothing", -1));
  doc.cells.forEach((cell, index) => besides.append(new Option(cell.name, index)));
  for (const one of [select, besides]) {
    one.parentElement.hidden = doc.cells.length < 2;
    one.addEventListener("change", () => open(Number(select.value), Number(besides.value)));
  }
  select.value = String(doc.worst);
  element("dots").addEventListener("click", dotsOrLines);
  element("scale").addEventListener("change", (e) => scale(e.target.value));
  element("closer").addEventListener("click", () => zoomAt(middle(), 0.5));
  element("wider").addEventListener("click", () => zoomAt(middle(), 2));
  element("whole").addEventListener("click", reset);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours(); legend(); draw(); });
  new ResizeObserver(draw).observe(canvas);
  colours();
  besides.value = String(doc.beside ?? -1);
  open(doc.worst, doc.beside ?? -1);
  point(null);
  // For tests that look at the page from outside.
  window.quellView = { view, panels: () => panels, frames, hover };
})();
