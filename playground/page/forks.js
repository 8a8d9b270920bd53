// What is done to the run that is open: the past changes, and another run goes on from there.
import { changed, with_action } from "./playground.js";
import { showChoices } from "./choices.js";
import { withKnob } from "./knobs.js";
import { breaksPromise } from "./lanes.js";
import { showLesson } from "./lesson.js";
import * as link from "./link.js";
import { sentence, trouble } from "./news.js";
import { put } from "./panels.js";
import { QUIET, play } from "./player.js";
import { go, show } from "./runs.js";
import { shortestWay, stepsOf } from "./scheduler.js";
import { lanes, main, seekTime, state } from "./shown.js";
import { answer } from "./why.js";

const $ = (id) => document.getElementById(id);

export function act(name, by, isServer) {
  const track = main(), at = Math.round(state.now), who = isServer ? Number($("master").value) : state.chosen, old = track.play.link();
  let run;
  try { run = with_action(old, `${at}.${name}.${who}.${by}`); } catch (error) { return trouble(sentence(error)); }
  state.before = state.before?.run ? { ...state.before } : { run: old, lesson: state.lesson };
  reopen(run, at);
}

/** Changes a setting, and begins again. */
export function change(key, value) {
  trouble("");
  try {
    state.before = null;
    let run = withKnob(main().play.link(), key, value);
    if (run.includes(";steps=")) run = changed(run, "steps", "");
    reopen(run, 0);
  } catch (error) { trouble(sentence(error)); showChoices(); }
}

/** Another run instead of this one, from this time on. */
function reopen(run, at) {
  const beside = state.tracks.length > 1 && !state.before ? state.tracks[1].play.link() : "", reached = state.reached;
  try { show(run, beside); } catch (error) { return trouble(sentence(error)); }
  state.lesson = null;
  showLesson();
  seekTime(at);
  state.reached = Math.min(reached, at);
  $("before").setAttribute("aria-pressed", "false");
  history.replaceState(null, "", link.write({ run, beside }));
  play(true);
}

export function undo() {
  if (!state.before) return;
  const { run, lesson } = state.before, at = state.now;
  state.before = null;
  show(run);
  state.lesson = lesson;
  showLesson();
  seekTime(at);
  play(false);
  history.replaceState(null, "", lesson ? link.write({ lesson: lesson.id }) : link.write({ run }));
}

export function toggleBefore() {
  const isOn = $("before").getAttribute("aria-pressed") !== "true", run = state.tracks[0].play.link(), at = state.now, reached = state.reached;
  show(run, isOn ? state.before.run : "");
  if (isOn) state.tracks[1].name = `before: ${state.tracks[1].name}`;
  seekTime(at);
  state.reached = reached;
  $("before").setAttribute("aria-pressed", String(isOn));
}

/** The same clients, one round each, in an order that is still to be chosen. */
export function beScheduler() {
  const open = main().play, [version] = open.link().split(";"), clients = Math.min(4, main().lanes);
  const policy = open.get("policy"), fence = open.get("fence"), tasks = policy === "cohort" ? ";tasks=2" : "";
  go({ run: `${version};policy=${policy};clients=${clients}${tasks};stock=1;rounds=1;fence=${fence};steps=b0` });
}

export function schedule(choice) {
  const run = main().play.link(), steps = stepsOf(main().play);
  reschedule(changed(run, "steps", steps + choice));
}

export function takeBack() {
  const steps = stepsOf(main().play);
  if (steps.length > 2) reschedule(changed(main().play.link(), "steps", steps.slice(0, -2)));
}

export function startOver() {
  reschedule(changed(main().play.link(), "steps", "b0"));
}

/** What the search finds for the present clients, as the run. */
export function shortest() {
  const found = shortestWay(main().play);
  if (found) reschedule(found); else put($("why-text"), "The search found no way, with one pause or one crash.");
}

/** Shows the run of a schedule, at its end. */
function reschedule(run) {
  const { lesson, guess } = state;
  show(run);
  Object.assign(state, { lesson: lesson?.steps ? lesson : null, guess });
  showLesson();
  seekTime(lanes.end);
  if (main().count) {
    let event = main().count - 1;
    for (let one = event; one >= 0 && one > event - 6; one--) if (breaksPromise(main(), one)) { event = one; break; }
    if (event === main().count - 1) while (event > 0 && QUIET.has(main().kind(event))) event--;
    answer(event);
  }
  play(false);
  if (!state.lesson) history.replaceState(null, "", link.write({ run }));
}
