// Draws the lanes. The whole run is drawn once for each view, and a frame copies as much of it as has been played; so
// a frame costs the same for a hundred events and for a hundred thousand.

/** What a lane shows: what each shade means, and how it looks. */
export const SHADE = { Rest: 0, Waiting: 1, Held: 2, Jeopardy: 3, Stale: 4, Bare: 5, Paused: 6, PausedHolding: 7, Dead: 8, Done: 9, PausedStale: 10, Behind: 11 };
export const SHADES = ["at rest", "waits", "holds the lock", "in jeopardy: its last renewal failed", "stale: believes that it holds", "works without a lock",
  "paused", "paused while it holds", "dead", "done", "stale, and paused", "waits in its process: another task of it stands in the store's line, or holds"];
export const LOOKS = ["empty", "grey dots", "solid blue", "blue with yellow stripes", "red stripes", "yellow stripes",
  "grey bars", "blue bars", "grey crosses", "a thin line", "red bars", "a thin row of grey dots"];
/** Whether a client does nothing any more. */
export const isOver = (shade) => shade === SHADE.Dead || shade === SHADE.Done;
/** Whether a client believes that it holds. */
export const believes = (shade) => [SHADE.Held, SHADE.Jeopardy, SHADE.Stale, SHADE.PausedHolding, SHADE.PausedStale].includes(shade);
export const KIND = { Call: 0, Done: 1, Denied: 2, Reply: 3, Grant: 4, Held: 5, Hint: 6, Expired: 7, Lost: 8, Dropped: 9,
  Timeout: 10, Act: 11, Resumed: 12, Ended: 13, Wrong: 14, Oversold: 15, Overlap: 16, Behind: 17, Leads: 18, Pass: 19 };
export const NONE = 0xffffffff;
const OF_RESOURCE = 12; // operations from this number on go to the resource, not to the store
const READ = 12, WRITE = 13;
/** The operations that write to the resource. */
export const WRITES = new Set([WRITE, 14, 15, 18, 19]);
const AXIS = 24, ACTS_ROW = 18, CROWD = 30, RING = 16;
/** What can be done to a run, in the order of its numbers. */
const ACTS = ["pause", "kill", "cut off", "lose reply", "cancel", "slow clock", "fast clock", "set clock", "heal", "restart", "kill server", "start server", "fail over", "jump clock"];
const LOSE_REPLY = 3, CANCEL = 4; // are done to a task
const ON_SERVER = 9; // acts from this number on are done to a server

/** What one run gives to the drawing, sorted by lane once. */
export class Track {
  constructor(play) {
    this.play = play;
    this.end = play.end();
    this.events = play.events();
    this.count = play.count();
    this.crowd = Number(play.get("crowd"));
    this.clients = Number(play.get("clients"));
    this.lanes = this.clients + (this.crowd ? 1 : 0);
    this.tasks = Number(play.get("tasks")) || 1; // of each process
    this.segments = Number(play.get("segments")) || 1;
    this.behind = this.crowd ? play.crowd() : [];
    this.acts = [];
    this.refusals = []; // by the fence
    this.passes = []; // of a hold, inside a process
    for (let event = 0; event < this.count; event++) {
      if (this.kind(event) === KIND.Act) this.acts.push(event);
      else if (this.kind(event) === KIND.Pass) this.passes.push(event);
      else if (this.kind(event) === KIND.Denied && [READ, WRITE].includes(this.a(event))) this.refusals.push(event);
    }
    this.servers = play.get("policy") === "redlock" ? 3 : 1;
    this.isBare = ["none", "version", "atomic"].includes(play.get("policy"));
    this.hasLine = ["line", "cohort", "nested", "reentrant", "early", "unsorted", "sorted"].includes(play.get("policy"));
    const spans = play.spans(), byLane = Array.from({ length: this.lanes }, () => []);
    for (let at = 0; at < spans.length; at += 6) byLane[spans[at]]?.push(at);
    this.spans = spans;
    this.byLane = byLane;
  }
  at(event) { return this.events[event * 6]; }
  kind(event) { return this.events[event * 6 + 1]; }
  who(event) { return this.events[event * 6 + 2]; }
  a(event) { return this.events[event * 6 + 3]; }
  b(event) { return this.events[event * 6 + 4]; }
  cause(event) { return this.events[event * 6 + 5]; }
  /** What a lane is called. */
  label(lane) {
    const process = this.process(lane);
    return this.labels?.[lane] ?? (lane < this.clients && this.tasks > 1 ? `${process}.${lane % this.tasks + 1}` : process);
  }
  /** What the process of a lane is called. */
  process(lane) {
    return this.labels?.[lane] ?? (lane < this.clients ? `c${Math.floor(lane / this.tasks) + 1}` : `+${this.crowd.toLocaleString("en")}`);
  }
  /** To whom something was done: to a task, or to all of a process. */
  victim(event) {
    return [LOSE_REPLY, CANCEL].includes(this.a(event)) ? this.label(this.who(event)) : this.process(this.who(event));
  }
  /** How many events there were at this time. */
  countAt(time) {
    let low = 0, high = this.count;
    while (low < high) { const middle = (low + high) >> 1; if (this.at(middle) <= time) low = middle + 1; else high = middle; }
    return low;
  }
}

export class Lanes {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.layer = document.createElement("canvas");
    this.tracks = [];
    this.view = [0, 1000];
    this.marked = [];
    this.chosen = 0;
    this.isStale = true;
  }

  show(tracks) {
    this.tracks = tracks;
    this.end = Math.max(...tracks.map((track) => track.end));
    this.view = [0, this.end];
    this.isStale = true;
  }

  zoom(factor, around) {
    const [from, to] = this.view, middle = around ?? (from + to) / 2;
    const length = Math.min(this.end, Math.max(60, (to - from) * factor));
    const start = Math.max(0, Math.min(this.end - length, middle - (middle - from) / (to - from) * length));
    this.view = [start, start + length];
    this.isStale = true;
  }

  /** Moves the view so that this time is in it. */
  follow(time) {
    const [from, to] = this.view, length = to - from;
    if (length >= this.end || (time >= from && time <= to - length * 0.08)) return;
    const start = Math.max(0, Math.min(this.end - length, time - length * 0.3));
    if (start !== from) { this.view = [start, start + length]; this.isStale = true; }
  }

  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      Object.assign(this.layer, { width, height });
      this.isStale = true;
    }
    this.ratio = ratio;
    this.width = box.width;
    this.height = box.height;
  }

  colours() {
    const style = getComputedStyle(document.documentElement), of = (name) => style.getPropertyValue(name).trim();
    const c = {};
    for (const name of ["paper", "card", "ink", "soft", "rule", "quiet", "held", "wait", "bad", "warn", "gone", "good", "bare", "on"]) c[name] = of(`--${name}`);
    return c;
  }

  get left() { return this.tracks[0]?.labels ? 190 : this.width < 500 ? 40 : 64; }
  x(time) { return this.left + (time - this.view[0]) / (this.view[1] - this.view[0]) * (this.width - this.left - 10); }
  time(x) { return this.view[0] + (x - this.left) / (this.width - this.left - 10) * (this.view[1] - this.view[0]); }

  /** How high the axis is: what was done to the run has a row of its own above the times. */
  get axis() { return AXIS + (this.tracks[0]?.acts.length ? ACTS_ROW : 0); }

  /** Where the rows of a track are: its lanes, then its servers, then the resource. */
  rows(index) {
    const all = this.height - this.axis - 8, each = all / this.tracks.length, track = this.tracks[index];
    const head = this.tracks.length > 1 ? 20 : 8, top = 4 + index * each + head;
    const low = (track.isBare ? 0 : track.servers) + 1;
    const room = each - head - 6, foot = Math.min(46, Math.max(14, room / (track.lanes + low)));
    const crowd = track.crowd ? Math.max(CROWD, (room - foot * low) / track.lanes) : 0;
    const lane = Math.max(0.5, Math.min(84, (room - foot * low - crowd) / track.clients)), below = top + track.clients * lane;
    const y = (row) => row < track.clients ? top + row * lane : row < track.lanes ? below : below + crowd + (row - track.lanes) * foot;
    return { top, lane, foot, low, crowd, y, height: (row) => row < track.clients ? lane : row < track.lanes ? crowd : foot, head: top - head };
  }

  place(track, rows, event) {
    const kind = track.kind(event), op = track.a(event) & 255, servers = track.isBare ? 0 : track.servers;
    let row = track.who(event);
    if (kind === KIND.Done || kind === KIND.Denied) row = track.lanes + (op >= OF_RESOURCE ? servers : track.a(event) >> 8);
    if (kind === KIND.Wrong || kind === KIND.Oversold) row = track.lanes + servers;
    if (kind === KIND.Act && track.a(event) >= ON_SERVER) row = track.lanes + Math.min(track.who(event), track.servers - 1);
    const isCrowd = track.crowd && row === track.clients;
    return [this.x(track.at(event)), rows.y(row) + rows.height(row) * (isCrowd ? 0.75 : 0.5)];
  }

  /** The whole view, once. */
  drawLayer() {
    const context = this.layer.getContext("2d"), c = this.colours();
    this.c = c;
    this.patterns = patterns(context, c, this.ratio);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.tracks.forEach((track, index) => {
      const rows = this.rows(index);
      this.drawSpans(context, track, rows, c);
      this.drawAway(context, track, rows);
      this.drawMessages(context, track, rows, c);
      this.drawPasses(context, track, rows, c);
      this.drawNotes(context, track, rows, c);
    });
    this.isStale = false;
  }

  drawSpans(context, track, rows, c) {
    const [from, to] = this.view, spans = track.spans, gap = rows.lane > 14 ? 3 : rows.lane > 5 ? 1 : 0;
    if (track.crowd) this.drawCrowd(context, track, rows, c);
    for (let lane = 0; lane < track.lanes; lane++) {
      const isCrowd = lane === track.clients, half = isCrowd ? rows.crowd / 2 : 0;
      const y = rows.y(lane) + gap + half, height = Math.max(0.5, rows.height(lane) - half - 2 * gap), list = track.byLane[lane];
      let low = 0, high = list.length;
      while (low < high) { const middle = (low + high) >> 1; if (spans[list[middle] + 3] < from) low = middle + 1; else high = middle; }
      let drawn = -1, worst = 0;
      for (; low < list.length && spans[list[low] + 2] <= to; low++) {
        const at = list[low], shade = spans[at + 1];
        const left = Math.max(this.left, this.x(spans[at + 2])), right = this.x(Math.min(spans[at + 3], to));
        if (shade === SHADE.Rest) continue;
        const pixel = Math.floor(right);
        if (right - left < 0.8 && pixel === drawn && RANK[shade] <= worst) continue; // nobody can see it
        drawn = pixel;
        worst = RANK[shade];
        this.drawSpan(context, shade, left, y, Math.max(0.8, right - left), height, spans[at + 4], c);
      }
    }
  }

  /** When a server is away. */
  drawAway(context, track, rows) {
    const [restart, stop, start] = [9, 10, 11];
    if (track.isBare) return;
    for (const event of track.acts) {
      const act = track.a(event), who = track.who(event);
      if ((act !== restart && act !== stop) || who >= track.servers) continue;
      const back = track.acts.find((other) => other > event && track.who(other) === who && track.a(other) === start);
      const until = act === restart ? track.at(event) + track.b(event) : back === undefined ? track.end : track.at(back);
      const left = this.x(track.at(event)), height = Math.min(14, rows.foot);
      context.fillStyle = this.patterns[SHADE.Dead];
      context.fillRect(left, rows.y(track.lanes + who) + (rows.foot - height) / 2, Math.max(2, this.x(until) - left), height);
    }
  }

  /** How many of the crowd wait, over time, above the lane of the one for whom it stands in line. */
  drawCrowd(context, track, rows, c) {
    const bottom = rows.y(track.clients) + rows.crowd / 2, full = rows.crowd / 2 - 3, most = Math.max(...track.behind, 1), last = track.behind.length - 1;
    context.fillStyle = this.patterns[SHADE.Waiting];
    context.beginPath();
    context.moveTo(this.x(0), bottom);
    track.behind.forEach((waiting, part) => context.lineTo(this.x(track.end * part / last), bottom - full * waiting / most));
    context.lineTo(this.x(track.end), bottom);
    context.fill();
    context.strokeStyle = c.wait;
    context.lineWidth = 1;
    context.stroke();
  }

  drawSpan(context, shade, x, y, width, height, token, c) {
    if (shade === SHADE.Done) { context.fillStyle = c.rule; context.fillRect(x, y + height / 2 - 0.5, width, 1); return; }
    const thin = shade === SHADE.Waiting ? height * 0.25 : shade === SHADE.Behind ? height * 0.4 : 0;
    context.fillStyle = this.patterns[shade];
    context.fillRect(x, y + thin, width, height - 2 * thin);
    if (width < 26 || height < 13) return;
    context.font = `600 ${Math.min(12, height * 0.6)}px system-ui, sans-serif`;
    const room = width - 8, wide = (text) => context.measureText(text).width, label = LABELS[shade](token), [short] = label.split(",");
    if (!label || wide(short) > room) return;
    // Beside the ring that marks what began the span, if there is room.
    const text = [label, short].find((text) => wide(text) + RING < room) ?? (wide(label) < room ? label : short);
    const left = x + (wide(text) + RING < room ? RING : 6), isPlain = shade === SHADE.Held;
    if (!isPlain) {
      context.fillStyle = c.card;
      context.fillRect(left - 3, y + height / 2 - 8, wide(text) + 6, 16);
    }
    context.fillStyle = isPlain ? c.on : c.ink;
    context.textBaseline = "middle";
    context.fillText(text, left, y + height / 2 + 0.5);
  }

  /** Requests, replies and grants as thin lines, while there is room for them. */
  drawMessages(context, track, rows, c) {
    const [from, to] = this.view, first = track.countAt(from - 500), last = track.countAt(to);
    if (last - first > this.width * 1.2 || rows.lane < 9) return;
    context.lineWidth = 1;
    for (let event = first; event < last; event++) {
      const kind = track.kind(event), cause = track.cause(event);
      if (cause === NONE || cause >= event) continue;
      const isArrival = kind === KIND.Done || kind === KIND.Denied || kind === KIND.Reply || (kind === KIND.Held && track.kind(cause) === KIND.Grant);
      if (!isArrival) continue;
      const start = this.place(track, rows, cause), stop = this.place(track, rows, event);
      if (kind === KIND.Held) start[1] = rows.y(track.lanes) + rows.foot / 2;
      context.globalAlpha = kind === KIND.Held ? 0.9 : 0.3;
      context.strokeStyle = kind === KIND.Held ? c.held : kind === KIND.Denied ? c.bad : c.soft;
      context.beginPath();
      context.moveTo(...start);
      context.lineTo(...stop);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** From task to task of a process, while there is room: a hold that is passed on. */
  drawPasses(context, track, rows, c) {
    const [from, to] = this.view, passes = track.passes.filter((event) => track.at(event) >= from && track.at(event) <= to);
    if (passes.length * 6 > this.width || rows.lane < 9) return;
    for (const event of passes) {
      const [x, y] = this.place(track, rows, event), lane = track.b(event), isOwn = lane === track.who(event);
      const end = isOwn ? y : rows.y(lane) + rows.lane / 2, size = Math.min(5, rows.lane / 4), way = end < y ? -1 : 1;
      const tip = isOwn ? end + size : end - way * rows.lane * 0.12;
      for (const [width, colour] of [[5, c.card], [2, c.good]]) {
        context.lineWidth = width;
        context.strokeStyle = context.fillStyle = colour;
        context.beginPath(); context.moveTo(x, y); context.lineTo(x, tip - way * size); context.stroke();
        context.beginPath(); context.moveTo(x - size, tip - way * 2 * size); context.lineTo(x + size, tip - way * 2 * size); context.lineTo(x, tip); context.fill();
      }
    }
  }

  /** Writes at the resource, acts, deaths, and the arrow of a lost update. */
  drawNotes(context, track, rows, c) {
    const [from, to] = this.view, first = track.countAt(from - 1), last = track.countAt(to);
    const size = Math.max(2.5, Math.min(5, rows.foot / 4)), isDense = last - first > this.width * 3;
    const wrong = new Set();
    for (let event = first; event < last; event++) if (track.kind(event) === KIND.Wrong) wrong.add(track.cause(event));
    for (let event = first; event < last; event++) {
      const kind = track.kind(event), op = track.a(event);
      const isWrite = (kind === KIND.Done || kind === KIND.Denied) && WRITES.has(op);
      const [x, y] = this.place(track, rows, event);
      if (isWrite && isDense && kind !== KIND.Denied && !wrong.has(event)) {
        context.fillStyle = c.good; context.fillRect(x - 0.5, y - size, 1, 2 * size);
      } else if (isWrite) {
        if (kind === KIND.Denied) cross(context, x, y, size + 1, c.bad);
        else { context.fillStyle = wrong.has(event) ? c.bad : c.good; context.beginPath(); context.arc(x, y, size, 0, 7); context.fill(); }
      } else if (kind === KIND.Wrong && track.b(event) !== NONE) {
        const [other] = this.place(track, rows, track.b(event));
        arrow(context, x, other, y, size, c.bad);
      } else if (kind === KIND.Expired && rows.lane > 6) {
        context.fillStyle = c.bad;
        context.fillRect(x - 1, y - rows.lane / 2, 2, rows.lane);
      } else if (kind === KIND.Act && track.a(event) === 1) {
        cross(context, x + 6, y, Math.min(7, rows.lane / 3), c.bad);
      }
    }
  }

  /** A frame: as much of the layer as has been played, and what changes. */
  draw(now, reached) {
    this.resize();
    if (this.isStale) this.drawLayer();
    const context = this.context, c = this.c, ratio = this.ratio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = c.card;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const x = Math.max(this.left, Math.min(this.width, this.x(now)));
    const edge = Math.max(x, Math.min(this.width, this.x(reached)));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawRails(context, c);
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.copy(context, 0, x, 1);
    if (edge > x) this.copy(context, x, edge, 0.28);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawFrame(context, c);
    this.drawMarks(context, c);
    if (now >= this.view[0] && now <= this.view[1]) {
      context.fillStyle = c.ink;
      const foot = this.height - this.axis;
      context.fillRect(x - 0.75, 2, 1.5, foot - 2);
      context.beginPath();
      context.moveTo(x - 5, foot); context.lineTo(x + 5, foot); context.lineTo(x, foot - 7);
      context.fill();
    }
  }

  copy(context, from, to, alpha) {
    const left = Math.floor(from * this.ratio), width = Math.ceil((to - from) * this.ratio);
    if (width <= 0) return;
    context.globalAlpha = alpha;
    context.drawImage(this.layer, left, 0, width, this.layer.height, left, 0, width, this.layer.height);
    context.globalAlpha = 1;
  }

  /** The rows of the servers and of the resource. */
  drawRails(context, c) {
    context.fillStyle = c.rule;
    this.tracks.forEach((track, index) => {
      const rows = this.rows(index);
      for (let row = 0; row < rows.low; row++) context.fillRect(this.left, rows.y(track.lanes + row) + rows.foot / 2 - 0.5, this.width - this.left, 1);
    });
  }

  /** Names of the lanes, and the axis. */
  drawFrame(context, c) {
    context.textBaseline = "middle";
    this.tracks.forEach((track, index) => {
      const rows = this.rows(index);
      if (this.tracks.length > 1) {
        context.font = "600 12px system-ui, sans-serif";
        context.fillStyle = c.ink;
        context.fillText(track.name, 8, rows.head + 11);
        if (index) { context.fillStyle = c.rule; context.fillRect(0, rows.head - 1, this.width, 1); }
      }
      const every = Math.ceil(13 / rows.lane);
      for (let lane = 0; lane < track.clients; lane += every) {
        const isChosen = lane === this.chosen;
        context.font = `${isChosen ? 700 : 400} ${Math.min(12, Math.max(9, rows.lane * 0.7))}px system-ui, sans-serif`;
        context.fillStyle = isChosen ? c.ink : c.soft;
        context.fillText(track.label(lane), 8, rows.y(lane) + rows.height(lane) / 2);
      }
      // The tasks of a process belong together.
      for (let lane = 0; track.tasks > 1 && lane < track.clients; lane += track.tasks) {
        const last = Math.min(lane + track.tasks, track.clients) - 1, y = rows.y(lane) + 2;
        context.fillStyle = c.soft;
        context.fillRect(2, y, 2, rows.y(last) + rows.lane - 2 - y);
        if (lane) { context.fillStyle = c.rule; context.fillRect(0, rows.y(lane) - 0.5, this.width, 1); }
      }
      if (track.crowd) {
        context.font = `${this.chosen === track.clients ? 700 : 400} 11px system-ui, sans-serif`;
        context.fillStyle = this.chosen === track.clients ? c.ink : c.soft;
        context.fillText(track.label(track.clients), 8, rows.y(track.clients) + rows.crowd / 2);
      }
      const names = [...(track.isBare ? [] : track.servers > 1 ? ["a", "b", "c"] : ["store"]), this.width < 500 ? "data" : "resource"];
      context.font = "400 11px system-ui, sans-serif";
      names.forEach((name, row) => {
        const y = rows.y(track.lanes + row) + rows.foot / 2;
        context.fillStyle = c.soft;
        context.fillText(name, 8, y);
      });
    });
    const top = this.height - this.axis, y = this.height - AXIS, [from, to] = this.view;
    context.fillStyle = c.rule;
    context.fillRect(0, top, this.width, 1);
    const step = tick((to - from) / Math.max(2, this.width / 90));
    context.font = "11px system-ui, sans-serif";
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const x = this.x(time);
      context.fillStyle = c.rule;
      context.fillRect(x, top, 1, 6 + y - top);
      context.fillStyle = c.soft;
      const text = step >= 1000 ? `${time / 1000} s` : `${time}`;
      if (x < this.width - 30) context.fillText(text, x + 4, y + 12);
    }
    this.drawActs(context, c);
  }

  /** What was done to the run: marks on the axis. */
  drawActs(context, c) {
    const y = this.height - this.axis, track = this.tracks[0];
    context.font = "600 11px system-ui, sans-serif";
    let free = 0;
    for (const event of track.acts) {
      const x = this.x(track.at(event)), act = track.a(event);
      if (x < this.left - 1 || x > this.width) continue;
      context.fillStyle = c.warn;
      context.beginPath(); context.moveTo(x, y); context.lineTo(x - 5, y + 9); context.lineTo(x + 5, y + 9); context.fill();
      const text = act >= ON_SERVER ? ACTS[act] : `${ACTS[act]} ${track.victim(event)}`;
      if (x > free) {
        context.fillStyle = c.card;
        const width = context.measureText(text).width;
        context.fillRect(x + 6, y + 2, width + 4, 16);
        context.fillStyle = c.warn;
        context.fillText(text, x + 8, y + 10);
        free = x + width + 16;
      }
    }
  }

  /** The chain of causes that is shown. */
  drawMarks(context, c) {
    const { track: index, events } = this.marked.events ? this.marked : { track: 0, events: [] };
    const track = this.tracks[index];
    if (!track || !events.length) return;
    const rows = this.rows(index), points = events.map((event) => this.place(track, rows, event)).filter(([x]) => x >= this.left - 1);
    context.strokeStyle = c.ink;
    context.lineWidth = 1.2;
    context.globalAlpha = 0.6;
    context.setLineDash([3, 3]);
    context.beginPath();
    points.forEach(([x, y], number) => number ? context.lineTo(x, y) : context.moveTo(x, y));
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    // Rings, so that what they mark can still be seen.
    points.forEach(([x, y], number) => {
      for (const [width, colour] of [[5, c.card], [number ? 1.5 : 2.5, c.ink]]) {
        context.lineWidth = width;
        context.strokeStyle = colour;
        context.beginPath();
        context.arc(x, y, number ? 6.5 : 8.5, 0, 7);
        context.stroke();
      }
    });
  }

  /** The track, the lane and the event at this point of the canvas; -1 where there is none. */
  at(x, y) {
    const index = this.tracks.length > 1 && y > (this.height - this.axis) / 2 ? 1 : 0, track = this.tracks[index], rows = this.rows(index);
    const time = this.time(x), first = track.countAt(time - (this.time(14) - this.time(0))), last = track.countAt(time + (this.time(14) - this.time(0)));
    let event = -1, distance = 24, lane = -1;
    for (let one = Math.max(0, first - 1); one < last; one++) {
      const [ex, ey] = this.place(track, rows, one), d = Math.hypot(ex - x, (ey - y) * 0.7) - (isNotable(track, one) ? 8 : 0);
      if (d < distance) { event = one; distance = d; }
    }
    for (let row = 0; row < track.lanes && lane < 0; row++) if (y >= rows.y(row) && y < rows.y(row) + rows.height(row)) lane = row;
    return { index, lane, time, event, isOnAxis: y > this.height - this.axis };
  }
}

/** Whose event this is; -1: a server's. */
export function clientOf(track, event) {
  return track.kind(event) === KIND.Act && track.a(event) >= ON_SERVER ? -1 : track.who(event);
}

/** Whether this is what a run is about: a promise broken, or kept by the fence. */
export function isDecisive(track, event) {
  return breaksPromise(track, event) || isFenced(track, event);
}

/** Whether a promise is broken here. */
export function breaksPromise(track, event) {
  return [KIND.Wrong, KIND.Oversold, KIND.Overlap].includes(track.kind(event));
}

/** Whether this is an event that a reader should not miss. */
export function isNotable(track, event) {
  return isDecisive(track, event) || [KIND.Expired, KIND.Lost, KIND.Act].includes(track.kind(event));
}

/** Whether the fence refuses a write here. */
export function isFenced(track, event) {
  return track.kind(event) === KIND.Denied && track.a(event) === WRITE;
}

const RANK = [0, 1, 3, 5, 9, 4, 6, 7, 8, 0, 10, 1];
const LABELS = [() => "", () => "waits", (t) => t > 0 ? `holds ${t}` : "holds", (t) => `jeopardy ${t}`, (t) => `stale ${t}`, () => "no lock",
  () => "paused", (t) => t > 0 ? `paused, holds ${t}` : "paused", () => "dead", () => "", (t) => t > 0 ? `stale ${t}, paused` : "stale, paused", () => ""];

/** A fill for each shade: colour and pattern. */
export function patterns(context, c, ratio) {
  const make = (back, fore, draw) => {
    const tile = document.createElement("canvas"), size = 8 * ratio;
    tile.width = tile.height = size;
    const t = tile.getContext("2d");
    t.scale(ratio, ratio);
    t.fillStyle = back; t.fillRect(0, 0, 8, 8);
    t.strokeStyle = t.fillStyle = fore; t.lineWidth = 1.6;
    draw(t);
    const pattern = context.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / ratio));
    return pattern;
  };
  const slash = (t) => { for (const at of [-8, 0, 8]) { t.beginPath(); t.moveTo(at, 8); t.lineTo(at + 8, 0); t.stroke(); } };
  const dots = (t) => { for (const [x, y] of [[2, 2], [6, 6]]) { t.beginPath(); t.arc(x, y, 1.1, 0, 7); t.fill(); } };
  const bars = (t) => t.fillRect(0, 0, 3, 8);
  const check = (t) => { slash(t); for (const at of [-8, 0, 8]) { t.beginPath(); t.moveTo(at, 0); t.lineTo(at + 8, 8); t.stroke(); } };
  return [c.card, make(c.quiet, c.wait, dots), c.held, make(c.held, c.warn, slash), make(c.card, c.bad, slash), make(c.quiet, c.bare, slash),
    make(c.quiet, c.gone, bars), make(c.quiet, c.held, bars), make(c.quiet, c.gone, check), c.rule, make(c.card, c.bad, bars), make(c.quiet, c.wait, dots)];
}

function cross(context, x, y, size, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2.2;
  context.beginPath();
  context.moveTo(x - size, y - size); context.lineTo(x + size, y + size);
  context.moveTo(x + size, y - size); context.lineTo(x - size, y + size);
  context.stroke();
}

/** From the write that was undone to the one that undid it. */
function arrow(context, to, from, y, size, colour) {
  const rise = Math.min(44, 26 + Math.abs(to - from) / 4);
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(from, y - size);
  context.bezierCurveTo(from, y - rise, to, y - rise, to, y - size - 3);
  context.stroke();
  context.beginPath();
  context.moveTo(to - 4, y - size - 7); context.lineTo(to + 4, y - size - 7); context.lineTo(to, y - size);
  context.fill();
}

function tick(about) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, about)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= about) ?? power * 10;
}
