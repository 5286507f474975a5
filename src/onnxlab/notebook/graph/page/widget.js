// The notebook's side of a live graph: makes the sandboxed frame, hands it Netron and the model, passes
// clicks on to Python and weights, colours and themes back. Loaded by anywidget; talks to view.py.

// A text in the language of the notebook, its gaps filled.
const speech = (model, words) => (text, gaps = {}) =>
  (model.get(words)[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => gaps[name]);

// Netron's files are asked for once per page and shared by all its graphs.
const kits = (globalThis.onnxlabNetron ??= new Map());
let requests = 0;

// An answer has no time limit: while a notebook is run from top to bottom the kernel answers after its last
// cell. What ends the wait is the kernel's end.
const ask = (model, content) => new Promise((resolve, reject) => {
  const request = `${Date.now()}-${requests++}`;
  const endings = ['comm:close', 'comm_live_update', 'destroy'];
  const finish = (settle, value) => {
    model.off('msg:custom', answer);
    endings.forEach((event) => model.off(event, gone));
    settle(value);
  };
  const answer = (message, buffers) => {
    if (message.request !== request) return;
    if (message.error) finish(reject, new Error(message.error));
    else finish(resolve, { message, buffers: buffers.map(copyOf) });
  };
  const gone = () => finish(reject, new Error(speech(model, '_translations')('The kernel that made this graph has ended. Run the cell again.')));
  model.on('msg:custom', answer);
  endings.forEach((event) => model.on(event, gone));
  model.send({ ...content, request });
});
const copyOf = (view) => new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength).slice();
const unzip = async (bytes) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer());
const textOf = (bytes) => new TextDecoder().decode(bytes);

const netronKit = (model) => {
  const key = model.get('_kit');
  if (!kits.has(key)) {
    const kit = ask(model, { kind: 'kit' }).then(({ buffers: [bytes] }) => unzip(bytes)).then((bytes) => JSON.parse(textOf(bytes)));
    kits.set(key, kit);
    kit.catch(() => kits.delete(key));
  }
  return kits.get(key);
};

// JupyterLab and Notebook, VS Code, Colab; elsewhere what the browser prefers.
const isDark = () => {
  const { body, documentElement: root } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === 'false';
  if (body.classList.contains('vscode-dark') || root.getAttribute('theme') === 'dark') return true;
  if (body.classList.contains('vscode-light') || root.getAttribute('theme') === 'light') return false;
  return matchMedia('(prefers-color-scheme: dark)').matches;
};

// A script runs in the frame only with this frame's own nonce, never as an attribute or element that a model's
// text has smuggled in; and no request of any kind may leave the frame.
const frameDocument = (kit) => {
  const nonce = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16)).join('');
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; worker-src blob:; style-src 'unsafe-inline'; `
    + `img-src data: blob:; base-uri 'none'; form-action 'none'`;
  const script = `const NONCE = '${nonce}';\n${kit.frame}`.replaceAll('</script', '<\\/script');
  return `<!DOCTYPE html><html lang="${document.documentElement.lang.replace(/[^\w-]/g, '') || 'en'}"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="version" content="${kit.version}"><title>Netron</title><style>${kit.css}</style></head>
<body class="welcome spinner">${kit.body}<script nonce="${nonce}">${script}</script></body></html>`;
};

// Netron's buttons and properties leave nothing to see of a smaller graph. Two graphs without that room for each are
// below each other.
const LEAST = { width: 480, height: 320 };

// The sandboxed frame of one graph. It says hello when its document is there, also after the page has taken it out of
// the document and put it back, which empties it; it is then handed Netron, and `listen` hears everything that it says.
const openFrame = (isEarly) => {
  const frame = document.createElement('iframe');
  frame.setAttribute('sandbox', 'allow-scripts');
  Object.assign(frame.style, {
    width: '100%', height: `calc(100% - ${HANDLE}px)`, boxSizing: 'border-box', display: 'block',
    border: '1px solid var(--jp-border-color2, #8884)', borderRadius: '4px',
  });
  const send = (message) => frame.contentWindow?.postMessage(message, '*');
  let files = null, greeted = false, hear = () => {};
  const receive = ({ source, data }) => {
    if (source !== frame.contentWindow || !data) return;
    if (data.kind === 'hello') {
      greeted = true;
      send({ kind: 'netron', netron: files.netron, dagre: files.dagre, worker: isEarly });
    }
    hear(data);
  };
  window.addEventListener('message', receive);
  return {
    frame,
    send,
    load: (kit) => {
      files = kit;
      greeted = false;
      frame.srcdoc = frameDocument(kit);
    },
    listen: (listener) => {
      hear = listener;
      if (greeted) hear({ kind: 'hello' });
    },
    close: () => {
      window.removeEventListener('message', receive);
      frame.remove();
    },
  };
};

// Starting a frame and Netron in it takes a third of a small graph's time. As soon as a graph of this page is drawn,
// one more frame is started, out of sight, and waits for the next graph; where a browser cannot move a frame without
// emptying it, or each output is a page of its own (Colab), there is none.
const waiting = (globalThis.onnxlabWaiting ??= new Map());
const keepWaiting = (key, kit) => {
  if (waiting.has(key) || !Element.prototype.moveBefore || globalThis.google?.colab) return;
  const room = document.createElement('div');
  room.inert = true;
  Object.assign(room.style, { position: 'fixed', left: '-9999px', top: 0, width: `${LEAST.width}px`, height: `${LEAST.height}px`, visibility: 'hidden' });
  const opened = openFrame(true);
  waiting.set(key, { opened, room });
  room.append(opened.frame);
  document.body.append(room);
  opened.load(kit);
};
// Moves the frame that waits into a box, as soon as that is in the page; false where none waits.
const takeWaiting = (key, box, isClosed) => {
  const { opened, room } = waiting.get(key) ?? {};
  if (!opened) return null;
  waiting.delete(key);
  const move = () => {
    if (isClosed()) { room.remove(); return; }
    if (!box.isConnected) { requestAnimationFrame(move); return; }
    box.moveBefore(opened.frame, null);
    room.remove();
  };
  move();
  return opened;
};

// The box of a frame, with a handle for its height at the lower right corner.
const HANDLE = 10;
const frameBox = (height) => {
  const box = document.createElement('div');
  box.className = 'onnxlab-box';
  Object.assign(box.style, { height: `${Math.max(height, LEAST.height) + HANDLE}px`, minHeight: '160px', resize: 'vertical', overflow: 'hidden', position: 'relative' });
  return box;
};

// The still picture above a frame, until that is drawn.
const pictureBox = (source) => {
  const box = document.createElement('div');
  box.className = 'onnxlab-first';
  Object.assign(box.style, {
    position: 'absolute', inset: `0 0 ${HANDLE}px`, overflow: 'auto', boxSizing: 'border-box', paddingTop: '13px',
    display: 'flex', justifyContent: 'safe center', alignItems: 'safe center', background: isDark() ? '#1e1e1e' : '#fff',
  });
  const image = document.createElement('img');
  image.src = source;
  image.alt = '';
  Object.assign(image.style, { maxWidth: 'none', filter: isDark() ? 'invert(0.86) hue-rotate(180deg)' : '' });
  box.append(image);
  return box;
};

const textBox = (tag, className, colour) => (text) => {
  const box = document.createElement(tag);
  box.className = className;
  box.textContent = text;
  Object.assign(box.style, { flex: '1 1 0', padding: '6px 12px', borderLeft: `4px solid ${colour}`, whiteSpace: 'pre-wrap' });
  return box;
};
const messageBox = textBox('div', 'onnxlab-message', '#d22');
const noteBox = textBox('pre', 'onnxlab-note', '#e8590c');

// A small graph in words, beside it or, where there is no room, below.
const wordsBox = (text) => {
  const box = document.createElement('pre');
  box.className = 'onnxlab-words';
  box.textContent = text;
  Object.assign(box.style, { flex: '0 1 auto', margin: '0 8px', alignSelf: 'center', whiteSpace: 'pre-wrap', lineHeight: 1.5, fontFamily: 'monospace' });
  return box;
};

// A button in the row below the graphs.
const plainButton = (className, text, act) => {
  const button = document.createElement('button');
  button.className = `${className} jp-mod-styled`;
  button.textContent = text;
  button.addEventListener('click', () => act(button));
  return button;
};

// The row below the graphs: the whole graph, a full screen and, for two of them, whether they move together.
const viewButtons = (whole, panes, together, tr) => {
  const row = document.createElement('div');
  row.className = 'onnxlab-view';
  Object.assign(row.style, { display: 'flex', gap: '4px', padding: '4px 0' });
  const fit = (least, most) => panes.forEach((pane) => pane.send({ kind: 'fit', least, most }));
  row.append(plainButton('onnxlab-fit', tr('Fit'), () => fit(0, document.fullscreenElement ? 3 : 1)));
  if (document.fullscreenEnabled) {
    const screen = plainButton('onnxlab-full', tr('Full screen'), () => (document.fullscreenElement ? document.exitFullscreen() : whole.requestFullscreen()));
    row.append(screen);
    whole.addEventListener('fullscreenchange', () => {
      const full = document.fullscreenElement !== null;
      screen.textContent = full ? tr('Leave full screen') : tr('Full screen');
      whole.style.padding = full ? '0 8px' : '';
      whole.querySelectorAll('.onnxlab-box').forEach((box) => {
        if (full) box.dataset.height = box.style.height;
        box.style.height = full ? 'calc(100vh - 70px)' : box.dataset.height;
      });
      whole.querySelectorAll('.onnxlab-words').forEach((words) => { words.hidden = full; });
      // A small graph fills the screen, a large one stays readable. The frames learn their new size first.
      setTimeout(() => (full ? fit(0.5, 3) : fit(1, 1)), 200);
    });
  }
  if (panes.length > 1) {
    const press = (button) => {
      together.on = !together.on;
      button.setAttribute('aria-pressed', together.on);
      button.style.fontWeight = together.on ? 'bold' : '';
    };
    const button = plainButton('onnxlab-together', tr('Move together'), press);
    button.setAttribute('aria-pressed', false);
    row.append(button);
  }
  return row;
};

// Below the graph of a large model: groups or nodes.
const groupButton = (counts, choose, tr) => {
  const button = document.createElement('button');
  button.className = 'onnxlab-groups jp-mod-styled';
  const label = (grouped) => { button.textContent = grouped ? tr('Show every node') : tr('Show groups ({counts})', { counts: counts.filter(Boolean).join(` ${tr('and')} `) }); };
  let grouped = true;
  label(grouped);
  button.addEventListener('click', () => { grouped = !grouped; label(grouped); choose(grouped); });
  return button;
};

// A link in the text, [Resize](#node=Resize), selects a node: in the nearest graph above the link that has it, else
// in the nearest below. Enter on a link is a click, too. JupyterLab has listeners of its own on links; this one is first.
const linkedName = ({ hash }) => {
  const name = hash.slice('#node='.length);
  try { return decodeURIComponent(name); } catch { return name; }   // a percent sign that escapes nothing
};
const followLink = async (event) => {
  const link = event.target.closest?.('a[href^="#node="]');
  if (!link || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const name = linkedName(link);
  const notebook = link.closest('.jp-Notebook') ?? document;
  const isBefore = (one, other) => (other.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING) !== 0;
  const graphs = [...globalThis.onnxlabGraphs].filter(({ whole }) => whole.isConnected && notebook.contains(whole));
  graphs.sort((one, other) => (isBefore(one.whole, other.whole) ? -1 : 1));
  const above = graphs.filter(({ whole }) => isBefore(whole, link)).reverse();
  for (const graph of [...above, ...graphs.slice(above.length)]) {
    if (await graph.reveal(name)) return;
  }
};
const knownGraphs = () => {
  if (!globalThis.onnxlabGraphs) {
    globalThis.onnxlabGraphs = new Set();
    window.addEventListener('click', followLink, true);
  }
  return globalThis.onnxlabGraphs;
};
const DRAWING = 2000; // milliseconds that a link waits for a graph to be drawn; one that is out of sight may never be

// One pane is one model in one frame.
const showPane = (model, pane, row, kit, { select, moved, grouped, settled }) => {
  const title = model.get('_titles')[pane];
  const tr = speech(model, '_translations');
  const column = document.createElement('figure');
  Object.assign(column.style, { flex: `1 1 ${LEAST.width}px`, minWidth: 0, margin: 0 });
  // A model without a name has an empty line above it, so that both graphs begin at the same height.
  if (title !== undefined) {
    const caption = Object.assign(document.createElement('figcaption'), { textContent: title || '\u00a0' });
    caption.style.marginTop = '6px'; // a cell's printed lines end right above
    column.append(caption);
  }
  const box = frameBox(model.get('_height'));
  column.append(box);
  row.append(column);
  let closed = false;
  const started = takeWaiting(model.get('_kit'), box, () => closed);
  const opened = started ?? openFrame(false);
  const { frame, send } = opened;
  frame.className = 'onnxlab-graph';
  frame.title = title ? tr('Graph of {name}', { name: title }) : tr('Graph of the model');
  if (!started) box.append(frame);
  const picture = model.get('_pictures')?.[pane];
  const still = picture ? pictureBox(picture) : null;
  if (still) box.append(still);
  let question = null; // of a link: the identifier of a node
  const answerLink = (id) => { question?.resolve(id); question = null; };
  const find = (name) => new Promise((resolve) => {
    answerLink('');
    const own = question = { name, resolve };
    if (frame.dataset.status === 'ready') send({ kind: 'find', name });
    else setTimeout(() => { if (question === own) answerLink(''); }, DRAWING);
  });
  const fail = (error) => { box.replaceWith(messageBox(error.message)); settled(false); };
  const content = () => ask(model, { kind: 'model', pane, grouped: grouped() });
  const sent = model.get('_sent')?.[pane];
  let answer = sent ? Promise.resolve({ message: sent, buffers: sent.buffers.map(copyOf) }) : content();
  answer.catch(() => {});
  const handlers = {
    hello: async () => {
      delete frame.dataset.status;
      const { message, buffers: [bytes, operators] } = await (answer ?? content());
      answer = null;
      const start = { kind: 'start', model: await unzip(bytes), operators: textOf(await unzip(operators)), find: tr('Find operator or name'), ...message };
      send({ ...start, marks: model.get('_marks')[pane], dark: isDark() });
    },
    again: () => load(),
    ready: ({ nodes }) => {
      frame.dataset.nodes = nodes;
      frame.dataset.status = 'ready';
      still?.remove();
      settled(true);
      if (question) send({ kind: 'find', name: question.name });
    },
    failed: ({ text }) => fail(new Error(tr('Netron cannot draw this graph: {text}', { text }))),
    selected: ({ id }) => select(String(id), pane),
    found: ({ id }) => answerLink(String(id)),
    moved: (place) => moved(place, pane),
    weight: async ({ request, location }) => {
      try {
        const { buffers: [bytes] } = await ask(model, { kind: 'weight', pane, location: String(location) });
        send({ kind: 'weight', request, bytes });
      } catch (error) { send({ kind: 'weight', request, error: error.message }); }
    },
    save: ({ name, blob }) => {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = String(name);
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    },
    run: () => {
      const enter = { key: 'Enter', code: 'Enter', keyCode: 13, shiftKey: true };
      frame.dispatchEvent(new KeyboardEvent('keydown', { ...enter, bubbles: true, cancelable: true, composed: true }));
    },
    dropped: ({ files }) => model.dropped?.(files),   // on the site's page that opens files
    open: ({ url }) => { if (/^https:\/\//.test(url)) window.open(url, '_blank', 'noopener,noreferrer'); },
  };
  opened.listen((data) => {
    if (Object.hasOwn(handlers, data.kind)) Promise.resolve(handlers[data.kind](data)).catch(fail);
  });
  const load = () => kit.then(opened.load, fail);
  if (!started) load();
  return { send, load, find, close: () => { closed = true; opened.close(); column.remove(); } };
};

const render = ({ model, el }) => {
  const row = document.createElement('div');
  Object.assign(row.style, { display: 'flex', flexWrap: 'wrap', gap: '4px', width: '100%' });
  // To click a graph is not to go back to its cell: JupyterLab would make it the active one, which Shift+Enter runs.
  row.addEventListener('focusin', (event) => event.stopPropagation());
  const whole = document.createElement('div');
  whole.style.background = 'var(--jp-layout-color0, Canvas)';
  whole.append(row);
  el.append(whole);
  const kit = netronKit(model);
  const select = (id, from) => {
    const pairs = Object.entries(model.get('_pairs'));
    const partner = pairs.find((pair) => pair[from] === id)?.[1 - from];
    if (panes.length > 1) panes[1 - from].send({ kind: 'select', id: partner ?? '' });
    model.set('_selected', [from, id]);
    model.save_changes();
  };
  const together = { on: false };
  const moved = ({ zoom, left, top }, from) => {
    if (together.on) panes[1 - from].send({ kind: 'move', zoom: Number(zoom), left: Number(left), top: Number(top) });
  };
  let grouped = model.get('_groups').some((count) => count > 0);
  const more = [];
  if (grouped) {
    const choose = (value) => { grouped = value; panes.forEach((pane) => pane.load()); };
    more.push(groupButton(model.get('_groups'), choose, speech(model, '_translations')));
  }
  const notes = document.createElement('div');
  el.append(notes);
  const showNotes = () => notes.replaceChildren(...model.get('_notes').map(noteBox));
  showNotes();
  // With a picture in the frame's place, the saved one is not needed any more; without one, it stays until all is drawn.
  let showSaved = model.get('_pictures')?.every(Boolean) ? hideSaved(row, '.onnxlab-still') : null;
  const settled = (drawn) => {
    if (!drawn) { showSaved?.(); showSaved = () => {}; return; }
    if (row.querySelector('iframe:not([data-status=ready])')) return;
    showSaved ??= hideSaved(row, '.onnxlab-still');
    kit.then((files) => setTimeout(() => keepWaiting(model.get('_kit'), files), 300));
  };
  const panes = model.get('_marks').map((_, index) => showPane(model, index, row, kit, { select, moved, grouped: () => grouped, settled }));
  const buttons = viewButtons(whole, panes, together, speech(model, '_translations'));
  buttons.append(...more);
  whole.append(buttons);
  if (model.get('_words')) row.append(wordsBox(model.get('_words')));
  const all = (message) => panes.forEach((pane, index) => pane.send(message(index)));
  const themed = new MutationObserver(() => all(() => ({ kind: 'theme', dark: isDark() })));
  themed.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light', 'class'] });
  const listeners = {
    'change:_marks': () => all((index) => ({ kind: 'marks', marks: model.get('_marks')[index] })),
    'change:_to_select': () => {
      const [pane, id] = model.get('_to_select');
      panes[pane].send({ kind: 'select', id });
      select(id, pane);
    },
    'change:_notes': showNotes,
  };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  const reveal = async (name) => {
    for (const [pane, { send, find }] of panes.entries()) {
      const id = await find(name);
      if (!id) continue;
      whole.scrollIntoView({ block: 'nearest' });
      send({ kind: 'select', id });
      select(id, pane);
      return true;
    }
    return false;
  };
  const linked = { whole, reveal };
  knownGraphs().add(linked);
  return () => {
    knownGraphs().delete(linked);
    themed.disconnect();
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
    panes.forEach((pane) => pane.close());
    showSaved?.();
  };
};

// Has a frame wait for the first graph of a page.
const prepare = (model) => netronKit(model).then((files) => keepWaiting(model.get('_kit'), files));

export default { render, prepare };
