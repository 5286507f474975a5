// Models that run in the page: a chapter's own files in onnxruntime-web, which is loaded on the first click.

const home = new URL('../../models/', document.currentScript.src);
const runtime = new URL('../../runtime/', document.currentScript.src);
const words = globalThis.onnxlabWords;
const tr = (text, gaps = {}) => (words[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => gaps[name]);
const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

// One thread: more need headers that a plain host of pages does not send.
let loading;
const loaded = () => loading ??= new Promise((resolve, reject) => {
  const fail = () => { loading = undefined; reject(new Error(tr('ONNX Runtime could not be loaded. It needs a web server: a browser does not let a page on a disk read it.'))); };
  if (location.protocol === 'file:') return fail();
  const script = make('script', { src: new URL('ort.wasm.min.js', runtime).href, onerror: fail });
  script.onload = () => {
    Object.assign(globalThis.ort.env.wasm, { numThreads: 1, wasmPaths: runtime.href });
    resolve(globalThis.ort);
  };
  document.head.append(script);
});
const sessions = new Map();
const session = async (file) => {
  const { InferenceSession } = await loaded();
  if (!sessions.has(file)) sessions.set(file, InferenceSession.create(new URL(file, home).href));
  return sessions.get(file);
};
const tensor = (data, dims, type = 'float32') => new globalThis.ort.Tensor(type, data, dims);
const run = async (file, feeds) => (await session(file)).run(feeds);
globalThis.onnxlabRun = async (file, feeds) => {  // for tests: as `run`, with plain arrays
  await loaded();
  const arrays = { float32: Float32Array, int64: BigInt64Array, uint8: Uint8Array };
  const cast = ({ type, data, dims }) => tensor(arrays[type].from(data, type === 'int64' ? BigInt : Number), dims, type);
  const answer = await run(file, Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, cast(feed)])));
  return Object.entries(answer).map(([name, { data, dims }]) => ({ name, dims, data: Array.from(data, Number) }));
};

// What runs again at each change: one run at a time, the last change counts, and a refusal is shown in the runtime's words.
const shown = (say, act) => {
  let busy = false, next;
  return async (...details) => {
    next = details;
    if (busy) return;
    busy = true;
    try { while (next) { const now = next; next = undefined; await act(...now); } }
    catch (error) { say(error.message); }
    finally { busy = false; }
  };
};
const choose = (label, options, onchange) => {
  const list = make('select', { onchange }, ...options.map((text) => make('option', { textContent: text, value: text })));
  return [make('label', {}, `${label} `, list), list];
};
const number = (value, digits = 3) => Number(value).toFixed(digits).replace(/\.?0+$/, '');
const list = (values) => `[${values.map((value) => number(value)).join(', ')}]`;
const table = (rows) => make('table', {}, ...rows.map((row, line) => make('tr', {},
  ...row.map((cell) => make(line ? 'td' : 'th', {}, cell)))));

// Pixels of a picture: a file of the reader's, a canvas, or the course's photograph.
const pixels = (picture, width, height) => {
  const context = make('canvas', { width, height }).getContext('2d', { willReadFrequently: true });
  context.imageSmoothingQuality = 'high';
  context.drawImage(picture, 0, 0, width, height);
  return context.getImageData(0, 0, width, height).data;
};
const pictureOf = async (address) => { const picture = make('img', { src: address }); await picture.decode(); return picture; };
const ownPicture = (use) => {
  const field = make('input', { type: 'file', accept: 'image/*' });
  field.onchange = async () => { if (field.files[0]) use(await pictureOf(URL.createObjectURL(field.files[0]))); };
  return make('label', {}, `${tr('A picture of your own (it stays on this machine):')} `, field);
};
const luma = (r, g, b) => 0.299 * r + 0.587 * g + 0.114 * b;
const paint = (canvas, width, height, colour) => {
  Object.assign(canvas, { width, height });
  const context = canvas.getContext('2d'), image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) image.data.set([...colour(i), 255], 4 * i);
  context.putImageData(image, 0, 0);
};

const demos = {
  // Chapter 01: the network enlarges the brightness; colours, and the picture beside it, come from a Resize of chapter 09.
  async enlarge(place, say) {
    const [before, bicubic, after] = [0, 1, 2].map(() => make('canvas'));
    const show = shown(say, async (picture) => {
      const scale = Math.min(1, 150 / Math.max(picture.naturalWidth, picture.naturalHeight));
      const [w, h] = [picture.naturalWidth, picture.naturalHeight].map((side) => Math.max(8, Math.round(side * scale)));
      const rgba = pixels(picture, w, h), rgb = new Float32Array(3 * w * h), y = new Float32Array(w * h);
      for (let i = 0; i < w * h; i++) {
        for (let c = 0; c < 3; c++) rgb[c * w * h + i] = rgba[4 * i + c] / 255;
        y[i] = luma(...rgba.slice(4 * i, 4 * i + 3)) / 255;
      }
      const began = performance.now();
      const network = Object.values(await run('enlarge.onnx', { x: tensor(y, [1, 1, h, w]) }))[0];
      const spent = performance.now() - began;
      const smooth = Object.values(await run('bicubic.onnx', { x: tensor(rgb, [1, 3, h, w]) }))[0].data;
      const count = 9 * w * h;
      const colour = (i) => [0, 1, 2].map((c) => smooth[c * count + i] * 255);
      paint(before, w, h, (i) => rgba.slice(4 * i, 4 * i + 3));
      paint(bicubic, 3 * w, 3 * h, colour);
      paint(after, 3 * w, 3 * h, (i) => { const old = colour(i), more = network.data[i] * 255 - luma(...old); return old.map((value) => value + more); });
      say(tr('{w} x {h} became {W} x {H} in {ms} ms.', { w, h, W: network.dims[3], H: network.dims[2], ms: Math.round(spent) }));
    });
    const figure = (canvas, text) => make('figure', {}, canvas, make('figcaption', { textContent: tr(text) }));
    place.append(ownPicture(show), make('div', { className: 'pictures' },
      figure(before, 'small'), figure(bicubic, 'bicubic'), figure(after, 'the network')));
    await show(await pictureOf(new URL('cat.jpg', home).href));
  },

  // Chapter 02: the branch that was lost.
  async branch(place, say) {
    const files = { 'branch_traced.onnx': tr('traced'), 'branch_scripted.onnx': tr('scripted'), 'branch_cond.onnx': 'torch.cond' };
    const field = make('input', { type: 'text', value: '-3, -4, -5', size: 24 });
    const answers = make('div');
    const show = shown(say, async () => {
      const values = field.value.split(/[\s,;]+/).filter(Boolean).map(Number);
      if (!values.length || values.some(Number.isNaN)) { say(tr('Type numbers with commas between them.')); return; }
      say('');
      const wanted = values.reduce((sum, value) => sum + value, 0) > 0 ? values.map((value) => value * 2) : values.map((value) => value - 1);
      const rows = [[tr('file'), tr('output'), '']];
      for (const [file, name] of Object.entries(files)) {
        try {
          const opened = await session(file);
          const answer = Object.values(await opened.run({ [opened.inputNames[0]]: tensor(Float32Array.from(values), [values.length]) }))[0];
          const right = wanted.every((value, i) => Math.abs(value - answer.data[i]) < 1e-4);
          rows.push([name, list([...answer.data]), tr(right ? 'right' : 'wrong')]);
        } catch (error) { rows.push([name, error.message, tr('refused')]); }
      }
      answers.replaceChildren(table(rows), make('p', { textContent: tr('The Python code gives {wanted}.', { wanted: list(wanted) }) }));
    });
    field.oninput = show;
    place.append(make('label', {}, `${tr('Three numbers:')} `, field), answers);
    await show();
  },

  // Chapters 04 and 04b: accepted, refused, or wrong.
  async sizes(place, say) {
    const stored = await (await fetch(new URL('sizes.json', home))).json();
    const ways = {
      [tr('torch.export, example of 1 row, batch marked')]: 'export1', [tr('torch.export, example of 2 rows, batch marked')]: 'export2',
      [tr('torch.export, example of 2 rows, nothing marked')]: 'fixed', [tr('TorchScript, example of 2 rows, batch marked')]: 'torchscript',
    };
    const code = { with_shape: 'x.sum(0) / x.shape[0]', with_len: 'x.sum(0) / len(x)', with_int: 'x.sum(0) / int(x.shape[0])', with_if: 'x - x.mean(0) if x.shape[0] > 1 else x * 1' };
    const answers = make('div');
    const rows = make('input', { type: 'number', min: 1, max: 9, value: 3 });
    const show = shown(say, async () => {
      const n = Math.min(9, Math.max(1, Math.round(Number(rows.value)) || 1));
      const x = Float32Array.from({ length: 3 * n }, (_, k) => (7 * Math.floor(k / 3) + 3 * (k % 3)) % 10 / 10);
      const wanted = stored[functions.value][n].flat();
      let verdict, output;
      try {
        const opened = await session(`${functions.value}.${ways[exports.value]}.onnx`);
        const answer = Object.values(await opened.run({ [opened.inputNames[0]]: tensor(x, [n, 3]) }))[0];
        const right = answer.data.length === wanted.length && wanted.every((value, i) => Math.abs(value - answer.data[i]) < 1e-4);
        [verdict, output] = [tr(right ? 'accepted, right' : 'accepted, wrong'), list([...answer.data])];
      } catch (error) { [verdict, output] = [tr('refused'), error.message]; }
      say('');
      answers.replaceChildren(table([[tr('verdict'), tr('ONNX Runtime'), tr('PyTorch (stored)')], [verdict, output, list(wanted)]]),
        make('p', {}, make('code', { textContent: `return ${code[functions.value]}` })));
    });
    const [functionsLabel, functions] = choose(tr('function'), Object.keys(stored), show);
    const [exportsLabel, exports] = choose(tr('export'), Object.keys(ways), show);
    functions.value = 'with_len';
    rows.oninput = show;
    place.append(functionsLabel, exportsLabel, make('label', {}, `${tr('rows')} `, rows), answers);
    await show();
  },

  // Chapter 09: one file, any factor.
  async factor(place, say) {
    const photograph = await pictureOf(new URL('cat.jpg', home).href);
    const rgba = pixels(photograph, 150, 100), [w, h, left, top] = [45, 40, 40, 20];
    const y = Float32Array.from({ length: w * h }, (_, i) => {
      const at = 4 * ((top + Math.floor(i / w)) * 150 + left + i % w);
      return luma(...rgba.slice(at, at + 3)) / 255;
    });
    const canvas = make('canvas'), slider = make('input', { type: 'range', min: 1, max: 8, step: 0.25, value: 3 });
    const show = shown(say, async () => {
      const value = Number(slider.value);
      const { dims, data } = Object.values(await run('factor.onnx', { x: tensor(y, [1, 1, h, w]), factor: tensor(Float32Array.of(value), [1]) }))[0];
      paint(canvas, dims[3], dims[2], (i) => Array(3).fill(data[i] * 255));
      say(tr('Factor {value}: {w} x {h} became {W} x {H}.', { value, w, h, W: dims[3], H: dims[2] }));
    });
    slider.oninput = show;
    place.append(make('label', {}, `${tr('factor')} `, slider), make('div', { className: 'pictures' }, canvas));
    await show();
  },

  // Chapter 15: a digit drawn by hand, as the network's training pictures were made: it fills 32 x 32 dots, which
  // are counted in blocks of 4 x 4.
  async digit(place, say) {
    const side = 192, canvas = make('canvas', { width: side, height: side, className: 'paper', tabIndex: 0 });
    const context = canvas.getContext('2d', { willReadFrequently: true }), answers = make('div');
    Object.assign(context, { lineWidth: 16, lineCap: 'round', lineJoin: 'round', strokeStyle: '#000' });
    const clear = () => { context.fillStyle = '#fff'; context.fillRect(0, 0, side, side); };
    const show = shown(say, async () => {
      const ink = context.getImageData(0, 0, side, side).data, [xs, ys] = [[], []];
      for (let i = 0; i < side * side; i++) if (ink[4 * i] < 128) { xs.push(i % side); ys.push(Math.floor(i / side)); }
      if (!xs.length) { answers.replaceChildren(); say(''); return; }
      const [left, right, top, bottom] = [xs, ys].flatMap((values) => [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b)) + 1]);
      const scale = 32 / Math.max(right - left, bottom - top), filled = make('canvas', { width: 32, height: 32 }), small = filled.getContext('2d');
      const [w, h] = [(right - left) * scale, (bottom - top) * scale];
      small.drawImage(canvas, left, top, right - left, bottom - top, (32 - w) / 2, (32 - h) / 2, w, h);
      const dots = small.getImageData(0, 0, 32, 32).data, counts = new Float32Array(64);
      for (let i = 0; i < 1024; i++) if (dots[4 * i + 3] > 128 && dots[4 * i] < 128) counts[8 * (i >> 7) + ((i & 31) >> 2)] += 1;
      const x = tensor(counts.map((count) => (count / 16 - 0.305) / 0.376), [1, 1, 8, 8]);
      const scores = [];
      for (const file of ['digits.onnx', 'digits_int8.onnx']) scores.push([...Object.values(await run(file, { x }))[0].data]);
      const best = scores.map((row) => row.indexOf(Math.max(...row)));
      const far = Math.max(...scores[0].map((value, i) => Math.abs(value - scores[1][i])));
      answers.replaceChildren(table([[tr('digit'), 'float32', 'int8'], ...scores[0].map((value, i) => [String(i),
        ...[value, scores[1][i]].map((score, k) => make(best[k] === i ? 'strong' : 'span', { textContent: score.toFixed(2) }))])]));
      say(tr('float32 says {a}, int8 says {b}; the scores differ by {far} at most.', { a: best[0], b: best[1], far: far.toFixed(2) }));
    });
    const at = (event) => [event.offsetX, event.offsetY].map((value) => value * side / canvas.clientWidth);
    canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); context.beginPath(); context.moveTo(...at(event)); context.lineTo(...at(event)); context.stroke(); };
    canvas.onpointermove = (event) => { if (event.buttons) { context.lineTo(...at(event)); context.stroke(); } };
    canvas.onpointerup = show;
    const again = make('button', { type: 'button', textContent: tr('Clear'), onclick: () => { clear(); show(); } });
    clear();
    for (const [x, y] of [[60, 50], [132, 50], [84, 160]]) context.lineTo(x, y);  // a seven to begin with
    context.stroke();
    place.append(make('div', { className: 'pictures' }, make('figure', {}, canvas, make('figcaption', {}, tr('Draw a digit.'), ' ', again)), answers));
    await show();
  },

  // Chapter 17: the same file with its cache, and without: then each step reads the whole text again.
  async poem(place, say) {
    const field = make('input', { type: 'text', value: 'Who has seen', maxLength: 60 });
    const text = make('pre'), steps = 60;
    const names = ['past.0.key', 'past.0.value', 'past.1.key', 'past.1.value'];
    const write = shown(say, async (cached) => {
      buttons.forEach((button) => { button.disabled = true; });
      const codes = [...new TextEncoder().encode(field.value || ' ')];
      const empty = () => names.map(() => tensor(new Float32Array(0), [1, 4, 0, 16]));
      let past = empty(), fresh = codes.slice(), read = 0;
      const began = performance.now();
      for (let step = 0; step < steps; step++) {
        const feeds = { tokens: tensor(BigInt64Array.from(fresh, BigInt), [1, fresh.length], 'int64') };
        names.forEach((name, i) => { feeds[name] = past[i]; });
        const answer = await run('decoder.onnx', feeds);
        read += fresh.length;
        const last = answer.logits.data.slice(-256);
        const code = last.indexOf(Math.max(...last));
        codes.push(code);
        if (cached) { past = names.map((name) => answer[name.replace('past', 'present')]); fresh = [code]; }
        else { past = empty(); fresh = codes.slice(); }
        text.textContent = new TextDecoder().decode(Uint8Array.from(codes));
      }
      const spent = (performance.now() - began) / steps;
      say(tr(cached ? 'With the cache: {read} tokens were read for {steps} new ones, {ms} ms each.' : 'Without the cache: {read} tokens were read for {steps} new ones, {ms} ms each.', { read, steps, ms: spent.toFixed(1) }));
      buttons.forEach((button) => { button.disabled = false; });
    });
    const buttons = [[true, 'With the cache'], [false, 'Without']].map(([cached, label]) => make('button', { type: 'button', textContent: tr(label), onclick: () => write(cached) }));
    place.append(make('label', {}, `${tr('The beginning of a poem:')} `, field), ...buttons, text);
    await session('decoder.onnx');
    await write(true);
  },

  // Chapter 19: bytes in, boxes out. A click puts a shape on the picture.
  async boxes(place, say) {
    const shapes = ['ellipse', 'rectangle', 'triangle'], colours = ['#d62728', '#1f77b4', '#2ca02c'];
    const picture = make('canvas', { width: 320, height: 240 }), canvas = make('canvas', { width: 320, height: 240 });
    const context = picture.getContext('2d', { willReadFrequently: true });
    const [kindLabel, kind] = choose(tr('A click puts a shape there:'), shapes, () => {});
    const shape = (name, x, y, a, b, colour) => {
      context.fillStyle = colour;
      context.beginPath();
      if (name === 'ellipse') context.ellipse(x, y, a, b, 0, 0, 2 * Math.PI);
      else if (name === 'rectangle') context.rect(x - a, y - b, 2 * a, 2 * b);
      else { context.moveTo(x, y - b); context.lineTo(x + a, y + b); context.lineTo(x - a, y + b); }
      context.fill();
    };
    const show = shown(say, async () => {
      const { width, height } = picture, rgba = context.getImageData(0, 0, width, height).data, bytes = new Uint8Array(3 * width * height);
      for (let i = 0; i < width * height; i++) bytes.set(rgba.subarray(4 * i, 4 * i + 3), 3 * i);
      const began = performance.now();
      const { boxes, scores, classes } = await run('detector.onnx', { pictures: tensor(bytes, [1, height, width, 3], 'uint8') });
      const spent = performance.now() - began;
      Object.assign(canvas, { width, height });
      const over = canvas.getContext('2d');
      over.drawImage(picture, 0, 0);
      Object.assign(over, { lineWidth: 2, font: 'bold 13px sans-serif' });
      [...classes.data].map(Number).forEach((number, i) => {
        const [l, t, r, b] = boxes.data.slice(4 * i, 4 * i + 4);
        over.strokeStyle = over.fillStyle = colours[number];
        over.strokeRect(l, t, r - l, b - t);
        over.fillText(`${shapes[number]} ${scores.data[i].toFixed(2)}`, l + 2, Math.max(12, t - 3));
      });
      say(tr('{count} boxes in {ms} ms.', { count: classes.data.length, ms: Math.round(spent) }));
    });
    const clear = () => { Object.assign(picture, { width: 320, height: 240 }); context.fillStyle = '#8890a0'; context.fillRect(0, 0, 320, 240); };
    canvas.onclick = (event) => {
      const scale = canvas.width / canvas.clientWidth, unit = Math.min(canvas.width, canvas.height) / 240;
      shape(kind.value, event.offsetX * scale, event.offsetY * scale, 42 * unit, 34 * unit, ['#f2e9d8', '#7a1f3d', '#123a5c', '#e8c547'][Math.floor(event.timeStamp) % 4]);
      show();
    };
    const own = ownPicture((chosen) => {
      const scale = Math.min(1, 480 / Math.max(chosen.naturalWidth, chosen.naturalHeight));
      Object.assign(picture, { width: Math.round(chosen.naturalWidth * scale), height: Math.round(chosen.naturalHeight * scale) });
      context.drawImage(chosen, 0, 0, picture.width, picture.height);
      show();
    });
    const again = make('button', { type: 'button', textContent: tr('Clear'), onclick: () => { clear(); show(); } });
    clear();
    shape('triangle', 90, 90, 45, 40, '#f2e9d8');
    shape('ellipse', 220, 150, 55, 35, '#7a1f3d');
    place.append(kindLabel, again, own, make('div', { className: 'pictures' }, canvas));
    await show();
  },
};

document.addEventListener('DOMContentLoaded', () => {
  for (const box of document.querySelectorAll('.onnxlab-run')) {
    const status = make('p', { role: 'status' }), place = make('div', { className: 'controls' });
    const start = make('button', { type: 'button', className: 'start', textContent: tr('Run it in this page') });
    const say = (text) => { status.textContent = text; };
    start.onclick = async () => {
      const began = performance.now();
      start.disabled = true;
      say(tr('Loading ONNX Runtime (3.7 MB) and the model ...'));
      try {
        await loaded();
        await demos[box.dataset.demo](place, say);
        box.dataset.milliseconds = Math.round(performance.now() - began);
        start.remove();
      } catch (error) {
        place.replaceChildren();
        say(error.message);
        start.disabled = false;
      }
    };
    box.append(start, place, status);
  }
});
