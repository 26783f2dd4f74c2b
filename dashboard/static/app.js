/* Small comforts; every page works without them. Nothing here makes markup of text. */
"use strict";

const token = document.querySelector('meta[name="csrf-token"]').content;

/* A form with [data-autosubmit] is sent by a choice with the pointer. By keyboard its button does it: arrows only look. */
let byPointer = false;
addEventListener("pointerdown", () => { byPointer = true; }, true);
addEventListener("keydown", () => { byPointer = false; }, true);
for (const form of document.querySelectorAll("form[data-autosubmit]")) {
  form.addEventListener("change", () => { if (byPointer) form.requestSubmit(); });
}

/* A search form with [data-live="#id"] replaces that part of the page as one types. */
for (const form of document.querySelectorAll("form[data-live]")) {
  let timer = 0;
  let asked = 0;
  const refresh = async () => {
    const mine = ++asked;
    const address = `${form.action.split("?")[0]}?${new URLSearchParams(new FormData(form))}`;
    const response = await fetch(address, { headers: { accept: "text/html" } });
    if (!response.ok || mine !== asked) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.querySelector(form.dataset.live);
    const old = document.querySelector(form.dataset.live);
    if (fresh && old) {
      old.replaceWith(document.adoptNode(fresh));
      history.replaceState(null, "", address);
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => refresh().catch(() => {}), 250);
  });
}

/* A field with [data-check="/api/..."] is checked as one types: its form's fields are sent, the answer is
   shown. With [data-check-one] it alone is. */
for (const field of document.querySelectorAll("[data-check]")) {
  let timer = 0;
  let asked = 0;
  const place = document.getElementById(field.getAttribute("aria-describedby"));
  const check = async () => {
    const mine = ++asked;
    const values = {};
    if ("checkOne" in field.dataset) Object.assign(values, { name: field.name, text: field.value });
    else for (const [name, value] of new FormData(field.form)) {
      if (name !== "csrf") values[name] = value;
    }
    const response = await fetch(field.dataset.check, {
      method: "POST",
      headers: { "content-type": "application/json", "x-csrf-token": token },
      body: JSON.stringify(values),
    });
    if (!response.ok || mine !== asked) return;
    const answer = await response.json();
    field.setAttribute("aria-invalid", String(!answer.ok));
    place.textContent = answer.says;
    place.classList.toggle("fine", answer.ok && !answer.warns);
    place.classList.toggle("warns", answer.warns);
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => check().catch(() => {}), 300);
  });
}
