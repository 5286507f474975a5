// An .onnx file without its weights. They are skipped where they lie on the disk, so that a file costs what its
// structure costs; what remains is decoded by Netron's reader, and drawn. See also notebook/graph/lean_model.py.

const INNER = {   // the messages with nodes or weights in them, by the number of their field
  Model: { 7: 'Graph', 25: 'Function' },
  Function: { 7: 'Node' },
  Graph: { 1: 'Node', 5: 'Tensor', 15: 'Sparse' },
  Node: { 5: 'Attribute' },
  Attribute: { 5: 'Tensor', 6: 'Graph', 10: 'Tensor', 11: 'Graph', 22: 'Sparse', 23: 'Sparse' },
  Sparse: { 1: 'Tensor', 2: 'Tensor' },
  Tensor: {},
};
const VALUES = new Set([4, 5, 6, 7, 9, 10, 11]);   // float_data, int32_data, string_data, int64_data, raw_data, ...
const CONTIGUOUS = new Set([4, 9, 10]);   // float_data, raw_data, double_data: the values as they lie in memory
const [EXTERNAL_DATA, DATA_LOCATION] = [13, 14];
const INLINE = 256;          // bytes up to which a tensor travels with the graph
const WINDOW = 1 << 20;      // bytes of the file in memory at a time
const MOST_TEXT = 1 << 24;   // a note or a list of numbers beyond this is left out
const DEEPEST = 64;          // bodies in bodies

class Unreadable extends Error {}

// The functions that read are generators: each asks for a piece of the file with `yield` when it is not in memory.
const piece = function* (source, at, stop) {
  if (at < source.start || stop > source.start + source.bytes.length) yield [at, stop];
  return source.bytes.subarray(at - source.start, stop - source.start);
};
const varint = function* (source, at, end) {
  const bytes = yield* piece(source, at, Math.min(at + 10, end));
  let value = 0;
  for (let i = 0; i < bytes.length; i++) {
    value += (bytes[i] & 127) * 2 ** (7 * i);
    if (bytes[i] < 128) return [value, at + i + 1];
  }
  throw new Unreadable(tr('it ends in the middle of a number'));
};
const field = function* (source, at, end) {
  const [key, after] = yield* varint(source, at, end);
  const one = { number: Math.floor(key / 8), wire: key % 8, from: after };
  if (one.wire === 0) [one.value, one.stop] = yield* varint(source, after, end);
  else if (one.wire === 1 || one.wire === 5) one.stop = after + (one.wire === 1 ? 8 : 4);
  else if (one.wire === 2) {
    const [length, from] = yield* varint(source, after, end);
    [one.from, one.stop] = [from, from + length];
  }
  if (!one.stop || !one.number) throw new Unreadable(tr('it has a field of no known kind'));
  if (one.stop > end && end < source.size) throw new Unreadable(tr('a part inside it does not end'));
  if (one.stop > end) throw new Unreadable(tr('{count} bytes are missing at its end', { count: (one.stop - end).toLocaleString() }));
  return one;
};

const joined = (parts) => {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => { bytes.set(part, at); return at + part.length; }, 0);
  return bytes;
};
const number = (value) => { const bytes = []; for (; value > 127; value = Math.floor(value / 128)) bytes.push(value % 128 + 128); return Uint8Array.of(...bytes, value); };
const message = (tag, content) => joined([number(tag * 8 + 2), number(content.length), content]);
const entry = (tag, key, value) => message(tag, joined([key, value].map((text, i) => message(i + 1, new TextEncoder().encode(text)))));

// The lean copy of a message: a number for each node, and in place of each weight the number of its place.
const leanCopy = function* (source, type, from, end, found, depth = 0) {
  if (depth > DEEPEST) throw new Unreadable(tr('it has bodies in bodies without an end'));
  const parts = [], weight = { values: [], size: 0, external: null };
  for (let at = from; at < end;) {
    const one = yield* field(source, at, end), inner = one.wire === 2 && INNER[type][one.number], begin = at;
    at = one.stop;
    if (inner) parts.push(message(one.number, yield* leanCopy(source, inner, one.from, one.stop, found, depth + 1)));
    else if (type === 'Tensor' && VALUES.has(one.number)) { weight.values.push({ ...one, begin }); weight.size += one.stop - one.from; }
    else if (type === 'Tensor' && one.number === EXTERNAL_DATA) {
      const { key, value } = onnxProto.StringStringEntryProto.decode(protobufReader((yield* piece(source, one.from, one.stop)).slice()));
      (weight.external ??= {})[key] = value;
    } else if (type === 'Tensor' && one.number === DATA_LOCATION) weight.isExternal = one.value === 1;
    else if (one.stop - begin < MOST_TEXT) parts.push((yield* piece(source, begin, one.stop)).slice());
  }
  if (type === 'Node') parts.push(entry(9, 'onnxlab.id', String(found.nodes++)));
  if (type === 'Tensor') {
    if (!weight.isExternal) weight.external = null;
    if (weight.isExternal || weight.size > INLINE) {
      parts.push(entry(EXTERNAL_DATA, 'location', String(found.weights.length)), Uint8Array.of(DATA_LOCATION * 8, 1));
      found.weights.push(weight);
    } else for (const { begin, stop } of weight.values) parts.push((yield* piece(source, begin, stop)).slice());
  }
  return joined(parts);
};

const OTHERS = [   // what people drop in place of a model; the words are those of model/load.py
  [/^version https:\/\/git-lfs/, 'It is a pointer of Git LFS: the model itself was not downloaded.', 'Run: git lfs pull'],
  [/^(\xef\xbb\xbf)?\s*<(!doctype|html|head)/i, 'It is a web page (HTML).', 'Download the file itself; the link may lead to a page about it, or to a sign-in.'],
  [/^(PK\x03\x04[^]*\.pkl|\x80[\x00-\x05])/, "It is a file of PyTorch's (torch.save): weights, or a module.", 'Load it in PyTorch, and export the module with torch.onnx.export.'],
  [/^PK\x03\x04/, 'It is a zip archive.', 'Unpack it, and give the path of the .onnx file inside it.'],
  [/^\x1f\x8b/, 'It is compressed (gzip).', 'Unpack it, and give the path of the .onnx file.'],
  [/^[^]{8}\{"/, 'It is a safetensors file: weights without a graph.', 'Load it in PyTorch, and export the module with torch.onnx.export.'],
  [/^[^]{4}TFL3/, 'It is a model in TensorFlow Lite.', 'Look for the .onnx file that it was made from.'],
  [/^[^]{4}ORTM/, 'It is a model in the ORT format.', 'Look for the .onnx file that it was made from.'],
  [/^[\t\n\r\x20-\xff]*$/, 'It looks like text.', 'Export the model again, or fetch the complete file.'],
];

// A model file as the page reads it: the decoded model, what is drawn, and where its weights are.
const readModel = async (file) => {
  const again = tr('Export the model again, or fetch the complete file.');
  if (!file.size) throw new Unreadable(`${tr('{name} is empty.', { name: file.name })} ${again}`);
  const head = String.fromCharCode(...new Uint8Array(await file.slice(0, 1024).arrayBuffer()));
  const source = { start: 0, bytes: new Uint8Array(0), size: file.size }, found = { nodes: 0, weights: [] };
  const no = tr('{name} is not an ONNX model.', { name: file.name });
  const looksLike = head.charCodeAt(0) === 8 && head.charCodeAt(1) < 32 && head.charCodeAt(2) > 8;
  for (const [pattern, what, then] of looksLike ? [] : OTHERS) if (pattern.test(head)) throw new Unreadable(`${no} ${tr(what)} ${tr(then)}`);
  try {
    const work = leanCopy(source, 'Model', 0, file.size, found);
    let step = work.next();
    while (!step.done) {
      const [at, stop] = step.value;
      source.bytes = new Uint8Array(await file.slice(at, Math.max(stop, at + WINDOW)).arrayBuffer());
      source.start = at;
      step = work.next();
    }
    const model = onnxProto.ModelProto.decode(protobufReader(step.value));
    if (!model.graph || !(model.ir_version > 0)) throw new Unreadable(tr('it has no graph, or no version'));
    // Netron takes what begins like this for ONNX; the fields that follow replace these.
    return { file, model, lean: joined([Uint8Array.of(8, 10, 0x12, 0, 0x1a, 0), step.value]), ...found };
  } catch (error) {
    if (error.name === 'NotReadableError' || error.name === 'NotFoundError') throw new Unreadable(tr('{name} cannot be read.', { name: file.name }));
    if (looksLike) throw new Unreadable(`${tr('{name} is damaged: {reason}.', { name: file.name, reason: error.message.replace(/\.$/, '') })} ${again}`);
    throw new Unreadable(`${no} ${tr('The file is damaged, cut off, or of another kind.')} ${again}`);
  }
};

// Every graph and every body of a function, the bodies of Loop, If and Scan included.
const bodiesOf = function* (model) {
  const inside = function* (body) {
    yield body;
    for (const node of body.node) for (const { g, graphs } of node.attribute) for (const graph of [g, ...graphs]) if (graph) yield* inside(graph);
  };
  for (const body of [model.graph, ...model.functions]) yield* inside(body);
};
const idOf = (node) => node.metadata_props.at(-1).value;

const TYPES = ['?', 'float32', 'uint8', 'int8', 'uint16', 'int16', 'int32', 'int64', 'string', 'bool', 'float16', 'float64', 'uint32', 'uint64', 'complex64', 'complex128', 'bfloat16'];
const BYTES = [0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1, 0.5, 0.5, 0.5];
const elements = ({ dims }) => dims.reduce((product, axis) => product * Number(axis), 1);
// The weights of a model: each tensor with its name, bytes, and its place in a file.
const tensorsOf = function* ({ model, weights }) {
  const described = function* (tensor, name, operator = '') {
    const place = tensor.data_location === 1 ? weights[Number(tensor.external_data.at(-1).value)] : null;
    const raw = place?.values.find(({ number, wire }) => CONTIGUOUS.has(number) && wire === 2);
    const external = place?.external;
    yield { tensor, name, operator, type: TYPES[tensor.data_type] ?? `type ${tensor.data_type}`, size: elements(tensor) * (BYTES[tensor.data_type] ?? 0) || (place?.size ?? 0), external,
      from: external ? Number(external.offset ?? 0) : raw?.from };
  };
  for (const body of bodiesOf(model)) {
    for (const tensor of body.initializer ?? []) yield* described(tensor, tensor.name);
    for (const { values } of body.sparse_initializer ?? []) yield* described(values, values.name);
    for (const node of body.node) for (const { t, tensors } of node.attribute) for (const tensor of [t, ...tensors]) if (tensor) yield* described(tensor, tensor.name || node.output[0], node.op_type);
  }
};
const baseName = (path) => path.split('/').at(-1);
// A weight's bytes, or at most so many of them; null where they are in a file that is not here.
const bytesOfWeight = async ({ size, external, from }, file, given, most = Infinity) => {
  const holder = external ? given.get(baseName(external.location ?? '')) : file;
  if (!holder || from === undefined || from + size > holder.size) return null;
  return new Uint8Array(await holder.slice(from, from + Math.min(size, most)).arrayBuffer());
};
