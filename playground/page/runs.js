// Opens runs: a lesson, a link, a saved history, one policy beside another.
import { Play } from "./playground.js";
import { policies, showChoices } from "./choices.js";
import { History } from "./history.js";
import { withPolicy, withTasks } from "./knobs.js";
import { Track } from "./lanes.js";
import { lessons, nearestLesson, showLesson } from "./lesson.js";
import * as link from "./link.js";
import { sentence, trouble } from "./news.js";
import { put } from "./panels.js";
import { begin, play, toEnd } from "./player.js";
import { stepsOf } from "./scheduler.js";
import { lanes, main, seek, seekTime, state } from "./shown.js";
import { answer } from "./why.js";

const $ = (id) => document.getElementById(id);

/** Opens what this address says. */
export function openAddress(hash) {
  const wanted = link.read(hash);
  document.body.classList.toggle("embed", wanted.embed);
  $("whole").href = location.href.replace(/&embed\b/, "");
  trouble("");
  try {
    if (wanted.run !== undefined) openRun(wanted.run, wanted.beside);
    else openLesson(lessons.find((lesson) => lesson.id === wanted.lesson) ?? lessons[0]);
    if (wanted.lesson && !lessons.some((lesson) => lesson.id === wanted.lesson)) trouble(`There is no lesson "${wanted.lesson.slice(0, 30)}"; this is the first one.`);
  } catch (error) {
    const nearest = nearestLesson(wanted.run ?? "");
    openLesson(nearest);
    trouble(`${sentence(error)}. Shown instead: the lesson "${nearest.title}".`);
  }
  if (stepsOf(main().play) && wanted.at === undefined && state.lesson?.steps) { seekTime(lanes.end); play(false); }
  else if (wanted.at >= main().count) toEnd();
  else if (wanted.at !== undefined) { seek(wanted.at); if (state.count) answer(state.count - 1); play(false); } else begin();
}

function openLesson(lesson) {
  state.lesson = lesson;
  state.guess = null;
  state.before = null;
  show(lesson.run, lesson.beside);
}

export function openRun(run, beside = "") {
  show(run, beside);
  const same = lessons.find((lesson) => lesson.run === state.tracks[0].play.link() && lesson.beside === (beside || ""));
  state.lesson = same ?? null;
  state.guess = null;
  showLesson();
}

/** Shows a history that a failed trial has saved. */
export async function openHistory(file) {
  trouble("");
  try {
    const history = new History(await file.text()), { backend = "", trial = "", why: reason = "", broken } = history.saved;
    if (!history.count()) throw "This history has no events";
    $("explore-box").close();
    state.lesson = state.before = state.guess = null;
    showPlays([history]);
    put($("rung"), `A saved history, on ${backend}`);
    put($("lesson-title"), trial.replaceAll("_", " "));
    put($("goal"), reason);
    for (const id of ["faults", "scheduler", "settings"]) $(id).hidden = true;
    seek(broken ? broken.to + 1 : history.count());
    state.reached = lanes.end;
    answer(state.count - 1);
    play(false);
  } catch (error) { $("explore-box").close(); trouble(sentence(error)); }
}

/** Carries out these runs, and goes to their beginning, or to this moment. */
export function show(run, beside = "", at = 0) {
  $("settings").hidden = false;
  showPlays([new Play(run), ...(beside ? [new Play(beside)] : [])], at);
}

function showPlays(plays, at = 0) {
  for (const track of state.tracks) track.play.free();
  state.tracks = plays.map((one) => new Track(one));
  for (const track of state.tracks) { track.name = nameOf(track.play); track.labels = track.play.labels; }
  state.side = 0;
  state.chosen = Math.min(state.chosen, state.tracks[0].lanes - 1);
  state.shown = "";
  state.reached = 0;
  state.holds = 0;
  lanes.canvas.style.height = `${heightOf(state.tracks)}px`;
  lanes.show(state.tracks);
  lanes.marked = [];
  state.why = -1;
  state.isNamed = false;
  showChoices();
  seek(at);
  showLesson();
}

/** Few lanes need little room, and many shall not need a scroll bar. */
function heightOf(tracks) {
  const rows = tracks.reduce((sum, track) => sum + Math.min(track.lanes, 12) * (tracks.length > 1 ? 34 : innerWidth > 1700 ? 84 : 62) + 60 + 30 * (tracks.length - 1), 0);
  return Math.max(230, Math.min(rows + 40, Math.max(300, innerHeight * 0.46, innerHeight - 500)));
}

function nameOf(one) {
  const policy = policies.find(([word]) => word === one.get("policy"))?.[1] ?? "", more = [];
  if (one.get("renew") === "0" && policy.includes("SET")) more.push("not renewed");
  if (one.get("policy") === "cohort") more.push(`linger ${one.get("linger")} ms`);
  if (one.get("segments") !== "1") more.push(`${one.get("segments")} segments`);
  return [policy, ...more].join(", ");
}

/** Shows what this address says, and remembers it. */
export function go(where) {
  const hash = link.write(where);
  history.pushState(null, "", hash);
  openAddress(hash);
}

export function nextLesson() {
  const index = lessons.indexOf(state.lesson);
  go({ lesson: lessons[(index + 1) % lessons.length].id });
}

export function compare(word) {
  let run = state.tracks[0].play.link();
  if (word === "lesson" && state.lesson) return go({ lesson: state.lesson.id });
  if (word === "before") return;
  try {
    if (word === "cohort") run = withTasks(run); // the same tasks above and below
    const beside = word ? withPolicy(run, word) : "", at = state.now;
    state.before = null;
    go({ run, beside });
    if (at) seekTime(0);
  } catch (error) { trouble(sentence(error)); }
}
