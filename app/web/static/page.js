// Asks for the same page once a second and changes only what differs, so that focus, selection and scroll stay.
"use strict";

const EVERY_MS = 1000;
const PATIENCE_MS = 5000;
const connection = document.getElementById("connection");
const pause = document.getElementById("pause");
let paused = false;
let timer = 0;
let shownAt = document.querySelector(".clock").textContent.trim();

function adopt(current, fresh) {
  for (const { name } of [...current.attributes]) {
    if (!fresh.hasAttribute(name)) current.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
}

function morph(current, fresh) {
  if (current.isEqualNode(fresh) || current === document.activeElement && current.matches("input")) return;
  if (current.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE) {
    current.data = fresh.data;
    return;
  }
  if (current.nodeName !== fresh.nodeName || current.nodeType !== Node.ELEMENT_NODE) {
    current.replaceWith(document.importNode(fresh, true));
    return;
  }
  adopt(current, fresh);
  const old = [...current.childNodes];
  const now = [...fresh.childNodes];
  now.forEach((child, index) => {
    if (index < old.length) morph(old[index], child);
    else current.append(document.importNode(child, true));
  });
  old.slice(now.length).forEach((child) => child.remove());
}

function say(sentence) {
  if (connection.textContent !== sentence) connection.textContent = sentence;
}

async function refresh() {
  const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!fresh.querySelector("main")) throw new Error(`status ${answer.status}`);
  if (paused) return;
  document.title = fresh.title;
  for (const part of ["main", ".clock", "footer"]) {
    morph(document.querySelector(part), fresh.querySelector(part));
  }
  shownAt = fresh.querySelector(".clock").textContent.trim();
  say("");
}

function tick() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  refresh()
    .catch(() => say(`This worker does not answer. The numbers are from ${shownAt}.`))
    .finally(() => { timer = setTimeout(tick, EVERY_MS); });
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Continue" : "Pause";
  say(paused ? `Paused at ${shownAt}.` : "");
  tick();
});
document.addEventListener("visibilitychange", tick);
timer = setTimeout(tick, EVERY_MS);
