// Arithmetic of the zoomable picture: columns of numbers, what to draw of them, and where a zoom leads. No page, no canvas, so that
// it can be tested by itself.
//
//   numbers ──column──► Float64Array ──Pyramid──► least and greatest of any stretch, without visiting each packet
//                                      columns ──► for each pixel column: first, least, greatest, last
"use strict";
const QuellCore = (() => {
  // Numbers; NaN where there is none.
  const column = (values) => Float64Array.from(values, (v) => v ?? NaN);

  // Times of which each is told from the one before.
  function times(steps) {
    let t = 0;
    return Float64Array.from(steps, (step) => (t += step));
  }

  // Index of the first element that is not below x, in an ascending array.
  function lowerBound(array, x) {
    let low = 0;
    let high = array.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (array[middle] < x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  const STEP = 16;

  // Least and greatest values of stretches of 16, 256, 4096 … values. NaN is left out.
  class Pyramid {
    constructor(values) {
      this.values = values;
      this.levels = [];
      let low = values;
      let high = values;
      while (low.length > STEP) {
        const count = Math.ceil(low.length / STEP);
        const least = new Float64Array(count).fill(Infinity);
        const most = new Float64Array(count).fill(-Infinity);
        for (let i = 0; i < low.length; i++) {
          const at = (i / STEP) | 0;
          if (low[i] < least[at]) least[at] = low[i];
          if (high[i] > most[at]) most[at] = high[i];
        }
        this.levels.push([least, most]);
        low = least;
        high = most;
      }
    }

    // [least, greatest] of the values from..to (to not included); [Infinity, -Infinity] where there are none.
    range(from, to) {
      let least = Infinity;
      let most = -Infinity;
      let low = this.values;
      let high = this.values;
      let level = 0;
      for (;;) {
        const take = (i) => {
          if (low[i] < least) least = low[i];
          if (high[i] > most) most = high[i];
        };
        const last = level === this.levels.length;
        // Ends that fill no whole stretch are visited here, what is between them one level up.
        while (from < to && (last || from % STEP !== 0)) take(from++);
        while (from < to && to % STEP !== 0) take(--to);
        if (from >= to) return [least, most];
        from /= STEP;
        to /= STEP;
        [low, high] = this.levels[level++];
      }
    }
  }

  // What to draw of a series between t0 and t1 on `width` pixels. Few packets: their indices. Many: for each column of one pixel that has
  // any, {x, from, to, least, most, first, last}.
  function pick(series, t0, t1, width) {
    const from = Math.max(0, lowerBound(series.t, t0) - 1);
    const to = Math.min(series.t.length, lowerBound(series.t, t1) + 1);
    if (to - from <= 3 * width) return { single: true, from, to };
    const columns = [];
    let at = lowerBound(series.t, t0);
    const end = Math.min(series.t.length, to);
    for (let x = 0; x < width && at < end; x++) {
      const next = Math.min(end, lowerBound(series.t, t0 + ((t1 - t0) * (x + 1)) / width));
      if (next <= at) continue;
      const [least, most] = series.pyramid.range(at, next);
      if (least <= most) {
        let first = at;
        while (Number.isNaN(series.y[first])) first++;
        let last = next - 1;
        while (Number.isNaN(series.y[last])) last--;
        const [head, tail] = [series.y[first], series.y[last]];
        columns.push({ x, from: at, to: next, least, most, first: head, last: tail });
      }
      at = next;
    }
    return { single: false, from, to, columns };
  }

  // Index of the packet nearest to the pointer, within `reach` pixels; -1 if there is none. `px` and `py` turn values into pixels.
  function nearest(series, x, y, reach, px, py, time) {
    const from = lowerBound(series.t, time(x - reach));
    const to = lowerBound(series.t, time(x + reach));
    let best = -1;
    let least = reach * reach;
    for (let i = from; i < to; i++) {
      const value = series.shown(i);
      if (Number.isNaN(value)) continue;
      const dx = px(series.t[i]) - x;
      const dy = py(value) - y;
      const distance = dx * dx + dy * dy;
      if (distance <= least) {
        least = distance;
        best = i;
      }
    }
    return best;
  }

  // A range zoomed by `factor` (below 1: closer) so that `at` keeps its place, held within `all` and no shorter than `shortest`.
  function zoom(range, at, factor, all, shortest) {
    const whole = all[1] - all[0];
    const length = Math.min(whole, Math.max(shortest, (range[1] - range[0]) * factor));
    const share = (at - range[0]) / (range[1] - range[0]);
    return hold([at - share * length, at + (1 - share) * length], all);
  }

  // A range moved by `by`, held within `all`.
  function pan(range, by, all) {
    return hold([range[0] + by, range[1] + by], all);
  }

  // The range, moved back between the ends where it reaches beyond them.
  function hold(range, all) {
    const length = range[1] - range[0];
    if (length >= all[1] - all[0]) return [all[0], all[1]];
    if (range[0] < all[0]) return [all[0], all[0] + length];
    if (range[1] > all[1]) return [all[1] - length, all[1]];
    return range;
  }

  // About `count` round numbers between low and high.
  function ticks(low, high, count) {
    const rough = (high - low) / Math.max(1, count);
    if (!(rough > 0) || !Number.isFinite(rough)) return [low];
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
    const out = [];
    for (let i = Math.ceil(low / step - 1e-9) + 0; i * step <= high + step * 1e-9; i++) out.push(i * step);
    return out;
  }

  // Powers of ten between low and high, with 2 and 5 where there is room.
  function logTicks(low, high, count) {
    const decades = Math.log10(high / low);
    const of = decades * 3 <= count ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(decades / count));
    const out = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += every) {
      for (const m of of) {
        const v = m * 10 ** e;
        if (v >= low * 0.999 && v <= high * 1.001) out.push(v);
      }
    }
    return out.length > 1 ? out : ticks(low, high, count);
  }

  // A number with as many digits as a step of this size can tell apart.
  function text(value, step) {
    const digits = step > 0 ? Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9))) : 3;
    const shown = value.toFixed(digits);
    return Number(shown) === 0 ? (0).toFixed(digits) : shown;
  }

  return { column, times, lowerBound, Pyramid, pick, nearest, zoom, pan, hold, ticks, logTicks, text };
})();
if (typeof module !== "undefined") module.exports = QuellCore;
