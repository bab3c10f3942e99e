// Hears from the worker that something has changed, asks for the same page again and changes only what differs, so
// that focus, selection and scroll stay. Quiet while the tab is hidden or the reader has paused (the button, or the key p).
"use strict";

const PATIENCE_MS = 5000;
const AGAIN_MS = 3000;
const live = document.body.dataset.live === "1";
const connection = document.getElementById("connection");
const pause = document.getElementById("pause");
let paused = false;
let asking = false;
let events = null;
let timer = 0;
let shownAt = document.querySelector(".clock").textContent.trim();

function adopt(current, fresh) {
  for (const { name } of [...current.attributes]) {
    // Whether details are open is the reader's choice.
    if (!fresh.hasAttribute(name) && name !== "open") current.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (current.getAttribute(name) !== value) current.setAttribute(name, value);
  }
}

function morph(current, fresh) {
  if (current.isEqualNode(fresh) || current === document.activeElement && current.matches("input, textarea, select")) return;
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
  if (answer.redirected) return location.assign(answer.url); // the session is over: to sign in again
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!fresh.querySelector("main")) throw new Error(`status ${answer.status}`);
  if (paused) return;
  document.title = fresh.title;
  for (const part of ["header", ".strip .clock", "main", "footer"]) {
    morph(document.querySelector(part), fresh.querySelector(part));
  }
  const [pill, other] = [document.getElementById("pill"), fresh.getElementById("pill")];
  if (pill && other) morph(pill, other);
  shownAt = fresh.querySelector(".clock").textContent.trim();
  say("");
  // A page that has come to its end, such as that of a job that is done, stays as it is.
  if (fresh.body.dataset.live !== "1") hush();
}

function changed() {
  if (asking || paused || document.hidden) return;
  asking = true;
  refresh()
    .catch(() => say(`This worker does not respond. The numbers are from ${shownAt}.`))
    .finally(() => { asking = false; });
}

function hush() {
  clearTimeout(timer);
  if (events) events.close();
  events = null;
}

function listen() {
  hush();
  if (paused || document.hidden) return;
  events = new EventSource("/api/v1/events");
  events.addEventListener("changed", changed);
  events.addEventListener("error", () => {
    // A browser gives up for good on an answer that is no stream: too many pages, or a worker that goes.
    if (events && events.readyState === EventSource.CLOSED) {
      hush();
      timer = setTimeout(() => { changed(); listen(); }, AGAIN_MS);
    } else if (!paused && !document.hidden) {
      say(`This worker does not respond. The numbers are from ${shownAt}.`);
    }
  });
}

function toggle() {
  paused = !paused;
  pause.textContent = paused ? "Continue" : "Pause";
  say(paused ? `Paused at ${shownAt}.` : "");
  listen();
}

if (live) {
  pause.hidden = false;
  pause.addEventListener("click", toggle);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "p" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) toggle();
  });
  document.addEventListener("visibilitychange", listen);
  listen();
}
