// The page of the room: asks for the room every two seconds, and changes only what is different.

const EVERY = 2000;
const PLACES = 8; // places where people are stuck that are shown at first
const MANY = 60; // learners from which on the rows are low

const byId = (id) => document.getElementById(id);
const [projector, names, order, labs] = ["projector", "names", "order", "labs"].map(byId);

const WORDS = JSON.parse(byId("words").textContent);
const full = document.documentElement.lang === "zh"; // full-width punctuation
const tr = (text, values = {}) => (WORDS[text] ?? text).replace(/\{(\w+)\}/g, (gap, name) => values[name] ?? gap);
const list = (parts) => parts.join(full ? "\uff0c" : ", ");
const STATES = { passed: tr("passed"), stuck: tr("stuck"), tried: tr("tried, not passed"), open: tr("open") };

// Behind a hub, what shows that a question comes from this page.
const token = document.querySelector("meta[name=xsrf]").content;

let room = null; // what the server said last
let offset = 0; // the server's clock against ours, in milliseconds
let first = null; // the exercise whose column was clicked
let everyPlace = false;
let active = { learner: null, exercise: null }; // the cell that Tab reaches

function make(tag, text = "", attributes = {}) {
  const element = document.createElement(tag);
  if (text !== "") element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const checks = (number) => number === 1 ? tr("{number} check", { number }) : tr("{number} checks", { number });
const now = () => (Date.now() + offset) / 1000;

function duration(seconds) {
  const minutes = Math.max(0, Math.round(seconds / 60));
  if (minutes < 60) return tr("{minutes} min", { minutes });
  return tr("{hours} h {minutes}", { hours: Math.floor(minutes / 60), minutes: String(minutes % 60).padStart(2, "0") });
}

// Asking

async function ask(fresh) {
  const seen = room && !fresh ? room.version : "";
  const wanted = new URLSearchParams({ names: names.value, rows: projector.checked ? "0" : "1", seen });
  const headers = token ? { "X-XSRFToken": token } : {};
  const reply = await fetch(`state?${wanted}`, { cache: "no-store", redirect: "manual", headers });
  if (reply.type === "opaqueredirect" || reply.status === 403) throw new Error(tr("You are signed out: load this page again."));
  if (reply.status === 204) return;
  if (!reply.ok) throw new Error(tr("The server answers {status}.", { status: reply.status }));
  const answer = await reply.json();
  offset = answer.now * 1000 - Date.now();
  room = answer;
  room.every = room.exercises;
  choose();
}

// The labs: those that somebody has checked today, unless another choice is made

function choose() {
  const midnight = new Date(room.now * 1000).setHours(0, 0, 0, 0) / 1000;
  const numbers = [...new Set(room.every.map((one) => one.lab))];
  const today = new Set(room.every.filter((one) => one.last >= midnight).map((one) => one.lab));
  for (const lab of numbers) {
    if (![...labs.options].some((option) => option.value === lab)) labs.append(make("option", lab, { value: lab }));
  }
  const wanted = (lab) => labs.value === "all" || labs.value === lab || (labs.value === "today" && today.has(lab));
  room.exercises = room.every.filter((one) => wanted(one.lab));
  const shown = new Set(room.exercises.map((one) => one.lab));
  const rest = numbers.length - shown.size;
  const words = labs.value !== "today" ? tr("Labs that are not shown: {number}.", { number: rest })
    : tr("Labs that nobody has checked today: {number}.", { number: rest });
  byId("folded").hidden = !rest;
  set(byId("folded").firstElementChild, words);
}

let timer = 0;
let asking = 0;
async function poll(fresh = false) {
  clearTimeout(timer);
  const mine = ++asking; // an answer to an earlier question is not shown
  try {
    const before = room;
    await ask(fresh);
    if (mine !== asking) return;
    if (room !== before) show();
    showTimes();
    summary();
  } catch (error) {
    if (mine !== asking) return;
    const why = error instanceof TypeError ? tr("The server does not answer.") : error.message;
    byId("summary").className = "trouble";
    set(byId("summary"), room ? tr("{why} What is below is as it was at {time}.", { why, time: clock(room.now) }) : why);
  }
  if (!document.hidden) timer = setTimeout(poll, EVERY);
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();

function summary() {
  const number = room.shown;
  const parts = [number === 1 ? tr("{number} learner", { number }) : tr("{number} learners", { number })];
  if (room.private) parts.push(tr("{number} not shown", { number: room.private }));
  if (room.unknown) parts.push(tr("{number} with a file that cannot be read", { number: room.unknown }));
  byId("summary").className = "";
  set(byId("summary"), tr("{learners}. Last change {time}.", { learners: list(parts), time: clock(room.now) }));
}

// Showing

function show() {
  set(byId("title"), room.title);
  showPlaces();
  showExercises();
  if (!projector.checked) showGrid();
}

function showPlaces() {
  const target = byId("stuck");
  const focused = target.contains(document.activeElement);
  target.replaceChildren();
  const ids = new Set(room.exercises.map((one) => one.id));
  const places = labs.value === "today" ? room.stuck : room.stuck.filter((place) => ids.has(place.exercise));
  if (!places.length) {
    target.append(make("p", tr("Nowhere: every exercise that was checked is passed."), { class: "aside" }));
    return;
  }
  const table = make("table");
  const head = table.createTHead().insertRow();
  for (const [text, kind] of [[tr("exercise"), ""], [tr("does not hold"), ""], [tr("stuck now"), "number"],
    [tr("for (median)"), "number"], [tr("all who have it"), "number"]]) head.append(make("th", text, { scope: "col", class: kind }));
  const body = table.createTBody();
  const shown = everyPlace ? places : places.slice(0, PLACES);
  for (const place of shown) {
    const row = body.insertRow();
    row.append(make("th", place.exercise, { scope: "row" }), make("td", place.failure, { class: "failure" }),
      make("td", String(place.stuck || "\u2013"), { class: place.stuck ? "number now" : "number", "data-what": tr("stuck now:") }),
      make("td", "", { class: "number for", "data-what": tr("stuck for:") }),
      make("td", String(place.tried), { class: "number", "data-what": tr("all who have it:") }));
    row.place = place;
  }
  target.append(table);
  if (places.length > PLACES) {
    const button = make("button", everyPlace ? tr("Fewer") : tr("All {number}", { number: places.length }), { type: "button" });
    button.onclick = () => { everyPlace = !everyPlace; showPlaces(); showTimes(); byId("stuck").querySelector("button").focus(); };
    target.append(button);
    if (focused) button.focus();
  }
}

function showTimes() {
  for (const cell of document.querySelectorAll("#stuck .for")) {
    const since = cell.parentElement.place.since;
    const middle = (since[(since.length - 1) >> 1] + since[since.length >> 1]) / 2;
    const half = duration(now() - middle);
    const longest = duration(now() - since[0]);
    set(cell, !since.length ? "\u2013" : half === longest ? half : tr("{half}, longest {longest}", { half, longest }));
  }
}

const bars = new Map(); // exercise -> its elements

function showExercises() {
  const target = byId("exercises");
  const shown = new Set(room.exercises.map((one) => one.lab));
  for (const one of room.every) {
    if (!bars.has(one.id)) {
      let lab = target.querySelector(`[data-lab="${one.lab}"]`);
      if (!lab) {
        lab = make("div", "", { "data-lab": one.lab });
        lab.append(make("h3", one.lab));
        target.append(lab);
      }
      const box = make("div", "", { class: "exercise", title: one.title });
      const line = make("p");
      const counts = make("span");
      line.append(make("span", one.id), counts);
      const bar = make("div", "", { class: "bar", "aria-hidden": "true" });
      const pieces = ["passed", "stuck", "tried"].map((state) => make("i", "", { class: state }));
      bar.append(...pieces);
      box.append(line, bar);
      lab.append(box);
      bars.set(one.id, { counts, pieces, lab });
    }
    const { counts, pieces, lab } = bars.get(one.id);
    lab.hidden = !shown.has(one.lab);
    const parts = [tr("{number} of {all} passed", { number: one.passed, all: room.shown })];
    if (one.stuck) parts.push(tr("{number} stuck", { number: one.stuck }));
    if (one.tried) parts.push(tr("{number} tried", { number: one.tried }));
    set(counts, list(parts));
    ["passed", "stuck", "tried"].forEach((state, index) => {
      pieces[index].style.width = `${room.shown ? (100 * one[state]) / room.shown : 0}%`;
    });
  }
}

// The table of learners: made once, then changed cell by cell

let rows = new Map(); // number -> { row, head, name, count, cells }
let columns = "";
let table = null;

function showGrid() {
  const wanted = room.exercises.map((one) => one.id).join();
  if (!table || columns !== wanted) makeTable(wanted);
  table.className = room.learners.length > MANY ? "many" : "";
  const present = new Set(room.learners.map((one) => one.number));
  for (const [number, { row }] of rows) if (!present.has(number)) { row.remove(); rows.delete(number); }
  const focused = document.activeElement;
  for (const learner of room.learners) showLearner(learner);
  const body = table.tBodies[0];
  sorted().forEach((learner, index) => {
    const { row } = rows.get(learner.number);
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  reach();
}

function makeTable(wanted) {
  columns = wanted;
  rows = new Map();
  table = make("table", "", { role: "grid", "aria-label": tr("Learners and exercises") });
  const head = table.createTHead().insertRow();
  const corner = make("th", tr("learner"), { scope: "col", class: "corner" });
  head.append(corner);
  room.exercises.forEach((one, index) => {
    const cell = make("th", "", { scope: "col", class: room.exercises[index - 1]?.lab === one.lab ? "" : "first" });
    const button = make("button", one.id, { type: "button", title: `${one.lab}: ${one.title}` });
    button.onclick = () => { first = first === one.id ? null : one.id; markColumns(); showGrid(); };
    cell.append(button);
    head.append(cell);
  });
  table.createTBody();
  table.addEventListener("keydown", walk);
  table.addEventListener("focusin", (event) => detail(event.target.closest("td"), true));
  table.addEventListener("mouseover", (event) => detail(event.target.closest("td"), false));
  byId("grid").replaceChildren(table);
}

function markColumns() {
  room.exercises.forEach((one, index) => {
    table.tHead.rows[0].cells[index + 1].setAttribute("aria-sort", one.id === first ? "descending" : "none");
  });
}

const FACE = {
  passed: () => "\u2713",
  stuck: (attempts) => `!${attempts}`,
  tried: (attempts) => String(attempts),
};

function showLearner(learner) {
  let entry = rows.get(learner.number);
  const made = !entry;
  if (made) {
    const row = make("tr");
    const head = make("th", "", { scope: "row" });
    const [count, name] = [make("span"), make("b")];
    head.append(count, name);
    row.append(head);
    const cells = room.exercises.map((one, index) => {
      const first = room.exercises[index - 1]?.lab === one.lab ? "" : " first";
      const cell = make("td", "", { tabindex: "-1", class: `open${first}` });
      cell.own = { learner: learner.number, exercise: one.id, first, label: "" };
      row.append(cell);
      return cell;
    });
    entry = { row, head, name, count, cells };
    rows.set(learner.number, entry);
  }
  set(entry.name, learner.name);
  entry.head.title = learner.name;
  entry.learner = learner;
  let passed = 0;
  room.exercises.forEach((one, index) => {
    const [state = "open", attempts = 0] = learner.cells[one.id] ?? [];
    if (state === "passed") passed += 1;
    const cell = entry.cells[index];
    const label = `${state} ${attempts}`;
    if (cell.own.label === label) return;
    const fresh = !made && state === "passed" && !cell.own.label.startsWith("passed") ? " fresh" : "";
    cell.own.label = label;
    cell.className = `${state}${cell.own.first}${fresh}`;
    cell.textContent = FACE[state]?.(attempts) ?? "";
    cell.setAttribute("aria-label", ["open", "passed"].includes(state) ? STATES[state] : list([STATES[state], checks(attempts)]));
  });
  entry.passed = passed;
  set(entry.count, String(passed));
}

function sorted() {
  const need = { stuck: 0, tried: 1, open: 2, passed: 3 };
  const cellsOf = (one) => Object.values(one.cells);
  const stuckSince = (one) => Math.min(...cellsOf(one).filter(([state]) => state === "stuck").map((cell) => cell[3]), Infinity);
  const last = (one) => Math.max(...cellsOf(one).map((cell) => cell[4] ?? 0), 0);
  const passed = (one) => rows.get(one.number).passed;
  const keys = {
    number: (one) => one.number,
    stuck: stuckSince,
    least: passed,
    most: (one) => -passed(one),
    last: (one) => -last(one),
  };
  const key = new Map(room.learners.map((one) => {
    const [state = "open", attempts = 0] = (first && one.cells[first]) || [];
    return [one, [first ? need[state] : 0, first ? -attempts : 0, keys[order.value](one), one.number]];
  }));
  const compare = (a, b) => {
    const index = key.get(a).findIndex((value, number) => value !== key.get(b)[number]);
    return index < 0 ? 0 : key.get(a)[index] < key.get(b)[index] ? -1 : 1;
  };
  return [...room.learners].sort(compare);
}

function detail(cell, focus) {
  if (!cell?.own) return;
  const { learner, exercise } = cell.own;
  if (focus) { active = { learner, exercise }; reach(); }
  const entry = rows.get(learner).learner;
  const [state, attempts, failure, begun, last] = entry.cells[exercise] ?? ["open", 0, "", null, null];
  const parts = [`${entry.name}${full ? "\uff0c" : ", "}${exercise}${full ? "\uff1a" : ": "}${STATES[state]}`];
  if (attempts) parts.push(checks(attempts));
  if (failure) parts.push(tr("does not hold: {failure}", { failure }));
  if (state === "stuck") parts.push(tr("for {time}", { time: duration(now() - begun) }));
  if (last) parts.push(tr("last check {time} ago", { time: duration(now() - last) }));
  set(byId("detail"), `${parts.join(full ? "\uff1b" : "; ")}${full ? "\u3002" : "."}`);
}

// One cell can be reached with Tab; the arrow keys go on from there.
let reached = null;
function reach() {
  const entry = rows.get(active.learner);
  const index = room.exercises.findIndex((one) => one.id === active.exercise);
  const cell = entry?.cells[index] ?? table.tBodies[0].rows[0]?.cells[1];
  if (reached === cell) return;
  if (reached) reached.tabIndex = -1;
  if (cell) cell.tabIndex = 0;
  reached = cell;
}

function walk(event) {
  const cell = event.target.closest("td");
  if (!cell || event.ctrlKey || event.altKey || event.metaKey) return;
  const body = [...table.tBodies[0].rows];
  let [down, across] = [body.indexOf(cell.parentElement), cell.cellIndex];
  const moves = {
    ArrowUp: () => { down -= 1; }, ArrowDown: () => { down += 1; }, ArrowLeft: () => { across -= 1; },
    ArrowRight: () => { across += 1; }, Home: () => { across = 1; }, End: () => { across = room.exercises.length; },
    PageUp: () => { down -= 10; }, PageDown: () => { down += 10; },
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
  down = Math.min(Math.max(down, 0), body.length - 1);
  across = Math.min(Math.max(across, 1), room.exercises.length);
  const next = body[down].cells[across];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// What is shown

function arrange() {
  document.body.classList.toggle("projector", projector.checked);
  byId("learners-csv").href = `learners.csv?names=${names.value}`;
  if (projector.checked) { // nobody's row stays in the page
    table = null;
    reached = null;
    byId("grid").replaceChildren();
    set(byId("detail"), "");
  }
  poll(true);
}

projector.addEventListener("change", arrange);
names.addEventListener("change", arrange);
labs.addEventListener("change", () => { if (room) { choose(); show(); showTimes(); } });
byId("folded").querySelector("button").addEventListener("click", () => { labs.value = "all"; labs.dispatchEvent(new Event("change")); labs.focus(); });
order.addEventListener("change", () => { if (room && table) showGrid(); });
byId("controls").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
labs.value = "today";
names.value = "numbers"; // a browser may remember more than the instructor wants to show
arrange();
