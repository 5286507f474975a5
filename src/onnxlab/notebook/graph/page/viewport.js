// Of a large graph, only what is in sight is in the document: tens of thousands of SVG elements cost seconds to
// style, lay out and paint, a screenful costs nothing. Used from LARGE elements on.

const MARGIN = 20;
const LARGE = 600;
const CELL = 800;       // the grid on which elements are looked up, in pixels of the graph
const SPREAD = 300;     // an element over more cells than this stays in the document

const PARTS = ['element', 'hitTest', 'labelElement'];

const boxOf = ({ x, y, width = 0, height = 0, points = [] }) => {
  const xs = points.map((point) => point.x), ys = points.map((point) => point.y);
  if (x !== undefined) { xs.push(x - width / 2, x + width / 2); ys.push(y - height / 2, y + height / 2); }
  return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
};

const cellsOf = ({ left, right, top, bottom }) => {
  const keys = [];
  for (let x = Math.floor(left / CELL); x <= Math.floor(right / CELL); x++) {
    for (let y = Math.floor(top / CELL); y <= Math.floor(bottom / CELL); y++) keys.push(`${x},${y}`);
  }
  return keys;
};

// The elements of one drawn graph, and which of them are in the document. The others wait in groups of their own:
// Netron replaces elements that it selects, and needs their parents for it.
class Screenful {
  constructor(graph) {
    this.graph = graph;
    this.items = [...graph.nodes.values(), ...graph.edges.values()].filter(({ label }) => label.element);
    this.grid = new Map();
    this.always = [];
    for (const item of this.items) {
      item.places = Object.fromEntries(PARTS.filter((part) => item.label[part]).map((part) => [part, item.label[part].parentNode]));
      const box = boxOf(item.label);
      const size = (box.right - box.left + CELL) * (box.bottom - box.top + CELL) / CELL / CELL;
      // Netron scrolls to the inputs of a graph that it has drawn.
      if (item.label.class === 'graph-input' || !(size < SPREAD)) this.always.push(item);
      else for (const key of cellsOf(box)) this.grid.get(key)?.push(item) ?? this.grid.set(key, [item]);
    }
    this.waiting = new Map();
    this.shown = new Set(this.items);
    this.show(new Set(this.always));
  }

  show(items) {
    for (const item of this.shown) if (!items.has(item)) this.move(item, (place) => this.waitingRoom(place));
    for (const item of items) if (!this.shown.has(item)) this.move(item, (place) => place);
    this.shown = items;
  }

  move({ label, places }, where) { for (const part in places) where(places[part]).append(label[part]); }

  waitingRoom(place) {
    if (!this.waiting.has(place)) this.waiting.set(place, place.cloneNode(false));
    return this.waiting.get(place);
  }

  showAll() { this.show(new Set(this.items)); }

  showElements(elements) {
    const far = this.items.filter(({ label }) => elements.includes(label.element));
    this.show(new Set([...this.shown, ...far]));
  }

  // What is in sight, and as much again around it.
  update() {
    const origin = document.getElementById('origin');
    if (!origin) return;
    const { left, top, width, height } = document.getElementById('target').getBoundingClientRect();
    const back = origin.getScreenCTM().inverse();
    const corner = (x, y) => new DOMPoint(x, y).matrixTransform(back);
    const a = corner(left - width / 2, top - height / 2), b = corner(left + 1.5 * width, top + 1.5 * height);
    const near = cellsOf({ left: a.x, right: b.x, top: a.y, bottom: b.y }).flatMap((key) => this.grid.get(key) ?? []);
    this.show(new Set([...this.always, ...near]));
  }
}

const useViewport = ({ Graph }, view) => {
  let screenful = null, planned = false;
  const update = () => {
    planned = false;
    if (screenful && view.target === screenful.graph) screenful.update();
  };
  const plan = () => {
    if (!planned) setTimeout(update, 30);
    planned = true;
  };

  // Netron asks for the size of everything drawn, and leaves a margin of 100 around it. The size is known
  // without drawing anything; a smaller box makes a smaller margin, for a frame has little room.
  const restore = Graph.prototype.restore;
  Graph.prototype.restore = function (state) {
    screenful = this.nodes.size + this.edges.size < LARGE ? null : new Screenful(this);
    if (isFinite(this.width)) {
      const cut = 100 - MARGIN;
      const box = { x: this.originX + cut, y: this.originY + cut, width: this.width - 2 * cut, height: this.height - 2 * cut };
      document.getElementById('canvas').getBBox = () => box;
    }
    const target = document.getElementById('target');
    target.style.setProperty('display', 'flex', 'important');   // it is hidden while it is being built
    restore.call(this, state);
    target.style.removeProperty('display');
    plan();
  };
  const scrollTo = Graph.prototype.scrollTo;
  Graph.prototype.scrollTo = function (elements, behavior) {
    screenful?.showElements(elements || []);
    scrollTo.call(this, elements, screenful ? 'instant' : behavior);
    plan();
  };
  const zoom = Graph.prototype._updateZoom;
  Graph.prototype._updateZoom = function (...args) { zoom.apply(this, args); plan(); };
  const save = view.export.bind(view);
  view.export = async (file) => {
    screenful?.showAll();
    try { await save(file); } finally { plan(); }
  };
  document.getElementById('target').addEventListener('scroll', plan, { passive: true });
  window.addEventListener('resize', plan);
};
