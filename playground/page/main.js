// The page: loads the module, draws every frame, and says what keys and buttons do.
import init from "./playground.js";
import { choose, policies, setUpChoices, showChoices } from "./choices.js";
import { act, beScheduler, change, schedule, shortest, startOver, takeBack, toggleBefore, undo } from "./forks.js";
import { help, setUpHelp } from "./help.js";
import { setUpKnobs } from "./knobs.js";
import { clientOf } from "./lanes.js";
import { readLessons, showOutcome } from "./lesson.js";
import * as link from "./link.js";
import { say, trouble } from "./news.js";
import * as panels from "./panels.js";
import { advance, play, showClock, showSpeed, step, toEnd } from "./player.js";
import { compare, go, nextLesson, openAddress, openHistory, openRun } from "./runs.js";
import { showScore, showSummary } from "./score.js";
import { setUpSearch } from "./search.js";
import { lanes, main, seek, seekTime, state } from "./shown.js";
import { answer } from "./why.js";

const $ = (id) => document.getElementById(id);
const { put } = panels;

async function start() {
  try {
    const texts = fetch(new URL("lessons.txt", import.meta.url)).then((reply) => reply.text());
    await init({ module_or_path: new URL("playground_bg.wasm", import.meta.url) });
    readLessons(await texts);
  } catch (error) {
    return trouble(`The playground's module could not be loaded (${error}). It needs a browser with WebAssembly, and a web server that serves the folder.`);
  }
  setUpChoices();
  setUpHelp();
  setUpKnobs(policies, change);
  showSpeed();
  setUpSearch({ policies, open: (found) => { openRun(found); play(true); }, current: () => main().play.link() });
  wire();
  openAddress(location.hash);
  requestAnimationFrame(frame);
}

let last = 0;
function frame(at) {
  const passed = Math.min(100, at - last);
  last = at;
  const began = performance.now();
  if (state.plays) advance(passed, at);
  // The lanes first: all beside them comes a frame later.
  if (meter.drawn) render(); else { drawFirst(); meter.drawn = true; performance.mark("drawn"); }
  meter.frames.push(performance.now() - began);
  if (meter.frames.length > 600) meter.frames.shift();
  requestAnimationFrame(frame);
}

/** What the tests and the benchmark read. */
const meter = { frames: [] };

/** The first picture: the lanes and the score alone. */
function drawFirst() {
  lanes.draw(state.now, state.reached);
  showScore();
}

function render() {
  const track = main();
  lanes.chosen = state.chosen;
  lanes.draw(state.now, state.reached);
  // What a lesson comes to is told at its end, where no event happens.
  const key = [state.count, state.side, state.plays || state.now, state.reached >= lanes.end - 1].join(), at = performance.now();
  if (state.shown === key || (state.plays && at - state.shownAt < 70 && state.shown)) return showClock();
  state.shown = key;
  state.shownAt = at;
  for (const [side, one] of state.tracks.entries()) one.play.seek(side === state.side ? state.count : one.countAt(state.now));
  const clients = track.play.clients();
  panels.showLine(track, state.now, clients);
  panels.showStore(track);
  panels.showResource(track.play, track, state.count);
  panels.showCode(track.play, state.chosen, clients);
  panels.showCounters(state.tracks, state.now);
  panels.drawWaits($("waits"), state.tracks, state.now, lanes.c);
  if ($("as-table").open) panels.showTable(clients, track);
  showClock();
  showScore();
  showOutcome();
  if (!state.plays || !state.isNamed) showSummary(clients);
}

/** Goes to an event, chooses its client, and says why it happened. */
function ask(event) {
  const who = clientOf(main(), event);
  play(false);
  seek(event + 1);
  if (who >= 0) choose(who);
  answer(event);
}

function wire() {
  const on = (id, what, event = "click") => $(id).addEventListener(event, what);
  on("run", () => play(!state.plays));
  on("back", () => step(-1));
  on("forth", () => step(1));
  on("first", () => { play(false); seek(0); });
  on("last", toEnd);
  on("time", () => { play(false); seekTime(Number($("time").value)); }, "input");
  // The button is another one now: who presses it twice must not pass over a lesson.
  on("next", () => { nextLesson(); $("lesson-title").focus(); });
  on("speed", showSpeed, "input");
  for (const list of ["writes", "why-chain"]) on(list, ({ target }) => { const button = target.closest("button"); if (button) ask(Number(button.dataset.event)); });
  on("history", ({ target }) => target.files[0] && openHistory(target.files[0]), "change");
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files[0]) openHistory(event.dataTransfer.files[0]); });
  on("schedule", beScheduler);
  on("take-back", takeBack);
  on("start-over", startOver);
  on("shortest", shortest);
  $("choices").addEventListener("click", ({ target }) => { const button = target.closest("button"); if (button) schedule(button.dataset.choice); });
  on("undo", undo);
  on("before", toggleBefore);
  on("scenario", ({ target }) => target.value && go({ lesson: target.value }), "change");
  on("compare", ({ target }) => compare(target.value), "change");
  on("who", ({ target }) => choose(Number(target.value)), "change");
  on("victim", ({ target }) => choose(Number(target.value)), "change");
  for (const number of [0, 1]) on(`answer-${number}`, () => { state.guess = number; for (const one of [0, 1]) $(`answer-${one}`).setAttribute("aria-pressed", String(one === number)); state.shown = ""; });
  $("faults").addEventListener("click", ({ target }) => target.dataset.act && act(target.dataset.act, Number(target.dataset.by), Boolean(target.dataset.server)));
  on("as-table", () => { state.shown = ""; }, "toggle");
  on("share", share);
  on("copy", async () => {
    try { await navigator.clipboard.writeText($("share-link").value); put($("copied"), "copied"); } catch { $("share-link").select(); put($("copied"), "select it, and copy it"); }
  });
  on("help", help);
  on("theme", () => {
    const isDark = document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    lanes.isStale = true;
    state.shown = "";
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { lanes.isStale = true; state.shown = ""; });
  on("explore", () => $("explore-box").showModal());
  on("lanes", click);
  on("lanes", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    lanes.zoom(event.deltaY > 0 ? 1.25 : 0.8, lanes.time(event.offsetX));
  }, "wheel");
  addEventListener("keydown", key);
  addEventListener("popstate", () => openAddress(location.hash));
  window.playground = { state, meter, lanes, seek, seekTime, play, step, get track() { return main(); } };
}

function click(event) {
  const { index, lane, time, event: found, isOnAxis } = lanes.at(event.offsetX, event.offsetY);
  play(false);
  if (index !== state.side) { state.side = index; state.shown = ""; showChoices(); }
  if (found >= 0 && !isOnAxis && main().at(found) <= state.reached) return ask(found);
  if (lane >= 0) choose(lane);
  seekTime(time);
}

function share() {
  const where = state.lesson && !state.before ? { lesson: state.lesson.id } : { run: state.tracks[0].play.link(), beside: state.tracks[1]?.play.link() };
  const page = location.href.replace(/#.*$/, ""), whole = page + link.write({ ...where, at: state.count });
  $("share-link").value = whole;
  $("share-frame").value = `<iframe src="${page}${link.write({ ...where, embed: true })}" title="Tidelock playground" width="100%" height="560"></iframe>`;
  put($("copied"), "");
  $("share-box").showModal();
  $("share-link").select();
}

const KEYS = {
  " ": () => play(!state.plays), ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => { play(false); seek(0); }, End: toEnd,
  ArrowUp: () => choose(state.chosen - 1), ArrowDown: () => choose(state.chosen + 1), "+": () => lanes.zoom(0.6, state.now), "=": () => lanes.zoom(0.6, state.now),
  "-": () => lanes.zoom(1.6, state.now), 0: () => lanes.zoom(1e9), p: () => act("pause", 3000), k: () => act("kill", 0), x: () => act("partition", 3000),
  f: () => act("failover", 0, true), r: () => act("restart", 300, true), n: () => { nextLesson(); say(`${$("rung").textContent}: ${$("lesson-title").textContent}`); }, e: () => $("explore-box").showModal(), s: share, "?": help,
};

for (const digit of [1, 2, 3, 4]) KEYS[digit] = () => { const it = $("choices").querySelector(`[data-choice=s${digit - 1}]`); if (!$("scheduler").hidden && it && !it.disabled) schedule(it.dataset.choice); };

function key(event) {
  const { target } = event, isField = target.closest("input, select, textarea, dialog"), isScroller = target.closest(".table-box, .code-box, pre");
  if (event.ctrlKey || event.metaKey || event.altKey || isField) return;
  if (event.key === " " && target.closest("button, summary")) return;
  if (isScroller && event.key.startsWith("Arrow")) return;
  const what = KEYS[event.key];
  if (!what) return;
  event.preventDefault();
  what();
}

addEventListener("error", (event) => trouble(`Something went wrong in the page: ${event.message}. Reload it; the link keeps the run.`));
start().catch((error) => trouble(`The page could not start: ${error}`));
