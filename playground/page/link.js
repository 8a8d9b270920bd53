// The address: everything that is shown. `#lesson=race`, or `#run=…` with `&beside=…`; `&at=` is the moment.

export function read(hash) {
  const parts = new Map(hash.replace(/^#/, "").split("&").filter(Boolean).map((part) => {
    const cut = part.indexOf("=");
    return cut < 0 ? [part, ""] : [part.slice(0, cut), decode(part.slice(cut + 1))];
  }));
  return { lesson: parts.get("lesson"), run: parts.get("run"), beside: parts.get("beside"), at: number(parts.get("at")), embed: parts.has("embed") };
}

export function write({ lesson, run, beside, at, embed }) {
  const parts = [];
  if (lesson) parts.push(`lesson=${lesson}`);
  else parts.push(`run=${run}`, ...(beside ? [`beside=${beside}`] : []));
  if (at !== undefined) parts.push(`at=${at}`);
  if (embed) parts.push("embed");
  return `#${parts.join("&")}`;
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function number(text) {
  return text !== undefined && /^\d{1,7}$/.test(text) ? Number(text) : undefined;
}
