// One question, a few options: the learner clicks one; reveal() in Python marks what is right.

function part(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

// A text in the language of the notebook, its gaps filled.
const speech = (model) => (text, gaps = {}) =>
  (model.get("words")[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => gaps[name]);

function render({ model, el }) {
  const tr = speech(model);
  const box = part("div", "onnxlab-predict live");
  const hint = part("p", "hint");
  const group = part("div");
  const again = part("button", "again", tr("Ask me again"));
  const score = part("p", "score");
  const options = model.get("options");
  group.setAttribute("role", "radiogroup");
  group.setAttribute("aria-label", model.get("question"));
  hint.setAttribute("aria-live", "polite");

  const buttons = options.map((option, index) => {
    const button = part("button");
    button.type = "button";
    button.setAttribute("role", "radio");
    button.addEventListener("click", () => choose(index));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation(); // the notebook would move to another cell
      buttons[(index + step + options.length) % options.length].focus();
    });
    group.append(button);
    return button;
  });

  const answer = () => (model.get("again") ? "" : model.get("actual"));

  function choose(index) {
    if (answer()) return; // it is out: nothing to predict any more
    model.set("chosen", options[index]);
    model.set("again", false);
    model.save_changes();
    model.send({ chosen: options[index] }); // a state can be overtaken by a cell that is run at once, a message cannot
  }

  again.type = "button";
  again.addEventListener("click", () => {
    model.set("chosen", "");
    model.set("again", true);
    model.save_changes();
    model.send({ chosen: "" });
    buttons[0].focus();
  });

  function update() {
    const chosen = model.get("chosen");
    const actual = answer();
    const reached = Math.max(0, options.indexOf(chosen));
    buttons.forEach((button, index) => {
      const option = options[index];
      const right = actual && option === actual;
      const wrong = actual && option === chosen && !right;
      button.textContent = option + (right ? "  \u2713" : "") + (wrong ? "  \u2717" : "");
      button.className = right ? "good" : wrong ? "bad" : option === chosen ? "chosen" : "";
      button.setAttribute("aria-checked", String(option === chosen));
      button.setAttribute("aria-disabled", String(Boolean(actual)));
      button.tabIndex = index === reached ? 0 : -1; // one stop for Tab; the arrows move inside
    });
    if (!actual) hint.textContent = chosen ? tr("Noted. Run the next cell to see.") : tr("Click what you expect, or just read on.");
    else if (!chosen) hint.textContent = tr("It is: {actual}.", { actual });
    else hint.textContent = chosen === actual ? tr("You were right.") : tr("You said {chosen}. It is {actual}.", { chosen, actual });
    again.hidden = !actual || !chosen || chosen === actual;
    score.textContent = model.get("score");
  }

  const changes = ["chosen", "actual", "again", "score"].map((name) => `change:${name}`);
  changes.forEach((change) => model.on(change, update));
  box.append(part("p", "question", model.get("question")), group, hint, again, score);
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
