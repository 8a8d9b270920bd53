// The help: what each shade means, and which key does what.
import { LOOKS, SHADE, SHADES, patterns } from "./lanes.js";
import { lanes } from "./shown.js";

const $ = (id) => document.getElementById(id);

export function setUpHelp() {
  const legend = $("legend");
  legend.replaceChildren(...[SHADE.Waiting, SHADE.Behind, SHADE.Held, SHADE.Jeopardy, SHADE.Stale, SHADE.PausedStale, SHADE.Bare, SHADE.Paused, SHADE.PausedHolding, SHADE.Dead].map((shade) => {
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

export function help() {
  const c = lanes.colours(), box = $("help-box");
  for (const sample of box.querySelectorAll("canvas")) {
    const context = sample.getContext("2d");
    context.fillStyle = patterns(context, c, 1)[Number(sample.dataset.shade)];
    context.fillRect(0, 0, 42, 16);
  }
  box.showModal();
}
