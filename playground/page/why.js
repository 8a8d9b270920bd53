// Why? One sentence for an event, and the events that led to it, marked in the lanes.
import { KIND, breaksPromise, isFenced } from "./lanes.js";
import { say } from "./news.js";
import { put } from "./panels.js";
import { lanes, main, state } from "./shown.js";

const $ = (id) => document.getElementById(id);

/** Shows what an event is, and the chain of its causes. */
export function why(event) {
  const track = main();
  state.why = event;
  state.isNamed = false;
  const chain = [...track.play.chain(event)];
  lanes.marked = { track: state.side, events: chain };
  put($("why-text"), track.play.sentence(event));
  $("why").classList.toggle("bad", breaksPromise(track, event));
  const causes = chain.filter((one) => one !== event && ![KIND.Reply, KIND.Call].includes(track.kind(one))).slice(0, 7);
  $("why-chain").replaceChildren(...causes.map((one) => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.textContent = track.play.sentence(one);
    button.dataset.event = one;
    item.append(button);
    return item;
  }));
}

/** Shows an event on demand, and says it. */
export function answer(event) {
  why(event);
  say($("why-text").textContent);
}

/** The first of what should not be missed in a run; -1: nothing. */
export function worstOf(track) {
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
