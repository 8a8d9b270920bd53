// The settings of a run as fields, and the kinds of locks with the settings that make each.
import { changed } from "./playground.js";

const $ = (id) => document.getElementById(id);

const KNOBS = [["clients", "Clients", 1, 200], ["crowd", "And a crowd, in one lane, of", 0, 100000], ["tasks", "Tasks of a process", 1, 200], ["linger", "Linger, ms", 0, 20000], ["arrival", "They come", ["steady", "steadily"], ["once", "all at once"], ["poisson", "by chance (Poisson)"], ["bursts", "in waves"]], ["seed", "Seed", 0, 999999], ["stock", "Items", 0, 100000], ["rounds", "Rounds (0: until sold out)", 0, 10000],
  ["ttl", "Lease, ms", 50, 60000], ["renew", "Renewed", ["0", "no"], ["1", "yes"]], ["fence", "Fence checks", ["2", "reads and writes"], ["1", "writes"], ["0", "nothing"]],
  ["flavour", "News by", ["push", "push (Redis)"], ["watch", "watch (ZooKeeper)"], ["range", "watch (etcd)"], ["poll", "poll (MySQL)"]],
  ["latency", "A message takes, ms", 0, 1000], ["loss", "Lost messages, %", 0, 90], ["hold", "The work takes, ms", 0, 20000], ["gap", "Between rounds, ms", 0, 20000],
  ["poll", "Between polls, ms", 5, 5000], ["permits", "Permits", 1, 200], ["segments", "Segments", 1, 8], ["writers", "Writers", 0, 200], ["end", "Length, ms", 500, 600000]];

/** Kinds of locks: a word, a name, and the settings that make it. */
const LOCKS = [["mutex", "mutex: a sale", "sale", 1], ["striped", "striped: a sale in segments, a mutex for each", "sale", 8], ["pages", "read-write lock: readers and writers", "pages", 1],
  ["seats", "semaphore: counters", "seats", 1], ["cache", "mutex: a database and a cache", "cache", 1]];

/** Makes the fields; `change` is called with the key and the value of one that was changed. */
export function setUpKnobs(policies, change) {
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
  for (const place of ["knobs", "fence"]) $(place).addEventListener("change", ({ target }) => change(target.closest("label").dataset.key, target.value));
}

/** Shows the settings of this run. */
export function showKnobs({ play, hasLine }) {
  for (const box of [...$("knobs").children, ...$("fence").children]) box.lastChild.value = box.dataset.key === "kind" ? lockOf(play) : play.get(box.dataset.key);
  for (const box of $("knobs").children) if (box.dataset.key === "linger") box.hidden = play.get("policy") !== "cohort";
  $("fence").hidden = !hasLine || !["sale", "pages"].includes(play.get("work"));
}

/** The link with one of these changed. */
export function withKnob(run, key, value) {
  return key === "kind" ? withLock(run, value) : key === "policy" ? withPolicy(run, value) : changed(run, key, value);
}

/** The link with this policy. A hold is passed on where a process has several tasks. */
export function withPolicy(run, policy) {
  return changed(policy === "cohort" ? withTasks(run) : run, "policy", policy);
}

/** The link in which processes have several tasks, or the crowd that it has: two processes, if there are enough for that. */
export function withTasks(run) {
  const of = (key) => Number(new RegExp(`;${key}=(\\d+)`).exec(run)?.[1] ?? 0);
  return of("tasks") > 1 || of("crowd") ? run : changed(run, "tasks", String(Math.max(2, Math.ceil((of("clients") || 2) / 2))));
}

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
