// The dialog in which every order is tried.
const $ = (id) => document.getElementById(id);

export function setUpSearch({ policies, open, current }) {
  let worker = null, found = "";
  $("hunt-policy").append(...policies.map(([word, name]) => new Option(name, word)));
  $("hunt-policy").value = "line";
  const say = (text) => { $("hunt-result").textContent = text; };
  const isBusy = (busy) => { $("hunt").disabled = busy; $("hunt-stop").disabled = !busy; };

  function begin() {
    worker?.terminate();
    worker = new Worker(new URL("explore.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => report(data);
    worker.onerror = (event) => { isBusy(false); say(`The search could not start: ${event.message ?? "the worker failed"}.`); };
    const value = (id) => $(id).value, promise = Number(value("hunt-promise"));
    const link = `v2;policy=${value("hunt-policy")};clients=${value("hunt-clients")};fence=${value("hunt-fence")}${value("hunt-policy") === "cohort" ? ";tasks=2" : ""}${promise === 1 ? ";stock=1" : ""}`;
    found = "";
    $("hunt-open").hidden = true;
    isBusy(true);
    say("Searching …");
    worker.postMessage({ link, promise, pauses: Number(value("hunt-pauses")), crashes: Number(value("hunt-crashes")), failovers: Number(value("hunt-failovers")) });
  }

  function report({ states, steps, took, over, stopped, found: run, trouble }) {
    if (trouble) { isBusy(false); return say(trouble); }
    const seen = `${states.toLocaleString("en")} states, ${steps.toLocaleString("en")} steps, ${(took / 1000).toFixed(1)} s`;
    if (!over) return say(`Searching … ${seen}`);
    isBusy(false);
    found = run;
    $("hunt-open").hidden = !run;
    if (run) return say(`Broken, in ${run.split(";steps=")[1].length / 2} steps: the shortest way. ${seen}.`);
    say(stopped ? `Stopped: nothing found so far. ${seen}.` : `Kept, in every order. ${seen}.`);
  }

  $("hunt").addEventListener("click", begin);
  $("hunt-stop").addEventListener("click", () => worker?.postMessage("stop"));
  $("hunt-open").addEventListener("click", () => { $("explore-box").close(); open(found); });
  $("explore").addEventListener("click", () => {
    const [, policy] = /policy=(\w+)/.exec(current()) ?? [null, "none"];
    $("hunt-policy").value = policy;
  });
  $("explore-box").addEventListener("close", () => worker?.postMessage("stop"));
}
