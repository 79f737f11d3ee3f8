// What the page does without this: everything but times in the reader's zone and refreshing itself.
"use strict";

const SECONDS = 20;
const PATIENCE_SECONDS = 60;  // that a form waits for its reader
const long = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "short"});
const short = new Intl.DateTimeFormat(undefined, {
  month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
});

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = time.textContent;
    time.textContent = long.format(new Date(time.dateTime));
  }
  for (const tick of root.querySelectorAll("text[data-time]")) {
    tick.textContent = short.format(new Date(tick.dataset.time));
  }
}

function isEdited(field) {
  if (field.matches("input")) return field.value !== field.defaultValue;
  return field.selectedIndex !== Math.max([...field.options].findIndex((each) => each.defaultSelected), 0);
}

function isFilledIn(form) {
  return [...form.querySelectorAll("input, select")].some(isEdited);
}

let touchedAt = -Infinity;  // when something was last typed or chosen in a form

function noteTouch(event) {
  if (event.target.closest("form")) touchedAt = performance.now();
}

// While something is typed, chosen or marked; what is left in the focus or half filled in holds nothing up for long.
function isBusy(main) {
  const selection = document.getSelection();
  const isTouched = performance.now() - touchedAt < PATIENCE_SECONDS * 1000;
  return document.hidden ||
    (isTouched && (main.querySelector("select:focus") !== null || [...main.querySelectorAll("form")].some(isFilledIn))) ||
    (selection !== null && selection.type === "Range" && main.contains(selection.anchorNode));
}

const REACHABLE = "a, button, summary, input, select";

function nameOf(element) {
  if (element.matches("summary")) return element.parentElement.dataset.key;
  return element.getAttribute("href") || element.getAttribute("name") || element.textContent;
}

function replace(main, fresh) {
  const active = document.activeElement;
  const focused = main.contains(active) && active.matches(REACHABLE) ? nameOf(active) : null;
  const opened = new Set([...main.querySelectorAll("details[open]")].map((each) => each.dataset.key));
  const form = main.querySelector("form");
  if (form !== null && isFilledIn(form)) fresh.querySelector("form")?.replaceWith(form);
  localise(fresh);
  main.replaceChildren(...fresh.childNodes);
  main.querySelectorAll("details").forEach((each) => { each.open = opened.has(each.dataset.key); });
  if (focused !== null) {
    const same = [...main.querySelectorAll(REACHABLE)].find((each) => nameOf(each) === focused);
    (same || main).focus({preventScroll: true});
  }
}

async function refresh(main, state) {
  try {
    const answer = await fetch(location.href, {headers: {accept: "text/html"}});
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (isBusy(main)) return;
    replace(main, fresh);
    state.textContent = `Refreshed at ${new Date().toLocaleTimeString()}.`;
  } catch {
    state.textContent = `No answer at ${new Date().toLocaleTimeString()}; this page shows older data.`;
  }
}

function start() {
  const main = document.getElementById("main");
  const place = document.getElementById("refresh");
  const state = document.createElement("span");
  const button = document.createElement("button");
  let isPaused = false;
  button.type = "button";
  button.textContent = "Pause";
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Resume" : "Pause";
  });
  state.textContent = `This page refreshes every ${SECONDS} seconds.`;
  place.append(state, " ", button);
  for (const kind of ["focusin", "pointerdown", "keydown", "input", "change"]) main.addEventListener(kind, noteTouch);
  localise(document);
  setInterval(() => {
    if (isPaused) return;
    if (isBusy(main)) state.textContent = "This page does not refresh while you type, choose or select something.";
    else refresh(main, state);
  }, SECONDS * 1000);
}

start();
