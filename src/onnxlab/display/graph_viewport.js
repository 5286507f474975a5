// A large graph is kept out of the browser's layout except for what is in sight: tens of thousands of SVG
// elements cost seconds to lay out and to paint, a screenful costs nothing. Used from LARGE elements on.

const MARGIN = 20;
const LARGE = 600;
const CELL = 800;       // the grid on which elements are looked up, in pixels of the graph
const SPREAD = 300;     // an element over more cells than this stays visible

const useViewport = (netron, view) => {
  const { Graph } = netron;
  let items = [], grid = new Map(), everywhere = [], shown = new Set(), graph = null, planned = false;

  const parts = ({ label }) => [label.element, label.hitTest, label.labelElement].filter(Boolean);
  const show = (item, visible) => { for (const part of parts(item)) part.style.display = visible ? '' : 'none'; };
  const cells = (box) => {
    const keys = [];
    for (let x = Math.floor(box.left / CELL); x <= Math.floor(box.right / CELL); x++) {
      for (let y = Math.floor(box.top / CELL); y <= Math.floor(box.bottom / CELL); y++) keys.push(`${x},${y}`);
    }
    return keys;
  };
  const boxOf = ({ x, y, width = 0, height = 0, points = [] }) => {
    const xs = points.map((point) => point.x), ys = points.map((point) => point.y);
    if (x !== undefined) { xs.push(x - width / 2, x + width / 2); ys.push(y - height / 2, y + height / 2); }
    return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
  };

  const forget = () => { items = []; grid = new Map(); everywhere = []; shown = new Set(); graph = null; };
  const index = (drawn) => {
    forget();
    if (drawn.nodes.size + drawn.edges.size < LARGE) return;
    graph = drawn;
    items = [...drawn.nodes.values(), ...drawn.edges.values()].filter(({ label }) => label.element);
    for (const item of items) {
      const box = boxOf(item.label);
      const size = (box.right - box.left + CELL) * (box.bottom - box.top + CELL) / CELL / CELL;
      const inputs = item.label.class === 'graph-input';   // Netron scrolls to them
      if (inputs || !(size < SPREAD)) everywhere.push(item);
      else for (const key of cells(box)) grid.get(key)?.push(item) ?? grid.set(key, [item]);
      show(item, inputs);
    }
    shown = new Set(everywhere);
    everywhere.forEach((item) => show(item, true));
  };

  const update = () => {
    planned = false;
    const container = document.getElementById('target'), origin = document.getElementById('origin');
    if (!graph || view.target !== graph || !origin) return;
    const { left, top, width, height } = container.getBoundingClientRect();
    const back = origin.getScreenCTM().inverse();
    const corner = (x, y) => new DOMPoint(x, y).matrixTransform(back);
    const a = corner(left - width / 2, top - height / 2), b = corner(left + 1.5 * width, top + 1.5 * height);
    const wanted = new Set(everywhere);
    for (const key of cells({ left: a.x, right: b.x, top: a.y, bottom: b.y })) grid.get(key)?.forEach((item) => wanted.add(item));
    for (const item of shown) if (!wanted.has(item)) show(item, false);
    for (const item of wanted) if (!shown.has(item)) show(item, true);
    shown = wanted;
  };
  const plan = () => {
    if (!planned) setTimeout(update, 30);
    planned = true;
  };

  // Netron asks for the size of everything drawn, and leaves a margin of 100 around it. The size is known
  // without drawing anything; a smaller box makes a smaller margin, for a frame has little room.
  const restore = Graph.prototype.restore;
  Graph.prototype.restore = function (state) {
    index(this);
    const canvas = document.getElementById('canvas');
    if (isFinite(this.width)) {
      const cut = 100 - MARGIN;
      canvas.getBBox = () => ({ x: this.originX + cut, y: this.originY + cut, width: this.width - 2 * cut, height: this.height - 2 * cut });
    }
    const target = document.getElementById('target');
    target.style.setProperty('display', 'flex', 'important');   // it is hidden while it is being built
    restore.call(this, state);
    target.style.removeProperty('display');
    plan();
  };
  const scrollTo = Graph.prototype.scrollTo;
  Graph.prototype.scrollTo = function (selection, behavior) {
    const far = (selection || []).filter((element) => element.style.display === 'none');
    for (const element of far) element.style.display = '';
    scrollTo.call(this, selection, graph ? 'instant' : behavior);
    shown = new Set(items.filter((item) => parts(item).some((part) => part.style.display !== 'none')));
    plan();
  };
  const zoom = Graph.prototype._updateZoom;
  Graph.prototype._updateZoom = function (...args) { zoom.apply(this, args); plan(); };
  const save = view.export.bind(view);
  view.export = async (file) => {
    items.forEach((item) => show(item, true));
    shown = new Set(items);
    try { await save(file); } finally { plan(); }
  };
  document.getElementById('target').addEventListener('scroll', plan, { passive: true });
  window.addEventListener('resize', plan);
};
