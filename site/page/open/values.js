// Values for a run, as `onnxlab doctor --inputs` takes them: an .npz file of NumPy, or .npy files named after the inputs.

const KINDS = { f2: 'float16', f4: 'float32', f8: 'float64', i1: 'int8', i2: 'int16', i4: 'int32', i8: 'int64', u1: 'uint8', u2: 'uint16', u4: 'uint32', u8: 'uint64', b1: 'bool' };
const refuse = (text, gaps = {}) => { throw Object.assign(new Error(text), { gaps }); };
const decoded = (bytes) => new TextDecoder().decode(bytes);
const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

const npyArray = (name, bytes) => {
  if (decoded(bytes.subarray(1, 6)) !== 'NUMPY') refuse('{name} is not an array of NumPy. Write it with numpy.save or numpy.savez.', { name });
  const [length, from] = bytes[6] > 1 ? [viewOf(bytes).getUint32(8, true), 12] : [viewOf(bytes).getUint16(8, true), 10];
  const head = decoded(bytes.subarray(from, from + length)), [, order, kind, width] = /'descr': '([<>|=])(\w)(\d+)'/.exec(head) ?? [];
  const dims = (/'shape': \(([^)]*)/.exec(head)?.[1].match(/\d+/g) ?? []).map(Number), count = dims.reduce((product, axis) => product * axis, 1);
  const type = kind === 'U' ? 'string' : KINDS[kind + width], size = kind === 'U' ? 4 * width : Number(width);
  if (!type || order === '>' || head.includes("'fortran_order': True")) refuse('The page does not read the array {name}. Write it as numpy.ascontiguousarray(array), of numbers or texts.', { name });
  const content = bytes.slice(from + length, from + length + count * size);
  if (content.length < count * size) refuse('The array {name} is cut off: {count} bytes are missing. Write it again.', { name, count: count * size - content.length });
  if (kind !== 'U') return { type, dims, data: new ARRAYS[type](content.buffer) };
  const letters = new Uint32Array(content.buffer), texts = Array.from({ length: count }, (_, i) => String.fromCodePoint(...letters.subarray(i * width, (i + 1) * width)).replace(/\0+$/, ''));
  return { type, dims, data: texts };
};

// The files of a zip archive, by the list at its end.
const unzipped = async function* (bytes) {
  const view = viewOf(bytes);
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end -= 1;
  if (end < 0) throw new RangeError('no such list');
  for (let i = view.getUint16(end + 10, true), at = view.getUint32(end + 16, true); i > 0; i--) {
    const [method, nameLength, extra, comment] = [10, 28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const begin = view.getUint32(at + 42, true), from = begin + 30 + view.getUint16(begin + 26, true) + view.getUint16(begin + 28, true);
    const content = bytes.subarray(from, from + view.getUint32(at + 20, true));
    const opened = method ? new Response(new Blob([content]).stream().pipeThrough(new DecompressionStream('deflate-raw'))) : null;
    yield [decoded(bytes.subarray(at + 46, at + 46 + nameLength)), opened ? new Uint8Array(await opened.arrayBuffer()) : content];
    at += 46 + nameLength + extra + comment;
  }
};

// The arrays of some files by the names of a model's inputs.
const valuesOf = async (files, inputs) => {
  const arrays = new Map();
  for (const file of files) {
    const bytes = new Uint8Array(await file.arrayBuffer()), stem = (name) => name.replace(/\.npy$/i, '');
    const parts = /\.npz$/i.test(file.name) ? unzipped(bytes) : [[file.name, bytes]];
    try {
      for await (const [name, content] of parts) arrays.set(stem(name), npyArray(stem(name), content));
    } catch (error) {
      if (error.gaps) throw error;
      refuse('{name} is damaged, or no .npz file. Write it with numpy.savez.', { name: file.name });
    }
  }
  if (arrays.size === 1 && inputs.length === 1) arrays.set(inputs[0].name, [...arrays.values()][0]);   // no other can be meant
  const known = inputs.filter(({ name }) => arrays.has(name));
  if (!known.length) refuse('The values are named {names}, and the inputs {inputs}. Give each array the name of its input.', { names: [...arrays.keys()].join(', '), inputs: inputs.map(({ name }) => name).join(', ') });
  for (const { name, type } of known) if (arrays.get(name).type !== type) refuse('The values of {name} are {there}, and the input takes {needed}. Convert them: array.astype("{needed}").', { name, there: arrays.get(name).type, needed: type });
  return new Map(known.map(({ name }) => [name, arrays.get(name)]));
};
