// The theme's search box. Pagefind answers, whose index is cut into pieces and knows Chinese words; an error message is
// looked up as on the page of messages (why.js).

const here = document.currentScript.src;
const site = new URL('../../', here);   // the folder of both languages
const tr = (text) => globalThis.onnxlabWords[text] ?? text;
const MOST = 12;

const index = () => (globalThis.onnxlabPagefind ??= import(new URL('pagefind/pagefind.js', site).href));

// Pagefind shortens a word that it does not know until something begins with it, and splits Chinese words at other
// places than its index does: a page is shown only if it contains each word (of a longer word, its first four letters).
// A query is cut where Chinese and Latin letters meet: people type no space there, and the pages have one.
const pieces = (query) => query.toLowerCase().match(/[\u3400-\u9fff]+|[^\s\u3400-\u9fff]+/g) ?? [];
const has = (page, query) => pieces(query).every((word) =>
  page.content.toLowerCase().includes(word.slice(0, 4)) || page.meta.title.toLowerCase().includes(word.slice(0, 4)));

// What people type, and what the course says.
const alike = (query) => {
  const synonyms = globalThis.onnxlabWords.synonyms ?? {};
  const typed = pieces(query).join(' ');
  return [typed, ...Object.keys(synonyms).filter((word) => typed.includes(word)).map((word) => typed.replace(word, synonyms[word]))];
};

const pagesWith = async (query) => {
  const pagefind = await index();
  const byId = new Map();
  const queries = alike(query);
  for (const words of queries.flatMap((same) => /[\u3400-\u9fff]/.test(same) ? [same, ...pieces(same).map((word) => /[\u3400-\u9fff]/.test(word) ? word[0] : word)] : [same])) {
    const { results } = await pagefind.search(words);
    for (const result of results.slice(0, 3 * MOST)) if (!byId.has(result.id)) byId.set(result.id, result);
  }
  const pages = await Promise.all([...byId.values()].map((result) => result.data()));
  const titled = (page) => queries.some((same) => pieces(same).every((word) => page.meta.title.toLowerCase().includes(word)));
  // Pages with the words in their titles stand first, in the order of the course: that of the sidebar.
  const course = [...document.querySelectorAll('.bd-links a')].map(({ href }) => href.replace('#', ''));
  const place = ({ url }) => (course.indexOf(new URL(url, here).href) + 1) || course.length + 1;
  const order = (a, b) => titled(b) - titled(a) || titled(a) * (place(a) - place(b));
  return pages.filter((page) => queries.some((same) => has(page, same))).sort(order).slice(0, MOST);
};

// The sections of a page in which it was found; the whole page counts only if no section has the words.
const parts = (page) => {
  const sections = page.sub_results.filter((part) => part.url.includes('#'));
  return (sections.length ? sections : [page]).slice(0, 2);
};

const entry = (url, title, rest = {}) => {
  const link = document.createElement('a');
  link.href = url;   // Pagefind knows the site's own path
  link.append(Object.assign(document.createElement('strong'), { textContent: title }), Object.assign(document.createElement('span'), rest));
  const item = document.createElement('li');
  item.append(link);
  return item;
};

// An excerpt is from our own pages, with <mark> around what was found.
const entries = (page) => parts(page).map(({ url, title, excerpt: innerHTML }) =>
  entry(url, title && title !== page.meta.title ? `${page.meta.title}: ${title}` : page.meta.title, { innerHTML }));

const known = ({ page, title, cause, fix }) => {
  const item = entry(page, title, { textContent: `${cause} ${tr('What helps:')} ${fix}` });
  item.className = 'known';
  return item;
};

const lookUp = (query) => entry(new URL(`../errors.html?q=${asked(query)}`, here), tr('Look it up among the error messages'));
const asked = (query) => encodeURIComponent(query.slice(0, 1500));   // an address has an end

// Nothing was found: the page of messages, the first words alone, and the place to report it.
const nextSteps = async (query) => {
  const steps = [lookUp(query)];
  const words = query.match(/[\p{L}\p{N}_]{4,}|[\u3400-\u9fff]{2,}/gu) ?? [];
  for (let count = Math.min(3, words.length - 1); count; count--) {
    const first = words.slice(0, count).join(' ');
    if (!(await pagesWith(first)).length) continue;
    steps.push(entry(new URL(`../search.html?q=${encodeURIComponent(first)}`, here), tr('Search for its first words'), { textContent: first }));
    break;
  }
  const { report } = globalThis.onnxlabWords;
  if (report) steps.push(entry(`${report}?title=${asked(query)}`, tr('Report it')));
  return steps;
};

document.addEventListener('DOMContentLoaded', () => {
  const dialog = document.getElementById('pst-search-dialog');
  const field = dialog.querySelector('input');
  const list = dialog.querySelector('ul');
  const status = dialog.querySelector('[role=status]');
  let searches = 0;
  let pasted = '';   // with its lines, which the field makes one
  const plain = (text) => text.replace(/\s+/g, '');
  const search = async () => {
    const query = field.value.trim();
    const mine = ++searches;
    if (!query) { list.replaceChildren(); status.textContent = ''; return; }
    const failed = (text) => { list.replaceChildren(lookUp(query)); status.textContent = tr(text); };
    if (location.protocol === 'file:') return failed('Search needs a web server: a browser does not let a page on a disk read its index.');
    try {
      const message = plain(pasted) === plain(query) ? pasted : query;
      const [answers, pages] = await Promise.all([globalThis.onnxlabWhy(message), pagesWith(query)]);
      const found = [...answers.map(known), ...pages.flatMap(entries)];
      const shown = found.length ? found : await nextSteps(message);
      if (mine !== searches) return;   // somebody typed on meanwhile
      list.replaceChildren(...shown);
      status.textContent = answers.length ? tr('This error message is known:') : found.length ? '' : tr('Nothing found.');
    } catch { failed('The search index could not be loaded.'); }
  };
  field.addEventListener('paste', (event) => { pasted = event.clipboardData.getData('text'); });
  field.addEventListener('input', search);
  dialog.querySelector('form').addEventListener('submit', (event) => { event.preventDefault(); list.querySelector('a')?.click(); });
  dialog.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const stops = [field, ...list.querySelectorAll('a')];
    const at = stops.indexOf(document.activeElement) + step;
    stops[Math.min(Math.max(at, 0), stops.length - 1)].focus();
  });
  if (location.pathname.endsWith('/search.html')) {
    dialog.showModal();
    field.value = new URLSearchParams(location.search).get('q') ?? '';
    search();
  }
  dialog.addEventListener('click', (event) => { if (event.target.closest('a')) dialog.close(); });
});
