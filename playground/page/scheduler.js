// You are the scheduler: what can happen next, and the shortest way to break it.
import { Hunt, changed } from "./playground.js";
import { SHADES, believes, isOver } from "./lanes.js";
import { main, state } from "./shown.js";

const $ = (id) => document.getElementById(id);

/** The order of a run that somebody chooses; empty for all others. */
export const stepsOf = (one) => one.get("steps");

/** The buttons for what can happen next. */
export function showScheduler() {
  const track = main(), isOn = stepsOf(track.play) !== "" && state.tracks.length === 1;
  $("scheduler").hidden = !isOn;
  $("faults").hidden = isOn;
  if (!isOn) return;
  track.play.seek(track.count);
  const clients = track.play.clients(), buttons = [];
  const make = (text, choice, code, isOff) => {
    const button = document.createElement("button");
    button.type = "button";
    button.disabled = isOff;
    button.dataset.choice = choice;
    button.append(text);
    if (code) { const hint = document.createElement("code"); hint.textContent = ` ${code}`; button.append(hint); }
    return button;
  };
  for (let who = 0; who < track.lanes; who++) {
    const shade = clients[who * 6], listing = track.play.listing(who).split("\n");
    const state = isOver(shade) ? SHADES[shade] : track.play.can_step(who) ? nextLine(listing, clients[who * 6 + 1]) : "waits";
    buttons.push(make(track.label(who), `s${who}`, state, isOver(shade) || !track.play.can_step(who)));
  }
  for (let who = 0; who < track.lanes; who++) if (!isOver(clients[who * 6]) && (clients[who * 6 + 2] || believes(clients[who * 6]))) buttons.push(make(`${track.process(who)} pauses past its lease`, `p${who}`), make(`${track.process(who)} dies`, `k${who}`));
  $("choices").replaceChildren(...buttons);
}

/** The line that a client runs next: comments are passed over. */
function nextLine(listing, line) {
  while (/^\s*(\/\/|loop)/.test(listing[line] ?? "")) line++;
  return (listing[line] ?? "").trim().replace(/\s*(\/\/|\{).*$/, "").slice(0, 40);
}

/** The link of the shortest run of these clients that breaks a promise; empty if none is found soon. */
export function shortestWay(play) {
  const policy = play.get("policy"), isBare = ["none", "thread", "unread", "early"].includes(policy);
  const link = changed(changed(play.link(), "steps", ""), "stock", "1");
  for (const [promise, pauses, crashes] of [[1, 0, 0], [1, isBare ? 0 : 1, 0], [4, 0, 1]]) {
    const hunt = new Hunt(link, promise, pauses, crashes, 0), until = performance.now() + 2500;
    while (hunt.go_on(500) && performance.now() < until);
    const found = hunt.found();
    hunt.free();
    if (found) return found;
  }
  return "";
}
