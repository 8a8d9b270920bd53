// The search, in a worker: it says how far it is, and stops when it is told.
import init, { Hunt } from "./playground.js";

let hunt, isStopped = false;
const ready = init({ module_or_path: new URL("playground_bg.wasm", import.meta.url) });

onmessage = async ({ data }) => {
  if (data === "stop") { isStopped = true; return; }
  await ready;
  try {
    hunt = new Hunt(data.link, data.promise, data.pauses, data.crashes, data.failovers);
    isStopped = false;
    portion(performance.now());
  } catch (error) { postMessage({ trouble: String(error) }); }
};

function portion(began) {
  let goesOn = true;
  try {
    const until = performance.now() + 60;
    while (goesOn && performance.now() < until) goesOn = hunt.go_on(200);
    const took = performance.now() - began, over = !goesOn || isStopped;
    postMessage({ states: hunt.states(), steps: hunt.steps(), took, over, stopped: isStopped && goesOn, found: over ? hunt.found() : "" });
    if (!over) setTimeout(portion, 0, began);
  } catch (error) { postMessage({ trouble: `the search ended: ${error}` }); }
}
