// Draws a graph as SVG without a browser: the few members of a browser's document with which Netron's grapher
// builds, measures and places a graph. Runs in QuickJS (see static_picture.py).

const escapeXml = (text) => String(text)
  .replace(/[^\t\n\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
  .replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const rounded = (text) => String(text)
  .replace(/-?\d+\.\d+(e-?\d+)?/g, (n) => String(Math.round(n)))
  .replace(/a0,0 0 0 1 0,0/g, '');   // the corners that are not round

// Most of an edge is straight down: one V instead of a row of curves through points with the same x.
const shortened = (path) => {
  const steps = path.match(/[MLC][^MLC]*/g) || [];
  const points = steps.map((step) => step.slice(1).split(',').map(Number));
  let out = '', x = NaN;
  steps.forEach((step, i) => {
    const own = points[i], straight = own.every((value, k) => k % 2 === 1 || value === x);
    const next = points[i + 1]?.every((value, k) => k % 2 === 1 || value === x);
    if (!straight) out += step;
    else if (!next) out += `V${own[own.length - 1]}`;
    x = own[own.length - 2];
  });
  return out;
};

class Style {
  setProperty(name, value) { this[name] = value; }
  removeProperty(name) { delete this[name]; }
}
for (const name of ['setProperty', 'removeProperty']) {
  Object.defineProperty(Style.prototype, name, { enumerable: false });
}

class Element {
  constructor(tag) {
    this.tag = tag;
    this.attributes = new Map();
    this.children = [];
    this.parentNode = null;
    this.text = null;
    this.style = new Style();
  }

  get classes() { return (this.attributes.get('class') || '').split(' '); }
  get lastChild() { return this.children[this.children.length - 1] || null; }
  // U+2024 stands for a full stop in the names of groups (see groups.py).
  set textContent(value) { this.children = []; this.text = String(value).replaceAll('\u2024', '.'); }

  setAttribute(name, value) { this.attributes.set(name, rounded(value)); }
  addEventListener() {}
  appendChild(child) { this.children.push(child); child.parentNode = this; return child; }

  // The size of a text, from the widths of Helvetica's glyphs in thousandths of the font size.
  getBBox() {
    const size = FONT.sizes.find(([name]) => this.within(name))?.[1] ?? 10;
    const measure = (element, bold) => {
      if (element.tag === 'title') return 0;
      bold = bold || element.style.fontWeight === 'bold';
      const own = [...(element.text ?? '')].reduce((sum, glyph) => sum + glyphWidth(glyph, bold), 0);
      return element.children.reduce((sum, child) => sum + measure(child, bold), own);
    };
    const width = measure(this, false) * size / 1000;
    if (this.tag === 'text') this.measured = width;
    return { x: 0, y: -0.905 * size, width, height: 1.149 * size };
  }

  within(name) {
    for (let element = this; element; element = element.parentNode) {
      if (element.classes.includes(name)) return true;
    }
    return false;
  }

  // Leaves out what a still picture cannot use: tooltips, hit areas, empty groups, identifiers.
  toString() {
    if (this.tag === '#text') return escapeXml(this.text);
    if (this.tag === 'title' || this.attributes.get('id') === 'edge-paths-hit-test') return '';
    if (this.tag === 'rect' && this.parentNode?.classes.includes('node-argument')) return '';
    if (this.tag === 'path' && !this.attributes.get('d')) return '';
    if (this.tag === 'marker' && /select|hover/.test(this.attributes.get('id'))) return '';
    const inner = this.text === null ? this.children.join('') : escapeXml(this.text);
    if ((this.tag === 'g' || this.tag === 'defs') && !inner) return '';
    let head = this.tag;
    for (const [name, value] of this.attributes) {
      const arrow = name === 'id' && value.startsWith('arrowhead');
      if ((name === 'id' && !arrow) || name === 'xml:space') continue;
      head += ` ${name}="${escapeXml(name === 'd' && this.classes.includes('edge-path') ? shortened(value) : value)}"`;
    }
    const hyphened = (name) => name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);
    const style = Object.entries(this.style).filter(([name, value]) => value !== '' && name !== 'opacity').map(([name, value]) => `${hyphened(name)}:${value}`);
    if (style.length > 0) head += ` style="${escapeXml(style.join(';'))}"`;
    if (this.measured) head += ` textLength="${Math.round(this.measured)}"`;
    return inner ? `<${head}>${inner}</${this.tag}>` : `<${head}/>`;
  }
}

const glyphWidth = (glyph, bold) => {
  const code = glyph.codePointAt(0);
  const widths = bold ? FONT.bold : FONT.regular;
  return widths[code - 32] ?? (code > 0x2e7f ? 1000 : 600);
};

const document = {
  createElementNS: (space, tag) => new Element(tag),
  createTextNode: (text) => { const node = new Element('#text'); node.text = text; return node; },
};
const window = { document, exports: {}, requestAnimationFrame: (next) => next() };
globalThis.window = window;
globalThis.TextDecoder ??= class {
  decode(bytes) {
    let escaped = '';
    for (const byte of bytes || []) escaped += byte < 0x80 && byte !== 0x25 ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`;
    try { return decodeURIComponent(escaped); } catch { return unescape(escaped); }
  }
};

const bytesOf = (base64) => {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const bytes = [];
  let bits = 0, count = 0;
  for (const digit of base64.replace(/=+$/, '')) {
    bits = ((bits << 6) | digits.indexOf(digit)) & 0xffffff;
    count += 6;
    if (count >= 8) { count -= 8; bytes.push((bits >> count) & 0xff); }
  }
  return Uint8Array.from(bytes);
};

let marks = {};
let prepared = false;
const drawPicture = async ({ model: data, operators, marks: ownMarks, bodies }) => {
  const base = requireModule('base');
  requireModule('view');
  const View = window.exports.view;
  forgetModule('onnx');   // it keeps the operator table of the first model it reads
  marks = ownMarks;
  if (!prepared) {
    showValues(View.Graph, () => marks);
    linkInnerBodies(View.Block);
  }
  prepared = true;
  const host = {
    window, document,
    environment: (name) => name === 'serial',
    require: async (id) => requireModule(id),
    asset: async (file) => file === 'onnx-metadata.json' ? operators : '[]',
    event() {},
  };
  const context = {
    identifier: 'model.onnx', stream: new base.BinaryStream(bytesOf(data)), asset: host.asset, require: host.require,
    fetch: async () => { throw new Error('The picture shows no weights.'); }, error() {},
  };
  const model = await new View.ModelFactoryService(host).open(context);
  identifyNodes(model);
  const [target] = model.modules;
  const options = { weights: true, attributes: false, names: false, direction: 'vertical' };
  const graph = new View.Graph({ model, host, options, activeTarget: target }, target.groups || false);
  if (bodies) innerGraphs(target).forEach((inner) => graph.blocks.add(inner));   // nobody can open them later
  graph.add(target, null);
  graph.addTunnels();
  const origin = new Element('g');
  graph.build(document, origin);
  await graph.measure();
  await graph.layout(null);
  graph.update();
  graph.updateTunnels();
  eachBox(graph, (box) => paintBox(box, marks[box.value.onnxlabId]));
  const margin = 8, width = graph.width + 2 * margin, height = graph.height + 2 * margin;
  const boxes = [...graph.nodes.values()].map(({ label }) => label).filter((label) => label?.value?.onnxlabId && !/^(in|out)put:/.test(label.value.onnxlabId));
  const bottoms = boxes.map(({ y, height: own }) => Math.round(y + own / 2 + margin - graph.originY));
  origin.setAttribute('transform', `translate(${margin - graph.originX},${margin - graph.originY})`);
  return JSON.stringify({ width, height, bottoms, body: String(origin) });
};
