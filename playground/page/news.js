// What the page says: to those who do not see the lanes, and to everybody when something went wrong.
import { isDecisive } from "./lanes.js";
import { put } from "./panels.js";
import { main, state } from "./shown.js";

const $ = (id) => document.getElementById(id);
const HEARD_FOR = 1000; // how long what was said is left alone

export function trouble(sentence) {
  $("trouble").hidden = !sentence;
  put($("trouble"), sentence ?? "");
}

/** An error as the beginning of a sentence. */
export function sentence(error) {
  const text = String(error);
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
}

/** Says this to those who do not see the lanes, when what was said before is over. */
export function say(text) {
  put($("news"), text);
}

/** Says what a run is about, as it happens. It is not said more often than it can be heard. */
export function announce(track, event, at) {
  if (at < state.heardAt + HEARD_FOR) return;
  state.heardAt = at;
  say(state.tracks.length > 1 ? `${track === state.tracks[0] ? "Above" : "Below"}: ${track.play.sentence(event)}` : track.play.sentence(event));
}

/** The same for the other run, from this time to the present. */
export function announceBeside(from, at) {
  for (const track of state.tracks) {
    if (track === main()) continue;
    for (let event = track.countAt(from), last = track.countAt(state.now); event < last; event++) if (isDecisive(track, event)) return announce(track, event, at);
  }
}
