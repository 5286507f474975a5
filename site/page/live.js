// What is alive on a page without a kernel: graphs, predictions, the atlas. The widgets' own scripts stand above
// this, unchanged, in `widgets`; each gets an object that answers as a kernel does, from what the notebook saved.

const here = document.currentScript.src;
const root = document.documentElement;
const words = globalThis.onnxlabWords;
const tr = (text, gaps = {}) => (words[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => gaps[name]);
const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const zipped = async (bytes) => new Uint8Array(
  await new Response(new Blob([bytes]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer());

// A script that brings data. Unlike fetch() this works from a disk, too.
const loading = new Map();
const loaded = (file) => {
  if (!loading.has(file)) {
    loading.set(file, new Promise((resolve, reject) => {
      const script = document.createElement('script');
      script.src = new URL(file, here).href;
      script.onload = () => resolve(globalThis.onnxlabData[file]);
      script.onerror = () => { loading.delete(file); reject(new Error(tr('The drawing code of this page could not be loaded.'))); };
      document.head.append(script);
    }));
  }
  return loading.get(file);
};

// What a widget asks of its model: state, events, and answers to its messages.
const kernelless = (values, answer) => {
  const listeners = new Map();
  const emit = (event, ...details) => (listeners.get(event) ?? []).slice().forEach((listener) => listener(...details));
  return {
    get: (name) => values[name],
    set(name, value) { values[name] = value; emit(`change:${name}`); },
    save_changes() {},
    on: (event, listener) => listeners.set(event, [...listeners.get(event) ?? [], listener]),
    off: (event, listener) => listeners.set(event, (listeners.get(event) ?? []).filter((other) => other !== listener)),
    async send(message) {
      if (!answer) return;
      try {
        const [content, buffers] = await answer(message);
        emit('msg:custom', { ...content, request: message.request }, buffers);
      } catch (error) { emit('msg:custom', { request: message.request, error: error.message }, []); }
    },
  };
};

const graphState = { _kit: 'site', _notes: [], _translations: words, _selected: [], _to_select: [], _words: '' };
globalThis.onnxlabPage = { graph: widgets.graph, kernelless, graphState, loaded, bytesOf, zipped, words };   // for open/open.js

// A saved graph and what stands around its picture become the state of a live one.
const graphModel = (picture, { height, panes, pairs }) => {
  const titles = [...picture.querySelectorAll('figcaption')].map((caption) => caption.textContent);
  const answers = {
    kit: async () => [{}, [bytesOf((await loaded('netron.js')).kit)]],
    model: async ({ pane, grouped }) => {
      const { models, nodes, format } = panes[pane];
      const content = { name: titles[pane] ?? 'graph', origin: { format, producer: '' }, size: nodes };
      return [content, [await zipped(bytesOf(models.at(grouped ? -1 : 0))), bytesOf((await loaded('netron.js')).operators)]];
    },
    weight: async () => { throw new Error(tr('The weights are not part of this page. Run the notebook to see them.')); },
  };
  const state = {
    ...graphState, _height: height, _pairs: pairs, _titles: titles, _words: picture.querySelector(':scope > pre')?.textContent ?? '',
    _groups: panes.map(({ groups }) => groups), _marks: panes.map(({ marks }) => marks),
  };
  return kernelless(state, (message) => answers[message.kind](message));
};

// The picture stays until every frame of its live graph is drawn; where that fails, it simply stays.
const bringToLife = (picture, saved) => {
  const began = performance.now();
  const place = document.createElement('div');
  place.className = 'onnxlab-live onnxlab-waiting';
  picture.after(place);
  const showWhenReady = () => {
    const frames = [...place.querySelectorAll('iframe')];
    if (place.querySelector('.onnxlab-message')) { progress.disconnect(); place.remove(); return; }
    if (!frames.length || frames.some((frame) => frame.dataset.status !== 'ready')) return;
    progress.disconnect();
    place.classList.remove('onnxlab-waiting');
    place.dataset.milliseconds = Math.round(performance.now() - began);
    picture.classList.add('onnxlab-replaced');
    for (const line of picture.parentElement.querySelectorAll(':scope > .onnxlab-hidden')) line.hidden = true;
  };
  const progress = new MutationObserver(showWhenReady);
  progress.observe(place, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-status'] });
  widgets.graph.render({ model: graphModel(picture, saved), el: place });
};

const bringGraphsToLife = () => {
  // A graph is drawn shortly before it comes into sight.
  const sight = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      sight.unobserve(target);
      bringToLife(target, JSON.parse(target.parentElement.querySelector(':scope > script.onnxlab-structure').textContent));
    }
  }, { rootMargin: '400px' });
  for (const script of document.querySelectorAll('script.onnxlab-structure')) {
    const still = script.parentElement.querySelector(':scope > .onnxlab-still');
    still.tabIndex = 0;   // so that a wide picture scrolls with the keyboard
    sight.observe(still);
  }
};

const textOf = (element) => element.textContent.trim();
const tableOf = (box) => [...box.querySelectorAll('tr')].map((line) => [...line.querySelectorAll('th, td')].map(textOf));

// A question with options, or a table of cells to predict, from its saved form.
const predictionState = (saved) => {
  const question = saved.querySelector('.question') ? textOf(saved.querySelector('.question')) : '';
  const options = [...saved.querySelectorAll('li')].map(textOf);
  const fresh = { words, question, again: false, score: '' };
  if (options.length) return { ...fresh, options, chosen: '', actual: '' };
  const [[, ...columns], ...lines] = tableOf(saved);
  const rows = lines.map(([name]) => name);
  // "Each cell: runs or fails?"
  const choices = textOf(saved.querySelector('.hint')).replace(/^.*?[:：]|[?？]$/g, '').split(` ${tr('or')} `).map((choice) => choice.trim());
  return { ...fresh, rows, columns, choices, chosen: rows.map(() => columns.map(() => '')), actual: [] };
};

// What a reader has predicted is kept in this browser, by page and question, and goes nowhere else.
const kept = () => {
  try { return JSON.parse(localStorage.getItem('onnxlab-predictions')) ?? {}; } catch { return {}; }
};
const keep = (key, entry) => {
  const all = kept();
  all[key] = { ...all[key], ...entry };
  try { localStorage.setItem('onnxlab-predictions', JSON.stringify(all)); } catch { /* the browser keeps nothing */ }
};
const questionKey = ({ question, options, rows, columns, choices }) =>
  JSON.stringify([location.pathname.split('/').at(-1), question, options ?? [rows, columns, choices]]);
const isFilled = ({ chosen }) => [chosen].flat(2).some(Boolean);
const sameShape = (a, b) => Array.isArray(a) ? Array.isArray(b) && a.length === b.length && a.every((part, i) => sameShape(part, b[i])) : typeof a === typeof b;

// The score of the page stands below its title and in each question.
const showScore = (asked) => {
  const all = kept();
  const rights = asked.map(({ key }) => all[key]?.right);
  const [right, wrong] = [true, false].map((outcome) => rights.filter((is) => is === outcome).length);
  const total = asked.length;
  const text = tr('Predictions in this chapter: {right} of {total} right, {wrong} wrong, {left} open.', { right, total, wrong, left: total - right - wrong });
  asked.forEach(({ model }) => { if (model.get('score') !== text) model.set('score', text); });
  let head = document.querySelector('.onnxlab-score');
  if (!head) {
    head = document.createElement('p');
    head.className = 'onnxlab-score';
    head.append(document.createElement('span'), document.createElement('button'));
    head.lastChild.type = 'button';
    head.lastChild.textContent = tr('Ask the wrong ones again');
    head.lastChild.addEventListener('click', () => {
      const again = asked.filter(({ key, model }) => kept()[key]?.right === false && model.get('actual').length);
      again.forEach(({ model, empty }) => { model.set('again', true); model.set('chosen', empty); });
      again[0]?.place.querySelector('[tabindex="0"]')?.focus();
    });
    document.querySelector('.onnxlab-doors').after(head);
  }
  head.firstChild.textContent = text;
  head.lastChild.hidden = !wrong;
};

// What the reader has predicted, and whether that is right: the question may be out of sight by now.
const verdict = ({ chosen, actual }) => {
  const grid = Array.isArray(chosen);
  const pairs = grid ? chosen.flatMap((line, r) => line.map((cell, c) => [cell, actual[r][c]])) : [[chosen, actual]];
  const filled = pairs.filter(([cell]) => cell);
  if (!filled.length) return [];
  const hits = filled.filter(([cell, is]) => cell === is).length;
  const line = document.createElement('p');
  line.className = hits === filled.length ? 'verdict good' : 'verdict bad';
  if (grid) line.textContent = tr('{hits} of {filled} predictions right.', { hits, filled: filled.length });
  else line.textContent = hits ? tr('You were right.') : tr('You said {chosen}. It is {actual}.', { chosen, actual });
  return [line];
};

// An answer belongs to the first question above it that has no answer yet and could have this one.
const bringPredictionsToLife = () => {
  const open = [];
  const asked = [];
  for (const box of document.querySelectorAll('.onnxlab-predict.saved, .onnxlab-predict.answer')) {
    if (box.classList.contains('saved')) { open.push({ box, state: predictionState(box) }); continue; }
    const cells = box.querySelector('table') && tableOf(box);
    const text = textOf(box);
    const at = open.findIndex(({ state }) => cells
      ? state.rows?.join() === cells.slice(1).map(([name]) => name).join()
      : state.options?.some((option) => text.endsWith(option)));
    if (at < 0) continue;
    const [{ box: question, state }] = open.splice(at, 1);
    const answers = cells ? cells.slice(1).map((line) => line.slice(1)) : state.options.filter((option) => text.endsWith(option)).sort((a, b) => b.length - a.length)[0];
    const key = questionKey(state);
    const before = kept()[key];
    const empty = state.chosen;
    if (sameShape(empty, before?.chosen)) state.chosen = before.chosen;
    const model = kernelless(state);
    const place = document.createElement('div');
    asked.push({ key, model, empty, place });
    question.after(place);
    question.classList.add('onnxlab-replaced');
    widgets[cells ? 'grid' : 'choice'].render({ model, el: place });
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'onnxlab-reveal';
    button.textContent = tr('Show the answer');
    box.hidden = true;
    box.after(button);
    const note = () => {
      const isOut = state.actual.length && !state.again;
      if (isFilled(state) || state.again) keep(key, { chosen: state.chosen, ...(isOut && { right: JSON.stringify(state.chosen) === JSON.stringify(state.actual) }) });
      box.querySelector('.verdict')?.remove();
      if (isOut) box.append(...verdict(state));
      showScore(asked);
    };
    for (const name of ['chosen', 'actual', 'again']) model.on(`change:${name}`, note);
    const reveal = () => {
      model.set('actual', answers);
      box.hidden = false;
      button.remove();
    };
    button.addEventListener('click', () => {
      reveal();
      box.tabIndex = -1;
      box.focus();
    });
    if (before && 'right' in before) reveal(); // at an earlier visit
  }
  if (asked.length) showScore(asked);
};

const bringAtlasToLife = async () => {
  const place = document.querySelector('.onnxlab-whole-atlas');
  if (!place) return;
  const search = new URLSearchParams(location.search).get('q') ?? '';
  const atlas = JSON.stringify(await loaded('atlas.js'));
  place.replaceChildren();
  const model = kernelless({ atlas, words, search, opset: 20, exporter: 'both', missing: '', element: '' });
  widgets.atlas.render({ model, el: place });
  model.on('change:search', () => {   // so that the address of what is shown can be passed on
    const address = new URL(location.href);
    address.searchParams.set('q', model.get('search'));
    if (!model.get('search')) address.searchParams.delete('q');
    history.replaceState(null, '', address);
  });
  place.querySelector('input[type=search]').focus();
};

// The first use of each word of the glossary on a page shows its text under the pointer and under the keyboard.
const explainTerms = () => {
  const article = document.querySelector('article.bd-article');
  if (!article || document.querySelector('.onnxlab-hero') || location.pathname.endsWith('/glossary.html')) return;
  const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement.closest('pre, code, a, h1, h2, h3, dl, script, .output, .onnxlab-run, .onnxlab-doors') ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  const nodes = [];
  while (texts.nextNode()) nodes.push(texts.currentNode);
  for (const { words: names, text } of globalThis.onnxlabTerms ?? []) {
    const pattern = new RegExp(names.map((name) => (/^\w/.test(name) ? `\\b${name}\\b` : name)).join('|'), 'i');
    const at = nodes.findIndex((node) => pattern.test(node.data));
    if (at < 0) continue;
    const found = pattern.exec(nodes[at].data);
    const word = nodes[at].splitText(found.index);
    const rest = word.splitText(found[0].length);
    const term = document.createElement('dfn');
    Object.assign(term, { tabIndex: 0, className: 'onnxlab-term' });
    term.dataset.text = text;
    term.setAttribute('aria-label', `${found[0]}: ${text}`);
    word.replaceWith(term);
    term.append(word);
    nodes.splice(at + 1, 0, rest);
  }
};

// The widgets read and watch JupyterLab's mark of a dark page.
const markTheme = () => {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.body.dataset.jpThemeLight = String(!dark);
};

// Paper is light, and nobody can open on it what is folded; folded code stays away (site.css).
const printWhole = () => {
  const paper = matchMedia('print');
  let screen = root.dataset.theme;
  let folded = [];
  paper.addEventListener('change', () => {
    if (paper.matches) {
      screen = root.dataset.theme;
      folded = [...document.querySelectorAll('.bd-article details:not(.hide, [open])')];
    }
    root.dataset.theme = paper.matches ? 'light' : screen;
    folded.forEach((part) => { part.open = paper.matches; });
  });
};

document.addEventListener('DOMContentLoaded', () => {
  markTheme();
  printWhole();
  new MutationObserver(markTheme).observe(root, { attributes: true, attributeFilter: ['data-theme'] });
  bringGraphsToLife();
  bringPredictionsToLife();
  bringAtlasToLife();
  explainTerms();
});
