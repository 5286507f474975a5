// Which known message a pasted one is: the rare words that both have. `onnxlab why` does the same in a terminal.

const words = globalThis.onnxlabWords;
const tr = (text) => words[text] ?? text;
const ENOUGH = 0.55;
const FEW = 3;   // words of a message that must all be there
const wordsOf = (text) => new Set((text.match(/[A-Za-z_][A-Za-z_]{2,}/g) ?? []).map((word) => word.toLowerCase()));

const messagesOf = (page) => [...page.querySelectorAll('li:has(> p > code), li:has(> code)')].map((item) => ({
  item, texts: [...item.querySelectorAll('code')].filter((code) => code.nextSibling?.nodeName === 'BR').map((code) => wordsOf(code.textContent)),
})).filter(({ texts }) => texts.length);

const ranked = (text, messages) => {
  const counts = new Map();
  for (const { texts } of messages) for (const word of new Set(texts.flatMap((own) => [...own]))) counts.set(word, (counts.get(word) ?? 0) + 1);
  const rarity = (own) => [...own].reduce((sum, word) => sum + Math.log(1 + messages.length / counts.get(word)), 0);
  const lines = text.split('\n').map((line) => line.trim()).filter(Boolean);
  const windows = lines.map((_, i) => wordsOf(lines.slice(i, i + 4).join(' ')));
  const score = (own) => {
    const commons = windows.map((window) => [...own].filter((word) => window.has(word)))
      .filter((common) => own.size > FEW || common.length === own.size);
    const common = Math.max(0, ...commons.map(rarity));
    return common >= ENOUGH * rarity(own) ? common : 0;
  };
  return messages.map((message) => ({ ...message, score: Math.max(...message.texts.map(score)) }))
    .filter((message) => message.score).sort((a, b) => b.score - a.score).slice(0, 3);
};

// For the search box, too: the answers to a message, the best first, each with its place on the page of messages.
const errors = new URL('../errors.html', document.currentScript.src);
const fetched = async () => messagesOf(new DOMParser().parseFromString(await (await fetch(errors)).text(), 'text/html'));
let messages = null;
globalThis.onnxlabWhy = async (text) => {
  messages ??= fetched().catch((error) => { messages = null; throw error; });
  return ranked(text, await messages).map(({ item }) => {
    const rest = item.cloneNode(true);
    const title = rest.querySelector('code').textContent;
    rest.querySelectorAll('a, code:has(+ br)').forEach((part) => part.remove());
    const [cause, cure] = rest.textContent.split(rest.querySelector('strong').textContent);
    return { title, cause: cause.trim(), cure: cure.trim(), page: `${errors.href}#${item.querySelector('[id]').id}` };
  });
};

document.addEventListener('DOMContentLoaded', () => {
  const place = document.querySelector('.onnxlab-why');
  if (!place) return;
  const known = messagesOf(document);
  const field = document.createElement('textarea');
  Object.assign(field, { rows: 5, placeholder: tr('Paste an error message, or a whole traceback.') });
  field.setAttribute('aria-label', field.placeholder);
  const answers = document.createElement('ul');
  const status = document.createElement('p');
  status.setAttribute('role', 'status');
  const copyOf = (item) => {
    const copy = item.cloneNode(true);
    copy.querySelectorAll('[id]').forEach((part) => part.removeAttribute('id'));
    return copy;
  };
  const answer = () => {
    const best = ranked(field.value, known);
    answers.replaceChildren(...best.map(({ item }) => copyOf(item)));
    status.textContent = best.length || !field.value.trim() ? '' : tr('No message that the course knows is like this one. Look at the stage: does the export fail, the loading of the file, or a run? Then search for the operator.');
  };
  field.addEventListener('input', answer);
  place.append(field, status, answers);
  field.value = new URLSearchParams(location.search).get('q') ?? '';   // what the search found nothing for
  answer();
});
