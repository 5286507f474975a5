// A grid of cells: each click moves a cell on to the next choice; reveal() in Python marks what is right.

function part(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

function heading(text, scope) {
  const node = part("th", "", text);
  node.scope = scope;
  return node;
}

// A text in the language of the notebook, its gaps filled.
const speech = (model) => (text, gaps = {}) =>
  (model.get("words")[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => gaps[name]);

function render({ model, el }) {
  const tr = speech(model);
  const rows = model.get("rows");
  const columns = model.get("columns");
  const choices = model.get("choices");
  const box = part("div", "onnxlab-predict live");
  const hint = part("p", "hint");
  const again = part("button", "again", tr("Ask me again"));
  const score = part("p", "score");
  const cells = []; // cells[r][c]: the button
  let stop = [0, 0]; // the cell that Tab reaches
  hint.setAttribute("aria-live", "polite");

  const table = part("table");
  const head = table.createTHead().insertRow();
  head.append(part("td"), ...columns.map((name) => heading(name, "col")));
  const body = table.createTBody();
  rows.forEach((name, r) => {
    const line = body.insertRow();
    line.append(heading(name, "row"));
    cells.push(columns.map((_, c) => {
      const button = part("button");
      button.type = "button";
      button.addEventListener("click", () => turn(r, c));
      button.addEventListener("focus", () => { stop = [r, c]; });
      button.addEventListener("keydown", (event) => move(event, r, c));
      line.insertCell().append(button);
      return button;
    }));
  });

  const answers = () => (model.get("again") ? [] : model.get("actual"));

  function turn(r, c) {
    if (answers().length) return; // they are out
    const chosen = model.get("chosen").map((line) => [...line]);
    const next = choices.indexOf(chosen[r][c]) + 1; // after the last choice: no prediction again
    chosen[r][c] = next < choices.length ? choices[next] : "";
    model.set("chosen", chosen);
    if (chosen.flat().every(Boolean)) model.set("again", false);
    model.save_changes();
    model.send({ chosen }); // a state waits for the one before it to arrive, and a cell run at once may overtake it
  }

  function move(event, r, c) {
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    event.stopPropagation(); // the notebook would move to another cell
    cells[(r + down + rows.length) % rows.length][(c + right + columns.length) % columns.length].focus();
    update();
  }

  again.type = "button";
  again.addEventListener("click", () => {
    const chosen = rows.map(() => columns.map(() => ""));
    model.set("chosen", chosen);
    model.set("again", true);
    model.save_changes();
    model.send({ chosen });
    cells[0][0].focus();
  });

  function update() {
    const chosen = model.get("chosen");
    const actual = answers();
    let filled = 0;
    let hits = 0;
    cells.forEach((line, r) => line.forEach((button, c) => {
      const told = chosen[r][c];
      const is = actual.length ? actual[r][c] : "";
      const hit = told && told === is;
      filled += told ? 1 : 0;
      hits += hit ? 1 : 0;
      button.textContent = !is ? told || "?" : !told ? is : hit ? `${is}  \u2713` : `${told}  \u2717  ${is}`;
      button.className = is && told ? (hit ? "good" : "bad") : told ? "chosen" : "";
      const state = !is ? told || tr("no prediction") : told ? tr("you said {told}, it is {is}", { told, is }) : is;
      button.setAttribute("aria-label", `${rows[r]}, ${columns[c]}: ${state}`);
      button.setAttribute("aria-disabled", String(Boolean(is)));
      button.tabIndex = r === stop[0] && c === stop[1] ? 0 : -1;
    }));
    const total = rows.length * columns.length;
    if (!actual.length) hint.textContent = tr("Click a cell until it says what you expect ({choices}). {filled} of {total} filled in.", { choices: choices.join(` ${tr("or")} `), filled, total });
    else hint.textContent = filled ? tr("{hits} of {filled} predictions right.", { hits, filled }) : tr("These are the answers.");
    again.hidden = !actual.length || !filled || hits === total;
    score.textContent = model.get("score");
  }

  const changes = ["chosen", "actual", "again", "score"].map((name) => `change:${name}`);
  changes.forEach((change) => model.on(change, update));
  if (model.get("question")) box.append(part("p", "question", model.get("question")));
  box.append(table, hint, again, score);
  const revealed = () => bringVerdictIntoSight(".onnxlab-predict.answer");
  model.on("msg:custom", revealed);
  el.append(box);
  update();
  const showSaved = hideSaved(el, ".onnxlab-predict.saved");
  return () => {
    showSaved();
    model.off("msg:custom", revealed);
    changes.forEach((change) => model.off(change, update));
  };
}

export default { render };
