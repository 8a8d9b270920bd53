// What can be chosen: the lesson, what runs beside it, a client, a server.
import { policies as policyTexts } from "./playground.js";
import { showKnobs } from "./knobs.js";
import { lessons } from "./lesson.js";
import { showScheduler } from "./scheduler.js";
import { main, state } from "./shown.js";

const $ = (id) => document.getElementById(id);

/** Every policy: its word in a link, and its name. */
export let policies = [];

export function setUpChoices() {
  policies = table(policyTexts(), 2);
  $("scenario").append(...lessons.map((lesson, index) => new Option(`${index + 1}. ${lesson.title}`, lesson.id)), new Option("A run of your own", "", false, false));
  $("compare").append(new Option("nothing", ""), ...policies.map(([word, name]) => new Option(name, word)));
}

function table(text, width) {
  const cells = text.split("\n"), rows = [];
  for (let at = 0; at + width < cells.length + 1 && cells.length - at > 1; at += width) rows.push(cells.slice(at, at + width));
  return rows;
}

export function showChoices() {
  const track = main(), names = Array.from({ length: track.lanes }, (_, who) => track.label(who));
  for (const list of [$("who"), $("victim")]) {
    if ([...list.options].map((one) => one.text).join() !== names.join()) list.replaceChildren(...names.map((name, who) => new Option(name, who)));
    list.value = String(state.chosen);
  }
  showKnobs(track);
  $("master").hidden = track.servers < 2;
  if (track.servers < 2) $("master").value = "0";
  showScheduler();
  const extra = $("compare").querySelector("[value=lesson]");
  if (state.tracks[1] && !extra) $("compare").append(new Option("as in the lesson", "lesson"), new Option("the run before", "before"));
  $("undo").hidden = $("before").hidden = !state.before;
}

export function choose(who) {
  state.chosen = Math.max(0, Math.min(main().lanes - 1, who));
  $("who").value = $("victim").value = String(state.chosen);
  state.shown = "";
}
