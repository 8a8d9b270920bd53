// What stands beside the lanes: the line, the store, the resource, the code, the counters.
import { KIND, SHADE, SHADES, WRITES, isOver } from "./lanes.js";

const $ = (id) => document.getElementById(id);
const NEVER = 0xffffffff;

/** Writes a text only when it changes. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function fill(list, items) {
  const key = JSON.stringify(items);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...items.map(({ text, className, cells }) => {
    const item = document.createElement("li");
    if (className) item.className = className;
    if (cells) item.append(...cells.map((cell) => { const span = document.createElement("span"); span.textContent = cell; return span; }));
    else item.textContent = text;
    return item;
  }));
}

export function showLine(track, now, clients) {
  const { play } = track;
  const line = play.line(), behind = behindClaims(track, line, clients), items = [], isSale = play.get("work");
  const names = new Set();
  for (let at = 0; at < line.length; at += 6) names.add(line[at + 3]);
  for (let at = 0; at < line.length && items.length < 9; at += 6) {
    const [who, weight, token, name, until] = line.slice(at, at + 6);
    const left = !until ? "" : until > now ? `${((until - now) / 1000).toFixed(1)} s` : "over";
    const what = token ? `holds, token ${token}` : isSale === "pages" && weight > 1 ? "waits to write" : "waits";
    const all = [what, names.size > 1 ? name + 1 : "", behind.get(who) ? `${behind.get(who)} behind it` : ""].filter(Boolean).join(" · ");
    items.push({ className: token ? "held" : "", cells: [`${items.length + 1}`, track.label(who), all, left] });
  }
  const rest = line.length / 6 - items.length;
  if (rest > 0) items.push({ className: "more", text: `and ${rest} more` });
  if (!items.length) items.push({ className: "none", text: noLine(track) });
  fill($("line"), items);
  const capacity = line.length ? line[5] : 0;
  put($("capacity"), line.length ? `· capacity ${capacity > 1e9 ? "all readers, or one writer" : capacity} · leases end in` : "");
}

/** How many wait in a local line behind the last claim that its process has in the line of their name. */
function behindClaims(track, line, clients) {
  const last = new Map(), behind = new Map(), of = (lane) => `${track.process(lane)} ${lane % track.segments}`;
  for (let at = 0; at < line.length; at += 6) last.set(of(line[at]), line[at]);
  for (let lane = 0; lane < track.lanes; lane++) {
    const claim = last.get(of(lane));
    if (clients[lane * 6] === SHADE.Behind && claim !== undefined) behind.set(claim, (behind.get(claim) ?? 0) + 1);
  }
  return behind;
}

function noLine({ play, hasLine }) {
  if (play.get("policy") === "none") return "There is no lock, so there is no line.";
  return hasLine ? "Nobody stands here." : "This policy keeps no line: the quickest is next.";
}

export function showStore({ play, clients, tasks, crowd }) {
  const kept = play.store();
  put($("store"), crowd ? kept.replace(new RegExp(`\\bc${Math.ceil(clients / tasks) + 1}\\b`, "g"), "crowd") : kept);
}

export function showResource(play, track, count) {
  const [stock, sold, initial, accepted, refused, conflicts, wrong, fence, seated, most, database, cache] = play.resource();
  const work = play.get("work"), big = $("stock");
  const isBad = work === "sale" ? sold > initial : work === "seats" ? most > Number(play.get("permits")) : wrong > 0;
  if (work === "sale") put(big, `stock ${stock} · sold ${sold} of ${initial}`);
  else if (work === "seats") put(big, `${seated} sit · most ever ${most} of ${play.get("permits")}`);
  else if (work === "cache") put(big, `database ${database} · cache ${cache}`);
  else put(big, work === "history" ? `${accepted} write${accepted === 1 ? "" : "s"}` : `version ${accepted}`);
  big.classList.toggle("bad", isBad);
  fillWrites(latestWrites(track, count), work === "sale" && conflicts ? "version" : "fence");
  const last = track.refusals.findLast((event) => event < count), refusal = last !== undefined && tokensOf(track, last);
  const more = [`${accepted} write${accepted === 1 ? "" : "s"} accepted`, `${refused} refused by the fence${refusal ? ` (token ${refusal[0]} is older than ${refusal[1]})` : ""}`];
  if (conflicts) more.push(`${conflicts} refused by their version`);
  if (wrong) more.push(`${wrong} lost update${wrong > 1 ? "s" : ""}`);
  if (fence) more.push(`newest token now ${fence}`);
  put($("resource-more"), work === "seats" || work === "cache" ? "" : more.join(" · "));
}

const MOST_WRITES = 12;

/** The latest writes before this moment, the newest last; at most a few thousand events back. */
function latestWrites(track, count) {
  const writes = [];
  for (let event = count - 1; event >= 0 && event > count - 3000 && writes.length < MOST_WRITES; event--) {
    const kind = track.kind(event);
    if ((kind !== KIND.Done && kind !== KIND.Denied) || !WRITES.has(track.a(event))) continue;
    const isRefused = kind === KIND.Denied, isWrong = event + 1 < track.count && track.kind(event + 1) === KIND.Wrong;
    writes.unshift({ event: isWrong ? event + 1 : event, who: track.label(track.who(event)), isRefused, isWrong, tokens: isRefused ? tokensOf(track, event) : null });
  }
  return writes;
}

/** The token that was refused, and the one with which it was compared. */
function tokensOf(track, event) {
  track.compared ??= new Map();
  if (!track.compared.has(event)) { const tokens = track.play.compared(event); track.compared.set(event, tokens.length ? tokens : null); }
  return track.compared.get(event);
}

/** A badge for each write: a button that asks why. The badge that has the focus keeps it. */
function fillWrites(writes, refuser) {
  const list = $("writes"), key = JSON.stringify(writes);
  if (list.dataset.key === key) return;
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.event : null;
  list.dataset.key = key;
  list.replaceChildren(...writes.map(({ event, who, isRefused, isWrong, tokens }) => {
    const item = document.createElement("li"), button = document.createElement("button");
    const what = isRefused ? `refused by the ${refuser}${tokens ? `, token ${tokens[0]} is older than ${tokens[1]}` : ""}` : isWrong ? "accepted, and an update is lost" : "accepted";
    Object.assign(button, { type: "button", textContent: isRefused ? "✗" : isWrong ? "!" : "✓", className: isRefused ? "no" : isWrong ? "wrong" : "", title: `${who}: ${what}` });
    button.setAttribute("aria-label", `${who}: ${what}`);
    button.dataset.event = event;
    item.append(button);
    return item;
  }));
  if (focused !== null) list.querySelector(`[data-event="${focused}"]`)?.focus();
}

export function showCode(play, who, clients) {
  const list = $("code"), listing = play.listing(who);
  if (list.dataset.listing !== listing) {
    list.dataset.listing = listing;
    list.replaceChildren(...listing.trimEnd().split("\n").map((line) => { const item = document.createElement("li"); item.textContent = line; return item; }));
  }
  const line = clients[who * 6 + 1];
  [...list.children].forEach((item, number) => {
    const is = number === line && !isOver(clients[who * 6]);
    if (item.classList.contains("pc") !== is) {
      item.classList.toggle("pc", is);
      if (is) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
    }
  });
}

const COUNTERS = [["sold", 0], ["lost updates", 3, true], ["refused by the fence", 2], ["two held at once", 4, true], ["rounds", 5], ["rounds per second", -1], ["requests to the store", 17], ["passed on in a process", 18], ["messages", 6],
  ["messages per hold", 8], ["wait, p50", 9, false, " ms"], ["wait, p99", 10, false, " ms"], ["longest wait", 11, false, " ms"], ["fairness (Jain)", 12, false, " %"], ["waiting now", 13]];

export function showCounters(tracks, now) {
  const rows = tracks.map((track) => track.play.figures()), body = $("counters").tBodies[0];
  if (body.rows.length !== COUNTERS.length) {
    body.replaceChildren(...COUNTERS.map(([name]) => {
      const row = document.createElement("tr"), head = document.createElement("th");
      head.scope = "row"; head.textContent = name;
      row.append(head, document.createElement("td"), document.createElement("td"));
      return row;
    }));
  }
  put($("name-a"), tracks.length > 1 ? "above" : "so far");
  put($("name-b"), "below");
  $("name-b").hidden = tracks.length < 2;
  COUNTERS.forEach(([, index, isBad, unit = ""], at) => {
    for (const side of [0, 1]) {
      const cell = body.rows[at].cells[side + 1];
      cell.hidden = !rows[side];
      put(cell, !rows[side] ? "" : index < 0 ? (rows[side][5] * 1000 / Math.max(1, Math.min(now, tracks[side].end))).toFixed(1) : index === 8 && !rows[side][7] ? "–" : `${rows[side][index]}${unit}`);
      cell.classList.toggle("bad", Boolean(isBad && rows[side]?.[index]));
    }
  });
}

const PARTS = 40; // of the plot of waits

/** The waits that ended in each part of the run: half of them, and 99 of 100, were at most this long. */
function quantiles(waits, end, now) {
  const parts = Array.from({ length: PARTS }, () => []);
  for (let at = 0; at < waits.length && waits[at] <= now; at += 3) parts[Math.min(PARTS - 1, Math.floor(waits[at] / end * PARTS))].push(waits[at + 2]);
  return parts.map((part) => {
    if (!part.length) return null;
    part.sort((one, other) => one - other);
    return [part[Math.floor((part.length - 1) * 0.5)], part[Math.floor((part.length - 1) * 0.99)], part.at(-1)];
  });
}

/** The waits so far over time: from half of them to 99 of 100 as a bar, the longest as a dot. */
export function drawWaits(canvas, tracks, now, colours) {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect(), context = canvas.getContext("2d");
  if (!box.width) return;
  canvas.width = box.width * ratio; canvas.height = box.height * ratio;
  context.scale(ratio, ratio);
  const end = Math.max(...tracks.map((track) => track.end)), all = tracks.map((track) => (track.waits ??= track.play.waits()));
  let most = 100;
  for (const waits of all) for (let at = 2; at < waits.length; at += 3) most = Math.max(most, waits[at]);
  context.fillStyle = colours.rule;
  context.fillRect(0, box.height - 1, box.width, 1);
  all.forEach((waits, side) => {
    context.fillStyle = side ? colours.good : colours.held;
    const wide = (box.width - 4) / PARTS, y = (wait) => (box.height - 5) * (1 - wait / most);
    quantiles(waits, end, now).forEach((part, at) => {
      if (!part) return;
      const [half, most99, longest] = part.map(y), x = at * wide + (side ? wide / 2 : 0);
      context.fillRect(x, most99, Math.max(1.5, wide / 2 - 2), Math.max(2, half - most99 + 1));
      context.beginPath(); context.arc(x + wide / 4 - 0.5, longest, 1.6, 0, 7); context.fill();
    });
  });
  context.fillStyle = colours.soft;
  context.font = "11px system-ui, sans-serif";
  context.fillText(`waits: p50 to p99, and the longest; up to ${most} ms`, 2, 10);
}

/** The lanes as a table, for those who do not see them. */
export function showTable(clients, track) {
  const { play } = track;
  const body = $("rows"), rows = [];
  const listing = [];
  for (let at = 0, who = 0; at < clients.length; at += 6, who++) {
    const [shade, line, token, rounds, , since] = clients.slice(at, at + 6);
    const code = (listing[who] ??= play.listing(who).split("\n"))[line]?.trim() ?? "";
    rows.push([track.label(who), SHADES[shade], isOver(shade) ? "" : code, token ? String(token) : "", String(rounds), since === NEVER ? "" : `${since} ms`]);
  }
  const key = JSON.stringify(rows);
  if (body.dataset.key === key) return;
  body.dataset.key = key;
  body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    cells.forEach((text, number) => {
      const cell = document.createElement(number ? "td" : "th");
      if (!number) cell.scope = "row";
      cell.textContent = text;
      row.append(cell);
    });
    return row;
  }));
}
