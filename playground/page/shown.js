// What is shown: the runs side by side, the moment of them, and the lanes in which they are drawn.
import { Lanes } from "./lanes.js";

export const lanes = new Lanes(document.getElementById("lanes"));

/** What is shown. `count` is how many events have happened; `now` is the time between them. */
export const state = { lesson: null, tracks: [], side: 0, count: 0, now: 0, reached: 0, plays: false, chosen: 0, holds: 0, before: null, guess: null, shown: "", shownAt: 0, isNamed: false, why: -1, heardAt: 0 };

/** The run that is looked at: of two, the one that was clicked last. */
export const main = () => state.tracks[state.side] ?? state.tracks[0];

/** After so many events. */
export function seek(count, time) {
  const track = main();
  state.count = Math.max(0, Math.min(count, track.count));
  state.now = time ?? (state.count ? track.at(state.count - 1) : 0);
  state.reached = Math.max(state.reached, state.now);
  lanes.follow(state.now);
}

export function seekTime(time) {
  const bounded = Math.max(0, Math.min(time, lanes.end));
  seek(main().countAt(bounded), bounded);
}
