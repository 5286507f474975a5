// Runs a model in ONNX Runtime for pages, away from the page: what is too long or too large ends this, not the tab.

const ARRAYS = { float32: Float32Array, float64: Float64Array, float16: Uint16Array, int64: BigInt64Array, int32: Int32Array, int16: Int16Array, int8: Int8Array, uint64: BigUint64Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array, bool: Uint8Array };
const MOST_VALUES = 1 << 24;
let session, heap, own = new Map();

// The runtime makes its memory by this name. What that has grown to is all that a page can know of the memory of a run.
WebAssembly.Memory = class extends WebAssembly.Memory {
  constructor(kind) { super(kind); heap = this; }
};
const memory = () => heap.buffer.byteLength;

// Floats between 0 and 1; of whole numbers 0 and 1, which nearly every table of tokens has.
const drawn = ({ name, type, axes }, sizes, seed) => {
  let state = seed * 7919 + 17;
  const next = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  const dims = axes.map((axis) => (typeof axis === 'number' ? axis : sizes[axis]));
  const length = dims.reduce((product, axis) => product * axis, 1);
  if (length > MOST_VALUES) refuse('The page draws {most} values for an input at most; {name} needs {length}.', { name, length, most: MOST_VALUES });
  if (type === 'string') return new ort.Tensor('string', Array(length).fill('text'), dims);
  if (type === 'float16') return new ort.Tensor('float16', new Uint16Array(length).fill(0x3800), dims);   // 0.5
  if (!ARRAYS[type]) refuse('The page draws no values of the type {type}, which {name} has.', { name, type });
  const draw = () => (type.startsWith('float') ? next() : Math.round(next()));
  return new ort.Tensor(type, ARRAYS[type].from({ length }, () => (/^u?int64/.test(type) ? BigInt(draw()) : draw())), dims);
};

const actions = {
  async load({ file, data, runtime }) {
    importScripts(`${runtime}ort.wasm.min.js`);
    Object.assign(ort.env.wasm, { numThreads: 1, wasmPaths: runtime });
    ort.env.logLevel = 'fatal';
    const began = performance.now();
    const externalData = await Promise.all(data.map(async ([path, blob]) => ({ path, data: new Uint8Array(await blob.arrayBuffer()) })));
    session = await ort.InferenceSession.create(new Uint8Array(await file.arrayBuffer()), { externalData, logSeverityLevel: 4 });
    return { ms: performance.now() - began, memory: memory() };
  },
  // The sizes that dropped values give to the axes of the inputs.
  async values({ files, inputs }) {
    own = await valuesOf(files, inputs);
    return { sizes: Object.fromEntries(inputs.flatMap(({ name, axes }) => axes.map((axis, i) => [axis, own.get(name)?.dims[i]])).filter(([axis, size]) => typeof axis === 'string' && size !== undefined)) };
  },
  async run({ inputs, outputs, sizes, isOwn }) {
    const held = ({ name }) => { const { type, data, dims } = (isOwn && own.get(name)) || {}; return dims && new ort.Tensor(type, data, dims); };
    const feeds = Object.fromEntries(inputs.map((input, i) => [input.name, held(input) ?? drawn(input, sizes, i + 1)]));
    const began = performance.now();
    const answer = await session.run(feeds, outputs, { logSeverityLevel: 4 });
    const ms = performance.now() - began;
    return { ms, memory: memory(), outputs: Object.entries(answer).map(([name, { dims, type, data }]) => {
      const values = type === 'string' ? [...data.slice(0, 4)] : Array.from(data.slice(0, 1 << 20), Number);
      return { name, dims, type, first: values.slice(0, 4), odd: type === 'string' ? 0 : values.filter((value) => !Number.isFinite(value)).length };
    }) };
  },
};
onmessage = async ({ data }) => {
  try { postMessage(await actions[data.kind](data)); } catch (error) { postMessage({ error: String(error?.message ?? error), gaps: error?.gaps }); }
};
