// What a run has come to so far: large above the lanes, and in the name of the lanes for those who do not see them.
import { SHADES } from "./lanes.js";
import { lanes, main, state } from "./shown.js";

const $ = (id) => document.getElementById(id);

export function showScore() {
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
  const now = track.countAt(state.now), passed = track.passes.filter((event) => event < now).length;
  const more = [crowd ? `the lowest lane stands for ${crowd.toLocaleString("en")} more` : "", refused ? `${refused} refused by the fence` : "", wrong ? `${wrong} lost update${wrong > 1 ? "s" : ""}` : "", passed ? `${passed} passed on inside a process` : ""];
  return { text, more: more.filter(Boolean), isBad: isBad || wrong > 0 };
}

export function scoreText(track) {
  const { text, more } = figures(track);
  return [text, ...more].filter(Boolean).join(", ");
}

/** For those who do not see the lanes: their name. */
export function showSummary(clients) {
  const groups = new Map();
  for (let at = 0; at < clients.length; at += 6) groups.set(clients[at], [...(groups.get(clients[at]) ?? []), main().label(at / 6)]);
  const parts = [...groups].map(([shade, who]) => `${who.length > 6 ? `${who.length} clients` : who.join(", ")}: ${SHADES[shade]}`);
  const scores = state.tracks.map((track, side) => `${state.tracks.length > 1 ? `${side ? "Below" : "Above"}, ${track.name}: ` : ""}${scoreText(track)}`);
  const where = state.plays ? "running" : `at ${Math.round(state.now)} ms of ${lanes.end}`;
  $("lanes").setAttribute("aria-label", `Lanes over time, ${where}. ${parts.join(". ")}. ${scores.filter(Boolean).join(". ")}.`);
  state.isNamed = true;
}
