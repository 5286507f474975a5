// "Open your model": what is dropped on the page is read, drawn and run in it, and goes nowhere.

const here = document.currentScript.src;
const { graph, kernelless, graphState, loaded, bytesOf, zipped, words } = globalThis.onnxlabPage;
const tr = (text, gaps = {}) => (words[text] ?? text).replace(/\{([^{}]+)\}/g, (gap, name) => gaps[name] ?? gap);
const make = (tag, properties = {}, ...children) => { const element = Object.assign(document.createElement(tag), properties); element.append(...children); return element; };
const { BinaryReader } = requireModule('protobuf'), onnxProto = requireModule('onnx-proto').onnx;
const protobufReader = (bytes) => BinaryReader.open(bytes);

const MOST_TO_RUN = 400e6;    // bytes, data files included: the runtime takes more than twice as much, of 4 GB at most
const MOST_NODES = 30_000;    // that are drawn, as in the notebook
const LARGEST_WEIGHT = 4 << 20;   // bytes of one weight that are shown
const COLOURS = { removed: '#d22', added: '#2a2', changed: '#e8590c' };
const SIZES = [32, 8, 4, 16, 64, 3, 5, 2, 1, 128, 224, 512];   // tried in this order
const megabytes = (size) => (size < 1e5 ? `${(size / 1e3).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`);
const ARRAYS = /\.np[yz]$/i;
const shellName = ({ name }) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);
const command = (...parts) => make('code', { textContent: ['onnxlab', ...parts].join(' ') });

// What is open: the models, the other files that were dropped, the graph's end, and what runs.
let models = [], given = new Map(), close = () => {}, running = null, shown = 0;

const factsOf = (opened, runtimes) => {
  const { file, model, nodes } = opened, able = ableOf(model, runtimes), releases = Object.keys(runtimes);
  const tensors = [...tensorsOf(opened)];
  const opsets = model.opset_import.map(({ domain, version }) => `${plain(domain || 'ai.onnx')} ${version}`).join(', ');
  return [
    [tr('file'), `${file.name}, ${megabytes(file.size)}`],
    [tr('written by'), plain(`${model.producer_name ?? ''} ${model.producer_version ?? ''}`.trim()) || tr('not said')],
    [tr('IR version'), String(model.ir_version)],
    [tr('opsets'), opsets || tr('none')],
    [tr('ONNX Runtime'), able.length ? tr('{first} and later, of the recorded releases ({all})', { first: able[0], all: releases.join(', ') }) : tr('none of the recorded releases ({all}) loads this version', { all: releases.join(', ') })],
    [tr('nodes'), `${nodes.toLocaleString()}${model.functions.length ? `, ${tr('{count} functions', { count: model.functions.length })}` : ''}`],
    [tr('inputs'), inputsOf(model).map(declaredText).join('\n') || tr('none')],
    [tr('outputs'), model.graph.output.map(declaredText).join('\n') || tr('none')],
    [tr('weights'), `${megabytes(tensors.reduce((sum, { size }) => sum + size, 0))}, ${tr('{count} numbers', { count: tensors.reduce((sum, { tensor }) => sum + elements(tensor), 0).toLocaleString() })}`],
  ];
};

// A finding as the doctor's table has it: how bad, what was seen, why it matters, what to do, the section that explains it.
const findingItem = ([rule, what, own = {}], { rules, lessons }) => {
  const { severity, why, then, lesson } = { ...rules[rule], ...own };
  const item = make('li', { className: severity }, make('strong', { textContent: tr(severity) }), ` ${what} `, make('span', { textContent: [why, then].filter(Boolean).map((text) => tr(text)).join(' ') }));
  if (lessons[lesson]) item.append(' ', make('a', { href: lessons[lesson][1], textContent: lessons[lesson][0] }));
  Object.assign(item.dataset, rule ? { rule, what } : {});
  return item;
};

// What the graph's widget asks of a kernel, answered from the files.
const graphModel = (models, given, diff) => {
  const answers = {
    kit: async () => [{}, [bytesOf((await loaded('netron.js')).kit)]],
    model: async ({ pane }) => {
      const { file, model, lean, nodes } = models[pane];
      const origin = { format: `ONNX v${model.ir_version}`, producer: plain(model.producer_name) };
      return [{ name: file.name, origin, size: nodes }, [await zipped(lean), bytesOf((await loaded('open_data.js')).operators)]];
    },
    weight: async ({ pane, location }) => {
      const { file, weights } = models[pane], place = weights[Number(location)];
      const one = [...tensorsOf(models[pane])].find(({ tensor }) => tensor.data_location === 1 && tensor.external_data.at(-1).value === location);
      const bytes = place && one && await bytesOfWeight(one, file, given, LARGEST_WEIGHT);
      if (!bytes) throw new Error(place?.external ? tr('The data file {name} is not here. Drop it, too.', { name: place.external.location }) : tr('This weight is not stored as raw bytes; the page does not read it.'));
      return [{}, [bytes]];
    },
  };
  const marks = models.map(() => ({}));
  for (const id of diff?.removed ?? []) marks[0][id] = { stroke: COLOURS.removed };
  for (const id of diff?.added ?? []) marks[1][id] = { stroke: COLOURS.added };
  for (const id of diff?.changed ?? []) for (const [pane, place] of [id, diff.pairs[id]].entries()) marks[pane][place] = { stroke: COLOURS.changed };
  const titles = models.length > 1 ? models.map(({ file }) => file.name) : [];
  const state = { ...graphState, _height: 480, _titles: titles, _pairs: diff?.pairs ?? {}, _groups: models.map(() => 0), _marks: marks };
  return { ...kernelless(state, (message) => answers[message.kind](message)), dropped: (files) => open([...files].filter((file) => file instanceof File)) };
};

// Draws the graphs; resolves when all of them are there.
const draw = (models, given, diff, place) => new Promise((resolve) => {
  const drawn = () => {
    const frames = [...place.querySelectorAll('iframe')];
    if (place.querySelector('.onnxlab-message') || (frames.length === models.length && frames.every(({ dataset }) => dataset.status === 'ready'))) { progress.disconnect(); resolve(); }
  };
  const progress = new MutationObserver(drawn);
  progress.observe(place, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-status'] });
  close = graph.render({ model: graphModel(models, given, diff), el: place });
});

// One request after the other to a worker, which ends with the model that it has loaded.
const runner = () => {
  const worker = new Worker(new URL('open_run.js', here));
  const ask = (message) => new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => { event.preventDefault(); resolve({ error: event.message || tr('the memory of this page is not enough'), ended: true }); };
    worker.postMessage(message);
  });
  return { ask, end: () => worker.terminate() };
};
const shownValue = (value) => (typeof value === 'number' ? String(+value.toPrecision(4)) : plain(value, 20));

// What a run in the page needs: its inputs with their axes, and which of these have no fixed size.
const runBox = (opened, given) => {
  const { file, model } = opened, parts = [...dataFilesOf(opened).keys()], doctor = command('doctor', shellName(file));
  const total = parts.reduce((sum, path) => sum + (given.get(baseName(path))?.size ?? 0), file.size);
  const box = make('div', { className: 'onnxlab-run' });
  const no = (text) => { box.append(make('p', {}, `${text} `, doctor)); return box; };
  if (total > MOST_TO_RUN) return no(tr('It is not run here: a model of {size} takes more than twice as much memory, and could end the tab. In a terminal:', { size: megabytes(total) }));
  if (location.protocol === 'file:') return no(tr('It is not run here: a browser does not let a page on a disk load ONNX Runtime. Open the page from a web server, or in a terminal:'));
  const missing = parts.filter((path) => !given.has(baseName(path))).map(baseName);
  if (missing.length) return no(tr('It is not run here: {names} is missing. Drop it, too; or in a terminal:', { names: listing(missing) }));
  const outputs = model.graph.output.filter(({ type }) => type?.tensor_type).map(({ name }) => name);
  if (!outputs.length) return no(tr('It is not run here: no output is a tensor, and the page can show no others. In a terminal:'));
  const inputs = inputsOf(model).map((value) => ({ name: value.name, type: kindOf(value), axes: (axesOf(value) ?? []).map((axis, i) => (axis === '?' ? `${value.name}[${i}]` : axis)) }));
  const firsts = new Set(inputs.map(({ axes }) => axes[0]));
  const fields = new Map([...new Set(inputs.flatMap(({ axes }) => axes.filter((axis) => typeof axis === 'string')))].map((axis) => [axis, make('input', { type: 'number', min: 1, max: 1e6 })]));
  const status = make('p', { role: 'status' }), results = make('tbody'), columns = [tr('sizes'), tr('time'), tr('memory'), tr('output'), tr('first values')];
  const note = make('p', { hidden: true, textContent: tr('Memory is the WebAssembly heap of ONNX Runtime at that point: the runtime, the model and its buffers. It grows in steps and never shrinks.') });
  const table = make('table', { hidden: true }, make('thead', {}, make('tr', {}, ...columns.map((textContent) => make('th', { scope: 'col', textContent })))), results);
  const values = [...given.values()].filter((one) => ARRAYS.test(one.name)), from = listing(values.map((one) => one.name));
  const refuse = async ({ error, gaps }) => {
    if (gaps) { status.textContent = tr(error, Object.fromEntries(Object.entries(gaps).map(([name, gap]) => [name, plain(gap, 200)]))); return; }
    const [known] = await globalThis.onnxlabWhy(error).catch(() => []);
    status.replaceChildren(tr('ONNX Runtime refuses it: {error}', { error: plain(error.trim(), 600) }), ...known ? [make('br'), make('a', { href: known.page, textContent: known.title })] : []);
  };
  const sized = (size, batch) => Object.fromEntries([...fields.keys()].map((axis) => [axis, firsts.has(axis) ? batch : size]));
  const describe = (sizes) => Object.entries(sizes).map(([axis, size]) => `${plain(axis)} = ${size}`).join(', ') || tr('as declared');
  const row = (what, { ms, memory }, ...rest) => {
    table.hidden = note.hidden = false;
    results.append(make('tr', {}, ...[what, `${ms.toFixed(1)} ms`, megabytes(memory), ...rest].map((textContent) => make('td', { textContent }))));
  };
  const tryAt = async (sizes, isOwn = false) => {
    status.textContent = tr('Running at {sizes} ...', { sizes: describe(sizes) });
    const answer = await running.ask({ kind: 'run', inputs, outputs, sizes, isOwn });
    if (answer.error) return answer;
    for (const { name, dims, type, first, odd } of answer.outputs ?? []) {
      const shown = `${first.map(shownValue).join(', ')} ...${odd ? ` (${tr('{count} not finite', { count: odd })})` : ''}`;
      row(isOwn ? `${from}: ${describe(sizes)}` : describe(sizes), answer, `${plain(name)} ${type}[${dims.join(', ')}]`, shown);
    }
    return null;
  };
  // Runs at the first of some sizes that is accepted: what was refused last, or nothing, and the sizes.
  const tryEach = async (tries, isOwn) => {
    let error = null, sizes;
    for (sizes of tries) { error = await tryAt(sizes, isOwn); if (!error || error.ended) break; }
    return [error, sizes];
  };
  let own = null, held = {};
  const load = async () => {
    if (own && running === own) return true;
    running?.end();
    own = running = runner();
    status.textContent = tr('Loading ONNX Runtime (3.7 MB) and the model ...');
    const data = parts.map((path) => [path, given.get(baseName(path))]);
    if (values.length) held = await running.ask({ kind: 'values', files: values, inputs });
    const answer = held.error ? held : await running.ask({ kind: 'load', file, data, runtime: new URL('../../runtime/', here).href });
    if (answer.error) { own = null; await refuse(answer); } else row(tr('loading'), answer, '', '');
    return !answer.error;
  };
  const chosen = () => { const sizes = [...fields].map(([axis, field]) => [axis, Math.round(field.valueAsNumber)]); return sizes.length && sizes.every(([, size]) => size >= 1) ? Object.fromEntries(sizes) : null; };
  const run = async () => {
    if (!await load()) return;
    const fixed = chosen(), second = !fixed && fields.size;
    let error, sizes, tries = fixed ? [fixed] : fields.size ? SIZES.flatMap((size) => [sized(size, 2), sized(size, 1)]) : [{}];
    if (values.length) {
      tries = [...new Map(tries.map((one) => ({ ...one, ...held.sizes })).map((one) => [JSON.stringify(one), one])).values()];
      [error, sizes] = await tryEach(tries, true);
      tries = [sizes];
    }
    if (!error) [error, sizes] = await tryEach(tries);
    if (!error && second) {   // another size, which is no multiple of the first
      for (const [axis, field] of fields) field.value = sizes[axis];
      error = await tryAt(Object.fromEntries(Object.entries(sizes).map(([axis, size]) => [axis, 2 * size + 1])));
    }
    if (error?.ended) own = null;
    if (error) await refuse(error); else status.textContent = tr('Done.');
  };
  const button = make('button', { type: 'button', className: 'start', textContent: values.length ? tr('Run it in this page, with {files} and with drawn values', { files: from }) : tr('Run it in this page, with drawn values') });
  button.onclick = async () => {
    const buttons = place.querySelectorAll('.onnxlab-run button');   // of two models, too: a second run would end the first
    for (const one of buttons) one.disabled = true;
    await run();
    for (const one of buttons) one.disabled = false;
    box.dataset.ran = results.childElementCount;
  };
  const labels = [...fields].map(([axis, field]) => make('label', {}, `${plain(axis)} `, field));
  if (labels.length) box.append(make('p', {}, tr('Sizes to run at; without them, the page tries until two of them run:')));
  box.append(...labels, button, table, note, status, make('p', {}, tr('For values of your own, drop an .npz file with an array for each input, as for:'), ' ', command('doctor', '--inputs', 'FILE.npz', shellName(file))), make('p', {}, tr('What needs Python, as a comparison with PyTorch and runs at many sizes:'), ' ', doctor));
  return box;
};

const place = document.querySelector('.onnxlab-open'), results = make('div'), status = make('p', { role: 'status', className: 'said' });
const say = (text, bad = false) => { status.textContent = text; status.classList.toggle('bad', bad); };

const show = async (files) => {
  const began = performance.now(), mine = ++shown, names = files.map(({ name }) => name);
  const wanted = models.flatMap((opened) => [...dataFilesOf(opened).keys()].map(baseName)), isPart = (name) => ARRAYS.test(name) || wanted.includes(name);
  const isNew = !models.length || !names.every(isPart);   // otherwise they are the data files of what is open, or values for it
  const own = files.filter(({ name }) => /\.onnx$/i.test(name)), opening = (own.length ? own : files.filter(({ name }) => !ARRAYS.test(name)).slice(0, 1)).slice(0, 2);
  given = new Map([...isNew && models.length ? [] : given, ...files.filter((file) => !opening.includes(file) || !own.length).map((file) => [file.name, file])]);
  const twice = names.find((name, i) => names.indexOf(name) < i && !own.some((file) => file.name === name));
  if (isNew) {
    models = [];
    if (twice) { clear(); say(tr('Two files are called {name}, and a browser does not tell whose they are. Drop one model with its data file at a time.', { name: twice }), true); return; }
    if (!opening.length) { clear(); say(tr('{names}: values for a run. Drop the model, too.', { names: listing(names) })); return; }
    const read = await Promise.allSettled(opening.map(readModel)), failed = read.find(({ reason }) => reason);
    if (mine !== shown) return;   // something else was dropped meanwhile
    if (failed) { clear(); say([failed.reason.message, own.length ? '' : tr('If it is the data file of a model, drop the model now.')].join(' '), true); if (!(failed.reason instanceof Unreadable)) throw failed.reason; return; }
    models = read.map(({ value }) => value);
  }
  const { runtimes, ...texts } = await loaded('open_data.js');
  if (mine !== shown) return;
  clear();
  const diff = models.length > 1 ? pairModels(...models.map(({ model }) => model)) : null;
  const drawing = make('div', { className: 'onnxlab-live' }), [first, second] = models.map(({ file }) => shellName(file));
  if (diff) {
    const legend = [['removed', tr('{count} removed', { count: diff.removed.length })], ['added', tr('{count} added', { count: diff.added.length })], ['changed', tr('{count} changed', { count: diff.changed.length })]];
    results.append(make('h2', { textContent: tr('What differs') }), make('p', {}, tr('Nodes with a counterpart: {count}.', { count: Object.keys(diff.pairs).length }), ...legend.flatMap(([kind, text]) => {
      const mark = make('span', { className: 'change', textContent: text });
      mark.style.borderColor = COLOURS[kind];
      return [' ', mark];
    }), ' ', tr('The page pairs nodes by what they compute, and compares weights by their shapes. With values, and with outputs:'), ' ', command('compare', first, second)));
  }
  results.append(drawing);
  const boxes = models.map((opened) => {
    const rows = factsOf(opened, runtimes).map(([name, text]) => make('tr', {}, make('th', { scope: 'row', textContent: name }), make('td', { textContent: text })));
    const list = make('ul', { className: 'findings' }, ...[...structureFindings(opened, given, runtimes)].map((found) => findingItem(found, texts)));
    const head = make('h2', { textContent: opened.file.name });
    results.append(head, make('table', { className: 'facts' }, make('tbody', {}, ...rows)), make('h3', { textContent: tr('What the structure shows') }), list, make('h3', { textContent: tr('A run') }), runBox(opened, given));
    return { opened, list };
  });
  const most = Math.max(...models.map(({ nodes }) => nodes));
  if (most > MOST_NODES) drawing.append(make('p', {}, tr('The graph is not drawn: it has {count} nodes, and {most} are the most. In a terminal:', { count: most.toLocaleString(), most: MOST_NODES.toLocaleString() }), ' ', command('open', first)));
  else await draw(models, given, diff, drawing);
  if (mine !== shown) return;
  place.dataset.milliseconds = Math.round(performance.now() - began);
  say(tr('Open: {names}. Nothing has left this page.', { names: models.map(({ file }) => file.name).join(', ') }));
  for (const { opened, list } of boxes) {
    for await (const found of weightFindings(opened, given)) if (mine === shown) list.append(findingItem(found, texts));
    if (!list.childElementCount) list.append(make('li', { className: 'note' }, tr('Nothing.')));
  }
  if (mine === shown) place.dataset.ready = names.join();
};
const clear = () => {
  close();
  running?.end();
  [close, running] = [() => {}, null];
  results.replaceChildren();
  for (const name of ['ready', 'milliseconds']) delete place.dataset[name];
};
const open = (files) => {
  place.classList.remove('over');
  if (!files.length) return;
  say(tr('Reading ...'));
  show([...files]).catch((error) => { say(tr('This page failed: {message}', { message: error.message }), true); throw error; });
};

const chooser = make('input', { type: 'file', multiple: true, id: 'onnxlab-file' });
chooser.onclick = () => { chooser.value = ''; };   // a file that was changed can be chosen again
chooser.onchange = () => open(chooser.files);
chooser.setAttribute('aria-describedby', 'onnxlab-promise');
place.replaceChildren(
  make('label', { className: 'drop', htmlFor: 'onnxlab-file' }, make('span', {}, tr('Drop an .onnx file here, with its data file, or values for a run (.npz); or two models, to compare them.')), chooser),
  make('p', { id: 'onnxlab-promise' }, tr('Nothing leaves this page: there is no server behind it, and it works without a network.')), status, results);
for (const event of ['dragover', 'drop']) {
  document.addEventListener(event, (drop) => {
    drop.preventDefault();
    if (event === 'drop') open(drop.dataTransfer.files); else place.classList.add('over');
  });
}
document.addEventListener('dragleave', () => place.classList.remove('over'));
for (const ready of [loaded('open_data.js'), graph.prepare(graphModel([], given, null))]) ready.catch(() => {});   // a drop says what fails
