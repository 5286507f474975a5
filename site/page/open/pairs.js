// Which nodes of two models are counterparts, by what they compute: names do not count. First what is the same from the
// inputs on, then from the outputs back, then by order and operator between those.

const MOST_CELLS = 4e6;   // of the table of the longest common order
const tensorKey = (tensor) => [tensor.data_type, tensor.dims, tensor.raw_data ?? '', tensor.float_data, tensor.int64_data, tensor.int32_data, tensor.external_data.length].join();
const attributeKey = (one) => [one.name, one.i ?? '', one.f ?? '', one.s ?? '', one.ints, one.floats, one.strings.join('|'), one.t ? tensorKey(one.t) : ''].join('=');
const ownAttributes = (node) => node.attribute.filter(({ g, graphs }) => !g && !graphs.length).map(attributeKey).sort().join(';');
const hash = (text) => { let a = 0x811c9dc5, b = 5381; for (let i = 0; i < text.length; i++) { const c = text.charCodeAt(i); a = Math.imul(a ^ c, 16777619); b = Math.imul(b, 33) ^ c; } return `${a >>> 0}.${b >>> 0}`; };

// What stands for each node of a graph: all that leads to it, and all that it leads to.
const tokensOf = (body, outer) => {
  const names = new Map(outer), users = new Map(), nodes = body.node;
  body.input.forEach((value, i) => names.set(value.name, `input ${i}`));
  for (const tensor of body.initializer) names.set(tensor.name, `weight ${tensor.data_type}[${tensor.dims}]`);
  const down = nodes.map((node) => {
    const token = hash(`${operatorOf(node)}(${node.input.map((name) => names.get(name) ?? name)})${ownAttributes(node)}`);
    node.output.forEach((name, i) => names.set(name, `${token}:${i}`));
    return token;
  });
  body.output.forEach((value, i) => users.set(value.name, [`output ${i}`]));
  const up = [];
  for (let i = nodes.length - 1; i >= 0; i--) {
    up[i] = hash(`${operatorOf(nodes[i])}${ownAttributes(nodes[i])}<${nodes[i].output.map((name) => (users.get(name) ?? []).sort())}`);
    nodes[i].input.forEach((name, k) => users.set(name, [...users.get(name) ?? [], `${up[i]}:${k}`]));
  }
  const weights = nodes.map(({ input }) => input.map((name) => names.get(name) ?? '').filter((token) => token.startsWith('weight')).join());
  return { nodes, names, down, up, weights };
};

// The longest common order of operators.
const inOrder = (left, right) => {
  if (left.length * right.length > MOST_CELLS) return [];
  const rows = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1)), pairs = [];
  for (let i = left.length - 1; i >= 0; i--) for (let k = right.length - 1; k >= 0; k--) rows[i][k] = left[i][0] === right[k][0] ? rows[i + 1][k + 1] + 1 : Math.max(rows[i + 1][k], rows[i][k + 1]);
  for (let i = 0, k = 0; i < left.length && k < right.length;) {
    if (left[i][0] === right[k][0]) pairs.push([left[i++][1], right[k++][1]]);
    else if (rows[i + 1][k] >= rows[i][k + 1]) i++; else k++;
  }
  return pairs;
};

const pairModels = (before, after) => {
  const result = { pairs: {}, changed: [], removed: [], added: [] };
  const visit = (one, other, outers) => {
    const [a, b] = [tokensOf(one, outers[0]), tokensOf(other, outers[1])], mine = new Map(), taken = new Set();
    const take = (i, k) => { mine.set(i, k); taken.add(k); };
    for (const way of ['down', 'up']) {
      const places = Map.groupBy([...b.nodes.keys()].filter((k) => !taken.has(k)), (k) => b[way][k]);
      a[way].forEach((token, i) => { if (!mine.has(i) && places.get(token)?.length) take(i, places.get(token).shift()); });
    }
    const open = ({ nodes }, has) => nodes.map((node, i) => [operatorOf(node), i]).filter(([, i]) => !has(i));
    for (const [i, k] of inOrder(open(a, (i) => mine.has(i)), open(b, (k) => taken.has(k)))) take(i, k);
    a.nodes.forEach((node, i) => {
      if (!mine.has(i)) { result.removed.push(idOf(node)); return; }
      const twin = b.nodes[mine.get(i)];
      result.pairs[idOf(node)] = idOf(twin);
      if (ownAttributes(node) !== ownAttributes(twin) || a.weights[i] !== b.weights[mine.get(i)]) result.changed.push(idOf(node));
      for (const { name, g } of node.attribute) {
        const partner = g && attributeOf(twin, name)?.g;
        if (partner) visit(g, partner, [a.names, b.names]);
      }
    });
    b.nodes.forEach((node, k) => { if (!taken.has(k)) result.added.push(idOf(node)); });
  };
  visit(before.graph, after.graph, [new Map(), new Map()]);
  return result;
};
