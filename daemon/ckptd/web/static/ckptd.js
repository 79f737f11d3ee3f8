// What the page does without this: everything but times in the reader's zone and showing itself anew.
"use strict";

const SECONDS = 20;
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

function isBusy(main) {
  const active = document.activeElement;
  const selection = document.getSelection();
  return document.hidden || (main.contains(active) && active !== main && !active.matches("a, button")) ||
    (selection !== null && !selection.isCollapsed);
}

function openDetails(main) {
  return [...main.querySelectorAll("details")].map((each) => each.open);
}

function replace(main, fresh) {
  const links = [...main.querySelectorAll("a, button, summary")];
  const focused = links.indexOf(document.activeElement);
  const address = focused >= 0 ? links[focused].getAttribute("href") : null;
  const opened = openDetails(main);
  localise(fresh);
  main.replaceChildren(...fresh.childNodes);
  main.querySelectorAll("details").forEach((each, place) => { each.open = Boolean(opened[place]); });
  if (focused >= 0) {
    const now = [...main.querySelectorAll("a, button, summary")];
    const same = address === null ? now[focused] : now.find((each) => each.getAttribute("href") === address);
    (same || main).focus({preventScroll: true});
  }
}

async function refresh(main, state) {
  try {
    const answer = await fetch(location.href, {headers: {accept: "text/html"}});
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (!isBusy(main)) replace(main, fresh);
    state.textContent = `Shown anew at ${new Date().toLocaleTimeString()}.`;
  } catch {
    state.textContent = `No answer at ${new Date().toLocaleTimeString()}; what is shown is older.`;
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
    button.textContent = isPaused ? "Go on" : "Pause";
  });
  state.textContent = `The page shows itself anew every ${SECONDS} seconds.`;
  place.append(state, " ", button);
  localise(document);
  setInterval(() => { if (!isPaused && !isBusy(main)) refresh(main, state); }, SECONDS * 1000);
}

start();
