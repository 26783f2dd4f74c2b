/* What runs now, as it goes on. Texts come ready from the server and are set as text. */
"use strict";

const place = document.getElementById("now");
const only = place.dataset.only || "";
const blank = document.getElementById("card");
const spoken = document.getElementById("spoken");
let known = new Set([...place.querySelectorAll("[data-run]")].map((card) => card.dataset.run));
let stages = "";

function cardOf(id) {
  const found = [...place.querySelectorAll("[data-run]")].find((card) => card.dataset.run === id);
  if (found || !blank) return found;
  const card = blank.content.firstElementChild.cloneNode(true);
  const title = card.querySelector("h3");
  card.dataset.run = id;
  title.id = `run-${id}`;
  card.setAttribute("aria-labelledby", title.id);
  card.querySelector("[data-link]").href = `/runs/${encodeURIComponent(id)}`;
  card.querySelector("[data-cancel]").action = `/runs/${encodeURIComponent(id)}/cancel`;
  place.prepend(card);
  return card;
}

function fill(card, run) {
  for (const field of card.querySelectorAll("[data-field]")) {
    const text = String(run[field.dataset.field]);
    if (field.textContent !== text) field.textContent = text;
  }
  const bar = card.querySelector("progress");
  if (run.total) {
    bar.max = run.total;
    bar.value = run.done;
  } else {
    bar.removeAttribute("value");
  }
}

/* A run that ended has its row: the list and the page's other numbers come anew. */
async function refresh() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const id of ["past", "service"]) {
    const fresh = page.getElementById(id);
    const old = document.getElementById(id);
    if (fresh && old && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(fresh));
  }
}

function show(runs) {
  const wanted = only ? runs.filter((run) => run.id === only) : runs;
  const ids = new Set(wanted.map((run) => run.id));
  for (const run of wanted) {
    const card = cardOf(run.id);
    if (card) fill(card, run);
  }
  for (const card of place.querySelectorAll("[data-run]")) {
    if (!ids.has(card.dataset.run)) card.remove();
  }
  const idle = document.getElementById("idle");
  if (idle) idle.hidden = ids.size > 0;
  const now = wanted.map((run) => run.stage).join(", ") || (idle ? idle.textContent : "");
  if (now !== stages) {
    if (stages || ids.size) spoken.textContent = now;
    stages = now;
  }
  const changed = ids.size !== known.size || [...ids].some((id) => !known.has(id));
  if (changed && ids.size) document.querySelector(".said")?.remove();
  known = ids;
  if (!changed) return;
  if (only) location.reload();
  else refresh().catch(() => {});
}

/* Only a page somebody looks at holds a stream: a browser has six connections for a server, all its pages together. */
let source = null;

function listen() {
  if (document.hidden) {
    source?.close();
    source = null;
  } else if (!source) {
    source = new EventSource(place.dataset.stream);
    source.addEventListener("message", (event) => show(JSON.parse(event.data).runs));
  }
}

document.addEventListener("visibilitychange", listen);
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  source = null;
  listen();
});
listen();
