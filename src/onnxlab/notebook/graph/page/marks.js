// What ONNX Lab adds to Netron's nodes, alike in the live frame and in the static picture:
// the identifier of each node, the rows of values inside it, and the colour of its border.

const IDENTIFIER = 'onnxlab.id';

const isGroup = (node) => node.onnxlabId?.startsWith('group:');

// Give every node of a model that Netron has read its identifier, and take the carrier out of the metadata; the
// boxes of the model's own inputs and outputs have theirs by name (see pane.py).
// Returns all nodes, each with the graph or function it is drawn in and the graphs to open on the way to it.
const identifyNodes = (model) => {
  const nodes = [], visited = new Set();
  for (const { inputs, outputs } of model.modules) {
    for (const end of inputs || []) end.onnxlabId = `input:${end.name}`;
    for (const end of outputs || []) end.onnxlabId = `output:${end.name}`;
  }
  const todo = [...model.modules, ...(model.functions || [])].map((root) => ({ root, graph: root, around: [] }));
  while (todo.length > 0) {
    const { root, graph, around } = todo.shift();
    if (!graph || visited.has(graph)) continue;
    visited.add(graph);
    for (const node of graph.nodes || []) {
      const carrier = (node.metadata || []).findLast((entry) => entry.name === IDENTIFIER);
      if (carrier) {
        node.onnxlabId = carrier.value;
        node.metadata = node.metadata.filter((entry) => entry !== carrier);
      }
      for (const { type, value } of node.attributes || []) {
        if (type === 'graph') todo.push({ root, graph: value, around: [...around, value] });
        if (type === 'graph[]') value.forEach((body) => todo.push({ root: body, graph: body, around: [] }));
      }
      nodes.push({ node, root, around });
    }
  }
  return nodes;
};

// Netron builds each node in Graph.createNode; values are one more list of arguments in the same box.
const showValues = (Graph, marks) => {
  const createNode = Graph.prototype.createNode;
  Graph.prototype.createNode = function (node) {
    const box = createNode.call(this, node);
    const rows = (node.onnxlabId && marks()[node.onnxlabId]?.rows) || [];
    if (rows.length > 0) {
      const list = box.list();
      for (const [name, text] of rows) {
        const row = list.argument(name, text);
        if (name) row.separator = ' = ';
        list.add(row);
      }
      box.onnxlabList = list;
    }
    return box;
  };
};

// Netron draws what a body reads from around it only for bodies of the main graph; here also for the bodies inside.
const linkInnerBodies = (Block) => {
  const { build, update } = Block.prototype;
  Block.prototype.build = function (...args) {
    this.target.addTunnels();
    build.apply(this, args);
  };
  Block.prototype.update = function () {
    update.call(this);
    this.target.updateTunnels();
  };
};

// The bodies of Loop, If and Scan, at any depth.
const innerGraphs = (graph) => graph.nodes.filter((node) => !isGroup(node)).flatMap((node) => node.attributes
  .flatMap(({ type, value }) => type === 'graph' && value ? [value, ...innerGraphs(value)] : []));

// Every drawn node, input and output, also those inside opened Loop, If and Scan bodies.
const eachBox = (graph, visit) => {
  for (const { label } of graph.nodes.values()) {
    if (label?.value?.onnxlabId) visit(label, graph);
    eachInner(label, visit);
  }
};
const eachInner = (box, visit) => {
  for (const block of box?.blocks || []) {
    if (block.target?.nodes) eachBox(block.target, visit);
    for (const item of block._items || []) {
      for (const content of Array.isArray(item.content) ? item.content : [item.content]) {
        if (content?.blocks) eachInner(content, visit);
      }
    }
  }
};

// Colours come from Python: `stroke` is the border's, `fill` that of the value rows; both may be absent.
const paintBox = (box, mark) => {
  if (!box.border) return;
  const set = (element, name, value) => value ? element.style.setProperty(name, value) : element.style.removeProperty(name);
  set(box.border, 'stroke', mark?.stroke);
  set(box.border, 'stroke-width', mark?.stroke ? '3px' : '');
  if (box.onnxlabList) set(box.onnxlabList.background, 'fill', mark?.fill);
};
