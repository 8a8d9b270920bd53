// The lessons: a run with a question before it, and what it comes to.
import { told } from "./playground.js";
import { KIND } from "./lanes.js";
import { put } from "./panels.js";
import { stepsOf } from "./scheduler.js";
import { lanes, main, state } from "./shown.js";

const $ = (id) => document.getElementById(id);

export let lessons = [];

export function readLessons(text) {
  lessons = text.split("\n\n").map(lessonOf);
}

/** One lesson, of lines `key: text`. */
function lessonOf(text) {
  const lines = text.trim().split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]);
  const of = (key) => lines.find(([one]) => one === key)?.[1] ?? "";
  return { id: of("id"), title: of("title"), goal: of("goal"), ask: of("ask"), answers: lines.filter(([key]) => key === "answer").map(([, answer]) => answer),
    right: Number(of("right")), steps: /;steps=b0/.test(of("link")), run: of("link"), beside: of("beside"), told: of("told"), next: of("next") };
}

/** The lesson that shares the most settings with a link that cannot be opened: the policy counts most. */
export function nearestLesson(run) {
  const parts = run.split(";").slice(1), keys = parts.map((part) => part.split("=")[0]);
  const likeness = (lesson) => lesson.run.split(";").slice(1).reduce((sum, part) => sum + (parts.includes(part) ? (part.startsWith("policy=") ? 9 : 2) : keys.includes(part.split("=")[0]) ? 1 : 0), 0);
  return lessons.reduce((best, lesson) => likeness(lesson) > likeness(best) ? lesson : best);
}

export function showLesson() {
  const lesson = state.lesson, index = lessons.indexOf(lesson);
  put($("rung"), lesson ? `Lesson ${index + 1} of ${lessons.length}` : "A run of your own");
  put($("lesson-title"), lesson?.title ?? state.tracks.map((track) => track.name).join(" beside "));
  put($("goal"), lesson?.goal ?? `${people(state.tracks[0])}, seed ${state.tracks[0].play.get("seed")}. Change the settings, break something, or explore every order.`);
  $("guess").hidden = !lesson;
  put($("ask"), lesson?.ask ?? "");
  for (const number of [0, 1]) {
    put($(`answer-${number}`), lesson?.answers[number] ?? "");
    $(`answer-${number}`).setAttribute("aria-pressed", String(state.guess === number));
  }
  put($("verdict"), "");
  put($("told"), "");
  $("told").hidden = !lesson;
  put($("told-room"), lesson ? lesson.told.replace(/\{\w+\}/g, "00") : ""); // the room that it will need
  put($("next-text"), lesson ? lesson.next : "Back to the lessons");
  put($("next-where"), `→ lesson ${(index + 1) % lessons.length + 1}`);
  put($("why-text"), lesson?.steps ? "Nothing happens by itself here: choose below what happens next." : lesson ? "Watch, or click anything in the lanes to ask why it happened." : "Click anything in the lanes to ask why it happened.");
  $("why-chain").replaceChildren();
  $("why").classList.remove("bad");
  $("scenario").value = lesson?.id ?? "";
  const base = lesson ?? {};
  $("compare").value = state.tracks[1] ? (state.before ? "before" : base.beside ? "lesson" : state.tracks[1].play.get("policy")) : "";
  document.title = lesson ? `${lesson.title} – Tidelock playground` : "Tidelock playground";
}

export function showOutcome() {
  const lesson = state.lesson;
  if (!lesson || state.before) return;
  if (lesson.steps) {
    const isDone = firstBad(main()) < main().count;
    put($("told"), isDone ? lesson.told.replace("{steps}", String(stepsOf(main().play).replace("b0", "").length / 2)).replace("{sold}", main().play.resource()[1]) : "");
    return;
  }
  const track = main(), isTold = state.reached >= lanes.end - 1 || (state.reached > 0 && !state.tracks[1] && lesson === lessons[0] && oversold(track) < track.countAt(state.reached));
  const text = isTold ? told(lesson.told, state.tracks[0].play, (state.tracks[1] ?? state.tracks[0]).play) : "";
  put($("told"), text);
  const verdict = state.guess === null ? "" : !isTold ? "we shall see" : state.guess === lesson.right ? "right" : "not this time";
  put($("verdict"), verdict);
}

function people(track) {
  const processes = Math.ceil(track.clients / track.tasks), many = (count, what) => `${count} ${what}${count > 1 ? (what === "process" ? "es" : "s") : ""}`;
  return `${track.tasks > 1 ? `${many(track.clients, "task")} of ${many(processes, "process")}` : many(track.clients, "client")}${track.crowd ? ` and a crowd of ${track.crowd.toLocaleString("en")}` : ""}`;
}

function firstBad(track) {
  if (track.bad === undefined) {
    track.bad = 0;
    while (track.bad < track.count && ![KIND.Wrong, KIND.Oversold].includes(track.kind(track.bad))) track.bad++;
  }
  return track.bad;
}

function oversold(track) {
  track.oversold ??= Array.from({ length: track.count }, (_, event) => track.kind(event)).indexOf(KIND.Oversold);
  return track.oversold < 0 ? Infinity : track.oversold;
}
