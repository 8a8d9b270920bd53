// A history that a failed trial or storm has saved, shown like a run: who asked, who held, what was written.
import { KIND, NONE } from "./lanes.js";

const FORMAT = "tidelock history 1", MOST_LANES = 200, NEVER = 0xffffffff;
const WAITS = 1, HOLDS = 2, REST = 0;
const KINDS = { asked: KIND.Call, stands: KIND.Done, "stands behind": KIND.Done, granted: KIND.Held, refused: KIND.Denied, failed: KIND.Timeout, cancelled: KIND.Resumed, "let go": KIND.Done,
  lost: KIND.Lost, wrote: KIND.Done, fault: KIND.Act, healed: KIND.Resumed, overlap: KIND.Overlap, lightened: KIND.Done, resizing: KIND.Call, resized: KIND.Done,
  evicted: KIND.Expired };
const LOOK = 2, LEAVE = 1, WRITE = 13;

/** In milliseconds. Under a clock that is turned by hand much happens at one time: it is drawn side by side, in order. */
function spread(times) {
  const apart = Math.max(0.1, Math.max(...times.slice(-1), 20) / (times.length * 4));
  let last = -apart;
  return times.map((time) => (last = Math.round(Math.max(time, last + apart) * 10) / 10));
}

export class History {
  /** Reads the text of a file; an error is a sentence. */
  constructor(text) {
    let saved;
    try { saved = JSON.parse(text); } catch { throw "This file is not JSON: a history is saved by a trial that failed"; }
    if (saved?.format !== FORMAT || !Array.isArray(saved.events)) throw `This file is not a history that this page can read: its format must be "${FORMAT}"`;
    this.saved = saved;
    this.list = saved.events.filter((event) => Number.isFinite(event?.at) && typeof event.what === "string");
    this.number = 0;
    this.times = spread(this.list.map((event) => (event.at - (this.list[0]?.at ?? 0)) / 1e6));
    this.labels = [];
    this.lanes = this.list.map((event) => this.laneOf(event));
    this.build();
  }

  laneOf({ who = "", name = "" }) {
    const label = name ? `${who} · ${name}` : who;
    let lane = this.labels.indexOf(label);
    if (lane < 0 && this.labels.length < MOST_LANES) lane = this.labels.push(label) - 1;
    return Math.max(0, lane);
  }

  /** Spans and waits of all claims, and how each lane stands after each event. */
  build() {
    const open = new Map(), spans = [];
    this.waited = [];
    const close = (event, at) => {
      const claim = open.get(event.claim);
      if (claim) spans.push(claim.lane, claim.shade, claim.from, at, claim.token, 0);
      open.delete(event.claim);
      return claim;
    };
    this.list.forEach((event, index) => {
      const at = this.times[index], lane = this.lanes[index];
      if (event.what === "asked") open.set(event.claim, { lane, shade: WAITS, from: at, token: 0 });
      else if (event.what === "granted") {
        const asked = close(event, at);
        if (asked) this.waited.push(at, lane, at - asked.from);
        open.set(event.claim, { lane, shade: HOLDS, from: at, token: Math.floor(event.token / 32) });
      } else if (["let go", "lost", "refused", "failed", "cancelled"].includes(event.what)) close(event, at);
    });
    for (const claim of [...open.values()]) spans.push(claim.lane, claim.shade, claim.from, this.end(), claim.token, 0);
    this.allSpans = spans;
  }

  end() { return (this.times.at(-1) ?? 0) + 20; }
  count() { return this.list.length; }
  spans() { return this.allSpans; }
  waits() { return this.waited; }
  fingerprint() { return this.list.length; }
  link() { return ""; }
  free() {}
  can_step() { return false; }
  compared() { return []; }
  seek(count) { this.number = count; }
  listing() { return "A history shows what clients saw, and not their code."; }
  events() {
    return this.list.flatMap((event, index) => {
      const op = event.what === "wrote" ? WRITE : event.what === "let go" ? LEAVE : LOOK;
      const kind = event.what === "wrote" && event.accepted === false ? KIND.Denied : KINDS[event.what] ?? KIND.Hint;
      return [this.times[index], kind, this.lanes[index], kind === KIND.Done || kind === KIND.Denied ? op : 0, 0, this.before(index)];
    });
  }
  /** The event of the same claim before this one. */
  before(index) {
    const { claim } = this.list[index];
    for (let one = index - 1; claim && one >= 0 && one > index - 400; one--) if (this.list[one].claim === claim) return one;
    return NONE;
  }
  get(key) {
    return { clients: String(this.labels.length), policy: "line", work: "history", renew: "1", segments: "1", crowd: "0", permits: "1", seed: String(this.saved.seed ?? "") }[key] ?? "";
  }
  now() {
    const claims = new Map();
    for (let index = 0; index < this.number; index++) {
      const event = this.list[index], lane = this.lanes[index];
      if (event.what === "asked") claims.set(event.claim, { lane, shade: WAITS, token: 0, since: this.times[index], weight: event.weight, capacity: event.capacity });
      else if (event.what === "granted") Object.assign(claims.get(event.claim) ?? {}, { shade: HOLDS, token: Math.floor(event.token / 32) });
      else if (["let go", "lost", "refused", "failed", "cancelled"].includes(event.what)) claims.delete(event.claim);
    }
    return [...claims.values()];
  }
  clients() {
    const rows = this.labels.map(() => [REST, 0, 0, 0, 0, NEVER]);
    for (const claim of this.now()) rows[claim.lane] = [Math.max(rows[claim.lane][0], claim.shade), 0, claim.token, 0, 0, claim.shade === WAITS ? claim.since : NEVER];
    return rows.flat();
  }
  line() {
    const claims = this.now().sort((one, other) => other.shade - one.shade || one.since - other.since);
    return claims.flatMap((claim) => [claim.lane, claim.weight, claim.token, 0, 0, claim.capacity]);
  }
  store() { return "(a history does not say)"; }
  resource() {
    const writes = this.list.slice(0, this.number).filter((event) => event.what === "wrote"), accepted = writes.filter((event) => event.accepted).length;
    return [0, 0, 0, accepted, writes.length - accepted, 0, 0, 0, 0, 0, 0, 0];
  }
  figures() {
    const waits = [];
    for (let at = 2; at < this.waited.length; at += 3) if (this.waited[at - 2] <= (this.times[this.number - 1] ?? 0)) waits.push(this.waited[at]);
    waits.sort((one, other) => one - other);
    const of = (part) => Math.round(waits[Math.min(waits.length - 1, Math.floor(waits.length * part))] ?? 0), holds = waits.length;
    return [0, 0, this.resource()[4], 0, 0, holds, 0, holds, 0, of(0.5), of(0.99), of(1), 0, this.now().filter((claim) => claim.shade === WAITS).length, 0, 0, 0, 0, 0];
  }
  sentence(index) {
    const event = this.list[index] ?? {}, who = event.who ?? "";
    const name = event.name ? ` "${event.name}"` : "";
    const texts = {
      asked: `${who} asks for${name}.`, stands: `${who} stands in the line of${name}.`,
      "stands behind": `${who} stands in line for${name}, behind another claim of its client.`, granted: `${who} is granted${name}, with token ${event.token}.`,
      refused: `${who} is refused${name}.`, failed: `${who} gets an error about${name}, and does not know what became of it.`, cancelled: `${who} gives up waiting for${name}.`,
      "let go": `${who} lets${name} go.`, lost: `${who} knows that it has lost${name}.`, fault: `A fault: ${event.act}.`, healed: "Everything works again.",
      lightened: `${who} makes its claim on${name} lighter: weight ${event.weight} from now on.`, resizing: `${who} asks for ${event.capacity} permits of${name}.`,
      resized: `${who} is told that${name} has ${event.capacity} permits now.`, evicted: `An operator takes ${event.id} out of its line.`,
      wrote: `${who} writes under token ${event.token}: ${event.accepted === false ? "refused" : "accepted"}.`, overlap: "Holders may go on believing that they hold: declared.",
    };
    const { broken } = this.saved;
    return broken && index === broken.to ? `${broken.promise}: ${broken.sentence}` : texts[event.what] ?? `${who}: ${event.what}.`;
  }
  /** The window that shows what was broken, or the events of the same claim. */
  chain(index) {
    const { broken } = this.saved, chain = [];
    if (broken && index === broken.to) {
      for (let one = index; one >= broken.from && chain.length < 8; one--) if (one === index || (broken.claims ?? []).includes(this.list[one].claim)) chain.push(one);
      return chain;
    }
    for (let one = index; one !== NONE && chain.length < 8; one = this.before(one)) chain.push(one);
    return chain;
  }
}
