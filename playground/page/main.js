// The page: which run is shown, which moment of it, and what the keys and buttons do.
import init, { Hunt, Play, changed, policies as policyTexts, told, with_action } from "./playground.js";
import { KIND, LOOKS, Lanes, NONE, SHADE, SHADES, Track, believes, clientOf, isDecisive, isFenced, isNotable, isOver, patterns } from "./lanes.js";
import { History } from "./history.js";
import * as link from "./link.js";
import * as panels from "./panels.js";
import { setUpSearch } from "./search.js";

const $ = (id) => document.getElementById(id);
const { put } = panels;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const HOLDS_ON = 1400; // how long a run stops at something that should not be missed
const HEARD_FOR = 1000; // how long what was said is left alone
const PLAYS_FOR = 8000, FIRST_PLAYS_FOR = 4500; // how long a run takes at speed 0

let lessons = [], policies = [], lanes;
/** What is shown. `count` is how many events have happened; `now` is the time between them. */
const state = { lesson: null, tracks: [], side: 0, count: 0, now: 0, reached: 0, plays: false, chosen: 0, holds: 0, before: null, guess: null, shown: "", shownAt: 0, isNamed: false, why: -1, heardAt: 0 };

async function start() {
  try {
    const texts = fetch(new URL("lessons.txt", import.meta.url)).then((reply) => reply.text());
    await init({ module_or_path: new URL("playground_bg.wasm", import.meta.url) });
    lessons = (await texts).split("\n\n").map(lessonOf);
  } catch (error) {
    return trouble(`The playground's module could not be loaded (${error}). It needs a browser with WebAssembly, and a web server that serves the folder.`);
  }
  policies = table(policyTexts(), 2);
  lanes = new Lanes($("lanes"));
  setUpChoices();
  setUpKnobs();
  showSpeed();
  setUpSearch({ policies, open: (found) => { openRun(found); play(true); }, current: () => main().play.link() });
  wire();
  openAddress(location.hash);
  requestAnimationFrame(frame);
}

/** One lesson, of lines `key: text`. */
function lessonOf(text) {
  const lines = text.trim().split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]);
  const of = (key) => lines.find(([one]) => one === key)?.[1] ?? "";
  return { id: of("id"), title: of("title"), goal: of("goal"), ask: of("ask"), answers: lines.filter(([key]) => key === "answer").map(([, answer]) => answer),
    right: Number(of("right")), steps: /;steps=b0/.test(of("link")), run: of("link"), beside: of("beside"), told: of("told"), next: of("next") };
}

function table(text, width) {
  const cells = text.split("\n"), rows = [];
  for (let at = 0; at + width < cells.length + 1 && cells.length - at > 1; at += width) rows.push(cells.slice(at, at + width));
  return rows;
}

function trouble(sentence) {
  $("trouble").hidden = !sentence;
  put($("trouble"), sentence ?? "");
}

const main = () => state.tracks[state.side] ?? state.tracks[0];

// ---- what is shown

function openAddress(hash) {
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

/** The lesson that shares the most settings with a link that cannot be opened: the policy counts most. */
function nearestLesson(run) {
  const parts = run.split(";").slice(1), keys = parts.map((part) => part.split("=")[0]);
  const likeness = (lesson) => lesson.run.split(";").slice(1).reduce((sum, part) => sum + (parts.includes(part) ? (part.startsWith("policy=") ? 9 : 2) : keys.includes(part.split("=")[0]) ? 1 : 0), 0);
  return lessons.reduce((best, lesson) => likeness(lesson) > likeness(best) ? lesson : best);
}

/** A run begins by itself; for those who want no motion, its end is shown. */
function begin() {
  if (still.matches) toEnd();
  else play(true);
}

function sentence(error) {
  const text = String(error);
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
}

function openLesson(lesson) {
  state.lesson = lesson;
  state.guess = null;
  state.before = null;
  show(lesson.run, lesson.beside);
}

function openRun(run, beside = "") {
  show(run, beside);
  const same = lessons.find((lesson) => lesson.run === state.tracks[0].play.link() && lesson.beside === (beside || ""));
  state.lesson = same ?? null;
  state.guess = null;
  showLesson();
}

/** Shows a history that a failed trial has saved. */
async function openHistory(file) {
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
function show(run, beside = "", at = 0) {
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
  if (one.get("segments") !== "1") more.push(`${one.get("segments")} segments`);
  return [policy, ...more].join(", ");
}

/** After so many events. */
function seek(count, time) {
  const track = main();
  state.count = Math.max(0, Math.min(count, track.count));
  state.now = time ?? (state.count ? track.at(state.count - 1) : 0);
  state.reached = Math.max(state.reached, state.now);
  lanes.follow(state.now);
}

function seekTime(time) {
  const bounded = Math.max(0, Math.min(time, lanes.end));
  seek(main().countAt(bounded), bounded);
}

function play(isOn) {
  if (isOn && state.now >= lanes.end) seek(0);
  state.plays = isOn;
  state.holds = 0;
  put($("run"), isOn ? "❚❚ pause" : "▶ run");
  $("run").setAttribute("aria-label", isOn ? "Pause" : "Run");
}

/** One operation back or forward: a request that was carried out, or something that happened to a client. */
function step(direction) {
  play(false);
  const track = main();
  let count = state.count;
  do count += direction; while (count > 0 && count < track.count && !isStep(track, count - 1));
  seek(count);
  if (state.count) answer(state.count - 1);
}

/** To the end, and to what should not be missed. */
function toEnd() {
  play(false);
  seekTime(lanes.end);
  const worst = worstOf(main());
  if (worst >= 0) answer(worst);
}

/** The first of what should not be missed in a run; -1: nothing. */
function worstOf(track) {
  const { broken } = track.play.saved ?? {};
  if (broken) return broken.to;
  let best = -1, rank = 0;
  for (let event = 0; event < track.count; event++) {
    const its = WORST.indexOf(track.kind(event)) + 1 || (isFenced(track, event) ? WORST.length + 1 : 0);
    if (its > rank) { best = event; rank = its; }
  }
  return best;
}

/** What should not be missed, the worst last. */
const WORST = [KIND.Act, KIND.Expired, KIND.Lost, KIND.Overlap, KIND.Oversold, KIND.Wrong];

const QUIET = new Set([KIND.Call, KIND.Reply, KIND.Hint]);
function isStep(track, event) {
  return !QUIET.has(track.kind(event)) && !(track.kind(event) === KIND.Done && track.a(event) === 3);
}

// ---- every frame

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

function advance(passed, at) {
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

// ---- what is said to those who do not see the lanes

function say(text) { put($("news"), text); }

/** Says what a run is about, as it happens. It is not said more often than it can be heard. */
function announce(track, event, at) {
  if (at < state.heardAt + HEARD_FOR) return;
  state.heardAt = at;
  say(state.tracks.length > 1 ? `${track === state.tracks[0] ? "Above" : "Below"}: ${track.play.sentence(event)}` : track.play.sentence(event));
}

/** The same for the other run, from this time to the present. */
function announceBeside(from, at) {
  for (const track of state.tracks) {
    if (track === main()) continue;
    for (let event = track.countAt(from), last = track.countAt(state.now); event < last; event++) if (isDecisive(track, event)) return announce(track, event, at);
  }
}

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
  panels.showLine(track, state.now);
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

function showClock() {
  put($("clock"), `${Math.round(state.now).toLocaleString("en")} ms`);
  const slider = $("time"), value = String(Math.round(state.now));
  if (slider.max !== String(lanes.end)) slider.max = lanes.end;
  if (slider.value !== value && (state.plays || document.activeElement !== slider)) slider.value = value;
  const text = `${value} ms of ${lanes.end}`;
  if (slider.getAttribute("aria-valuetext") !== text) slider.setAttribute("aria-valuetext", text);
}

function showSpeed() {
  const times = 2 ** Number($("speed").value), text = times < 1 ? `1/${1 / times}×` : `${times}×`;
  put($("speed-text"), text);
  $("speed").setAttribute("aria-valuetext", text);
}

function showScore() {
  [$("score"), $("score-2")].forEach((score, side) => {
    const track = state.tracks[side];
    score.hidden = !track;
    if (track) scoreOf(score, track, state.tracks.length > 1 ? (side ? "below" : "above") : "");
  });
}

function scoreOf(score, track, where) {
  const { text, more, isBad } = figures(track), line = [where, ...more].filter(Boolean).join(" · "), key = `${text}|${line}`;
  if (score.dataset.key !== key) {
    score.dataset.key = key;
    const small = document.createElement("small");
    small.textContent = line;
    score.replaceChildren(text, small);
  }
  score.classList.toggle("bad", isBad);
}

/** What a run has come to so far. */
function figures(track) {
  const [, sold, initial, accepted, refused, , wrong, , , most, database, cache] = track.play.resource();
  const work = track.play.get("work"), permits = Number(track.play.get("permits")), crowd = Number(track.play.get("crowd"));
  const [text, isBad] = work === "sale" ? [`${sold} sold of ${initial}`, sold > initial] : work === "seats" ? [`${most} sat at ${permits} counters`, most > permits]
    : work === "cache" ? [`database ${database} ${database === cache ? "=" : "≠"} cache ${cache}`, database !== cache] : [work === "history" ? "" : `${accepted} written`, wrong > 0];
  const more = [crowd ? `the lowest lane stands for ${crowd.toLocaleString("en")} more` : "", refused ? `${refused} refused by the fence` : "", wrong ? `${wrong} lost update${wrong > 1 ? "s" : ""}` : ""];
  return { text, more: more.filter(Boolean), isBad: isBad || wrong > 0 };
}

function scoreText(track) {
  const { text, more } = figures(track);
  return [text, ...more].filter(Boolean).join(", ");
}

/** For those who do not see the lanes: their name. */
function showSummary(clients) {
  const groups = new Map();
  for (let at = 0; at < clients.length; at += 6) groups.set(clients[at], [...(groups.get(clients[at]) ?? []), main().label(at / 6)]);
  const parts = [...groups].map(([shade, who]) => `${who.length > 6 ? `${who.length} clients` : who.join(", ")}: ${SHADES[shade]}`);
  const scores = state.tracks.map((track, side) => `${state.tracks.length > 1 ? `${side ? "Below" : "Above"}, ${track.name}: ` : ""}${scoreText(track)}`);
  const where = state.plays ? "running" : `at ${Math.round(state.now)} ms of ${lanes.end}`;
  $("lanes").setAttribute("aria-label", `Lanes over time, ${where}. ${parts.join(". ")}. ${scores.filter(Boolean).join(". ")}.`);
  state.isNamed = true;
}

// ---- why?

/** Shows an event on demand, and says it. */
function answer(event) {
  why(event);
  say($("why-text").textContent);
}

/** The same, at its moment, and for its client. */
function ask(event) {
  const who = clientOf(main(), event);
  play(false);
  seek(event + 1);
  if (who >= 0) choose(who);
  answer(event);
}

function why(event) {
  const track = main();
  state.why = event;
  state.isNamed = false;
  const chain = [...track.play.chain(event)];
  lanes.marked = { track: state.side, events: chain };
  put($("why-text"), track.play.sentence(event));
  $("why").classList.toggle("bad", [KIND.Wrong, KIND.Oversold, KIND.Overlap].includes(track.kind(event)));
  const causes = chain.filter((one) => one !== event && ![KIND.Reply, KIND.Call].includes(track.kind(one))).slice(0, 7);
  $("why-chain").replaceChildren(...causes.map((one) => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.textContent = track.play.sentence(one);
    button.addEventListener("click", () => ask(one));
    item.append(button);
    return item;
  }));
}

// ---- the lesson

function showLesson() {
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

function showOutcome() {
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
  return `${track.clients} client${track.clients > 1 ? "s" : ""}${track.crowd ? ` and a crowd of ${track.crowd.toLocaleString("en")}` : ""}`;
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

function nextLesson() {
  const index = lessons.indexOf(state.lesson);
  go({ lesson: lessons[(index + 1) % lessons.length].id });
  say(`${$("rung").textContent}: ${state.lesson.title}`);
}

/** Shows what this address says, and remembers it. */
function go(where) {
  const hash = link.write(where);
  history.pushState(null, "", hash);
  openAddress(hash);
}

// ---- what is done to the run

function act(name, by, isServer) {
  const track = main(), at = Math.round(state.now), who = isServer ? Number($("master").value) : state.chosen, old = track.play.link();
  let run;
  try { run = with_action(old, `${at}.${name}.${who}.${by}`); } catch (error) { return trouble(sentence(error)); }
  state.before = state.before?.run ? { ...state.before } : { run: old, lesson: state.lesson };
  reopen(run, at);
}

/** Another run instead of this one, from this time on. */
function reopen(run, at) {
  const beside = state.tracks.length > 1 && !state.before ? state.tracks[1].play.link() : "", reached = state.reached;
  try { show(run, beside); } catch (error) { return trouble(sentence(error)); }
  state.lesson = null;
  showLesson();
  seekTime(at);
  state.reached = Math.min(reached, at);
  $("undo").hidden = $("before").hidden = !state.before;
  $("before").setAttribute("aria-pressed", "false");
  history.replaceState(null, "", link.write({ run, beside }));
  play(true);
}

function undo() {
  if (!state.before) return;
  const { run, lesson } = state.before, at = state.now;
  state.before = null;
  show(run);
  state.lesson = lesson;
  showLesson();
  seekTime(at);
  play(false);
  $("undo").hidden = $("before").hidden = true;
  history.replaceState(null, "", lesson ? link.write({ lesson: lesson.id }) : link.write({ run }));
}

function toggleBefore() {
  const isOn = $("before").getAttribute("aria-pressed") !== "true", run = state.tracks[0].play.link(), at = state.now, reached = state.reached;
  show(run, isOn ? state.before.run : "");
  if (isOn) state.tracks[1].name = `before: ${state.tracks[1].name}`;
  seekTime(at);
  state.reached = reached;
  $("before").setAttribute("aria-pressed", String(isOn));
}

// ---- you are the scheduler

const stepsOf = (one) => one.get("steps");

/** The same clients, one round each, in an order that is still to be chosen. */
function beScheduler() {
  const policy = main().play.get("policy"), fence = main().play.get("fence"), clients = Math.min(4, main().lanes);
  go({ run: `v2;policy=${policy};clients=${clients};stock=1;rounds=1;fence=${fence};steps=b0` });
}

function schedule(choice) {
  const run = main().play.link(), steps = stepsOf(main().play);
  reschedule(changed(run, "steps", steps + choice));
}

function takeBack() {
  const steps = stepsOf(main().play);
  if (steps.length > 2) reschedule(changed(main().play.link(), "steps", steps.slice(0, -2)));
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
    for (let one = event; one >= 0 && one > event - 6; one--) if ([KIND.Wrong, KIND.Oversold, KIND.Overlap].includes(main().kind(one))) { event = one; break; }
    if (event === main().count - 1) while (event > 0 && QUIET.has(main().kind(event))) event--;
    answer(event);
  }
  play(false);
  if (!state.lesson) history.replaceState(null, "", link.write({ run }));
}

/** The buttons for what can happen next. */
function showScheduler() {
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
    buttons.push(make(`c${who + 1}`, `s${who}`, state, isOver(shade) || !track.play.can_step(who)));
  }
  for (let who = 0; who < track.lanes; who++) if (!isOver(clients[who * 6]) && (clients[who * 6 + 2] || believes(clients[who * 6]))) buttons.push(make(`c${who + 1} pauses past its lease`, `p${who}`), make(`c${who + 1} dies`, `k${who}`));
  $("choices").replaceChildren(...buttons);
}

/** The line that a client runs next: comments are passed over. */
function nextLine(listing, line) {
  while (/^\s*(\/\/|loop)/.test(listing[line] ?? "")) line++;
  return (listing[line] ?? "").trim().replace(/\s*(\/\/|\{).*$/, "").slice(0, 40);
}

/** What the search finds for the present clients, as the run. */
function shortest() {
  const play = main().play, policy = play.get("policy"), isBare = ["none", "thread", "unread", "early"].includes(policy);
  const link = changed(changed(play.link(), "steps", ""), "stock", "1");
  for (const [promise, pauses, crashes] of [[1, 0, 0], [1, isBare ? 0 : 1, 0], [4, 0, 1]]) {
    const hunt = new Hunt(link, promise, pauses, crashes, 0), until = performance.now() + 2500;
    while (hunt.go_on(500) && performance.now() < until);
    const found = hunt.found();
    hunt.free();
    if (found) return reschedule(found);
  }
  put($("why-text"), "The search found no way, with one pause or one crash.");
}

// ---- choices and settings

const KNOBS = [["clients", "Clients", 1, 200], ["crowd", "And a crowd, in one lane, of", 0, 100000], ["arrival", "They come", ["steady", "steadily"], ["once", "all at once"], ["poisson", "by chance (Poisson)"], ["bursts", "in waves"]], ["seed", "Seed", 0, 999999], ["stock", "Items", 0, 100000], ["rounds", "Rounds (0: until sold out)", 0, 10000],
  ["ttl", "Lease, ms", 50, 60000], ["renew", "Renewed", ["0", "no"], ["1", "yes"]], ["fence", "Fence checks", ["2", "reads and writes"], ["1", "writes"], ["0", "nothing"]],
  ["flavour", "News by", ["push", "push (Redis)"], ["watch", "watch (ZooKeeper)"], ["range", "watch (etcd)"], ["poll", "poll (MySQL)"]],
  ["latency", "A message takes, ms", 0, 1000], ["loss", "Lost messages, %", 0, 90], ["hold", "The work takes, ms", 0, 20000], ["gap", "Between rounds, ms", 0, 20000],
  ["poll", "Between polls, ms", 5, 5000], ["permits", "Permits", 1, 200], ["segments", "Segments", 1, 8], ["writers", "Writers", 0, 200], ["end", "Length, ms", 500, 600000]];

function setUpKnobs() {
  const policy = labelled("Policy", options(policies));
  policy.dataset.key = "policy";
  const kind = labelled("Lock, and what it protects", options(LOCKS.map(([word, name]) => [word, name])));
  kind.dataset.key = "kind";
  const boxes = [policy, kind, ...KNOBS.map(([key, name, ...rest]) => {
    const isNumber = typeof rest[0] === "number", field = isNumber ? Object.assign(document.createElement("input"), { type: "number", min: rest[0], max: rest[1] }) : options(rest);
    const box = labelled(name, field);
    box.dataset.key = key;
    return box;
  })];
  $("knobs").replaceChildren(...boxes);
  // Whether the resource checks tokens is the resource's: it stands there.
  $("fence").replaceChildren(boxes.find((box) => box.dataset.key === "fence"));
  for (const place of ["knobs", "fence"]) $(place).addEventListener("change", ({ target }) => {
    const key = target.closest("label").dataset.key;
    trouble("");
    try {
      state.before = null;
      $("undo").hidden = $("before").hidden = true;
      const old = main().play.link();
      let run = key === "kind" ? withLock(old, target.value) : changed(old, key, target.value);
      if (run.includes(";steps=")) run = changed(run, "steps", "");
      reopen(run, 0);
    } catch (error) { trouble(sentence(error)); showChoices(); }
  });
}

/** Kinds of locks: a word, a name, and the settings that make it. */
const LOCKS = [["mutex", "mutex: a sale", "sale", 1], ["striped", "striped: a sale in segments, a mutex for each", "sale", 8], ["pages", "read-write lock: readers and writers", "pages", 1],
  ["seats", "semaphore: counters", "seats", 1], ["cache", "mutex: a database and a cache", "cache", 1]];

function withLock(run, word) {
  const [, , work, segments] = LOCKS.find(([one]) => one === word);
  return changed(changed(run, "work", work), "segments", String(segments));
}

function lockOf(play) {
  return play.get("work") === "sale" ? (play.get("segments") === "1" ? "mutex" : "striped") : play.get("work");
}

function labelled(name, field) {
  const label = document.createElement("label");
  label.append(name, field);
  return label;
}

function options(rows) {
  const field = document.createElement("select");
  field.append(...rows.map(([value, text]) => new Option(text, value)));
  return field;
}

function setUpChoices() {
  $("scenario").append(...lessons.map((lesson, index) => new Option(`${index + 1}. ${lesson.title}`, lesson.id)), new Option("A run of your own", "", false, false));
  $("compare").append(new Option("nothing", ""), ...policies.map(([word, name]) => new Option(name, word)));
  const legend = $("legend");
  legend.replaceChildren(...[SHADE.Waiting, SHADE.Held, SHADE.Jeopardy, SHADE.Stale, SHADE.PausedStale, SHADE.Bare, SHADE.Paused, SHADE.PausedHolding, SHADE.Dead].map((shade) => {
    const row = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd"), sample = document.createElement("canvas");
    sample.dataset.shade = shade;
    sample.width = 42; sample.height = 16;
    sample.setAttribute("role", "img");
    sample.setAttribute("aria-label", LOOKS[shade]);
    dt.append(sample);
    dd.textContent = SHADES[shade];
    row.append(dt, dd);
    return row;
  }));
}

function showChoices() {
  const track = main(), names = Array.from({ length: track.lanes }, (_, who) => track.label(who));
  for (const list of [$("who"), $("victim")]) {
    if (list.options.length !== names.length || list.options[0].text !== names[0] || list.options[names.length - 1].text !== names.at(-1)) list.replaceChildren(...names.map((name, who) => new Option(name, who)));
    list.value = String(state.chosen);
  }
  for (const box of [...$("knobs").children, ...$("fence").children]) box.lastChild.value = box.dataset.key === "kind" ? lockOf(track.play) : track.play.get(box.dataset.key);
  $("fence").hidden = !track.hasLine || !["sale", "pages"].includes(track.play.get("work"));
  $("master").hidden = track.servers < 2;
  if (track.servers < 2) $("master").value = "0";
  showScheduler();
  const extra = $("compare").querySelector("[value=lesson]");
  if (state.tracks[1] && !extra) $("compare").append(new Option("as in the lesson", "lesson"), new Option("the run before", "before"));
  $("undo").hidden = $("before").hidden = !state.before;
}

function choose(who) {
  state.chosen = Math.max(0, Math.min(main().lanes - 1, who));
  $("who").value = $("victim").value = String(state.chosen);
  state.shown = "";
}

function compare(word) {
  const run = state.tracks[0].play.link();
  if (word === "lesson" && state.lesson) return go({ lesson: state.lesson.id });
  if (word === "before") return;
  try {
    const beside = word ? changed(run, "policy", word) : "", at = state.now;
    state.before = null;
    go({ run, beside });
    if (at) seekTime(0);
  } catch (error) { trouble(sentence(error)); }
}

// ---- keys, clicks

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
  $("writes").addEventListener("click", ({ target }) => { const badge = target.closest("button"); if (badge) ask(Number(badge.dataset.event)); });
  on("history", ({ target }) => target.files[0] && openHistory(target.files[0]), "change");
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files[0]) openHistory(event.dataTransfer.files[0]); });
  on("schedule", beScheduler);
  on("take-back", takeBack);
  on("start-over", () => reschedule(changed(main().play.link(), "steps", "b0")));
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

function help() {
  const c = lanes.colours(), box = $("help-box");
  for (const sample of box.querySelectorAll("canvas")) {
    const context = sample.getContext("2d");
    context.fillStyle = patterns(context, c, 1)[Number(sample.dataset.shade)];
    context.fillRect(0, 0, 42, 16);
  }
  box.showModal();
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
  f: () => act("failover", 0, true), r: () => act("restart", 300, true), n: nextLesson, e: () => $("explore-box").showModal(), s: share, "?": help,
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
