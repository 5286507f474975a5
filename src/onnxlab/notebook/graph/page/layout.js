// The layout of a large graph in parts. Most models are long chains of blocks, each joined to the next by one
// node. Every stretch between such nodes is laid out on its own, stretches that are alike only once, in several
// workers at a time, and the results are stacked.

const STRETCH = 40;    // nodes in one stretch, at least

// Module workers do not start in a frame without an origin: Netron's layout becomes one classic script.
const layoutScript = (dagre) => `${dagre.replace(/^export\b.*$/gm, '')}
  onmessage = ({ data }) => {
    try {
      dagre.layout(data.nodes, data.edges, data.layout, data.state);
      postMessage(data);
    } catch (error) { postMessage({ type: 'error', message: error.message }); }
  };`;

// An order in which edges point forward, inputs come just before their first reader and ends just after their
// last writer; null where there is none.
const forwardOrder = (nodes, incoming, outgoing) => {
  const order = [], placed = new Set();
  const place = (v) => { placed.add(v); order.push(v); };
  for (const { v } of nodes) {
    if (placed.has(v) || (incoming.get(v).length === 0 && outgoing.get(v).length > 0)) continue;
    for (const edge of incoming.get(v)) {
      if (placed.has(edge.v)) continue;
      if (incoming.get(edge.v).length > 0) return null;
      place(edge.v);
    }
    place(v);
    for (const { w } of outgoing.get(v)) {
      const end = outgoing.get(w).length === 0 && !placed.has(w);
      if (end && incoming.get(w).every((edge) => placed.has(edge.v))) place(w);
    }
  }
  return order;
};

// The graph cut behind nodes through which everything passes; neighbouring stretches share that node.
const stretches = ({ nodes, edges }) => {
  const uncut = [{ nodes, edges, shared: null }];
  if (nodes.length < 2 * STRETCH || nodes.some((node) => node.parent)) return uncut;
  const byKey = new Map(nodes.map((node) => [node.v, node]));
  const incoming = new Map(nodes.map(({ v }) => [v, []])), outgoing = new Map(nodes.map(({ v }) => [v, []]));
  for (const edge of edges) {
    outgoing.get(edge.v).push(edge);
    incoming.get(edge.w).push(edge);
  }
  const order = forwardOrder(nodes, incoming, outgoing);
  if (!order) return uncut;
  const parts = [], open = new Map();   // nodes whose value is still to be read, and how often
  let current = { nodes: [], edges: [], shared: null };
  order.forEach((v, index) => {
    current.nodes.push(byKey.get(v));
    if (outgoing.get(v).length > 0) open.set(v, outgoing.get(v).length);
    for (const edge of incoming.get(v)) {
      current.edges.push(edge);
      open.set(edge.v, open.get(edge.v) - 1);
      if (open.get(edge.v) === 0) open.delete(edge.v);
    }
    if (open.size === 1 && current.nodes.length >= STRETCH && order.length - index > STRETCH / 2) {
      const [shared] = open.keys();
      parts.push(current);
      current = { nodes: [{ ...byKey.get(shared) }], edges: [], shared };
    }
  });
  return [...parts, current];
};

// Puts laid out stretches under one another (beside one another in a horizontal layout).
const stack = (parts, { rankdir, ranksep }) => {
  const [along, across, length] = rankdir === 'LR' ? ['x', 'y', 'width'] : ['y', 'x', 'height'];
  const end = (list) => list.reduce((most, node) => Math.max(most, node[along] + node[length] / 2), -Infinity);
  const result = { nodes: [...parts[0].nodes], edges: [...parts[0].edges] };
  let bottom = end(parts[0].nodes);
  const places = new Map(result.nodes.map((node) => [node.v, node]));
  for (const { nodes: [twin, ...nodes], edges, shared } of parts.slice(1)) {
    const anchor = places.get(shared);
    const top = nodes.reduce((least, node) => Math.min(least, node[along] - node[length] / 2), Infinity);
    const exact = anchor[along] - twin[along];
    const shift = { [across]: anchor[across] - twin[across], [along]: top + exact >= bottom ? exact : bottom + ranksep - top };
    const move = (place) => { place.x += shift.x; place.y += shift.y; };
    for (const node of nodes) {
      move(node);
      places.set(node.v, node);
    }
    for (const edge of edges) {
      edge.points?.forEach(move);
      if ('x' in edge) move(edge);
    }
    bottom = Math.max(bottom, end(nodes));
    result.nodes.push(...nodes);
    result.edges.push(...edges);
  }
  return result;
};

// Two stretches with the same form are laid out alike, whatever their nodes are.
const formOf = ({ nodes, edges }) => {
  const index = new Map(nodes.map(({ v }, i) => [v, i]));
  const numbers = nodes.flatMap(({ width, height }) => [width, height]);
  for (const { v, w, width, height, minlen } of edges) numbers.push(index.get(v), index.get(w), width, height, minlen);
  return `${nodes.length}:${numbers.join(',')}`;
};

// A stretch at the places that another one of its form was given.
const placed = ({ nodes, edges, shared }, form) => ({
  shared,
  nodes: nodes.map((node, i) => ({ ...node, x: form.nodes[i].x, y: form.nodes[i].y })),
  edges: edges.map((edge, i) => {
    const { points, x, y } = form.edges[i];
    return { ...edge, points: points?.map((point) => ({ ...point })), ...(x === undefined ? {} : { x, y }) };
  }),
});

// Up to so many nodes, a layout takes less time than starting a worker.
const SMALL = 120;

// Stands in for the one worker that Netron expects; `pool` starts the first one, see layoutPool(), `end` forgets it.
class LayoutWorkers extends EventTarget {
  constructor(pool, end) {
    super();
    this.pool = pool;
    this.end = end;
    this.workers = [];
  }

  // Never answers before it returns: Netron sets the clock of "This large graph layout might take ..." only then.
  async postMessage(request) {
    const { url, worker } = await (request.nodes.length > SMALL ? this.pool() : {});
    if (worker) await this.layOut(request, url, worker);
    else this.answer(() => {
      requireModule('dagre').layout(request.nodes, request.edges, request.layout, request.state);
      return request;
    });
  }

  answer(result) {
    let data = null;
    try { data = result(); } catch (error) { data = { type: 'error', message: error.message }; }
    this.dispatchEvent(new MessageEvent('message', { data }));
  }

  async layOut(request, url, first) {
    if (this.workers.length === 0) this.workers = [first];
    const { layout, state } = request;
    const parts = stretches(request);
    const forms = new Map();
    const keys = parts.map((part) => {
      const key = formOf(part);
      if (!forms.has(key)) forms.set(key, part);
      return key;
    });
    // Netron takes the coarsest method for large graphs; stretches are small enough for a better one.
    const method = parts.length > 1 && layout.ranker ? { ...layout, ranker: 'tight-tree' } : layout;
    const queue = [...forms];
    const work = async (worker) => {
      for (let job = queue.shift(); job; job = queue.shift()) {
        const [key, { nodes, edges }] = job;
        forms.set(key, await new Promise((resolve, reject) => {
          worker.onmessage = ({ data }) => data.type === 'error' ? reject(new Error(data.message)) : resolve(data);
          worker.onerror = (event) => reject(new Error(event.message));
          worker.postMessage({ nodes, edges, layout: method, state });
        }));
      }
    };
    const count = Math.min(forms.size, navigator.hardwareConcurrency || 2, 4);
    while (this.workers.length < count) this.workers.push(new Worker(url));
    try {
      await Promise.all(this.workers.slice(0, count).map(work));
      this.answer(() => ({ ...request, ...stack(parts.map((part, i) => placed(part, forms.get(keys[i]))), layout) }));
    } catch (error) { this.answer(() => { throw error; }); }
  }

  terminate() {
    this.workers.splice(0).forEach((worker) => worker.terminate());
    this.end();
  }
}

// The first worker, and the address of its script for further ones; none where the page's policy forbids workers.
const layoutPool = (dagre) => {
  const url = URL.createObjectURL(new Blob([layoutScript(dagre)], { type: 'text/javascript' }));
  return new Promise((resolve) => {
    try {
      const worker = new Worker(url);
      worker.onmessage = () => resolve({ url, worker });
      worker.onerror = () => resolve({});
      worker.postMessage({ nodes: [{ v: '0', width: 1, height: 1 }], edges: [], layout: {}, state: {} });
    } catch { resolve({}); }
  });
};
