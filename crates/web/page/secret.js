// HMAC-SHA-256 (FIPS 180-4, RFC 2104). Browsers have it for pages over HTTPS alone, and at home there is none.

/** The first 32 bits behind the point of the roots of the first primes, as the standard's constants are made. */
function constants() {
  const primes = [];
  for (let n = 2; primes.length < 64; n += 1) if (primes.every((p) => n % p)) primes.push(n);
  const bits = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32) >>> 0;
  return { start: primes.slice(0, 8).map((p) => bits(Math.sqrt(p))), round: primes.map((p) => bits(Math.cbrt(p))) };
}
const { start: START, round: ROUND } = constants();
const turn = (word, by) => (word >>> by) | (word << (32 - by));

export function sha256(message) {
  const blocks = Math.ceil((message.length + 9) / 64);
  const padded = new Uint8Array(blocks * 64);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(message.length / 2 ** 29));
  view.setUint32(padded.length - 4, (message.length * 8) >>> 0);
  const state = Uint32Array.from(START);
  const w = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) {
    for (let n = 0; n < 64; n += 1) {
      if (n < 16) {
        w[n] = view.getUint32(at + 4 * n);
        continue;
      }
      const small0 = turn(w[n - 15], 7) ^ turn(w[n - 15], 18) ^ (w[n - 15] >>> 3);
      const small1 = turn(w[n - 2], 17) ^ turn(w[n - 2], 19) ^ (w[n - 2] >>> 10);
      w[n] = w[n - 16] + small0 + w[n - 7] + small1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let n = 0; n < 64; n += 1) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[n] + w[n]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, n) => { state[n] += word; });
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((word, n) => out.setUint32(4 * n, word));
  return new Uint8Array(out.buffer);
}

const join = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

export function hmac(key, message) {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? sha256(key) : key);
  const pad = (byte) => block.map((own) => own ^ byte);
  return sha256(join(pad(0x5c), sha256(join(pad(0x36), message))));
}

/** What proves that one knows the secret, to the server of this host and in answer to its question. */
export function proof(secret, host, nonce) {
  const encode = (text) => new TextEncoder().encode(text);
  const signed = hmac(encode(secret.trimEnd()), encode(`web\n${host}\n${nonce}`));
  return [...signed].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
