// What a pasted message means: `onnxlab why` in the page. Table and expressions come from
// src/onnxlab/diagnosis/messages.py, which does the same in Python; a test holds that both give the same answers.

const here = globalThis.document?.currentScript.src;
const tr = (text) => globalThis.onnxlabWords?.[text] ?? text;
const TABLE = 'messages.js';

let loading;
const loaded = () => loading ??= new Promise((resolve, reject) => {   // data in a script load from a disk, too
  if (globalThis.onnxlabData?.[TABLE]) { resolve(globalThis.onnxlabData[TABLE]); return; }
  const script = document.createElement('script');
  Object.assign(script, { src: new URL(TABLE, here).href, onload: () => resolve(globalThis.onnxlabData[TABLE]) });
  script.onerror = () => { loading = undefined; reject(new Error(tr('The answers to messages could not be loaded.'))); };
  document.head.append(script);
});

const expressions = new Map();
const bare = (text) => text.replace(/[ '"`]/g, '').toLowerCase();
const matched = ([source, gaps, needle], part) => {
  if (!part.text || !(part.bare ??= bare(part.text)).includes(needle)) return null;
  if (!expressions.has(source)) expressions.set(source, new RegExp(source, 'is'));
  const found = expressions.get(source).exec(part.text);
  if (!found) return null;
  const fields = Object.fromEntries(gaps.map((gap, i) => [gap, found[i + 1].replace(/^[ '"`.,;:)]+|[ '"`.,;:)]+$/g, '')]));
  return { fields: Object.fromEntries(Object.entries(fields).filter(([, value]) => value)), end: found.index + found[0].length };
};

const partsOf = (text, { cleaning, beginning }) => {
  for (const [source, instead] of cleaning) text = text.replace(new RegExp(source, 'gm'), instead);
  const begins = [...text.matchAll(new RegExp(`^[ \\t]*(?=${beginning})`, 'gm'))].map((match) => match.index);
  const pieces = [0, ...begins].map((begin, i) => text.slice(begin, begins[i]));
  const parts = [...pieces.reverse(), text, text.replace(/\n/g, '')].map((part) => part.replace(/[ \t\n\r\f\v\xa0]+/g, ' ').replace(/^ | $/g, ''));
  return [...new Set(parts)].map((part) => ({ text: part }));
};

const framesOf = (part, { stages }) => {
  const found = stages.map(({ name, frames }) => [name, frames.map((frame) => matched(frame, part)).find(Boolean)]);
  return new Map(found.filter(([, match]) => match));
};

const filled = (sentences, fields, types) => {
  const values = { ...fields };
  for (const [name, value] of Object.entries(fields)) values[`${name}_numpy`] = types[value] ?? value;
  const gaps = (form) => [...form.matchAll(/\{(\w+)\}/g)].map((gap) => gap[1]);
  return sentences.map((forms) => forms.find((form) => gaps(form).every((gap) => gap in values)) ?? '').filter(Boolean)
    .map((form) => form.replace(/\{(\w+)\}/g, (_, gap) => values[gap])).join(' ');
};

const TIERS = { message: 0, kind: 1, warning: 1, wrapper: 2 };
const before = (a, b) => { const i = a.findIndex((value, j) => value !== b[j]); return i < 0 ? 0 : a[i] - b[i]; };

const address = (page) => (here ? new URL(`../${page}`, here).href : page);

const explained = (parts, table, most) => {
  const ranked = new Map();
  parts.forEach((part, place) => {
    const { frames } = part;
    const [stage, frame] = [...frames][0] ?? [];
    table.kinds.forEach((kind, number) => {
      let { certainty } = kind;
      const where = certainty !== 'kind' ? part : { text: kind.stage === stage ? part.text.slice(frame.end) : '' };
      let fields = kind.texts.map((wording) => matched(wording, where)).find(Boolean)?.fields;
      if (!fields && kind.stage === stage && kind.operators.includes(frame.fields.op)) [certainty, fields] = ['kind', {}];
      if (!fields) return;
      const rank = [TIERS[certainty], place, Number(certainty === 'kind'), number];
      if (ranked.has(kind.name) && before(rank, ranked.get(kind.name).rank) >= 0) return;
      const known = { ...frames.get(kind.stage)?.fields, ...fields };
      const [cause, fix] = [kind.cause, kind.fix].map((sentences) => filled(sentences, known, table.types));
      const page = address(`errors/${kind.name}.html`);
      ranked.set(kind.name, { rank, answer: { name: kind.name, certainty, title: kind.title, cause, fix, page } });
    });
  });
  const best = [...ranked.values()].sort((a, b) => before(a.rank, b.rank)).map(({ answer }) => answer);
  return best.slice(0, best[0]?.certainty === 'message' ? 1 : most);
};

// For the search box, too: the answers to a message, the best first, each with the address of its page; none if it
// is unknown, and then `stage` of the result says where it comes from, if anything does.
globalThis.onnxlabWhy = async (text, most = 3) => {
  const table = await loaded();
  const parts = partsOf(text, table).map((part) => Object.assign(part, { frames: framesOf(part, table) }));
  const answers = explained(parts, table, most);
  const frame = parts.map(({ frames }) => [...frames.keys()][0]).find(Boolean);
  const paths = [...text.matchAll(new RegExp(table.package, 'g'))].map((file) => `${file[1].replaceAll('\\', '/')}/`).reverse();
  const inPackage = (path) => table.stages.find(({ packages }) => packages.some((begin) => path.startsWith(begin)));
  const stage = frame ? table.stages.find(({ name }) => name === frame) : paths.map(inPackage).find(Boolean);
  return Object.assign(answers, { stage });
};

const make = (tag, ...content) => { const node = document.createElement(tag); node.append(...content); return node; };
const link = (title, href) => Object.assign(make('a', title), { href });

globalThis.document?.addEventListener('DOMContentLoaded', () => {
  const place = document.querySelector('.onnxlab-why');
  if (!place) return;
  const field = document.createElement('textarea');
  Object.assign(field, { rows: 5, placeholder: tr('Paste an error message, or a whole traceback.') });
  field.setAttribute('aria-label', field.placeholder);
  const result = document.createElement('div');
  result.setAttribute('role', 'status');
  let asked = 0;
  const answer = async () => {
    const mine = ++asked;
    const text = field.value.trim();
    let content = [];
    try {
      const answers = text ? await onnxlabWhy(text) : [];
      if (mine !== asked) return;   // somebody typed on meanwhile
      const [first, ...others] = answers;
      const { stage } = answers;
      if (first) {
        content = [make('p', first.cause), make('p', make('strong', `${tr('What helps:')} `), first.fix), make('p', link(first.title, first.page))];
        if (first.certainty === 'kind') content.unshift(make('p', make('em', tr('The kind of fault is known, not this message:'))));
        if (others.length) {
          const list = make('ul', ...others.map((other) => make('li', `${other.cause} `, link(other.title, other.page))));
          content.push(make('details', make('summary', tr('Less likely:')), list));
        }
      } else if (stage) {
        content = [make('p', make('strong', tr('This message is not known.')), ` ${stage.title[0].toUpperCase()}${stage.title.slice(1)}: ${stage.what}`), make('ul', ...stage.steps.map((step) => make('li', step))), make('p', link(stage.explained, address(stage.page)))];
      } else if (text) {
        content = [make('p', tr('No message that the course knows is like this one. Look at the stage: does the export fail, the loading of the file, or a run? Then search for the operator.'))];
      }
    } catch (error) { content = [make('p', error.message)]; }
    result.replaceChildren(...content);
  };
  field.addEventListener('input', answer);
  place.append(field, result);
  field.value = new URLSearchParams(location.search).get('q') ?? '';   // the search box leads here
  answer();
});
