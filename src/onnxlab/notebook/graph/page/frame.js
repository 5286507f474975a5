// Runs inside the sandboxed frame, after marks.js: starts Netron on one model.
// The frame has an origin of its own and a policy that forbids every request; all it can do is talk to the
// notebook's page (widget.js) by messages.

const post = (message) => parent.postMessage(message, '*');

// Netron writes documentation strings of a model as HTML. Whatever they say, only harmless elements get in.
const restrictHtml = () => {
  const elements = new Set(('a b blockquote br code dd div dl dt em h1 h2 h3 h4 h5 h6 i li ol p pre s span strong sub sup '
    + 'table tbody td th thead tr tt u ul svg use').split(' '));
  const attributes = new Set(['class', 'title', 'style']);
  const inner = Object.getOwnPropertyDescriptor(window.Element.prototype, 'innerHTML');
  Object.defineProperty(window.Element.prototype, 'innerHTML', {
    configurable: true,
    get() { return inner.get.call(this); },
    set(html) {
      const template = document.createElement('template');
      inner.set.call(template, html);
      for (const element of template.content.querySelectorAll('*')) {
        if (!elements.has(element.localName)) element.remove();
        for (const { name, value } of [...element.attributes]) {
          const link = name === 'href' && (element.localName === 'use' ? value.startsWith('#') : /^https:\/\//.test(value));
          if (!attributes.has(name) && !link) element.removeAttribute(name);
        }
      }
      this.replaceChildren(template.content);
    },
  });
};

// A link never moves the frame; the page opens it in a tab of its own.
const keepInFrame = () => window.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link) return;
  event.preventDefault();
  if (link.protocol === 'https:') post({ kind: 'open', url: link.href });
}, true);

// A click takes the keyboard into the frame, so that Escape and the shortcuts of Netron's menu work: Netron prevents
// what a browser does by itself. Shift+Enter stays the notebook's, which runs its next cell.
const shareKeyboard = () => {
  window.addEventListener('pointerdown', () => window.focus(), true);
  window.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || !event.shiftKey || event.target.localName === 'input') return;
    event.preventDefault();
    post({ kind: 'run' });
  });
};

// A window whose animation frames come at once: browsers withhold them from frames that are out of sight,
// and a graph below the fold would stay undrawn until somebody scrolls to it.
const eagerWindow = () => new Proxy(window, {
  get: (target, name) => {
    if (name === 'requestAnimationFrame') return (next) => setTimeout(() => next(performance.now()), 0);
    if (name === 'setTimeout') return (next, delay) => setTimeout(next, delay > 20 ? delay : 0);   // pauses for the eye
    const value = Reflect.get(target, name, target);
    return typeof value === 'function' && !value.prototype ? value.bind(target) : value;
  },
});

const loadNetron = (code) => {
  window.exports = {};
  const script = document.createElement('script');
  script.nonce = NONCE;
  script.textContent = code;
  document.head.append(script);
  const base = requireModule('base');
  requireModule('browser');
  requireModule('view');
  return { base, ...window.exports };
};

// Netron asks for a weight twice, for its numbers and for their statistics. Only in place of the numbers it says
// why there are none.
const refusals = new WeakSet();
window.addEventListener('unhandledrejection', (event) => { if (refusals.has(event.reason)) event.preventDefault(); });

const waiting = new Map();
const fetchWeight = (location) => new Promise((resolve, reject) => {
  const request = waiting.size + Math.random();
  waiting.set(request, { resolve, reject });
  post({ kind: 'weight', request, location });
});

// Netron's own host asks for consent, contacts a location service and analytics, refuses builds older than
// half a year, and fetches from a server. This one does none of it.
const hostClass = (Host, { base, pool, endWorker, operators, name }) => class extends Host {
  constructor() {
    const evaluate = window.eval;
    super();
    window.eval = evaluate;   // Netron disables it for everybody in the frame, browser tests included
    this._window = eagerWindow();
    Object.assign(this._environment, { type: 'Notebook', packaged: false, serial: false });
  }
  async view(view) { this._view = view; }
  async start() {}
  async require(id) { return requireModule(id); }
  worker() { return new LayoutWorkers(pool, endWorker); }
  async asset(file) { return file === 'onnx-metadata.json' ? operators : '[]'; }
  async fetch(file) { return new base.BinaryStream(await fetchWeight(file)); }
  async export(file, blob) { post({ kind: 'save', name: `${name}.${file.split('.').pop()}`, blob }); }
  async execute(command) { if (command === 'about') this._view.about(); }
  exception() {}
  event() {}
  get() { return null; }
  set() {}
  delete() {}
  openURL() {}
};

// Up to so many nodes, bodies of Loop, If and Scan are open at first, as in the picture (see pane.py).
const OPEN = 60;

let view = null;
let marks = {};
let nodes = [];
const paint = () => view?.target && eachBox(view.target, (box) => paintBox(box, marks[box.value.onnxlabId]));

const setTheme = (dark) => {
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      rule.onnxlabDark ??= /prefers-color-scheme/.test(rule.conditionText);
      if (rule.onnxlabDark) rule.media.mediaText = dark ? 'all' : 'not all';
    }
  }
  document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
};

// When a graph is drawn for the first time, its bodies are open; later it is as the reader left it.
const openBodies = (Graph) => {
  const { add } = Graph.prototype;
  const drawn = new Set();
  Graph.prototype.add = function (graph, ...rest) {
    const bodies = drawn.has(graph) ? [] : innerGraphs(graph);
    bodies.forEach((body) => this.blocks.add(body));
    [graph, ...bodies].forEach((known) => drawn.add(known));
    return add.call(this, graph, ...rest);
  };
};

const select = (id) => {
  const place = nodes.find(({ node, root }) => node.onnxlabId === id && root === view.model.modules[0]);
  if (place) revealNode(view, place);
  else view?.target?.clearSelection();
};

// A highlight out of sight explains nothing: when none is in sight, the graph opens at the first one.
const showFirstMark = () => {
  const marked = [];
  eachBox(view.target, ({ value, element }) => { if (element && marks[value.onnxlabId]?.stroke) marked.push(element); });
  const pane = document.getElementById('target').getBoundingClientRect();
  const inSight = (element) => {
    const box = element.getBoundingClientRect();   // empty for what useViewport keeps out of the document
    return box.width > 0 && box.left < pane.right && box.right > pane.left && box.top < pane.bottom && box.bottom > pane.top;
  };
  if (marked.length > 0 && !marked.some(inSight)) view.target.scrollTo(marked.slice(0, 1), 'instant');
};

// A link in the notebook's text names a node, or an operator and means its first node.
const find = (name) => {
  const own = nodes.filter(({ root }) => root === view.model.modules[0]);
  const place = own.find(({ node }) => node.name === name) ?? own.find(({ node }) => node.type.name === name);
  post({ kind: 'found', id: place?.node.onnxlabId ?? '' });
};

// A page may hide the cell of a graph (JupyterLab hides those out of sight). In a hidden frame every label has the
// size 0, and all nodes of the layout would overlap: drawing waits until the frame is shown. Only measuring a label
// tells; the frame's resize event may come late, hence the clock.
const shown = (isShown) => new Promise((resolve) => {
  const check = () => {
    if (!isShown()) return;
    window.removeEventListener('resize', check);
    clearInterval(clock);
    resolve();
  };
  const clock = setInterval(check, 250);
  window.addEventListener('resize', check);
  check();
});

// Netron, before there is a model: a frame may wait for one with Netron in it, and with a worker that has started.
let loaded = null;
const prepare = ({ netron: code, dagre, worker }) => {
  restrictHtml();
  keepInFrame();
  shareKeyboard();
  let first = null;
  const pool = () => (first ??= layoutPool(dagre));
  if (worker) pool();
  const endWorker = () => { first?.then(({ worker: started }) => started?.terminate()); first = null; };
  loaded = { ...loadNetron(code), pool, endWorker };
  showValues(loaded.view.Graph, () => marks);
  linkInnerBodies(loaded.view.Block);
};

const start = async ({ model: bytes, operators, marks: firstMarks, dark, name, origin, size, find }) => {
  setTheme(dark);
  marks = firstMarks;
  const isShown = useRuler();
  await shown(isShown);
  const { base, browser, view: netron, pool, endWorker } = loaded;
  if (size <= SMALL) endWorker();
  if (size <= OPEN) openBodies(netron.Graph);
  const host = new (hostClass(browser.Host, { base, pool, endWorker, operators, name }))();
  view = new netron.View(host);
  const show = view.show.bind(view);
  view.show = (page) => { show(page); paint(); };
  const showNode = view.showNodeProperties.bind(view);
  view.showNodeProperties = (node, source) => {
    if (node?.onnxlabId) post({ kind: 'selected', id: node.onnxlabId });
    showNode(node, source);
  };
  const open = view._modelFactoryService.open.bind(view._modelFactoryService);
  view._modelFactoryService.open = async (context) => {
    const model = await open(context);
    nodes = identifyNodes(model);
    [model._format, model._producer] = [origin.format, origin.producer];   // see lean_model.py
    return model;
  };
  // Netron focuses itself whenever it draws, which would take the caret away from the notebook's cell.
  for (const id of ['target', 'open-file-button']) document.getElementById(id).focus = () => {};
  await view.start();
  useViewport(netron, view);
  reportMoves(netron.Graph);
  trimMenu(view._menu);
  const context = new browser.Context(host, '', 'model.onnx', null, new base.BinaryStream(bytes));
  await view.open(context);
  view.show(null);
  useSearch(nodes.filter(({ root }) => root === view.model.modules[0]), find, (place) => {
    post({ kind: 'selected', id: place.node.onnxlabId });
    revealNode(view, place);
  }, ({ node }) => view.showNodeProperties(node));
  if (unmeasured || !isShown()) {   // hidden while it was drawn
    await shown(isShown);
    post({ kind: 'again' });
    return;
  }
  showFirstMark();
  post({ kind: 'ready', nodes: view.target.nodes.size });
};

// What makes no sense inside a notebook: opening another file, reporting an issue with a link.
const trimMenu = (menu) => {
  const [file] = menu?.items || [];
  if (file?.items?.[0]?.label === '&Open...') file.items.shift();
  if (menu?.items?.at(-1)?.label === '&Help') menu.items.pop();
};

// The whole graph in sight, at a scale from `least` to `most`.
const fit = ({ least, most }) => {
  const { clientWidth, clientHeight } = document.getElementById('target');
  const graph = view.target, canvas = document.getElementById('canvas');
  const zoom = Math.max(least, Math.min(most, clientWidth / graph._width, clientHeight / graph._height));
  graph.zoom = zoom;
  if (graph.zoom >= zoom) return;
  graph._zoom = zoom;   // Netron's own ends at 1.4
  Object.assign(canvas.style, { width: `${zoom * graph._width}px`, height: `${zoom * graph._height}px` });
};

// Two graphs can move together: what the reader does here is reported, what another frame did is not.
let mutedUntil = 0;
const reportMoves = (Graph) => {
  const target = document.getElementById('target');
  const report = () => {
    if (performance.now() < mutedUntil || !view.target) return;
    post({ kind: 'moved', zoom: view.target.zoom, left: target.scrollLeft, top: target.scrollTop });
  };
  const zoom = Graph.prototype._updateZoom;
  Graph.prototype._updateZoom = function (...args) { zoom.apply(this, args); report(); };
  target.addEventListener('scroll', report, { passive: true });
};
const move = ({ zoom, left, top }) => {
  mutedUntil = performance.now() + 200;
  if (view.target.zoom !== zoom) view.target.zoom = zoom;
  document.getElementById('target').scrollTo({ left, top, behavior: 'instant' });
};

// What is dropped on the graph is for the page around it, not for Netron, which would open it here.
for (const kind of ['dragover', 'drop']) {
  window.addEventListener(kind, (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (kind === 'drop') post({ kind: 'dropped', files: [...event.dataTransfer.files] });
  }, true);
}
window.addEventListener('message', ({ source, data }) => {
  if (source !== parent) return;
  if (data.kind === 'netron') prepare(data);
  if (data.kind === 'start') start(data).catch((error) => post({ kind: 'failed', text: String(error?.message || error) }));
  if (data.kind === 'marks') { marks = data.marks; paint(); }
  if (data.kind === 'theme') setTheme(data.dark);
  if (data.kind === 'select') select(data.id);
  if (data.kind === 'find') find(data.name);
  if (data.kind === 'fit' && view?.target) fit(data);
  if (data.kind === 'move' && view?.target) move(data);
  if (data.kind === 'weight') {
    const { resolve, reject } = waiting.get(data.request) || {};
    waiting.delete(data.request);
    if (!data.error) { resolve?.(data.bytes); return; }
    const refusal = new Error(data.error);
    refusals.add(refusal);
    reject?.(refusal);
  }
});
post({ kind: 'hello' });
