// The operator atlas: all operators come at once; searching and filtering happen here, without the kernel.

const SHOWN = 80; // rows drawn at a time; more are a matter of a better search
const INTERNAL = /^[_A-Z]|_backward/; // shown if asked for, or searched for by their whole name
const TONES = { "\u2713": "good", "\u2717": "bad", "~": "some", "?": "" };
const absent = (tr) => ({
  "": tr("anything or nothing"), none: tr("nothing"), operator: tr("the operator"), rule: tr("the rule"),
  schema: tr("the schema"), kernel: tr("the kernel"), unknown: tr("not known"),
});

function part(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}

// A cell of a row. A schema is a list of ONNX operators with versions: each links to ONNX's own page.
function marked(tone, mark, text) {
  const cell = part("td", tone, `${mark} `);
  text.split(", ").forEach((piece, index) => {
    const [, name, rest] = /^([A-Z]\w+)( \d+.*)$/.exec(piece) ?? [];
    if (index) cell.append(", ");
    if (!name) { cell.append(piece); return; }
    const link = part("a", "", name);
    Object.assign(link, { href: `https://onnx.ai/onnx/operators/onnx__${name}.html`, target: "_blank", rel: "noopener" });
    cell.append(link, rest);
  });
  return cell;
}

function labelled(text, control) {
  const label = part("label", "", text);
  label.append(control);
  return label;
}

function choice(options, value) {
  const select = part("select");
  for (const [key, text] of Object.entries(options)) {
    const option = part("option", "", text);
    option.value = key;
    select.append(option);
  }
  select.value = value;
  return select;
}

// The four links of one operator and exporter at an opset, as cells: [mark, text].
function cells(atlas, spans, opset, element, tr) {
  let span = spans[0];
  for (const next of spans) if (next[0] <= opset) span = next;
  const links = span.slice(1, 5).map((number, index) => {
    const [mark, text, lacks] = atlas.links[number];
    const without = index === 3 && element in lacks ? atlas.texts[lacks[element]] : "";
    return without ? ["\u2717", tr("no kernel for {element}: {without}", { element, without })] : [mark, atlas.texts[text]];
  });
  const first = links.findIndex(([mark]) => mark === "\u2717");
  const unknown = links.some(([mark]) => mark === "?");
  const missing = first >= 0 ? ["operator", "rule", "schema", "kernel"][first] : unknown ? "unknown" : "none";
  const words = { operator: tr("operator"), rule: tr("rule"), schema: tr("schema"), kernel: tr("kernel"), unknown: tr("unknown"), none: tr("none") };
  const last = [first >= 0 ? "\u2717" : unknown ? "?" : "\u2713", words[missing]];
  return { cells: [...links, last], missing, writes: atlas.texts[span[5]] };
}

// What is found where it is looked for: the name itself, then names that begin with it, then the rest.
function rank(name, search) {
  return name === search ? 0 : name.startsWith(search) ? 1 : name.includes(search) ? 2 : 3;
}

// A text in the language of the notebook, its gaps filled.
const speech = (model) => (text, gaps = {}) =>
  (model.get("words")[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => gaps[name]);

function render({ model, el }) {
  const tr = speech(model);
  const atlas = JSON.parse(model.get("atlas"));
  const box = part("div", "onnxlab-atlas live");
  const search = part("input");
  search.type = "search";
  search.placeholder = "asinh, BitShift, ...";
  search.value = model.get("search");
  const slider = part("input");
  slider.type = "range";
  [slider.min, slider.max] = atlas.opsets;
  slider.value = model.get("opset");
  const opset = part("output", "", slider.value);
  const both = Object.fromEntries([["both", tr("both")], ...atlas.exporters.map((name) => [name, name])]);
  const exporter = choice(both, model.get("exporter"));
  const missing = choice(absent(tr), model.get("missing"));
  const types = Object.fromEntries([["", tr("any")], ...atlas.elements.map((name) => [name, name])]);
  const element = choice(types, model.get("element"));
  const opsetLabel = labelled(tr("Opset"), slider);
  opsetLabel.append(opset);
  const controls = part("div", "controls");
  controls.append(labelled(tr("Search"), search), opsetLabel, labelled(tr("Exporter"), exporter));
  controls.append(labelled(tr("Missing"), missing), labelled(tr("Element type"), element));
  const internal = part("input");
  internal.type = "checkbox";
  controls.append(labelled(tr("Internal and backward operators"), internal));
  const count = part("p", "count");
  count.setAttribute("aria-live", "polite");
  const list = part("div", "list");
  list.tabIndex = 0; // so that it scrolls with the keyboard, too
  list.setAttribute("role", "region");
  list.setAttribute("aria-label", tr("operator"));
  box.append(controls, count, list);
  el.append(box);

  function matches() {
    const query = search.value.trim().replace(/^(aten|torch)(::|\.)/, "").toLowerCase();
    const rows = [];
    for (const [name, ...byExporter] of atlas.operators) {
      byExporter.forEach((spans, index) => {
        if (exporter.value !== "both" && exporter.value !== atlas.exporters[index]) return;
        const row = cells(atlas, spans, Number(slider.value), element.value, tr);
        const rated = rank(name.toLowerCase(), query);
        const written = query && row.writes.toLowerCase().split(", ").includes(query);
        if (rated === 3 && !written) return;
        if (missing.value && missing.value !== row.missing) return;
        if (!internal.checked && rated && INTERNAL.test(name)) return;
        rows.push({ name, exporter: atlas.exporters[index], rated, ...row });
      });
    }
    // Internal operators, whose names begin with an underscore or a capital letter, come last.
    const order = (row) => row.rated * 2 + (/^[_A-Z]/.test(row.name) ? 1 : 0);
    return rows.sort((a, b) => order(a) - order(b));
  }

  function draw() {
    opset.textContent = slider.value;
    const rows = matches();
    const numbers = { rows: rows.length, operators: atlas.operators.length, shown: SHOWN };
    count.textContent = rows.length > SHOWN
      ? tr("{rows} rows of {operators} operators, the first {shown} are shown", numbers)
      : tr("{rows} rows of {operators} operators", numbers);
    const table = part("table");
    const head = part("tr");
    const titles = [tr("operator"), tr("exporter"), ...atlas.columns];
    for (const name of titles) head.append(part("th", "", name));
    const top = part("thead");
    top.append(head);
    const body = part("tbody");
    for (const row of rows.slice(0, SHOWN)) {
      const line = part("tr");
      line.append(part("td", "", row.name), part("td", "", row.exporter));
      for (const [mark, text] of row.cells) line.append(marked(TONES[mark], mark, text));
      [...line.children].forEach((cell, column) => { cell.dataset.label = titles[column]; });
      if (row.writes) line.title = tr("The rule's source names: {names}", { names: row.writes });
      body.append(line);
    }
    table.append(top, body);
    list.replaceChildren(table);
  }

  for (const [control, name] of [[search, "search"], [slider, "opset"], [exporter, "exporter"], [missing, "missing"], [element, "element"]]) {
    // Keys pressed here are not the notebook's.
    control.addEventListener("keydown", (event) => event.stopPropagation());
    control.addEventListener("input", () => {
      model.set(name, name === "opset" ? Number(control.value) : control.value);
      model.save_changes();
      draw();
    });
  }
  internal.addEventListener("keydown", (event) => event.stopPropagation());
  internal.addEventListener("input", draw);
  draw();
  return hideSaved(el, ".onnxlab-atlas.saved");
}

export default { render };
