// The run in time: it plays, stops at what should not be missed, and is stepped.
import { KIND, isDecisive, isNotable } from "./lanes.js";
import { lessons } from "./lesson.js";
import { announce, announceBeside, say } from "./news.js";
import { put } from "./panels.js";
import { scoreText } from "./score.js";
import { lanes, main, seek, seekTime, state } from "./shown.js";
import { answer, why, worstOf } from "./why.js";

const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const HOLDS_ON = 1400; // how long a run stops at something that should not be missed
const PLAYS_FOR = 8000, FIRST_PLAYS_FOR = 4500; // how long a run takes at speed 0

/** A run begins by itself; for those who want no motion, its end is shown. */
export function begin() {
  if (still.matches) toEnd();
  else play(true);
}

export function play(isOn) {
  if (isOn && state.now >= lanes.end) seek(0);
  state.plays = isOn;
  state.holds = 0;
  put($("run"), isOn ? "❚❚ pause" : "▶ run");
  $("run").setAttribute("aria-label", isOn ? "Pause" : "Run");
}

/** One operation back or forward: a request that was carried out, or something that happened to a client. */
export function step(direction) {
  play(false);
  const track = main();
  let count = state.count;
  do count += direction; while (count > 0 && count < track.count && !isStep(track, count - 1));
  seek(count);
  if (state.count) answer(state.count - 1);
}

/** What is no operation of its own. */
export const QUIET = new Set([KIND.Call, KIND.Reply, KIND.Hint]);
function isStep(track, event) {
  return !QUIET.has(track.kind(event)) && !(track.kind(event) === KIND.Done && track.a(event) === 3);
}

/** To the end, and to what should not be missed. */
export function toEnd() {
  play(false);
  seekTime(lanes.end);
  const worst = worstOf(main());
  if (worst >= 0) answer(worst);
}

/** As much of the run as has passed in this frame. */
export function advance(passed, at) {
  if (at < state.holds) return;
  // The first lesson has to make its point before anybody looks away.
  const speed = lanes.end / (state.lesson === lessons[0] ? FIRST_PLAYS_FOR : PLAYS_FOR) * 2 ** Number($("speed").value);
  const before = state.now, until = Math.min(lanes.end, before + passed * speed), track = main();
  const first = state.count, next = track.countAt(until);
  for (let event = first; event < next; event++) {
    if (!isNotable(track, event) || (track.kind(event) === KIND.Overlap && track.kind(event + 1) === KIND.Wrong)) continue;
    const isNew = track.at(event) > state.reached || state.reached === state.now;
    // The wrong write and the sale too many are one thing to look at: the first of them.
    if (track.kind(event) === KIND.Oversold && state.why >= 0 && track.cause(event) === track.cause(state.why)) continue;
    seek(event + 1);
    why(event);
    if (isDecisive(track, event)) announce(track, event, at);
    if (isNew && track.count < 3000) { state.holds = at + HOLDS_ON; return announceBeside(before, at); }
  }
  seek(next, until);
  announceBeside(before, at);
  if (until >= lanes.end) conclude();
}

/** A run has played to its end: what should not be missed stands there. */
function conclude() {
  play(false);
  const worst = worstOf(main());
  if (worst >= 0) why(worst);
  if (!state.lesson) say(`The run is over. ${state.tracks.map(scoreText).join(". ")}.`);
}

export function showClock() {
  put($("clock"), `${Math.round(state.now).toLocaleString("en")} ms`);
  const slider = $("time"), value = String(Math.round(state.now));
  if (slider.max !== String(lanes.end)) slider.max = lanes.end;
  if (slider.value !== value && (state.plays || document.activeElement !== slider)) slider.value = value;
  const text = `${value} ms of ${lanes.end}`;
  if (slider.getAttribute("aria-valuetext") !== text) slider.setAttribute("aria-valuetext", text);
}

export function showSpeed() {
  const times = 2 ** Number($("speed").value), text = times < 1 ? `1/${1 / times}×` : `${times}×`;
  put($("speed-text"), text);
  $("speed").setAttribute("aria-valuetext", text);
}
