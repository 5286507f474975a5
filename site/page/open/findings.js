// What a file shows before it runs: the rules of onnxlab/diagnosis/structure.py, in its words. Their
// severities, reasons and remedies come from there as data.

const STANDARD = new Set(['', 'ai.onnx', 'ai.onnx.ml', 'com.microsoft', 'ai.onnx.preview', 'ai.onnx.preview.training']);
const RANDOM = /^(Random(Normal|Uniform)(Like)?|Bernoulli|Multinomial)$/;
const HOME = /(?:\/(?:home|Users|root|mnt|tmp|opt|usr|workspace|content)\/|[A-Za-z]:\\)[^\s"',:]+/g;
const WASTE = 1 << 16;       // bytes that a file must waste before it is worth a line
const MOST_READ = 1 << 28;   // bytes of weights that are looked through

// As onnxlab/plain_text.py has it.
const plain = (text, most = 60) => {
  const letters = [...String(text ?? '')], cut = letters.slice(0, most).join('') + (letters.length > most ? '…' : '');
  return cut.replace(/[\t\n\r]/g, ' ').replace(/(?![\u200c\u200d])[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd');
};
const listing = (names, most = 3) => {
  const shown = names.slice(0, most).map((name) => plain(name, 80)).join(', ');
  return names.length > most ? tr('{names} and {number} more', { names: shown, number: names.length - most }) : shown;
};
const repr = (text) => `'${plain(text)}'`;
const labelOf = (node) => plain(node.name || node.output[0] || node.op_type);
const attributeOf = (node, name) => node.attribute.find((one) => one.name === name);
const textOf = (node, name) => new TextDecoder().decode(attributeOf(node, name)?.s ?? new Uint8Array(0));
const domainOf = ({ domain }) => (domain === 'ai.onnx' ? '' : domain ?? '');
const operatorOf = (node) => (domainOf(node) ? `${domainOf(node)}::${node.op_type}` : node.op_type);

const axesOf = ({ type }) => type?.tensor_type?.shape?.dim.map(({ dim_param: name, dim_value: size }) => name || (size > 0n ? Number(size) : '?')) ?? null;
const kindOf = ({ type }) => {
  if (type?.tensor_type) return TYPES[type.tensor_type.elem_type] ?? `type ${type.tensor_type.elem_type}`;
  return type?.value?.replace('_type', '') ?? '?';
};
const declaredText = (value) => `${plain(value.name)}: ${kindOf(value)}${value.type?.tensor_type ? `[${axesOf(value)?.map((axis) => plain(axis)).join(', ') ?? '...'}]` : ''}`;
const inputsOf = ({ graph }) => {
  const weights = new Set(graph.initializer.map(({ name }) => name));
  return graph.input.filter(({ name }) => !weights.has(name));
};
const opsetOf = (model) => Math.max(0, ...model.opset_import.filter((one) => !domainOf(one)).map(({ version }) => Number(version)));
const ableOf = (model, runtimes) => Object.entries(runtimes).filter(([, [ir, opset]]) => ir >= model.ir_version && opset >= opsetOf(model)).map(([name]) => name);

// The data files that the weights are in, each with the bytes that it must have.
const dataFilesOf = (opened) => {
  const files = new Map();
  for (const { external, size, from } of tensorsOf(opened)) {
    if (external) files.set(external.location ?? '', Math.max(files.get(external.location ?? '') ?? 0, from + size));
  }
  return files;
};

// The bytes of a tensor that travels with the graph, however it is stored.
const FLOATS = { float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array };   // Safari has had the last since 18.2
const inlineBytes = ({ data_type: type, raw_data: raw, float_data: floats, double_data: doubles, int32_data: ints, int64_data: longs }) => {
  if (raw?.length) return raw.slice();
  const listed = { 1: () => Float32Array.from(floats), 7: () => BigInt64Array.from(longs), 11: () => Float64Array.from(doubles), 10: () => Uint16Array.from(ints), 16: () => Uint16Array.from(ints), 6: () => Int32Array.from(ints) };
  return new Uint8Array((listed[type] ?? (() => Uint8Array.from(ints)))().buffer);
};
// A small value that is known before the model runs; undefined where it is none.
const valueOf = (tensor) => {
  if (!tensor || elements(tensor) !== 1 || tensor.data_location === 1) return undefined;
  const bytes = inlineBytes(tensor), View = FLOATS[TYPES[tensor.data_type]] ?? { 7: BigInt64Array, 6: Int32Array }[tensor.data_type] ?? Uint8Array;
  return bytes.length >= View.BYTES_PER_ELEMENT ? Number(new View(bytes.buffer)[0]) : undefined;
};

const differingMode = (node) => {
  const mode = textOf(node, 'mode'), by = textOf(node, 'coordinate_transformation_mode'), name = node.op_type;
  if ((name === 'Resize' && mode === 'cubic') || (name === 'Pad' && mode === 'wrap')) return tr('{name} in mode {mode}', { name, mode });
  if (name === 'Resize' && /^(tf_crop_and_resize|half_pixel_symmetric)$/.test(by)) return tr('{name} in mode {mode}', { name, mode: by });
  if (name === 'MaxPool' && node.output[1]) return tr('{name} with indices', { name });
  return /^(Asinh|BitShift|DepthToSpace|If|Loop)$/.test(name) ? name : '';
};

// What is right at some values of an input only: indices, negative numbers, masks, sizes.
const valueFindings = function* ({ model: { graph }, model }, nodes, constants) {
  const inputs = inputsOf(model), given = new Set(inputs.map(({ name }) => name)), listed = (found) => ({ listing: listing(found.map(labelOf)) });
  const whole = new Set([...graph.input, ...graph.value_info, ...graph.output].filter((value) => kindOf(value).startsWith('int')).map(({ name }) => name));
  const reads = (node) => [...node.input, ...node.attribute.flatMap(({ g, graphs }) => [g, ...graphs].flatMap((body) => body?.node.flatMap(reads) ?? []))];
  for (const node of nodes) {   // what depends on the values of an input, and what is a whole number
    if (!/^(Shape|Size|NonZero|TopK|Unique)$/.test(node.op_type) && reads(node).some((name) => given.has(name))) node.output.filter(Boolean).forEach((name) => given.add(name));
    const keeps = node.op_type === 'Cast' ? [3, 5, 6, 7].includes(Number(attributeOf(node, 'to')?.i)) : /^(Add|Sub|Mul|Div|Neg|Identity|Gather|Reshape|Concat)$/.test(node.op_type) && whole.has(node.input[0]);
    if (keeps) whole.add(node.output[0]);
  }
  const scatters = nodes.filter((node) => /^Scatter(Elements|ND)?$/.test(node.op_type) && ['', 'none'].includes(textOf(node, 'reduction')) && given.has(node.input[1]));
  if (scatters.length) yield ['overwriting_scatters', tr('Values are scattered without a reduction: {listing}.', listed(scatters))];
  const corrected = new Set(nodes.filter(({ op_type }) => op_type === 'Mod').map(({ input }) => input.join()));
  const divisions = nodes.filter(({ op_type, input }) => op_type === 'Div' && given.has(input[0]) && whole.has(input[0]) && !corrected.has(input.join()));
  if (divisions.length) yield ['whole_divisions', tr('Div of whole numbers: {listing}.', listed(divisions))];
  const makers = new Map(nodes.flatMap((node) => node.output.map((name) => [name, node]))), checked = new Set(nodes.filter(({ op_type }) => op_type === 'IsNaN').map(({ input }) => input[0]));
  const forbids = ({ op_type, input }, lowest) => {
    const floats = input.slice(1).map((name) => constants.get(name)).filter((tensor) => FLOATS[TYPES[tensor?.data_type]]);
    const least = Math.min(0, ...floats.map(valueOf).filter((value) => value !== undefined));
    return op_type === 'Where' && given.has(input[0]) && least < -1e4 && least >= lowest;
  };
  const masked = nodes.filter(({ op_type, input, output }) => {
    const pending = op_type === 'Softmax' ? [input[0]] : [], seen = new Set(), lowest = checked.has(output[0]) ? -Number.MAX_VALUE : -Infinity;
    while (pending.length && seen.size < 12) {
      const name = pending.pop(), maker = makers.get(name);
      if (seen.has(name) || !/^(Add|Where|Cast|Unsqueeze|Expand)$/.test(maker?.op_type)) continue;
      if (forbids(maker, lowest)) return true;
      seen.add(name);
      pending.push(...maker.input);
    }
    return false;
  });
  if (masked.length) yield ['masked_rows', tr('Softmax over a mask that is an input: {listing}.', listed(masked))];
  const ends = new Set([...graph.output.map(({ name }) => name), ...graph.node.filter(({ op_type }) => /^(Flatten|Reshape)$/.test(op_type)).map(({ input }) => input[0])]);
  if (inputs.some((value) => axesOf(value)?.slice(2).some((axis) => axis !== '?' && !Number.isInteger(axis)))) {
    for (const node of graph.node.filter(({ op_type, output }) => /^(Average|Max)Pool$/.test(op_type) && ends.has(output[0]))) {
      const [window, strides, pads] = ['kernel_shape', 'strides', 'pads'].map((name) => attributeOf(node, name)?.ints.join(', ') ?? '');
      if (window === strides && !/[1-9]/.test(pads)) yield ['fixed_windows', tr('The pool {label!r} has a fixed window, {window}.', { 'label!r': repr(labelOf(node)), window: `[${window}]` })];
    }
  }
};

// Yields the name of each rule, what it saw, and what differs from the rule's own words.
const structureFindings = function* (opened, given, runtimes) {
  const { model } = opened, { graph } = model;
  const bodies = [...bodiesOf(model)], nodes = bodies.flatMap(({ node }) => node), inputs = inputsOf(model);
  for (const [path, needed] of dataFilesOf(opened)) {
    const name = plain(path, 80), holder = given.get(baseName(path));
    if (/^([\\/]|[A-Za-z]:)|^$/.test(path) || path.split(/[\\/]/).includes('..')) yield ['external_data', tr('The data file {name} lies outside the folder of the model.', { name })];
    else if (!holder) yield ['external_data', tr('The data file {name} is not here: {size}. Drop it, too.', { name, size: megabytes(needed) })];
    else if (holder.size < needed) yield ['external_data', tr('The data file {name} has {there} bytes, and {needed} are needed.', { name, there: holder.size.toLocaleString(), needed: needed.toLocaleString() })];
  }
  const given_names = new Set(graph.input.map(({ name }) => name)), constants = new Map();
  for (const body of bodies) {
    for (const tensor of body.initializer ?? []) if (!given_names.has(tensor.name)) constants.set(tensor.name, tensor);
    for (const node of body.node) if (node.op_type === 'Constant') constants.set(node.output[0], attributeOf(node, 'value')?.t);
  }
  const known = (name) => valueOf(constants.get(name));
  const trains = (node) => {
    if (node.op_type === 'Dropout') return Boolean(known(node.input[2]));
    if (node.op_type === 'BatchNormalization') return attributeOf(node, 'training_mode')?.i > 0n;
    return RANDOM.test(operatorOf(node));
  };
  for (const body of bodies) {
    const training = body.node.filter(trains).map((node) => `${node.op_type} ${plain(node.name)}`.trim());
    if (training.length) yield ['random_outputs', tr('Nodes of training or of chance: {listing}.', { listing: listing(training) })];
  }
  yield* valueFindings(opened, nodes, constants);
  for (const node of nodes) {
    const value = known(node.input[0]), label = labelOf(node);
    if (value === undefined) continue;
    if (node.op_type === 'If') yield ['frozen_subgraphs', tr('The condition of the If {label!r} is constant: its {branch} never runs.', { 'label!r': repr(label), branch: value ? 'else_branch' : 'then_branch' })];
    if (node.op_type === 'Loop' && value <= 1e6) {
      yield ['frozen_subgraphs', tr('The Loop {label!r} has {n} as its number of iterations, whatever the input is.', { 'label!r': repr(label), n: value }), {
        severity: value ? 'risk' : 'wrong',
        why: tr("If the number comes from the example's size, other sizes get a wrong number of iterations."),
        then: tr('Compare with PyTorch at a size that needs more iterations.'), lesson: 'loop',
      }];
    }
  }
  const read = new Set([...nodes.flatMap(({ input }) => input), ...bodies.flatMap(({ output }) => output.map((value) => value.name ?? value))]);
  const unread = inputs.filter(({ name }) => !read.has(name)).map(({ name }) => name);
  if (unread.length) yield ['unread_inputs', tr('No node reads the input {listing}.', { listing: listing(unread) })];
  const sources = new Map([...graph.input.map(({ name }) => [name, 'input']), ...graph.initializer.map(({ name }) => [name, 'weight'])]);
  const before = new Map(graph.node.filter((node) => operatorOf(node) === 'Identity').map((node) => [node.output[0], node.input[0]]));
  for (const output of graph.output) {
    let { name } = output;
    for (let i = 0; i < before.size && before.has(name); i++) name = before.get(name);   // a stranger's file can have a circle
    if (sources.has(name)) yield ['passed_through', tr('The output {shown!r} is the {sources_name} {name!r} itself.', { 'shown!r': repr(output.name), sources_name: tr(sources.get(name)), 'name!r': repr(name) })];
  }
  const both = graph.initializer.filter(({ name }) => given_names.has(name)).map(({ name }) => name);
  if (both.length) yield ['overridable_weights', tr('Weights that are inputs, too: {listing}.', { listing: listing(both) })];
  const own = new Set(model.functions.map(({ domain, name }) => `${domain}.${name}`));
  const foreign = new Set(nodes.filter((node) => !STANDARD.has(node.domain ?? '') && !own.has(`${node.domain}.${node.op_type}`)).map(operatorOf));
  if (foreign.size) yield ['custom_domains', tr('Custom operators: {listing}.', { listing: listing([...foreign]) })];
  for (const [domain, entries] of Map.groupBy(model.opset_import, domainOf)) {
    const opsets = [...new Set(entries.map(({ version }) => Number(version)))].sort((a, b) => a - b);
    if (opsets.length > 1) yield ['versions', tr('The file imports {domain} at opsets {opsets}.', { domain: plain(domain || 'ai.onnx'), opsets: listing(opsets) }), { severity: 'wrong', why: tr('Programs differ in which one counts: ONNX Runtime takes the last, onnx the highest.'), then: tr('Keep the one that the nodes were written for, and remove the others from opset_import.'), lesson: 'runtimes' }];
  }
  const ir = model.ir_version, opset = opsetOf(model), able = ableOf(model, runtimes), releases = Object.keys(runtimes);
  const needs = tr('The file has IR version {ir} and opset {opset}.', { ir: Number(ir), opset });
  if (opset > 0 && opset < 7) yield ['versions', needs, { severity: 'risk', why: tr('ONNX Runtime starts at opset 7: it has no kernels for older forms of most operators.'), then: tr('Convert it: onnx.version_converter.convert_version(model, 13); or export it again.'), lesson: 'runtimes' }];
  else if (!able.length) yield ['versions', needs, { severity: 'risk', why: tr('No recorded release of ONNX Runtime, up to {runtimes}, loads both.', { runtimes: releases.at(-1) }), then: tr('Ask for the versions that the target knows, and export for them with opset_version.'), lesson: 'runtimes' }];
  else if (able[0] !== releases[0]) yield ['versions', needs, { severity: 'note', why: tr('Of the recorded releases of ONNX Runtime, {able} is the first that loads both.', { able: able[0] }), then: tr('If the target is older, export with a smaller opset, and lower ir_version after reading what it costs.'), lesson: 'runtimes' }];
  const shaped = inputs.filter((value) => axesOf(value)?.length), shown = listing(shaped.map(declaredText));
  const sizes = { severity: 'note', then: tr('For other sizes, export with dynamic_shapes (or dynamic_axes).'), lesson: 'sizes' };
  if (shaped.length && shaped.every((value) => axesOf(value).every(Number.isInteger))) yield ['fixed_sizes', tr('Every input has a fixed size: {shown}.', { shown }), { ...sizes, why: tr('Another batch or size is refused.') }];
  else if (shaped.length && shaped.every((value) => axesOf(value)[0] === 1)) yield ['fixed_sizes', tr('The first axis of every input is fixed at 1: {shown}.', { shown }), { ...sizes, why: tr('A batch of two is refused.') }];
  for (const [mode, alike] of Map.groupBy(nodes.filter(differingMode), differingMode)) yield ['differing_modes', tr('Back ends differ in {mode}: {listing}.', { mode, listing: listing(alike.map(labelOf)) })];
  if (model.functions.length) yield ['functions', tr('Functions with a body in the file: {listing}.', { listing: listing([...new Set(model.functions.map(({ name }) => name))]) })];
  const wide = [...inputs, ...graph.output].filter((value) => /^(int64|float64)$/.test(kindOf(value)));
  if (wide.length) yield ['wide_types', tr('64 bits: {listing}.', { listing: listing(wide.map(declaredText)) })];
  const homes = new Map();
  for (const { doc_string: note, metadata_props: notes } of [model, graph, ...model.functions, ...nodes]) for (const text of [note, ...notes.map(({ value }) => value)]) for (const path of text?.match(HOME) ?? []) homes.set(path, (homes.get(path) ?? 0) + 1);
  const often = [...homes].sort((a, b) => b[1] - a[1]).map(([path]) => path);
  if (often.length) yield ['authors_notes', tr("The file's notes name paths of the machine that wrote it: {shown}.", { shown: listing(often, 2) })];
};

// What the weights themselves show, read one at a time: NaN, infinity, variances below zero, what repeats itself, what is stored twice.
const MASKS = { float32: [Uint32Array, 0x7f800000, 0x80000000], float16: [Uint16Array, 0x7c00, 0x8000], bfloat16: [Uint16Array, 0x7f80, 0x8000], float64: [BigUint64Array, 0x7ff0000000000000n, 0x8000000000000000n] };
const digestOf = async (bytes) => String(new Uint32Array(await crypto.subtle.digest('SHA-256', bytes)));
const transposed = (bytes, [rows, columns]) => {
  const width = bytes.length / rows / columns, turned = new Uint8Array(bytes.length);
  for (let r = 0, at = 0; r < rows; r++) for (let c = 0; c < columns; c++) for (let i = 0; i < width; i++) turned[(c * rows + r) * width + i] = bytes[at++];
  return turned;
};
const repeatedAxes = (bytes, dims) => dims.map((_, axis) => axis).filter((axis) => {
  const block = bytes.length / dims.slice(0, axis).reduce((product, length) => product * length, 1), slice = block / dims[axis];
  return dims[axis] > 1 && Number.isInteger(slice) && bytes.every((byte, at) => byte === bytes[at - at % block + at % slice]);
});
const weightFindings = async function* (opened, given) {
  const held = new Map(), seen = new Map(), shapes = new Set(), nodes = [...bodiesOf(opened.model)].flatMap(({ node }) => node);
  const uses = Map.groupBy(nodes.flatMap(({ op_type, input }) => input.map((name, place) => [name, op_type === 'Where' && place > 0])), ([name]) => name);
  const isMark = (name) => uses.get(name)?.every(([, isChosen]) => isChosen);   // only Where nodes read it, as what they choose
  const variances = new Map(nodes.filter(({ op_type }) => op_type === 'BatchNormalization').map((node) => [node.input[4], node]));
  const label = ({ name, type, tensor }) => `${plain(name)} ${type}[${tensor.dims.join(', ')}]`, commas = (number) => number.toLocaleString('en');
  let waste = 0, largest = { size: 0 }, widest = { size: 0 }, left = MOST_READ, skipped = 0;
  for (const one of tensorsOf(opened)) {
    const { tensor, name, operator, type, size } = one, [View, exponent, sign] = MASKS[type] ?? [], dims = tensor.dims.map(Number), node = variances.get(name);
    if (!View && size < WASTE) continue;
    if (size > left) { skipped += 1; continue; }
    left -= size;
    const bytes = tensor.data_location === 1 ? await bytesOfWeight(one, opened.file, given) : inlineBytes(tensor);
    if (!bytes) continue;
    if (View && bytes.length % View.BYTES_PER_ELEMENT === 0 && !operator.startsWith('TreeEnsemble')) {
      const kinds = new Set();
      for (const word of new View(bytes.buffer)) if ((word & exponent) === exponent) kinds.add((word & ~sign & ~exponent) !== (typeof sign === 'bigint' ? 0n : 0) ? 'NaN' : word & sign ? '-inf' : 'inf');
      for (const kind of [...kinds].filter((kind) => (kind === '-inf' ? kinds.size === 1 : !isMark(name)))) held.set(kind, [...held.get(kind) ?? [], label(one)]);
      const least = node && FLOATS[type] ? new FLOATS[type](bytes.buffer).reduce((a, b) => Math.min(a, b), Infinity) : 0;
      if (least + (attributeOf(node ?? { attribute: [] }, 'epsilon')?.f ?? 1e-5) < 0) yield ['negative_variances', tr('The variance {name} of the BatchNormalization {label!r} is negative: {least:.3g}.', { name: plain(name), 'label!r': repr(labelOf(node)), 'least:.3g': +least.toPrecision(3) })];
    }
    if (size < 4096) continue;
    const axes = size < Math.max(WASTE, widest.size + 1) ? [] : repeatedAxes(bytes, dims);
    if (axes.length) widest = { size, axes, one };
    const key = async (content, shape) => `${type} ${shape} ${await digestOf(content)}`, turned = dims.toReversed(), isMatrix = dims.length === 2 && shapes.has(`${type} ${turned}`);
    const digest = await key(bytes, dims), first = seen.get(digest) ?? (isMatrix ? seen.get(await key(transposed(bytes, dims), turned)) : undefined);
    if (!first) { seen.set(digest, one); shapes.add(`${type} ${dims}`); continue; }
    waste += size;
    if (size > largest.size) largest = { size, first, second: one, how: seen.has(digest) ? 'equal' : 'transposed' };
  }
  if (held.has('NaN')) yield ['broken_weights', tr('Weights with NaN: {listing}.', { listing: listing(held.get('NaN')) })];
  const infinite = { then: tr('If nobody put it there on purpose, look for an overflow: training, a conversion to float16.'), lesson: 'half' };
  if (held.has('inf')) yield ['broken_weights', tr('Weights with inf: {listing}.', { listing: listing(held.get('inf')) }), { ...infinite, severity: 'risk', why: tr('Every output that depends on it can be inf or NaN.') }];
  if (held.has('-inf')) yield ['broken_weights', tr('Weights with -inf: {listing}.', { listing: listing(held.get('-inf')) }), { ...infinite, severity: 'note', why: tr('The masks of attention hold it on purpose; a row of nothing else becomes NaN in Softmax.') }];
  if (waste >= WASTE) yield ['repeated_weights', tr('{waste:,} bytes are stored twice: {second.label} is {how} to {first.label}.', { 'waste:,': commas(waste), 'second.label': label(largest.second), how: tr(largest.how), 'first.label': label(largest.first) })];
  const { size, axes, one } = widest;
  if (one) yield ['expanded_constants', tr('{tensor.label} repeats along axis {listing}: {needed:,} of {size:,} bytes say all.', { 'tensor.label': label(one), listing: listing(axes), 'needed:,': commas(Math.floor(size / axes.reduce((product, axis) => product * Number(one.tensor.dims[axis]), 1))), 'size:,': commas(size) })];
  if (skipped) yield ['', tr('{count} large weights were not looked through: the page reads {size} MB of them at most.', { count: skipped, size: MOST_READ >> 20 }), { severity: 'note', why: '', then: '' }];
};
